/* What the files of the exchange share: the thread's state, and what it has in common with its rank. */
#ifndef MEGA_EXCHANGE_IMPL_H
#define MEGA_EXCHANGE_IMPL_H

#include "watch/exchange.h"
#include "watch/sockets.h"

#include <pthread.h>

enum {
    EXCHANGE_ADDRESSES = 8, /* of a host */
    EXCHANGE_GUESTS = 512,  /* that ask at a time, at most; the oldest goes */
    EXCHANGE_LINKS = 24,    /* that this rank asks over, at a time */
    LINKS_A_HOST = 4
};

/* What a rank says of itself to all while the world is made. */
typedef struct exchange_place {
    int32_t leader;           /* world rank that stands for those of one page */
    uint16_t port, addresses; /* port 0: it does not answer */
    socket_address address[EXCHANGE_ADDRESSES];
    char host[EXCHANGE_HOST];
    unsigned char secret[WIRE_SECRET]; /* that of rank 0 counts */
} exchange_place;

typedef struct exchange_guest {
    int fd; /* -1: none */
    double since;
    size_t got, size, sent; /* of the question; of the answer */
    wire_ask ask;
    wire_answer answer;
} exchange_guest;

typedef struct far_host {
    char name[EXCHANGE_HOST];
    int leader, first, ranks; /* its ranks lie from `first` on in exchange.rank */
    socket_address address[EXCHANGE_ADDRESSES];
    int addresses, known; /* the one that answers; -1: not known yet */
    int turn;             /* of ranks and addresses: which is tried next */
    bool wanted, sign;    /* this rank waits for one of its; it gave a sign of life since the last look */
    int refusals;         /* one after the other */
    double opened;        /* the last link */
    host_news news;       /* under the mutex */
} far_host;

typedef enum link_state { LINK_FREE, LINK_CONNECTING, LINK_ASKED, LINK_READY } link_state;

typedef struct exchange_link {
    link_state state;
    int fd, rank, address;
    far_host *host;
    double since; /* in this state */
    size_t sent, got;
    wire_ask ask;
    wire_answer answer;
} exchange_link;

typedef struct heard_record {
    record_view view;
    double when; /* 0: never */
} heard_record;

struct record_exchange {
    const mega_world *world; /* of which only what never changes is read, and the page */
    unsigned char secret[WIRE_SECRET];
    int hosts, home; /* this one */
    far_host *host;  /* in the order of their first ranks */
    int *rank;       /* by host */
    int *host_of;    /* by rank */
    uint16_t *port;  /* by rank */
    bool asks;       /* read and written by the rank alone */
    int wake;        /* a descriptor that ends the thread's sleep */
    _Atomic bool ending;
    bool has_thread;
    pthread_t thread;
    pthread_mutex_t mutex; /* over these, for as long as a copy takes */
    int wanted[WIRE_RANKS], num_wanted;
    heard_record *heard; /* by rank */
    /* of the thread alone */
    int listener;
    double began, looked, deaf_until;
    bool is_busy;                     /* since the last look something was to be asked */
    int about[WIRE_RANKS], num_about; /* what was wanted at the last look */
    exchange_guest *guest;
    int guests;            /* as many as there are ranks, where they are not too many */
    struct pollfd *polled; /* the wake, the listener, guests, links */
    exchange_link link[EXCHANGE_LINKS];
};

typedef struct record_exchange record_exchange;

/* exchange.c; port 0: nobody can ask it. NULL: no memory. */
record_exchange *exchange_create(const mega_world *world, uint16_t *port);
void exchange_destroy(record_exchange *x);
/* exchange_hosts.c: out of what all ranks said: who is where. */
mega_status exchange_hosts(record_exchange *x, const exchange_place *all);
void exchange_hosts_fini(record_exchange *x);
/* exchange_thread.c; false: there is none. */
bool exchange_thread_begin(record_exchange *x);
void exchange_thread_end(record_exchange *x);
/* What another host says of itself as a whole. */
void exchange_merge(record_exchange *x, const wire_head *head);
wire_head exchange_head(const record_exchange *x, wire_kind kind);
/* exchange_guests.c */
void exchange_guest_come(record_exchange *x, int fd, double now);
void exchange_guest_serve(record_exchange *x, exchange_guest *g, double now);
void exchange_guest_go(exchange_guest *g);
void exchange_guests_tidy(record_exchange *x, double now);
/* exchange_links.c: begins, asks and gives up what is due. Returns whether there is anything to come back for soon. */
bool exchange_links_drive(record_exchange *x, double now);
void exchange_link_serve(record_exchange *x, exchange_link *l, double now);
void exchange_link_close(exchange_link *l);

#endif
