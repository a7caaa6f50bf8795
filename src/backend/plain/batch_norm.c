/* Batch norm over groups of rows, its gradient, batch norm with given statistics, and the update of running statistics:
 * plain kernels (ops_norm.h). Ioffe, Szegedy 2015. */
#include "backend_impl.h"
#include <math.h>

static void plain_batch_norm_run(const mega_queue *queue, const void *args)
{
    const mega_batch_norm_args *a = args;
    const mega_dtype t = a->head.dtype, acc = acc_of(t);
    const double rows = (double)a->rows;
    for (int64_t g = 0; g < a->groups; g++)
        for (int64_t c = 0; c < a->cols; c++) {
            double sum = 0.0, sum_sq = 0.0;
            for (int64_t r = g * a->rows; r < (g + 1) * a->rows; r++) sum += get(a->x, t, r * a->cols + c);
            const double mean = sum / rows;
            for (int64_t r = g * a->rows; r < (g + 1) * a->rows; r++) {
                const double d = get(a->x, t, r * a->cols + c) - mean;
                sum_sq += d * d;
            }
            const double var = sum_sq / rows, factor = get(a->gain, t, c) / sqrt(var + a->eps);
            for (int64_t r = g * a->rows; r < (g + 1) * a->rows; r++)
                put(a->y, t, r * a->cols + c, (get(a->x, t, r * a->cols + c) - mean) * factor + get(a->bias, t, c));
            put(a->mean, acc, g * a->cols + c, mean);
            put(a->var, acc, g * a->cols + c, var);
        }
}

/* dx = gain rstd (dy - mean of dy - n * mean of (dy n)), where n is the normalized x and means are over the group's
 * rows. */
static void plain_batch_norm_grad_run(const mega_queue *queue, const void *args)
{
    const mega_batch_norm_grad_args *a = args;
    const mega_dtype t = a->head.dtype, acc = acc_of(t);
    for (int64_t g = 0; g < a->groups; g++)
        for (int64_t c = 0; c < a->cols; c++) {
            const double mean = get(a->mean, acc, g * a->cols + c);
            const double rstd = 1.0 / sqrt(get(a->var, acc, g * a->cols + c) + a->eps), gain = get(a->gain, t, c);
            double sum = 0.0, sum_n = 0.0;
            for (int64_t i = g * a->rows * a->cols + c; i < (g + 1) * a->rows * a->cols; i += a->cols) {
                sum += get(a->dy, t, i);
                sum_n += get(a->dy, t, i) * (get(a->x, t, i) - mean) * rstd;
            }
            for (int64_t i = g * a->rows * a->cols + c; i < (g + 1) * a->rows * a->cols; i += a->cols) {
                const double normal = (get(a->x, t, i) - mean) * rstd;
                put(a->dx, t, i, gain * rstd * (get(a->dy, t, i) - (sum + normal * sum_n) / (double)a->rows));
            }
            put_add(a->dgain, acc, c, sum_n);
            put_add(a->dbias, acc, c, sum);
        }
}

static void plain_batch_norm_fixed_run(const mega_queue *queue, const void *args)
{
    const mega_batch_norm_fixed_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < a->cols; c++) {
            const double normal =
                (get(a->x, t, r * a->cols + c) - get(a->mean, a->stats, c)) / sqrt(get(a->var, a->stats, c) + a->eps);
            put(a->y, t, r * a->cols + c, normal * get(a->gain, t, c) + get(a->bias, t, c));
        }
}

static void plain_batch_norm_update_run(const mega_queue *queue, const void *args)
{
    const mega_batch_norm_update_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    const double unbiased = (double)a->rows / ((double)a->rows - 1.0);
    const double later = pow(1.0 - a->momentum, (double)(a->groups * a->head.step->later_micro_batches));
    for (int64_t c = 0; c < a->cols; c++) {
        double mean = 0.0, var = 0.0;
        for (int64_t g = 0; g < a->groups; g++) {
            mean = (1.0 - a->momentum) * mean + a->momentum * get(a->mean, acc, g * a->cols + c);
            var = (1.0 - a->momentum) * var + a->momentum * get(a->var, acc, g * a->cols + c) * unbiased;
        }
        put_add(a->sum_mean, acc, c, later * mean);
        put_add(a->sum_var, acc, c, later * var);
    }
}

const mega_kernel mega_plain_batch_norm = {.name = "batch_norm", .run = plain_batch_norm_run};
const mega_kernel mega_plain_batch_norm_grad = {.name = "batch_norm_grad", .run = plain_batch_norm_grad_run};
const mega_kernel mega_plain_batch_norm_fixed = {.name = "batch_norm_fixed", .run = plain_batch_norm_fixed_run};
const mega_kernel mega_plain_batch_norm_update = {.name = "batch_norm_update", .run = plain_batch_norm_update_run};
