/* Cross-entropy 3 of 3: loss and gradient, the definition (kernels.h). */
#include "backend_impl.h"
#include <math.h>

static void run(mega_team *team, const void *args)
{
    const mega_xent_grad_args *a = args;
    const mega_dtype t = a->head.dtype, acc = acc_of(t);
    double denominator = a->denominator != NULL ? get(a->denominator, acc, 0) : 1.0;
    if (denominator == 0.0) denominator = 1.0;
    (void)team;
    for (int64_t r = 0; r < a->rows; r++) {
        const double max = get(a->row_max, acc, r), sum = get(a->sums, acc, 2 * r);
        put(a->loss, acc, r, log(sum) + max - get(a->sums, acc, 2 * r + 1));
        if (a->dlogits == NULL) continue;
        const double factor = a->loss_mask[r] * a->head.step->loss_factor / denominator;
        for (int64_t v = 0; v < a->cols; v++) {
            double d = 0.0;
            if (v < a->valid) {
                d = exp(get(a->logits, acc, r * a->ld + v) - max) / sum;
                if (v + a->begin == a->labels[r]) d -= 1.0;
            }
            put(a->dlogits, t, r * a->ld + v, d * factor);
        }
    }
}

const mega_kernel mega_plain_xent_grad = {.name = "xent_grad", .run = run};
