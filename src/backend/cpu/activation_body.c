/* Activations by kind and their gradients. */

ALWAYS vf act_absolute(vf x)
{
    return (vf)((vi)x & 0x7fffffff);
}

/* 1 / (1 + e^-x) */
ALWAYS vf act_logistic(bool bf16, vf x)
{
    return vlogistic2(bf16, x * -LOG2_E);
}

/* Below 0.75 an odd polynomial fitted to a relative error of 4e-8 is used, because 1 - 2 logistic(-2|x|) loses digits
 * near 0. */
ALWAYS vf act_tanh(vf x)
{
    const vf z = x * x, size = act_absolute(x);
    vf q = vset(-0.00480235f);
    q = q * z + 0.01971116f;
    q = q * z + -0.0534129f;
    q = q * z + 0.13326965f;
    q = q * z + -0.33333096f;
    const vf large = 1.0f - 2.0f * vlogistic2(false, size * (2.0f * LOG2_E));
    const vf signed_large = (vf)((vi)large | ((vi)x & ~0x7fffffff));
    return vselect(size < 0.75f, x + x * (z * q), signed_large);
}

/* `kind` is a constant after inlining. vmax returns its second argument for NaN. */
ALWAYS vf act_value(bool bf16, mega_activation_kind kind, vf x)
{
    const vf positive = vmax(vset(0.0f), x);
    switch (kind) {
    case MEGA_ACT_RELU: return positive;
    case MEGA_ACT_RELU_SQUARED: return positive * positive;
    case MEGA_ACT_SILU: return x * act_logistic(bf16, x);
    case MEGA_ACT_TANH: return act_tanh(x);
    default: return act_logistic(bf16, x);
    }
}

/* logistic(x) logistic(-x) is even; computing it at -|x| preserves its digits where it is small. */
ALWAYS vf act_slope(bool bf16, mega_activation_kind kind, vf x)
{
    const vf positive = vmax(vset(0.0f), x);
    vf s, scale = vset(1.0f);
    switch (kind) {
    case MEGA_ACT_RELU: return vselect(x > 0.0f, vset(1.0f), positive); /* NaN stays NaN */
    case MEGA_ACT_RELU_SQUARED: return positive + positive;
    case MEGA_ACT_SILU: s = act_logistic(bf16, x); return s + x * (s * (1.0f - s));
    case MEGA_ACT_TANH:
        s = act_logistic(false, -2.0f * act_absolute(x));
        scale = vset(4.0f);
        break;
    default: s = act_logistic(bf16, -act_absolute(x));
    }
    return scale * (s * (1.0f - s));
}

ALWAYS void activation_kind_range(bool bf16, mega_activation_kind kind, const mega_activation_args *args, int64_t begin,
                                  int64_t end)
{
    const mega_activation_args a = *args; /* local copy, so that the compiler knows that stores do not change it */
    int64_t i = begin;
    for (; i + VL <= end; i += VL) vput(bf16, a.y, i, act_value(bf16, kind, vget(bf16, a.x, i)));
    if (i < end) vput_n(bf16, a.y, i, end - i, act_value(bf16, kind, vget_n(bf16, a.x, i, end - i)));
}

ALWAYS void activation_typed(bool bf16, const mega_activation_args *a, int64_t begin, int64_t end)
{
    switch (a->kind) {
    case MEGA_ACT_RELU: activation_kind_range(bf16, MEGA_ACT_RELU, a, begin, end); break;
    case MEGA_ACT_RELU_SQUARED: activation_kind_range(bf16, MEGA_ACT_RELU_SQUARED, a, begin, end); break;
    case MEGA_ACT_SILU: activation_kind_range(bf16, MEGA_ACT_SILU, a, begin, end); break;
    case MEGA_ACT_TANH: activation_kind_range(bf16, MEGA_ACT_TANH, a, begin, end); break;
    default: activation_kind_range(bf16, MEGA_ACT_SIGMOID, a, begin, end);
    }
}

static void activation_range(const mega_activation_args *a, int64_t begin, int64_t end)
{
    if (a->head.dtype == MEGA_BF16) activation_typed(true, a, begin, end);
    else
        activation_typed(false, a, begin, end);
}

ALWAYS void activation_grad_kind_range(bool bf16, mega_activation_kind kind, const mega_activation_grad_args *args,
                                       int64_t begin, int64_t end)
{
    const mega_activation_grad_args a = *args;
    int64_t i = begin;
    for (; i + VL <= end; i += VL) vput(bf16, a.dx, i, vget(bf16, a.dy, i) * act_slope(bf16, kind, vget(bf16, a.x, i)));
    const int64_t rest = end - i;
    if (rest > 0)
        vput_n(bf16, a.dx, i, rest, vget_n(bf16, a.dy, i, rest) * act_slope(bf16, kind, vget_n(bf16, a.x, i, rest)));
}

ALWAYS void activation_grad_typed(bool bf16, const mega_activation_grad_args *a, int64_t begin, int64_t end)
{
    switch (a->kind) {
    case MEGA_ACT_RELU: activation_grad_kind_range(bf16, MEGA_ACT_RELU, a, begin, end); break;
    case MEGA_ACT_RELU_SQUARED: activation_grad_kind_range(bf16, MEGA_ACT_RELU_SQUARED, a, begin, end); break;
    case MEGA_ACT_SILU: activation_grad_kind_range(bf16, MEGA_ACT_SILU, a, begin, end); break;
    case MEGA_ACT_TANH: activation_grad_kind_range(bf16, MEGA_ACT_TANH, a, begin, end); break;
    default: activation_grad_kind_range(bf16, MEGA_ACT_SIGMOID, a, begin, end);
    }
}

static void activation_grad_range(const mega_activation_grad_args *a, int64_t begin, int64_t end)
{
    if (a->head.dtype == MEGA_BF16) activation_grad_typed(true, a, begin, end);
    else
        activation_grad_typed(false, a, begin, end);
}
