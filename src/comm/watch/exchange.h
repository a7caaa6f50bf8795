/* Exchanges records between hosts: one thread per rank answers queries from its host's page, and while its rank waits
 * it queries the threads of other hosts. The rank itself only reads what was received, and never waits for a socket.
 *
 * A world on one host has no exchange: no socket, no thread. With several hosts, each host is contacted once at the
 * start, to see whether it can be reached; then nothing is sent until a rank waits for longer than a second. */
#ifndef MEGA_EXCHANGE_H
#define MEGA_EXCHANGE_H

#include "watch/record_impl.h"

enum { EXCHANGE_HOST = 64 /* bytes of a host name */ };

/* What is known about another host. The times run while it is queried, and restart with each wait. */
typedef struct host_status {
    const char *name;
    const int *rank; /* world ranks on that host, ascending */
    int ranks;
    bool reached;    /* it has answered at least once; if it never did, its silence means nothing */
    double silent;   /* seconds without a sign of life, even from its operating system */
    double refusing; /* seconds for which it has refused every connection: its ranks are gone */
    double mute;     /* seconds without an answer */
    int dead;        /* a rank that it reports as dead; -1: none */
    int error;       /* errno of the last failed contact; 0: none */
} host_status;

/* Collective over the world, after record_open has opened the page. If this rank gets no socket or no thread, the
 * other ranks are informed, and stall reports contain no answer of this rank. */
mega_status exchange_open(mega_world *world);
void exchange_close(mega_world *world);
/* Queries the hosts of these ranks from now on; may be called again as the list grows. */
void exchange_query_start(mega_world *world, const int *ranks, int count);
void exchange_query_stop(mega_world *world); /* stops querying until the next wait */
/* Returns the last record received of a rank, with `age` extended to now. False: none, or the rank is on this host. */
bool exchange_read(const mega_world *world, int rank, double now, record_view *out, double *stale);
/* Returns what is known about the host of this rank; false: it is this host. */
bool exchange_host(const mega_world *world, int rank, host_status *out);
/* Returns the first of the queried ranks for whose host `is` holds; -1: none. */
int exchange_find(const mega_world *world, bool (*is)(const host_status *news));
int exchange_host_index(const mega_world *world); /* index of this host: the order in which hosts report */

#endif
