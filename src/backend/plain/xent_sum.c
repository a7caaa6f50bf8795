/* Cross-entropy kernel 2 of 3, sum of exponentials and logit of the label: plain kernel (ops_loss.h). */
#include "backend_impl.h"
#include <math.h>

static void plain_xent_sum_run(const mega_queue *queue, const void *args)
{
    const mega_xent_sum_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    for (int64_t r = 0; r < a->rows; r++) {
        const double max = get(a->row_max, acc, r);
        const int64_t label = a->labels[r] - a->begin;
        double sum = 0.0;
        for (int64_t v = 0; v < a->valid; v++) sum += exp(get(a->logits, acc, r * a->ld + v) - max);
        put(a->sums, acc, 2 * r, sum);
        put(a->sums, acc, 2 * r + 1, label >= 0 && label < a->valid ? get(a->logits, acc, r * a->ld + label) : 0.0);
    }
}

const mega_kernel mega_plain_xent_sum = {.name = "xent_sum", .run = plain_xent_sum_run};
