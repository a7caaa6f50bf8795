/* Scaling of rows by the root of the mean of squares, and its gradient: plain kernels (ops_wide_norm.h). */
#include "backend_impl.h"
#include <math.h>

static double factor(const void *gain, mega_dtype t, int64_t c, bool plus_one)
{
    return (plus_one ? 1.0 : 0.0) + (gain != NULL ? get(gain, t, c) : plus_one ? 0.0 : 1.0);
}

static void plain_rms_scale_run(const mega_queue *queue, const void *args)
{
    const mega_rms_scale_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t row = 0; row < a->rows; row++) {
        const double r = 1.0 / sqrt(get(a->sum, acc_of(t), row) / (double)a->total + a->eps);
        for (int64_t c = 0; c < a->cols; c++) {
            const int64_t i = row * a->cols + c;
            put(a->y, t, i, get(a->x, t, i) * r * factor(a->gain, t, c, a->plus_one));
        }
    }
}

/* dgain += sum of dy * x * r over the rows */
static void sum_dgain(const mega_rms_scale_grad_args *a)
{
    const mega_dtype t = a->head.dtype;
    for (int64_t c = 0; c < a->cols; c++) {
        double sum = 0.0;
        for (int64_t row = 0; row < a->rows; row++) {
            const double r = 1.0 / sqrt(get(a->sum, acc_of(t), row) / (double)a->total + a->eps);
            sum += get(a->dy, t, row * a->cols + c) * get(a->x, t, row * a->cols + c) * r;
        }
        put_add(a->dgain, acc_of(t), c, sum);
    }
}

static void plain_rms_scale_grad_run(const mega_queue *queue, const void *args)
{
    const mega_rms_scale_grad_args *a = args;
    const mega_dtype t = a->head.dtype;
    if (a->dgain != NULL) sum_dgain(a); /* before dx, which may be dy */
    for (int64_t row = 0; row < a->rows; row++) {
        const double r = 1.0 / sqrt(get(a->sum, acc_of(t), row) / (double)a->total + a->eps);
        double dot = 0.0;
        for (int64_t c = 0; c < a->cols; c++) {
            const int64_t i = row * a->cols + c;
            const double g = factor(a->gain, t, c, a->plus_one), dy = get(a->dy, t, i), x = get(a->x, t, i);
            dot += dy * g * x;
            put(a->dx, t, i, dy * r * g);
        }
        put(a->dsum, acc_of(t), row, -0.5 * r * r * r / (double)a->total * dot);
    }
}

const mega_kernel mega_plain_rms_scale = {.name = "rms_scale", .run = plain_rms_scale_run};
const mega_kernel mega_plain_rms_scale_grad = {.name = "rms_scale_grad", .run = plain_rms_scale_grad_run};
