/* GEMM of bf16 by dot products of pairs: shared by gemm_pairs.c and its bodies. Such bodies exist only in files
 * compiled for AVX-512 with bf16 (isa_avx512_bf16.c) and for AMX (isa_amx.c); mega_cpu_isa() tells which of them may
 * run. */
#ifndef MEGA_CPU_GEMM_PAIRS_H
#define MEGA_CPU_GEMM_PAIRS_H

#include "megalith/kernels.h"

/* Columns of a panel of b. In both bodies a panel is laid out as [pairs of k][PAIRS_COLUMNS][2]. */
enum { PAIRS_COLUMNS = 32 };

/* A slice of k for a block of columns. */
typedef struct pairs_block {
    const mega_gemm_args *args;
    uint16_t *packed; /* columns [n, n + columns) of op(b), rows [k, k + depth), then zeros up to `padded` */
    float *sums;      /* [m, ld_sums] partial sums if c is not float; NULL if there is only one slice of k */
    int64_t ld_sums, n, columns, k, depth, padded;
    bool first, last, overwrite; /* position among the slices of k; overwrite: ignore the old c */
} pairs_block;

/* Prefetch of the next panel of packed b: cache lines from `at` on, some of them after every 32 rows of k. */
typedef struct pairs_next {
    const uint16_t *at;
    int64_t lines;
} pairs_next;

typedef struct cpu_pairs {
    int rows_of_panel;   /* rows of a panel of a */
    int grain;           /* packed slices of k are padded to a multiple of this */
    int64_t depth;       /* longest slice of k */
    int64_t block_bytes; /* bytes of a that a thread packs; less than its second level of cache */

    /* Call these around any number of calls of `block`, in the same thread. */
    void (*enter)(void);
    void (*leave)(void);
    /* Packs panels [begin, end) of the block's columns from op(b). */
    void (*pack_b)(const pairs_block *b, int64_t begin, int64_t end);
    /* Computes rows [row, row + rows) of c from packed panels [begin, end). pa is a buffer for the rows, rounded up to
     * panels, of the padded slice; `tiles` is a buffer of PAIRS_COLUMNS floats for each of these rows. */
    void (*block)(const pairs_block *b, int64_t row, int64_t rows, int64_t begin, int64_t end, uint16_t *pa,
                  float *tiles);
    /* Runs dot products in registers only, to measure their speed; returns the number of operations (2 per product). */
    double (*spin)(int64_t rounds, float *sink);
} cpu_pairs;

#if defined(__x86_64__)
extern const cpu_pairs mega_cpu_pairs_avx512_bf16;
extern const cpu_pairs mega_cpu_pairs_amx;
#endif

/* Returns the bodies of this instruction set; NULL if it has none. */
const cpu_pairs *mega_cpu_pairs_of(mega_isa isa);

/* Returns whether this machine computes this BF16 product by pairs; the scratch bytes for it; and the product
 * itself. */
bool mega_pairs_can(const mega_gemm_args *a);
size_t mega_pairs_scratch(const mega_gemm_args *a, int threads);
size_t mega_pairs_scratch_most(const mega_gemm_args *a, int threads); /* mega_gemm_scratch_most */
size_t mega_pairs_packed(const mega_gemm_args *a);                    /* mega_kernel.packed */
void mega_pairs_run(mega_team *team, const mega_gemm_args *a, bool overwrite);

#endif
