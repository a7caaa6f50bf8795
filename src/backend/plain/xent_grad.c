/* Cross-entropy kernel 3 of 3, loss and gradient: plain kernel (ops_loss.h). */
#include "plain/xent_row.h"

static void plain_xent_grad_run(const mega_queue *queue, const void *args)
{
    const mega_xent_grad_args *a = args;
    for (int64_t t = 0; t < a->rows; t++) {
        xent_row r = {.logits = a->logits, .dlogits = a->dlogits, .acc = acc_of(a->head.dtype), .type = a->head.dtype};
        r.at = t * a->ld, r.cols = a->cols, r.valid = a->valid, r.label = a->labels[t] - a->begin;
        r.max = get(a->row_max, r.acc, t);
        r.sum = get(a->sums, r.acc, 2 * t);
        put(a->loss, r.acc, t, log(r.sum) + r.max - get(a->sums, r.acc, 2 * t + 1));
        if (a->dlogits == NULL) continue; /* without dlogits there is no mask either */
        r.factor = xent_factor(a->denominator, r.acc, a->loss_mask[t], a->coefficient, a->head.step);
        xent_row_gradient(&r);
    }
}

const mega_kernel mega_plain_xent_grad = {.name = "xent_grad", .run = plain_xent_grad_run};
