/* The dropout of rows of activations: the bits of megalith/philox.h, for eight elements of a thread. */
#ifndef MEGA_CUDA_DROPOUT_H
#define MEGA_CUDA_DROPOUT_H

#include "kernel.h"

/* mega_dropout_threshold and mega_dropout_scale, which are functions of the host. */
BODY uint32_t dropout_threshold(double p)
{
    const double t = p * 65536.0 + 0.5;
    return t >= 65535.0 ? 65535u : (uint32_t)t;
}

BODY float dropout_scale(double p)
{
    return (float)(65536.0 / (65536.0 - (double)dropout_threshold(p)));
}

BODY device_philox dropout_block(const mega_step_block *step, uint32_t site, uint32_t sample, uint64_t block)
{
    device_philox c;
    c.v[0] = (uint32_t)block;
    c.v[1] = (uint32_t)(block >> 32);
    c.v[2] = sample;
    c.v[3] = step->step;
    return philox_4x32(c, step->seed, site);
}

typedef struct bits_eight {
    uint32_t v[8];
} bits_eight;

/* The 16 bits each of elements `first` to first + 7 of a sample. They lie in one or two blocks of the generator: words
 * of both follow each other, and the elements begin at 16 bits number first % 8. */
BODY bits_eight dropout_bits(const mega_step_block *step, uint32_t site, uint32_t sample, uint64_t first)
{
    const uint32_t odd = (uint32_t)first & 7u;
    const device_philox low = dropout_block(step, site, sample, first >> 3);
    device_philox high = low;
    bits_eight r;
    if (odd != 0) high = dropout_block(step, site, sample, (first >> 3) + 1);
    UNROLL
    for (int k = 0; k < 8; k++) {
        const uint32_t i = odd + (uint32_t)k, word = (i & 7u) >> 1;
        uint32_t bits = 0;
        UNROLL
        for (uint32_t w = 0; w < 4; w++) /* (an array with a computed index would be in slow memory) */
            if (w == word) bits = i < 8 ? low.v[w] : high.v[w];
        r.v[k] = bits >> ((i & 1u) * 16) & 0xffffu;
    }
    return r;
}

/* Multiplies the same elements by their factors, 0 or 1/(1-p). */
BODY void dropout_eight(eight *e, const mega_step_block *step, uint32_t site, uint32_t sample, uint64_t first, double p)
{
    const uint32_t threshold = dropout_threshold(p);
    const float scale = dropout_scale(p);
    const bits_eight bits = dropout_bits(step, site, sample, first);
    UNROLL
    for (int k = 0; k < 8; k++) e->v[k] = bits.v[k] >= threshold ? e->v[k] * scale : 0.0f;
}

#endif
