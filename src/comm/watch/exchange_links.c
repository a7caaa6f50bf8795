/* How this rank asks other hosts. Any rank of a host can tell of its neighbours, so a host is asked over one link as
 * long as that answers, and over more of them, each to another rank, where it does not: a stopped process takes a
 * question and says nothing. Its system still gives signs of life; a host without them is down, or its link is. */
#include "watch/exchange_impl.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define OTHERS_S       2.0    /* without a sign of life, before other addresses than the known one are tried */
#define RANKS_A_SECOND 2048.0 /* a large world asks less often */
#define ASK_EVERY_S    0.5
#define PATIENCE_S     0.5  /* with a link that has said nothing, before another rank is tried beside it */
#define CONNECT_S      1.0  /* for a connection */
#define MUTE_S         4.0  /* for an answer, before the link makes room for another */
#define QUIET_S        1.5  /* systems speak to each other every second */
#define BROKEN_S       3.0  /* a link over which they do not */
#define LONGEST_S      1.0  /* between two looks: the rest of the time this process did not run */
#define GREETING_S     20.0 /* from the start on, also hosts are tried that nobody waits for */
#define FREE_LINKS     8    /* that greetings leave to those who wait */

/* ---- one link ---- */

/* Another address than the one that has answered may be somebody else's: being there says nothing of the host. */
static bool is_theirs(const exchange_link *l)
{
    return l->host->known < 0 || l->address == l->host->known;
}

void exchange_link_close(exchange_link *l)
{
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
    l->state = LINK_FREE;
}

static void fail(record_exchange *x, exchange_link *l, int error)
{
    far_host *h = l->host;
    if (error == ECONNREFUSED && l->address == h->known) {
        h->sign = true;
        h->refusals++;
        if (h->refusals < h->ranks) h->opened = 0; /* the next one at once */
    }
    pthread_mutex_lock(&x->mutex);
    h->news.error = error;
    pthread_mutex_unlock(&x->mutex);
    exchange_link_close(l);
}

static void ask(record_exchange *x, exchange_link *l, double now)
{
    int n = 0;
    l->ask.head = exchange_head(x, WIRE_ASK);
    for (int i = 0; i < x->num_about; i++)
        if (x->host_of[x->about[i]] == l->host - x->host) l->ask.rank[n++] = x->about[i];
    l->ask.head.count = n;
    for (; n < WIRE_RANKS; n++) l->ask.rank[n] = 0;
    l->state = LINK_ASKED;
    l->since = now;
    l->sent = l->got = 0;
}

static void send_ask(record_exchange *x, exchange_link *l)
{
    const long n = socket_write(l->fd, (const char *)&l->ask + l->sent, sizeof l->ask - l->sent);
    if (n < 0) fail(x, l, ECONNRESET);
    else
        l->sent += (size_t)n;
}

/* All of it came from the rank that was asked, and tells of its host alone. */
static bool is_whole(const record_exchange *x, exchange_link *l)
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

static void take(record_exchange *x, exchange_link *l, double now)
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
    l->state = LINK_READY; /* since the question */
}

static void read_answer(record_exchange *x, exchange_link *l, double now)
{
    const wire_head *head = &l->answer.head;
    const bool has_head = l->got >= sizeof *head;
    const size_t size = sizeof *head + (has_head ? (size_t)head->count * sizeof l->answer.view[0] : 0);
    const long n = socket_read(l->fd, (char *)&l->answer + l->got, size - l->got);
    if (n < 0) {
        fail(x, l, ECONNRESET);
        return;
    }
    l->got += (size_t)n;
    l->host->sign |= n > 0;
    if (l->got < size) return;
    if (!has_head && !wire_head_is_good(head, WIRE_ANSWER, x->secret, x->world->size)) fail(x, l, EPROTO);
    else if (!has_head && head->count > 0)
        read_answer(x, l, now);
    else if (is_whole(x, l))
        take(x, l, now);
    else
        fail(x, l, EPROTO);
}

void exchange_link_serve(record_exchange *x, exchange_link *l, double now)
{
    char extra;
    if (l->state == LINK_CONNECTING) {
        const int error = socket_connected(l->fd);
        if (error != 0) {
            fail(x, l, error);
            return;
        }
        if (is_theirs(l)) {
            l->host->sign = true;
            l->host->refusals = 0;
        }
        ask(x, l, now);
    }
    if (l->state == LINK_ASKED && l->sent < sizeof l->ask) send_ask(x, l);
    else if (l->state == LINK_ASKED)
        read_answer(x, l, now);
    else if (l->state == LINK_READY && socket_read(l->fd, &extra, 1) != 0)
        exchange_link_close(l); /* it left, or speaks unasked */
}

/* ---- one host ---- */

static exchange_link *link_to(record_exchange *x, const far_host *h, int rank)
{
    for (int i = 0; i < EXCHANGE_LINKS; i++)
        if (x->link[i].state != LINK_FREE && x->link[i].host == h && x->link[i].rank == rank) return &x->link[i];
    return NULL;
}

/* The next rank without a link; as long as no address answers, each rank at each address. False: there is none. */
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
    exchange_link *l = NULL;
    int num_free = 0, rank, address;
    for (int i = 0; i < EXCHANGE_LINKS; i++) {
        if (x->link[i].state != LINK_FREE) continue;
        l = &x->link[i];
        num_free++;
    }
    if (l == NULL || (!h->wanted && num_free <= FREE_LINKS) || !next_try(x, h, &rank, &address)) return;
    h->opened = now;
    l->host = h;
    l->rank = rank;
    l->address = address;
    l->since = now;
    l->state = LINK_CONNECTING;
    l->fd = socket_connect(&h->address[address], x->port[rank]);
    if (l->fd < 0) fail(x, l, errno);
}

typedef struct links {
    int count, connected;
    exchange_link *ready, *oldest; /* one that may be asked again; one that says nothing for longest */
} links;

/* What became of the links of a host since the last look. */
static links look_at_links(record_exchange *x, far_host *h, double now)
{
    links all = {0};
    for (int i = 0; i < EXCHANGE_LINKS; i++) {
        exchange_link *l = &x->link[i];
        if (l->state == LINK_FREE || l->host != h) continue;
        const bool connects = l->state == LINK_CONNECTING;
        const double quiet = connects ? now - l->since : socket_quiet(l->fd);
        if (quiet > (connects ? CONNECT_S : BROKEN_S)) {
            fail(x, l, ETIMEDOUT);
            continue;
        }
        all.count++;
        all.connected += !connects;
        if (l->state == LINK_READY) all.ready = l;
        if (!connects && quiet < QUIET_S && is_theirs(l)) h->sign = true;
        if (l->state == LINK_ASKED && (all.oldest == NULL || l->since < all.oldest->since)) all.oldest = l;
    }
    return all;
}

/* Time in which this host was asked, since it last gave what is counted. */
static void count_time(record_exchange *x, far_host *h, const links *all, double now, double passed)
{
    const bool connected = all->connected > 0;
    const bool is_asked = all->count > 0 || now - h->opened < CONNECT_S; /* else all links are others' */
    pthread_mutex_lock(&x->mutex);
    host_news *n = &h->news;
    n->silent = h->sign ? 0 : n->silent + (is_asked ? passed : 0);
    n->refusing = h->refusals >= h->ranks && !connected ? n->refusing + passed : 0;
    n->mute += passed;
    pthread_mutex_unlock(&x->mutex);
    h->sign = false;
}

static void drive(record_exchange *x, far_host *h, double now, double passed)
{
    const links all = look_at_links(x, h, now);
    count_time(x, h, &all, now, passed);
    if (all.ready != NULL) {
        if (now - all.ready->since < ASK_EVERY_S + x->world->size / RANKS_A_SECOND) return;
        ask(x, all.ready, now);
        send_ask(x, all.ready);
        return;
    }
    if (now - h->opened < PATIENCE_S) return;
    if (all.count >= LINKS_A_HOST) {
        /* one connection stays: where all are stopped, no new one may come about, and that one's signs of life tell */
        if (all.oldest == NULL || now - all.oldest->since < MUTE_S || h->ranks <= LINKS_A_HOST || all.connected < 2)
            return;
        exchange_link_close(all.oldest);
    }
    open_link(x, h, now);
}

static void leave(record_exchange *x, const far_host *h)
{
    for (int i = 0; i < EXCHANGE_LINKS; i++)
        if (x->link[i].state != LINK_FREE && x->link[i].host == h) exchange_link_close(&x->link[i]);
}

/* ---- all of them ---- */

static void begin_to_want(record_exchange *x, far_host *h)
{
    h->wanted = true;
    h->sign = false;
    h->refusals = 0;
    pthread_mutex_lock(&x->mutex);
    h->news.silent = h->news.refusing = h->news.mute = 0;
    pthread_mutex_unlock(&x->mutex);
}

/* Which hosts are wanted now. */
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

bool exchange_links_drive(record_exchange *x, double now)
{
    const double since = x->is_busy ? now - x->looked : 0, passed = since < LONGEST_S ? since : LONGEST_S;
    const bool greets = now - x->began < GREETING_S;
    x->is_busy = false;
    x->looked = now;
    look_at_wishes(x);
    for (int i = 0; i < x->hosts; i++) {
        far_host *h = &x->host[i];
        const bool is_active = i != x->home && h->addresses > 0 && (h->wanted || (greets && !h->news.reached));
        if (is_active) drive(x, h, now, passed);
        else
            leave(x, h);
        x->is_busy |= is_active;
    }
    return x->is_busy;
}
