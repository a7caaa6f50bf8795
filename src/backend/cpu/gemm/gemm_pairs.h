/* Products of bf16 by dot products of pairs: what gemm_pairs.c and its bodies share. Only files compiled for AVX-512
 * with bf16 (isa_avx512_bf16.c) and for AMX (isa_amx.c) have such bodies; mega_cpu_isa() tells which may run. */
#ifndef MEGA_CPU_GEMM_PAIRS_H
#define MEGA_CPU_GEMM_PAIRS_H

#include "megalith/kernels.h"

/* Columns of a panel of b. Panels lie as [pairs of k][PAIRS_COLUMNS][2], in both bodies. */
enum { PAIRS_COLUMNS = 32 };

/* A slice of k of a block of columns. */
typedef struct pairs_block {
    const mega_gemm_args *args;
    uint16_t *packed; /* columns [n, n + columns) of op(b), rows [k, k + depth), zeros after them up to `padded` */
    float *sums;      /* [m, ld_sums] partial sums where c is not float; NULL: one slice of k is all */
    int64_t ld_sums, n, columns, k, depth, padded;
    bool first, last, overwrite; /* slice of k; what c held does not count */
} pairs_block;

/* Of packed b what the next panel will need, asked for at each 32 rows of k: cache lines from `at` on. */
typedef struct pairs_next {
    const uint16_t *at;
    int64_t lines;
} pairs_next;

typedef struct cpu_pairs {
    int rows_of_panel;   /* of a */
    int grain;           /* of k: packed slices are padded to multiples of it */
    int64_t depth;       /* longest slice of k */
    int64_t block_bytes; /* of a packed by a thread; less than its second level of cache */

    /* Around any number of calls of `block`, in the thread that makes them. */
    void (*enter)(void);
    void (*leave)(void);
    /* Panels [begin, end) of the block's columns are packed from op(b). */
    void (*pack_b)(const pairs_block *b, int64_t begin, int64_t end);
    /* Rows [row, row + rows) of c against packed panels [begin, end). pa has room for the rows, rounded up to panels,
     * of the padded slice, and `tiles` for PAIRS_COLUMNS floats for each of them. */
    void (*block)(const pairs_block *b, int64_t row, int64_t rows, int64_t begin, int64_t end, uint16_t *pa,
                  float *tiles);
    /* Dot products in registers alone; returns their number of operations (2 for each product). */
    double (*spin)(int64_t rounds, float *sink);
} cpu_pairs;

#if defined(__x86_64__)
extern const cpu_pairs mega_cpu_pairs_avx512_bf16;
extern const cpu_pairs mega_cpu_pairs_amx;
#endif

/* Of this instruction set; NULL: none. */
const cpu_pairs *mega_cpu_pairs_of(mega_isa isa);

/* Whether this product, of BF16, is done so here; the scratch it then takes, and the product itself. */
bool mega_pairs_can(const mega_gemm_args *a);
size_t mega_pairs_scratch(const mega_gemm_args *a, int threads);
size_t mega_pairs_packed(const mega_gemm_args *a); /* mega_kernel.packed */
void mega_pairs_run(mega_team *team, const mega_gemm_args *a, bool overwrite);

#endif
