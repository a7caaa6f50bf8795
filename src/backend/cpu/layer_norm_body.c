/* Layer norm and RMS norm, and their gradients. Memory is read once; later passes over a row read it as floats from the
 * first-level cache. If the number of columns is not a multiple of the vector length, the last vector has fewer
 * lanes. */

/* Maximum number of columns for which a row is kept as floats on the stack; wider rows are read and widened again. */
#define NORM_COLS 4096

ALWAYS void norm_widen(mega_dtype type, float *dst, const void *src, int64_t at, int64_t C)
{
    int64_t c = 0;
    for (; c + VL <= C; c += VL) vstore(dst + c, vget(type, src, at + c));
    if (c < C) vput_n(MEGA_F32, dst, c, C - c, vget_n(type, src, at + c, C - c));
}

/* Forms that are compiled on their own; they are constants after inlining. */
typedef enum norm_form {
    NORM_LAYER, /* layer norm with gain and bias */
    NORM_OTHER  /* all others, which look at the arguments */
} norm_form;

ALWAYS bool norm_has_mean(norm_form form, bool rms)
{
    return form == NORM_LAYER || (form == NORM_OTHER && !rms);
}

/* Returns n lanes of normal * gain + bias. */
ALWAYS vf norm_scaled(mega_dtype in, norm_form form, const mega_layer_norm_args *a, vf normal, const void *gain,
                      const void *bias, int64_t c, int64_t n)
{
    if (form == NORM_LAYER) return normal * vget_n(in, gain, c, n) + vget_n(in, bias, c, n);
    if (gain != NULL) normal *= vget_n(in, gain, c, n) + (a->plus_one ? 1.0f : 0.0f);
    return bias != NULL ? normal + vget_n(in, bias, c, n) : normal;
}

ALWAYS float norm_mean(mega_dtype in, const void *x, int64_t C)
{
    const int64_t whole = C - C % VL;
    vf sum = vset(0.0f);
    for (int64_t c = 0; c < whole; c += VL) sum += vget(in, x, c);
    if (whole < C) sum += vget_n(in, x, whole, C - whole);
    return vsum(sum) / (float)C;
}

/* Computes one row; x, gain and bias are of type `in`, y of type `type`. */
ALWAYS void layer_norm_row(mega_dtype in, mega_dtype type, norm_form form, const mega_layer_norm_args *a, int64_t r,
                           const void *x, const void *gain, const void *bias, bool stream)
{
    const int64_t C = a->cols, at = r * C, whole = C - C % VL, rest = C - whole;
    vf sum_sq = vset(0.0f);
    const float mean = norm_has_mean(form, a->rms) ? norm_mean(in, x, C) : 0.0f;
    for (int64_t c = 0; c < whole; c += VL) {
        const vf d = vget(in, x, c) - mean;
        sum_sq += d * d;
    }
    if (rest > 0) {
        const vf d = vkeep(vget_n(in, x, whole, rest) - mean, rest);
        sum_sq += d * d;
    }
    const float rstd = (float)(1.0 / sqrt((double)vsum(sum_sq) / (double)C + a->eps));
    for (int64_t c = 0; c < whole; c += VL) {
        const vf normal = (vget(in, x, c) - mean) * rstd;
        vput_stream(stream, type, a->y, at + c, norm_scaled(in, form, a, normal, gain, bias, c, VL));
    }
    if (rest > 0) {
        const vf normal = (vget_n(in, x, whole, rest) - mean) * rstd;
        vput_n(type, a->y, at + whole, rest, norm_scaled(in, form, a, normal, gain, bias, whole, rest));
    }
    if (norm_has_mean(form, a->rms)) ((float *)a->mean)[r] = mean;
    ((float *)a->rstd)[r] = rstd;
}

ALWAYS void layer_norm_typed(mega_dtype type, norm_form form, const mega_layer_norm_args *args, int64_t begin,
                             int64_t end)
{
    const mega_layer_norm_args a = *args; /* local copy, so that the compiler knows that stores do not change it */
    const bool stream = a.y != a.x && vstreams(type, a.y, a.rows, a.cols);
    float row[NORM_COLS], gain[NORM_COLS], bias[NORM_COLS];
    if (type == MEGA_F32 || a.cols > NORM_COLS) {
        for (int64_t r = begin; r < end; r++) {
            const char *x = (const char *)a.x + r * a.cols * vsize(type);
            layer_norm_row(type, type, form, &a, r, x, a.gain, a.bias, stream);
        }
    } else {
        if (a.gain != NULL) norm_widen(type, gain, a.gain, 0, a.cols);
        if (a.bias != NULL) norm_widen(type, bias, a.bias, 0, a.cols);
        for (int64_t r = begin; r < end; r++) {
            norm_widen(type, row, a.x, r * a.cols, a.cols);
            layer_norm_row(MEGA_F32, type, form, &a, r, row, a.gain != NULL ? gain : NULL, a.bias != NULL ? bias : NULL,
                           stream);
        }
    }
    vstream_end(stream);
}

static norm_form norm_form_of(bool rms, bool has_gain, bool has_bias, bool plus_one)
{
    return !rms && has_gain && has_bias && !plus_one ? NORM_LAYER : NORM_OTHER;
}

static void layer_norm_rows(const mega_layer_norm_args *a, int64_t begin, int64_t end)
{
    if (norm_form_of(a->rms, a->gain != NULL, a->bias != NULL, a->plus_one) == NORM_LAYER)
        BY_TYPE(a->head.dtype, layer_norm_typed(type, NORM_LAYER, a, begin, end));
    else
        BY_TYPE(a->head.dtype, layer_norm_typed(type, NORM_OTHER, a, begin, end));
}

typedef struct norm_grad {
    float *dgain, *dbias;  /* sums over the rows so far */
    float *w, *normal;     /* this row's, [NORM_COLS]; NULL: recomputed */
    float mean, rstd;      /* mean and rstd of the row */
    float mean_w, mean_wn; /* means of w and of w * normal */
    bool stream;           /* the result is stored past the cache */
    const void *gain;      /* of type `gain_type`, or float if a row is kept */
} norm_grad;

/* Computes n lanes of w = dy * gain and of the normalized row. */
ALWAYS void norm_grad_factors(mega_dtype type, mega_dtype gain_type, norm_form form, const mega_layer_norm_grad_args *a,
                              const norm_grad *s, int64_t at, int64_t c, int64_t n, vf *dy, vf *w, vf *normal)
{
    *dy = vget_n(type, a->dy, at + c, n);
    *normal = (vget_n(type, a->x, at + c, n) - s->mean) * s->rstd;
    if (form == NORM_OTHER && s->gain == NULL) *w = *dy;
    else if (form == NORM_OTHER && a->plus_one)
        *w = *dy * (vget_n(gain_type, s->gain, c, n) + 1.0f);
    else
        *w = *dy * vget_n(gain_type, s->gain, c, n); /* zero after the end of the row, like dy */
}

ALWAYS void norm_grad_sums(mega_dtype type, norm_form form, bool keep, const mega_layer_norm_grad_args *a,
                           const norm_grad *s, int64_t at, int64_t c, int64_t n, vf *sum, vf *sum_n)
{
    vf dy, w, normal;
    norm_grad_factors(type, keep ? MEGA_F32 : type, form, a, s, at, c, n, &dy, &w, &normal);
    if (norm_has_mean(form, a->rms)) *sum += w;
    *sum_n += w * normal;
    vput_n(MEGA_F32, s->dgain, c, n, vget_n(MEGA_F32, s->dgain, c, n) + dy * normal);
    if (form == NORM_LAYER || a->dbias != NULL) vput_n(MEGA_F32, s->dbias, c, n, vget_n(MEGA_F32, s->dbias, c, n) + dy);
    if (!keep) return;
    vstore(s->w + c, w);
    vstore(s->normal + c, normal);
}

ALWAYS void norm_grad_put(mega_dtype type, norm_form form, bool keep, bool adds, const mega_layer_norm_grad_args *a,
                          const norm_grad *s, int64_t at, int64_t c, int64_t n)
{
    vf dy, w, normal;
    if (keep) w = vload(s->w + c), normal = vload(s->normal + c);
    else
        norm_grad_factors(type, type, form, a, s, at, c, n, &dy, &w, &normal);
    vf dx = s->rstd * (w - s->mean_w - normal * s->mean_wn);
    if (adds) dx += vget_n(type, a->addend, at + c, n);
    if (n == VL) vput_stream(s->stream, type, a->dx, at + c, dx);
    else
        vput_n(type, a->dx, at + c, n, dx);
}

ALWAYS void norm_grad_put_row(mega_dtype type, norm_form form, bool keep, bool adds, const mega_layer_norm_grad_args *a,
                              const norm_grad *s, int64_t at)
{
    const int64_t C = a->cols, whole = C - C % VL, rest = C - whole;
    for (int64_t c = 0; c < whole; c += VL) norm_grad_put(type, form, keep, adds, a, s, at, c, VL);
    if (rest > 0) norm_grad_put(type, form, keep, adds, a, s, at, whole, rest);
}

/* plain/layer_norm_grad.c has the formula. */
ALWAYS void layer_norm_grad_row(mega_dtype type, norm_form form, bool keep, const mega_layer_norm_grad_args *a,
                                int64_t r, norm_grad *s)
{
    const int64_t C = a->cols, at = r * C, whole = C - C % VL, rest = C - whole;
    vf sum = vset(0.0f), sum_n = vset(0.0f);
    s->mean = norm_has_mean(form, a->rms) ? ((const float *)a->mean)[r] : 0.0f;
    s->rstd = ((const float *)a->rstd)[r];
    for (int64_t c = 0; c < whole; c += VL) norm_grad_sums(type, form, keep, a, s, at, c, VL, &sum, &sum_n);
    if (rest > 0) norm_grad_sums(type, form, keep, a, s, at, whole, rest, &sum, &sum_n);
    s->mean_w = vsum(sum) / (float)C, s->mean_wn = vsum(sum_n) / (float)C;
    const norm_grad t = *s; /* local copy, so that the compiler knows that stores do not change it */
    if (keep && a->addend != NULL) norm_grad_put_row(type, form, true, true, a, &t, at);
    else if (keep)
        norm_grad_put_row(type, form, true, false, a, &t, at);
    else
        norm_grad_put_row(type, form, false, a->addend != NULL, a, &t, at);
}

ALWAYS void layer_norm_grad_typed(mega_dtype type, norm_form form, const mega_layer_norm_grad_args *args, int64_t begin,
                                  int64_t end, float *dgain, float *dbias)
{
    const mega_layer_norm_grad_args a = *args;
    float w[NORM_COLS + VL], normal[NORM_COLS + VL], gain[NORM_COLS];
    const bool keep = a.cols <= NORM_COLS;
    norm_grad s = {.dgain = dgain, .dbias = dbias, .w = w, .normal = normal, .gain = a.gain};
    s.stream = a.dx != a.dy && a.dx != a.addend && a.dx != a.x && vstreams(type, a.dx, a.rows, a.cols);
    if (type != MEGA_F32 && keep && a.gain != NULL) {
        norm_widen(type, gain, a.gain, 0, a.cols);
        s.gain = gain;
    }
    for (int64_t r = begin; r < end; r++) {
        if (keep) layer_norm_grad_row(type, form, true, &a, r, &s);
        else
            layer_norm_grad_row(type, form, false, &a, r, &s);
    }
    vstream_end(s.stream);
}

static void layer_norm_grad_rows(const mega_layer_norm_grad_args *a, int64_t begin, int64_t end, float *dgain,
                                 float *dbias)
{
    set_zero(dgain, a->cols);
    set_zero(dbias, a->cols);
    if (norm_form_of(a->rms, a->gain != NULL, a->dbias != NULL, a->plus_one) == NORM_LAYER)
        BY_TYPE(a->head.dtype, layer_norm_grad_typed(type, NORM_LAYER, a, begin, end, dgain, dbias));
    else
        BY_TYPE(a->head.dtype, layer_norm_grad_typed(type, NORM_OTHER, a, begin, end, dgain, dbias));
}
