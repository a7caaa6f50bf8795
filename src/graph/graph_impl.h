/* Declarations shared by the files of src/graph: tensors, instructions, rows of the op table, and entry points of the
 * passes.
 *
 * A graph holds an array of tensors (id 0 means none) and an array of instructions in execution order, forward before
 * backward. Each value is written once; only gradients of parameters (+=) and states are written again. Passes may
 * rewrite the array of instructions; a tensor keeps its id forever. */
#ifndef MEGA_GRAPH_IMPL_H
#define MEGA_GRAPH_IMPL_H

#include "megalith/extent.h"
#include "megalith/graph.h"
#include "megalith/kernels.h"
#include "op_operands.h"

#define OP_MAX_IN      10
#define OP_MAX_OUT     4
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
    ROLE_GRADIENT,  /* gradient of a parameter, acc dtype, accumulated */
    ROLE_VIEW       /* consecutive elements of another tensor */
} tensor_role;

typedef enum tensor_area {
    AREA_NONE = 0, /* parameters and gradients are in their own buffers, views in the area of their base */
    AREA_SCRATCH,  /* not alive after the phase (forward or backward) */
    AREA_SAVED,    /* alive from forward to backward, once per slot */
    AREA_IO,       /* inputs and outputs, once per slot */
    AREA_PASS,     /* inputs and outputs that mega_program_options.passes covers: `passes` copies */
    AREA_STATE,    /* once per program */
    NUM_AREAS
} tensor_area;

/* What a value holds for parameters; the plan sums memory by it. */
typedef enum bucket_use { HOLDS_NOTHING = 0, HOLDS_GRADIENTS, HOLDS_WEIGHTS } bucket_use;

typedef struct graph_tensor {
    const char *name;
    tensor_shape shape;
    tensor_role role;
    bool is_output;  /* kept for the caller until the next run */
    int param;       /* ROLE_WEIGHT, ROLE_GRADIENT */
    bool is_joined;  /* ROLE_WEIGHT, ROLE_GRADIENT: of `param` and those that join it */
    int32_t base;    /* ROLE_VIEW: the tensor that it is part of, which is not a view. ROLE_WEIGHT, ROLE_GRADIENT: the
                        ROLE_VALUE that holds it temporarily, alone or with its bucket; 0: it is in the buffers of the
                        parameters */
    int64_t offset;  /* elements from the start of the base */
    int32_t rows_of; /* ROLE_VIEW of ops_view.c: the tensor of which it is a part or a reshape, which receives its
                        gradient and is not such a view itself; else 0 */
    bucket_use holds;
    int32_t gradient;    /* differentiate pass: its gradient so far; 0: none */
    bool needs_gradient; /* differentiate pass: it depends on a parameter or on an input whose gradient is requested */
    bool is_overwritten; /* ROLE_GRADIENT, begin pass: the first instruction of a step that contributes to it overwrites
                            it */
    bool is_scaled;      /* of a root: a gradient that the loss scale multiplies (finite.c) */
    int64_t below;       /* ROLE_INPUT, i32: values are 0 … below - 1; 0: any */
    bool is_of_engine;   /* ROLE_INPUT: the engine fills it, not the data */
    bool is_of_head;     /* the losses that a head computes */
    int64_t classes;     /* i32, labels pass: labels, which are below this number; 0: no labels */
    int32_t weights;     /* of such labels: the input whose zeros exempt rows; 0: none */
    bool leaves_out;     /* of such labels: the host sets `weights` to 0 in rows of the ignored label */
    bool is_checked_by_op; /* of such labels: by an instruction, not by the host */
    bool has_ignored;      /* of such labels: `ignored` counts for no row; else -100 */
    int32_t ignored;
    tensor_area area;    /* plan */
    size_t at;           /* plan: bytes from the start of its area */
    int32_t shared_with; /* ROLE_STATE: the tensor of the other program that it is shared with; 0: not shared */
    int cut[2];          /* print: number of ranks that shard its rows and its columns; 0: not sharded */
} graph_tensor;

/* Every op: those of models (ops.h), custom ops (mega_custom), and those that parallel layers, gradients and passes
 * emit. */
#define MEGA_OP_LIST(X)               \
    MEGA_OPS(X)                       \
    X(CUSTOM, custom)                 \
    X(CUSTOM_GRAD, custom_grad)       \
    X(KEEP, keep)                     \
    X(ROWS_GRAD, rows_grad)           \
    X(ACCUMULATE, accumulate)         \
    X(COPY_TO_GROUP, copy_to_group)   \
    X(ALL_REDUCE, all_reduce)         \
    X(ALL_GATHER, all_gather)         \
    X(REDUCE_SCATTER, reduce_scatter) \
    X(ALL_TO_ALL, all_to_all)         \
    X(OWN_ROWS, own_rows)             \
    X(GRADS_ZERO, grads_zero)         \
    X(REDUCE_START, reduce_start)     \
    X(REDUCE_WAIT, reduce_wait)       \
    X(HELD_GRAD_ZERO, held_grad_zero) \
    X(HELD_GRAD_ADD, held_grad_add)   \
    X(GATHER_START, gather_start)     \
    X(GATHER_WAIT, gather_wait)

#define MEGA_OP_ENUM(upper, lower) OP_##upper,
typedef enum op_kind { OP_NONE = 0, MEGA_OP_LIST(MEGA_OP_ENUM) OP_COUNT } op_kind;
#undef MEGA_OP_ENUM

/* Ops that comm/ runs. Every rank of the axis must start them in the same order. */
static inline bool mega_op_is_collective(op_kind kind)
{
    return kind == OP_ALL_REDUCE || kind == OP_ALL_GATHER || kind == OP_REDUCE_SCATTER || kind == OP_ALL_TO_ALL;
}

/* Ops on whole buckets of parameters, over dp, and on the memory of held gradients (bucket.c). */
static inline bool mega_op_is_bucket(op_kind kind)
{
    return kind >= OP_GRADS_ZERO && kind <= OP_GATHER_WAIT;
}

/* Of these, the ops that exchange nothing: they clear or round memory of this rank. */
static inline bool mega_op_is_local_bucket(op_kind kind)
{
    return kind == OP_GRADS_ZERO || kind == OP_HELD_GRAD_ZERO || kind == OP_HELD_GRAD_ADD;
}

/* Constants of one instruction; each op reads only the members that it needs. */
typedef struct op_attr {
    double eps, p; /* p: dropout probability; batch_norm: momentum of the running statistics */
    double factor; /* scale; softcap: the cap; cross-entropy, loss_seed: the coefficient of the loss */
    uint32_t site;
    bool tanh_form;
    bool plus_one;    /* norms: the factor is 1 + gain */
    bool gate_second; /* glu: the gate is the second half of the columns */
    bool is_limited;  /* glu: has the two below */
    double limit, alpha;
    mega_activation_kind activation;
    mega_windows windows; /* convolution, pooling */
    bool wide;            /* linear, row_sum_grad: the result has the acc dtype */
    bool first_in_step;   /* op_row.overwrites: the first write of this gradient in a step, so that it need not be
                             zeroed */
    bool overwrites;      /* op_row.overwrites: overwrites this gradient in every micro-batch */
    int bucket;           /* number of a bucket of parameters */
    int param;            /* held_grad_zero, held_grad_add: number of a parameter, which is in `bucket` */
    int64_t begin;        /* embedding, cross-entropy: first id on this rank; expert_order: first expert; rows_grad:
                             first row; accumulate: first element */
    int64_t
        valid; /* cross-entropy: columns without padding; labelled_sum, label_weights: classes; row_sum_grad: columns */
    int32_t ignored; /* of labels: the one that counts for no row, which may be a class */
    int64_t rows;  /* masked_sum without a mask: number of rows; rows_grad: rows of the result; expert_linear: rows that
                     its cost counts */
    int64_t group; /* mean_rows, batch_norm, route_balance, route_capacity, route_sinkhorn: rows per group; route_count:
                      experts */
    int64_t experts;      /* expert_order, route_capacity: number of experts */
    int64_t capacity;     /* route_capacity: choices that an expert keeps */
    bool by_position;     /* route_capacity: the first ones, not those with the largest weights */
    int64_t ranks, round; /* expert_send, expert_received: `rows` for each rank, in this round */
    int64_t rank;         /* expert_received: this one; expert_linear: that of tp, of which the first adds the biases */
    mega_attention_shape attention;
    mega_rope_shape rope; /* the graph owns its frequencies */
    mega_head_channels head_channels;
    mega_route_options route; /* route_balance: choices alone, those that count */
    mega_axis axis;
    mega_reduce reduce;
    const struct mega_custom_op *custom;
    const void *self; /* custom op: argument of its functions */
    const char *what; /* collective: its purpose, for reports; else the suffix of the name of the result, or NULL */
} op_attr;

typedef struct instruction {
    op_kind kind;
    int32_t in[OP_MAX_IN], out[OP_MAX_OUT]; /* 0 where an optional operand is absent */
    op_attr attr;
    bool backward;   /* belongs to the backward program */
    bool recomputed; /* a clone made by the recompute pass */
    int region;      /* recompute region, 0: none; a backward op has the region of the op that it differentiates */
    const char *scope;
    int first_use;                    /* collectives, schedule pass: the first instruction that reads the result; -1:
                                         none */
    size_t scratch_at, scratch_bytes; /* plan: scratch memory of the kernel */
    size_t packed_at, packed_bytes;   /* plan: buffer for its packed weight; 0 bytes: none */
    bool fills_packed;                /* plan: the first instruction that uses this buffer, which fills it */
    size_t table_at;                  /* plan: where its table of numbers is (control.c) */
} instruction;

typedef struct op_cost {
    double flops, bytes; /* a multiply-add is 2; only GEMMs and attention count */
} op_cost;

/* Resolves tensors, and the tables of numbers that ops have, to addresses while kernels are bound. */
typedef struct op_binder {
    const mega_graph *g;
    void *(*address)(const struct op_binder *b, int32_t tensor); /* NULL for tensor 0 */
    const void *(*table)(const struct op_binder *b, const instruction *op);
    const void *user;
    int slot;
} op_binder;

/* What a member of a kernel's arguments is: an address, an extent, an attribute. op_members.h has macros for rows. */
typedef struct op_member {
    enum {
        MEMBER_NONE = 0, /* ends a list */
        MEMBER_ADDRESS,
        MEMBER_EXTENT,
        MEMBER_COUNT,
        MEMBER_GROUPS,
        MEMBER_DTYPE,
        MEMBER_ATTR
    } source;
    int operand; /* in[operand], or out[operand - OP_MAX_IN] */
    size_t at;   /* bytes from the start of the arguments */
    size_t from; /* axis of the extent; bytes from the start of the attributes */
    size_t size; /* of the attribute */
} op_member;

typedef struct op_row {
    const char *name;
    int num_in, num_out;
    /* Sets of operands: bit i is operand i. */
    unsigned optional_in, optional_out;
    unsigned accumulates; /* outputs that the op adds to: gradients of parameters */
    unsigned overwrites;  /* of these: outputs that it can overwrite instead (attr.first_in_step, attr.overwrites) */
    unsigned mutates;     /* inputs that the op writes: states */
    unsigned overlays;    /* inputs whose memory out[0] may reuse if this is their last use */
    unsigned infinite;    /* outputs that may be infinite without being wrong (finite.c) */
    unsigned scaled;      /* outputs that the op multiplies by the loss scale (finite.c) */
    bool is_constant;     /* no gradient passes through it, though its inputs may depend on parameters */
    /* Checks the inputs and computes the shape of every output, also of absent ones. */
    mega_status (*shape)(const mega_graph *g, const instruction *op, tensor_shape *out);
    /* Appends the backward of op; NULL: it has none. */
    void (*gradient)(mega_graph *g, const instruction *op);
    /* NULL, or appends instructions that op needs in the backward program even if no loss depends on it. */
    void (*always)(mega_graph *g, const instruction *op);
    op_cost (*cost)(const mega_graph *g, const instruction *op); /* NULL: no FLOPs, and the bytes of all operands */
    const op_member *members;                                    /* what the arguments of the kernel are */
    void (*bind)(const op_binder *b, const instruction *op, void *args); /* NULL, or sets those without such a row */
    mega_kernel_id kernel;   /* MEGA_KERNEL_NONE without host: a collective or an op on a bucket */
    const mega_kernel *host; /* of an op of the caller's own, which the host computes for every backend; or NULL */
} op_row;

/* The beginning of a row: the op's name, how many inputs and outputs it has, the kernel that computes it, or NONE. */
#define OP_ROW(op, inputs, outputs, kernel_) \
    .name = #op, .num_in = (inputs), .num_out = (outputs), .kernel = MEGA_KERNEL_##kernel_

extern const op_row *const mega_op_table[OP_COUNT];
void mega_op_fill(const op_binder *b, const instruction *op, void *args); /* op_members.c: by the row's members */

typedef struct named_tensor {
    const char *name;
    int32_t tensor;
} named_tensor;

typedef struct dropout_site {
    const char *path;
    uint32_t site;
} dropout_site;

/* A loss that mega_loss_add declared, or the sum of what layers added by mega_layer_loss_add. */
typedef struct graph_loss {
    const char *name, *scope;
    double coefficient;
    int32_t sum, weight;
    bool is_of_layers;
} graph_loss;

/* An output that mega_output declared. */
typedef struct graph_output {
    const char *name;
    int32_t tensor, gradient; /* gradient: the input that the caller may fill; 0: none */
} graph_output;

/* A head that computes its gradients in the forward program, in instructions first_op … end_op - 1. */
typedef struct graph_head {
    int32_t loss_sum, x, dx;
    int first_op, end_op;
    const char *scope;
} graph_head;

/* A layer of a model requested a parameter. */
typedef struct param_request {
    int layer, param;
} param_request;

/* Tensors that the caller reads and writes by name; gradients that it gives (name or NULL) and that it requests. */
typedef struct graph_names {
    named_tensor *named, *seed, *wanted;
    int num_named, num_seeds, num_wanted;
} graph_names;

/* What the model computes: losses and metrics, the heads that some of them have, outputs. */
typedef struct graph_results {
    graph_loss loss[MEGA_METRICS];
    graph_head *head;
    graph_output *output;
    int num_losses, num_heads, num_outputs;
    bool per_token_loss; /* do not divide the gradient of a loss by its weight (mega_program_options) */
} graph_results;

/* By parameter: the tensors of its weight and of its gradient; 0: not used yet. */
typedef struct graph_weights {
    int32_t *tensor, *gradient;
    int cap; /* length of both arrays */
} graph_weights;

/* By bucket, made by the place pass: the last instruction that adds to one of its gradients (-1: none), and whether the
 * program sums its gradients over dp. */
typedef struct graph_buckets {
    int *ready;
    bool *reduces;
    mega_place_options place;
} graph_buckets;

/* The path of what is being described, and its copy in the arena; NULL after the path has changed. */
typedef struct graph_scope {
    char path[MEGA_GRAPH_SCOPE];
    const char *stored;
} graph_scope;

/* Regions that the backward computes again. */
typedef struct graph_regions {
    int open, count;      /* number of the open region (0: none), and how many there are */
    int opened_by_layer;  /* mega_recompute_begin of the layer that is being described, without its end so far */
    bool is_open_layers;  /* the open region was opened by that layer */
    mega_axis saved_axis; /* saved inputs of regions are sharded over it; size 0 or 1: kept whole */
} graph_regions;

/* The walk over the layers of a model. */
typedef struct graph_walk {
    int layer;             /* that is being described */
    dropout_site *dropout; /* dropouts of the layers so far */
    int num_dropouts;
    bool lists_requests; /* record in `request` the parameters of each layer, once each, in the order of their first
                            requests */
    param_request *request;
    int num_requests;
} graph_walk;

struct mega_graph {
    mega_arena arena; /* names */
    mega_dtype dtype, acc;
    mega_params *params;
    const mega_layout *layout;
    graph_tensor *tensor; /* [0] is none */
    int num_tensors;
    instruction *op;
    int num_ops;
    int num_forward; /* number of forward instructions, which come first; set by the differentiate pass or by build */
    int64_t cap_tensors, cap_ops;
    bool in_backward; /* emitted instructions belong to the backward program */
    bool sequence_parallel;
    graph_names names;
    graph_results results;
    graph_weights weights;
    graph_buckets buckets;
    graph_scope scope;
    graph_regions regions;
    graph_walk walk;
    mega_status status; /* first error while describing; `error` holds its message */
    mega_error_record error;
};

/* graph.c: functions that the ops_*.c files use. Errors are recorded in the graph. */
bool mega_graph_reserve_params(mega_graph *g); /* grows the arrays by parameter to all declared parameters; false: an
                                                  error is recorded */
int32_t mega_graph_tensor_add(mega_graph *g, const graph_tensor *t);
/* Returns the weight of a parameter and of those that join it (mega_params_joined): their rows one after another, or a
 * row for each vector. */
mega_tensor mega_graph_joined_params(mega_graph *g, int first);
/* Appends op. Creates outputs that are 0 and not optional, and checks the shapes of those that are given. Returns
 * out[0]. */
mega_tensor mega_graph_emit(mega_graph *g, instruction *op);
int32_t mega_graph_gradient_tensor(mega_graph *g, int32_t weight); /* returns the gradient of a ROLE_WEIGHT; for others
                                                                      records an error and returns 0 */
void mega_graph_gradient_add(mega_graph *g, int32_t tensor, int32_t contribution);
/* ops_view.c: returns the gradient of the tensor that a view shows, computed from the gradient of the view. */
int32_t mega_graph_view_gradient(mega_graph *g, int32_t view, int32_t gradient);
/* ops_gradient.c: adds `gradient` to the gradient of a parameter, starting at element first_element of it. */
void mega_graph_accumulate(mega_graph *g, int32_t weight, int64_t first_element, int32_t gradient);
mega_status mega_graph_name_add(mega_graph *g, named_tensor **list, int *count, const char *name, int32_t tensor);
static inline int32_t mega_graph_root(const mega_graph *g, int32_t t)
{
    return g->tensor[t].base != 0 ? g->tensor[t].base : t;
}
/* Returns the gradient of an output of op, or 0 if it has none. */
static inline int32_t mega_graph_output_gradient(const mega_graph *g, const instruction *op, int out)
{
    return g->tensor[op->out[out]].gradient;
}

/* loss.c, for the pass that differentiates: mega_losses_settle checks the losses and gives each head the coefficient
 * and weight of its loss, or removes the gradient instructions of a head that is only a metric. mega_losses_seed emits
 * the gradients of the losses, with which the backward program starts. */
mega_status mega_losses_settle(mega_graph *g);
mega_status mega_losses_seed(mega_graph *g);
/* output.c, for the same pass: starts differentiation also from outputs, whose gradients the caller may give. */
mega_status mega_outputs_seed(mega_graph *g);
/* ops_head.c: mega_head_set_loss writes coefficient and weight (0: none) into the instructions of a head;
 * mega_head_drop_gradient removes the instructions that compute its gradient. */
void mega_head_set_loss(mega_graph *g, const graph_head *h, double coefficient, int32_t weight);
void mega_head_drop_gradient(mega_graph *g, const graph_head *h);

/* graph.c: records that the values of an input, or of a view of one, are indices below `count`, or row numbers of
 * `table`. */
void mega_graph_set_id_limit(mega_graph *g, mega_tensor ids, int64_t count);
void mega_graph_set_row_limit(mega_graph *g, mega_tensor ids, mega_tensor table);
void mega_graph_note_table(mega_graph *g, mega_tensor table); /* if it is a parameter, sets mega_param.is_table */

/* shape.c */
int64_t mega_shape_count(const tensor_shape *s);
size_t mega_shape_bytes(const tensor_shape *s);
bool mega_shape_equal(const tensor_shape *a, const tensor_shape *b);
/* "[2048, 768] bf16" */
const char *mega_shape_text(char *out, int size, const tensor_shape *s);
tensor_shape mega_shape_1d(mega_dtype dtype, int64_t n);
tensor_shape mega_shape_2d(mega_dtype dtype, int64_t rows, int64_t cols);
/* Check one operand in a shape rule. The message names the op, scope, operand, and the shapes found and expected. */
mega_status mega_op_check_operand(const mega_graph *g, const instruction *op, int in, const char *what,
                                  tensor_shape expected);
mega_status mega_op_check_epsilon(const instruction *op); /* checks that eps is a positive, normal float */
mega_status mega_op_check_dims(const mega_graph *g, const instruction *op, int in, const char *what, mega_dtype dtype,
                               int num_dims);
static inline const tensor_shape *mega_op_in(const mega_graph *g, const instruction *op, int in)
{
    return &g->tensor[op->in[in]].shape;
}
/* Returns the dtype to expect of a float operand that may have the compute type or acc: its own if that is acc, else
 * the compute type. */
static inline mega_dtype mega_op_in_float(const mega_graph *g, const instruction *op, int in)
{
    return g->tensor[op->in[in]].shape.dtype == g->acc ? g->acc : g->dtype;
}
static inline int64_t mega_op_in_dim(const mega_graph *g, const instruction *op, int in, int dim)
{
    return g->tensor[op->in[in]].shape.dim[dim];
}

/* builder.c: returns MEGA_ERR_USAGE unless a name is text (megalith/name.h). what: the kind of thing that it names;
 * path: of the layer. */
mega_status mega_graph_check_name(const char *path, const char *what, const char *name);
/* op_hash.c: adds the kind, operands, shapes and attributes of op to a hash that is the same on all ranks that describe
 * the same model. */
uint64_t mega_op_hash(uint64_t hash, const mega_graph *g, const instruction *op);

/* cost.c: mega_op_traffic returns 0 FLOPs and the bytes of every operand once (twice if it is accumulated). */
op_cost mega_op_traffic(const mega_graph *g, const instruction *op);
op_cost mega_op_cost(const mega_graph *g, const instruction *op);
/* ops_attention.c: returns the share of all pairs of a query and a key that causal mask and window leave; of a causal
 * mask alone 1/2. */
double mega_attention_unmasked_share(const mega_attention_shape *s);
/* Returns the FLOPs that a mask skips, which mega_op_cost does not count: for causal attention without a window, as
 * many as it counts. */
double mega_op_masked_flops(const mega_graph *g, const instruction *op);

/* The passes, in the order in which they run. Each leaves a graph that mega_graph_verify accepts. */
mega_status mega_pass_differentiate(mega_graph *g);
void mega_graph_mark_needed(mega_graph *g); /* sets needs_gradient of every tensor */
void mega_graph_drop_marks(mega_graph *g);  /* removes ops that only the differentiate pass reads (copy_to_group) */
mega_status mega_pass_labels(mega_graph *g);
mega_status mega_pass_recompute(mega_graph *g);
mega_status mega_pass_place(mega_graph *g);
mega_status mega_pass_fuse(mega_graph *g);
mega_status mega_pass_schedule(mega_graph *g);
mega_status mega_pass_begin(mega_graph *g);
/* after: the name of the pass that just ran, for the message. */
mega_status mega_graph_verify(const mega_graph *g, const char *after);

#define MEGA_OP_EXTERN(upper, lower) extern const op_row mega_op_row_##lower;
MEGA_OP_LIST(MEGA_OP_EXTERN)
#undef MEGA_OP_EXTERN

#endif
