/* Gradient of the sinks of attention: plain kernel (ops_attention.h). */
#include "backend_impl.h"
#include <math.h>

static void plain_attention_sinks_grad_run(const mega_queue *queue, const void *args)
{
    const mega_attention_sinks_grad_args *a = args;
    const mega_dtype t = a->head.dtype, acc = acc_of(t);
    const int64_t D = a->head_dim, ld = a->heads * D;
    for (int64_t h = 0; h < a->heads; h++) {
        const double sink = get(a->sinks, t, h);
        double sum = 0.0;
        for (int64_t r = 0; r < a->rows; r++) {
            double dot = 0.0;
            for (int64_t d = 0; d < D; d++)
                dot += get(a->dout, t, r * ld + h * D + d) * get(a->out, t, r * ld + h * D + d);
            sum += exp(sink - get(a->lse, acc, h * a->rows + r)) * dot;
        }
        put(a->dsinks, acc, h, get(a->dsinks, acc, h) - sum);
    }
}

const mega_kernel mega_plain_attention_sinks_grad = {.name = "attention_sinks_grad",
                                                     .run = plain_attention_sinks_grad_run};
