/* Cross-entropy kernel 2 of 3, sum of exponentials and logit of the label (ops_loss.h). */
#include "functions.h"

KERNEL(xent_sum, mega_xent_sum_args, ROW_THREADS)
{
    SHARED(row_shared, s);
    for (int64_t row = block_x(); row < a.rows; row += blocks_x()) {
        const float *const logits = (const float *)a.logits + row * a.ld, max = ((const float *)a.row_max)[row];
        const int64_t label = a.labels[row] - a.begin;
        float sum = 0.0f;
        for (int64_t c = (int64_t)thread_x() * 8; c < a.valid; c += ROW_THREADS * 8) {
            const eight x = load_eight(logits, MEGA_F32, c, a.valid - c);
            UNROLL
            for (int k = 0; k < 8; k++)
                if (c + k < a.valid) sum += exp_of(x.v[k] - max);
        }
        sum = row_fold(sum, s);
        if (thread_x() != 0) continue;
        ((float *)a.sums)[2 * row] = sum;
        ((float *)a.sums)[2 * row + 1] = label >= 0 && label < a.valid ? logits[label] : 0.0f;
    }
}
