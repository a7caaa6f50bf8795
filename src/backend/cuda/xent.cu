/* Cross-entropy of a row by a block, which reads the logits twice (ops_loss.h). */
#include "xent_row.h"

BODY void xent_run(const mega_xent_args *a, mega_dtype t)
{
    SHARED(exp_shared, s);
    for (int64_t row = block_x(); row < a->rows; row += blocks_x()) {
        xent_row r = {(const float *)a->logits + row * a->ld, a->cols, a->valid, a->labels[row] - a->begin, 0, 0, 0};
        exp_sum sum = {minus_infinity(), 0.0f};
        for (int64_t c = (int64_t)thread_x() * 8; c < a->valid; c += ROW_THREADS * 8)
            sum = exp_sum_add(sum, load_eight(r.logits, MEGA_F32, c, a->valid - c), a->valid - c);
        const float label = r.label >= 0 && r.label < a->valid ? r.logits[r.label] : 0.0f;
        sum = exp_sum_fold(sum, s); /* (its barriers: the label is read before the gradient takes its place) */
        if (thread_x() == 0) ((float *)a->loss)[row] = log_of(sum.sum) + sum.max - label;
        if (a->dlogits == NULL) continue;
        r.max = sum.max;
        r.sum = sum.sum;
        r.factor = xent_factor(a->denominator, a->loss_mask[row], a->coefficient, a->head.step);
        xent_row_gradient(a->dlogits, t, row * a->ld, &r);
    }
}
KERNELS_BY_TYPE(xent, mega_xent_args, ROW_THREADS)
