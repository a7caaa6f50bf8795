/* Gated activations and their gradient: rows of x hold gate and up, F columns each. */

/* `kind` is a constant after inlining. */
ALWAYS vf glu_value(mega_dtype type, mega_activation_kind kind, vf gate)
{
    if (kind == MEGA_ACT_IDENTITY) return gate;
    if (kind == MEGA_ACT_GELU_TANH) return gate * gelu_share(type, gate, gate * gate);
    if (kind == MEGA_ACT_GELU) return gate * vnormal_cdf(gate);
    return act_value(type, kind, gate);
}

ALWAYS vf glu_slope(mega_dtype type, mega_activation_kind kind, vf gate)
{
    if (kind == MEGA_ACT_IDENTITY) return vset(1.0f);
    if (kind == MEGA_ACT_GELU_TANH || kind == MEGA_ACT_GELU) return gelu_slope(type, kind == MEGA_ACT_GELU_TANH, gate);
    return act_slope(type, kind, gate);
}

ALWAYS void glu_kind_rows(mega_dtype type, mega_activation_kind kind, const mega_glu_args *args, int64_t begin,
                          int64_t end)
{
    const mega_glu_args a = *args; /* local copy, so that the compiler knows that stores do not change it */
    const int64_t F = a.cols, gate = a.gate_second ? F : 0, up = F - gate;
    const bool stream = vstreams(type, a.y, a.rows, F);
    for (int64_t r = begin; r < end; r++) {
        const int64_t at = 2 * r * F;
        int64_t c = 0;
        for (; c + VL <= F; c += VL)
            vput_stream(stream, type, a.y, r * F + c,
                        glu_value(type, kind, vget(type, a.x, at + gate + c)) * vget(type, a.x, at + up + c));
        if (c < F)
            vput_n(type, a.y, r * F + c, F - c,
                   glu_value(type, kind, vget_n(type, a.x, at + gate + c, F - c)) *
                       vget_n(type, a.x, at + up + c, F - c));
    }
    vstream_end(stream);
}

ALWAYS void glu_grad_block(mega_dtype type, mega_activation_kind kind, const mega_glu_grad_args *a, int64_t dy_at,
                           int64_t gate_at, int64_t up_at, int64_t n, bool stream)
{
    const vf dy = vget_n(type, a->dy, dy_at, n), gate = vget_n(type, a->x, gate_at, n);
    const vf up = vget_n(type, a->x, up_at, n);
    const vf d_gate = dy * up * glu_slope(type, kind, gate), d_up = dy * glu_value(type, kind, gate);
    if (n == VL) {
        vput_stream(stream, type, a->dx, gate_at, d_gate);
        vput_stream(stream, type, a->dx, up_at, d_up);
    } else {
        vput_n(type, a->dx, gate_at, n, d_gate);
        vput_n(type, a->dx, up_at, n, d_up);
    }
}

ALWAYS void glu_grad_kind_rows(mega_dtype type, mega_activation_kind kind, const mega_glu_grad_args *args,
                               int64_t begin, int64_t end)
{
    const mega_glu_grad_args a = *args;
    const int64_t F = a.cols, gate = a.gate_second ? F : 0, up = F - gate;
    const bool stream = a.dx != a.x && F % VL == 0 && vstreams(type, a.dx, a.rows, 2 * F);
    for (int64_t r = begin; r < end; r++) {
        const int64_t at = 2 * r * F;
        int64_t c = 0;
        for (; c + VL <= F; c += VL) glu_grad_block(type, kind, &a, r * F + c, at + gate + c, at + up + c, VL, stream);
        if (c < F) glu_grad_block(type, kind, &a, r * F + c, at + gate + c, at + up + c, F - c, false);
    }
    vstream_end(stream);
}

#define GLU_CASE(function, kind, ...)      \
    case kind:                             \
        function(type, kind, __VA_ARGS__); \
        break;
#define GLU_BY_KIND(function, value, ...)                          \
    switch (value) {                                               \
        GLU_CASE(function, MEGA_ACT_GELU_TANH, __VA_ARGS__)        \
        GLU_CASE(function, MEGA_ACT_GELU, __VA_ARGS__)             \
        GLU_CASE(function, MEGA_ACT_RELU, __VA_ARGS__)             \
        GLU_CASE(function, MEGA_ACT_RELU_SQUARED, __VA_ARGS__)     \
        GLU_CASE(function, MEGA_ACT_SILU, __VA_ARGS__)             \
        GLU_CASE(function, MEGA_ACT_TANH, __VA_ARGS__)             \
        GLU_CASE(function, MEGA_ACT_IDENTITY, __VA_ARGS__)         \
    default: function(type, MEGA_ACT_SIGMOID, __VA_ARGS__); break; \
    }

ALWAYS void glu_typed(mega_dtype type, const mega_glu_args *a, int64_t begin, int64_t end)
{
    GLU_BY_KIND(glu_kind_rows, a->kind, a, begin, end)
}

static void glu_rows(const mega_glu_args *a, int64_t begin, int64_t end)
{
    BY_TYPE(a->head.dtype, glu_typed(type, a, begin, end));
}

ALWAYS void glu_grad_typed(mega_dtype type, const mega_glu_grad_args *a, int64_t begin, int64_t end)
{
    GLU_BY_KIND(glu_grad_kind_rows, a->kind, a, begin, end)
}

static void glu_grad_rows(const mega_glu_grad_args *a, int64_t begin, int64_t end)
{
    BY_TYPE(a->head.dtype, glu_grad_typed(type, a, begin, end));
}
