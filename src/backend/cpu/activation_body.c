/* Activations by kind and their gradients. */

ALWAYS vf act_absolute(vf x)
{
    return (vf)((vi)x & 0x7fffffff);
}

/* 1 / (1 + e^-x) */
ALWAYS vf act_logistic(mega_dtype type, vf x)
{
    return vlogistic2(type == MEGA_BF16, x * -LOG2_E);
}

/* `kind` is a constant after inlining. vmax returns its second argument for NaN. */
ALWAYS vf act_value(mega_dtype type, mega_activation_kind kind, vf x)
{
    const vf positive = vmax(vset(0.0f), x);
    switch (kind) {
    case MEGA_ACT_RELU: return positive;
    case MEGA_ACT_RELU_SQUARED: return positive * positive;
    case MEGA_ACT_SILU: return x * act_logistic(type, x);
    case MEGA_ACT_TANH: return vtanh(x);
    default: return act_logistic(type, x);
    }
}

/* logistic(x) logistic(-x) is even; computing it at -|x| preserves its digits where it is small. */
ALWAYS vf act_slope(mega_dtype type, mega_activation_kind kind, vf x)
{
    const vf positive = vmax(vset(0.0f), x);
    vf s, scale = vset(1.0f);
    switch (kind) {
    case MEGA_ACT_RELU: return vselect(x > 0.0f, vset(1.0f), positive); /* NaN stays NaN */
    case MEGA_ACT_RELU_SQUARED: return positive + positive;
    case MEGA_ACT_SILU: s = act_logistic(type, x); return s + x * (s * (1.0f - s));
    case MEGA_ACT_TANH:
        s = act_logistic(MEGA_F32, -2.0f * act_absolute(x));
        scale = vset(4.0f);
        break;
    default: s = act_logistic(type, -act_absolute(x));
    }
    return scale * (s * (1.0f - s));
}

ALWAYS void activation_kind_range(mega_dtype type, mega_activation_kind kind, const mega_activation_args *args,
                                  int64_t begin, int64_t end)
{
    const mega_activation_args a = *args; /* local copy, so that the compiler knows that stores do not change it */
    int64_t i = begin;
    for (; i + VL <= end; i += VL) vput(type, a.y, i, act_value(type, kind, vget(type, a.x, i)));
    if (i < end) vput_n(type, a.y, i, end - i, act_value(type, kind, vget_n(type, a.x, i, end - i)));
}

ALWAYS void activation_typed(mega_dtype type, const mega_activation_args *a, int64_t begin, int64_t end)
{
    switch (a->kind) {
    case MEGA_ACT_RELU: activation_kind_range(type, MEGA_ACT_RELU, a, begin, end); break;
    case MEGA_ACT_RELU_SQUARED: activation_kind_range(type, MEGA_ACT_RELU_SQUARED, a, begin, end); break;
    case MEGA_ACT_SILU: activation_kind_range(type, MEGA_ACT_SILU, a, begin, end); break;
    case MEGA_ACT_TANH: activation_kind_range(type, MEGA_ACT_TANH, a, begin, end); break;
    default: activation_kind_range(type, MEGA_ACT_SIGMOID, a, begin, end);
    }
}

static void activation_range(const mega_activation_args *a, int64_t begin, int64_t end)
{
    BY_TYPE(a->head.dtype, activation_typed(type, a, begin, end));
}

ALWAYS void activation_grad_kind_range(mega_dtype type, mega_activation_kind kind,
                                       const mega_activation_grad_args *args, int64_t begin, int64_t end)
{
    const mega_activation_grad_args a = *args;
    int64_t i = begin;
    for (; i + VL <= end; i += VL) vput(type, a.dx, i, vget(type, a.dy, i) * act_slope(type, kind, vget(type, a.x, i)));
    const int64_t rest = end - i;
    if (rest > 0)
        vput_n(type, a.dx, i, rest, vget_n(type, a.dy, i, rest) * act_slope(type, kind, vget_n(type, a.x, i, rest)));
}

ALWAYS void activation_grad_typed(mega_dtype type, const mega_activation_grad_args *a, int64_t begin, int64_t end)
{
    switch (a->kind) {
    case MEGA_ACT_RELU: activation_grad_kind_range(type, MEGA_ACT_RELU, a, begin, end); break;
    case MEGA_ACT_RELU_SQUARED: activation_grad_kind_range(type, MEGA_ACT_RELU_SQUARED, a, begin, end); break;
    case MEGA_ACT_SILU: activation_grad_kind_range(type, MEGA_ACT_SILU, a, begin, end); break;
    case MEGA_ACT_TANH: activation_grad_kind_range(type, MEGA_ACT_TANH, a, begin, end); break;
    default: activation_grad_kind_range(type, MEGA_ACT_SIGMOID, a, begin, end);
    }
}

static void activation_grad_range(const mega_activation_grad_args *a, int64_t begin, int64_t end)
{
    BY_TYPE(a->head.dtype, activation_grad_typed(type, a, begin, end));
}
