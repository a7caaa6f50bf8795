/* Experts: which rows each expert computes, the way of rows to the experts and back, also to those of other ranks, and
 * the linear layers of all experts. (The contract of all ops is in ops.h.)
 *
 * T tokens choose k experts each, `choice` [T, k]; choice c = t * k + slot is slot `slot` of token t. The R = T * k
 * rows of the experts are ordered by expert, those of an expert by choice: expert e has rows first[e] to
 * first[e + 1] - 1. A choice that is no expert here (below 0, or not below E) has no row; then the rows from first[E]
 * on belong to no expert, and are zeros in every result of these ops.
 *
 * With expert parallelism the E experts are divided among `ranks` ranks, E / ranks consecutive ones each. The rows of
 * this order that a rank's experts compute, which follow each other, are sent to it in rounds: `rows` of them in each,
 * or as many as are left. A round thus sends [ranks * rows, C], in the order of ranks, with zeros where a rank has no
 * more of them, whatever the choices are. */
#ifndef MEGALITH_OPS_EXPERTS_H
#define MEGALITH_OPS_EXPERTS_H

#include "megalith/op_types.h"

#define MEGA_KERNELS_EXPERTS(X) \
    X(expert_order)             \
    X(expert_send)              \
    X(expert_received)          \
    X(expert_later)             \
    X(expert_rows)              \
    X(expert_combine)           \
    X(expert_combine_grad)      \
    X(expert_linear)            \
    X(expert_linear_grad_w)

#define MEGA_OPS_EXPERTS(X)                       \
    X(EXPERT_ORDER, expert_order)                 \
    X(EXPERT_SEND, expert_send)                   \
    X(EXPERT_RECEIVED, expert_received)           \
    X(EXPERT_LATER, expert_later)                 \
    X(EXPERT_ROWS, expert_rows)                   \
    X(EXPERT_ROWS_GRAD, expert_rows_grad)         \
    X(EXPERT_COMBINE, expert_combine)             \
    X(EXPERT_COMBINE_GRAD, expert_combine_grad)   \
    X(EXPERT_LINEAR, expert_linear)               \
    X(EXPERT_LINEAR_GRAD_X, expert_linear_grad_x) \
    X(EXPERT_LINEAR_GRAD_W, expert_linear_grad_w)

/* place[c]: the row of choice c, -1: none. source[r]: the choice of row r, -1: none. first[e]: the first row of expert
 * e; first[E]: how many rows have a choice. A choice of expert e is begin + e.
 *   choice, place, source [choices]; first [experts + 1] */
typedef struct mega_expert_order_args {
    mega_kernel_head head;
    int32_t *place, *source, *first;
    const int32_t *choice;
    int64_t choices, experts, begin;
} mega_expert_order_args;

/* The rows that round `round` sends. place[c]: the row of choice c among them, -1: it is in another round, or no
 * expert. source[r]: the choice of row r, -1: none.
 *   place [choices]; source [ranks * rows]; choice, order_place, order_source [choices] and first [experts + 1]: of all
 *   experts */
typedef struct mega_expert_send_args {
    mega_kernel_head head;
    int32_t *place, *source;
    const int32_t *choice, *order_place, *order_source, *first;
    int64_t choices, experts, ranks, rows, round;
} mega_expert_send_args;

/* What round `round` brings: choice[r]: which of this rank's experts computes row r, -1: none, the row is zeros.
 * needed: 1 if this round has rows from any rank for any rank, else 0.
 *   choice [ranks * rows]; needed [1]; first [ranks, experts + 1]: that of each rank */
typedef struct mega_expert_received_args {
    mega_kernel_head head;
    int32_t *choice, *needed;
    const int32_t *first;
    int64_t experts, ranks, rows, round, rank; /* rank: this one */
} mega_expert_received_args;

/* later: how many rounds after the first have rows from any rank for any rank.
 *   later [1] acc; first [ranks, experts + 1]: that of each rank */
typedef struct mega_expert_later_args {
    mega_kernel_head head;
    void *later;
    const int32_t *first;
    int64_t experts, ranks, rows;
} mega_expert_later_args;

/* y[r] = x[source[r] / slots], or zeros. y [rows, C]; x [T, C] */
typedef struct mega_expert_rows_args {
    mega_kernel_head head;
    void *y;
    const void *x;
    const int32_t *source;
    int64_t rows, cols, slots;
} mega_expert_rows_args;

/* out[t] = sum over the slots s, in their order, of weight[t, s] y[place[t, s]]; without weight each counts once.
 *   out [T, C]; y [rows of the experts, C]; weight [T, slots] acc; place [T, slots] */
typedef struct mega_expert_combine_args {
    mega_kernel_head head;
    void *out;
    const void *y, *weight /* or NULL */;
    const int32_t *place;
    int64_t rows, cols, slots; /* rows: T */
} mega_expert_combine_args;

/* dy[place[c]] = weight[c] dout[t], dweight[c] = the dot product of dout[t] and y[place[c]], for each choice c of token
 * t; zeros where there is none.
 *   dy, y [rows, C]; dout [choices / slots, C]; weight, dweight [choices] acc; place [choices]; source [rows] */
typedef struct mega_expert_combine_grad_args {
    mega_kernel_head head;
    void *dy, *dweight;
    const void *dout, *y, *weight;
    const int32_t *place, *source;
    int64_t choices, rows, cols, slots;
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

/* Where the rows of experts are, from the choices [T, k] i32: place [T, k], source [R] and first [E + 1], all i32. R is
 * T * k, or the rows of a round, whose places have no `first`. */
typedef struct mega_expert_places {
    mega_tensor place, source, first;
    int64_t counted; /* rows of experts that a cost counts: all, or of a round as many as even choices have */
} mega_expert_places;

/* The order of the choices of experts `begin` to begin + experts - 1, which are those that the rows are for. */
mega_expert_places mega_op_expert_order(mega_graph *g, mega_tensor choice, int64_t begin, int64_t experts);

/* How rows are sent to the experts of `ranks` ranks, which have the same number of experts each. */
typedef struct mega_expert_rounds {
    int64_t ranks, rank; /* rank: this one */
    int64_t experts;     /* of all ranks */
    int64_t rows;        /* that a rank sends to each rank in a round */
    int64_t count;       /* rounds that send all rows, whatever the choices are */
} mega_expert_rounds;

/* The places of the choices [T, k] among the rows that a round sends, from their order. */
mega_expert_places mega_op_expert_send(mega_graph *g, mega_tensor choice, const mega_expert_places *order,
                                       const mega_expert_rounds *rounds, int64_t round);

/* What a round brings: the choice of each row [ranks * rows, 1], one of this rank's experts or -1, and whether any rank
 * sends rows in this round: needed [1]. firsts: the `first` of each rank, [ranks * (E + 1)]. */
typedef struct mega_expert_received_result {
    mega_tensor choice, needed;
} mega_expert_received_result;
mega_expert_received_result mega_op_expert_received(mega_graph *g, mega_tensor firsts, const mega_expert_rounds *rounds,
                                                    int64_t round);

/* How many rounds after the first are needed, [1] acc: a metric, without a gradient. */
mega_tensor mega_op_expert_later(mega_graph *g, mega_tensor firsts, const mega_expert_rounds *rounds);

/* Returns the rows of x [T, C] in the order of the experts, [R, C]: a row for each choice. */
mega_tensor mega_op_expert_rows(mega_graph *g, mega_tensor x, const mega_expert_places *at);

/* The linear layers of all experts as one op: x [R, in] → [R, out]. weight [E * out, in]: the weights [out, in]
 * of one expert after the other; bias [E, out] or none. `rank` is 0 but where the results are partial sums: the rank in
 * their group, whose first alone adds the bias and computes its gradient. */
mega_tensor mega_op_expert_linear(mega_graph *g, mega_tensor x, mega_tensor weight, mega_tensor bias, int rank,
                                  const mega_expert_places *at);

/* Returns the sums of the rows of each token's choices, y [R, C], times their weights [T, k] acc, or without weights if
 * there are none: [T, C]. */
mega_tensor mega_op_expert_combine(mega_graph *g, mega_tensor y, mega_tensor weight, const mega_expert_places *at);

#endif
