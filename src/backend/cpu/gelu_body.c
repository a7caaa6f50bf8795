/* GELU and its gradient. The tanh form needs no tanh: (1 + tanh z)/2 is the logistic function of 2z, which loses no
 * digits where tanh z is near -1. */

#define GELU_SLOPE 1.5957691216057308f /* 2 sqrt(2/pi) */
#define GELU_CUBE  0.044715f

/* n elements of a row, at `at` of the tensor and `c` of the bias; n is VL but behind the last whole vector. */
ALWAYS void gelu_step(bool bf16, bool tanh_form, const mega_gelu_args *a, int64_t at, int64_t c, int64_t n)
{
    vf u = vget_n(bf16, a->x, at, n);
    if (a->bias != NULL) u += vget_n(bf16, a->bias, c, n);
    const vf share = tanh_form ? vsigmoid(u * (GELU_SLOPE + GELU_SLOPE * GELU_CUBE * (u * u))) : vnormal_cdf(u);
    vput_n(bf16, a->y, at, n, u * share);
}

ALWAYS void gelu_typed(bool bf16, bool tanh_form, const mega_gelu_args *args, int64_t begin, int64_t end)
{
    const mega_gelu_args a = *args; /* a copy of our own: what is stored cannot lie in it */
    for (int64_t r = begin; r < end; r++) {
        const int64_t C = a.cols, row = r * C;
        int64_t c = 0;
        for (; c + VL <= C; c += VL) gelu_step(bf16, tanh_form, &a, row + c, c, VL);
        if (c < C) gelu_step(bf16, tanh_form, &a, row + c, c, C - c);
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
        const vf square = u * u;
        const vf s = vsigmoid(u * (GELU_SLOPE + GELU_SLOPE * GELU_CUBE * square));
        return s + u * (s - s * s) * (GELU_SLOPE + 3.0f * GELU_SLOPE * GELU_CUBE * square);
    }
    return vnormal_cdf(u) + u * 0.3989422804f * vexp(-0.5f * (u * u));
}

ALWAYS void gelu_grad_step(bool bf16, bool tanh_form, const mega_gelu_grad_args *a, int64_t at, int64_t c, int64_t n,
                           float *partial)
{
    vf u = vget_n(bf16, a->x, at, n);
    if (a->bias != NULL) u += vget_n(bf16, a->bias, c, n);
    const vf dx = vget_n(bf16, a->dy, at, n) * gelu_slope(tanh_form, u);
    if (partial != NULL) vput_n(false, partial, c, n, vget_n(false, partial, c, n) + dx);
    vput_n(bf16, a->dx, at, n, dx);
}

ALWAYS void gelu_grad_typed(bool bf16, bool tanh_form, const mega_gelu_grad_args *args, int64_t begin, int64_t end,
                            float *partial)
{
    const mega_gelu_grad_args a = *args;
    for (int64_t r = begin; r < end; r++) {
        const int64_t C = a.cols, row = r * C;
        int64_t c = 0;
        for (; c + VL <= C; c += VL) gelu_grad_step(bf16, tanh_form, &a, row + c, c, VL, partial);
        if (c < C) gelu_grad_step(bf16, tanh_form, &a, row + c, c, C - c, partial);
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
