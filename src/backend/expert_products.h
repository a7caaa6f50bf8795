/* The linear layers of experts as matrix products, one for each expert, for the plain and the fast kernels
 * (ops_experts.h). */
#ifndef MEGA_EXPERT_PRODUCTS_H
#define MEGA_EXPERT_PRODUCTS_H

#include "backend_impl.h"
#include <string.h>

static inline const void *expert_element(const void *x, mega_dtype t, int64_t i)
{
    return (const char *)x + (size_t)i * mega_dtype_size(t);
}

/* The product of `m` rows, of which `row` is the first, with the weights of expert e. */
static inline mega_gemm_args expert_product_of(const mega_expert_linear_args *a, int64_t e, int64_t row, int64_t m)
{
    const mega_dtype t = a->head.dtype;
    return (mega_gemm_args){.head = {.dtype = t, .step = a->head.step},
                            .c = (char *)a->y + (size_t)(row * a->out) * mega_dtype_size(t),
                            .a = expert_element(a->x, t, row * a->in),
                            .b = expert_element(a->weight, t, e * a->in * a->out),
                            .bias = a->bias == NULL ? NULL : expert_element(a->bias, t, e * a->out),
                            .m = m,
                            .n = a->out,
                            .k = a->in,
                            .lda = a->in,
                            .ldb = a->turned ? a->out : a->in,
                            .ldc = a->out,
                            .trans_b = !a->turned,
                            .c_dtype = t};
}

static inline mega_gemm_args expert_product(const mega_expert_linear_args *a, int64_t e)
{
    return expert_product_of(a, e, a->first[e], a->first[e + 1] - a->first[e]);
}

/* Rows that belong to no expert. */
static inline void expert_clear_rest(const mega_expert_linear_args *a)
{
    const size_t row = (size_t)a->out * mega_dtype_size(a->head.dtype);
    const int64_t rows = a->first[a->experts];
    memset((char *)a->y + (size_t)rows * row, 0, (size_t)(a->rows - rows) * row);
}

/* The product of the gradients of `k` rows, of which `row` is the first, with these rows, for expert e. */
static inline mega_gemm_args expert_grad_of(const mega_expert_linear_grad_w_args *a, int64_t e, int64_t row, int64_t k)
{
    const mega_dtype t = a->head.dtype, acc = acc_of(t);
    const size_t size = mega_dtype_size(acc);
    return (mega_gemm_args){.head = {.dtype = t, .step = a->head.step},
                            .c = (char *)a->dweight + (size_t)(e * a->out * a->in) * size,
                            .a = expert_element(a->dy, t, row * a->out),
                            .b = expert_element(a->x, t, row * a->in),
                            .m = a->out,
                            .n = a->in,
                            .k = k,
                            .lda = a->out,
                            .ldb = a->in,
                            .ldc = a->in,
                            .trans_a = true,
                            .accumulate = a->accumulate,
                            .first_in_step = a->first_in_step,
                            .row_sum = a->dbias == NULL ? NULL : (char *)a->dbias + (size_t)(e * a->out) * size,
                            .c_dtype = acc};
}

static inline mega_gemm_args expert_grad(const mega_expert_linear_grad_w_args *a, int64_t e)
{
    return expert_grad_of(a, e, a->first[e], a->first[e + 1] - a->first[e]);
}

#endif
