/* Outbound connections: this rank queries other hosts. Any rank of a host can report on all ranks of that host, so a
 * host is queried over one connection as long as that one answers, and otherwise over several, each to another rank: a
 * stopped process accepts a query and stays silent. Its operating system still acknowledges; a host without any
 * acknowledgement is down, or its network is. */
#include "watch/exchange_impl.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define OTHERS_S       2.0    /* without a sign of life; then addresses besides the known one are tried */
#define RANKS_A_SECOND 2048.0 /* larger worlds query less often */
#define ASK_EVERY_S    0.5
#define PATIENCE_S     0.5  /* without an answer, before another rank is tried as well */
#define CONNECT_S      1.0  /* limit for connecting */
#define MUTE_S         4.0  /* limit for an answer, before the connection is replaced */
#define QUIET_S        1.5  /* without a keepalive, which operating systems exchange every second */
#define BROKEN_S       3.0  /* without even a keepalive, after which a connection counts as broken */
#define LONGEST_S      1.0  /* most time counted between two checks; beyond it this process did not run */
#define GREETING_S     20.0 /* after the start, during which hosts are contacted even if no rank waits for them */
#define FREE_OUTBOUND  8    /* connections that the initial contacts leave free for hosts being waited for */

/* ---- one connection ---- */

/* An address other than the known one may belong to another machine, so a connection to it proves nothing about the
 * host. */
static bool is_theirs(const exchange_outbound *l)
{
    return l->host->known < 0 || l->address == l->host->known;
}

void exchange_outbound_close(exchange_outbound *l)
{
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
    l->state = OUTBOUND_FREE;
}

static void outbound_fail(record_exchange *x, exchange_outbound *l, int error)
{
    far_host *h = l->host;
    if (error == ECONNREFUSED && l->address == h->known) {
        h->sign = true;
        h->refusals++;
        if (h->refusals < h->ranks) h->opened = 0; /* try the next rank at once */
    }
    pthread_mutex_lock(&x->mutex);
    h->news.error = error;
    pthread_mutex_unlock(&x->mutex);
    exchange_outbound_close(l);
}

static void query_start(record_exchange *x, exchange_outbound *l, double now)
{
    int n = 0;
    l->ask.head = exchange_head(x, WIRE_ASK);
    for (int i = 0; i < x->num_about; i++)
        if (x->host_of[x->about[i]] == l->host - x->host) l->ask.rank[n++] = x->about[i];
    l->ask.head.count = n;
    for (; n < WIRE_RANKS; n++) l->ask.rank[n] = 0;
    l->state = OUTBOUND_ASKED;
    l->since = now;
    l->sent = l->got = 0;
}

static void send_ask(record_exchange *x, exchange_outbound *l)
{
    const long n = socket_write(l->fd, (const char *)&l->ask + l->sent, sizeof l->ask - l->sent);
    if (n < 0) outbound_fail(x, l, ECONNRESET);
    else
        l->sent += (size_t)n;
}

/* Returns whether every record of the answer is of the queried rank's host. */
static bool answer_is_valid(const record_exchange *x, exchange_outbound *l)
{
    const wire_head *head = &l->answer.head;
    const int host = (int)(l->host - x->host);
    if (head->rank != l->rank || (head->dead >= 0 && x->host_of[head->dead] != host)) return false;
    for (int i = 0; i < head->count; i++) {
        record_view *v = &l->answer.view[i];
        if (!wire_view_is_good(v, x->world->size) || x->host_of[v->rank] != host) return false;
    }
    return true;
}

static void answer_take(record_exchange *x, exchange_outbound *l, double now)
{
    far_host *h = l->host;
    const wire_answer *a = &l->answer;
    h->known = l->address;
    exchange_merge(x, &a->head);
    pthread_mutex_lock(&x->mutex);
    for (int i = 0; i < a->head.count; i++) x->heard[a->view[i].rank] = (heard_record){.view = a->view[i], .when = now};
    h->news.reached = true;
    h->news.mute = 0;
    h->news.dead = a->head.dead;
    h->news.error = 0;
    pthread_mutex_unlock(&x->mutex);
    l->state = OUTBOUND_READY; /* `since` stays the time of the query */
}

static void read_answer(record_exchange *x, exchange_outbound *l, double now)
{
    const wire_head *head = &l->answer.head;
    const bool has_head = l->got >= sizeof *head;
    const size_t size = sizeof *head + (has_head ? (size_t)head->count * sizeof l->answer.view[0] : 0);
    const long n = socket_read(l->fd, (char *)&l->answer + l->got, size - l->got);
    if (n < 0) {
        outbound_fail(x, l, ECONNRESET);
        return;
    }
    l->got += (size_t)n;
    l->host->sign |= n > 0;
    if (l->got < size) return;
    if (!has_head && !wire_head_is_good(head, WIRE_ANSWER, x->secret, x->world->size)) outbound_fail(x, l, EPROTO);
    else if (!has_head && head->count > 0)
        read_answer(x, l, now);
    else if (answer_is_valid(x, l))
        answer_take(x, l, now);
    else
        outbound_fail(x, l, EPROTO);
}

void exchange_outbound_serve(record_exchange *x, exchange_outbound *l, double now)
{
    char extra;
    if (l->state == OUTBOUND_CONNECTING) {
        const int error = socket_connected(l->fd);
        if (error != 0) {
            outbound_fail(x, l, error);
            return;
        }
        if (is_theirs(l)) {
            l->host->sign = true;
            l->host->refusals = 0;
        }
        query_start(x, l, now);
    }
    if (l->state == OUTBOUND_ASKED && l->sent < sizeof l->ask) send_ask(x, l);
    else if (l->state == OUTBOUND_ASKED)
        read_answer(x, l, now);
    else if (l->state == OUTBOUND_READY && socket_read(l->fd, &extra, 1) != 0)
        exchange_outbound_close(l); /* the other end closed it, or sent something unasked */
}

/* ---- one host ---- */

static exchange_outbound *link_to(record_exchange *x, const far_host *h, int rank)
{
    for (int i = 0; i < EXCHANGE_OUTBOUND; i++)
        if (x->outbound[i].state != OUTBOUND_FREE && x->outbound[i].host == h && x->outbound[i].rank == rank)
            return &x->outbound[i];
    return NULL;
}

/* Chooses the next rank without a connection; while no address is known to work, each rank at each address. False: none
 * left. */
static bool next_try(record_exchange *x, far_host *h, int *rank, int *address)
{
    const bool is_known = h->known >= 0 && h->news.silent < OTHERS_S;
    const int tries = h->ranks * (is_known ? 1 : h->addresses);
    for (int i = 0; i < tries; i++) {
        const int turn = h->turn++;
        *rank = x->rank[h->first + (is_known ? turn : turn / h->addresses) % h->ranks];
        *address = is_known ? h->known : turn % h->addresses;
        if (x->port[*rank] != 0 && link_to(x, h, *rank) == NULL) return true;
    }
    return false;
}

static void open_link(record_exchange *x, far_host *h, double now)
{
    exchange_outbound *l = NULL;
    int num_free = 0, rank, address;
    for (int i = 0; i < EXCHANGE_OUTBOUND; i++) {
        if (x->outbound[i].state != OUTBOUND_FREE) continue;
        l = &x->outbound[i];
        num_free++;
    }
    if (l == NULL || (!h->wanted && num_free <= FREE_OUTBOUND) || !next_try(x, h, &rank, &address)) return;
    h->opened = now;
    l->host = h;
    l->rank = rank;
    l->address = address;
    l->since = now;
    l->state = OUTBOUND_CONNECTING;
    l->fd = socket_connect(&h->address[address], x->port[rank]);
    if (l->fd < 0) outbound_fail(x, l, errno);
}

typedef struct host_connections {
    int count, connected;
    exchange_outbound *ready, *oldest; /* one that may be queried again; one whose answer is longest overdue */
} host_connections;

/* Examines the connections to a host and drops those that timed out. */
static host_connections look_at_connections(record_exchange *x, far_host *h, double now)
{
    host_connections all = {0};
    for (int i = 0; i < EXCHANGE_OUTBOUND; i++) {
        exchange_outbound *l = &x->outbound[i];
        if (l->state == OUTBOUND_FREE || l->host != h) continue;
        const bool connects = l->state == OUTBOUND_CONNECTING;
        const double quiet = connects ? now - l->since : socket_quiet(l->fd);
        if (quiet > (connects ? CONNECT_S : BROKEN_S)) {
            outbound_fail(x, l, ETIMEDOUT);
            continue;
        }
        all.count++;
        all.connected += !connects;
        if (l->state == OUTBOUND_READY) all.ready = l;
        if (!connects && quiet < QUIET_S && is_theirs(l)) h->sign = true;
        if (l->state == OUTBOUND_ASKED && (all.oldest == NULL || l->since < all.oldest->since)) all.oldest = l;
    }
    return all;
}

/* Advances the times of host_status by the time since the last check, unless the host gave the awaited sign. */
static void count_time(record_exchange *x, far_host *h, const host_connections *all, double now, double passed)
{
    const bool connected = all->connected > 0;
    /* otherwise other hosts occupy all connections */
    const bool is_asked = all->count > 0 || now - h->opened < CONNECT_S;
    pthread_mutex_lock(&x->mutex);
    host_status *n = &h->news;
    n->silent = h->sign ? 0 : n->silent + (is_asked ? passed : 0);
    n->refusing = h->refusals >= h->ranks && !connected ? n->refusing + passed : 0;
    n->mute += passed;
    pthread_mutex_unlock(&x->mutex);
    h->sign = false;
}

static void host_drive(record_exchange *x, far_host *h, double now, double passed)
{
    const host_connections all = look_at_connections(x, h, now);
    count_time(x, h, &all, now, passed);
    if (all.ready != NULL) {
        if (now - all.ready->since < ASK_EVERY_S + x->world->size / RANKS_A_SECOND) return;
        query_start(x, all.ready, now);
        send_ask(x, all.ready);
        return;
    }
    if (now - h->opened < PATIENCE_S) return;
    if (all.count >= CONNECTIONS_A_HOST) {
        /* keep one connection: if all its processes are stopped, no new one can be made, and this one shows that the
         * host lives */
        if (all.oldest == NULL || now - all.oldest->since < MUTE_S || h->ranks <= CONNECTIONS_A_HOST ||
            all.connected < 2)
            return;
        exchange_outbound_close(all.oldest);
    }
    open_link(x, h, now);
}

static void host_leave(record_exchange *x, const far_host *h)
{
    for (int i = 0; i < EXCHANGE_OUTBOUND; i++)
        if (x->outbound[i].state != OUTBOUND_FREE && x->outbound[i].host == h) exchange_outbound_close(&x->outbound[i]);
}

/* ---- all hosts ---- */

static void begin_to_want(record_exchange *x, far_host *h)
{
    h->wanted = true;
    h->sign = false;
    h->refusals = 0;
    pthread_mutex_lock(&x->mutex);
    h->news.silent = h->news.refusing = h->news.mute = 0;
    pthread_mutex_unlock(&x->mutex);
}

/* Updates which hosts the rank waits for. */
static void look_at_wishes(record_exchange *x)
{
    pthread_mutex_lock(&x->mutex);
    x->num_about = x->num_wanted;
    memcpy(x->about, x->wanted, sizeof x->about);
    pthread_mutex_unlock(&x->mutex);
    for (int i = 0; i < x->hosts; i++) {
        far_host *h = &x->host[i];
        bool wanted = false;
        for (int k = 0; k < x->num_about; k++) wanted |= x->host_of[x->about[k]] == i;
        if (wanted && !h->wanted) begin_to_want(x, h);
        h->wanted = wanted;
    }
}

bool exchange_outbound_drive(record_exchange *x, double now)
{
    const double since = x->is_busy ? now - x->looked : 0, passed = since < LONGEST_S ? since : LONGEST_S;
    const bool greets = now - x->began < GREETING_S;
    x->is_busy = false;
    x->looked = now;
    look_at_wishes(x);
    for (int i = 0; i < x->hosts; i++) {
        far_host *h = &x->host[i];
        const bool is_active = i != x->home && h->addresses > 0 && (h->wanted || (greets && !h->news.reached));
        if (is_active) host_drive(x, h, now, passed);
        else
            host_leave(x, h);
        x->is_busy |= is_active;
    }
    return x->is_busy;
}
