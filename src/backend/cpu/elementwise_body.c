/* Loops over elements: add, mul, convert, widen, narrow, norm; column sums. */

ALWAYS void add_typed(mega_dtype type, const mega_add_args *args, int64_t begin, int64_t end)
{
    const mega_add_args a = *args; /* local copy, so that the compiler knows that stores do not change it */
    int64_t i = begin;
    for (; i + VL <= end; i += VL) vput(type, a.y, i, vget(type, a.a, i) + vget(type, a.b, i));
    if (i < end) vput_n(type, a.y, i, end - i, vget_n(type, a.a, i, end - i) + vget_n(type, a.b, i, end - i));
}

static void add_range(const mega_add_args *a, int64_t begin, int64_t end)
{
    BY_TYPE(a->head.dtype, add_typed(type, a, begin, end));
}

ALWAYS void mul_typed(mega_dtype type, const mega_mul_args *args, int64_t begin, int64_t end)
{
    const mega_mul_args a = *args;
    int64_t i = begin;
    for (; i + VL <= end; i += VL) vput(type, a.y, i, vget(type, a.a, i) * vget(type, a.b, i));
    if (i < end) vput_n(type, a.y, i, end - i, vget_n(type, a.a, i, end - i) * vget_n(type, a.b, i, end - i));
}

static void mul_range(const mega_mul_args *a, int64_t begin, int64_t end)
{
    BY_TYPE(a->head.dtype, mul_typed(type, a, begin, end));
}

/* Also converts weights, so each element is rounded by vnarrow (vector.h). */
ALWAYS void convert_typed(mega_dtype to, mega_dtype from, const mega_convert_args *args, int64_t begin, int64_t end)
{
    const mega_convert_args a = *args;
    const float scale = (float)a.scale;
    int64_t i = begin;
    for (; i + VL <= end; i += VL) vput_exact(to, a.dst, i, vget(from, a.src, i) * scale);
    for (; i < end; i++) put1(to, a.dst, i, scale * get1(from, a.src, i));
}

ALWAYS void convert_to(mega_dtype to, const mega_convert_args *a, int64_t begin, int64_t end)
{
    BY_TYPE(a->src_dtype, convert_typed(to, type, a, begin, end));
}

static void convert_range(const mega_convert_args *a, int64_t begin, int64_t end)
{
    BY_TYPE(a->dst_dtype, convert_to(type, a, begin, end));
}

ALWAYS void narrow_typed(mega_dtype type, void *x, const float *src, int64_t begin, int64_t end)
{
    int64_t i = begin;
    for (; i + VL <= end; i += VL) vput_exact(type, x, i, vload(src + i));
    for (; i < end; i++) put1(type, x, i, src[i]);
}

/* x[i] = src[i], rounded exactly. */
LONG void narrow_range(mega_dtype dtype, void *x, const float *src, int64_t begin, int64_t end)
{
    BY_TYPE(dtype, narrow_typed(type, x, src, begin, end));
}

typedef struct norm_sums {
    vd low, high;
    vi zeros, odd;
} norm_sums;

/* Squares are summed in double, because they exceed the exponent range of float. */
ALWAYS void norm_step(norm_sums *s, const float *x)
{
    vf_half a, b;
    memcpy(&a, x, sizeof a);
    memcpy(&b, x + VL / 2, sizeof b);
    const vd da = __builtin_convertvector(a, vd), db = __builtin_convertvector(b, vd);
    const vf v = vload(x);
    s->low += da * da;
    s->high += db * db;
    s->zeros -= v == 0.0f; /* a true lane is -1 */
    s->odd -= ((vi)v & 0x7f800000) == 0x7f800000;
}

/* out: the sum of squares, the number of zeros, the number of values that are not finite. Four parts are read side by
 * side: a single stream is a third slower, because it waits for memory. */
static void norm_range(const float *x, int64_t n, double out[3])
{
    const int64_t part = n / 4 / VL * VL;
    norm_sums s[2] = {{{0}, {0}, {0}, {0}}, {{0}, {0}, {0}, {0}}};
    for (int64_t i = 0; i < part; i += VL) {
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            __builtin_prefetch(x + k * part + i + 1024);
            norm_step(&s[k & 1], x + k * part + i);
        }
    }
    int64_t i = 4 * part;
    for (; i + VL <= n; i += VL) norm_step(&s[0], x + i);
    double lane[VL / 2];
    int32_t zero[VL], bad[VL];
    const vd sum = (s[0].low + s[0].high) + (s[1].low + s[1].high);
    const vi zeros = s[0].zeros + s[1].zeros, odd = s[0].odd + s[1].odd;
    memcpy(lane, &sum, sizeof lane);
    memcpy(zero, &zeros, sizeof zero);
    memcpy(bad, &odd, sizeof bad);
    out[0] = out[1] = out[2] = 0.0;
    for (int l = 0; l < VL / 2; l++) out[0] += lane[l];
    for (int l = 0; l < VL; l++) out[1] += zero[l], out[2] += bad[l];
    for (; i < n; i++) {
        out[0] += (double)x[i] * x[i];
        out[1] += x[i] == 0.0f;
        out[2] += !isfinite(x[i]);
    }
}

static void set_zero(float *x, int64_t n)
{
    memset(x, 0, (size_t)n * sizeof *x);
}

/* Adds columns [c, c + n) of `rows` rows (a constant after inlining) to their sums. */
ALWAYS void column_sum_block(mega_dtype type, const mega_column_sum_args *a, int64_t row, int rows, int64_t c,
                             int64_t n, float *partial)
{
    vf sum = vget_n(MEGA_F32, partial, c, n);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) sum += vget_n(type, a->x, (row + i) * a->cols + c, n);
    vput_n(MEGA_F32, partial, c, n, sum);
}

ALWAYS void column_sum_typed(mega_dtype type, const mega_column_sum_args *args, int64_t begin, int64_t end,
                             float *partial)
{
    const mega_column_sum_args a = *args;
    const int64_t whole = a.cols - a.cols % VL;
    int64_t r = begin;
    for (; r + 8 <= end; r += 8) {
        for (int64_t c = 0; c < whole; c += VL) column_sum_block(type, &a, r, 8, c, VL, partial);
        if (whole < a.cols) column_sum_block(type, &a, r, 8, whole, a.cols - whole, partial);
    }
    for (; r < end; r++) {
        for (int64_t c = 0; c < whole; c += VL) column_sum_block(type, &a, r, 1, c, VL, partial);
        if (whole < a.cols) column_sum_block(type, &a, r, 1, whole, a.cols - whole, partial);
    }
}

static void column_sum_rows(const mega_column_sum_args *a, int64_t begin, int64_t end, float *partial)
{
    set_zero(partial, a->cols);
    BY_TYPE(a->head.dtype, column_sum_typed(type, a, begin, end, partial));
}

static void fold_columns(float *sum, const float *partial, int64_t rows, int64_t ld, int64_t begin, int64_t end)
{
    for (int64_t c = begin; c < end; c += VL) {
        vf s = vset(0.0f);
        for (int64_t r = 0; r < rows; r++) s += vget_n(MEGA_F32, partial, r * ld + c, end - c);
        vput_n(MEGA_F32, sum, c, end - c, vget_n(MEGA_F32, sum, c, end - c) + s);
    }
}

/* Twelve chains of multiply-adds: enough to keep two units of latency 4 busy, and few enough for 16 registers. */
static double spin_fma(int64_t rounds, float *sink)
{
    vf s[12];
    for (int i = 0; i < 12; i++) s[i] = vset((float)(i + 1) * 1e-3f);
    const vf a = vset(0.999f + sink[0]), b = vset(1e-3f);
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) s[i] = s[i] * a + b;
    }
    for (int i = 1; i < 12; i++) s[0] += s[i];
    sink[1] = vsum(s[0]);
    return (double)rounds * 12 * VL * 2;
}
