/* A graph: a list of tensors in execution order, which a model function writes with ops (ops.h). It has static shapes
 * and no control flow. It is compiled into a program (program.h) by describe → differentiate → recompute → fuse →
 * schedule → place → begin → plan. */
#ifndef MEGALITH_GRAPH_H
#define MEGALITH_GRAPH_H

#include "megalith/comm.h"
#include "megalith/memory.h"
#include "megalith/ops.h"
#include "megalith/parameter.h"
#include "megalith/status.h"

/* dtype is that of activations and weights: F32, BF16, F16 or F64. Errors while describing are kept in the graph and
 * returned by mega_graph_status, so that a model function reads like formulas. params is borrowed; it may be empty,
 * because describing declares parameters (mega_builder_param), and its parameters need not be placed until
 * mega_program_build. */
mega_status mega_graph_create(mega_dtype dtype, mega_params *params, const mega_layout *layout, mega_graph **out);
void mega_graph_destroy(mega_graph *g);
mega_status mega_graph_status(const mega_graph *g);
/* Records an error that a layer found itself: mega_graph_fail(g, MEGA_FAIL(…)). The graph keeps the first error. */
void mega_graph_fail(mega_graph *g, mega_status st);
mega_dtype mega_graph_dtype(const mega_graph *g);          /* dtype passed to create */
mega_params *mega_graph_params(const mega_graph *g);       /* list passed to create */
const mega_layout *mega_graph_layout(const mega_graph *g); /* layout passed to create */

/* Enters a scope: until mega_scope_leave, names that are declared get the prefix "h.3". Nested scopes together have
 * fewer than MEGA_GRAPH_SCOPE characters. */
#define MEGA_GRAPH_SCOPE 256
typedef struct mega_scope {
    size_t length;
} mega_scope;
mega_scope mega_scope_enter(mega_graph *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void mega_scope_leave(mega_graph *g, mega_scope scope);

/* Input: the caller fills it before a run (mega_program_tensor). Output: the caller reads it after a run. */
mega_tensor mega_graph_input(mega_graph *g, const char *name, mega_dtype dtype, int num_dims, const int64_t *dim);
/* Sets which label of an input of labels, or of a view of one, counts for no row; without it MEGA_IGNORED_LABEL. */
enum { MEGA_IGNORED_LABEL = -100 };
void mega_graph_ignore(mega_graph *g, mega_tensor labels, int32_t label);
void mega_graph_output(mega_graph *g, mega_tensor t, const char *name);
/* Returns a tensor that keeps its content between runs (key/value caches). The scope is a prefix of its name:
 * "h.3.k_cache". */
mega_tensor mega_graph_state(mega_graph *g, const char *name, mega_dtype dtype, int num_dims, const int64_t *dim);
/* Copies x into a state of its shape; without a gradient. */
void mega_op_keep(mega_graph *g, mega_tensor x, mega_tensor state);
mega_tensor mega_graph_param(mega_graph *g, int param); /* the weight of a declared parameter */
/* Implements mega_loss_add of builder.h; models call that. */
void mega_graph_loss(mega_graph *g, const char *name, mega_loss loss, double coefficient);
/* Makes the gradient of t an input called `name`, which the caller fills before each backward (a pipeline stage; a
 * test). Differentiation also starts from t. */
void mega_graph_seed_gradient(mega_graph *g, mega_tensor t, const char *name);
/* Makes the gradient of a float input an output called `name` of the backward program. */
void mega_graph_want_gradient(mega_graph *g, mega_tensor input, const char *name);
/* Sequence parallelism (Korthikanti et al. 2022): between layers whose weights are sharded over tp, each tp rank has
 * T/tp consecutive rows, on which norms, dropout and residuals work. Has no effect if tp has one rank. Call it before
 * the first layer. */
void mega_graph_set_sequence_parallel(mega_graph *g, bool on);
bool mega_graph_is_sequence_parallel(const mega_graph *g); /* false if tp has one rank */
int mega_graph_dim_count(const mega_graph *g, mega_tensor t);
int64_t mega_graph_dim(const mega_graph *g, mega_tensor t, int dim); /* 0 if t has no such dimension */

/* Marks the ops described between begin and end as one recompute region: only its inputs are saved, and its ops are
 * cloned into the backward. */
void mega_graph_region_begin(mega_graph *g);
void mega_graph_region_end(mega_graph *g);
bool mega_graph_region_is_open(const mega_graph *g);
/* Saves the inputs of all regions, which are replicated over the axis, as shards: each rank keeps its share of their
 * rows, and the backward gathers them again. Inputs of the graph, and tensors that ops outside the region also read in
 * the backward, stay whole. */
void mega_recompute_distribute(mega_graph *g, const mega_axis *axis);

/* Collectives with gradient rules; with one rank they return x. copy: identity forward, all-reduce backward ("f" of the
 * Megatron paper); reduce: all-reduce forward, identity backward ("g"). */
mega_tensor mega_op_copy_to_group(mega_graph *g, mega_tensor x, const mega_axis *axis);
mega_tensor mega_op_reduce_from_group(mega_graph *g, mega_tensor x, const mega_axis *axis);
/* x, which is the same on all ranks, where their gradients are added up later: each gets its part of the gradient. */
mega_tensor mega_op_mean_over_group(mega_graph *g, mega_tensor x, const mega_axis *axis);
/* Sequence parallelism: each rank holds T/size consecutive rows. gather: all-gather forward, [T/size, C] → [T, C], and
 * reduce-scatter backward, because each rank computes a partial sum of the gradient. scatter: reduce-scatter of partial
 * sums forward, [T, C] → [T/size, C], and all-gather backward. */
mega_tensor mega_op_gather_from_sequence(mega_graph *g, mega_tensor x, const mega_axis *axis);
mega_tensor mega_op_scatter_to_sequence(mega_graph *g, mega_tensor x, const mega_axis *axis);
/* Exchanges blocks of rows, forward and backward: x [size * R, C] holds R rows for each rank of the axis, the result
 * the R rows that each of them holds for this one, in the order of ranks. C and the type are any. needed: none, or an
 * i32 [1], the same on all ranks: where it is 0 nothing is exchanged, and the result is zeros. */
mega_tensor mega_op_all_to_all(mega_graph *g, mega_tensor x, mega_tensor needed, const mega_axis *axis);
/* Gathers where the rows of each expert begin on each rank of the axis (ops_experts.h): first [E + 1] i32 →
 * [size * (E + 1)]. */
mega_tensor mega_op_gather_firsts(mega_graph *g, mega_tensor first, const mega_axis *axis);

/* RMS norm of rows of which each rank of the axis has C channels: x / sqrt(mean of x^2 over the channels of all ranks +
 * eps) * gain, or * (1 + gain); gain [C] of this rank, or mega_none(). */
mega_tensor mega_op_rms_norm_over(mega_graph *g, mega_tensor x, mega_tensor gain, const mega_axis *axis, double eps,
                                  bool plus_one);

/* Controls where the place pass inserts collectives over dp (none with one dp rank). mega_params_shard sets what is
 * sharded. */
typedef struct mega_place_options {
    bool overlap_reduce; /* gradients are summed by bucket while the backward runs. ZeRO 2 and 3 always do that; with
                            them, this option lets the sum of a bucket run until the next is complete */
    /* ZeRO 3, in elements */
    int64_t prefetch_elements; /* a bucket of at most this size is gathered while the previous one is used */
    int64_t reuse_elements;    /* a bucket is kept for its next use if at most this many elements are used between */
    int64_t live_elements;     /* no bucket is prefetched or kept if gathered weights would then exceed this size */
} mega_place_options;

#endif
