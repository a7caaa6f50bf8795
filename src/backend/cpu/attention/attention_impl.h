/* Shared by the attention kernels and their bodies: block sizes and the size of a thread's scratch. */
#ifndef MEGA_CPU_ATTENTION_IMPL_H
#define MEGA_CPU_ATTENTION_IMPL_H

#include "cpu/bodies.h"
#include "megalith/kernels.h"
#include "megalith/threads.h"

/* Number of queries and of keys in a block, and distance of its rows in words. A word is a float or a pair of bf16. */
#define MEGA_ATTENTION_BLOCK 64
/* Head sizes are padded with zeros to a multiple of this, as the AMX tile products require. */
#define MEGA_ATTENTION_GRAIN 32

static inline int64_t attention_round(int64_t n, int64_t grain)
{
    return (n + grain - 1) / grain * grain;
}

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

static inline int64_t attention_blocks(const mega_attention_args *a)
{
    return (a->seq + MEGA_ATTENTION_BLOCK - 1) / MEGA_ATTENTION_BLOCK;
}

/* Returns the words of scratch per thread, as laid out in attention_body.c and attention_grad_body.c. */
static inline int64_t attention_scratch_words(const mega_attention_args *a)
{
    const int64_t pair = MEGA_ATTENTION_BLOCK * MEGA_ATTENTION_BLOCK;
    return 2 * (attention_blocks(a) + 1) * attention_block_words(a) + 3 * pair;
}

static inline int64_t attention_grad_scratch_words(const mega_attention_args *a)
{
    const int64_t pair = MEGA_ATTENTION_BLOCK * MEGA_ATTENTION_BLOCK;
    return 3 * (attention_blocks(a) + 1) * attention_block_words(a) +
           2 * (attention_blocks(a) + 1) * attention_panel_words(a) + 6 * pair;
}

/* Bodies that multiply bf16 in pairs; their arguments are those in cpu_bodies. */
typedef struct attention_pairs {
    void (*attention)(const mega_attention_args *a, int64_t item, int64_t begin, int64_t end, float *scratch);
    void (*attention_grad)(const mega_attention_grad_args *a, int64_t item, const attention_part *part, float *scratch);
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
