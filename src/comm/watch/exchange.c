/* The interface of the exchange between hosts (exchange.h) towards its rank. */
#include "megalith/log.h"
#include "megalith/memory.h"
#include "watch/exchange_impl.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

/* ---- open and close ---- */

/* Hosts that a test simulates on one machine are identified by their leaders. */
static void exchange_describe(const mega_world *w, uint16_t port, int leader, exchange_place *p)
{
    const bool is_test = getenv(MEGA_TEST_HOSTS) != NULL;
    *p = (exchange_place){.leader = leader, .port = port};
    if (gethostname(p->host, sizeof p->host - 1) != 0) snprintf(p->host, sizeof p->host, "of rank %d", leader);
    const size_t used = strlen(p->host);
    if (is_test) snprintf(p->host + used, sizeof p->host - used, "/%d", leader);
    p->addresses = (uint16_t)socket_addresses(p->address, EXCHANGE_ADDRESSES, is_test);
    if (w->rank == 0 && getrandom(p->secret, sizeof p->secret, 0) != (ssize_t)sizeof p->secret) p->port = 0;
}

record_exchange *exchange_create(const mega_world *w, uint16_t *port)
{
    record_exchange *x = mega_calloc(1, sizeof *x);
    *port = 0;
    if (x == NULL) return NULL;
    x->world = w;
    x->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    x->listener = x->wake >= 0 ? socket_listen(port) : -1;
    pthread_mutex_init(&x->mutex, NULL);
    x->num_inbound = w->size < EXCHANGE_INBOUND ? w->size : EXCHANGE_INBOUND;
    x->inbound = mega_calloc((size_t)x->num_inbound, sizeof *x->inbound);
    x->polled = mega_calloc((size_t)(2 + x->num_inbound + EXCHANGE_OUTBOUND), sizeof *x->polled);
    if (x->inbound == NULL || x->polled == NULL) {
        exchange_destroy(x);
        return NULL;
    }
    for (int i = 0; i < x->num_inbound; i++) x->inbound[i].fd = -1;
    for (int i = 0; i < EXCHANGE_OUTBOUND; i++) x->outbound[i].fd = -1;
    if (x->listener < 0)
        mega_warn("rank %d: no socket for sending its record to other hosts: %s", w->rank, strerror(errno));
    return x;
}

void exchange_destroy(record_exchange *x)
{
    if (x == NULL) return;
    if (x->has_thread) exchange_thread_end(x);
    if (x->listener >= 0) close(x->listener);
    if (x->wake >= 0) close(x->wake);
    exchange_hosts_fini(x);
    mega_free(x->inbound);
    mega_free(x->polled);
    pthread_mutex_destroy(&x->mutex);
    mega_free(x);
}

mega_status exchange_open(mega_world *w)
{
    uint16_t port = 0;
    int leader = w->rank;
    exchange_place mine;
    if (w->local_size == w->size) return MEGA_OK;
    exchange_place *all = mega_calloc((size_t)w->size, sizeof *all);
    record_exchange *x = exchange_create(w, &port);
    mega_status st = transport_host_broadcast(w, &leader, sizeof leader);
    if (all == NULL || x == NULL)
        st = MEGA_FAIL(MEGA_ERR_MEMORY, "rank %d: no memory for the records of other ranks", w->rank);
    if (st == MEGA_OK) {
        exchange_describe(w, port, w->shares_page ? leader : w->rank, &mine);
        st = transport_all_gather(w, &mine, all, sizeof mine);
    }
    if (st == MEGA_OK) st = exchange_hosts(x, all);
    const bool can = st == MEGA_OK && x->listener >= 0 && all[0].port != 0, goes = can && exchange_thread_begin(x);
    mega_free(all);
    if (can && !goes)
        mega_warn("rank %d: cannot start the thread that sends the records of this host to other hosts", w->rank);
    if (goes) w->exchange = x;
    else
        exchange_destroy(x);
    return st;
}

void exchange_close(mega_world *w)
{
    exchange_destroy(w->exchange);
    w->exchange = NULL;
}

/* ---- asking ---- */

static void exchange_wake(const record_exchange *x)
{
    const uint64_t one = 1;
    if (write(x->wake, &one, sizeof one) < 0) return; /* EAGAIN: it is already awake */
}

/* Resets the times of hosts that no rank was waiting for: those counted during an earlier wait do not apply to this
 * one. */
static void exchange_forget(record_exchange *x, const int *far, int count)
{
    for (int i = 0; i < count; i++) {
        bool was_wanted = false;
        for (int k = 0; k < x->num_wanted; k++) was_wanted |= x->host_of[x->wanted[k]] == x->host_of[far[i]];
        host_status *n = &x->host[x->host_of[far[i]]].news;
        if (!was_wanted) n->silent = n->refusing = n->mute = 0;
    }
}

void exchange_query_start(mega_world *w, const int *ranks, int count)
{
    record_exchange *x = w->exchange;
    int far[WIRE_RANKS], n = 0;
    if (x == NULL) return;
    for (int i = 0; i < count && n < WIRE_RANKS; i++)
        if (x->host_of[ranks[i]] != x->home) far[n++] = ranks[i];
    const size_t bytes = (size_t)n * sizeof far[0];
    pthread_mutex_lock(&x->mutex);
    const bool is_new = n != x->num_wanted || memcmp(far, x->wanted, bytes) != 0;
    exchange_forget(x, far, n);
    memcpy(x->wanted, far, bytes);
    x->num_wanted = n;
    pthread_mutex_unlock(&x->mutex);
    x->asks = n > 0;
    if (is_new) exchange_wake(x);
}

void exchange_query_stop(mega_world *w)
{
    if (w->exchange != NULL && w->exchange->asks) exchange_query_start(w, NULL, 0);
}

/* ---- reading what was received ---- */

bool exchange_read(const mega_world *w, int rank, double now, record_view *out, double *stale)
{
    record_exchange *x = w->exchange;
    if (x == NULL || rank < 0 || rank >= w->size || x->host_of[rank] == x->home) return false;
    pthread_mutex_lock(&x->mutex);
    const heard_record heard = x->heard[rank];
    pthread_mutex_unlock(&x->mutex);
    *out = heard.view;
    *stale = now - heard.when;
    out->age += *stale;
    return heard.when > 0;
}

bool exchange_host(const mega_world *w, int rank, host_status *out)
{
    record_exchange *x = w->exchange;
    if (x == NULL || rank < 0 || rank >= w->size || x->host_of[rank] == x->home) return false;
    pthread_mutex_lock(&x->mutex);
    *out = x->host[x->host_of[rank]].news;
    pthread_mutex_unlock(&x->mutex);
    return true;
}

int exchange_find(const mega_world *w, bool (*is)(const host_status *news))
{
    record_exchange *x = w->exchange;
    int found = -1;
    if (x == NULL || !x->asks) return -1;
    pthread_mutex_lock(&x->mutex);
    for (int i = 0; i < x->num_wanted && found < 0; i++)
        if (is(&x->host[x->host_of[x->wanted[i]]].news)) found = x->wanted[i];
    pthread_mutex_unlock(&x->mutex);
    return found;
}

int exchange_host_index(const mega_world *w)
{
    return w->exchange == NULL ? 0 : w->exchange->home;
}
