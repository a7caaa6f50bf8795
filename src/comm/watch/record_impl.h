/* The page of records that the ranks of a host share, and the functions that read records. */
#ifndef MEGA_RECORD_IMPL_H
#define MEGA_RECORD_IMPL_H

#include "comm_impl.h"
#include "megalith/core_lending.h"
#include "megalith/record.h"
#include "watch/record_wire.h"

#include <stdatomic.h>

/* Written only by its rank, at any time, even while others read: a reader may see half of a change. Every text ends
 * inside its field, whatever is being written. */
struct mega_record {
    _Alignas(64) _Atomic int pid; /* 0: not started yet */
    _Atomic int rank, state;
    _Atomic int is_long; /* its phase may take long */
    uint64_t started;    /* start time of the process: a later process may get the same id */
    double since;        /* when this state began */
    int64_t step, micro_batch;
    char phase[32], scope[RECORD_NAME];
    int kind;        /* comm_kind of the last call; -1: none yet */
    uint64_t number; /* number of that call */
    char name[RECORD_NAME], group[MEGA_COMM_NAME];
    bool is_scope_fresh;                      /* the scope was set for the next call */
    int num_missing, missing[RECORD_MISSING]; /* world ranks that it waits for, in a long wait */
    bool takes_cores;                         /* other ranks may lend it their cores */
    mega_seat seat;                           /* of the thread that calls; not at work while it waits */
};

typedef struct record_page {
    uint64_t nonce;                  /* identifies the world */
    _Atomic int ender;               /* 1 + the rank that reports the failure and ends all ranks; 0: none */
    _Atomic int64_t first_report_ms; /* time of the first report; 0: none */
    _Atomic int stops;               /* a signal has asked a rank of the host to stop */
    struct mega_record slot[];       /* by local rank */
} record_page;

/* Collective: opens the page of the host and the exchange between hosts. If no page can be shared, each rank has its
 * own. */
mega_status record_open(mega_world *world);
/* This rank makes no more calls, because it is done or has failed; its record stays readable until it is closed. */
void record_leave(mega_world *world, record_state state);
void record_close(mega_world *world);

/* Reads the record of any rank: from this host's page, or as the exchange last received it. Returns false if there is
 * none. *stale: seconds since it was read. */
bool record_read(const mega_world *world, int rank, record_view *out, double *stale);
/* Returns the record of another rank; NULL if it is not in this page. */
const struct mega_record *record_of(const mega_world *world, int rank);
/* returns false if its rank has not started yet */
bool record_read_slot(const struct mega_record *slot, double now, record_view *out);

/* Called around a wait of this rank. */
void record_wait_begin(mega_world *world, const comm_op *op, double now);
void record_wait_end(mega_world *world);
/* Lends the core of this waiting rank to `rank`, if that is on this host and another process keeps it from running.
 * Until record_wait_end. */
bool record_lend_core(mega_world *world, int rank);
/* whether it is lent to a rank that still works; otherwise takes it back */
bool record_core_is_lent(mega_world *world);
void record_take_back_core(mega_world *world);
/* Returns the first dead rank of this host; -1: none. A rank that failed and should end the others counts only
 * STALL_FOLLOW_S after its failure: it has then not been able to end them. */
int record_dead(const mega_world *world);

#endif
