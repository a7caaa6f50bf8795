/* The vector loops of this folder, compiled once for each instruction set (isa_*.c) and picked at run time. A body
 * works on a range of rows, columns or elements of one thread; the kernels in cpu/NAME.c share the work out. Types:
 * F32, BF16. */
#ifndef MEGA_CPU_BODIES_H
#define MEGA_CPU_BODIES_H

#include "megalith/kernels.h"

/* One block of k of a product on packed panels (gemm_panels_body.c). */
typedef struct gemm_block {
    const mega_gemm_args *args;
    float *packed; /* rows [panel_k, panel_k + panel_depth) of columns [n, n + columns) of op(b); for gemm_columns of
                      all rows of op(a), block of k by block */
    float *sums;   /* [m, ld_sums] partial sums where c is not float; NULL: one block of k is all */
    int64_t ld_sums, n, columns, panel_k, panel_depth;
    int64_t k, depth;            /* this block's rows of op(b) */
    bool first, last, overwrite; /* of all blocks of k; what c held does not count */
} gemm_block;

/* Rows of k that a block spans: panels of a and b of this depth stay in the first level of cache. */
#define MEGA_GEMM_BLOCK_K 256

/* What is computed of the gradient of one attention item: dk and dv of key blocks [key_begin, key_end) where `keys`, dq
 * of query blocks [query_begin, query_end) where `queries`, from pairs of these blocks alone. */
typedef struct attention_part {
    int64_t key_begin, key_end, query_begin, query_end;
    bool keys, queries;
} attention_part;

typedef struct cpu_bodies {
    void (*add)(const mega_add_args *a, int64_t begin, int64_t end);
    void (*mul)(const mega_mul_args *a, int64_t begin, int64_t end);
    void (*convert)(const mega_convert_args *a, int64_t begin, int64_t end); /* between F32 and BF16 */
    void (*adamw)(const mega_adamw_args *a, int64_t begin, int64_t end);
    void (*sgd)(const mega_sgd_args *a, int64_t begin, int64_t end);
    void (*norm)(const float *x, int64_t n, double out[3]);

    void (*embedding)(const mega_embedding_args *a, int64_t row_begin, int64_t row_end);
    void (*embedding_grad)(const mega_embedding_grad_args *a, int64_t column_begin, int64_t column_end);
    void (*layer_norm)(const mega_layer_norm_args *a, int64_t begin, int64_t end);
    void (*gelu)(const mega_gelu_args *a, int64_t begin, int64_t end);
    void (*activation)(const mega_activation_args *a, int64_t begin, int64_t end);
    void (*activation_grad)(const mega_activation_grad_args *a, int64_t begin, int64_t end);
    void (*dropout_add)(const mega_dropout_add_args *a, int64_t begin, int64_t end);
    void (*xent_max)(const mega_xent_max_args *a, int64_t begin, int64_t end);
    void (*xent_sum)(const mega_xent_sum_args *a, int64_t begin, int64_t end);
    void (*xent_grad)(const mega_xent_grad_args *a, int64_t begin, int64_t end);
    void (*xent)(const mega_xent_args *a, int64_t begin, int64_t end);

    /* Column sums of these rows are written (=) to `partial`, which may be NULL where the caller wants none. */
    void (*column_sum)(const mega_column_sum_args *a, int64_t begin, int64_t end, float *partial);
    void (*gelu_grad)(const mega_gelu_grad_args *a, int64_t begin, int64_t end, float *partial);
    void (*dropout_grad)(const mega_dropout_grad_args *a, int64_t begin, int64_t end, float *partial);
    void (*layer_norm_grad)(const mega_layer_norm_grad_args *a, int64_t begin, int64_t end, float *dgain, float *dbias);
    /* sum[c] += partial[0][c] + partial[1][c] + … for c in [begin, end); rows of `partial` are `ld` apart. */
    void (*fold)(float *sum, const float *partial, int64_t rows, int64_t ld, int64_t begin, int64_t end);

    /* One item is one key/value head of one sequence, with all the query heads that read it; forward: blocks
     * [begin, end) of MEGA_ATTENTION_BLOCK queries of it; backward: a part of it. */
    void (*attention)(const mega_attention_args *a, int64_t item, int64_t begin, int64_t end, float *scratch);
    void (*attention_grad)(const mega_attention_grad_args *a, int64_t item, const attention_part *part, float *scratch);
    void (*attention_cached)(const mega_attention_cached_args *a, int64_t begin, int64_t end, float *scratch);

    /* c = op(a) op(b) for m <= MEGA_GEMV_ROWS, a not transposed, b transposed; columns [begin, end). */
    void (*gemm_rows)(const mega_gemm_args *a, int64_t begin, int64_t end);
    /* Panels [begin, end) of the block's columns are packed from op(b). */
    void (*gemm_pack_b)(const mega_gemm_args *a, float *dst, int64_t n, int64_t columns, int64_t k, int64_t depth,
                        int64_t begin, int64_t end);
    /* Rows [row, row + rows) of c against packed panels [begin, end); pa has room for rows x depth floats. */
    void (*gemm_block)(const gemm_block *b, int64_t row, int64_t rows, int64_t begin, int64_t end, float *pa);
    /* Rows [m, m + rows) of op(a) are packed, rows [k, k + depth) of k; `sums`: they join row_sum too. */
    void (*gemm_pack_a)(const mega_gemm_args *a, float *dst, int64_t m, int64_t rows, int64_t k, int64_t depth,
                        bool sums);
    /* All rows of c, a packed, against panels [begin, end) of op(b); pb has room for one panel. */
    void (*gemm_columns)(const gemm_block *b, int64_t begin, int64_t end, float *pb);
    int gemm_rows_of_panel, gemm_columns_of_panel;

    /* dst[i] = src[i]; dst = the rounded src. */
    void (*widen)(float *dst, const uint16_t *src, int64_t n);
    void (*narrow)(uint16_t *dst, const float *src, int64_t n);

    /* Multiply-adds in registers alone; returns their number of operations (2 for each lane). */
    double (*spin_fma)(int64_t rounds, float *sink);
} cpu_bodies;

/* Few rows: what a decode step of generation has. */
#define MEGA_GEMV_ROWS 4

extern const cpu_bodies mega_cpu_bodies_portable;
extern const cpu_bodies mega_cpu_bodies_avx2;
extern const cpu_bodies mega_cpu_bodies_avx512;
extern const cpu_bodies mega_cpu_bodies_avx512_rounding;

/* The bodies for mega_cpu_isa(). */
const cpu_bodies *mega_cpu_bodies_get(void);

#endif
