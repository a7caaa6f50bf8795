/* Ops on rows: embedding, means of rows, selection of rows. (The contract of all ops is in ops.h.) */
#ifndef MEGALITH_OPS_ROWS_H
#define MEGALITH_OPS_ROWS_H

#include "megalith/op_types.h"

#define MEGA_KERNELS_ROWS(X) \
    X(embedding)             \
    X(embedding_grad)        \
    X(mean_rows)             \
    X(mean_rows_grad)        \
    X(first_rows)            \
    X(first_rows_grad)       \
    X(row_sum)               \
    X(row_sum_grad)

#define MEGA_OPS_ROWS(X)                \
    X(EMBEDDING, embedding)             \
    X(EMBEDDING_GRAD, embedding_grad)   \
    X(TAKE_ROWS, take_rows)             \
    X(MEAN_ROWS, mean_rows)             \
    X(MEAN_ROWS_GRAD, mean_rows_grad)   \
    X(FIRST_ROWS, first_rows)           \
    X(FIRST_ROWS_GRAD, first_rows_grad) \
    X(ROW_SUM, row_sum)                 \
    X(ROW_SUM_GRAD, row_sum_grad)

/* y[t] = table[ids[t] - begin] (+ addend[t]). Rows whose id is outside [begin, begin+V) get zeros from the table.
 * Without ids, row t has id t.
 *   y, addend [T, C]; table [V, C]; ids [T] */
typedef struct mega_embedding_args {
    mega_kernel_head head;
    void *y;
    const int32_t *ids /* or NULL */;
    const void *table, *addend /* or NULL */;
    int64_t rows, cols, begin, table_rows;
} mega_embedding_args;

/* dtable[ids[t] - begin] += dy[t], in the order of t. dtable [V, C] acc */
typedef struct mega_embedding_grad_args {
    mega_kernel_head head;
    void *dtable;
    const int32_t *ids;
    const void *dy;
    int64_t rows, cols, begin, table_rows;
} mega_embedding_grad_args;

mega_tensor mega_op_embedding(mega_graph *g, mega_tensor ids, mega_tensor table, mega_tensor addend, int64_t begin);

/* Means of groups of consecutive rows: y[i] = mean of x[i * group] … x[i * group + group - 1].
 *   x [rows * group, C]; y [rows, C] */
typedef struct mega_mean_rows_args {
    mega_kernel_head head;
    void *y;
    const void *x;
    int64_t rows, group, cols;
} mega_mean_rows_args;

/* dx[t] = dy[t / group] / group. dx [rows * group, C]; dy [rows, C] */
typedef struct mega_mean_rows_grad_args {
    mega_kernel_head head;
    void *dx;
    const void *dy;
    int64_t rows, group, cols;
} mega_mean_rows_grad_args;

/* Returns the means of groups of `group` consecutive rows, such as the positions of each sample: [n * group, C] → [n,
 * C]. */
mega_tensor mega_op_mean_rows(mega_graph *g, mega_tensor x, int64_t group);

/* First rows of groups of consecutive rows: y[i] = x[i * group]. x [rows * group, C]; y [rows, C] */
typedef mega_mean_rows_args mega_first_rows_args;

/* dx[i * group] = dy[i], and 0 in the other rows. dx [rows * group, C]; dy [rows, C] */
typedef mega_mean_rows_grad_args mega_first_rows_grad_args;

/* Returns the first of each group of `group` consecutive rows, such as the first position of each sample: [n * group,
 * C] → [n, C]. */
mega_tensor mega_op_first_rows(mega_graph *g, mega_tensor x, int64_t group);

/* sum[t] = sum of x[t, c] over the channels. x [rows, C]; sum [rows] acc */
typedef struct mega_row_sum_args {
    mega_kernel_head head;
    void *sum;
    const void *x;
    int64_t rows, cols;
    mega_dtype x_dtype; /* head.dtype or its acc */
} mega_row_sum_args;

/* dx[t, c] = dsum[t]. dx [rows, C]; dsum [rows] acc */
typedef struct mega_row_sum_grad_args {
    mega_kernel_head head;
    void *dx;
    const void *dsum;
    int64_t rows, cols;
    mega_dtype x_dtype;
} mega_row_sum_grad_args;

/* Returns the sum over the channels of each row: [T, C] → [T] acc. */
mega_tensor mega_op_row_sum(mega_graph *g, mega_tensor x);

/* Returns [n, C]: row i is row rows[i] of x. Used in generation, where only the last rows need logits. */
mega_tensor mega_op_take_rows(mega_graph *g, mega_tensor x, mega_tensor rows);
/* Returns a view of `count` consecutive rows of t. The gradient of t is the view's gradient, and zero in the other
 * rows. */
mega_tensor mega_op_rows(mega_graph *g, mega_tensor t, int64_t begin, int64_t count);
/* Returns a view of x, [T, C] or [T], as [T * C / channels, channels]: the same elements in the same order. The
 * gradient is a view too. */
mega_tensor mega_op_reshape(mega_graph *g, mega_tensor x, int64_t channels);

#endif
