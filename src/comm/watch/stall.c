/* Detects waits that do not end and reports who waits for whom in which call, and what the missing ranks are doing
 * according to their records (those of other hosts come through the exchange). Reports after ten seconds, and ends the
 * run after the limit; a dead process ends it at once, a host without a sign of life after some seconds. */
#include "megalith/log.h"
#include "megalith/threads.h"
#include "watch/stall_impl.h"

#include <time.h>

#define LOOK_EVERY_S   0.2
#define LONGEST_LOOK_S 2.0 /* most time counted between two checks: for the rest this process did not run */
#define FIRST_TOLD_S   10.0
#define TELL_EVERY_MS  60000 /* per host: ranks that wait for each other would report the same */
#define ASK_AFTER_S    1.0   /* before other hosts are queried; a healthy wait is shorter */
#define TURN_S         1.5   /* between the reports of two hosts, so that the second has heard of the first */
#define GONE_S         3.0   /* until a host counts as lost that lives, but whose ranks are gone */

enum { LAST_TURN = 2 }; /* hosts from this turn on report together */

/* Returns whether no awaited rank is dead or stopped, and all are in phases that may take long. */
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

/* Queries the hosts of the ranks that this rank waits for, directly or through others. */
static void ask_hosts(mega_world *w)
{
    chain c = {.count = 0};
    record_view v;
    double stale;
    chain_add(&c, w->record->missing, w->record->num_missing);
    for (int i = 0; i < c.count; i++)
        if (record_read(w, c.rank[i], &v, &stale) && stall_waits(&v)) chain_add(&c, v.missing, v.num_missing);
    exchange_query_start(w, c.rank, c.count);
}

/* Hosts report one after the other, so that each has heard of the earlier reports. */
static double turn_s(const mega_world *w)
{
    const int turn = exchange_host_index(w);
    return TURN_S * (turn < LAST_TURN ? turn : LAST_TURN);
}

/* ---- reporting ---- */

/* Only one rank of a host reports. */
static bool may_tell(const mega_world *w, double now)
{
    int64_t told = atomic_load(&w->page->first_report_ms);
    const int64_t ms = (int64_t)(now * 1e3);
    return (told == 0 || ms - told > TELL_EVERY_MS) &&
           atomic_compare_exchange_strong(&w->page->first_report_ms, &told, ms);
}

/* The function of the program may call anything, but must not destroy the world that waits. */
static void stall_tell_program(mega_world *w, bool is_over, const char *text)
{
    mega_users_add(&w->users, 1);
    w->report(w->report_user, is_over, text);
    mega_users_add(&w->users, -1);
}

static void stall_tell(const comm_op *op, double now)
{
    mega_world *w = op->comm->world;
    mega_buffer text = {0};
    w->watch.is_reported = true;
    if (!may_tell(w, now)) {
        if (w->report != NULL) stall_tell_program(w, false, NULL);
        return;
    }
    stall_put_report(&text, op);
    mega_buffer_printf(&text, "\n  the run keeps waiting; --distributed-timeout-minutes (%.4g) is the limit",
                       w->timeout_s / 60);
    if (w->report != NULL) stall_tell_program(w, false, text.failed ? NULL : text.data);
    else if (!text.failed)
        mega_warn("%s", text.data);
    mega_buffer_fini(&text);
}

void stall_abort_by(mega_world *w, int rank)
{
    int ender = 0;
    w->stalled = true;
    if (w->page == NULL) return;
    if (atomic_compare_exchange_strong(&w->page->ender, &ender, rank + 1)) ender = rank + 1;
    if (ender == w->rank + 1) return;
    for (const double began = mega_time_now();
         mega_time_now() - began < STALL_FOLLOW_S;) /* signals interrupt the sleep */
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

void stall_abort(mega_world *w)
{
    stall_abort_by(w, w->rank);
}

static bool is_lost(const host_status *h)
{
    return h->reached && h->silent > mega_world_host_timeout();
}

static bool is_gone(const host_status *h)
{
    return h->reached && h->refusing > GONE_S;
}

static bool has_dead(const host_status *h)
{
    return h->dead >= 0;
}

static loss find_loss(const mega_world *w)
{
    loss l = {.dead = record_dead(w), .lost = -1};
    host_status h;
    if (l.dead >= 0 || w->exchange == NULL) return l;
    if (exchange_host(w, exchange_find(w, has_dead), &h)) l.dead = h.dead;
    l.lost = exchange_find(w, is_lost);
    if (l.lost < 0) l.lost = exchange_find(w, is_gone);
    return l;
}

static mega_status stall_end_wait(const comm_op *op, const loss *l)
{
    mega_world *w = op->comm->world;
    mega_buffer text = {0};
    host_status h;
    w->lost_host = l->dead < 0 && l->lost >= 0 && exchange_host(w, l->lost, &h) && is_lost(&h);
    if (l->dead >= 0 || l->lost >= 0) stall_put_loss(&text, op, l);
    else {
        stall_put_report(&text, op);
        mega_buffer_printf(&text, "\n  longer than --distributed-timeout-minutes (%.4g) allows", w->timeout_s / 60);
    }
    const mega_status st =
        MEGA_FAIL(MEGA_ERR_COMM, "%s", text.failed ? "a wait for another rank does not end" : text.data);
    mega_buffer_fini(&text);
    stall_abort(w);
    return st;
}

void stall_lend_core(const comm_op *op)
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

void stall_wait_ended(mega_world *w)
{
    if (w->watch.is_reported && w->report != NULL) stall_tell_program(w, true, NULL);
    w->watch.is_reported = false;
}

/* Sums the time between checks, so that time during which this process itself was stopped does not count. */
static double waited_by_now(comm_watch *watch, const comm_op *op, double now)
{
    const double since = now - watch->looked;
    if (watch->moved != op->moved) watch->waited = 0;
    watch->moved = op->moved;
    watch->looked = now;
    watch->waited += since < LONGEST_LOOK_S ? since : LONGEST_LOOK_S;
    return watch->waited;
}

mega_status stall_poll(const comm_op *op, double now)
{
    mega_world *w = op->comm->world;
    if (now - w->watch.looked < LOOK_EVERY_S || w->page == NULL) return MEGA_OK;
    const double waited = waited_by_now(&w->watch, op, now), limit = w->timeout_s;
    w->record->num_missing = comm_missing(stall_head(op), w->record->missing, RECORD_MISSING);
    if (op->limit_s > 0)
        return waited < op->limit_s
                   ? MEGA_OK
                   : MEGA_FAIL(MEGA_ERR_COMM, "group %s: not all ranks arrived in time", op->comm->name);
    if (waited > ASK_AFTER_S) ask_hosts(w);
    const loss l = find_loss(w);
    if (l.dead >= 0 || l.lost >= 0 || waited > limit + turn_s(w)) return stall_end_wait(op, &l);
    const double first = (limit < 2 * FIRST_TOLD_S ? limit / 2 : FIRST_TOLD_S) + turn_s(w);
    if (!w->watch.is_reported && waited > first && !is_patient(w)) stall_tell(op, now);
    return MEGA_OK;
}
