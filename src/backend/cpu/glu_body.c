/* Gated activations and their gradient: rows of x hold gate and up, F columns each. The gate of a block of columns is
 * widened to floats, which stay in the first level of cache (2 kB a buffer), so that the loops over kinds of activation
 * need not be compiled for each type of number. bench_kernels has its speed beside a copy's. */
enum { GLU_BLOCK = 512 };

/* `kind` is a constant after inlining. */
ALWAYS vf glu_value(mega_activation_kind kind, vf gate)
{
    if (kind == MEGA_ACT_IDENTITY) return gate;
    if (kind == MEGA_ACT_GELU_TANH) return gate * gelu_share(MEGA_F32, gate, gate * gate);
    if (kind == MEGA_ACT_GELU) return gate * vnormal_cdf(gate);
    return act_value(MEGA_F32, kind, gate);
}

ALWAYS vf glu_slope(mega_activation_kind kind, vf gate)
{
    if (kind == MEGA_ACT_IDENTITY) return vset(1.0f);
    if (kind == MEGA_ACT_GELU_TANH || kind == MEGA_ACT_GELU)
        return gelu_slope(MEGA_F32, kind == MEGA_ACT_GELU_TANH, gate);
    return act_slope(MEGA_F32, kind, gate);
}

/* gate = activation(gate), and slope = its slope before that unless slope is NULL, for n elements and the rest of the
 * last vector. */
ALWAYS void glu_kind_values(mega_activation_kind kind, float *gate, float *slope, int64_t n)
{
    if (slope == NULL)
        for (int64_t c = 0; c < n; c += VL) vstore(gate + c, glu_value(kind, vload(gate + c)));
    else
        for (int64_t c = 0; c < n; c += VL) {
            const vf x = vload(gate + c);
            vstore(slope + c, glu_slope(kind, x));
            vstore(gate + c, glu_value(kind, x));
        }
}

#define GLU_CASE(kind) \
    case kind: glu_kind_values(kind, gate, slope, n); break;

LONG void glu_values(mega_activation_kind kind, float *gate, float *slope, int64_t n)
{
    switch (kind) {
        GLU_CASE(MEGA_ACT_GELU_TANH)
        GLU_CASE(MEGA_ACT_GELU)
        GLU_CASE(MEGA_ACT_RELU)
        GLU_CASE(MEGA_ACT_RELU_SQUARED)
        GLU_CASE(MEGA_ACT_SILU)
        GLU_CASE(MEGA_ACT_TANH)
        GLU_CASE(MEGA_ACT_IDENTITY)
    default: glu_kind_values(MEGA_ACT_SIGMOID, gate, slope, n);
    }
}

/* Widens n elements; the rest of the last vector becomes zeros. */
ALWAYS void glu_widen(mega_dtype type, float *dst, const void *src, int64_t at, int64_t n)
{
    int64_t c = 0;
    for (; c + VL <= n; c += VL) vstore(dst + c, vget(type, src, at + c));
    if (c < n) vstore(dst + c, vget_n(type, src, at + c, n - c));
}

/* Cuts n gates at the limit and multiplies them by alpha; `slope`, unless it is NULL, becomes 0 where one is cut. */
ALWAYS void glu_cut(float *gate, float *slope, int64_t n, float limit, float alpha)
{
    for (int64_t c = 0; c < n; c += VL) {
        const vf x = vload(gate + c);
        if (slope != NULL) vstore(slope + c, vselect(x > limit, vset(0.0f), vset(1.0f)));
        vstore(gate + c, vselect(x > limit, vset(limit), x) * alpha);
    }
}

ALWAYS void glu_times(float *x, const float *by, int64_t n, float factor)
{
    for (int64_t c = 0; c < n; c += VL) vstore(x + c, vload(x + c) * (by != NULL ? vload(by + c) : vset(factor)));
}

/* Activation and, unless it is NULL, slope of n gates: those of glu_values, or with the limit. */
ALWAYS void glu_gates(mega_activation_kind kind, float *gate, float *slope, int64_t n, float limit, float alpha)
{
    float whole[GLU_BLOCK];
    if (limit > 0.0f) glu_cut(gate, slope != NULL ? whole : NULL, n, limit, alpha);
    glu_values(kind, gate, slope, n);
    if (!(limit > 0.0f)) return;
    glu_times(gate, NULL, n, 1.0f / alpha);
    if (slope != NULL) glu_times(slope, whole, n, 1.0f);
}

ALWAYS vf glu_up(vf x, float limit)
{
    if (!(limit > 0.0f)) return x;
    return vselect(x > limit, vset(limit), vselect(x < -limit, vset(-limit), x)) + 1.0f;
}

ALWAYS void glu_put(mega_dtype type, bool stream, void *dst, int64_t at, int64_t n, vf value)
{
    if (n >= VL) vput_stream(stream, type, dst, at, value);
    else
        vput_n(type, dst, at, n, value);
}

/* Writes n elements from column c of a block on; the other numbers say where the block begins. */
ALWAYS void glu_finish(mega_dtype type, const mega_glu_args *a, bool stream, const float *value, int64_t from,
                       int64_t up_at, int64_t c, int64_t n)
{
    glu_put(type, stream, a->y, from + c, n,
            vload(value + c) * glu_up(vget_n(type, a->x, up_at + c, n), (float)a->limit));
}

ALWAYS void glu_typed(mega_dtype type, const mega_glu_args *args, int64_t begin, int64_t end)
{
    const mega_glu_args a = *args; /* local copy, so that the compiler knows that stores do not change it */
    const int64_t F = a.cols, gate = a.gate_second ? F : 0, up = F - gate;
    const bool stream = vstreams(type, a.y, a.rows, F);
    float value[GLU_BLOCK];
    for (int64_t r = begin; r < end; r++)
        for (int64_t first = 0; first < F; first += GLU_BLOCK) {
            const int64_t n = F - first < GLU_BLOCK ? F - first : GLU_BLOCK, at = 2 * r * F + first;
            glu_widen(type, value, a.x, at + gate, n);
            glu_gates(a.kind, value, NULL, n, (float)a.limit, (float)a.alpha);
            int64_t c = 0;
            for (; c + VL <= n; c += VL) glu_finish(type, &a, stream, value, r * F + first, at + up, c, VL);
            if (c < n) glu_finish(type, &a, false, value, r * F + first, at + up, c, n - c);
        }
    vstream_end(stream);
}

static void glu_rows(const mega_glu_args *a, int64_t begin, int64_t end)
{
    BY_TYPE(a->head.dtype, glu_typed(type, a, begin, end));
}

ALWAYS void glu_grad_finish(mega_dtype type, const mega_glu_grad_args *a, bool stream, const float *value,
                            const float *slope, int64_t dy_at, int64_t gate_at, int64_t up_at, int64_t c, int64_t n)
{
    const vf dy = vget_n(type, a->dy, dy_at + c, n), x = vget_n(type, a->x, up_at + c, n);
    const float limit = (float)a->limit;
    vf down = dy * vload(value + c);
    if (limit > 0.0f) down = vselect((x > limit) | (x < -limit), vset(0.0f), down);
    glu_put(type, stream, a->dx, gate_at + c, n, dy * glu_up(x, limit) * vload(slope + c));
    glu_put(type, stream, a->dx, up_at + c, n, down);
}

ALWAYS void glu_grad_typed(mega_dtype type, const mega_glu_grad_args *args, int64_t begin, int64_t end)
{
    const mega_glu_grad_args a = *args;
    const int64_t F = a.cols, gate = a.gate_second ? F : 0, up = F - gate;
    const bool stream = a.dx != a.x && F % VL == 0 && vstreams(type, a.dx, a.rows, 2 * F);
    float value[GLU_BLOCK], slope[GLU_BLOCK];
    for (int64_t r = begin; r < end; r++)
        for (int64_t first = 0; first < F; first += GLU_BLOCK) {
            const int64_t n = F - first < GLU_BLOCK ? F - first : GLU_BLOCK, at = 2 * r * F + first;
            glu_widen(type, value, a.x, at + gate, n);
            glu_gates(a.kind, value, slope, n, (float)a.limit, (float)a.alpha);
            const int64_t dy = r * F + first;
            int64_t c = 0;
            for (; c + VL <= n; c += VL) glu_grad_finish(type, &a, stream, value, slope, dy, at + gate, at + up, c, VL);
            if (c < n) glu_grad_finish(type, &a, false, value, slope, dy, at + gate, at + up, c, n - c);
        }
    vstream_end(stream);
}

static void glu_grad_rows(const mega_glu_grad_args *a, int64_t begin, int64_t end)
{
    BY_TYPE(a->head.dtype, glu_grad_typed(type, a, begin, end));
}
