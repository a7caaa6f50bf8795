/* The page of records that the ranks of a host share, what other hosts tell of theirs, and who reads them. */
#ifndef MEGA_RECORD_IMPL_H
#define MEGA_RECORD_IMPL_H

#include "comm_impl.h"
#include "megalith/record.h"
#include "megalith/seat.h"
#include "watch/record_wire.h"

#include <stdatomic.h>

/* Written by its rank alone, at any time, also while others read: a reader may see half of a change. Every text ends
 * inside its field, whatever is being written. */
struct mega_record {
    _Alignas(64) _Atomic int pid; /* 0: not there yet */
    _Atomic int rank, state;
    _Atomic int is_long; /* what it does may take long */
    uint64_t started;    /* of the process, by the system's clock: a later process may get the same number */
    double since;        /* in this state */
    int64_t step, micro_batch;
    char phase[32], scope[RECORD_NAME];
    int kind;        /* comm_kind of the last call; -1: none yet */
    uint64_t number; /* of that call */
    char name[RECORD_NAME], group[MEGA_COMM_NAME];
    bool is_scope_fresh;                      /* set for the call that comes next */
    int num_missing, missing[RECORD_MISSING]; /* world ranks; while it waits for long */
    bool takes_cores;                         /* others may lend it theirs */
    mega_seat seat;                           /* of the thread that calls; not at work while it waits */
};

typedef struct record_page {
    uint64_t nonce;            /* of this world */
    _Atomic int ender;         /* 1 + rank that tells the failure that ends all; 0: nobody */
    _Atomic int64_t told;      /* milliseconds, when a first report was told; 0: none */
    _Atomic int stops;         /* a rank of the host has been asked by a signal to stop */
    struct mega_record slot[]; /* by rank on the host */
} record_page;

/* Collective: of the host the page, of the world the exchange between hosts. Where no page can be shared, each has one
 * of its own. */
mega_status record_open(mega_world *world);
/* This rank will make no more calls, as all is done or as it has failed; its record can be read until it is closed. */
void record_leave(mega_world *world, record_state state);
void record_close(mega_world *world);

/* Of any rank, as far as this one knows: of its host, or as the exchange has heard of it. False: nothing. *stale: since
 * when it may have changed, in seconds. */
bool record_read(const mega_world *world, int rank, record_view *out, double *stale);
/* Of another rank; NULL where its page is not this one. */
const struct mega_record *record_of(const mega_world *world, int rank);
bool record_read_slot(const struct mega_record *slot, double now, record_view *out); /* false: not there yet */

/* Around a wait of this rank. */
void record_wait_begin(mega_world *world, const comm_op *op, double now);
void record_wait_end(mega_world *world);
/* While it waits for this rank: gives it its core, if the rank is of this host and another process keeps it from
 * running. Until record_wait_end. */
bool record_lend_core(mega_world *world, int rank);
bool record_core_is_lent(mega_world *world); /* to a rank that still works; else it is taken back */
void record_take_back_core(mega_world *world);
/* The first dead rank of this host; -1: none. A rank that failed and ends the others counts STALL_FOLLOW_S after it
 * said so: only if it could not end them. */
int record_dead(const mega_world *world);

#endif
