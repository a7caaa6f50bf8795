/* The generators that determine the order of samples, and the shuffles made with them. Each is defined by another
 * library (NumPy's RandomState, torch.randperm); the golden vectors of the tests come from there. */
#include "data_impl.h"

enum { MT_N = 624, MT_M = 397 };

void mega_mt19937_seed(mega_mt19937 *r, uint32_t seed)
{
    r->state[0] = seed;
    for (uint32_t i = 1; i < MT_N; i++) {
        const uint32_t before = r->state[i - 1];
        r->state[i] = 1812433253u * (before ^ (before >> 30)) + i;
    }
    r->next = MT_N;
}

static uint32_t mt_twist(uint32_t upper, uint32_t lower)
{
    const uint32_t y = (upper & 0x80000000u) | (lower & 0x7fffffffu);
    return (y >> 1) ^ ((y & 1u) ? 0x9908b0dfu : 0u);
}

static void mt_refill(mega_mt19937 *r)
{
    uint32_t *s = r->state;
    int i = 0;
    for (; i < MT_N - MT_M; i++) s[i] = s[i + MT_M] ^ mt_twist(s[i], s[i + 1]);
    for (; i < MT_N - 1; i++) s[i] = s[i + MT_M - MT_N] ^ mt_twist(s[i], s[i + 1]);
    s[MT_N - 1] = s[MT_M - 1] ^ mt_twist(s[MT_N - 1], s[0]);
    r->next = 0;
}

uint32_t mega_mt19937_u32(mega_mt19937 *r)
{
    if (r->next == MT_N) mt_refill(r);
    uint32_t y = r->state[r->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

static uint64_t draw_u64(mega_mt19937 *r)
{
    const uint64_t high = mega_mt19937_u32(r);
    return high << 32 | mega_mt19937_u32(r);
}

/* Draws numbers under the smallest all-ones mask that covers max until one is in range; the number of draws is part of
 * the definition. */
uint64_t mega_mt19937_interval(mega_mt19937 *r, uint64_t max)
{
    if (max == 0) return 0;
    const uint64_t mask = UINT64_MAX >> __builtin_clzll(max);
    uint64_t value;
    do {
        value = (max <= UINT32_MAX ? mega_mt19937_u32(r) : draw_u64(r)) & mask;
    } while (value > max);
    return value;
}

double mega_mt19937_double(mega_mt19937 *r)
{
    const uint32_t high = mega_mt19937_u32(r) >> 5, low = mega_mt19937_u32(r) >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
}

enum { MT64_N = 312, MT64_M = 156 };

void mega_mt19937_64_seed(mega_mt19937_64 *r, uint64_t seed)
{
    r->state[0] = seed;
    for (uint64_t i = 1; i < MT64_N; i++) {
        const uint64_t before = r->state[i - 1];
        r->state[i] = 6364136223846793005u * (before ^ (before >> 62)) + i;
    }
    r->next = MT64_N;
}

uint64_t mega_mt19937_64_u64(mega_mt19937_64 *r)
{
    uint64_t *s = r->state;
    for (int i = 0; r->next == MT64_N && i < MT64_N; i++) {
        const uint64_t y = (s[i] & 0xffffffff80000000u) | (s[(i + 1) % MT64_N] & 0x7fffffffu);
        s[i] = s[(i + MT64_M) % MT64_N] ^ (y >> 1) ^ ((y & 1u) ? 0xb5026f5aa96619e9u : 0u);
    }
    if (r->next == MT64_N) r->next = 0;
    uint64_t y = s[r->next++];
    y ^= (y >> 29) & 0x5555555555555555u;
    y ^= (y << 17) & 0x71d67fffeda60000u;
    y ^= (y << 37) & 0xfff7eee000000000u;
    return y ^ (y >> 43);
}

void mega_mt19937_shuffle_i32(mega_mt19937 *r, int32_t *x, int64_t n, const volatile sig_atomic_t *stop)
{
    for (int64_t i = n - 1; i > 0 && !mega_data_is_stopped(stop, i); i--) {
        const uint64_t j = mega_mt19937_interval(r, (uint64_t)i);
        const int32_t t = x[i];
        x[i] = x[j];
        x[j] = t;
    }
}

void mega_mt19937_shuffle_i64(mega_mt19937 *r, int64_t *x, int64_t n, const volatile sig_atomic_t *stop)
{
    for (int64_t i = n - 1; i > 0 && !mega_data_is_stopped(stop, i); i--) {
        const uint64_t j = mega_mt19937_interval(r, (uint64_t)i);
        const int64_t t = x[i];
        x[i] = x[j];
        x[j] = t;
    }
}

/* From this size on (checked with torch 2.15: the order of 214748364, seed 5, begins 91252029 200188117 89143689) torch
 * draws 64 bits, because the remainder of 32 bits would be uneven, and builds the order from its beginning instead of
 * swapping in place. */
enum { RANDPERM_LARGE = UINT32_MAX / 20 };

void mega_torch_randperm(uint64_t seed, int64_t *out, int64_t n)
{
    mega_mt19937 r;
    mega_mt19937_seed(&r, (uint32_t)seed);
    if (n >= RANDPERM_LARGE) {
        for (int64_t i = 0; i < n; i++) {
            const int64_t z = (int64_t)(draw_u64(&r) % (uint64_t)(i + 1));
            out[i] = i;
            out[i] = out[z];
            out[z] = i;
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) out[i] = i;
    for (int64_t i = 0; i < n - 1; i++) {
        const int64_t z = i + (int64_t)(mega_mt19937_u32(&r) % (uint64_t)(n - i));
        const int64_t t = out[i];
        out[i] = out[z];
        out[z] = t;
    }
}
