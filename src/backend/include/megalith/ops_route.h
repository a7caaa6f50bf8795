/* The router of a mixture of experts: which experts each token chooses and with which weights, the jitter of its input,
 * and its losses and metrics. (The contract of all ops is in ops.h.)
 *
 * Letters: T tokens, E experts, k choices of a token, G groups of tokens. */
#ifndef MEGALITH_OPS_ROUTE_H
#define MEGALITH_OPS_ROUTE_H

#include "megalith/op_types.h"

#define MEGA_KERNELS_ROUTE(X) \
    X(route)                  \
    X(route_grad)             \
    X(route_jitter)           \
    X(route_balance)          \
    X(route_balance_grad)     \
    X(route_z)                \
    X(route_z_grad)           \
    X(route_load)             \
    X(route_count)            \
    X(route_capacity)         \
    X(route_sinkhorn)

#define MEGA_OPS_ROUTE(X)                     \
    X(ROUTE, route)                           \
    X(ROUTE_GRAD, route_grad)                 \
    X(ROUTE_JITTER, route_jitter)             \
    X(ROUTE_BALANCE, route_balance)           \
    X(ROUTE_BALANCE_GRAD, route_balance_grad) \
    X(ROUTE_Z, route_z)                       \
    X(ROUTE_Z_GRAD, route_z_grad)             \
    X(ROUTE_LOAD, route_load)                 \
    X(ROUTE_COUNT, route_count)               \
    X(ROUTE_CAPACITY, route_capacity)         \
    X(ROUTE_SINKHORN, route_sinkhorn)

/* choice[t] are the k experts of token t with the largest keys, in descending order of the keys, and weight[t] their
 * weights, with s = score of options, C = the chosen experts and z = the logits:
 *
 *   SOFTMAX            s = softmax(z) over all experts   weight = scale * s, with `normalized` scale * s / (sum of s
 *   SIGMOID            s = 1 / (1 + e^-z)                over C + epsilon)
 *   SOFTMAX_OF_CHOSEN  s = softmax(z) over all experts   weight = scale * softmax(z) over C
 *   SOFTMAX_OF_NEAR    s = softmax(z) over all experts   weight = scale * softmax(z) over N
 *
 * N is another set for each choice c: c and the experts e that were not chosen before it, as far as
 * z[c] - z[e] <= margin * max(|z[e]|, z[c]) (SparseMixer, Liu et al. 2024, without its random draws). Such a router
 * has no bias and no groups.
 *
 * The key of an expert is its logit, which orders experts as s does; with a bias it is s + bias (of SOFTMAX_OF_CHOSEN
 * z + bias), which decides the choice and nothing else. With `keys` it is what these say, and there are no bias and no
 * groups. Of equal keys that of the lower index is larger.
 *
 * If `groups` is not 0, it is the number of groups of consecutive experts, all of one size, and a token chooses from
 * its `chosen_groups` best groups alone. The score of a group is the sum of its `group_best` largest s + bias: 1 as
 * in DeepSeek-V2, 2 as in DeepSeek-V3, k / chosen_groups as in Megatron-core. Of equal groups the lower index wins.
 *
 * share[t] is what the balance loss averages, and sums to 1: softmax(z) over all experts, of SIGMOID s / (sum of s over
 * all experts + 1e-20). A logit that is not a number is never larger than another; a row of them chooses the first
 * experts, and its weights are not numbers either. */
typedef struct mega_route_args {
    mega_kernel_head head;
    int32_t *choice;    /* [T, k] */
    void *weight;       /* [T, k] acc */
    void *share;        /* [T, E] acc */
    const void *logits; /* [T, E] */
    const void *bias;   /* [E] acc, or NULL */
    const void *keys;   /* [T, E] acc, or NULL */
    int64_t rows, experts;
    mega_dtype logits_dtype; /* head.dtype or its acc */
    mega_route_options options;
} mega_route_args;

/* dlogits, with the choice as a constant; the type is head.dtype whatever that of the logits is, because the gradient
 * of the router's linear layer reads it. */
typedef struct mega_route_grad_args {
    mega_kernel_head head;
    void *dlogits;       /* [T, E] */
    const void *dweight; /* [T, k] acc, or NULL */
    const void *dshare;  /* [T, E] acc, or NULL */
    const void *logits;
    const int32_t *choice;
    int64_t rows, experts;
    mega_dtype logits_dtype;
    mega_route_options options;
} mega_route_grad_args;

/* y = x * (1 + jitter * u), u uniform in (-1, 1), in steps of 2^-15, from the bits that dropout at this site would use
 * (megalith/philox.h). y may be the same memory as x. The gradient is the same function of dy. */
typedef struct mega_route_jitter_args {
    mega_kernel_head head;
    void *y;       /* [T, C] */
    const void *x; /* [T, C] */
    const uint32_t *sample_id;
    const int32_t *seq_position;
    int64_t rows, cols;
    double jitter;
    uint32_t site;
} mega_route_jitter_args;

/* The balance loss of each group of `rows` consecutive tokens (Fedus et al. 2021): loss[g] = E * sum over experts of
 * fraction[g, e] * (mean of share over the tokens), where fraction[g, e] is the part of the first `counted` choices of
 * the tokens that is expert e. It is 1 if both are uniform. */
typedef struct mega_route_balance_args {
    mega_kernel_head head;
    void *loss;            /* [G] acc */
    void *fraction;        /* [G, E] acc */
    const void *share;     /* [G * rows, E] acc */
    const int32_t *choice; /* [G * rows, k] */
    int64_t groups, rows, experts, choices, counted;
} mega_route_balance_args;

/* dshare[t, e] = dloss[g] * E * fraction[g, e] / rows, g = t / rows */
typedef struct mega_route_balance_grad_args {
    mega_kernel_head head;
    void *dshare; /* [G * rows, E] acc */
    const void *dloss, *fraction;
    int64_t groups, rows, experts;
} mega_route_balance_grad_args;

/* loss[t] = (log of the sum over experts of e^logit)^2 (Zoph et al. 2022) */
typedef struct mega_route_z_args {
    mega_kernel_head head;
    void *loss;         /* [T] acc */
    const void *logits; /* [T, E] */
    int64_t rows, experts;
    mega_dtype logits_dtype; /* head.dtype or its acc */
} mega_route_z_args;

/* dlogits[t, e] = 2 * dloss[t] * (log of the sum) * softmax(logits); its type is head.dtype, as that of route_grad. */
typedef struct mega_route_z_grad_args {
    mega_kernel_head head;
    void *dlogits;
    const void *dloss /* [T] acc */, *logits;
    int64_t rows, experts;
    mega_dtype logits_dtype;
} mega_route_z_grad_args;

/* How evenly the experts of each group of tokens are used: `fullest` and `emptiest` are the largest and the smallest
 * fraction times E, entropy is -(sum of fraction * log fraction) / log E. All are 1 if the fractions are equal. */
typedef struct mega_route_load_args {
    mega_kernel_head head;
    void *fullest, *emptiest, *entropy; /* [G] acc */
    const void *fraction;               /* [G, E] acc */
    int64_t groups, experts;
} mega_route_load_args;

/* counts[e] += how many of the choices are expert e: whole numbers, so that sums of them are exact in any order. */
typedef struct mega_route_count_args {
    mega_kernel_head head;
    void *counts;          /* [E] acc */
    const int32_t *choice; /* [T, k] */
    int64_t rows, experts, choices;
} mega_route_count_args;

/* The choices that experts with a capacity compute: in each group of `rows` consecutive tokens an expert keeps at most
 * `capacity` of those that chose it, the ones with the largest weights and of equal ones the earlier; or by position
 * the first ones. kept[c] is choice[c], or -1 if it is dropped; dropped[g] is the part of the choices of group g that
 * is dropped. A weight that is not a number counts as the smallest. The choices are those of `route`. */
typedef struct mega_route_capacity_args {
    mega_kernel_head head;
    int32_t *kept; /* [G * rows, k] */
    void *dropped; /* [G] acc */
    const int32_t *choice;
    const void *weight; /* [G * rows, k] acc */
    int64_t groups, rows, experts, choices, capacity;
    bool by_position;
} mega_route_capacity_args;

/* Keys by which the tokens of a group of `rows` consecutive ones choose all experts about as often, Sinkhorn's
 * iterations as in Megatron-core (Clark et al. 2022): with x = e^min(logit, LARGEST) and all column[e] = 1 at first,
 *
 *   row[t] = 1 / rows / (sum over e of column[e] * x[t, e] + EPSILON)
 *   column[e] = 1 / E / (sum over t of row[t] * x[t, e] + EPSILON)
 *
 * are repeated until the mean of |column[e] - column[e] of the iteration before| is TOLERANCE or less, at most
 * ITERATIONS times; keys = column[e] * x * row[t]. (Megatron-core has neither LARGEST nor ITERATIONS: its floats are
 * infinite above 88.) In a group with a logit that is not a number no key is one. */
#define MEGA_SINKHORN_TOLERANCE 1e-4
#define MEGA_SINKHORN_EPSILON   1e-8
#define MEGA_SINKHORN_LARGEST   80.0
enum { MEGA_SINKHORN_ITERATIONS = 1000 };
typedef struct mega_route_sinkhorn_args {
    mega_kernel_head head;
    void *keys;         /* [G * rows, E] acc */
    const void *logits; /* [G * rows, E] */
    int64_t groups, rows, experts;
    mega_dtype logits_dtype; /* head.dtype or its acc */
} mega_route_sinkhorn_args;

/* Results of mega_op_route and mega_op_route_balance, with the shapes above. The choice, the fractions and what
 * mega_op_route_load and mega_op_route_capacity return have no gradient. */
typedef struct mega_route_result {
    mega_tensor choice, weight, share;
} mega_route_result;
typedef struct mega_route_balance_result {
    mega_tensor loss, fraction;
} mega_route_balance_result;
typedef struct mega_route_load_result {
    mega_tensor fullest, emptiest, entropy;
} mega_route_load_result;

typedef struct mega_route_capacity_result {
    mega_tensor kept, dropped;
} mega_route_capacity_result;

/* Of how many tokens an expert keeps how many; the members are those of mega_route_capacity_args. */
typedef struct mega_route_capacity {
    int64_t rows, experts, capacity;
    bool by_position;
} mega_route_capacity;

/* logits [T, E] of type dtype or acc, such as mega_op_wide_linear returns; bias [E] acc, a tensor that is not trained,
 * or mega_none(). If it is a buffer with a buffer_rate (mega_param_options), the backward program adds the counts of
 * the choices (mega_route_count_args) where a parameter would have its gradient, even if no loss depends on them. */
mega_route_result mega_op_route(mega_graph *g, mega_tensor logits, mega_tensor bias, const mega_route_options *options);
/* The same by keys [T, E] acc, such as mega_op_route_sinkhorn returns, in the place of the logits; they get no
 * gradient. Without groups in the options. */
mega_route_result mega_op_route_by(mega_graph *g, mega_tensor logits, mega_tensor keys,
                                   const mega_route_options *options);
/* Keys [T, E] acc of groups of `group` consecutive tokens, without a gradient. */
mega_tensor mega_op_route_sinkhorn(mega_graph *g, mega_tensor logits, int64_t group);
/* x [T, C]; returns x if jitter is 0. */
mega_tensor mega_op_route_jitter(mega_graph *g, mega_tensor x, double jitter, uint32_t site, mega_tensor sample_id,
                                 mega_tensor seq_position);
/* Groups of `group` consecutive tokens; counted: 1 to k. */
mega_route_balance_result mega_op_route_balance(mega_graph *g, mega_tensor share, mega_tensor choice, int64_t group,
                                                int64_t counted);
mega_tensor mega_op_route_z(mega_graph *g, mega_tensor logits); /* [T] acc */
mega_route_load_result mega_op_route_load(mega_graph *g, mega_tensor fraction);
/* choice and weight of mega_op_route; rows: a divisor of the tokens. A choice that is dropped, -1, is no expert for the
 * ops of ops_experts.h: its row is not computed, and its weight gets the gradient 0. */
mega_route_capacity_result mega_op_route_capacity(mega_graph *g, mega_tensor choice, mega_tensor weight,
                                                  const mega_route_capacity *options);

#endif
