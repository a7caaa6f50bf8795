/* Philox 4x32-10 for several counters at once (megalith/philox.h has the definition). Each counter is in a lane of 64
 * bits, and only its lower half is significant: the instruction that multiplies two lower halves to 64 bits ignores the
 * upper halves, so a round needs neither masks nor shuffles. */
#include "megalith/philox.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define PHILOX_BYTES VECTOR_BYTES
#define PHILOX_LANES (PHILOX_BYTES / 8)
/* Number of vectors of counters that are computed side by side, to hide the latency of multiplications. Limited by the
 * number of registers. */
#define PHILOX_CHAINS (PHILOX_BYTES == 64 ? 4 : 2)
/* Maximum length of a run of a dropout mask, which is on the stack and stays in the first level of cache. The buffer
 * also has space for the elements of the first and last counters outside the run. */
#define MASK_RUN    512
#define MASK_BUFFER (MASK_RUN + 8 + 8 * PHILOX_CHAINS * PHILOX_LANES)

typedef uint64_t vq __attribute__((vector_size(PHILOX_BYTES)));
typedef uint32_t vq_words __attribute__((vector_size(PHILOX_BYTES)));

/* Returns the products of the lower halves. */
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

/* Dropout at one site in one step. */
typedef struct dropout_key {
    uint32_t seed, site, step, threshold; /* threshold: for the upper half of a word */
    float scale;                          /* 1/(1-p) */
} dropout_key;

ALWAYS dropout_key dropout_key_of(const mega_step_block *step, uint32_t site, double p)
{
    return (dropout_key){step->seed, site, step->step, mega_dropout_threshold(p) << 16, (float)mega_dropout_scale(p)};
}

/* A vector of counters; the upper halves of its lanes are undefined. */
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

/* Runs all rounds for `chains` vectors of counters (a constant after inlining). */
ALWAYS void philox_rounds(philox_state s[PHILOX_CHAINS], const int chains, const dropout_key *key)
{
    uint32_t key0 = key->seed, key1 = key->site;
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
#pragma GCC unroll 4
        for (int i = 0; i < chains; i++) philox_round(&s[i], key0, key1);
    }
}

/* Computes the factors of the lower and of the upper halves of words. */
ALWAYS void factors_of_words(vq_words words, const dropout_key *key, vq_words *low, vq_words *high)
{
    const vq_words threshold = (vq_words){0} + key->threshold;
    const vq_words scale = (vq_words)(key->scale - (float __attribute__((vector_size(PHILOX_BYTES)))){0});
    *low = (vq_words)(words << 16 >= threshold) & scale;
    *high = (vq_words)(words >= threshold) & scale;
}

/* Stores the factors of words in order. */
ALWAYS void put_factors(float *at, vq_words words, const dropout_key *key)
{
    vq_words low, high;
    factors_of_words(words, key, &low, &high);
#if PHILOX_LANES == 8
    const vq_words first = __builtin_shufflevector(low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
                   second =
                       __builtin_shufflevector(low, high, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#elif PHILOX_LANES == 4
    const vq_words first = __builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11),
                   second = __builtin_shufflevector(low, high, 4, 12, 5, 13, 6, 14, 7, 15);
#else
    const vq_words first = __builtin_shufflevector(low, high, 0, 4, 1, 5),
                   second = __builtin_shufflevector(low, high, 2, 6, 3, 7);
#endif
    memcpy(at, &first, sizeof first);
    memcpy(at + PHILOX_BYTES / 4, &second, sizeof second);
}

/* Stores the factors of a vector of counters, 8 for each, in order. */
ALWAYS void philox_factors(float *at, const philox_state *s, const dropout_key *key)
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
    put_factors(at, (vq_words)low, key);
    put_factors(at + PHILOX_BYTES / 2, (vq_words)high, key);
}

/* Stores the factors of `chains` vectors of counters, starting with counter `block`. */
ALWAYS void philox_run(float *at, const int chains, vq block, const dropout_key *key, uint32_t sample)
{
    philox_state s[PHILOX_CHAINS];
#pragma GCC unroll 4
    for (int i = 0; i < chains; i++) {
        const vq counter = block + (uint64_t)(i * PHILOX_LANES);
        s[i] = (philox_state){counter, counter >> 32, (vq){0} + sample, (vq){0} + key->step};
    }
    philox_rounds(s, chains, key);
#pragma GCC unroll 4
    for (int i = 0; i < chains; i++) philox_factors(at + 8 * i * PHILOX_LANES, &s[i], key);
}

ALWAYS vq philox_lanes(void)
{
    vq lane = {0};
    for (int l = 0; l < PHILOX_LANES; l++) lane[l] = (uint64_t)l;
    return lane;
}

/* Computes the factors (0 or scale) of elements [element, element + n), n <= MASK_RUN, of `sample`. Writes them to
 * `buffer` [MASK_BUFFER] and returns a pointer to the first one. */
static inline const float *dropout_factors(float *buffer, const dropout_key *key, uint32_t sample, uint64_t element,
                                           int64_t n)
{
    const uint64_t first = element >> 3, last = (element + (uint64_t)n + 7) >> 3;
    const vq lane = philox_lanes();
    uint64_t block = first;
    for (; block + 2 * PHILOX_LANES < last; block += PHILOX_CHAINS * PHILOX_LANES)
        philox_run(buffer + 8 * (block - first), PHILOX_CHAINS, lane + block, key, sample);
    if (block + PHILOX_LANES < last) philox_run(buffer + 8 * (block - first), 2, lane + block, key, sample);
    else if (block < last)
        philox_run(buffer + 8 * (block - first), 1, lane + block, key, sample);
    return buffer + (element & 7);
}

/* Returns the lower halves of the lanes of both vectors, in order. */
ALWAYS vq_words philox_join(vq a, vq b)
{
    const vq_words x = (vq_words)a, y = (vq_words)b;
#if PHILOX_LANES == 8
    return __builtin_shufflevector(x, y, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#elif PHILOX_LANES == 4
    return __builtin_shufflevector(x, y, 0, 2, 4, 6, 8, 10, 12, 14);
#else
    return __builtin_shufflevector(x, y, 0, 2, 4, 6);
#endif
}

/* Number of keys per call of dropout_keys. */
#define DROPOUT_KEYS (4 * PHILOX_CHAINS)

/* Computes the factors of keys [key, key + DROPOUT_KEYS) in 2 PHILOX_LANES rows of probabilities, starting with `row`;
 * the rows belong to the given samples. Stores to[key][row], `ld` between keys. key is a multiple of 8. */
ALWAYS void dropout_keys(float *to, int64_t ld, const dropout_key *key, const uint32_t *sample, uint64_t row,
                         uint64_t first)
{
    philox_state s[PHILOX_CHAINS];
#pragma GCC unroll 4
    for (int i = 0; i < PHILOX_CHAINS; i++) {
        vq samples;
        for (int l = 0; l < PHILOX_LANES; l++) samples[l] = sample[i % 2 * PHILOX_LANES + l];
        s[i] = (philox_state){philox_lanes() + (row + (uint64_t)(i % 2 * PHILOX_LANES)),
                              (vq){0} + ((first >> 3) + (uint64_t)(i / 2)), samples, (vq){0} + key->step};
    }
    philox_rounds(s, PHILOX_CHAINS, key);
#pragma GCC unroll 2
    for (int i = 0; i < PHILOX_CHAINS; i += 2) {
        const vq_words word[4] = {philox_join(s[i].c0, s[i + 1].c0), philox_join(s[i].c1, s[i + 1].c1),
                                  philox_join(s[i].c2, s[i + 1].c2), philox_join(s[i].c3, s[i + 1].c3)};
#pragma GCC unroll 4
        for (int w = 0; w < 4; w++) {
            vq_words low, high;
            float *at = to + (4 * i + 2 * w) * ld;
            factors_of_words(word[w], key, &low, &high);
            memcpy(at, &low, sizeof low);
            memcpy(at + ld, &high, sizeof high);
        }
    }
}
