/* Normal random numbers by Box and Muller, for a vector of counters at a time. The files that include this one define
 * VECTOR_BYTES and NORMAL_PAIRS, and are compiled without contraction. Every operation below is therefore rounded on
 * its own and in the order of the source, so that vectors of any width give the same bits. */
#include "cpu/bodies.h"
#include "cpu/normal.h"
#include "cpu/vector.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function" /* its dropout functions */
#include "cpu/philox_body.c"
#pragma GCC diagnostic pop

#define DOUBLES (VECTOR_BYTES / 8)

ALWAYS vd all(double x)
{
    return x - (vd){0};
}

ALWAYS vd choose(vq mask, vd a, vd b)
{
    return (vd)(((vq)a & mask) | ((vq)b & ~mask));
}

/* Converts integers below 2^52. */
ALWAYS vd to_double(vq x)
{
    return (vd)(x | 0x4330000000000000u) - 4503599627370496.0;
}

ALWAYS vd square_root(vd x)
{
#if VECTOR_BYTES == 64 && defined(__AVX512F__)
    return (vd)_mm512_sqrt_pd((__m512d)x);
#elif VECTOR_BYTES == 32 && defined(__AVX__)
    return (vd)_mm256_sqrt_pd((__m256d)x);
#elif VECTOR_BYTES == 16 && defined(__SSE2__)
    return (vd)_mm_sqrt_pd((__m128d)x);
#else
    for (int l = 0; l < DOUBLES; l++) x[l] = sqrt(x[l]);
    return x;
#endif
}

/* Returns -log(x) for normal x > 0: x = m 2^e, m in [sqrt(1/2), sqrt(2)]; log m = 2 artanh s with s = (m-1)/(m+1), so
 * |s| < 0.172. */
ALWAYS vd minus_log(vd x)
{
    const double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;
    const vq bits = (vq)x;
    const vd m = (vd)((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
    const vq large = (vq)(m > 1.4142135623730951);
    const vd e = to_double((bits >> 52) + (large & 1u)) - 1023.0, half = choose(large, m * 0.5, m);
    const vd s = (half - 1.0) / (half + 1.0), z = s * s;
    vd p = all(1.0 / 21);
    for (int k = 19; k >= 3; k -= 2) p = p * z + 1.0 / k;
    const vd log_m = s * 2.0 + s * 2.0 * (z * p);
    return -(e * ln2_high) - (log_m + e * ln2_low);
}

/* Computes cosine and sine of r 2 pi / 2^32: the angle as a double, minus k quarters of a circle. */
ALWAYS void turn_around(vq r, vd *cosine, vd *sine)
{
    const double quarter_high = 0x1.921fb54400000p+0, quarter_low = 0x1.0b4611a626331p-34;
    const vq k = (r + ((uint64_t)1 << 29)) >> 30;
    const vd quarters = to_double(k), angle = to_double(r) * (6.283185307179586476925 / 4294967296.0);
    const vd y = (angle - quarters * quarter_high) - quarters * quarter_low, z = y * y;
    vd p = all(1.0 / 355687428096000), q = all(1.0 / 20922789888000); /* 17!, 16! */
    p = p * z - 1.0 / 1307674368000, q = q * z - 1.0 / 87178291200;
    p = p * z + 1.0 / 6227020800, q = q * z + 1.0 / 479001600;
    p = p * z - 1.0 / 39916800, q = q * z - 1.0 / 3628800;
    p = p * z + 1.0 / 362880, q = q * z + 1.0 / 40320;
    p = p * z - 1.0 / 5040, q = q * z - 1.0 / 720;
    p = p * z + 1.0 / 120, q = q * z + 1.0 / 24;
    p = p * z - 1.0 / 6;
    const vd s = y + y * (z * p), c = 1.0 - (z * 0.5 - z * z * q);
    const vq odd = -(k & 1u);
    *cosine = (vd)((vq)choose(odd, s, c) ^ (((k + 1) & 2u) << 62));
    *sine = (vd)((vq)choose(odd, c, s) ^ ((k & 2u) << 62));
}

/* Writes the numbers of DOUBLES counters, starting with counter `first`, in order. */
ALWAYS void write_pairs(double *out, uint32_t seed, uint32_t name_hash, uint64_t first)
{
    vq counter = {0};
    for (int l = 0; l < DOUBLES; l++) counter[l] = first + (uint64_t)l;
    philox_state p = {counter, counter >> 32, (vq){0} + 0x494e4954u, (vq){0}};
    for (int round = 0; round < 10; round++, seed += 0x9E3779B9u, name_hash += 0xBB67AE85u)
        philox_round(&p, seed, name_hash);
    vd cosine, sine;
    turn_around(p.c1 & 0xffffffffu, &cosine, &sine);
    const vd u = (to_double(p.c0 & 0xffffffffu) + 0.5) * (1.0 / 4294967296.0);
    const vd radius = square_root(minus_log(u) * 2.0), even = radius * cosine, odd = radius * sine;
    for (int l = 0; l < DOUBLES; l++) out[2 * l] = even[l], out[2 * l + 1] = odd[l];
}

void NORMAL_PAIRS(double *out, uint32_t seed, uint32_t name_hash, uint64_t first, int64_t count)
{
    double last[2 * DOUBLES];
    int64_t i = 0;
    for (; i + DOUBLES <= count; i += DOUBLES) write_pairs(out + 2 * i, seed, name_hash, first + (uint64_t)i);
    if (i == count) return;
    write_pairs(last, seed, name_hash, first + (uint64_t)i);
    memcpy(out + 2 * i, last, (size_t)(count - i) * 2 * sizeof *last);
}
