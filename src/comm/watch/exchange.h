/* Records between hosts: one thread of each rank answers what its host's page says, and asks the threads of other hosts
 * while its rank waits for theirs. The rank itself reads what was heard, and never waits for a socket.
 *
 * A world on one host has no exchange: no socket, no thread. In one of several hosts each host is greeted once, at the
 * start (whether it can be reached at all); then nothing is said until a rank waits for longer than a second. */
#ifndef MEGA_EXCHANGE_H
#define MEGA_EXCHANGE_H

#include "watch/record_impl.h"

enum { EXCHANGE_HOST = 64 /* bytes of a host's name */ };

/* What is known of another host as a whole. Times count while it is asked, and start anew with each wait. */
typedef struct host_news {
    const char *name;
    const int *rank; /* world ranks that are there, in order */
    int ranks;
    bool reached;    /* it has answered at least once: where it never did, its silence says nothing */
    double silent;   /* seconds without a sign of life, not even of its system */
    double refusing; /* seconds for which its system has refused every connection: its ranks are gone */
    double mute;     /* seconds without an answer */
    int dead;        /* one of its ranks, which it calls dead; -1: none */
    int error;       /* errno of the last failure to reach it; 0: none */
} host_news;

/* Collective over the world, after record_open's page. Where this rank has no socket or no thread the others are told,
 * and the world goes on without what it would say. */
mega_status exchange_open(mega_world *world);
void exchange_close(mega_world *world);
/* From now on the hosts of these ranks are asked about them; again and again, as the list grows. */
void exchange_ask(mega_world *world, const int *ranks, int count);
void exchange_rest(mega_world *world); /* until the next wait */
/* The last that was heard of a rank, `age` as it would be now. False: nothing, or it is of this host. */
bool exchange_read(const mega_world *world, int rank, double now, record_view *out, double *stale);
/* Of the host of this rank; false: it is this host. */
bool exchange_host(const mega_world *world, int rank, host_news *out);
/* The first rank of those that were asked about whose host is of interest by `is`; -1: none. */
int exchange_find(const mega_world *world, bool (*is)(const host_news *news));
int exchange_turn(const mega_world *world); /* of this host among the hosts: who tells first */

#endif
