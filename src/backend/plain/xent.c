/* Cross-entropy in one sweep: loss and gradient, the definition (kernels.h). */
#include "backend_impl.h"
#include <math.h>

static void run(mega_team *team, const void *args)
{
    const mega_xent_args *a = args;
    const mega_dtype t = a->head.dtype, acc = acc_of(t);
    double denominator = a->denominator != NULL ? get(a->denominator, acc, 0) : 1.0;
    if (denominator == 0.0) denominator = 1.0;
    (void)team;
    for (int64_t r = 0; r < a->rows; r++) {
        const int64_t at = r * a->ld, label = a->labels[r] - a->begin;
        double max = -INFINITY, sum = 0.0;
        for (int64_t v = 0; v < a->valid; v++) max = fmax(max, get(a->logits, acc, at + v));
        for (int64_t v = 0; v < a->valid; v++) sum += exp(get(a->logits, acc, at + v) - max);
        put(a->loss, acc, r, log(sum) + max - (label >= 0 && label < a->valid ? get(a->logits, acc, at + label) : 0.0));
        if (a->dlogits == NULL) continue;
        const double factor = a->loss_mask[r] * a->head.step->loss_factor / denominator;
        for (int64_t v = 0; v < a->cols; v++) {
            double d = 0.0;
            if (v < a->valid) d = exp(get(a->logits, acc, at + v) - max) / sum - (v == label ? 1.0 : 0.0);
            put(a->dlogits, t, at + v, d * factor);
        }
    }
}

const mega_kernel mega_plain_xent = {.name = "xent", .run = run};
