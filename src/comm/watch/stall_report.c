/* Formats stall reports: who waits for whom in which call, and what a rank or a host is doing. */
#include "watch/stall_impl.h"

#include <string.h>

#define QUIET_S 3.0 /* without the sign of life that a host gives every second */

void chain_add(chain *c, const int *ranks, int count)
{
    for (int i = 0; i < count && c->count < CHAIN; i++) {
        int known = 0;
        while (known < c->count && c->rank[known] != ranks[i]) known++;
        if (known == c->count) c->rank[c->count++] = ranks[i];
    }
}

bool stall_waits(const record_view *v)
{
    return v->process == PROCESS_RUNS && v->state == RECORD_WAITS;
}

/* ---- a rank, a host ---- */

/* Appends "rank 3" or "ranks 3, 5". */
static void put_ranks(mega_buffer *out, const int *ranks, int count)
{
    mega_buffer_printf(out, "rank%s ", count == 1 ? "" : "s");
    for (int i = 0; i < count; i++) mega_buffer_printf(out, "%s%d", i > 0 ? ", " : "", ranks[i]);
    if (count == 0) mega_buffer_puts(out, "about which nothing is known");
}

/* Appends "all_reduce #118 (gradients) of group dp". */
static void report_put_call(mega_buffer *out, int kind, uint64_t number, const char *name, const char *group)
{
    mega_buffer_printf(out, "%s #%llu (%s) of group %s", comm_kind_name((comm_kind)kind), (unsigned long long)number,
                       name, group);
}

static void put_doing(mega_buffer *out, const record_view *r)
{
    const char *doing = r->state == RECORD_WAITS ? "waiting" : "busy";
    if (r->process == PROCESS_DEAD) {
        mega_buffer_puts(out, r->state == RECORD_FAILED ? "has failed and ended; its own message says why"
                                                        : "is dead (killed, or it crashed)");
        return;
    }
    if (r->process == PROCESS_STOPPED) doing = "stopped by a signal (kill -CONT continues it)";
    else if (r->process == PROCESS_HANGS)
        doing = "hanging in the system (a disk or a network that does not answer)";
    else if (r->state == RECORD_LEFT) {
        mega_buffer_printf(out, "left the run %.0f s ago", r->age);
        return;
    }
    mega_buffer_printf(out, "has been %s for %.0f s", doing, r->age);
}

/* Appends ", at step 12, backward of micro-batch 3, in all_reduce #118 (gradients) of group dp, h.3.attn". */
static void put_place(mega_buffer *out, const record_view *r)
{
    mega_buffer_puts(out, ", at ");
    if (r->step >= 0) mega_buffer_printf(out, "step %lld, ", (long long)r->step);
    mega_buffer_puts(out, r->phase);
    if (r->micro_batch >= 0) mega_buffer_printf(out, " of micro-batch %lld", (long long)r->micro_batch);
    if (r->kind < 0) return;
    mega_buffer_puts(out, r->state == RECORD_WAITS ? ", in " : ", after ");
    report_put_call(out, r->kind, r->number, r->name, r->group);
    if (r->scope[0] != '\0') mega_buffer_printf(out, ", %s", r->scope);
}

/* Appends "host node1 (ranks 4-7, 12)". */
static void put_host(mega_buffer *out, const host_status *h)
{
    mega_buffer_printf(out, "host %s (rank%s ", h->name, h->ranks == 1 ? "" : "s");
    for (int i = 0; i < h->ranks;) {
        int next = i + 1;
        while (next < h->ranks && h->rank[next] == h->rank[next - 1] + 1) next++;
        mega_buffer_printf(out, "%s%d", i > 0 ? ", " : "", h->rank[i]);
        if (next - i > 1) mega_buffer_printf(out, "-%d", h->rank[next - 1]);
        i = next;
    }
    mega_buffer_puts(out, ")");
}

/* Appends why a host does not answer. */
static void put_host_state(mega_buffer *out, const host_status *h)
{
    put_host(out, h);
    if (!h->reached)
        mega_buffer_printf(out, " could never be reached over TCP (%s); see its own report",
                           h->error != 0 ? strerror(h->error) : "no answer");
    else if (h->refusing > 0)
        mega_buffer_puts(out, " no longer has any process of its ranks: its system refuses connections to them");
    else if (h->silent > QUIET_S)
        mega_buffer_printf(out, " has not answered for %.0f s: it is down, or its network is", h->silent);
    else
        mega_buffer_printf(
            out, " is up, but none of its ranks has answered for %.0f s: all are stopped, or it is overloaded",
            h->mute);
}

/* Appends what a rank is doing, and adds the ranks that it waits for to the chain. Returns whether it waits. */
static bool put_rank(mega_buffer *out, const mega_world *w, int rank, chain *c)
{
    record_view v;
    host_status h;
    double stale;
    const bool is_far = exchange_host(w, rank, &h), is_known = record_read(w, rank, &v, &stale);
    if (!is_known && !is_far) {
        mega_buffer_printf(out, "rank %d cannot be observed from here; its own report says what it does", rank);
        return false;
    }
    mega_buffer_printf(out, "rank %d ", rank);
    if (is_known) {
        mega_buffer_printf(out, "(process %d%s%s) ", v.pid, is_far ? " on host " : "", is_far ? h.name : "");
        put_doing(out, &v);
        put_place(out, &v);
    } else
        mega_buffer_puts(out, "has not been heard from");
    const bool waits = is_known && stall_waits(&v);
    if (waits) {
        mega_buffer_puts(out, ", for ");
        put_ranks(out, v.missing, v.num_missing);
        chain_add(c, v.missing, v.num_missing);
    }
    if (!is_far || (is_known && stale < STALE_S)) return waits;
    if (is_known) mega_buffer_printf(out, " (reported by that rank %.0f s ago)", stale);
    mega_buffer_puts(out, ": ");
    put_host_state(out, &h);
    return waits;
}

/* ---- a wait ---- */

const comm_op *stall_head(const comm_op *op)
{
    const mega_world *w = op->comm->world;
    return op->state == COMM_QUEUED ? &w->op[w->channel[op->comm->tag].first] : op;
}

void stall_put_report(mega_buffer *out, const comm_op *op)
{
    const mega_world *w = op->comm->world;
    const comm_op *head = stall_head(op);
    chain c = {.rank = {w->rank}, .count = 1};
    bool all_wait = true;
    for (int i = 0; i < c.count; i++) {
        if (i > 0) mega_buffer_puts(out, "\n  ");
        all_wait &= put_rank(out, w, c.rank[i], &c);
        if (i > 0 || head == op) continue;
        mega_buffer_puts(out, ", which is queued after ");
        report_put_call(out, (int)head->kind, head->number, head->name, head->comm->name);
    }
    if (w->connecting != NULL)
        mega_buffer_puts(out, "\n  NCCL does not come to the end of connecting their GPUs; NCCL_DEBUG=INFO in the "
                              "environment makes it say more");
    else if (all_wait)
        mega_buffer_puts(out, "\n  all of these wait for each other: their calls do not match. MEGA_CHECK=2 in the "
                              "environment finds the first that differs");
}

void stall_put_loss(mega_buffer *out, const comm_op *op, const loss *l)
{
    const mega_world *w = op->comm->world;
    chain c = {.count = 0};
    host_status h;
    if (l->dead >= 0) put_rank(out, w, l->dead, &c);
    else if (exchange_host(w, l->lost, &h))
        put_host_state(out, &h);
    mega_buffer_printf(out, "; the run ends. Reported by rank %d, which waited in ", w->rank);
    report_put_call(out, (int)op->kind, op->number, op->name, op->comm->name);
    if (l->dead >= 0) return;
    mega_buffer_puts(out, " for ");
    put_ranks(out, w->record->missing, w->record->num_missing);
}
