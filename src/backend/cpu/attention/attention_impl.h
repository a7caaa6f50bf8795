/* What the attention kernels and their bodies agree on: the size of blocks and of a thread's scratch. */
#ifndef MEGA_CPU_ATTENTION_IMPL_H
#define MEGA_CPU_ATTENTION_IMPL_H

#include "cpu/bodies.h"
#include "megalith/kernels.h"
#include "megalith/threads.h"

/* Queries and keys of one block; rows of a block are this many words apart. Floats are words, and so are pairs of bf16.
 */
#define MEGA_ATTENTION_BLOCK 64
/* Head sizes are padded to this, with zeros: what a product of tiles asks for. */
#define MEGA_ATTENTION_GRAIN 32

static inline int64_t attention_round(int64_t n, int64_t grain)
{
    return (n + grain - 1) / grain * grain;
}

/* A block of keys (or of queries) with its head size, as words. */
static inline int64_t attention_block_words(const mega_attention_args *a)
{
    return MEGA_ATTENTION_BLOCK * attention_round(a->head_dim, MEGA_ATTENTION_GRAIN);
}

/* The same where the head size lies along the row: panels of MEGA_ATTENTION_BLOCK words. */
static inline int64_t attention_panel_words(const mega_attention_args *a)
{
    return MEGA_ATTENTION_BLOCK * attention_round(a->head_dim, MEGA_ATTENTION_BLOCK);
}

/* Calls that take the definition: the bodies look for the largest score before they scale it. */
static inline bool attention_is_plain(const mega_attention_args *a)
{
    return a->head.dtype == MEGA_F64 || !(a->scale > 0.0);
}

static inline int64_t attention_blocks(const mega_attention_args *a)
{
    return (a->seq + MEGA_ATTENTION_BLOCK - 1) / MEGA_ATTENTION_BLOCK;
}

/* Words that one thread needs, as attention_body.c and attention_grad_body.c lay them out. */
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

/* Bodies that multiply bf16 in pairs; the arguments are those of cpu_bodies. */
typedef struct attention_pairs {
    void (*attention)(const mega_attention_args *a, int64_t item, int64_t begin, int64_t end, float *scratch);
    void (*attention_grad)(const mega_attention_grad_args *a, int64_t item, const attention_part *part, float *scratch);
} attention_pairs;

#if defined(__x86_64__)
extern const attention_pairs mega_attention_dots, mega_attention_amx;
#endif

/* Those for this type and this processor; NULL: none, floats are multiplied. */
static inline const attention_pairs *attention_pairs_get(mega_dtype type)
{
#if defined(__x86_64__)
    if (type == MEGA_BF16 && mega_cpu_isa() >= MEGA_ISA_AMX) return &mega_attention_amx;
    if (type == MEGA_BF16 && mega_cpu_isa() >= MEGA_ISA_AVX512_BF16) return &mega_attention_dots;
#endif
    return NULL;
}

#endif
