/* Whether the largest logit of each row is at its label: a block has a row (ops_loss.h). The type is that of the
 * logits. */
#include "kernel.h"

BODY void accuracy_run(const mega_accuracy_args *a, mega_dtype t)
{
    SHARED(row_shared, s);
    for (int64_t row = block_x(); row < a->rows; row += blocks_x()) {
        const int64_t at = row * a->classes, label = a->labels[row];
        const bool counts = label >= 0 && label < a->classes && label != a->ignored;
        const float most = counts ? get(a->logits, t, at + label) : 0.0f;
        float larger = 0.0f; /* logits that keep the label's from being the first largest; a NaN is one */
        for (int64_t c = (int64_t)thread_x() * 8; c < a->classes; c += ROW_THREADS * 8) {
            const eight x = load_eight(a->logits, t, at + c, a->classes - c);
            UNROLL
            for (int k = 0; k < 8; k++) {
                const bool is_less = c + k < label ? x.v[k] < most : x.v[k] <= most;
                larger += c + k < a->classes && !is_less ? 1.0f : 0.0f;
            }
        }
        larger = row_fold(larger, s);
        if (thread_x() != 0) continue;
        ((float *)a->counts)[row] = counts ? 1.0f : 0.0f;
        ((float *)a->hit)[row] = counts && larger == 0.0f ? 1.0f : 0.0f;
    }
}
KERNELS_BY_TYPE(accuracy, mega_accuracy_args, ROW_THREADS)
