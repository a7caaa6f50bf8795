/* Cross-entropy: maximum, sum of exponentials, gradient. Logits are float for every type of the call. */

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

/* A row has some fifty thousand exponentials. Runs of this many are summed in float, and the runs in double: a longer
 * run loses digits (ops_test_kernels), a shorter one converts more often (bench_kernels, "cross-entropy sum"). */
#define XENT_RUN 2048

/* Returns the sum of e^(x[v] - max) for v < n. */
LONG float xent_run_sum(const float *x, float max, int64_t n)
{
    vf even = vset(0.0f), odd = vset(0.0f);
    int64_t v = 0;
    for (; v + 2 * VL <= n; v += 2 * VL) {
        for (int64_t line = 0; line < 2 * VL; line += 16)
            __builtin_prefetch(x + v + XENT_RUN + line); /* of the next run */
        even += vexp2((vload(x + v) - max) * LOG2_E);
        odd += vexp2((vload(x + v + VL) - max) * LOG2_E);
    }
    for (; v < n; v += VL) even += vkeep(vexp2((vget_n(MEGA_F32, x, v, n - v) - max) * LOG2_E), n - v);
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

/* Computes the gradient of one row. x and dlogits point to the row and may be the same. label is a column, which may be
 * outside the valid ones. exp(x - max) * scale are the probabilities times factor. */
ALWAYS void xent_grad_row(mega_dtype type, bool stream, void *dlogits, const float *x, int64_t valid, int64_t cols,
                          int64_t label, float max, float scale, float factor)
{
    const bool is_here = label >= 0 && label < valid;
    const float label_logit = is_here ? x[label] : 0.0f; /* read before it may be overwritten */
    int64_t i = 0;
    for (; i + VL <= valid; i += VL)
        vput_stream(stream, type, dlogits, i, vexp2((vload(x + i) - max) * LOG2_E) * scale);
    if (i < valid)
        vput_n(type, dlogits, i, valid - i, vexp2((vget_n(MEGA_F32, x, i, valid - i) - max) * LOG2_E) * scale);
    for (int64_t v = valid; v < cols; v++) put1(type, dlogits, v, 0.0f);
    if (!is_here) return;
    vstream_end(stream); /* the element below may have been stored past the cache */
    put1(type, dlogits, label, expf(label_logit - max) * scale - factor);
}

/* Returns a pointer to element `at` of dlogits. */
ALWAYS void *xent_row(mega_dtype type, void *dlogits, int64_t at)
{
    return (char *)dlogits + at * vsize(type);
}

static float xent_denominator(const void *denominator)
{
    const float d = denominator != NULL ? *(const float *)denominator : 1.0f;
    return d == 0.0f ? 1.0f : d;
}

static void xent_grad_rows(const mega_xent_grad_args *a, int64_t begin, int64_t end)
{
    const float denominator = xent_denominator(a->denominator);
    const double loss_factor = a->coefficient * a->head.step->loss_factor;
    for (int64_t r = begin; r < end; r++) {
        const float *sums = (const float *)a->sums + 2 * r, max = ((const float *)a->row_max)[r];
        ((float *)a->loss)[r] = (float)(log((double)sums[0]) + max - sums[1]);
        if (a->dlogits == NULL) continue;
        const int64_t at = r * a->ld, label = a->labels[r] - a->begin;
        const float *x = (const float *)a->logits + at;
        const float factor = (float)(a->loss_mask[r] * loss_factor / denominator);
        BY_TYPE(a->head.dtype, xent_grad_row(type, false, xent_row(type, a->dlogits, at), x, a->valid, a->cols, label,
                                             max, factor / sums[0], factor));
    }
}

/* Returns the largest of n numbers. If there are NaNs among them, the result is any of the numbers, and the sum of
 * exponentials becomes NaN. */
static float xent_run_max(const float *x, int64_t n)
{
    vf even = vset(-FLT_MAX), odd = even;
    int64_t v = 0;
    for (; v + 2 * VL <= n; v += 2 * VL) {
        even = vmax(even, vload(x + v));
        odd = vmax(odd, vload(x + v + VL));
    }
    float m = vmax_lane(vmax(even, odd));
    for (; v < n; v++) m = x[v] > m ? x[v] : m;
    return m;
}

/* Sets *max to the maximum and returns the sum of e^(x[v] - *max). Processes runs that stay in the first-level
 * cache. */
static double xent_sweep(const float *x, int64_t valid, float *max)
{
    double sum = 0.0;
    float m = -FLT_MAX; /* not -INFINITY: subtracted from itself it is NaN */
    for (int64_t run = 0; run < valid; run += XENT_RUN) {
        const int64_t n = valid - run < XENT_RUN ? valid - run : XENT_RUN;
        const float here = xent_run_max(x + run, n);
        if (here > m) {
            sum *= exp((double)m - (double)here);
            m = here;
        }
        sum += xent_run_sum(x + run, m, n);
    }
    *max = m;
    return sum;
}

static void xent_rows(const mega_xent_args *a, int64_t begin, int64_t end)
{
    const mega_dtype dtype = a->head.dtype;
    const bool stream = dtype != MEGA_F32 && a->dlogits != NULL && vstreams(dtype, a->dlogits, a->rows, a->ld);
    const float denominator = xent_denominator(a->denominator);
    const double loss_factor = a->coefficient * a->head.step->loss_factor;
    for (int64_t r = begin; r < end; r++) {
        const int64_t at = r * a->ld, label = a->labels[r] - a->begin;
        const float *x = (const float *)a->logits + at;
        float max;
        const double sum = xent_sweep(x, a->valid, &max);
        ((float *)a->loss)[r] = (float)(log(sum) + max - (label >= 0 && label < a->valid ? x[label] : 0.0f));
        if (a->dlogits == NULL) continue;
        const float factor = (float)(a->loss_mask[r] * loss_factor / denominator);
        const float scale = (float)(factor / sum);
        BY_TYPE(dtype, xent_grad_row(type, stream && type != MEGA_F32, xent_row(type, a->dlogits, at), x, a->valid,
                                     a->cols, label, max, scale, factor));
    }
    vstream_end(stream);
}
