/* Layer norm and its gradient: two passes over a row that fits the first- or second-level cache. */

ALWAYS void layer_norm_typed(bool bf16, const mega_layer_norm_args *a, int64_t begin, int64_t end)
{
    const int64_t C = a->cols;
    for (int64_t r = begin; r < end; r++) {
        vf sum = vset(0.0f), sum_sq = vset(0.0f);
        for (int64_t c = 0; c < C; c += VL) sum += vget_n(bf16, a->x, r * C + c, C - c);
        const float mean = vsum(sum) / (float)C;
        for (int64_t c = 0; c < C; c += VL) {
            const vf d = vkeep(vget_n(bf16, a->x, r * C + c, C - c) - mean, C - c);
            sum_sq += d * d;
        }
        const float rstd = (float)(1.0 / sqrt((double)vsum(sum_sq) / (double)C + a->eps));
        for (int64_t c = 0; c < C; c += VL) {
            const vf normal = (vget_n(bf16, a->x, r * C + c, C - c) - mean) * rstd;
            const vf y = normal * vget_n(bf16, a->gain, c, C - c) + vget_n(bf16, a->bias, c, C - c);
            vput_n(bf16, a->y, r * C + c, C - c, y);
        }
        ((float *)a->mean)[r] = mean;
        ((float *)a->rstd)[r] = rstd;
    }
}

static void layer_norm_rows(const mega_layer_norm_args *a, int64_t begin, int64_t end)
{
    if (a->head.dtype == MEGA_BF16) layer_norm_typed(true, a, begin, end);
    else
        layer_norm_typed(false, a, begin, end);
}

/* plain/layer_norm_grad.c has the formula. */
ALWAYS void layer_norm_grad_typed(bool bf16, const mega_layer_norm_grad_args *a, int64_t begin, int64_t end,
                                  float *dgain, float *dbias)
{
    const int64_t C = a->cols;
    for (int64_t r = begin; r < end; r++) {
        const float mean = ((const float *)a->mean)[r], rstd = ((const float *)a->rstd)[r];
        vf sum = vset(0.0f), sum_n = vset(0.0f);
        for (int64_t c = 0; c < C; c += VL) {
            const int64_t at = r * C + c, n = C - c;
            const vf dy = vget_n(bf16, a->dy, at, n), normal = (vget_n(bf16, a->x, at, n) - mean) * rstd;
            const vf w = dy * vget_n(bf16, a->gain, c, n); /* zero behind the row's end, as dy is */
            sum += w;
            sum_n += w * normal;
            vput_n(false, dgain, c, n, vget_n(false, dgain, c, n) + dy * normal);
            vput_n(false, dbias, c, n, vget_n(false, dbias, c, n) + dy);
        }
        const float mean_w = vsum(sum) / (float)C, mean_wn = vsum(sum_n) / (float)C;
        for (int64_t c = 0; c < C; c += VL) {
            const int64_t at = r * C + c, n = C - c;
            const vf normal = (vget_n(bf16, a->x, at, n) - mean) * rstd;
            const vf w = vget_n(bf16, a->dy, at, n) * vget_n(bf16, a->gain, c, n);
            vf dx = rstd * (w - mean_w - normal * mean_wn);
            if (a->addend != NULL) dx += vget_n(bf16, a->addend, at, n);
            vput_n(bf16, a->dx, at, n, dx);
        }
    }
}

static void layer_norm_grad_rows(const mega_layer_norm_grad_args *a, int64_t begin, int64_t end, float *dgain,
                                 float *dbias)
{
    set_zero(dgain, a->cols);
    set_zero(dbias, a->cols);
    if (a->head.dtype == MEGA_BF16) layer_norm_grad_typed(true, a, begin, end, dgain, dbias);
    else
        layer_norm_grad_typed(false, a, begin, end, dgain, dbias);
}
