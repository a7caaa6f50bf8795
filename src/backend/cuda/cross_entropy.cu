/* Cross-entropy of whole rows of logits and its gradient, by a block a row, and the weight of the rows, by one block in
 * double (ops_loss.h). The type is that of the logits. */
#include "xent_row.h"

BODY bool label_counts(int32_t label, int64_t classes, int32_t ignored)
{
    return label >= 0 && label < classes && label != ignored;
}

BODY void cross_entropy_run(const mega_cross_entropy_args *a, mega_dtype t)
{
    SHARED(exp_shared, s);
    for (int64_t row = block_x(); row < a->rows; row += blocks_x()) {
        const int64_t at = row * a->classes;
        const int32_t label = a->labels[row];
        const exp_sum sum = class_sum(a->logits, t, at, a->classes, s);
        if (thread_x() != 0) continue;
        float loss = 0.0f;
        if (label_counts(label, a->classes, a->ignored))
            loss = log_of(sum.sum) + (sum.max - get(a->logits, t, at + label));
        ((float *)a->loss)[row] = loss;
    }
}
KERNELS_BY_TYPE(cross_entropy, mega_cross_entropy_args, ROW_THREADS)

BODY void cross_entropy_grad_run(const mega_cross_entropy_grad_args *a, mega_dtype t)
{
    SHARED(exp_shared, s);
    for (int64_t row = block_x(); row < a->rows; row += blocks_x()) {
        const int64_t at = row * a->classes, label = a->labels[row];
        const bool counts = label_counts(a->labels[row], a->classes, a->ignored);
        const exp_sum sum = class_sum(a->logits, t, at, a->classes, s);
        const float share = device_divide(1.0f, sum.sum), dloss = ((const float *)a->dloss)[row];
        for (int64_t c = (int64_t)thread_x() * 8; c < a->classes; c += ROW_THREADS * 8) {
            eight x = load_eight(a->logits, t, at + c, a->classes - c); /* (what this thread has read before) */
            UNROLL
            for (int k = 0; k < 8; k++) {
                const float p = exp_of(x.v[k] - sum.max) * share - (c + k == label ? 1.0f : 0.0f);
                x.v[k] = counts ? p * dloss : 0.0f;
            }
            store_eight(a->dlogits, t, at + c, a->classes - c, x);
        }
    }
}
KERNELS_BY_TYPE(cross_entropy_grad, mega_cross_entropy_grad_args, ROW_THREADS)

KERNEL(labelled_sum, mega_labelled_sum_args, ROW_THREADS)
{
    SHARED(double, part);
    double sum = 0.0;
    for (int64_t i = thread_x(); i < a.rows; i += ROW_THREADS)
        if (label_counts(a.labels[i], a.classes, a.ignored)) sum += a.weights != NULL ? (double)a.weights[i] : 1.0;
    sum = block_sum_double(sum, part);
    if (thread_x() == 0) *(float *)a.sum = (float)sum;
}

/* Returns the weight of a row. */
BODY float label_weight(const mega_label_weights_args *a, int64_t row)
{
    float weight = 1.0f;
    if (a->given != NULL) weight = ((const float *)a->given)[row / (a->rows / a->num_given)];
    if (a->mask != NULL) weight *= a->mask[row / (a->rows / a->num_masks)];
    return weight;
}

BODY bool is_wrong_label(const mega_label_weights_args *a, int64_t row)
{
    const int32_t label = a->labels[row];
    const bool counts = label_counts(label, a->classes, a->ignored);
    return !counts && label != a->ignored && label_weight(a, row) != 0.0f;
}

KERNEL(label_weights, mega_label_weights_args, ROW_THREADS)
{
    SHARED(double, part);
    double sum = 0.0;
    for (int64_t i = thread_x(); i < a.rows; i += ROW_THREADS) {
        const bool counts = label_counts(a.labels[i], a.classes, a.ignored);
        if (a.weights != NULL) a.weights[i] = counts ? label_weight(&a, i) : 0.0f;
        sum += is_wrong_label(&a, i) ? 1.0 : 0.0;
    }
    sum = block_sum_double(sum, part);
    if (thread_x() != 0) return;
    int64_t first = 0;
    while (sum > 0.0 && !is_wrong_label(&a, first)) first++;
    a.wrong[0] = (int32_t)sum;
    a.wrong[1] = (int32_t)first;
    a.wrong[2] = sum > 0.0 ? a.labels[first] : 0;
}
