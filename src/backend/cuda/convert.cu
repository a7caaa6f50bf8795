/* Conversion between F32, BF16 and F16, each also to itself; a thread has eight elements (ops_elementwise.h). */
#include "kernel.h"

BODY void convert_to(const mega_convert_args *a, mega_dtype to, mega_dtype from)
{
    const float scale = (float)a->scale;
    for (place p = place_first(1, a->count); place_goes_on(&p); place_next(&p)) {
        eight x = load_eight(a->src, from, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) x.v[k] *= scale;
        store_eight(a->dst, to, p.at, p.left, x);
    }
}

KERNEL(convert_f32_f32, mega_convert_args, EIGHT_THREADS)
{
    convert_to(&a, MEGA_F32, MEGA_F32);
}
KERNEL(convert_f32_bf16, mega_convert_args, EIGHT_THREADS)
{
    convert_to(&a, MEGA_F32, MEGA_BF16);
}
KERNEL(convert_f32_f16, mega_convert_args, EIGHT_THREADS)
{
    convert_to(&a, MEGA_F32, MEGA_F16);
}
KERNEL(convert_bf16_f32, mega_convert_args, EIGHT_THREADS)
{
    convert_to(&a, MEGA_BF16, MEGA_F32);
}
KERNEL(convert_bf16_bf16, mega_convert_args, EIGHT_THREADS)
{
    convert_to(&a, MEGA_BF16, MEGA_BF16);
}
KERNEL(convert_bf16_f16, mega_convert_args, EIGHT_THREADS)
{
    convert_to(&a, MEGA_BF16, MEGA_F16);
}
KERNEL(convert_f16_f32, mega_convert_args, EIGHT_THREADS)
{
    convert_to(&a, MEGA_F16, MEGA_F32);
}
KERNEL(convert_f16_bf16, mega_convert_args, EIGHT_THREADS)
{
    convert_to(&a, MEGA_F16, MEGA_BF16);
}
KERNEL(convert_f16_f16, mega_convert_args, EIGHT_THREADS)
{
    convert_to(&a, MEGA_F16, MEGA_F16);
}
