/* Experts: which rows each expert computes, the way of rows to the experts and back, and the linear layers of all
 * experts. (The contract of all ops is in ops.h.)
 *
 * T tokens choose k experts each, `choice` [T, k]; choice c = t * k + slot is slot `slot` of token t. The R = T * k
 * rows of the experts are ordered by expert, those of an expert by choice: expert e has rows first[e] to
 * first[e + 1] - 1. A choice that is no expert here (below 0, or not below E) has no row; then the rows from first[E]
 * on belong to no expert, and are zeros in every result of these ops. */
#ifndef MEGALITH_OPS_EXPERTS_H
#define MEGALITH_OPS_EXPERTS_H

#include "megalith/op_types.h"

#define MEGA_KERNELS_EXPERTS(X) \
    X(expert_order)             \
    X(expert_rows)              \
    X(expert_combine)           \
    X(expert_combine_grad)      \
    X(expert_linear)            \
    X(expert_linear_grad_w)

#define MEGA_OPS_EXPERTS(X)                       \
    X(EXPERT_ORDER, expert_order)                 \
    X(EXPERT_ROWS, expert_rows)                   \
    X(EXPERT_ROWS_GRAD, expert_rows_grad)         \
    X(EXPERT_COMBINE, expert_combine)             \
    X(EXPERT_COMBINE_GRAD, expert_combine_grad)   \
    X(EXPERT_LINEAR, expert_linear)               \
    X(EXPERT_LINEAR_GRAD_X, expert_linear_grad_x) \
    X(EXPERT_LINEAR_GRAD_W, expert_linear_grad_w)

/* place[c]: the row of choice c, -1: none. source[r]: the choice of row r, -1: none. first[e]: the first row of expert
 * e; first[E]: how many rows have a choice.
 *   choice, place, source [choices]; first [experts + 1] */
typedef struct mega_expert_order_args {
    mega_kernel_head head;
    int32_t *place, *source, *first;
    const int32_t *choice;
    int64_t choices, experts;
} mega_expert_order_args;

/* y[r] = x[source[r] / slots], or zeros. y [rows, C]; x [rows / slots, C] */
typedef struct mega_expert_rows_args {
    mega_kernel_head head;
    void *y;
    const void *x;
    const int32_t *source;
    int64_t rows, cols, slots;
} mega_expert_rows_args;

/* out[t] = sum over the slots s, in their order, of weight[t, s] y[place[t, s]]; without weight each counts once.
 *   out [T, C]; y [T * slots, C]; weight [T, slots] acc; place [T, slots] */
typedef struct mega_expert_combine_args {
    mega_kernel_head head;
    void *out;
    const void *y, *weight /* or NULL */;
    const int32_t *place;
    int64_t rows, cols, slots; /* rows: T */
} mega_expert_combine_args;

/* dy[place[c]] = weight[c] dout[t], dweight[c] = the dot product of dout[t] and y[place[c]], for each choice c of token
 * t; zeros where there is none.
 *   dy, y [choices, C]; dout [choices / slots, C]; weight, dweight [choices] acc; place, source [choices] */
typedef struct mega_expert_combine_grad_args {
    mega_kernel_head head;
    void *dy, *dweight;
    const void *dout, *y, *weight;
    const int32_t *place, *source;
    int64_t choices, cols, slots;
} mega_expert_combine_grad_args;

/* y[r] = x[r] weight[e]' (+ bias[e]) for the rows r of each expert e: the product that `gemm` makes of the rows of one
 * expert, bit by bit.
 *   x [rows, in]; y [rows, out]; bias [experts, out]; weight [experts, out, in], or [experts, in, out] with `turned`,
 *   as in the gradient of x */
typedef struct mega_expert_linear_args {
    mega_kernel_head head;
    void *y;
    const void *x, *weight, *bias /* or NULL */;
    const int32_t *first;
    int64_t rows, in, out, experts;
    bool turned;
} mega_expert_linear_args;

/* dweight[e] (+)= dy' x, dbias[e] += the sum of dy, over the rows of each expert e. An expert without rows has zeros.
 *   dweight [experts, out, in] acc; dbias [experts, out] acc, or NULL; dy [rows, out]; x [rows, in] */
typedef struct mega_expert_linear_grad_w_args {
    mega_kernel_head head;
    void *dweight, *dbias /* or NULL */;
    const void *dy, *x;
    const int32_t *first;
    int64_t rows, in, out, experts;
    bool accumulate, first_in_step; /* as those of gemm */
} mega_expert_linear_grad_w_args;

/* Where the rows of experts are, from the choices [T, k] i32: place [T, k], source [T * k] and first [E + 1], all
 * i32. */
typedef struct mega_expert_places {
    mega_tensor place, source, first;
} mega_expert_places;

mega_expert_places mega_op_expert_order(mega_graph *g, mega_tensor choice, int64_t experts);

/* Returns the rows of x [T, C] in the order of the experts, [T * k, C]: a row for each choice. */
mega_tensor mega_op_expert_rows(mega_graph *g, mega_tensor x, const mega_expert_places *at);

/* The linear layers of all experts as one op: x [T * k, in] → [T * k, out]. weight [E * out, in]: the weights [out, in]
 * of one expert after the other; bias [E, out] or none. */
mega_tensor mega_op_expert_linear(mega_graph *g, mega_tensor x, mega_tensor weight, mega_tensor bias,
                                  const mega_expert_places *at);

/* Returns the sums of the rows of each token's choices, y [T * k, C], times their weights [T, k] acc: [T, C]. */
mega_tensor mega_op_expert_combine(mega_graph *g, mega_tensor y, mega_tensor weight, const mega_expert_places *at);

#endif
