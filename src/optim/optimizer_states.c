/* Norms of Adam's states and of the weights, for the log. */
#include "megalith/device_memory.h"
#include "optimizer_impl.h"

#include <math.h>
#include <string.h>

/* Elements are summed in pieces of this size, PIECES of them at a time, so that the sums do not depend on the number of
 * threads. */
enum { PIECE = 16384, PIECES = 64 };

typedef struct state_sums {
    double squares, sizes, roots, most; /* roots: of the absolute values */
} state_sums;

typedef struct state_pieces {
    const void *x;
    bool is_double;
    int64_t count;
    state_sums sum[PIECES];
} state_pieces;

static void states_sum_pieces(void *user, int thread, int64_t first, int64_t end)
{
    state_pieces *p = user;
    (void)thread;
    for (int64_t k = first; k < end; k++) {
        const int64_t stop = (k + 1) * PIECE < p->count ? (k + 1) * PIECE : p->count;
        state_sums s = {0, 0, 0, 0};
        for (int64_t i = k * PIECE; i < stop; i++) {
            const double x = fabs(p->is_double ? ((const double *)p->x)[i] : (double)((const float *)p->x)[i]);
            s.squares += x * x;
            s.sizes += x;
            s.roots += sqrt(x);
            if (!(x <= s.most)) s.most = x; /* a NaN stays */
        }
        p->sum[k] = s;
    }
}

static void states_join_sums(state_sums *into, const state_sums *from)
{
    into->squares += from->squares;
    into->sizes += from->sizes;
    into->roots += from->roots;
    if (!(from->most <= into->most)) into->most = from->most;
}

static void add_elements(const mega_optimizer *o, const char *x, int64_t count, state_sums *total)
{
    const bool is_double = mega_params_acc_dtype(o->params) == MEGA_F64;
    const int64_t size = is_double ? (int64_t)sizeof(double) : (int64_t)sizeof(float);
    state_pieces p;
    for (int64_t at = 0; at < count; at += PIECE * PIECES) {
        p = (state_pieces){.x = x + at * size, .is_double = is_double, .count = count - at};
        if (p.count > PIECE * PIECES) p.count = PIECE * PIECES;
        const int64_t pieces = (p.count + PIECE - 1) / PIECE;
        mega_device_begin();
        mega_team_for(o->options.queue.team, pieces, 1, states_sum_pieces, &p);
        mega_device_end();
        for (int64_t k = 0; k < pieces; k++) states_join_sums(total, &p.sum[k]);
    }
}

/* Which of the numbers a state is; MEGA_STATE_KINDS: none of them. */
static int state_kind(const char *name)
{
    if (strcmp(name, "exp_avg_sq") == 0) return MEGA_STATE_VARIANCE;
    return strcmp(name, "exp_avg") == 0 || strcmp(name, "momentum_buffer") == 0 ? MEGA_STATE_MOMENTUM
                                                                                : MEGA_STATE_KINDS;
}

static void add_parameter(mega_optimizer *o, int param, state_sums sum[MEGA_STATE_KINDS])
{
    const mega_param *p = mega_params_get(o->params, param);
    const mega_range owned = mega_params_owned(o->params, param);
    if (owned.count == 0 || !optimizer_is_counted(o, p)) return;
    add_elements(o, mega_params_master_at(o->params, p->bucket, p->offset + owned.first), owned.count,
                 &sum[MEGA_STATE_WEIGHT]);
    for (int k = 0; k < mega_optimizer_num_moments(o); k++) {
        const int kind = state_kind(mega_optimizer_moment_name(o, k));
        const void *moment = mega_optimizer_moment(o, k, param);
        if (kind < MEGA_STATE_KINDS && moment != NULL) add_elements(o, moment, owned.count, &sum[kind]);
    }
}

static mega_status sum_over(mega_optimizer *o, double *sums, double *most)
{
    static const char what[] = "norms of states";
    const mega_axis axis[] = {mega_params_shards(o->params), o->layout->tp, o->layout->pp};
    for (int i = 0; i < 3; i++) {
        if (!mega_axis_has_others(&axis[i])) continue;
        MEGA_TRY(mega_comm_all_reduce(axis[i].comm, what, sums, 3 * MEGA_STATE_KINDS, MEGA_F64, MEGA_REDUCE_SUM));
        MEGA_TRY(mega_comm_all_reduce(axis[i].comm, what, most, MEGA_STATE_KINDS, MEGA_F64, MEGA_REDUCE_MAX));
    }
    return MEGA_OK;
}

bool mega_optimizer_has_state(const mega_optimizer *o, mega_state_kind kind)
{
    if (kind == MEGA_STATE_WEIGHT) return true;
    for (int k = 0; k < mega_optimizer_num_moments(o); k++) {
        const int of = state_kind(mega_optimizer_moment_name(o, k));
        if (of == (int)kind || (of == MEGA_STATE_VARIANCE && kind == MEGA_STATE_VARIANCE_SQRT)) return true;
    }
    return false;
}

mega_status mega_optimizer_state_norms(mega_optimizer *o, mega_state_norms *out)
{
    state_sums sum[MEGA_STATE_KINDS] = {{0, 0, 0, 0}};
    double sums[3 * MEGA_STATE_KINDS], most[MEGA_STATE_KINDS];
    for (int i = 0; i < mega_params_count(o->params); i++) add_parameter(o, i, sum);
    for (int k = 0; k < MEGA_STATE_KINDS; k++) {
        sums[3 * k] = sum[k].squares;
        sums[3 * k + 1] = sum[k].sizes;
        sums[3 * k + 2] = sum[k].roots;
        most[k] = sum[k].most;
    }
    MEGA_TRY(sum_over(o, sums, most));
    for (int k = 0; k < MEGA_STATE_KINDS; k++) {
        out->l2[k] = sqrt(sums[3 * k]);
        out->l1[k] = sums[3 * k + 1];
        out->abs_max[k] = most[k];
    }
    out->l2[MEGA_STATE_VARIANCE_SQRT] = sqrt(out->l1[MEGA_STATE_VARIANCE]);
    out->l1[MEGA_STATE_VARIANCE_SQRT] = sums[3 * MEGA_STATE_VARIANCE + 2];
    out->abs_max[MEGA_STATE_VARIANCE_SQRT] = sqrt(most[MEGA_STATE_VARIANCE]);
    return MEGA_OK;
}
