/* Linear layers of experts and their gradients (ops_experts.h): the blocks of a matrix product (gemm.cu), of which each
 * looks for the expert and the rows that it has, since the host does not know how many rows an expert has. */
#include "gemm_result.h"

#include "gemm_16_body.cu"
#include "gemm_f32_body.cu"

/* What a block has: rows from `row` on of an expert, which are the product's rows from m0 on. */
typedef struct expert_tile {
    int64_t expert, m0, begin, end; /* begin, end: the rows of the expert; expert -1: rows without one, or none */
} expert_tile;

BODY expert_tile expert_tile_of(const mega_expert_linear_args *a)
{
    expert_tile at;
    int64_t tile = block_y();
    at.end = a->first[0];
    for (at.expert = 0; at.expert < a->experts; at.expert++) {
        at.begin = at.end;
        at.end = a->first[at.expert + 1];
        const int64_t tiles = (at.end - at.begin + GEMM_TILE - 1) / GEMM_TILE;
        if (tile < tiles) break;
        tile -= tiles;
    }
    if (at.expert == a->experts) at.expert = -1, at.begin = at.end, at.end = a->rows;
    at.m0 = tile * GEMM_TILE;
    return at;
}

/* Zeros in a tile of the rows that belong to no expert. */
BODY void expert_clear(const mega_expert_linear_args *a, mega_dtype t, const expert_tile *at, int64_t n0)
{
    for (int64_t i = thread_x(); i < GEMM_TILE * GEMM_TILE; i += threads_x()) {
        const int64_t row = at->begin + at->m0 + i / GEMM_TILE, n = n0 + i % GEMM_TILE;
        if (row < at->end && n < a->out) put(a->y, t, row * a->out + n, 0.0f);
    }
}

BODY const void *expert_element(const void *x, mega_dtype t, int64_t i)
{
    return (const char *)x + i * (t == MEGA_F32 ? 4 : 2);
}

BODY mega_gemm_args expert_product(const mega_expert_linear_args *a, mega_dtype t, bool turned, const expert_tile *at)
{
    mega_gemm_args p;
    p.head = a->head;
    p.c = (char *)a->y + at->begin * a->out * (t == MEGA_F32 ? 4 : 2);
    p.a = expert_element(a->x, t, at->begin * a->in);
    p.b = expert_element(a->weight, t, at->expert * a->in * a->out);
    p.bias = a->bias == NULL ? NULL : expert_element(a->bias, t, at->expert * a->out);
    p.m = at->end - at->begin, p.n = p.ldc = a->out, p.k = p.lda = a->in, p.ldb = turned ? a->out : a->in;
    p.trans_a = false, p.trans_b = !turned, p.accumulate = p.first_in_step = p.lower = false;
    p.c_dtype = t;
    p.residual = NULL, p.row_sum = NULL;
    return p;
}

BODY void expert_linear_run(const mega_expert_linear_args *a, mega_dtype t, bool turned)
{
    const expert_tile at = expert_tile_of(a);
    const int64_t n0 = (int64_t)block_x() * GEMM_TILE;
    if (at.expert < 0) {
        expert_clear(a, t, &at, n0);
        return;
    }
    const mega_gemm_args p = expert_product(a, t, turned, &at);
    if (t == MEGA_F32) gemm_f32_run(&p, t, false, !turned, at.m0, n0);
    else
        gemm_16_run(&p, t, false, !turned, at.m0, n0);
}

BODY mega_gemm_args expert_grad(const mega_expert_linear_grad_w_args *a, mega_dtype t, int64_t e)
{
    const int64_t row = a->first[e];
    mega_gemm_args p;
    p.head = a->head;
    p.c = (float *)a->dweight + e * a->out * a->in;
    p.a = expert_element(a->dy, t, row * a->out);
    p.b = expert_element(a->x, t, row * a->in);
    p.bias = p.residual = NULL, p.row_sum = NULL;
    p.m = p.lda = a->out, p.n = p.ldb = p.ldc = a->in, p.k = a->first[e + 1] - row;
    p.trans_a = true, p.trans_b = p.lower = false;
    p.accumulate = a->accumulate, p.first_in_step = a->first_in_step;
    p.c_dtype = MEGA_F32;
    return p;
}

BODY void expert_linear_grad_w_run(const mega_expert_linear_grad_w_args *a, mega_dtype t)
{
    const mega_gemm_args p = expert_grad(a, t, block_z());
    const int64_t m0 = (int64_t)block_y() * GEMM_TILE, n0 = (int64_t)block_x() * GEMM_TILE;
    if (p.k == 0 && gemm_adds(&p)) return;
    if (t == MEGA_F32) gemm_f32_run(&p, t, true, false, m0, n0);
    else
        gemm_16_run(&p, t, true, false, m0, n0);
}

/* A kernel for each type, with the threads that its product has. */
#define EXPERT_KERNELS(name, type, threads)                                      \
    KERNEL(expert_linear_##name##_nt, mega_expert_linear_args, threads)          \
    {                                                                            \
        expert_linear_run(&a, type, false);                                      \
    }                                                                            \
    KERNEL(expert_linear_##name##_nn, mega_expert_linear_args, threads)          \
    {                                                                            \
        expert_linear_run(&a, type, true);                                       \
    }                                                                            \
    KERNEL(expert_linear_grad_w_##name, mega_expert_linear_grad_w_args, threads) \
    {                                                                            \
        expert_linear_grad_w_run(&a, type);                                      \
    }
EXPERT_KERNELS(f32, MEGA_F32, GEMM_F32_THREADS)
EXPERT_KERNELS(bf16, MEGA_BF16, GEMM_16_THREADS)
EXPERT_KERNELS(f16, MEGA_F16, GEMM_16_THREADS)

/* The sums of the rows of an expert: a thread has a column. */
BODY void expert_linear_grad_bias_run(const mega_expert_linear_grad_w_args *a, mega_dtype t)
{
    const int64_t e = block_y(), c = (int64_t)block_x() * COLUMN_THREADS + thread_x();
    float sum = 0.0f;
    if (c >= a->out) return;
    for (int64_t r = a->first[e]; r < a->first[e + 1]; r++) sum += get(a->dy, t, r * a->out + c);
    ((float *)a->dbias)[e * a->out + c] += sum;
}
KERNELS_BY_TYPE(expert_linear_grad_bias, mega_expert_linear_grad_w_args, COLUMN_THREADS)
