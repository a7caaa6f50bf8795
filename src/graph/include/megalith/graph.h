/* A graph: tensors in execution order, as a model function writes them with ops (ops.h). A straight list with static
 * shapes and no control flow. Compiled into a program (program.h) by describe → differentiate → recompute → place →
 * fuse → schedule → plan. */
#ifndef MEGALITH_GRAPH_H
#define MEGALITH_GRAPH_H

#include "megalith/comm.h"
#include "megalith/memory.h"
#include "megalith/ops.h"
#include "megalith/parameter.h"
#include "megalith/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dtype: of activations and weights, F32, BF16 or F64. Errors while describing are kept in the graph and returned by
 * mega_graph_status, so that a model function reads as formulas. params is borrowed; it may be empty, since describing
 * declares parameters (mega_builder_param), and need not be placed before mega_program_build. */
mega_status mega_graph_create(mega_dtype dtype, mega_params *params, const mega_layout *layout, mega_graph **out);
void mega_graph_destroy(mega_graph *g);
mega_status mega_graph_status(const mega_graph *g);
/* Records an error that a layer found itself: mega_graph_fail(g, MEGA_FAIL(…)). The first error stays. */
void mega_graph_fail(mega_graph *g, mega_status st);
mega_dtype mega_graph_dtype(const mega_graph *g);          /* as given to create */
mega_params *mega_graph_params(const mega_graph *g);       /* as given to create */
const mega_layout *mega_graph_layout(const mega_graph *g); /* as given to create */

/* Names: "h.3" is put in front of what is declared until leave. All of them together have fewer than MEGA_GRAPH_SCOPE
 * characters. */
#define MEGA_GRAPH_SCOPE 256
typedef struct mega_scope {
    size_t length;
} mega_scope;
mega_scope mega_scope_enter(mega_graph *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void mega_scope_leave(mega_graph *g, mega_scope scope);

/* Tensors that the caller fills before a run (mega_program_tensor) and reads after it. */
mega_tensor mega_graph_input(mega_graph *g, const char *name, mega_dtype dtype, int num_dims, const int64_t *dim);
void mega_graph_output(mega_graph *g, mega_tensor t, const char *name);
/* Keeps its content between runs (key/value caches). The scope stands in front of its name: "h.3.k_cache". */
mega_tensor mega_graph_state(mega_graph *g, const char *name, mega_dtype dtype, int num_dims, const int64_t *dim);
mega_tensor mega_graph_param(mega_graph *g, int param); /* the weight of a declared parameter */
/* mega_loss_add of builder.h, which models call. */
void mega_graph_loss(mega_graph *g, const char *name, mega_loss loss, double coefficient);
/* Differentiation also starts from gradients that are given: the caller fills the gradient of t as input `name` before
 * each backward (a pipeline stage; a test). */
void mega_graph_seed_gradient(mega_graph *g, mega_tensor t, const char *name);
/* The gradient of a float input, as output `name` of the backward program. */
void mega_graph_want_gradient(mega_graph *g, mega_tensor input, const char *name);
/* Sequence parallelism (Korthikanti et al. 2022): between layers whose weights are sharded over tp, each rank of tp has
 * a slab of T/tp rows, where norms, dropout and residuals work. Without effect where tp has one rank. Set before the
 * first layer. */
void mega_graph_set_sequence_parallel(mega_graph *g, bool on);
bool mega_graph_is_sequence_parallel(const mega_graph *g); /* and tp has several ranks */
int mega_graph_dim_count(const mega_graph *g, mega_tensor t);
int64_t mega_graph_dim(const mega_graph *g, mega_tensor t, int dim); /* 0 where t has no such dimension */

/* Marks what is described between begin and end as one recompute region: only its inputs are saved, its ops are cloned
 * into the backward. */
void mega_recompute_begin(mega_graph *g);
void mega_recompute_end(mega_graph *g);
bool mega_recompute_is_open(const mega_graph *g);
/* The inputs of all regions are whole on every rank of the axis: each keeps its share of their rows and gathers them
 * when they are needed again. Inputs of the graph, and what others read in the backward too, stay whole. */
void mega_recompute_distribute(mega_graph *g, const mega_axis *axis);

/* Collectives with gradient rules; a group of one returns x. copy: identity forward, all-reduce backward ("f" of the
 * Megatron paper); reduce: all-reduce forward, identity backward ("g"). */
mega_tensor mega_op_copy_to_group(mega_graph *g, mega_tensor x, const mega_axis *axis);
mega_tensor mega_op_reduce_from_group(mega_graph *g, mega_tensor x, const mega_axis *axis);
/* Sequence parallelism: each rank holds a slab of T/size consecutive rows. gather: all-gather forward, [T/size, C] →
 * [T, C], reduce-scatter backward (what the ranks make of the whole are summands of its gradient); scatter:
 * reduce-scatter of summands forward, [T, C] → [T/size, C], all-gather backward. */
mega_tensor mega_op_gather_from_sequence(mega_graph *g, mega_tensor x, const mega_axis *axis);
mega_tensor mega_op_scatter_to_sequence(mega_graph *g, mega_tensor x, const mega_axis *axis);

/* Where the place pass lets ranks of dp exchange what (with one of them: nowhere). How parameters are shared out is
 * said by mega_params_shard. */
typedef struct mega_place_options {
    bool overlap_reduce; /* gradients are summed by bucket while the backward runs; with ZeRO 2 and 3 they are in any
                            case, and this leaves the sum of one bucket under way until the next is complete */
    /* ZeRO 3, in elements */
    int64_t prefetch_elements; /* a bucket of up to so many is gathered while the one before is used */
    int64_t reuse_elements;    /* a bucket stays for its next use where up to so many others are used between */
    int64_t live_elements;     /* no bucket is prefetched, or stays, where more than so many would be there */
} mega_place_options;

#ifdef __cplusplus
}
#endif

#endif
