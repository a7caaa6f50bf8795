/* Internal functions of the layers. */
#ifndef MEGALITH_LAYERS_IMPL_H
#define MEGALITH_LAYERS_IMPL_H

#include "megalith/graph.h"
#include "megalith/layers.h"
#include "megalith/router.h"
#include <math.h>

/* A failure of the layer `name` of builder b, whose message begins with the layer's path and name; NULL: it has
 * none. */
#define LAYER_FAIL(code, b, name, ...) \
    LAYER_FAIL_AT(code, (b)->path, (name) != NULL ? (name) : "without a name", __VA_ARGS__, "")
#define LAYER_FAIL_AT(code, path, name, format, ...) \
    MEGA_FAIL(code, "layer \"%s\", %s: " format "%s", path, name, __VA_ARGS__)

/* A number in a message: a NaN without its sign, which means nothing. */
static inline double layer_shown(double number)
{
    return isnan(number) ? fabs(number) : number;
}

/* Declares and returns the parameter NAME.KIND of a layer, such as "fc.weight". */
mega_tensor layer_param(const mega_builder *b, const char *name, const char *kind, int64_t rows, int64_t columns,
                        const mega_param_options *options);

/* Returns the named input with one number for each row of the micro-batch, of all tp ranks. */
mega_tensor layer_row_input(const mega_builder *b, const char *name);

/* Returns of a value with all rows those of this rank: a slab with sequence parallelism, else all. */
mega_tensor layer_own_rows(const mega_builder *b, mega_tensor t);

/* Input of a GEMM with sharded weights: gives every rank all tokens. Each rank computes a partial sum of their
 * gradient. */
mega_tensor layer_to_cut_weights(const mega_builder *b, mega_tensor x);
/* Output of a GEMM with sharded weights: adds the partial sums of the ranks. Each rank gets the sum for all tokens or,
 * with sequence parallelism, for its own tokens. */
mega_tensor layer_from_cut_weights(const mega_builder *b, mega_tensor x);

typedef struct layer_linear {
    mega_tensor weight, bias;
} layer_linear;
/* Declares weight and bias. `weight` describes how the weight is sharded; the bias is sharded like the rows of the
 * weight. `in` and `out` are the channels of the whole model. */
layer_linear layer_request_linear(const mega_builder *b, const char *name, int64_t out, int64_t in,
                                  const mega_param_options *weight, bool no_bias);
/* Gives the bias one part for each row part of the weight. If a part of the weight is in tensor "….weight", that of the
 * bias is in "….bias". */
void layer_copy_parts_to_bias(const mega_builder *b, const char *name, const mega_param_options *weight,
                              mega_param_options *bias, char file[MEGA_PARAM_PARTS][MEGA_PATH]);
mega_tensor layer_add_bias(const mega_builder *b, mega_tensor x, mega_tensor bias); /* bias: mega_none() for none */

/* router.c: the logits of the rows of x. */
mega_tensor layer_router_logits(const mega_builder *b, const char *name, mega_tensor x, int64_t experts,
                                const mega_router_options *options);

/* router.c: sets choice, weight and share of a result from its logits. */
void layer_route(const mega_builder *b, const char *name, const mega_router_options *options, mega_router_result *r);

/* Returns how many of these tokens are of a group of samples; 0, and records an error of the layer, if the micro-batch
 * has no whole groups of them. */
int64_t layer_group_tokens(const mega_builder *b, const char *layer, int64_t group_samples, int64_t tokens);

/* rope.c: returns how many channels of a head are rotated. */
int64_t layer_rope_channels(const mega_rope *rope, int64_t head_dim);

/* Returns whether sequence parallelism is on, so that this rank of tp holds only a slab of the rows. */
bool layer_has_slab(const mega_builder *b);
/* Returns whether this rank has all rows of a sample, which `layer` needs; if not, records MEGA_ERR_UNSUPPORTED. */
bool layer_has_all_rows(const mega_builder *b, const char *layer);

#endif
