/* Layer norm and its gradient. Memory is read once; later passes over a row read it as floats from the first-level
 * cache. If the number of columns is not a multiple of the vector length, the last vector has fewer lanes. */

/* Maximum number of columns for which a row is kept as floats on the stack; wider rows are read and widened again. */
#define NORM_COLS 4096

static void norm_widen(float *dst, const void *src, int64_t at, int64_t C)
{
    int64_t c = 0;
    for (; c + VL <= C; c += VL) vstore(dst + c, vget(true, src, at + c));
    if (c < C) vput_n(false, dst, c, C - c, vget_n(true, src, at + c, C - c));
}

/* Computes one row; x, gain and bias are bf16 with in_bf16, y with bf16. */
ALWAYS void layer_norm_row(bool in_bf16, bool bf16, const mega_layer_norm_args *a, int64_t r, const void *x,
                           const void *gain, const void *bias, bool stream)
{
    const int64_t C = a->cols, at = r * C, whole = C - C % VL, rest = C - whole;
    vf sum = vset(0.0f), sum_sq = vset(0.0f);
    for (int64_t c = 0; c < whole; c += VL) sum += vget(in_bf16, x, c);
    if (rest > 0) sum += vget_n(in_bf16, x, whole, rest);
    const float mean = vsum(sum) / (float)C;
    for (int64_t c = 0; c < whole; c += VL) {
        const vf d = vget(in_bf16, x, c) - mean;
        sum_sq += d * d;
    }
    if (rest > 0) {
        const vf d = vkeep(vget_n(in_bf16, x, whole, rest) - mean, rest);
        sum_sq += d * d;
    }
    const float rstd = (float)(1.0 / sqrt((double)vsum(sum_sq) / (double)C + a->eps));
    for (int64_t c = 0; c < whole; c += VL) {
        const vf normal = (vget(in_bf16, x, c) - mean) * rstd;
        vput_stream(stream, bf16, a->y, at + c, normal * vget(in_bf16, gain, c) + vget(in_bf16, bias, c));
    }
    if (rest > 0) {
        const vf normal = (vget_n(in_bf16, x, whole, rest) - mean) * rstd;
        const vf y = normal * vget_n(in_bf16, gain, whole, rest) + vget_n(in_bf16, bias, whole, rest);
        vput_n(bf16, a->y, at + whole, rest, y);
    }
    ((float *)a->mean)[r] = mean;
    ((float *)a->rstd)[r] = rstd;
}

static void layer_norm_rows(const mega_layer_norm_args *args, int64_t begin, int64_t end)
{
    const mega_layer_norm_args a = *args; /* local copy, so that the compiler knows that stores do not change it */
    const bool bf16 = a.head.dtype == MEGA_BF16, stream = a.y != a.x && vstreams(bf16, a.y, a.rows, a.cols);
    float row[NORM_COLS], gain[NORM_COLS], bias[NORM_COLS];
    if (!bf16) {
        for (int64_t r = begin; r < end; r++)
            layer_norm_row(false, false, &a, r, (const float *)a.x + r * a.cols, a.gain, a.bias, stream);
    } else if (a.cols > NORM_COLS) {
        for (int64_t r = begin; r < end; r++)
            layer_norm_row(true, true, &a, r, (const uint16_t *)a.x + r * a.cols, a.gain, a.bias, stream);
    } else {
        norm_widen(gain, a.gain, 0, a.cols);
        norm_widen(bias, a.bias, 0, a.cols);
        for (int64_t r = begin; r < end; r++) {
            norm_widen(row, a.x, r * a.cols, a.cols);
            layer_norm_row(false, true, &a, r, row, gain, bias, stream);
        }
    }
    vstream_end(stream);
}

typedef struct norm_grad {
    float *dgain, *dbias;  /* sums over the rows so far */
    float *w, *normal;     /* this row's, [NORM_COLS]; NULL: recomputed */
    float mean, rstd;      /* mean and rstd of the row */
    float mean_w, mean_wn; /* means of w and of w * normal */
    bool stream;           /* the result is stored past the cache */
    const void *gain;      /* bf16 with gain_bf16 */
} norm_grad;

/* Computes n lanes of w = dy * gain and of the normalized row. */
ALWAYS void norm_grad_factors(bool bf16, bool gain_bf16, const mega_layer_norm_grad_args *a, const norm_grad *s,
                              int64_t at, int64_t c, int64_t n, vf *dy, vf *w, vf *normal)
{
    *dy = vget_n(bf16, a->dy, at + c, n);
    *normal = (vget_n(bf16, a->x, at + c, n) - s->mean) * s->rstd;
    *w = *dy * vget_n(gain_bf16, s->gain, c, n); /* zero after the end of the row, like dy */
}

ALWAYS void norm_grad_sums(bool bf16, bool keep, const mega_layer_norm_grad_args *a, const norm_grad *s, int64_t at,
                           int64_t c, int64_t n, vf *sum, vf *sum_n)
{
    vf dy, w, normal;
    norm_grad_factors(bf16, bf16 && !keep, a, s, at, c, n, &dy, &w, &normal);
    *sum += w;
    *sum_n += w * normal;
    vput_n(false, s->dgain, c, n, vget_n(false, s->dgain, c, n) + dy * normal);
    vput_n(false, s->dbias, c, n, vget_n(false, s->dbias, c, n) + dy);
    if (!keep) return;
    vstore(s->w + c, w);
    vstore(s->normal + c, normal);
}

ALWAYS void norm_grad_put(bool bf16, bool keep, bool adds, const mega_layer_norm_grad_args *a, const norm_grad *s,
                          int64_t at, int64_t c, int64_t n)
{
    vf dy, w, normal;
    if (keep) w = vload(s->w + c), normal = vload(s->normal + c);
    else
        norm_grad_factors(bf16, bf16, a, s, at, c, n, &dy, &w, &normal);
    vf dx = s->rstd * (w - s->mean_w - normal * s->mean_wn);
    if (adds) dx += vget_n(bf16, a->addend, at + c, n);
    if (n == VL) vput_stream(s->stream, bf16, a->dx, at + c, dx);
    else
        vput_n(bf16, a->dx, at + c, n, dx);
}

/* plain/layer_norm_grad.c has the formula. */
ALWAYS void layer_norm_grad_row(bool bf16, bool keep, bool adds, const mega_layer_norm_grad_args *a, int64_t r,
                                norm_grad *s)
{
    const int64_t C = a->cols, at = r * C, whole = C - C % VL, rest = C - whole;
    vf sum = vset(0.0f), sum_n = vset(0.0f);
    s->mean = ((const float *)a->mean)[r], s->rstd = ((const float *)a->rstd)[r];
    for (int64_t c = 0; c < whole; c += VL) norm_grad_sums(bf16, keep, a, s, at, c, VL, &sum, &sum_n);
    if (rest > 0) norm_grad_sums(bf16, keep, a, s, at, whole, rest, &sum, &sum_n);
    s->mean_w = vsum(sum) / (float)C, s->mean_wn = vsum(sum_n) / (float)C;
    const norm_grad t = *s; /* local copy, so that the compiler knows that stores do not change it */
    for (int64_t c = 0; c < whole; c += VL) norm_grad_put(bf16, keep, adds, a, &t, at, c, VL);
    if (rest > 0) norm_grad_put(bf16, keep, adds, a, &t, at, whole, rest);
}

ALWAYS void layer_norm_grad_typed(bool bf16, const mega_layer_norm_grad_args *args, int64_t begin, int64_t end,
                                  float *dgain, float *dbias)
{
    const mega_layer_norm_grad_args a = *args;
    float w[NORM_COLS + VL], normal[NORM_COLS + VL], gain[NORM_COLS];
    const bool keep = a.cols <= NORM_COLS;
    norm_grad s = {.dgain = dgain, .dbias = dbias, .w = w, .normal = normal, .gain = a.gain};
    s.stream = a.dx != a.dy && a.dx != a.addend && a.dx != a.x && vstreams(bf16, a.dx, a.rows, a.cols);
    if (bf16 && keep) {
        norm_widen(gain, a.gain, 0, a.cols);
        s.gain = gain;
    }
    for (int64_t r = begin; r < end; r++) {
        if (keep && a.addend != NULL) layer_norm_grad_row(bf16, true, true, &a, r, &s);
        else if (keep)
            layer_norm_grad_row(bf16, true, false, &a, r, &s);
        else
            layer_norm_grad_row(bf16, false, a.addend != NULL, &a, r, &s);
    }
    vstream_end(s.stream);
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
