/* Norms over the elements that a rank counts, and the search for values that are not finite. */
#include "megalith/device_memory.h"
#include "optimizer_impl.h"

#include <math.h>

enum { RESULT_BYTES = 64 }; /* first in the scratch: three sums, of a norm that is not the gradients' */

static double *norm_result(const mega_optimizer *o)
{
    return o->norm_scratch;
}

/* The sums over a range are added to those at `out`. */
static mega_norm_args norm_args(const mega_optimizer *o, void *out, const void *x, int64_t count)
{
    char *const scratch = o->norm_scratch;
    return (mega_norm_args){
        .head = {.dtype = mega_params_acc_dtype(o->params), .scratch = scratch == NULL ? NULL : scratch + RESULT_BYTES},
        .out = out,
        .x = x,
        .count = count,
        .adds = true};
}

/* Scratch for the longest range that the kernel ever gets: a counted span, or a single tensor. */
size_t optimizer_norm_scratch(const mega_optimizer *o)
{
    const mega_kernel *k = mega_kernel_of(o->options.backend, MEGA_KERNEL_norm);
    int64_t longest = 0;
    if (k->scratch == NULL) return RESULT_BYTES;
    for (int i = 0; i < o->num_counted; i++)
        if (o->counted[i].end - o->counted[i].begin > longest) longest = o->counted[i].end - o->counted[i].begin;
    for (int i = 0; i < mega_params_count(o->params); i++)
        if (mega_params_owned(o->params, i).count > longest) longest = mega_params_owned(o->params, i).count;
    const mega_norm_args a = norm_args(o, NULL, NULL, longest);
    return RESULT_BYTES + k->scratch(&a, mega_team_size(o->options.queue.team));
}

int64_t mega_optimizer_real_elements(const mega_optimizer *o, int param)
{
    const mega_param *p = mega_params_get(o->params, param);
    int64_t rows = p->local_shape[0];
    const int64_t others = p->count / (rows > 0 ? rows : 1);
    if (p->axis == MEGA_AXIS_TP && p->cut_dim == 0 && p->num_parts <= 1) {
        const int64_t left = p->true_shape[0] - rows * o->layout->tp.rank;
        rows = left < 0 ? 0 : left < rows ? left : rows;
    } else if (p->axis != MEGA_AXIS_TP || p->cut_dim != 0) {
        rows = p->true_shape[0] < rows ? p->true_shape[0] : rows;
    }
    return rows * others;
}

/* Returns the number of elements that are always zero, over all ranks of dp: gaps inside spans, and padding rows of the
 * vocabulary. One of the ranks that have slices of a bucket counts all of those in it. */
static int64_t padding_elements(const mega_optimizer *o)
{
    int64_t real = 0;
    for (int i = 0; i < mega_params_count(o->params); i++) {
        const mega_param *p = mega_params_get(o->params, i);
        if (optimizer_is_counted(o, p) && optimizer_has_first_slice(o, p->bucket))
            real += mega_optimizer_real_elements(o, i);
    }
    return o->walked - real;
}

/* What is counted before the first span. */
static double counted_zeros(const mega_optimizer *o)
{
    return -(double)padding_elements(o);
}

void optimizer_norm_begin(mega_optimizer *o)
{
    const double sum[3] = {0, counted_zeros(o), 0};
    mega_device_write(o->block, sum, sizeof sum);
}

/* Adds the sums over numbers of the acc type. */
static void add_numbers(const mega_optimizer *o, const void *x, int64_t count, void *out)
{
    const mega_norm_args a = norm_args(o, out, x, count);
    optimizer_run(o, MEGA_KERNEL_norm, &a);
}

/* Adds the sums over gradients. */
static void add_gradients(mega_optimizer *o, int bucket, int64_t first, int64_t count, void *out)
{
    if (!optimizer_is_held_in_half(o, bucket)) {
        add_numbers(o, mega_params_grad_at(o->params, bucket, first), count, out);
        return;
    }
    const int64_t most = optimizer_piece(o);
    for (int64_t at = 0; at < count; at += most) {
        const int64_t n = count - at < most ? count - at : most;
        add_numbers(o, optimizer_widen(o, bucket, first + at, n), n, out);
    }
}

void optimizer_norm_add_gradients(mega_optimizer *o, int span)
{
    const optimizer_span *r = &o->counted[span];
    add_gradients(o, r->bucket, r->begin, r->end - r->begin, o->block);
}

mega_norm_result optimizer_norm_result(const double sum[3])
{
    return (mega_norm_result){.norm = sqrt(sum[0]), .zeros = (int64_t)sum[1], .finite = sum[2] == 0};
}

static void result_begin(const mega_optimizer *o, double zeros)
{
    const double sum[3] = {0, zeros, 0};
    mega_device_write(norm_result(o), sum, sizeof sum);
}

static mega_norm_result result_end(const mega_optimizer *o)
{
    double sum[3];
    mega_device_read(sum, norm_result(o), sizeof sum);
    return optimizer_norm_result(sum);
}

mega_status optimizer_agree_read(const mega_optimizer *o)
{
    mega_device *const device = mega_device_of(norm_result(o));
    return device == NULL ? MEGA_OK : mega_comm_agree(o->layout->world.comm, mega_device_finish(device));
}

mega_status mega_optimizer_params_norm(mega_optimizer *o, mega_norm_result *out)
{
    static const char what[] = "parameter norm";
    double sum[3];
    if (o == NULL || out == NULL) return MEGA_MISTAKE("norm: %s is NULL; give it", o == NULL ? "the optimizer" : "out");
    MEGA_TRY(optimizer_check_params(o, what));
    if (o->norm_scratch == NULL && o->norm_scratch_bytes > 0)
        return MEGA_MISTAKE("%s: the optimizer has no memory yet; call mega_optimizer_allocate first", what);
    result_begin(o, counted_zeros(o));
    for (int i = 0; i < o->num_counted; i++) {
        const optimizer_span *r = &o->counted[i];
        add_numbers(o, mega_params_master_at(o->params, r->bucket, r->begin), r->end - r->begin, norm_result(o));
    }
    mega_device_read(sum, norm_result(o), sizeof sum);
    MEGA_TRY(optimizer_agree_read(o));
    MEGA_TRY(mega_params_sum_counts(o->params, what, sum, 3));
    MEGA_TRY(mega_comm_all_reduce(o->layout->tp.comm, what, sum, 3, MEGA_F64, MEGA_REDUCE_SUM));
    MEGA_TRY(mega_comm_all_reduce(o->layout->pp.comm, what, sum, 3, MEGA_F64, MEGA_REDUCE_SUM));
    *out = optimizer_norm_result(sum);
    return MEGA_OK;
}

mega_norm_result mega_optimizer_look(mega_optimizer *o, const void *x, int64_t count)
{
    result_begin(o, 0);
    if (count > 0) add_numbers(o, x, count, norm_result(o));
    return result_end(o);
}

static bool gradient_is_finite(mega_optimizer *o, int bucket, int64_t first, int64_t count)
{
    result_begin(o, 0);
    add_gradients(o, bucket, first, count, norm_result(o));
    return result_end(o).finite;
}

int mega_optimizer_find_nonfinite(mega_optimizer *o)
{
    for (int i = 0; i < mega_params_count(o->params); i++) {
        const mega_param *p = mega_params_get(o->params, i);
        const mega_range owned = mega_params_owned(o->params, i);
        if (owned.count == 0 || !mega_param_is_trained(p)) continue;
        if (!gradient_is_finite(o, p->bucket, p->offset + owned.first, owned.count)) return i;
    }
    return -1;
}
