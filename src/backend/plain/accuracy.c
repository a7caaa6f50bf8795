/* Whether the largest logit of each row is at its label: plain kernel (ops_loss.h). */
#include "backend_impl.h"

/* Returns whether the label's logit is larger than those of earlier classes and not smaller than those of later ones.
 * False if there is a NaN, because comparisons with NaN are false. */
static bool accuracy_is_hit(const mega_accuracy_args *a, int64_t row)
{
    const int64_t at = row * a->classes, label = a->labels[row];
    const double most = get(a->logits, a->logits_dtype, at + label);
    for (int64_t c = 0; c < a->classes; c++) {
        const double x = get(a->logits, a->logits_dtype, at + c);
        if (!(c < label ? x < most : x <= most)) return false;
    }
    return true;
}

static void plain_accuracy_run(const mega_queue *queue, const void *args)
{
    const mega_accuracy_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    for (int64_t r = 0; r < a->rows; r++) {
        const int32_t label = a->labels[r];
        const bool counts = label >= 0 && label < a->classes && label != a->ignored;
        put(a->counts, acc, r, counts ? 1.0 : 0.0);
        put(a->hit, acc, r, counts && accuracy_is_hit(a, r) ? 1.0 : 0.0);
    }
}

const mega_kernel mega_plain_accuracy = {.name = "accuracy", .run = plain_accuracy_run};
