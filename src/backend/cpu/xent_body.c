/* Cross-entropy: maximum, sum of exponentials, gradient. Logits are float whatever the type of the call. */

static void xent_max_rows(const mega_xent_max_args *a, int64_t begin, int64_t end)
{
    for (int64_t r = begin; r < end; r++) {
        const float *x = (const float *)a->logits + r * a->ld;
        vf max = vset(-INFINITY);
        vi nan = {0};
        int64_t v = 0;
        for (; v + VL <= a->valid; v += VL) {
            const vf l = vload(x + v);
            max = vmax(max, l);
            nan |= l != l;
        }
        float m = vmax_lane(max);
        bool is_nan = vany(nan);
        for (; v < a->valid; v++) {
            m = x[v] > m ? x[v] : m;
            is_nan = is_nan || isnan(x[v]);
        }
        ((float *)a->row_max)[r] = is_nan ? NAN : m;
    }
}

/* Rows of fifty thousand exponentials: runs of this many are summed in float, the runs in double. */
#define XENT_RUN 2048

/* The sum of e^(x[v] - max), v < n. */
static float xent_run_sum(const float *x, float max, int64_t n)
{
    vf even = vset(0.0f), odd = vset(0.0f);
    int64_t v = 0;
    for (; v + 2 * VL <= n; v += 2 * VL) {
        even += vexp2((vload(x + v) - max) * LOG2_E);
        odd += vexp2((vload(x + v + VL) - max) * LOG2_E);
    }
    for (; v < n; v += VL) even += vkeep(vexp2((vget_n(false, x, v, n - v) - max) * LOG2_E), n - v);
    return vsum(even + odd);
}

static void xent_sum_rows(const mega_xent_sum_args *a, int64_t begin, int64_t end)
{
    for (int64_t r = begin; r < end; r++) {
        const float *x = (const float *)a->logits + r * a->ld;
        const float max = ((const float *)a->row_max)[r];
        const int64_t label = a->labels[r] - a->begin;
        double sum = 0.0;
        for (int64_t run = 0; run < a->valid; run += XENT_RUN) {
            const int64_t stop = a->valid - run < XENT_RUN ? a->valid : run + XENT_RUN;
            sum += xent_run_sum(x + run, max, stop - run);
        }
        ((float *)a->sums)[2 * r] = (float)sum;
        ((float *)a->sums)[2 * r + 1] = label >= 0 && label < a->valid ? x[label] : 0.0f;
    }
}

ALWAYS void xent_grad_row(bool bf16, const mega_xent_grad_args *a, int64_t r, float factor)
{
    const float *x = (const float *)a->logits + r * a->ld;
    const float max = ((const float *)a->row_max)[r], scale = factor / ((const float *)a->sums)[2 * r];
    const int64_t at = r * a->ld, label = a->labels[r] - a->begin;
    const bool is_here = label >= 0 && label < a->valid;
    /* Before the row is overwritten, which may be the logits' own memory. */
    const float label_logit = is_here ? x[label] : 0.0f;
    void *dlogits = a->dlogits;
    const int64_t valid = a->valid;
    int64_t i = 0;
    for (; i + VL <= valid; i += VL) vput(bf16, dlogits, at + i, vexp2((vload(x + i) - max) * LOG2_E) * scale);
    if (i < valid)
        vput_n(bf16, dlogits, at + i, valid - i, vexp2((vget_n(false, x, i, valid - i) - max) * LOG2_E) * scale);
    for (int64_t v = a->valid; v < a->cols; v++) {
        if (bf16) ((uint16_t *)a->dlogits)[at + v] = 0;
        else
            ((float *)a->dlogits)[at + v] = 0.0f;
    }
    if (!is_here) return;
    const float own = expf(label_logit - max) * scale - factor;
    if (bf16) ((uint16_t *)a->dlogits)[at + label] = mega_f32_to_bf16(own);
    else
        ((float *)a->dlogits)[at + label] = own;
}

static void xent_grad_rows(const mega_xent_grad_args *a, int64_t begin, int64_t end)
{
    float denominator = a->denominator != NULL ? *(const float *)a->denominator : 1.0f;
    if (denominator == 0.0f) denominator = 1.0f;
    for (int64_t r = begin; r < end; r++) {
        const float *sums = (const float *)a->sums + 2 * r;
        ((float *)a->loss)[r] = (float)(log((double)sums[0]) + ((const float *)a->row_max)[r] - sums[1]);
        if (a->dlogits == NULL) continue;
        const float factor = (float)(a->loss_mask[r] * a->head.step->loss_factor / denominator);
        if (a->head.dtype == MEGA_BF16) xent_grad_row(true, a, r, factor);
        else
            xent_grad_row(false, a, r, factor);
    }
}
