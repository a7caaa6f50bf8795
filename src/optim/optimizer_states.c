/* Norms of Adam's states and of the weights, for the log. */
#include "megalith/device_memory.h"
#include "optimizer_impl.h"

#include <math.h>
#include <string.h>

/* Elements that one call of the kernel sums. */
enum { MOST_SUMMED = 1 << 18, RESULT_BYTES = 64 };

/* In this order in memory, as the kernel writes them. */
typedef struct state_sums {
    double squares, sizes, roots, most; /* roots: of the absolute values */
} state_sums;

static mega_state_sums_args state_sums_args(const mega_optimizer *o, const void *x, int64_t count)
{
    char *const memory = o->state_sum;
    return (mega_state_sums_args){
        .head = {.dtype = mega_params_acc_dtype(o->params), .scratch = memory == NULL ? NULL : memory + RESULT_BYTES},
        .sums = (double *)(void *)memory,
        .x = x,
        .count = count};
}

size_t optimizer_states_bytes(const mega_optimizer *o)
{
    const mega_kernel *k = mega_kernel_of(o->options.backend, MEGA_KERNEL_state_sums);
    const mega_state_sums_args a = state_sums_args(o, NULL, MOST_SUMMED);
    return RESULT_BYTES + (k->scratch == NULL ? 0 : k->scratch(&a, mega_team_size(o->options.queue.team)));
}

static void add_elements(const mega_optimizer *o, const char *x, int64_t count, state_sums *total)
{
    const int64_t size = (int64_t)mega_dtype_size(mega_params_acc_dtype(o->params));
    mega_device_write(o->state_sum, total, sizeof *total);
    for (int64_t at = 0; at < count; at += MOST_SUMMED) {
        const int64_t left = count - at;
        const mega_state_sums_args a = state_sums_args(o, x + at * size, left < MOST_SUMMED ? left : MOST_SUMMED);
        optimizer_run(o, MEGA_KERNEL_state_sums, &a);
    }
    mega_device_read(total, o->state_sum, sizeof *total);
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
    const mega_axis axis[] = {*mega_params_counting(o->params), o->layout->tp, o->layout->pp};
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
    MEGA_TRY(optimizer_agree_read(o));
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
