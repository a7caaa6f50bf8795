/* Inbound connections: other hosts query this rank about its host. A connection that sends anything but one valid query
 * is closed. */
#include "watch/exchange_impl.h"

#include <unistd.h>

#define PATIENCE_S 30.0 /* until a connection that sends no query is closed */

void exchange_inbound_close(exchange_inbound *g)
{
    if (g->fd >= 0) close(g->fd);
    g->fd = -1;
}

/* If all slots are taken, closes the connection that has been quiet for longest. Those that are accepted in one go
 * arrive at one time: their turns tell which was first, so that none takes the place of a query that is about to be
 * read. */
void exchange_inbound_accept(record_exchange *x, int fd, double now)
{
    exchange_inbound *place = &x->inbound[0];
    for (int i = 1; i < x->num_inbound && place->fd >= 0; i++)
        if (x->inbound[i].fd < 0 || x->inbound[i].turn < place->turn) place = &x->inbound[i];
    exchange_inbound_close(place);
    place->fd = fd;
    place->since = now;
    place->turn = ++x->turns;
    place->got = place->size = place->sent = 0;
}

void exchange_inbound_expire(record_exchange *x, double now)
{
    for (int i = 0; i < x->num_inbound; i++)
        if (x->inbound[i].fd >= 0 && now - x->inbound[i].since > PATIENCE_S) exchange_inbound_close(&x->inbound[i]);
}

/* ---- the answer ---- */

static void answer_add(record_exchange *x, wire_answer *a, int rank, double now)
{
    const struct mega_record *slot = record_of(x->world, rank);
    record_view *view = &a->view[a->head.count];
    if (slot != NULL && record_read_slot(slot, now, view)) a->head.count++;
}

static void answer_make(record_exchange *x, exchange_inbound *g, double now)
{
    wire_answer *a = &g->answer;
    bool has_dead = false;
    a->head = exchange_head(x, WIRE_ANSWER);
    a->head.dead = record_dead(x->world);
    for (int i = 0; i < g->ask.head.count; i++) {
        answer_add(x, a, g->ask.rank[i], now);
        has_dead |= g->ask.rank[i] == a->head.dead;
    }
    if (a->head.dead >= 0 && !has_dead) answer_add(x, a, a->head.dead, now);
    g->size = sizeof a->head + (size_t)a->head.count * sizeof a->view[0];
    g->sent = 0;
}

/* ---- handling queries ---- */

static bool answer_write(exchange_inbound *g)
{
    const long n = socket_write(g->fd, (const char *)&g->answer + g->sent, g->size - g->sent);
    if (n < 0) return false;
    g->sent += (size_t)n;
    if (g->sent == g->size) g->got = g->size = 0;
    return true;
}

static bool read_question(record_exchange *x, exchange_inbound *g, double now)
{
    const long n = socket_read(g->fd, (char *)&g->ask + g->got, sizeof g->ask - g->got);
    const int ranks = x->world->size;
    if (n < 0) return false;
    g->got += (size_t)n;
    if (g->got >= sizeof g->ask.head && !wire_head_is_good(&g->ask.head, WIRE_ASK, x->secret, ranks)) return false;
    if (g->got < sizeof g->ask) return true;
    if (!wire_ask_is_good(&g->ask, x->secret, ranks)) return false;
    g->since = now;
    g->turn = ++x->turns;
    exchange_merge(x, &g->ask.head);
    answer_make(x, g, now);
    return answer_write(g);
}

void exchange_inbound_serve(record_exchange *x, exchange_inbound *g, double now)
{
    if (!(g->size > 0 ? answer_write(g) : read_question(x, g, now))) exchange_inbound_close(g);
}
