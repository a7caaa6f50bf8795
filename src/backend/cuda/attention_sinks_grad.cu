/* Gradient of the sinks of attention, by a block a head (ops_attention.h). */
#include "functions.h"

BODY void attention_sinks_grad_run(const mega_attention_sinks_grad_args *a, mega_dtype t)
{
    SHARED(row_shared, s);
    const int64_t h = block_x(), D = a->head_dim;
    const float sink = get(a->sinks, t, h);
    float sum = 0.0f;
    for (int64_t r = thread_x(); r < a->rows; r += ROW_THREADS) {
        const int64_t at = (r * a->heads + h) * D;
        float dot = 0.0f;
        for (int64_t d = 0; d < D; d++) dot = device_fma(get(a->dout, t, at + d), get(a->out, t, at + d), dot);
        sum += exp_of(sink - ((const float *)a->lse)[h * a->rows + r]) * dot;
    }
    sum = row_fold(sum, s);
    if (thread_x() == 0) ((float *)a->dsinks)[h] -= sum;
}
KERNELS_BY_TYPE(attention_sinks_grad, mega_attention_sinks_grad_args, ROW_THREADS)
