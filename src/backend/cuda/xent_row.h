/* Shared by the kernels of cross-entropy: maximum, sum of exponentials and gradient of a row by a block. */
#ifndef MEGA_CUDA_XENT_ROW_H
#define MEGA_CUDA_XENT_ROW_H

#include "functions.h"

/* The sum of exp(x - max) over elements. Before any element max is -infinity and the sum 0. */
typedef struct exp_sum {
    float max, sum;
} exp_sum;

BODY exp_sum exp_sum_join(exp_sum x, exp_sum y)
{
    exp_sum r;
    r.max = device_max(x.max, y.max);
    r.sum = (x.max == r.max ? x.sum : x.sum * exp_of(x.max - r.max)) +
            (y.max == r.max ? y.sum : y.sum * exp_of(y.max - r.max));
    return r;
}

/* Adds `count` of eight elements: -infinity adds nothing, and a NaN makes the sum NaN. */
BODY exp_sum exp_sum_add(exp_sum s, eight x, int64_t count)
{
    exp_sum r = {s.max, 0.0f};
    UNROLL
    for (int k = 0; k < 8; k++)
        if (k < count) r.max = device_max(x.v[k], r.max);
    r.sum = s.max == r.max ? s.sum : s.sum * exp_of(s.max - r.max);
    UNROLL
    for (int k = 0; k < 8; k++)
        if (k < count && x.v[k] != minus_infinity()) r.sum += exp_of(x.v[k] - r.max);
    return r;
}

typedef struct exp_shared {
    exp_sum part[ROW_THREADS / 32];
} exp_shared;

DEVICE exp_sum exp_sum_fold(exp_sum v, exp_shared *s)
{
    UNROLL
    for (int m = 16; m > 0; m /= 2) {
        const exp_sum other = {warp_xor(v.max, m), warp_xor(v.sum, m)};
        /* in one order for both lanes, so that both have the same bits */
        v = (thread_x() & (unsigned)m) != 0 ? exp_sum_join(other, v) : exp_sum_join(v, other);
    }
    block_barrier(); /* what an earlier row left has been read */
    if (thread_x() % 32 == 0) s->part[thread_x() / 32] = v;
    block_barrier();
    v = s->part[0];
    UNROLL
    for (int w = 1; w < ROW_THREADS / 32; w++) v = exp_sum_join(v, s->part[w]);
    return v;
}

/* The sum of a row of logits of any float type, which begins at element `at`. */
BODY exp_sum class_sum(const void *logits, mega_dtype t, int64_t at, int64_t classes, exp_shared *s)
{
    exp_sum sum = {minus_infinity(), 0.0f};
    for (int64_t c = (int64_t)thread_x() * 8; c < classes; c += ROW_THREADS * 8)
        sum = exp_sum_add(sum, load_eight(logits, t, at + c, classes - c), classes - c);
    return exp_sum_fold(sum, s);
}

typedef struct xent_row {
    const float *logits; /* of the row */
    int64_t cols, valid, label;
    float max, sum, factor;
} xent_row;

/* The factor of a token's loss in the gradient; a denominator of 0 counts as 1. */
BODY float xent_factor(const void *denominator, float mask, double coefficient, const mega_step_block *step)
{
    const float d = denominator != NULL ? *(const float *)denominator : 1.0f;
    return device_divide(mask * (float)(coefficient * step->loss_factor), d != 0.0f ? d : 1.0f);
}

BODY void xent_row_gradient(void *dlogits, mega_dtype t, int64_t at, const xent_row *r)
{
    const float share = device_divide(1.0f, r->sum);
    for (int64_t c = (int64_t)thread_x() * 8; c < r->cols; c += ROW_THREADS * 8) {
        eight x = load_eight(r->logits, MEGA_F32, c, r->valid - c);
        UNROLL
        for (int k = 0; k < 8; k++) {
            float d = 0.0f;
            if (c + k < r->valid) d = exp_of(x.v[k] - r->max) * share - (c + k == r->label ? 1.0f : 0.0f);
            x.v[k] = d * r->factor;
        }
        store_eight(dlogits, t, at + c, r->cols - c, x);
    }
}

#endif
