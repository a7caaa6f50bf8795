/* Shared by the attention kernels and their bodies: block sizes and the size of a thread's scratch. */
#ifndef MEGA_CPU_ATTENTION_IMPL_H
#define MEGA_CPU_ATTENTION_IMPL_H

#include "attention_rules.h"
#include "cpu/bodies.h"
#include "megalith/kernels.h"
#include "megalith/threads.h"

/* Number of queries and of keys in a block, and distance of its rows in words. A word is a float or a pair of bf16. The
 * scores of a block, 16 kB of floats, stay in the first level of cache. bench_attention shows it
 * (attention_fp32_of_peak). */
#define MEGA_ATTENTION_BLOCK 64
/* Head sizes are padded with zeros to a multiple of this, as the AMX tile products require. */
#define MEGA_ATTENTION_GRAIN 32

static inline int64_t attention_round(int64_t n, int64_t grain)
{
    return (n + grain - 1) / grain * grain;
}

/* The keys that each query of a block sees, [begin, end); those beyond the sequence see all. first: the first position
 * of the block of keys with the first that is seen; of causal attention it is not after the diagonal, with which the
 * sums of dk and dv start. last: one past the last that is seen. */
typedef struct attention_limits {
    int32_t begin[MEGA_ATTENTION_BLOCK], end[MEGA_ATTENTION_BLOCK];
    int64_t first, last;
    bool is_blind; /* a query sees no key */
} attention_limits;
void attention_limits_of(const mega_attention_args *a, int64_t b, int64_t i0, attention_limits *out);

/* Returns the words of a block of keys (or queries), over the padded head size. */
static inline int64_t attention_block_words(const mega_attention_args *a)
{
    return MEGA_ATTENTION_BLOCK * attention_round(a->head_dim, MEGA_ATTENTION_GRAIN);
}

/* Returns the words of the same block with the head size along the rows, in panels of MEGA_ATTENTION_BLOCK words. */
static inline int64_t attention_panel_words(const mega_attention_args *a)
{
    return MEGA_ATTENTION_BLOCK * attention_round(a->head_dim, MEGA_ATTENTION_BLOCK);
}

/* Returns whether a call uses the plain kernel: for F64, and for scales that are not positive, because the bodies
 * find the largest score before they scale. */
static inline bool attention_is_plain(const mega_attention_args *a)
{
    return a->head.dtype == MEGA_F64 || !(a->scale > 0.0);
}

static inline int64_t attention_query_blocks(const mega_attention_args *a)
{
    return (a->seq + MEGA_ATTENTION_BLOCK - 1) / MEGA_ATTENTION_BLOCK;
}

static inline int64_t attention_key_blocks(const mega_attention_args *a)
{
    return (a->keys + MEGA_ATTENTION_BLOCK - 1) / MEGA_ATTENTION_BLOCK;
}

/* Blocks of queries and of keys of which a query may see a key by the causal mask and the window: those of keys for a
 * block of queries, [attention_first_keys, attention_end_keys), and those of queries for a block of keys. Numbers of
 * blocks. key_begin and key_end may hide some of them. */
static inline int64_t attention_first_keys(const mega_attention_args *a, int64_t queries)
{
    return rules_first_key(&a->rules, queries * MEGA_ATTENTION_BLOCK) / MEGA_ATTENTION_BLOCK;
}

static inline int64_t attention_end_keys(const mega_attention_args *a, int64_t queries)
{
    const int64_t end = (queries + 1) * MEGA_ATTENTION_BLOCK, last = (end < a->seq ? end : a->seq) - 1;
    return attention_round(rules_end_key(&a->rules, a->causal, last, a->keys), MEGA_ATTENTION_BLOCK) /
           MEGA_ATTENTION_BLOCK;
}

static inline int64_t attention_first_queries(const mega_attention_args *a, int64_t keys)
{
    const mega_attention_rules *r = &a->rules;
    if (a->causal) return keys;
    if (!r->has_window || r->window_right < 0) return 0;
    const int64_t first = keys * MEGA_ATTENTION_BLOCK - r->window_right;
    return first > 0 ? first / MEGA_ATTENTION_BLOCK : 0;
}

static inline int64_t attention_end_queries(const mega_attention_args *a, int64_t keys)
{
    const mega_attention_rules *r = &a->rules;
    if (!r->has_window || r->window_left < 0) return attention_query_blocks(a);
    const int64_t end = (keys + 1) * MEGA_ATTENTION_BLOCK, last = (end < a->keys ? end : a->keys) - 1 + r->window_left;
    return (last < a->seq ? last : a->seq - 1) / MEGA_ATTENTION_BLOCK + 1;
}

/* Query heads [attention_first_head, attention_end_head) read key/value head g. */
static inline int64_t attention_first_head(const mega_attention_args *a, int64_t g)
{
    const int64_t first = g * rules_group(&a->rules, a->heads, a->kv_heads) - a->rules.group_begin;
    return first > 0 ? first : 0;
}

static inline int64_t attention_end_head(const mega_attention_args *a, int64_t g)
{
    const int64_t end = (g + 1) * rules_group(&a->rules, a->heads, a->kv_heads) - a->rules.group_begin;
    return end < a->heads ? end : a->heads;
}

/* Returns the words of a line of a number for each difference of a query and a key, with a block of room on both sides:
 * the buckets of biases, which all threads share, and the biases of one head, which each thread has. */
static inline int64_t attention_line_words(const mega_attention_args *a)
{
    return a->bias != NULL ? attention_round(a->seq + a->keys + 2 * MEGA_ATTENTION_BLOCK, 16) : 0;
}

/* Returns where in a line query 0 and key 0 are. */
static inline int64_t attention_line_begin(const mega_attention_args *a)
{
    return MEGA_ATTENTION_BLOCK + a->keys - 1;
}

/* Writes the bucket for each difference; beyond the sequence, that of its ends. */
static inline void attention_fill_buckets(const mega_attention_args *a, int32_t *line)
{
    const int64_t begin = attention_line_begin(a);
    for (int64_t n = 0; n < attention_line_words(a); n++) {
        const int64_t most = n - begin < a->seq ? n - begin : a->seq - 1, least = 1 - a->keys;
        line[n] = (int32_t)rules_bucket(&a->rules, most > least ? most : least, 0);
    }
}

/* Returns the words that threads share for gradients of biases: a sum for each head of each sequence, block of queries
 * and bucket. Each is computed by one thread; their order is fixed when they are added. */
static inline int64_t attention_sums_words(const mega_attention_grad_args *g)
{
    const mega_attention_args *a = &g->forward;
    if (g->dbias == NULL) return 0;
    return attention_round(a->batch * a->heads * attention_query_blocks(a) * a->rules.bias_buckets, 16);
}

/* Returns the words of scratch per thread, as laid out in attention_body.c and attention_grad_body.c. */
static inline int64_t attention_scratch_words(const mega_attention_args *a)
{
    const int64_t pair = MEGA_ATTENTION_BLOCK * MEGA_ATTENTION_BLOCK;
    return 2 * (attention_key_blocks(a) + 1) * attention_block_words(a) + 3 * pair + attention_line_words(a);
}

static inline int64_t attention_grad_scratch_words(const mega_attention_args *a)
{
    const int64_t pair = MEGA_ATTENTION_BLOCK * MEGA_ATTENTION_BLOCK;
    return 3 * (attention_key_blocks(a) + 1) * attention_block_words(a) +
           2 * (attention_key_blocks(a) + 1) * attention_panel_words(a) + (a->rules.softcap > 0.0 ? 7 : 6) * pair +
           attention_line_words(a);
}

/* The rows of a tensor for one head of one sequence. */
typedef struct head_rows {
    const void *x;
    int64_t at, ld, width; /* index of the first element; distance of rows in elements; elements per row */
    mega_dtype type;
} head_rows;

/* Bodies that multiply bf16 in pairs; their arguments are those in cpu_bodies. pack_turned and pack_along transpose
 * operands of products (attention_tile_body.c); both layouts are the same for all that multiply pairs. */
typedef struct attention_pairs {
    void (*attention)(const mega_attention_args *a, int64_t item, int64_t begin, int64_t end, float *scratch);
    void (*attention_grad)(const mega_attention_grad_args *a, int64_t item, const attention_part *part, float *scratch);
    void (*pack_turned)(float *dst, const head_rows *x, int64_t rows, int64_t padded);
    void (*pack_along)(float *dst, const head_rows *x, int64_t rows, int64_t padded);
} attention_pairs;

#if defined(__x86_64__)
extern const attention_pairs mega_attention_dots, mega_attention_amx;
#endif

/* Returns the pair bodies for this type and this processor; NULL if there are none, so that floats are multiplied. */
static inline const attention_pairs *attention_pairs_get(mega_dtype type)
{
#if defined(__x86_64__)
    if (type == MEGA_BF16 && mega_cpu_isa() >= MEGA_ISA_AMX) return &mega_attention_amx;
    if (type == MEGA_BF16 && mega_cpu_isa() >= MEGA_ISA_AVX512_BF16) return &mega_attention_dots;
#endif
    return NULL;
}

#endif
