/* Cross-entropy kernel 3 of 3, loss and gradient; a block has a row (ops_loss.h). */
#include "xent_row.h"

BODY void xent_grad_run(const mega_xent_grad_args *a, mega_dtype t)
{
    for (int64_t row = block_x(); row < a->rows; row += blocks_x()) {
        const float *const sums = (const float *)a->sums + 2 * row;
        xent_row r = {(const float *)a->logits + row * a->ld, a->cols, a->valid, a->labels[row] - a->begin, 0, 0, 0};
        r.max = ((const float *)a->row_max)[row];
        r.sum = sums[0];
        if (thread_x() == 0) ((float *)a->loss)[row] = log_of(r.sum) + r.max - sums[1];
        if (a->dlogits == NULL) continue;
        r.factor = xent_factor(a->denominator, a->loss_mask[row], a->coefficient, a->head.step);
        xent_row_gradient(a->dlogits, t, row * a->ld, &r);
    }
}
KERNELS_BY_TYPE(xent_grad, mega_xent_grad_args, ROW_THREADS)
