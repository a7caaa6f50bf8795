/* A wait that does not end: who waits for whom in what, and what the missing ranks are doing by their records, on other
 * hosts as the exchange brings them. Told after ten seconds, and the end of all past the limit; a dead process ends all
 * at once, a host without a sign of life after some seconds. */
#include "megalith/log.h"
#include "megalith/threads.h"
#include "watch/stall_impl.h"

#include <time.h>

#define LOOK_EVERY_S   0.2
#define LONGEST_LOOK_S 2.0 /* between two: the rest of the time this process did not run */
#define FIRST_TOLD_S   10.0
#define TELL_EVERY_MS  60000 /* on one host: ranks that wait for each other say the same */
#define ASK_AFTER_S    1.0   /* other hosts; a healthy wait is shorter */
#define TURN_S         1.5   /* between one host's telling and the next one's, which has heard of it by then */
#define GONE_S         3.0   /* a host that lives, without its ranks */

enum { LAST_TURN = 2 }; /* hosts after it tell together */

/* Nobody that is waited for is dead or stopped, and all are at something that may take long. */
static bool is_patient(const mega_world *w)
{
    for (int i = 0; i < w->record->num_missing; i++) {
        record_view v;
        double stale;
        if (!record_read(w, w->record->missing[i], &v, &stale) || stale > STALE_S || !v.is_long ||
            v.process == PROCESS_STOPPED)
            return false;
    }
    return w->record->num_missing > 0;
}

/* ---- other hosts ---- */

/* The hosts of those that this rank waits for, directly or along others, are asked. */
static void ask_hosts(mega_world *w)
{
    chain c = {.count = 0};
    record_view v;
    double stale;
    chain_add(&c, w->record->missing, w->record->num_missing);
    for (int i = 0; i < c.count; i++)
        if (record_read(w, c.rank[i], &v, &stale) && stall_waits(&v)) chain_add(&c, v.missing, v.num_missing);
    exchange_ask(w, c.rank, c.count);
}

/* Hosts tell one after the other, so that what one has told the others have heard of. */
static double turn_s(const mega_world *w)
{
    const int turn = exchange_turn(w);
    return TURN_S * (turn < LAST_TURN ? turn : LAST_TURN);
}

/* ---- telling ---- */

/* One of the ranks of a host tells. */
static bool may_tell(const mega_world *w, double now)
{
    int64_t told = atomic_load(&w->page->told);
    const int64_t ms = (int64_t)(now * 1e3);
    return (told == 0 || ms - told > TELL_EVERY_MS) && atomic_compare_exchange_strong(&w->page->told, &told, ms);
}

static void tell(const comm_op *op, double now)
{
    mega_world *w = op->comm->world;
    mega_buffer text = {0};
    w->watch.told = true;
    if (!may_tell(w, now)) return;
    stall_put_report(&text, op);
    mega_buffer_printf(&text, "\n  the run goes on waiting; --distributed-timeout-minutes (%.4g) is the limit",
                       w->timeout_s / 60);
    if (!text.failed && w->report != NULL) w->report(w->report_user, text.data);
    else if (!text.failed)
        mega_warn("%s", text.data);
    mega_buffer_fini(&text);
}

void stall_end_by(mega_world *w, int rank)
{
    int ender = 0;
    w->stalled = true;
    if (w->page == NULL) return;
    if (atomic_compare_exchange_strong(&w->page->ender, &ender, rank + 1)) ender = rank + 1;
    if (ender == w->rank + 1) return;
    for (const double began = mega_time_now();
         mega_time_now() - began < STALL_FOLLOW_S;) /* signals cut a sleep short */
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

void stall_end(mega_world *w)
{
    stall_end_by(w, w->rank);
}

static bool is_lost(const host_news *h)
{
    return h->reached && h->silent > mega_world_host_timeout();
}

static bool is_gone(const host_news *h)
{
    return h->reached && h->refusing > GONE_S;
}

static bool has_dead(const host_news *h)
{
    return h->dead >= 0;
}

static loss find_loss(const mega_world *w)
{
    loss l = {.dead = record_dead(w), .lost = -1};
    host_news h;
    if (l.dead >= 0 || w->exchange == NULL) return l;
    if (exchange_host(w, exchange_find(w, has_dead), &h)) l.dead = h.dead;
    l.lost = exchange_find(w, is_lost);
    if (l.lost < 0) l.lost = exchange_find(w, is_gone);
    return l;
}

static mega_status end(const comm_op *op, const loss *l)
{
    mega_world *w = op->comm->world;
    mega_buffer text = {0};
    host_news h;
    w->lost_host = l->dead < 0 && l->lost >= 0 && exchange_host(w, l->lost, &h) && is_lost(&h);
    if (l->dead >= 0 || l->lost >= 0) stall_put_loss(&text, op, l);
    else {
        stall_put_report(&text, op);
        mega_buffer_printf(&text, "\n  longer than --distributed-timeout-minutes (%.4g) allows", w->timeout_s / 60);
    }
    const mega_status st =
        MEGA_FAIL(MEGA_ERR_COMM, "%s", text.failed ? "a wait for another rank does not end" : text.data);
    mega_buffer_fini(&text);
    stall_end(w);
    return st;
}

void stall_lend(const comm_op *op)
{
    mega_world *w = op->comm->world;
    int missing[RECORD_MISSING];
    if (w->is_crowded || op->state == COMM_DONE || record_core_is_lent(w)) return;
    const int count = comm_missing(stall_head(op), missing, RECORD_MISSING);
    for (int i = 0; i < count && !record_lend_core(w, missing[i]); i++) continue;
}

void stall_begin(mega_world *w, double now)
{
    w->watch = (comm_watch){.looked = now};
}

/* Time counts by looks: while this process itself is stopped, nobody looks. */
static double waited_by_now(comm_watch *watch, const comm_op *op, double now)
{
    const double since = now - watch->looked;
    if (watch->moved != op->moved) watch->waited = 0;
    watch->moved = op->moved;
    watch->looked = now;
    watch->waited += since < LONGEST_LOOK_S ? since : LONGEST_LOOK_S;
    return watch->waited;
}

mega_status stall_look(const comm_op *op, double now)
{
    mega_world *w = op->comm->world;
    if (now - w->watch.looked < LOOK_EVERY_S || w->page == NULL) return MEGA_OK;
    const double waited = waited_by_now(&w->watch, op, now), limit = w->timeout_s;
    w->record->num_missing = comm_missing(stall_head(op), w->record->missing, RECORD_MISSING);
    if (op->limit_s > 0)
        return waited < op->limit_s ? MEGA_OK : MEGA_FAIL(MEGA_ERR_COMM, "group %s: not all came", op->comm->name);
    if (waited > ASK_AFTER_S) ask_hosts(w);
    const loss l = find_loss(w);
    if (l.dead >= 0 || l.lost >= 0 || waited > limit + turn_s(w)) return end(op, &l);
    const double first = (limit < 2 * FIRST_TOLD_S ? limit / 2 : FIRST_TOLD_S) + turn_s(w);
    if (!w->watch.told && waited > first && !is_patient(w)) tell(op, now);
    return MEGA_OK;
}
