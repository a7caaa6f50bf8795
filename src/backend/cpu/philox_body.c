/* Philox 4x32-10 for several counters at once (megalith/philox.h has the definition). Each counter stands in a lane of
 * 64 bits, of which only the lower half counts: the instruction that multiplies two lower halves to 64 bits ignores the
 * upper ones, so a round needs neither masks nor shuffles. */
#include "megalith/philox.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define PHILOX_BYTES VECTOR_BYTES
#define PHILOX_LANES (PHILOX_BYTES / 8)
/* Vectors of counters that go side by side, as the products of one wait for each other: what the registers hold. */
#define PHILOX_CHAINS (PHILOX_BYTES == 64 ? 4 : 2)
/* A dropout mask comes in runs of at most this many elements, so that it stays on the stack; the buffer has room for
 * the elements of the first and last counters that lie outside the run. */
#define MASK_RUN    512
#define MASK_BUFFER (MASK_RUN + 4 + 4 * PHILOX_CHAINS * PHILOX_LANES)

typedef uint64_t vq __attribute__((vector_size(PHILOX_BYTES)));
typedef uint32_t vq_words __attribute__((vector_size(PHILOX_BYTES)));

/* Product of the lower halves. */
ALWAYS vq multiply_low(vq a, uint32_t b)
{
#if PHILOX_BYTES == 64 && defined(__AVX512F__)
    return (vq)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64((int64_t)b));
#elif PHILOX_BYTES == 32 && defined(__AVX2__)
    return (vq)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x((int64_t)b));
#elif PHILOX_BYTES == 16 && defined(__SSE2__)
    return (vq)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x((int64_t)b));
#else
    return (a & 0xffffffffu) * (uint64_t)b;
#endif
}

/* One site of one step, as the kernels see it. */
typedef struct dropout_key {
    uint32_t seed, site, step, threshold;
    float scale; /* 1/(1-p) */
} dropout_key;

ALWAYS dropout_key dropout_key_of(const mega_step_block *step, uint32_t site, double p)
{
    return (dropout_key){step->seed, site, step->step, mega_dropout_threshold(p), (float)(1.0 / (1.0 - p))};
}

/* A vector of counters; the upper halves of the lanes hold what no product reads. */
typedef struct philox_state {
    vq c0, c1, c2, c3;
} philox_state;

ALWAYS void philox_round(philox_state *s, uint32_t key0, uint32_t key1)
{
    const vq a = multiply_low(s->c0, 0xD2511F53u), b = multiply_low(s->c2, 0xCD9E8D57u);
    s->c0 = (b >> 32) ^ s->c1 ^ (uint64_t)key0;
    s->c2 = (a >> 32) ^ s->c3 ^ (uint64_t)key1;
    s->c1 = b;
    s->c3 = a;
}

/* Writes the factors of a vector of counters, 4 each, in order. */
ALWAYS void philox_factors(float *at, const philox_state *s, vq_words threshold, vq_words scale)
{
    const vq even = (s->c0 & 0xffffffffu) | s->c1 << 32, odd = (s->c2 & 0xffffffffu) | s->c3 << 32;
#if PHILOX_LANES == 8
    const vq low = __builtin_shufflevector(even, odd, 0, 8, 1, 9, 2, 10, 3, 11),
             high = __builtin_shufflevector(even, odd, 4, 12, 5, 13, 6, 14, 7, 15);
#elif PHILOX_LANES == 4
    const vq low = __builtin_shufflevector(even, odd, 0, 4, 1, 5),
             high = __builtin_shufflevector(even, odd, 2, 6, 3, 7);
#else
    const vq low = __builtin_shufflevector(even, odd, 0, 2), high = __builtin_shufflevector(even, odd, 1, 3);
#endif
    const vq_words keep_low = (vq_words)((vq_words)low >= threshold) & scale;
    const vq_words keep_high = (vq_words)((vq_words)high >= threshold) & scale;
    memcpy(at, &keep_low, sizeof keep_low);
    memcpy(at + PHILOX_BYTES / 4, &keep_high, sizeof keep_high);
}

/* The factors of `chains` vectors of counters (a constant after inlining) from `block`. */
ALWAYS void philox_run(float *at, int chains, vq block, const dropout_key *key, uint32_t sample, vq_words scale)
{
    const vq_words threshold = (vq_words){0} + key->threshold;
    const vq c2 = (vq){0} + sample, c3 = (vq){0} + key->step;
    philox_state s[PHILOX_CHAINS];
#pragma GCC unroll 4
    for (int i = 0; i < chains; i++) {
        const vq counter = block + (uint64_t)(i * PHILOX_LANES);
        s[i] = (philox_state){counter, counter >> 32, c2, c3};
    }
    uint32_t key0 = key->seed, key1 = key->site;
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
#pragma GCC unroll 4
        for (int i = 0; i < chains; i++) philox_round(&s[i], key0, key1);
    }
#pragma GCC unroll 4
    for (int i = 0; i < chains; i++) philox_factors(at + 4 * i * PHILOX_LANES, &s[i], threshold, scale);
}

/* Factors (0 or scale) of elements [element, element + n), n <= MASK_RUN, of `sample`. They are written into `buffer`
 * [MASK_BUFFER]; the result points to the first one. */
static const float *dropout_factors(float *buffer, const dropout_key *key, uint32_t sample, uint64_t element, int64_t n)
{
    const uint64_t first = element >> 2, last = (element + (uint64_t)n + 3) >> 2;
    const vq_words scale = (vq_words)(key->scale - (float __attribute__((vector_size(PHILOX_BYTES)))){0});
    vq lane = {0};
    for (int l = 0; l < PHILOX_LANES; l++) lane[l] = (uint64_t)l;
    uint64_t block = first;
    for (; block + 2 * PHILOX_LANES < last; block += PHILOX_CHAINS * PHILOX_LANES)
        philox_run(buffer + 4 * (block - first), PHILOX_CHAINS, lane + block, key, sample, scale);
    if (block + PHILOX_LANES < last) philox_run(buffer + 4 * (block - first), 2, lane + block, key, sample, scale);
    else if (block < last)
        philox_run(buffer + 4 * (block - first), 1, lane + block, key, sample, scale);
    return buffer + (element & 3);
}
