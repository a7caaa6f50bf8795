/* Shared by the files of the exchange: the thread's state, and the part that it shares with its rank. */
#ifndef MEGA_EXCHANGE_IMPL_H
#define MEGA_EXCHANGE_IMPL_H

#include "watch/exchange.h"
#include "watch/sockets.h"

#include <pthread.h>

enum {
    EXCHANGE_ADDRESSES = 8, /* per host */
    EXCHANGE_INBOUND = 512, /* most inbound connections; the one that was quiet for longest is closed */
    EXCHANGE_OUTBOUND = 24, /* outbound connections of this rank */
    CONNECTIONS_A_HOST = 4
};

/* What each rank announces to all while the world is created. */
typedef struct exchange_place {
    int32_t leader;           /* the first world rank of those that share its page; it identifies the host */
    uint16_t port, addresses; /* port 0: it does not answer queries */
    socket_address address[EXCHANGE_ADDRESSES];
    char host[EXCHANGE_HOST];
    unsigned char secret[WIRE_SECRET]; /* that of rank 0 is used */
} exchange_place;

typedef struct exchange_inbound {
    int fd; /* -1: none */
    double since;
    uint64_t turn;          /* of its arrival or last query: times may be equal, turns are not */
    size_t got, size, sent; /* received of the query; of the answer: its size, sent */
    wire_ask ask;
    wire_answer answer;
} exchange_inbound;

typedef struct far_host {
    char name[EXCHANGE_HOST];
    int leader, first, ranks; /* its ranks are exchange.rank[first …] */
    socket_address address[EXCHANGE_ADDRESSES];
    int addresses, known; /* how many; the one that works, -1: not known yet */
    int turn;             /* counts the combinations of rank and address tried */
    bool wanted, sign;    /* this rank waits for one of its ranks; a sign of life since the last check */
    int refusals;         /* in a row */
    double opened;        /* when the last connection was opened */
    host_status news;     /* protected by the mutex */
} far_host;

typedef enum outbound_state { OUTBOUND_FREE, OUTBOUND_CONNECTING, OUTBOUND_ASKED, OUTBOUND_READY } outbound_state;

typedef struct exchange_outbound {
    outbound_state state;
    int fd, rank, address;
    far_host *host;
    double since; /* when this state began */
    size_t sent, got;
    wire_ask ask;
    wire_answer answer;
} exchange_outbound;

typedef struct heard_record {
    record_view view;
    double when; /* time of arrival; 0: never */
} heard_record;

struct record_exchange {
    const mega_world *world; /* only the page and constant fields of it are read */
    unsigned char secret[WIRE_SECRET];
    int hosts, home; /* number of hosts; index of this host */
    far_host *host;  /* ordered by their first ranks */
    int *rank;       /* world ranks, grouped by host */
    int *host_of;    /* host index by rank */
    uint16_t *port;  /* port by rank */
    bool asks;       /* used by the rank only, not by the thread */
    int wake;        /* an eventfd that wakes the thread */
    _Atomic bool ending;
    bool has_thread;
    pthread_t thread;
    pthread_mutex_t mutex; /* protects the fields below, held only while copying */
    int wanted[WIRE_RANKS], num_wanted;
    heard_record *heard; /* by rank */
    /* the fields below are used by the thread only */
    int listener;
    double began, looked, deaf_until;
    bool is_busy;                     /* at the last check there was something to query */
    int about[WIRE_RANKS], num_about; /* copy of `wanted` at the last check */
    exchange_inbound *inbound;
    int num_inbound;       /* number of slots: one per rank, up to the maximum */
    uint64_t turns;        /* arrivals and queries so far */
    struct pollfd *polled; /* the eventfd, the listener, inbound and outbound connections */
    exchange_outbound outbound[EXCHANGE_OUTBOUND];
};

typedef struct record_exchange record_exchange;

/* exchange.c. *port 0: this rank cannot be queried. Returns NULL when memory is short. */
record_exchange *exchange_create(const mega_world *world, uint16_t *port);
void exchange_destroy(record_exchange *x);
/* exchange_hosts.c: builds the table of hosts from the ranks' announcements. */
mega_status exchange_hosts(record_exchange *x, const exchange_place *all);
void exchange_hosts_fini(record_exchange *x);
/* exchange_thread.c. Returns false if the thread cannot be started. */
bool exchange_thread_begin(record_exchange *x);
void exchange_thread_end(record_exchange *x);
/* Takes over what another host announces about the whole run. */
void exchange_merge(record_exchange *x, const wire_head *head);
wire_head exchange_head(const record_exchange *x, wire_kind kind);
/* exchange_inbound.c */
void exchange_inbound_accept(record_exchange *x, int fd, double now);
void exchange_inbound_serve(record_exchange *x, exchange_inbound *g, double now);
void exchange_inbound_close(exchange_inbound *g);
void exchange_inbound_expire(record_exchange *x, double now);
/* exchange_outbound.c: opens, queries and closes outbound connections as due. Returns whether it must be called again
 * soon. */
bool exchange_outbound_drive(record_exchange *x, double now);
void exchange_outbound_serve(record_exchange *x, exchange_outbound *l, double now);
void exchange_outbound_close(exchange_outbound *l);

#endif
