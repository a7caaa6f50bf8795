/* Cross-entropy in one sweep: loss and gradient: plain kernel (ops_loss.h). */
#include "plain/xent_row.h"

static void plain_xent_run(const mega_queue *queue, const void *args)
{
    const mega_xent_args *a = args;
    for (int64_t t = 0; t < a->rows; t++) {
        xent_row r = {.logits = a->logits, .dlogits = a->dlogits, .acc = acc_of(a->head.dtype), .type = a->head.dtype};
        r.at = t * a->ld, r.cols = a->cols, r.valid = a->valid, r.label = a->labels[t] - a->begin;
        r.max = -INFINITY;
        for (int64_t v = 0; v < r.valid; v++) r.max = fmax(r.max, get(r.logits, r.acc, r.at + v));
        for (int64_t v = 0; v < r.valid; v++) r.sum += exp(get(r.logits, r.acc, r.at + v) - r.max);
        const bool held = r.label >= 0 && r.label < r.valid;
        put(a->loss, r.acc, t, log(r.sum) + r.max - (held ? get(r.logits, r.acc, r.at + r.label) : 0.0));
        if (a->dlogits == NULL) continue; /* without dlogits there is no mask either */
        r.factor = xent_factor(a->denominator, r.acc, a->loss_mask[t], a->coefficient, a->head.step);
        xent_row_gradient(&r);
    }
}

const mega_kernel mega_plain_xent = {.name = "xent", .run = plain_xent_run};
