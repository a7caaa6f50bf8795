/* Soft-capped logits and their gradient. Logits are float for every type of the call. */

static void softcap_range(const mega_softcap_args *args, int64_t begin, int64_t end)
{
    const mega_softcap_args a = *args; /* local copy, so that the compiler knows that stores do not change it */
    const float cap = (float)a.cap, inverse = (float)(1.0 / a.cap);
    int64_t i = begin;
    for (; i + VL <= end; i += VL) vput(MEGA_F32, a.y, i, vtanh(vget(MEGA_F32, a.x, i) * inverse) * cap);
    if (i < end) vput_n(MEGA_F32, a.y, i, end - i, vtanh(vget_n(MEGA_F32, a.x, i, end - i) * inverse) * cap);
}

/* 1 - share^2 is computed as a product, which keeps its digits where the share is near 1. */
ALWAYS vf softcap_slope(vf y, float inverse)
{
    const vf share = y * inverse;
    return (1.0f - share) * (1.0f + share);
}

ALWAYS void softcap_grad_typed(mega_dtype type, const mega_softcap_grad_args *args, int64_t begin, int64_t end)
{
    const mega_softcap_grad_args a = *args;
    const float inverse = (float)(1.0 / a.cap);
    int64_t i = begin;
    for (; i + VL <= end; i += VL)
        vput(type, a.dx, i, vget(type, a.dy, i) * softcap_slope(vget(MEGA_F32, a.y, i), inverse));
    const int64_t n = end - i;
    if (n > 0) vput_n(type, a.dx, i, n, vget_n(type, a.dy, i, n) * softcap_slope(vget_n(MEGA_F32, a.y, i, n), inverse));
}

static void softcap_grad_range(const mega_softcap_grad_args *a, int64_t begin, int64_t end)
{
    BY_TYPE(a->head.dtype, softcap_grad_typed(type, a, begin, end));
}
