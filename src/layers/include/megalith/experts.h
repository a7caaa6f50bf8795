/* Layers of experts: a mixture of experts (Shazeer et al. 2017, Fedus et al. 2021) in the place of an MLP.
 *
 * A router chooses for each token some of the experts; each expert computes the tokens that chose it, and a token's
 * result is the sum of the results of its experts, each times its weight. No token is dropped, whatever is chosen, if
 * the options give no capacity:
 *
 *     x [T, C] -> router -> choice, weight [T, k]
 *        |                     |        |
 *        +-> rows by expert [T k, C] -> expert_function -> [T k, C] -> sum over the k of each token [T, C]
 *
 * An expert is cut over tp as an MLP is; all ranks of tp compute all tokens. The conventions are those of layers.h.
 *
 * With expert parallelism each rank of ep holds E / ep of the experts, if there are several. Their rows are sent to
 * them and back in rounds of a fixed size, as many as the worst choices need: those that no rank needs exchange
 * nothing. In MEGA_GENERATE the ranks of ep have the same tokens, so that no row is sent: each rank computes those of
 * its own experts, and the sums are added over ep. */
#ifndef MEGALITH_EXPERTS_H
#define MEGALITH_EXPERTS_H

#include "megalith/layers.h"
#include "megalith/router.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How many choices of a group of tokens an expert computes in MEGA_TRAIN: tokens * choices / experts * factor, rounded
 * up, and not fewer than `least`. The others of those that chose it are dropped: they add nothing to their tokens, and
 * give no gradient. The group is `group` samples of the micro-batch, so that what is dropped does not depend on the
 * layout of the ranks. */
typedef struct mega_expert_capacity {
    double factor; /* 0: all choices are computed */
    int64_t least;
    int64_t group;    /* 0: all samples of the micro-batch, which must consist of whole groups */
    bool by_position; /* the first choices of the group stay; else those with the largest weights (ops_route.h) */
} mega_expert_capacity;

typedef struct mega_moe_options {
    int64_t num_experts;
    mega_router_options router; /* how a token chooses, and the weights of what it chose */
    const char *router_name;    /* NULL: NAME.gate */
    double buffer_factor;       /* over ep: the rows that a rank sends to another in a round, as a multiple of their
                                   number if experts are chosen alike; 0: 1.5 */
    mega_expert_capacity capacity;
} mega_moe_options;

/* The experts of a layer, and which rows each has. */
typedef struct mega_experts mega_experts;

/* Describes what every expert does with its rows, x [R, C] -> [R, C], by the layers below and by those of layers.h that
 * have no parameters. `self` is that of mega_moe. */
typedef mega_tensor mega_expert_function(const mega_builder *b, const mega_experts *experts, mega_tensor x,
                                         const void *self);

/* Linear layers, one for each expert, on the rows of the experts. In `name`, and in the names of files in `options`, #
 * is the number of the expert: "experts.#.up" has the parameters experts.0.up.weight and so on.
 *
 * mega_experts_column_linear shards the output channels over tp, [R, C] -> [R, out/tp], and mega_experts_row_linear the
 * input channels, [R, C/tp] -> [R, out]; what it returns are partial sums over tp, which mega_moe adds: the first rank
 * of tp has the bias in its own. */
mega_tensor mega_experts_column_linear(const mega_builder *b, const mega_experts *experts, const char *name,
                                       mega_tensor x, int64_t out_channels, const mega_linear_options *options);
mega_tensor mega_experts_row_linear(const mega_builder *b, const mega_experts *experts, const char *name, mega_tensor x,
                                    int64_t out_channels, const mega_linear_options *options);

/* x [T, C] -> [T, C]. *out_router, which may be NULL, is for the losses of router.h. */
mega_tensor mega_moe(const mega_builder *b, const char *name, mega_tensor x, const mega_moe_options *options,
                     mega_expert_function *expert, const void *self, mega_router_result *out_router);

/* Returns first * c + second * (1 - c) [T, C], row by row, where (c, 1 - c) is the softmax of two numbers of each row
 * of x [T, K]: those of the linear layers NAME.first and NAME.second, of one output channel. It weights a layer of
 * experts and an MLP beside it in a residual mixture (PR-MoE, Rajbhandari et al. 2022). */
mega_tensor mega_blend(const mega_builder *b, const char *name, mega_tensor x, mega_tensor first, mega_tensor second,
                       const mega_linear_options *options);

#ifdef __cplusplus
}
#endif

#endif
