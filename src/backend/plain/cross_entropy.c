/* Cross-entropy of whole rows of logits, its gradient, and the weight of its rows: plain kernel (ops_loss.h). */
#include "backend_impl.h"
#include <math.h>
#include <string.h>

static bool label_counts(int32_t label, int64_t classes, int32_t ignored)
{
    return label >= 0 && label < classes && label != ignored;
}

/* Returns the logarithm of the sum of the exponentials of a row, which begins at element `at`. */
static double log_sum_exp(const void *logits, mega_dtype t, int64_t at, int64_t classes)
{
    double max = -INFINITY, sum = 0.0;
    for (int64_t c = 0; c < classes; c++) max = fmax(max, get(logits, t, at + c));
    for (int64_t c = 0; c < classes; c++) sum += exp(get(logits, t, at + c) - max);
    return log(sum) + max;
}

static void plain_cross_entropy_run(const mega_queue *queue, const void *args)
{
    const mega_cross_entropy_args *a = args;
    const mega_dtype t = a->logits_dtype, acc = acc_of(a->head.dtype);
    (void)queue;
    for (int64_t r = 0; r < a->rows; r++) {
        const int64_t at = r * a->classes;
        double loss = 0.0;
        if (label_counts(a->labels[r], a->classes, a->ignored))
            loss = log_sum_exp(a->logits, t, at, a->classes) - get(a->logits, t, at + a->labels[r]);
        put(a->loss, acc, r, loss);
    }
}

static void plain_cross_entropy_grad_run(const mega_queue *queue, const void *args)
{
    const mega_cross_entropy_grad_args *a = args;
    const mega_dtype t = a->logits_dtype, acc = acc_of(a->head.dtype);
    (void)queue;
    for (int64_t r = 0; r < a->rows; r++) {
        const int64_t at = r * a->classes;
        const bool counts = label_counts(a->labels[r], a->classes, a->ignored);
        const double whole = counts ? log_sum_exp(a->logits, t, at, a->classes) : 0.0;
        for (int64_t c = 0; c < a->classes; c++) {
            const double p = counts ? exp(get(a->logits, t, at + c) - whole) - (c == a->labels[r] ? 1.0 : 0.0) : 0.0;
            put(a->dlogits, t, at + c, counts ? p * get(a->dloss, acc, r) : 0.0);
        }
    }
}

static void plain_labelled_sum_run(const mega_queue *queue, const void *args)
{
    const mega_labelled_sum_args *a = args;
    double sum = 0.0;
    (void)queue;
    for (int64_t r = 0; r < a->rows; r++)
        if (label_counts(a->labels[r], a->classes, a->ignored)) sum += a->weights != NULL ? (double)a->weights[r] : 1.0;
    put(a->sum, acc_of(a->head.dtype), 0, sum);
}

/* Returns the weight of a row. */
static double label_weight(const mega_label_weights_args *a, int64_t row)
{
    double weight = 1.0;
    if (a->given != NULL) weight = get(a->given, acc_of(a->head.dtype), row / (a->rows / a->num_given));
    if (a->mask != NULL) weight *= (double)a->mask[row / (a->rows / a->num_masks)];
    return weight;
}

static void plain_label_weights_run(const mega_queue *queue, const void *args)
{
    const mega_label_weights_args *a = args;
    int32_t wrong[3] = {0};
    (void)queue;
    for (int64_t r = 0; r < a->rows; r++) {
        const int32_t label = a->labels[r];
        const double weight = label_weight(a, r);
        const bool counts = label_counts(label, a->classes, a->ignored);
        if (a->weights != NULL) a->weights[r] = counts ? (float)weight : 0.0F;
        if (counts || label == a->ignored || weight == 0.0) continue;
        if (wrong[0]++ > 0) continue;
        wrong[1] = (int32_t)r;
        wrong[2] = label;
    }
    memcpy(a->wrong, wrong, sizeof wrong);
}

const mega_kernel mega_plain_cross_entropy = {.name = "cross_entropy", .run = plain_cross_entropy_run};
const mega_kernel mega_plain_cross_entropy_grad = {.name = "cross_entropy_grad", .run = plain_cross_entropy_grad_run};
const mega_kernel mega_plain_labelled_sum = {.name = "labelled_sum", .run = plain_labelled_sum_run};
const mega_kernel mega_plain_label_weights = {.name = "label_weights", .run = plain_label_weights_run};
