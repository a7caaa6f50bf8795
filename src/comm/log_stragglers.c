/* What exchanges cost, and what waiting for the slowest rank of a group cost: the second table of DeepSpeed's
 * log_summary. The rank that comes last to an exchange needs the least time for it; what another rank needs beyond that
 * is waiting. */
#include "log_lines.h"
#include "megalith/hash.h"

#include <string.h>

/* Two numbers of 32 bits say whether the ranks of a group have counted the same. */
enum { HASH_HALVES = 2 };

static bool is_collective(comm_kind kind)
{
    return kind != COMM_SEND && kind != COMM_RECEIVE;
}

static bool is_of(const comm_log_line *x, const mega_comm *comm)
{
    return x->comm == comm && strcmp(x->group, comm->name) == 0 && x->ranks == comm->size && is_collective(x->kind);
}

static void stragglers_hash_lines(const struct comm_log *l, const mega_comm *comm, double half[HASH_HALVES])
{
    uint64_t hash = MEGA_HASH_START;
    for (int i = 0; i < l->lines; i++) {
        const comm_log_line *x = &l->line[i];
        const int64_t of[] = {(int64_t)x->kind, x->count};
        if (is_of(x, comm)) hash = mega_hash64(hash, of, sizeof of);
    }
    half[0] = (double)(hash & UINT32_MAX);
    half[1] = (double)(hash >> 32);
}

/* Returns in *same whether all ranks of the group have the same lines, in the same order. */
static mega_status compare_lines(const struct comm_log *l, mega_comm *comm, bool *same)
{
    double least[HASH_HALVES], most[HASH_HALVES];
    stragglers_hash_lines(l, comm, least);
    memcpy(most, least, sizeof most);
    MEGA_TRY(mega_comm_all_reduce(comm, "stragglers", least, HASH_HALVES, MEGA_F64, MEGA_REDUCE_MIN));
    MEGA_TRY(mega_comm_all_reduce(comm, "stragglers", most, HASH_HALVES, MEGA_F64, MEGA_REDUCE_MAX));
    *same = memcmp(least, most, sizeof most) == 0;
    return MEGA_OK;
}

/* For every line of the group, the least time that a rank needed for each of its last exchanges. */
static mega_status find_least(struct comm_log *l, mega_comm *comm, float (*least)[COMM_LOG_RECENT], bool *has)
{
    bool same = false;
    MEGA_TRY(compare_lines(l, comm, &same));
    for (int i = 0; i < l->lines && same; i++) {
        if (!is_of(&l->line[i], comm)) continue;
        memcpy(least[i], l->line[i].recent_s, sizeof least[i]);
        MEGA_TRY(mega_comm_all_reduce(comm, "stragglers", least[i], comm_log_recent(&l->line[i]), MEGA_F32,
                                      MEGA_REDUCE_MIN));
        has[i] = true;
    }
    return MEGA_OK;
}

static void put_stragglers(const comm_log_line *x, const float *least, mega_buffer *out)
{
    float wait[COMM_LOG_RECENT];
    char size[24];
    const int n = comm_log_recent(x);
    double exchange = 0, straggler = 0;
    for (int i = 0; i < n; i++) {
        wait[i] = x->recent_s[i] - least[i];
        exchange += (double)least[i];
        straggler += (double)wait[i];
    }
    mega_buffer_printf(out, "  %-18.17s%-20s%-20d%-20.2f%-20.2f%-20.2f%-20.2f\n", x->group,
                       comm_log_size_text(size, x->bytes), n, exchange * 1e3, straggler * 1e3,
                       comm_log_trimmed_mean(least, n) * 1e3, comm_log_trimmed_mean(wait, n) * 1e3);
}

static void put_table(const struct comm_log *l, float (*least)[COMM_LOG_RECENT], const bool *has, mega_buffer *out)
{
    const comm_log_line *sorted[COMM_LOG_LINES], *before = NULL;
    comm_log_sorted(l, sorted);
    mega_buffer_printf(out, "_______________________________\nBreakdown with straggler effect\n"
                            "-------------------------------\n");
    mega_buffer_printf(out, "%-20s%-20s%-20s%-20s%-20s%-20s%-20s\n", "Comm. Op", "Message Size", "Count",
                       "Total comm lat(ms)", "Total straggler(ms)", "Avg comm lat(ms)", "Avg straggler(ms)");
    for (int i = 0; i < l->lines; i++) {
        const ptrdiff_t at = sorted[i] - l->line;
        if (!has[at]) continue;
        comm_log_put_kind(sorted[i], before, out);
        put_stragglers(sorted[i], least[at], out);
        before = sorted[i];
    }
}

static mega_status find_all(mega_world *world, struct comm_log *l, mega_comm *const *comm, int comms, mega_buffer *out)
{
    bool has[COMM_LOG_LINES] = {false};
    float(*least)[COMM_LOG_RECENT] = mega_calloc(COMM_LOG_LINES, sizeof *least);
    mega_status st = least != NULL ? MEGA_OK : MEGA_NO_MEMORY("comms logger", "the times of exchanges");
    st = mega_comm_agree(&world->all, st);
    for (int i = 0; i < comms && st == MEGA_OK; i++)
        if (comm[i]->size > 1) st = find_least(l, comm[i], least, has);
    if (st == MEGA_OK) put_table(l, least, has, out);
    mega_free(least);
    return st;
}

mega_status mega_comm_log_stragglers(mega_world *world, mega_comm *const *comm, int comms, mega_buffer *out)
{
    if (world == NULL || world->size == 1) return MEGA_OK;
    struct comm_log *l = world->log;
    world->log = NULL; /* the exchanges of the report itself are not counted */
    double counts = l != NULL;
    mega_status st = mega_comm_all_reduce(&world->all, "stragglers", &counts, 1, MEGA_F64, MEGA_REDUCE_MIN);
    if (st == MEGA_OK && counts > 0) st = find_all(world, l, comm, comms, out);
    world->log = l;
    return st;
}
