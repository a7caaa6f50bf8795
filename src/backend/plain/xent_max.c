/* Cross-entropy kernel 1 of 3, maximum of each row: plain kernel (ops_loss.h). A NaN logit makes the maximum NaN, so
 * that the loss becomes NaN too. */
#include "backend_impl.h"
#include <math.h>

static void plain_xent_max_run(const mega_queue *queue, const void *args)
{
    const mega_xent_max_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    for (int64_t r = 0; r < a->rows; r++) {
        double max = -INFINITY;
        for (int64_t v = 0; v < a->valid; v++) {
            const double x = get(a->logits, acc, r * a->ld + v);
            if (!(x <= max)) max = x;
            if (isnan(x)) break;
        }
        put(a->row_max, acc, r, max);
    }
}

const mega_kernel mega_plain_xent_max = {.name = "xent_max", .run = plain_xent_max_run};
