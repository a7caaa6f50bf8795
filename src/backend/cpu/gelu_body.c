/* GELU and its gradient. The tanh form needs no tanh: (1 + tanh z)/2 is the logistic function of 2z, which loses no
 * digits where tanh z is near -1. */

#define GELU_SLOPE 1.5957691216057308f /* 2 sqrt(2/pi) */
#define GELU_CUBE  0.044715f

ALWAYS void gelu_typed(bool bf16, bool tanh_form, const mega_gelu_args *a, int64_t begin, int64_t end)
{
    const int64_t C = a->cols;
    for (int64_t r = begin; r < end; r++)
        for (int64_t c = 0; c < C; c += VL) {
            vf u = vget_n(bf16, a->x, r * C + c, C - c);
            if (a->bias != NULL) u += vget_n(bf16, a->bias, c, C - c);
            const vf share = tanh_form ? vsigmoid(GELU_SLOPE * (u + GELU_CUBE * (u * u * u))) : vnormal_cdf(u);
            vput_n(bf16, a->y, r * C + c, C - c, u * share);
        }
}

static void gelu_rows(const mega_gelu_args *a, int64_t begin, int64_t end)
{
    const bool bf16 = a->head.dtype == MEGA_BF16;
    if (bf16 && a->tanh_form) gelu_typed(true, true, a, begin, end);
    else if (bf16)
        gelu_typed(true, false, a, begin, end);
    else if (a->tanh_form)
        gelu_typed(false, true, a, begin, end);
    else
        gelu_typed(false, false, a, begin, end);
}

/* d(u share(u))/du */
ALWAYS vf gelu_slope(bool tanh_form, vf u)
{
    if (tanh_form) {
        const vf s = vsigmoid(GELU_SLOPE * (u + GELU_CUBE * (u * u * u)));
        return s + u * (s * (1.0f - s)) * (GELU_SLOPE * (1.0f + 3.0f * GELU_CUBE * (u * u)));
    }
    return vnormal_cdf(u) + u * 0.3989422804f * vexp(-0.5f * (u * u));
}

ALWAYS void gelu_grad_typed(bool bf16, bool tanh_form, const mega_gelu_grad_args *a, int64_t begin, int64_t end,
                            float *partial)
{
    const int64_t C = a->cols;
    for (int64_t r = begin; r < end; r++)
        for (int64_t c = 0; c < C; c += VL) {
            const int64_t at = r * C + c, n = C - c;
            vf u = vget_n(bf16, a->x, at, n);
            if (a->bias != NULL) u += vget_n(bf16, a->bias, c, n);
            const vf dx = vget_n(bf16, a->dy, at, n) * gelu_slope(tanh_form, u);
            if (partial != NULL) vput_n(false, partial, c, n, vget_n(false, partial, c, n) + dx);
            vput_n(bf16, a->dx, at, n, dx);
        }
}

static void gelu_grad_rows(const mega_gelu_grad_args *a, int64_t begin, int64_t end, float *partial)
{
    const bool bf16 = a->head.dtype == MEGA_BF16;
    if (partial != NULL) set_zero(partial, a->cols);
    if (bf16 && a->tanh_form) gelu_grad_typed(true, true, a, begin, end, partial);
    else if (bf16)
        gelu_grad_typed(true, false, a, begin, end, partial);
    else if (a->tanh_form)
        gelu_grad_typed(false, true, a, begin, end, partial);
    else
        gelu_grad_typed(false, false, a, begin, end, partial);
}
