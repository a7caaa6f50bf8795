/* Layer norm and RMS norm: plain kernel (ops_norm.h). */
#include "backend_impl.h"
#include <math.h>

static double norm_scaled(const mega_layer_norm_args *a, int64_t c, double normal)
{
    const mega_dtype t = a->head.dtype;
    if (a->gain != NULL) normal *= get(a->gain, t, c) + (a->plus_one ? 1.0 : 0.0);
    return a->bias != NULL ? normal + get(a->bias, t, c) : normal;
}

static void plain_layer_norm_run(const mega_queue *queue, const void *args)
{
    const mega_layer_norm_args *a = args;
    const mega_dtype t = a->head.dtype;
    const int64_t C = a->cols;
    for (int64_t r = 0; r < a->rows; r++) {
        double sum = 0.0;
        for (int64_t c = 0; c < C; c++) sum += get(a->x, t, r * C + c);
        const double mean = a->rms ? 0.0 : sum / (double)C;
        double sum_sq = 0.0;
        for (int64_t c = 0; c < C; c++) {
            const double d = get(a->x, t, r * C + c) - mean;
            sum_sq += d * d;
        }
        const double rstd = 1.0 / sqrt(sum_sq / (double)C + a->eps);
        for (int64_t c = 0; c < C; c++) {
            const double normal = (get(a->x, t, r * C + c) - mean) * rstd;
            put(a->y, t, r * C + c, norm_scaled(a, c, normal));
        }
        if (a->mean != NULL) put(a->mean, acc_of(t), r, mean);
        put(a->rstd, acc_of(t), r, rstd);
    }
}

const mega_kernel mega_plain_layer_norm = {.name = "layer_norm", .run = plain_layer_norm_run};
