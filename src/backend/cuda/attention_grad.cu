/* Gradient of attention (ops_attention.h), in kernels that follow each other, without atomics. First delta, the sum
 * over the channels of dout out for each query and head. Then dq, where a block has queries and goes over tiles of
 * keys, and dk and dv, where it has keys and goes over tiles of queries of all heads that read them. With probabilities
 * P and dropout factors M: dP = M dout v, dS = P (dP - delta), dq = scale dS k, dk = scale dS q, dv = P M dout.
 * F32 by multiply-adds, 16-bit numbers by tensor cores. At last the gradient of a table of biases. */
#include "attention_16.h"

/* Scratch: delta [H, B*S], then what attention_grad_bias_body.cu says. A warp has a query of a head. */
BODY void attention_delta_run(const mega_attention_grad_args *g, mega_dtype t)
{
    const mega_attention_args *const a = &g->forward;
    const int64_t row = (int64_t)block_x() * (ROW_THREADS / 32) + thread_x() / 32, h = block_y();
    const bool is_there = row < a->batch * a->seq;
    float sum = 0.0f;
    for (int64_t d = thread_x() % 32; d < a->head_dim && is_there; d += 32)
        sum += get(g->dout, t, row * g->ld_dout + h * a->head_dim + d) *
               get(a->out, t, row * a->ld_out + h * a->head_dim + d);
    sum = warp_sum(sum);
    if (is_there && thread_x() % 32 == 0) ((float *)g->head.scratch)[h * a->batch * a->seq + row] = sum;
}
KERNELS_BY_TYPE(attention_delta, mega_attention_grad_args, ROW_THREADS)

#include "attention_grad_16_body.cu"
#include "attention_grad_bias_body.cu"
#include "attention_grad_f32_body.cu"
