/* Gradient of layer norm and RMS norm: plain kernel (ops_norm.h). With n = (x - mean) rstd and w = dy gain:
 * dx = rstd (w - mean(w) - n mean(w n)), means over the row; in RMS norm, whose mean is 0, without mean(w). */
#include "backend_impl.h"

static double normal(const mega_layer_norm_grad_args *a, int64_t r, int64_t c)
{
    const mega_dtype t = a->head.dtype, acc = acc_of(t);
    const double mean = a->rms ? 0.0 : get(a->mean, acc, r);
    return (get(a->x, t, r * a->cols + c) - mean) * get(a->rstd, acc, r);
}

static double norm_factor(const mega_layer_norm_grad_args *a, int64_t c)
{
    if (a->gain == NULL) return 1.0;
    return get(a->gain, a->head.dtype, c) + (a->plus_one ? 1.0 : 0.0);
}

static void plain_layer_norm_grad_run(const mega_queue *queue, const void *args)
{
    const mega_layer_norm_grad_args *a = args;
    const mega_dtype t = a->head.dtype, acc = acc_of(t);
    const int64_t C = a->cols;
    for (int64_t c = 0; c < C; c++) {
        double dgain = 0.0, dbias = 0.0;
        for (int64_t r = 0; r < a->rows; r++) {
            const double dy = get(a->dy, t, r * C + c);
            dgain += dy * normal(a, r, c);
            dbias += dy;
        }
        if (a->dgain != NULL) put_add(a->dgain, acc, c, dgain);
        if (a->dbias != NULL) put_add(a->dbias, acc, c, dbias);
    }
    for (int64_t r = 0; r < a->rows; r++) {
        double sum = 0.0, sum_n = 0.0;
        for (int64_t c = 0; c < C; c++) {
            const double w = get(a->dy, t, r * C + c) * norm_factor(a, c);
            sum += a->rms ? 0.0 : w;
            sum_n += w * normal(a, r, c);
        }
        for (int64_t c = 0; c < C; c++) {
            const double w = get(a->dy, t, r * C + c) * norm_factor(a, c);
            double dx = get(a->rstd, acc, r) * (w - sum / (double)C - normal(a, r, c) * (sum_n / (double)C));
            if (a->addend != NULL) dx += get(a->addend, t, r * C + c);
            put(a->dx, t, r * C + c, dx);
        }
    }
}

const mega_kernel mega_plain_layer_norm_grad = {.name = "layer_norm_grad", .run = plain_layer_norm_grad_run};
