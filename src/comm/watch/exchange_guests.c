/* Who asks this rank about its host. A guest that says anything but a whole and right question is shown out. */
#include "watch/exchange_impl.h"

#include <string.h>
#include <unistd.h>

#define PATIENCE_S 30.0 /* with a guest that asks nothing */

void exchange_guest_go(exchange_guest *g)
{
    if (g->fd >= 0) close(g->fd);
    g->fd = -1;
}

/* Where all places are taken the guest goes who was quiet for longest. */
void exchange_guest_come(record_exchange *x, int fd, double now)
{
    exchange_guest *place = &x->guest[0];
    for (int i = 1; i < x->guests && place->fd >= 0; i++)
        if (x->guest[i].fd < 0 || x->guest[i].since < place->since) place = &x->guest[i];
    exchange_guest_go(place);
    place->fd = fd;
    place->since = now;
    place->got = place->size = place->sent = 0;
}

void exchange_guests_tidy(record_exchange *x, double now)
{
    for (int i = 0; i < x->guests; i++)
        if (x->guest[i].fd >= 0 && now - x->guest[i].since > PATIENCE_S) exchange_guest_go(&x->guest[i]);
}

/* ---- the answer ---- */

static void add(record_exchange *x, wire_answer *a, int rank, double now)
{
    const struct mega_record *slot = record_of(x->world, rank);
    record_view *view = &a->view[a->head.count];
    if (slot != NULL && record_read_slot(slot, now, view)) a->head.count++;
}

static void answer(record_exchange *x, exchange_guest *g, double now)
{
    wire_answer *a = &g->answer;
    bool has_dead = false;
    a->head = exchange_head(x, WIRE_ANSWER);
    a->head.dead = record_dead(x->world);
    for (int i = 0; i < g->ask.head.count; i++) {
        add(x, a, g->ask.rank[i], now);
        has_dead |= g->ask.rank[i] == a->head.dead;
    }
    if (a->head.dead >= 0 && !has_dead) add(x, a, a->head.dead, now);
    g->size = sizeof a->head + (size_t)a->head.count * sizeof a->view[0];
    g->sent = 0;
}

/* ---- question by question ---- */

static bool write_answer(exchange_guest *g)
{
    const long n = socket_write(g->fd, (const char *)&g->answer + g->sent, g->size - g->sent);
    if (n < 0) return false;
    g->sent += (size_t)n;
    if (g->sent == g->size) g->got = g->size = 0;
    return true;
}

static bool read_question(record_exchange *x, exchange_guest *g, double now)
{
    const long n = socket_read(g->fd, (char *)&g->ask + g->got, sizeof g->ask - g->got);
    const int ranks = x->world->size;
    if (n < 0) return false;
    g->got += (size_t)n;
    if (g->got >= sizeof g->ask.head && !wire_head_is_good(&g->ask.head, WIRE_ASK, x->secret, ranks)) return false;
    if (g->got < sizeof g->ask) return true;
    if (!wire_ask_is_good(&g->ask, x->secret, ranks)) return false;
    g->since = now;
    exchange_merge(x, &g->ask.head);
    answer(x, g, now);
    return write_answer(g);
}

void exchange_guest_serve(record_exchange *x, exchange_guest *g, double now)
{
    if (!(g->size > 0 ? write_answer(g) : read_question(x, g, now))) exchange_guest_go(g);
}
