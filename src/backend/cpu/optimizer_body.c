/* AdamW and SGD: one sweep over parameters, moments and gradients, bound by memory. These are plain loops that the
 * compiler vectorizes, because vector types have no square root. */

ALWAYS void adamw_block(bool l2, const mega_adamw_args *a, int64_t begin, int64_t end)
{
    float *restrict p = a->p, *restrict m = a->m, *restrict v = a->v;
    const float *restrict g = a->g;
    const double *n = a->number;
    const float beta1 = (float)n[4], rest1 = (float)(1.0 - n[4]), beta2 = (float)n[5], rest2 = (float)(1.0 - n[5]);
    const float factor = (float)MEGA_UPDATE_FACTOR(a), eps = (float)a->eps;
    const float rate = (float)(n[2] / n[0]), root = (float)(1.0 / sqrt(n[1]));
    const float decay = (float)n[3], shrink = (float)(n[2] * n[3]);
    for (int64_t i = begin; i < end; i++) {
        const float old = p[i], gi = l2 ? g[i] * factor + decay * old : g[i] * factor;
        m[i] = beta1 * m[i] + rest1 * gi;
        v[i] = beta2 * v[i] + rest2 * (gi * gi);
        const float step = rate * (m[i] / (sqrtf(v[i]) * root + eps));
        p[i] = l2 ? old - step : old - (step + shrink * old);
    }
    if (a->weight != NULL) narrow_range(a->head.dtype, a->weight, p, begin, end);
}

/* Elements of a block, 8 kB of floats, that stay in the first level of cache between the update and the copy of the
 * weight. bench_optimizer measures it. */
#define OPTIMIZER_BLOCK 2048

static void adamw_range(const mega_adamw_args *a, int64_t begin, int64_t end)
{
    if (MEGA_UPDATE_IS_REFUSED(a->block)) return;
    for (int64_t i = begin; i < end; i += OPTIMIZER_BLOCK) {
        const int64_t stop = end - i < OPTIMIZER_BLOCK ? end : i + OPTIMIZER_BLOCK;
        if (a->l2) adamw_block(true, a, i, stop);
        else
            adamw_block(false, a, i, stop);
    }
}

static void sgd_block(const mega_sgd_args *a, int64_t begin, int64_t end)
{
    float *restrict p = a->p, *restrict momentum = a->momentum;
    const float *restrict g = a->g;
    const double *n = a->number;
    const float factor = (float)MEGA_UPDATE_FACTOR(a), mu = (float)a->mu, lr = (float)n[1], decay = (float)n[2];
    if (n[0] != 0) {
        for (int64_t i = begin; i < end; i++) momentum[i] = g[i] * factor + decay * p[i];
    } else {
        for (int64_t i = begin; i < end; i++) momentum[i] = mu * momentum[i] + (g[i] * factor + decay * p[i]);
    }
    for (int64_t i = begin; i < end; i++) p[i] -= lr * momentum[i];
    if (a->weight != NULL) narrow_range(a->head.dtype, a->weight, p, begin, end);
}

static void sgd_range(const mega_sgd_args *a, int64_t begin, int64_t end)
{
    if (MEGA_UPDATE_IS_REFUSED(a->block)) return;
    for (int64_t i = begin; i < end; i += OPTIMIZER_BLOCK)
        sgd_block(a, i, end - i < OPTIMIZER_BLOCK ? end : i + OPTIMIZER_BLOCK);
}
