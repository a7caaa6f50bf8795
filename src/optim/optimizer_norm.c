/* Norms over the elements that a rank counts, and the search for values that are not finite. */
#include "optimizer_impl.h"

#include <math.h>

static const mega_kernel *norm_kernel(const mega_optimizer *o)
{
    return mega_kernel_of(o->options.backend, MEGA_KERNEL_norm);
}

static mega_norm_args norm_args(const mega_optimizer *o, const optimizer_span *r, optimizer_numbers_at *at, double *out)
{
    return (mega_norm_args){.head = {.dtype = mega_params_acc_dtype(o->params), .scratch = o->norm_scratch},
                            .out = out,
                            .x = at == NULL ? NULL : at(o->params, r->bucket, r->begin),
                            .count = r->end - r->begin};
}

/* Scratch for the longest range that the kernel ever gets: a counted span, or a single tensor. */
size_t optimizer_norm_scratch(const mega_optimizer *o)
{
    const mega_kernel *k = norm_kernel(o);
    optimizer_span longest = {0};
    double out[3];
    if (k->scratch == NULL) return 0;
    for (int i = 0; i < o->num_counted; i++)
        if (o->counted[i].end - o->counted[i].begin > longest.end)
            longest.end = o->counted[i].end - o->counted[i].begin;
    for (int i = 0; i < mega_params_count(o->params); i++)
        if (mega_params_owned(o->params, i).count > longest.end) longest.end = mega_params_owned(o->params, i).count;
    const mega_norm_args a = norm_args(o, &longest, NULL, out);
    return k->scratch(&a, mega_team_size(o->options.queue.team));
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
 * vocabulary. */
static int64_t padding_elements(const mega_optimizer *o)
{
    int64_t real = 0;
    for (int i = 0; i < mega_params_count(o->params); i++)
        if (optimizer_is_counted(o, mega_params_get(o->params, i))) real += mega_optimizer_real_elements(o, i);
    return o->walked - real;
}

void optimizer_norm_begin(const mega_optimizer *o, double sum[3])
{
    sum[0] = sum[2] = 0;
    sum[1] = mega_params_shards(o->params).rank == 0 ? -(double)padding_elements(o) : 0;
}

void optimizer_norm_add(const mega_optimizer *o, int span, optimizer_numbers_at *at, double sum[3])
{
    double part[3];
    const mega_norm_args a = norm_args(o, &o->counted[span], at, part);
    optimizer_run(o, MEGA_KERNEL_norm, &a);
    for (int j = 0; j < 3; j++) sum[j] += part[j];
}

/* Adds the sums over gradients that are held in 16 bits. */
static void add_pieces(mega_optimizer *o, int bucket, int64_t first, int64_t count, double sum[3])
{
    for (int64_t at = 0; at < count; at += OPTIMIZER_PIECE) {
        const int64_t n = count - at < OPTIMIZER_PIECE ? count - at : OPTIMIZER_PIECE;
        const optimizer_span piece = {.end = n};
        double part[3];
        mega_norm_args a = norm_args(o, &piece, NULL, part);
        a.x = optimizer_widen(o, bucket, first + at, n);
        optimizer_run(o, MEGA_KERNEL_norm, &a);
        for (int j = 0; j < 3; j++) sum[j] += part[j];
    }
}

void optimizer_norm_add_gradients(mega_optimizer *o, int span, double sum[3])
{
    const optimizer_span *r = &o->counted[span];
    if (optimizer_is_held_in_half(o, r->bucket)) add_pieces(o, r->bucket, r->begin, r->end - r->begin, sum);
    else
        optimizer_norm_add(o, span, mega_params_grad_at, sum);
}

mega_norm_result optimizer_norm_result(const double sum[3])
{
    return (mega_norm_result){.norm = sqrt(sum[0]), .zeros = (int64_t)sum[1], .finite = sum[2] == 0};
}

mega_status mega_optimizer_params_norm(mega_optimizer *o, mega_norm_result *out)
{
    static const char what[] = "parameter norm";
    double sum[3];
    if (o == NULL || out == NULL)
        return MEGA_FAIL(MEGA_ERR_USAGE, "norm: %s is NULL; give it", o == NULL ? "the optimizer" : "out");
    MEGA_TRY(optimizer_check_params(o, what));
    if (o->norm_scratch == NULL && o->norm_scratch_bytes > 0)
        return MEGA_FAIL(MEGA_ERR_USAGE, "%s: the optimizer has no memory yet; call mega_optimizer_allocate first",
                         what);
    optimizer_norm_begin(o, sum);
    for (int i = 0; i < o->num_counted; i++) optimizer_norm_add(o, i, mega_params_master_at, sum);
    MEGA_TRY(mega_params_sum_shards(o->params, what, sum, 3));
    MEGA_TRY(mega_comm_all_reduce(o->layout->tp.comm, what, sum, 3, MEGA_F64, MEGA_REDUCE_SUM));
    MEGA_TRY(mega_comm_all_reduce(o->layout->pp.comm, what, sum, 3, MEGA_F64, MEGA_REDUCE_SUM));
    *out = optimizer_norm_result(sum);
    return MEGA_OK;
}

mega_norm_result mega_optimizer_look(mega_optimizer *o, const void *x, int64_t count)
{
    double part[3] = {0, 0, 0};
    mega_norm_args a = norm_args(o, &(optimizer_span){.end = count}, NULL, part);
    a.x = x;
    if (count > 0) optimizer_run(o, MEGA_KERNEL_norm, &a);
    return (mega_norm_result){.norm = sqrt(part[0]), .zeros = (int64_t)part[1], .finite = part[2] == 0};
}

static bool gradient_is_finite(mega_optimizer *o, int bucket, int64_t first, int64_t count)
{
    double sum[3] = {0, 0, 0};
    if (!optimizer_is_held_in_half(o, bucket))
        return mega_optimizer_look(o, mega_params_grad_at(o->params, bucket, first), count).finite;
    add_pieces(o, bucket, first, count, sum);
    return optimizer_norm_result(sum).finite;
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
