/* The vector loops of this folder ("bodies"). They are compiled once for each instruction set (isa_*.c) and selected at
 * run time. A body computes the range of rows, columns or elements of one thread; the kernels in cpu/NAME.c divide the
 * work among the threads. Types: F32, BF16, F16. */
#ifndef MEGA_CPU_BODIES_H
#define MEGA_CPU_BODIES_H

#include "megalith/kernels.h"

/* One block of k of a GEMM on packed panels (gemm_panels_body.c). */
typedef struct gemm_block {
    const mega_gemm_args *args;
    float *packed; /* rows [panel_k, panel_k + panel_depth) of columns [n, n + columns) of op(b); for gemm_columns,
                      all rows of op(a), one block of k after another */
    float *sums;   /* [m, ld_sums] partial sums if c is not float; NULL if there is only one block of k */
    int64_t ld_sums, n, columns, panel_k, panel_depth;
    int64_t k, depth;            /* rows of op(b) in this block */
    bool first, last, overwrite; /* position among all blocks of k; overwrite: ignore the old c */
} gemm_block;

/* Rows of k in a block: panels of a and b of this depth stay in the first level of cache (bench_kernels, "gemm …"). */
#define MEGA_GEMM_BLOCK_K 256

/* The part of the gradient of one attention item that a thread computes: with `keys`, dk and dv of key blocks
 * [key_begin, key_end); with `queries`, dq of query blocks [query_begin, query_end). Only pairs of these blocks are
 * visited. */
typedef struct attention_part {
    int64_t key_begin, key_end, query_begin, query_end;
    bool keys, queries;
} attention_part;

typedef struct cpu_bodies {
    void (*add)(const mega_add_args *a, int64_t begin, int64_t end);
    void (*mul)(const mega_mul_args *a, int64_t begin, int64_t end);
    void (*convert)(const mega_convert_args *a, int64_t begin, int64_t end); /* between these types */
    void (*adamw)(const mega_adamw_args *a, int64_t begin, int64_t end);
    void (*sgd)(const mega_sgd_args *a, int64_t begin, int64_t end);
    void (*norm)(const float *x, int64_t n, double out[3]);

    void (*embedding)(const mega_embedding_args *a, int64_t row_begin, int64_t row_end);
    void (*embedding_grad)(const mega_embedding_grad_args *a, int64_t column_begin, int64_t column_end);
    void (*layer_norm)(const mega_layer_norm_args *a, int64_t begin, int64_t end);
    void (*gelu)(const mega_gelu_args *a, int64_t begin, int64_t end);
    void (*activation)(const mega_activation_args *a, int64_t begin, int64_t end);
    void (*glu)(const mega_glu_args *a, int64_t begin, int64_t end);
    void (*glu_grad)(const mega_glu_grad_args *a, int64_t begin, int64_t end);
    void (*softcap)(const mega_softcap_args *a, int64_t begin, int64_t end);
    void (*softcap_grad)(const mega_softcap_grad_args *a, int64_t begin, int64_t end);
    void (*activation_grad)(const mega_activation_grad_args *a, int64_t begin, int64_t end);
    void (*dropout_add)(const mega_dropout_add_args *a, int64_t begin, int64_t end);
    void (*xent_max)(const mega_xent_max_args *a, int64_t begin, int64_t end);
    void (*xent_sum)(const mega_xent_sum_args *a, int64_t begin, int64_t end);
    void (*xent_grad)(const mega_xent_grad_args *a, int64_t begin, int64_t end);
    void (*xent)(const mega_xent_args *a, int64_t begin, int64_t end);

    /* Writes (=) the column sums of these rows to `partial`, which may be NULL if they are not wanted. */
    void (*column_sum)(const mega_column_sum_args *a, int64_t begin, int64_t end, float *partial);
    void (*gelu_grad)(const mega_gelu_grad_args *a, int64_t begin, int64_t end, float *partial);
    void (*dropout_grad)(const mega_dropout_grad_args *a, int64_t begin, int64_t end, float *partial);
    void (*layer_norm_grad)(const mega_layer_norm_grad_args *a, int64_t begin, int64_t end, float *dgain, float *dbias);
    /* sum[c] += partial[0][c] + partial[1][c] + … for c in [begin, end); rows of `partial` are `ld` apart. */
    void (*fold)(float *sum, const float *partial, int64_t rows, int64_t ld, int64_t begin, int64_t end);

    /* An item is one key/value head of one sequence, with all the query heads that read it. The forward body computes
     * blocks [begin, end) of MEGA_ATTENTION_BLOCK queries of it, the backward body a part. */
    void (*attention)(const mega_attention_args *a, int64_t item, int64_t begin, int64_t end, float *scratch);
    void (*attention_grad)(const mega_attention_grad_args *a, int64_t item, const attention_part *part, float *scratch);
    void (*attention_cached)(const mega_attention_cached_args *a, int64_t begin, int64_t end, float *scratch);

    /* `cosines` and `sines` are buffers for those of a row, rounded up to 16 floats. */
    void (*rope)(const mega_rope_args *a, int64_t begin, int64_t end, float *cosines, float *sines);

    /* c = op(a) op(b) for m <= MEGA_GEMV_ROWS, a not transposed, b transposed; columns [begin, end). */
    void (*gemm_rows)(const mega_gemm_args *a, int64_t begin, int64_t end);
    /* Packs panels [begin, end) of the block's columns from op(b). */
    void (*gemm_pack_b)(const mega_gemm_args *a, float *dst, int64_t n, int64_t columns, int64_t k, int64_t depth,
                        int64_t begin, int64_t end);
    /* Computes rows [row, row + rows) of c from packed panels [begin, end); pa is a buffer of rows x depth floats. */
    void (*gemm_block)(const gemm_block *b, int64_t row, int64_t rows, int64_t begin, int64_t end, float *pa);
    /* Packs rows [m, m + rows) of op(a), for rows [k, k + depth) of k; with `sums` also adds them to row_sum. */
    void (*gemm_pack_a)(const mega_gemm_args *a, float *dst, int64_t m, int64_t rows, int64_t k, int64_t depth,
                        bool sums);
    /* Computes all rows of c, with a packed, for panels [begin, end) of op(b); pb is a buffer of one panel. */
    void (*gemm_columns)(const gemm_block *b, int64_t begin, int64_t end, float *pb);
    int gemm_rows_of_panel, gemm_columns_of_panel;

    /* Runs multiply-adds in registers only, to measure their speed; returns the number of operations (2 per lane). */
    double (*spin_fma)(int64_t rounds, float *sink);
} cpu_bodies;

/* Maximum number of rows for gemm_rows, which serves decode steps of generation; for more rows the weight is packed
 * (bench_generate measures decoding). */
#define MEGA_GEMV_ROWS 4

extern const cpu_bodies mega_cpu_bodies_portable;
extern const cpu_bodies mega_cpu_bodies_avx2;
extern const cpu_bodies mega_cpu_bodies_avx512;
extern const cpu_bodies mega_cpu_bodies_avx512_rounding;

/* Returns the bodies for mega_cpu_isa(). */
const cpu_bodies *mega_cpu_bodies_get(void);

#endif
