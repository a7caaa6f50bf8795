/* Linear layers of experts and their gradients: plain kernels, the products of one expert after the other
 * (ops_experts.h). */
#include "expert_products.h"

static void plain_expert_linear_run(const mega_queue *queue, const void *args)
{
    const mega_expert_linear_args *a = args;
    for (int64_t e = 0; e < a->experts; e++) {
        const mega_gemm_args product = expert_product(a, e);
        mega_plain_gemm.run(queue, &product);
    }
    expert_clear_rest(a);
}

static void plain_expert_linear_grad_w_run(const mega_queue *queue, const void *args)
{
    const mega_expert_linear_grad_w_args *a = args;
    for (int64_t e = 0; e < a->experts; e++) {
        const mega_gemm_args product = expert_grad(a, e);
        mega_plain_gemm.run(queue, &product);
    }
}

const mega_kernel mega_plain_expert_linear = {.name = "expert_linear", .run = plain_expert_linear_run};
const mega_kernel mega_plain_expert_linear_grad_w = {.name = "expert_linear_grad_w",
                                                     .run = plain_expert_linear_grad_w_run};
