/* Kernels of the optimizers other than AdamW and plain SGD, which are in kernels.h and say what a block is. */
#ifndef MEGALITH_OPTIMIZER_KERNELS_H
#define MEGALITH_OPTIMIZER_KERNELS_H

#include "megalith/op_types.h"
#include "megalith/update_block.h"

/* Where a formula's g comes from: nowhere; the gradient times grad_factor; numbers as they are; the gradient times
 * grad_factor, which is the last state, and is replaced. */
enum { MEGA_FORMULA_NONE, MEGA_FORMULA_GRADIENT, MEGA_FORMULA_AS_IS, MEGA_FORMULA_IN_STATE };

/* The formulas of backend/optimizer_formulas.h, each a kernel that takes mega_formula_args: X(name, whether it writes
 * the parameter, states that it reads, and how many of these it writes, the first ones, what g is). */
/* clang-format off */
#define MEGA_FORMULAS(X) \
    X(amsgrad, true, 3, 3, MEGA_FORMULA_GRADIENT) \
    X(one_bit_momentum, false, 1, 1, MEGA_FORMULA_GRADIENT) \
    X(one_bit, true, 2, 1, MEGA_FORMULA_NONE) \
    X(nesterov, true, 1, 1, MEGA_FORMULA_GRADIENT) \
    X(adagrad, true, 1, 1, MEGA_FORMULA_GRADIENT) \
    X(lion, true, 1, 1, MEGA_FORMULA_GRADIENT) \
    X(ademamix, true, 3, 3, MEGA_FORMULA_GRADIENT) \
    X(schedule_free, true, 3, 3, MEGA_FORMULA_GRADIENT) \
    X(lamb_step, true, 2, 0, MEGA_FORMULA_NONE) \
    X(muon_momentum, false, 2, 2, MEGA_FORMULA_IN_STATE) \
    X(muon_step, true, 0, 0, MEGA_FORMULA_AS_IS)
/* clang-format on */

enum { MEGA_FORMULA_STATES = 3, MEGA_FORMULA_NUMBERS = 12 };

/* Elements that an optimizer treats alike: a factor on the learning rate; with has_own_decay their weight decay,
 * otherwise whether that of the step is theirs. */
typedef struct mega_update_group {
    double lr_scale, decay, has_own_decay;
} mega_update_group;

/* Options of optimizers from which numbers of a step follow: X(member of mega_optimizer_options). */
/* clang-format off */
#define MEGA_NUMBERS_OPTIONS(X) \
    X(beta1) X(beta2) X(beta3) X(eps) X(no_bias_correction) X(l2) X(momentum) X(dampening) X(nesterov) X(lr_decay) \
    X(initial_accumulator) X(alpha) X(alpha_steps) X(warmup_steps) X(r) X(weight_lr_power) X(eps_inside_sqrt) \
    X(muon_momentum) X(muon_nesterov)
/* clang-format on */

/* The numbers that a formula takes in the update that the check has counted, for each group: of what this update's
 * kernels are given, this alone and the check's differ from update to update. number [groups][MEGA_FORMULA_NUMBERS];
 * block->carried advances. A refused update leaves both as they are. */
typedef struct mega_numbers_args {
    mega_kernel_head head;
    double *number;
    mega_update_block *block;
    const mega_update_group *group;
    int64_t groups;
    int64_t formula; /* its mega_kernel_id: of MEGA_FORMULAS, adamw or sgd */
    double lr, weight_decay;
#define MEGA_NUMBERS_MEMBER(name) double name;
    MEGA_NUMBERS_OPTIONS(MEGA_NUMBERS_MEMBER)
#undef MEGA_NUMBERS_MEMBER
} mega_numbers_args;

/* Updates elements by themselves, in one sweep. p, state[], g [count] acc; weight [count] head.dtype receives the
 * rounded p, or is NULL. */
typedef struct mega_formula_args {
    mega_kernel_head head;
    void *p, *state[MEGA_FORMULA_STATES], *weight /* or NULL */;
    const void *g;
    int64_t count;
    double grad_factor;
    const double *number;           /* [MEGA_FORMULA_NUMBERS] */
    double times;                   /* by which number[1] is multiplied */
    const double *scale;            /* [1] by which number[0] is multiplied, or NULL */
    const mega_update_block *block; /* or NULL */
} mega_formula_args;

/* The first pass of Lamb, with the numbers of lamb_step: m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2, with g times
 * grad_factor; sums[0] += squares of p, sums[1] += squares of the step u = m / (sqrt(v + inside) + outside) + decay p.
 * The sums are taken in chunks of 16,384 elements, which are added in order. p, m, v, g [count] acc. */
enum { MEGA_LAMB_CHUNK = 16384 };
typedef struct mega_lamb_moments_args {
    mega_kernel_head head;
    double *sums /* [2] or NULL */;
    void *m, *v;
    const void *p, *g;
    int64_t count;
    double grad_factor;
    const double *number;           /* [MEGA_FORMULA_NUMBERS]: 1: inside, 2: outside, 3: decay, 4, 5: b1, b2 */
    const mega_update_block *block; /* or NULL */
} mega_lamb_moments_args;

/* ratio[0] = |p| / |u| from the squares of both, at least `least` and at most `most`; 1 where a norm is 0. */
typedef struct mega_lamb_ratio_args {
    mega_kernel_head head;
    double *ratio;
    const double *squares; /* [2] */
    double least, most;
} mega_lamb_ratio_args;

/* Exchanges a and b [count] of head.dtype. */
typedef struct mega_exchange_args {
    mega_kernel_head head;
    void *a, *b;
    int64_t count;
} mega_exchange_args;

/* y = kept y + added x, in double, and rounded once: the running statistics of a batch norm. x, y [count] acc; weight
 * [count] head.dtype receives the rounded y, or is NULL. */
typedef struct mega_running_args {
    mega_kernel_head head;
    void *y, *weight /* or NULL */;
    const void *x;
    int64_t count;
    double kept, added;
    const mega_update_block *block; /* or NULL */
} mega_running_args;

/* y += rate * sign(mean - x), in double, and rounded once: a bias of the choice of experts (Wang et al. 2024), where x
 * has how often each expert was chosen in a step. x, y [count] acc; weight [count] head.dtype receives the rounded y,
 * or is NULL. */
typedef struct mega_choice_bias_args {
    mega_kernel_head head;
    void *y, *weight /* or NULL */;
    const void *x;
    int64_t count;
    double rate, mean;
    const mega_update_block *block; /* or NULL */
} mega_choice_bias_args;

/* Of |x|: sums[0] += squares, sums[1] += sizes, sums[2] += roots, sums[3] = the largest of it and of all; a NaN stays.
 * Taken in pieces of 16,384 elements, which are added in order. x [count] acc. */
typedef struct mega_state_sums_args {
    mega_kernel_head head;
    double *sums; /* [4] */
    const void *x;
    int64_t count;
} mega_state_sums_args;

/* sum[0] = squares of x, taken in chunks of 16,384 elements, which are added in order. x [count] acc. */
typedef struct mega_matrix_squares_args {
    mega_kernel_head head;
    double *sum; /* [1] */
    const void *x;
    int64_t count;
} mega_matrix_squares_args;

/* y = x / |x|, where squares[0] = |x|^2; a norm below 1e-7 counts as 1e-7. x, y [count] acc. */
typedef struct mega_matrix_scale_args {
    mega_kernel_head head;
    void *y;
    const void *x;
    const double *squares; /* [1] */
    int64_t count;
} mega_matrix_scale_args;

/* Copies the lower half of s [size, size] acc to its upper half. */
typedef struct mega_mirror_args {
    mega_kernel_head head;
    void *s;
    int64_t size;
} mega_mirror_args;

/* s = a I + b x + c s, of which the lower half is known. x, s [size, size] acc, symmetric. */
typedef struct mega_polynomial_args {
    mega_kernel_head head;
    void *s;
    const void *x;
    int64_t size;
    double a, b, c;
} mega_polynomial_args;

/* clang-format off */
#define MEGA_KERNELS_OPTIMIZERS(X) \
    X(amsgrad) X(one_bit_momentum) X(one_bit) X(nesterov) X(adagrad) X(lion) X(ademamix) X(schedule_free) \
    X(lamb_step) X(muon_momentum) X(muon_step) \
    X(numbers) X(lamb_moments) X(lamb_ratio) X(exchange) X(running) X(choice_bias) \
    X(state_sums) X(matrix_squares) X(matrix_scale) X(mirror) X(polynomial)
/* clang-format on */

#endif
