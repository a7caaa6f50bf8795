/* A wait that does not end: who waits for whom in what, and what the missing ranks are doing by their records. Told
 * after ten seconds, and the end of all past the limit; a dead process ends all at once. What is known is what this
 * host knows: of ranks elsewhere their own host tells. */
#include "megalith/log.h"
#include "megalith/memory.h"
#include "megalith/threads.h"
#include "record_impl.h"

#include <time.h>

#define LOOK_EVERY_S   0.2
#define LONGEST_LOOK_S 2.0 /* between two: the rest of the time this process did not run */
#define FIRST_TOLD_S   10.0
#define TELL_EVERY_MS  60000 /* on one host: ranks that wait for each other say the same */
#define FOLLOW_S       3.0   /* for the rank that tells the end to end the others */

enum { CHAIN = 16 }; /* ranks in one report */

typedef struct chain {
    int rank[CHAIN], count;
} chain;

static void chain_add(chain *c, const int *ranks, int count)
{
    for (int i = 0; i < count && c->count < CHAIN; i++) {
        int known = 0;
        while (known < c->count && c->rank[known] != ranks[i]) known++;
        if (known == c->count) c->rank[c->count++] = ranks[i];
    }
}

/* "rank 3" or "ranks 3, 5". */
static void put_ranks(mega_buffer *out, const int *ranks, int count)
{
    mega_buffer_printf(out, "rank%s ", count == 1 ? "" : "s");
    for (int i = 0; i < count; i++) mega_buffer_printf(out, "%s%d", i > 0 ? ", " : "", ranks[i]);
    if (count == 0) mega_buffer_puts(out, "of which nothing is known");
}

/* "all_reduce #118 (gradients) of group dp". */
static void put_call(mega_buffer *out, int kind, uint64_t number, const char *name, const char *group)
{
    mega_buffer_printf(out, "%s #%llu (%s) of group %s", comm_kind_name((comm_kind)kind), (unsigned long long)number,
                       name, group);
}

static const char *doing(process_state process, int state)
{
    switch (process) {
    case PROCESS_DEAD: return "is dead (killed, or it crashed)";
    case PROCESS_STOPPED: return "is stopped by a signal (kill -CONT lets it go on)";
    case PROCESS_HANGS: return "hangs in the system (a disk or a network that does not answer)";
    default: return state == RECORD_WAITS ? "waits" : state == RECORD_LEFT ? "has left the run" : "is busy";
    }
}

/* ", at step 12, backward of micro-batch 3, in all_reduce #118 (gradients) of group dp, h.3.attn". */
static void put_place(mega_buffer *out, const struct mega_record *r, int state)
{
    mega_buffer_puts(out, ", at ");
    if (r->step >= 0) mega_buffer_printf(out, "step %lld, ", (long long)r->step);
    mega_buffer_puts(out, r->phase);
    if (r->micro_batch >= 0) mega_buffer_printf(out, " of micro-batch %lld", (long long)r->micro_batch);
    if (r->kind < 0) return;
    mega_buffer_puts(out, state == RECORD_WAITS ? ", in " : ", behind ");
    put_call(out, r->kind, r->number, r->name, r->group);
    if (r->scope[0] != '\0') mega_buffer_printf(out, ", %s", r->scope);
}

/* What a rank is doing; whom it waits for joins the chain. Returns whether it waits. */
static bool put_rank(mega_buffer *out, const mega_world *w, int rank, chain *c)
{
    const struct mega_record *r = record_of(w, rank);
    if (r == NULL) {
        mega_buffer_printf(out, "rank %d is on another host, whose own report says what it does", rank);
        return false;
    }
    const int state = atomic_load(&r->state);
    const process_state process = record_process(r);
    mega_buffer_printf(out, "rank %d (process %d) %s", rank, atomic_load(&r->pid), doing(process, state));
    if (process != PROCESS_DEAD) mega_buffer_printf(out, " since %.0f s", mega_time_now() - r->since);
    put_place(out, r, state);
    if (process != PROCESS_RUNS || state != RECORD_WAITS) return false;
    const int count = r->num_missing <= RECORD_MISSING ? r->num_missing : RECORD_MISSING;
    mega_buffer_puts(out, ", for ");
    put_ranks(out, r->missing, count);
    chain_add(c, r->missing, count);
    return true;
}

/* The operation whose messages op waits for: where it stands in a queue, the first there. */
static const comm_op *head_of(const comm_op *op)
{
    const mega_world *w = op->comm->world;
    return op->state == COMM_QUEUED ? &w->op[w->channel[op->comm->tag].first] : op;
}

/* From this rank on along those that are waited for. */
static void put_report(mega_buffer *out, const comm_op *op)
{
    const mega_world *w = op->comm->world;
    const comm_op *head = head_of(op);
    chain c = {.rank = {w->rank}, .count = 1};
    bool all_wait = true;
    for (int i = 0; i < c.count; i++) {
        if (i > 0) mega_buffer_puts(out, "\n  ");
        all_wait &= put_rank(out, w, c.rank[i], &c);
        if (i > 0 || head == op) continue;
        mega_buffer_puts(out, ", which comes behind ");
        put_call(out, (int)head->kind, head->number, head->name, head->comm->name);
    }
    if (all_wait)
        mega_buffer_puts(out, "\n  all of these wait for each other: their calls do not match. MEGA_CHECK=2 in the "
                              "environment finds the first that differs");
}

/* Nobody that is waited for is dead or stopped, and all are at something that may take long. */
static bool is_patient(const mega_world *w)
{
    for (int i = 0; i < w->record->num_missing; i++) {
        const struct mega_record *r = record_of(w, w->record->missing[i]);
        if (r == NULL || !atomic_load(&r->is_long) || record_process(r) == PROCESS_STOPPED) return false;
    }
    return w->record->num_missing > 0;
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
    put_report(&text, op);
    mega_buffer_printf(&text, "\n  the run goes on waiting; --distributed-timeout-minutes (%.4g) is the limit",
                       w->timeout_s / 60);
    if (!text.failed && w->report != NULL) w->report(w->report_user, text.data);
    else if (!text.failed)
        mega_warn("%s", text.data);
    mega_buffer_fini(&text);
}

void stall_end(mega_world *w)
{
    int nobody = 0;
    w->stalled = true;
    if (w->page == NULL) return;
    if (atomic_compare_exchange_strong(&w->page->ender, &nobody, w->rank + 1)) return;
    for (const double began = mega_time_now(); mega_time_now() - began < FOLLOW_S;) /* signals cut a sleep short */
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

static mega_status end(const comm_op *op, int dead)
{
    mega_world *w = op->comm->world;
    mega_buffer text = {0};
    chain c = {.count = 0};
    if (dead >= 0) {
        put_rank(&text, w, dead, &c);
        mega_buffer_printf(&text, "; the run ends. Told by rank %d, which waited in ", w->rank);
        put_call(&text, (int)op->kind, op->number, op->name, op->comm->name);
    } else {
        put_report(&text, op);
        mega_buffer_printf(&text, "\n  longer than --distributed-timeout-minutes (%.4g) allows", w->timeout_s / 60);
    }
    const mega_status st =
        MEGA_FAIL(MEGA_ERR_COMM, "%s", text.failed ? "a wait for another rank does not end" : text.data);
    mega_buffer_fini(&text);
    stall_end(w);
    return st;
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
    w->record->num_missing = transport_missing(head_of(op), w->record->missing, RECORD_MISSING);
    if (op->limit_s > 0)
        return waited < op->limit_s ? MEGA_OK : MEGA_FAIL(MEGA_ERR_COMM, "group %s: not all came", op->comm->name);
    const int dead = record_dead(w);
    if (dead >= 0 || waited > limit) return end(op, dead);
    if (!w->watch.told && waited > (limit < 2 * FIRST_TOLD_S ? limit / 2 : FIRST_TOLD_S) && !is_patient(w))
        tell(op, now);
    return MEGA_OK;
}
