/* GELU and its gradient. The tanh form is computed without tanh: (1 + tanh z)/2 is the logistic function of 2z, which
 * loses no digits where tanh z is near -1. */

#define GELU_SLOPE 1.5957691216057308f /* 2 sqrt(2/pi) */
#define GELU_CUBE  0.044715f

/* Returns gelu(u) / u in the tanh form: logistic(2z), where z is the polynomial of that form. `square` is u^2. */
ALWAYS vf gelu_share(mega_dtype type, vf u, vf square)
{
    const float slope = -GELU_SLOPE * LOG2_E;
    return vlogistic2(type == MEGA_BF16, u * (slope + slope * GELU_CUBE * square));
}

/* Computes n lanes of one row from element `at` on. n is VL except at the end of a row. */
ALWAYS void gelu_lanes(mega_dtype type, bool tanh_form, const mega_gelu_args *a, int64_t at, int64_t n, vf bias,
                       bool stream)
{
    const vf u = vget_n(type, a->x, at, n) + bias;
    const vf y = u * (tanh_form ? gelu_share(type, u, u * u) : vnormal_cdf(u));
    if (n == VL) vput_stream(stream, type, a->y, at, y);
    else
        vput_n(type, a->y, at, n, y);
}

/* Four rows share a vector of the bias; what is left of columns and rows takes one loop for any number of them, which
 * is compiled once. */
ALWAYS void gelu_typed(mega_dtype type, bool tanh_form, const mega_gelu_args *args, int64_t begin, int64_t end)
{
    const mega_gelu_args a = *args; /* local copy, so that the compiler knows that stores do not change it */
    const bool stream = a.y != a.x && vstreams(type, a.y, a.rows, a.cols);
    for (int64_t r = begin, rows; r < end; r += rows) {
        rows = end - r < 4 ? end - r : 4;
        int64_t c = 0;
        for (; rows == 4 && c + VL <= a.cols; c += VL) {
            const vf bias = a.bias != NULL ? vget(type, a.bias, c) : vset(0.0f);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) gelu_lanes(type, tanh_form, &a, (r + i) * a.cols + c, VL, bias, stream);
        }
        for (; c < a.cols; c += VL) {
            const int64_t n = a.cols - c < VL ? a.cols - c : VL;
            const vf bias = a.bias != NULL ? vget_n(type, a.bias, c, n) : vset(0.0f);
#pragma GCC unroll 1
            for (int64_t i = 0; i < rows; i++) gelu_lanes(type, tanh_form, &a, (r + i) * a.cols + c, n, bias, stream);
        }
    }
    vstream_end(stream);
}

static void gelu_rows(const mega_gelu_args *a, int64_t begin, int64_t end)
{
    if (a->tanh_form) BY_TYPE(a->head.dtype, gelu_typed(type, true, a, begin, end));
    else
        BY_TYPE(a->head.dtype, gelu_typed(type, false, a, begin, end));
}

/* d(u share(u))/du */
ALWAYS vf gelu_slope(mega_dtype type, bool tanh_form, vf u)
{
    const vf square = u * u;
    if (!tanh_form) return vnormal_cdf(u) + u * 0.3989422804f * vexp(-0.5f * square);
    const vf s = gelu_share(type, u, square);
    return s + u * (s - s * s) * (GELU_SLOPE + 3.0f * GELU_SLOPE * GELU_CUBE * square);
}

/* Computes n lanes of one row from element `at` on, and returns them. */
ALWAYS vf gelu_grad_lanes(mega_dtype type, bool tanh_form, const mega_gelu_grad_args *a, int64_t at, int64_t n, vf bias,
                          bool stream)
{
    const vf u = vget_n(type, a->x, at, n) + bias;
    const vf dx = vget_n(type, a->dy, at, n) * gelu_slope(type, tanh_form, u);
    if (n == VL) vput_stream(stream, type, a->dx, at, dx);
    else
        vput_n(type, a->dx, at, n, dx);
    return dx;
}

/* Adds to the sum of each column: a vector of four rows at once, otherwise a row at a time. */
ALWAYS void gelu_grad_typed(mega_dtype type, bool tanh_form, const mega_gelu_grad_args *args, int64_t begin,
                            int64_t end, float *partial)
{
    const mega_gelu_grad_args a = *args;
    const bool stream = a.dx != a.dy && a.dx != a.x && vstreams(type, a.dx, a.rows, a.cols);
    for (int64_t r = begin, rows; r < end; r += rows) {
        rows = end - r < 4 ? 1 : 4;
        int64_t c = 0;
        for (; rows == 4 && c + VL <= a.cols; c += VL) {
            const vf bias = a.bias != NULL ? vget(type, a.bias, c) : vset(0.0f);
            vf sum = vset(0.0f);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++)
                sum += gelu_grad_lanes(type, tanh_form, &a, (r + i) * a.cols + c, VL, bias, stream);
            if (partial != NULL) vstore(partial + c, vload(partial + c) + sum);
        }
        for (; c < a.cols; c += VL) {
            const int64_t n = a.cols - c < VL ? a.cols - c : VL;
            const vf bias = a.bias != NULL ? vget_n(type, a.bias, c, n) : vset(0.0f);
            vf sum = vset(0.0f);
#pragma GCC unroll 1
            for (int64_t i = 0; i < rows; i++)
                sum += gelu_grad_lanes(type, tanh_form, &a, (r + i) * a.cols + c, n, bias, stream);
            if (partial != NULL) vput_n(MEGA_F32, partial, c, n, vget_n(MEGA_F32, partial, c, n) + sum);
        }
    }
    vstream_end(stream);
}

static void gelu_grad_rows(const mega_gelu_grad_args *a, int64_t begin, int64_t end, float *partial)
{
    if (partial != NULL) set_zero(partial, a->cols);
    if (a->tanh_form) BY_TYPE(a->head.dtype, gelu_grad_typed(type, true, a, begin, end, partial));
    else
        BY_TYPE(a->head.dtype, gelu_grad_typed(type, false, a, begin, end, partial));
}
