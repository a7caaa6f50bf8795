/* What the files of this room share: tensors, instructions, the op table's row, and the passes' entry points.
 *
 * A graph holds two arrays that only grow: tensors (id 0 is none) and instructions in execution order, the forward ones
 * first. Values are written once; only gradients of parameters (+=) and states are written again. Passes may rewrite
 * the array of instructions; a tensor keeps its id for ever. */
#ifndef MEGA_GRAPH_IMPL_H
#define MEGA_GRAPH_IMPL_H

#include "megalith/extent.h"
#include "megalith/graph.h"
#include "megalith/kernels.h"
#include "op_operands.h"

#define OP_MAX_IN      6
#define OP_MAX_OUT     3
#define GRAPH_MAX_DIMS 4

typedef struct tensor_shape {
    mega_dtype dtype;
    int num_dims;
    int64_t dim[GRAPH_MAX_DIMS];
} tensor_shape;

typedef enum tensor_role {
    ROLE_VALUE = 0, /* written once by an instruction */
    ROLE_INPUT,     /* filled by the caller before a run */
    ROLE_STATE,     /* keeps its content between runs */
    ROLE_WEIGHT,    /* a parameter, compute dtype */
    ROLE_GRADIENT,  /* a parameter's gradient, acc dtype, added to */
    ROLE_VIEW       /* consecutive elements of another tensor */
} tensor_role;

typedef enum tensor_area {
    AREA_NONE = 0, /* parameters and gradients live elsewhere; views where their base does */
    AREA_SCRATCH,  /* dead before the phase (forward or backward) ends */
    AREA_SAVED,    /* from forward to backward, once per slot */
    AREA_IO,       /* inputs and outputs, once per slot */
    AREA_PASS,     /* of those, what only passes through: `passes` copies */
    AREA_STATE,    /* once per program */
    NUM_AREAS
} tensor_area;

/* What a value holds for parameters, for the sums of the plan. */
typedef enum bucket_use { HOLDS_NOTHING = 0, HOLDS_GRADIENTS, HOLDS_WEIGHTS } bucket_use;

typedef struct graph_tensor {
    const char *name;
    tensor_shape shape;
    tensor_role role;
    bool is_output;  /* kept for the caller until the next run */
    int param;       /* ROLE_WEIGHT, ROLE_GRADIENT */
    int32_t base;    /* ROLE_VIEW: the tensor it is a part of, itself no view. ROLE_WEIGHT, ROLE_GRADIENT: the
                        bucket that holds it for a while, a ROLE_VALUE; 0: it lies among the parameters' buffers */
    int64_t offset;  /* elements from the base's first */
    int32_t rows_of; /* ROLE_VIEW (ops_view.c): the tensor that it shows in part or in another shape, itself no such
                        view, which gets its gradient; else 0 */
    bucket_use holds;
    int32_t gradient;    /* differentiate: its gradient so far, 0: none */
    bool needs_gradient; /* differentiate: it depends on a parameter or a wanted input */
    bool is_begun;       /* ROLE_GRADIENT, begin: the first instruction of a step that adds to it overwrites it */
    int64_t below;       /* ROLE_INPUT, i32: values are 0 … below - 1; 0: any */
    tensor_area area;    /* plan */
    size_t at;           /* plan: bytes from the start of its area */
    int32_t shared_with; /* ROLE_STATE: the tensor of the program whose states are shared, 0: its own */
    int cut[2];          /* print: how many ranks cut its rows and its columns, 0: none */
} graph_tensor;

/* Every op: those of models (ops.h), a caller's own (mega_custom), and those that layers of ranks, gradients and passes
 * write. */
#define MEGA_OP_LIST(X)               \
    MEGA_OPS(X)                       \
    X(CUSTOM, custom)                 \
    X(CUSTOM_GRAD, custom_grad)       \
    X(ROWS_GRAD, rows_grad)           \
    X(ACCUMULATE, accumulate)         \
    X(COPY_TO_GROUP, copy_to_group)   \
    X(ALL_REDUCE, all_reduce)         \
    X(ALL_GATHER, all_gather)         \
    X(REDUCE_SCATTER, reduce_scatter) \
    X(OWN_ROWS, own_rows)             \
    X(GRADS_BEGIN, grads_begin)       \
    X(GRADS_REDUCE, grads_reduce)     \
    X(GRADS_REDUCED, grads_reduced)   \
    X(WEIGHTS_GATHER, weights_gather) \
    X(WEIGHTS_GATHERED, weights_gathered)

#define MEGA_OP_ENUM(upper, lower) OP_##upper,
typedef enum op_kind { OP_NONE = 0, MEGA_OP_LIST(MEGA_OP_ENUM) OP_COUNT } op_kind;
#undef MEGA_OP_ENUM

/* Run by comm/: every rank of the axis begins these in the same order. */
static inline bool mega_op_is_collective(op_kind kind)
{
    return kind == OP_ALL_REDUCE || kind == OP_ALL_GATHER || kind == OP_REDUCE_SCATTER;
}

/* Whole buckets of parameters, over dp (bucket.c). */
static inline bool mega_op_is_bucket(op_kind kind)
{
    return kind >= OP_GRADS_BEGIN && kind <= OP_WEIGHTS_GATHERED;
}

/* Constants of one instruction; each op reads its own. */
typedef struct op_attr {
    double eps, p; /* p: of dropout; batch_norm: momentum of the running statistics */
    double factor; /* scale; cross-entropy, loss_seed: the coefficient of the loss */
    uint32_t site;
    bool tanh_form;
    mega_activation_kind activation;
    mega_windows windows; /* convolution, pooling */
    bool wide;            /* linear, row_sum_grad: the result has the acc dtype */
    bool begins;          /* linear_grad_w: the first to write this gradient in a step; then it need not be zeroed */
    bool anew;            /* linear_grad_w: the first to write this gradient in every micro-batch */
    int bucket;           /* of parameters */
    int64_t begin; /* embedding, cross-entropy: first id held here; rows_grad: first row; accumulate: first element */
    int64_t valid; /* cross-entropy: columns that are real; labelled_sum: classes; row_sum_grad: columns */
    int64_t rows;  /* masked_sum of only ones: how many; rows_grad: of the result */
    int64_t group; /* mean_rows, batch_norm: rows of a group */
    mega_attention_shape attention;
    mega_axis axis;
    mega_reduce reduce;
    const struct mega_custom_op *custom;
    const void *self; /* of a custom op */
    const char *what; /* collective: what for, in reports; else a last step of the name of the result, or NULL */
} op_attr;

typedef struct instruction {
    op_kind kind;
    int32_t in[OP_MAX_IN], out[OP_MAX_OUT]; /* 0 where an optional operand is absent */
    op_attr attr;
    bool backward;   /* belongs to the backward program */
    bool recomputed; /* a clone made by the recompute pass */
    int region;      /* recompute region, 0: none; backward ops carry the region of what they differentiate */
    const char *scope;
    int first_use;                    /* collectives, schedule pass: the instruction that waits for it, -1: none */
    size_t scratch_at, scratch_bytes; /* plan: the kernel's own scratch */
    size_t packed_at, packed_bytes;   /* plan: where its weight is kept packed; 0 bytes: nowhere */
    bool packs;                       /* plan: the first of those that share this place, which fills it */
} instruction;

typedef struct op_cost {
    double flops, bytes; /* multiply-add = 2; matrix products alone are counted */
} op_cost;

/* Addresses, for bind. */
typedef struct op_binder {
    const mega_graph *g;
    void *(*address)(const struct op_binder *b, int32_t tensor); /* NULL for tensor 0 */
    const void *user;
    int slot;
} op_binder;

typedef struct op_row {
    const char *name;
    int num_in, num_out;
    /* Bit i stands for operand i. */
    unsigned optional_in, optional_out;
    unsigned accumulates; /* outputs that are added to: gradients of parameters */
    unsigned mutates;     /* inputs that are written: states */
    unsigned overlays;    /* inputs whose memory out[0] may take over when this is their last use */
    /* Fills the shape of every output (absent ones too); says what is wrong with the inputs. */
    mega_status (*shape)(const mega_graph *g, const instruction *op, tensor_shape *out);
    /* Appends the backward of op; NULL: has none. */
    void (*gradient)(mega_graph *g, const instruction *op);
    /* NULL, or appends to the backward program what op needs there whether or not a loss depends on it. */
    void (*always)(mega_graph *g, const instruction *op);
    op_cost (*cost)(const mega_graph *g, const instruction *op); /* NULL: no FLOPs, bytes of all operands */
    void (*bind)(const op_binder *b, const instruction *op, void *args);
    const mega_kernel *plain, *cpu; /* both NULL: a collective */
} op_row;

extern const op_row *const mega_op_table[OP_COUNT];

typedef struct named_tensor {
    const char *name;
    int32_t tensor;
} named_tensor;

typedef struct dropout_site {
    const char *path;
    uint32_t site;
} dropout_site;
/* What mega_loss_add declared. */
typedef struct graph_loss {
    const char *name, *scope;
    double coefficient;
    int32_t sum, weight;
} graph_loss;

/* What mega_output declared. */
typedef struct graph_output {
    const char *name;
    int32_t tensor, gradient; /* gradient: what the caller may give, 0: nothing */
} graph_output;

/* A head that makes its gradients in the forward program, with instructions first_op … end_op - 1. */
typedef struct graph_head {
    int32_t loss_sum, x, dx;
    int first_op, end_op;
    const char *scope;
} graph_head;

/* A layer of a model asked for a parameter. */
typedef struct param_request {
    int layer, param;
} param_request;

struct mega_graph {
    mega_arena arena; /* names */
    mega_dtype dtype, acc;
    mega_params *params;
    const mega_layout *layout;
    graph_tensor *tensor; /* [0] is none */
    int num_tensors;
    int64_t cap_tensors, cap_ops;
    instruction *op;
    int num_ops;
    int num_forward; /* set by differentiate (or build): instructions before it are the forward program */
    named_tensor *named, *seed,
        *wanted; /* what the caller reads and writes; given gradients (by name, or NULL); asked */
    int num_named, num_seeds, num_wanted;
    graph_loss loss[MEGA_METRICS];
    graph_head *head;
    graph_output *output;
    int num_losses, num_heads, num_outputs;
    bool per_token_loss; /* the gradient of a loss is not divided by its weight (mega_program_options) */
    int32_t *weight_tensor, *gradient_tensor; /* by parameter, 0: not used yet */
    int cap_params;                           /* elements of these two */
    int *bucket_ready; /* by bucket, place pass: the last instruction that adds to a gradient in it, -1: none */
    bool *reduces;     /* by bucket, place pass: the program sums its gradients over dp */
    mega_place_options place;
    char scope[MEGA_GRAPH_SCOPE];
    const char *scope_text; /* the scope in the arena, NULL after it changed */
    bool in_backward;       /* what is emitted now belongs to the backward program */
    int region, num_regions;
    bool sequence_parallel;
    dropout_site *dropout; /* that layers of this graph have */
    int num_dropouts;
    bool lists_requests; /* each layer's parameters are noted below, once, in the order of their first requests */
    int layer;           /* of the model, that is described now */
    param_request *request;
    int num_requests;
    mega_axis saved_axis; /* inputs of regions are kept as slices over it; size 0 or 1: whole */
    mega_status status;   /* of describing; the message is kept beside it */
    mega_error_record error;
};

/* graph.c: building blocks of the ops_*.c files. Errors stay in the graph. */
bool mega_graph_reserve_params(mega_graph *g); /* makes room for all declared parameters; false: an error */
int32_t mega_graph_tensor_add(mega_graph *g, const graph_tensor *t);
/* Appends op: makes outputs that are 0 and not optional, checks those that are given. Returns out[0]. */
mega_tensor mega_graph_emit(mega_graph *g, instruction *op);
int32_t mega_graph_gradient_tensor(mega_graph *g, int32_t weight); /* of a ROLE_WEIGHT; 0 and an error for others */
void mega_graph_gradient_add(mega_graph *g, int32_t tensor, int32_t contribution);
/* ops_view.c: the gradient of the tensor that a view shows, out of the view's gradient. */
int32_t mega_graph_view_gradient(mega_graph *g, int32_t view, int32_t gradient);
/* ops_gradient.c: adds a gradient to that of a parameter, from an element of it on. */
void mega_graph_accumulate(mega_graph *g, int32_t weight, int64_t first_element, int32_t gradient);
mega_status mega_graph_name_add(mega_graph *g, named_tensor **list, int *count, const char *name, int32_t tensor);
static inline int32_t mega_graph_root(const mega_graph *g, int32_t t)
{
    return g->tensor[t].base != 0 ? g->tensor[t].base : t;
}
/* Gradient of an output of op, 0 when none arrived. */
static inline int32_t mega_graph_arrived(const mega_graph *g, const instruction *op, int out)
{
    return g->tensor[op->out[out]].gradient;
}

/* loss.c, for the pass that differentiates: checks the losses and gives each head the coefficient and the weight of its
 * loss, or takes the instructions of its gradient out; then, in the backward program, begins with their gradients. */
mega_status mega_losses_settle(mega_graph *g);
mega_status mega_losses_seed(mega_graph *g);
/* output.c, for the same pass: the gradients of outputs, which the caller may give, are seeds. */
mega_status mega_outputs_seed(mega_graph *g);
/* ops_head.c: writes both into the instructions of a head (weight 0: none); removes those of its gradient. */
void mega_head_weigh(mega_graph *g, const graph_head *h, double coefficient, int32_t weight);
void mega_head_drop_gradient(mega_graph *g, const graph_head *h);

/* graph.c: the values of an input, or of a view of one, are indices below `count`, or rows of a weight. */
void mega_graph_limit(mega_graph *g, mega_tensor ids, int64_t count);
void mega_graph_limit_rows(mega_graph *g, mega_tensor ids, mega_tensor table);

/* shape.c */
int64_t mega_shape_count(const tensor_shape *s);
size_t mega_shape_bytes(const tensor_shape *s);
bool mega_shape_equal(const tensor_shape *a, const tensor_shape *b);
/* "[2048, 768] bf16" */
const char *mega_shape_text(char *out, int size, const tensor_shape *s);
tensor_shape mega_shape_1d(mega_dtype dtype, int64_t n);
tensor_shape mega_shape_2d(mega_dtype dtype, int64_t rows, int64_t cols);
/* Checks of one operand in a shape rule: the message names op, scope, operand, what was found and expected. */
mega_status mega_op_expect(const mega_graph *g, const instruction *op, int in, const char *what, tensor_shape expected);
mega_status mega_op_expect_epsilon(const instruction *op); /* its square root, and one over it, are floats */
mega_status mega_op_expect_dims(const mega_graph *g, const instruction *op, int in, const char *what, mega_dtype dtype,
                                int num_dims);
static inline const tensor_shape *mega_op_in(const mega_graph *g, const instruction *op, int in)
{
    return &g->tensor[op->in[in]].shape;
}
/* The type that a float operand should have where both the compute type and acc are taken. */
static inline mega_dtype mega_op_in_float(const mega_graph *g, const instruction *op, int in)
{
    return g->tensor[op->in[in]].shape.dtype == g->acc ? g->acc : g->dtype;
}
static inline int64_t mega_op_in_dim(const mega_graph *g, const instruction *op, int in, int dim)
{
    return g->tensor[op->in[in]].shape.dim[dim];
}

/* builder.c: MEGA_ERR_USAGE unless a name is text (megalith/name.h). what: of what it is the name; path: of its layer.
 */
mega_status mega_graph_check_name(const char *path, const char *what, const char *name);
/* op_hash.c: adds the kind, operands, shapes and attributes of op to a hash that is the same on all ranks that describe
 * the same model. */
uint64_t mega_op_hash(uint64_t hash, const mega_graph *g, const instruction *op);

/* cost.c: mega_op_traffic is a cost without FLOPs, the bytes of every operand once (twice where it is added to). */
op_cost mega_op_traffic(const mega_graph *g, const instruction *op);
op_cost mega_op_cost(const mega_graph *g, const instruction *op);
/* FLOPs that a mask leaves out of that: of causal attention as many again. */
double mega_op_masked_flops(const mega_graph *g, const instruction *op);

/* Passes, in their order. Each leaves a graph that mega_graph_verify accepts. */
mega_status mega_pass_differentiate(mega_graph *g);
void mega_graph_mark_needed(mega_graph *g); /* sets needs_gradient of every tensor */
void mega_graph_drop_marks(mega_graph *g);  /* removes what only differentiate reads (copy_to_group) */
void mega_graph_compact(mega_graph *g);     /* removes instructions of kind OP_NONE */
mega_status mega_pass_recompute(mega_graph *g);
mega_status mega_pass_place(mega_graph *g);
mega_status mega_pass_fuse(mega_graph *g);
mega_status mega_pass_schedule(mega_graph *g);
mega_status mega_pass_begin(mega_graph *g);
/* after: the pass that just ran, named in the message. */
mega_status mega_graph_verify(const mega_graph *g, const char *after);

#define MEGA_OP_EXTERN(upper, lower) extern const op_row mega_op_row_##lower;
MEGA_OP_LIST(MEGA_OP_EXTERN)
#undef MEGA_OP_EXTERN

#endif
