/* Parameters: logical (whole-model) tensors, this rank's slices of them, and the flat buffers that hold them.
 *
 * ONE record (mega_param) describes how a parameter is distributed over ranks. Initialization, gradient reduction,
 * norms, ZeRO and checkpoints depend on it alone.
 *
 * Parameters lie in buckets, the last declared first, so that a backward completes one bucket after the other. A bucket
 * is cut into dp equal slices, whatever parameters are in them (mega_params_shard); here with four ranks:
 *
 *     bucket 0                                    bucket 1
 *     | weight D     | gap | bias C | weight C |  | weight B               | bias A | gap |
 *     |---------|---------|---------|----------|  |---------|---------|---------|---------|
 *      rank 0    rank 1    rank 2    rank 3        rank 0    rank 1    rank 2    rank 3
 *
 *     of each bucket a rank has   masters and moments   gradients    weights
 *     ZeRO 0                      all                   all          all
 *     ZeRO 1                      its slice             all          all
 *     ZeRO 2                      its slice             its slice    all
 *     ZeRO 3                      its slice             its slice    its slice, and all while they are read
 *
 * The parameters of an expert are in buckets of their own where ep divides the experts: only the ranks of edp hold
 * them, so that their gradients are summed and their slices are cut over edp instead of dp. */
#ifndef MEGALITH_PARAMETER_H
#define MEGALITH_PARAMETER_H

#include "megalith/backend_kind.h"
#include "megalith/comm.h"
#include "megalith/dtype.h"
#include "megalith/memory.h"
#include "megalith/param_init.h"
#include "megalith/status.h"
#include "megalith/threads.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mega_axis_name {
    MEGA_AXIS_NONE = 0,
    MEGA_AXIS_TP,
    MEGA_AXIS_PP,
    MEGA_AXIS_DP,
    MEGA_AXIS_CP
} mega_axis_name;
/* A parameter that several pipeline stages request is tied: the first of them owns it (counts and saves it), the others
 * hold copies. Its gradients are summed over all these stages. On each stage it has a bucket of its own. */
typedef enum mega_tie { MEGA_TIE_NONE = 0, MEGA_TIE_OWNER, MEGA_TIE_COPY } mega_tie;

typedef struct mega_param {
    char name[MEGA_PARAM_NAME]; /* "transformer.h.0.attn.c_attn.weight"; also its name in the checkpoint, unless the
                                   parts name other tensors */
    int num_dims;               /* 1 or 2 */
    int64_t shape[2];           /* shape of the whole tensor in memory, [out, in], padding included */
    int64_t true_shape[2];      /* the shape without padding, as in the file (padding rows are zero and get no
                                   gradient) */
    bool transposed_in_file;    /* file holds [in, out] (Hugging Face Conv1D) */
    int file_dims;              /* number of dimensions in the file, 1 to 4; 0: the same as true_shape */
    int64_t file_dim[4];        /* shape in the file, same elements and order: [out, in, height, width] */
    /* Where stack_of parameters of one shape lie one after the other in each of their checkpoint tensors, which has
     * that number as its first dimension: the place of this one. stack_of 0: it has its tensors for itself */
    int64_t stack_at, stack_of;
    mega_axis_name axis; /* the axis that shards it; NONE: replicated */
    int cut_dim;         /* the sharded dimension; 0 if replicated */
    /* The parts along cut_dim, in memory order. A declared parameter has at least one part; mega_params owns their
       names. */
    mega_param_part part[MEGA_PARAM_PARTS];
    int num_parts;                 /* 0: one part, the whole parameter */
    int file_of[MEGA_PARAM_PARTS]; /* for each part, the number of its checkpoint tensor; filled on declaration */
    int num_files;                 /* number of checkpoint tensors; they are numbered in the order of the parts */
    bool grads_are_partial;        /* replicated, but each tp rank computes a partial gradient (sequence-parallel
                                      norms) */
    mega_init init;
    double init_std;
    bool weight_decay; /* false for biases and one-dimensional tensors */
    double own_decay;  /* its weight decay; 0: that of the training */
    double lr_scale;   /* factor on the learning rate; 0 means 1 */
    /* Saved and loaded, but not optimized; it receives no gradient. If buffer_momentum > 0, ops accumulate the update
     * of a step in its gradient buffer: each group of buffer_samples samples replaces the fraction buffer_momentum of
     * its value. If buffer_rate > 0, it is a bias of the choice of experts: ops count there how often each element was
     * chosen in a step, each token making buffer_choices choices, and the element then grows by buffer_rate if that is
     * below the mean, and falls by it if it is above. */
    bool is_buffer;
    double buffer_momentum, buffer_rate;
    int64_t buffer_samples, buffer_choices;
    bool in_acc; /* a buffer that graphs read in the acc type also where they compute in 16 bits, and that folders of 16
                    bits hold in F32 */
    bool is_frozen; /* not trained: no update, no moments, no gradient, left out of norms */
    bool is_table;  /* rows are looked up by number (an embedding), or it is the table of a head; filled by these ops */
    bool joins_next; /* lies directly behind the parameter that is declared after it in memory, without a gap and in the
                        same bucket, so that an op can use both as one tensor (experts) */
    int held_by; /* an expert's, where ep divides the experts: 1 + the rank of ep that holds it; 0: every rank of ep */
    mega_tie tie;
    int layer;      /* the layer that declares it, from 1 (ZeRO 3: one bucket per layer); 0: none */
    bool is_shared; /* several layers request it; with ZeRO 3 it has a bucket of its own */
    int program;    /* filled when it is declared (mega_params_next_part) */
    /* The following members are filled by mega_params_place. */
    int64_t local_shape[2]; /* this rank's slice */
    int bucket;
    int64_t offset; /* offset in the flat buffers, in elements */
    int64_t count;  /* elements of the local slice */
} mega_param;

/* A bucket: consecutive parameters of one reduction group, in backward order. `count` elements, a multiple of the size
 * of that group, of which the first `used` hold parameters. */
typedef struct mega_bucket {
    int64_t offset, count, used;
    int64_t shard_at;   /* offset of this rank's slice in a buffer of slices alone */
    bool is_of_experts; /* its reduction group is edp; otherwise dp */
    int first_param, num_params;
    bool in_acc; /* of parameters that are read in the acc type, while others are of 16 bits */
    int64_t
        kept_at; /* in_acc, or with ZeRO 3 mega_params_persist: where its whole weights begin in a buffer of these, in
                        bytes; -1: they are in the buffer of all weights */
    size_t grads_at; /* where its gradients, or this rank's slice of them, begin in their buffer, in bytes */
    bool has_grads;  /* false: of frozen parameters, which have no memory for gradients */
} mega_bucket;

/* Returns whether a step changes the buffer. */
static inline bool mega_param_is_updated_buffer(const mega_param *r)
{
    return r->is_buffer && (r->buffer_momentum > 0 || r->buffer_rate > 0);
}

/* Returns whether the optimizer updates the parameter. */
static inline bool mega_param_is_trained(const mega_param *r)
{
    return !r->is_buffer && !r->is_frozen;
}

/* Returns whether the parameter has a gradient, or, a buffer, the sums in its place. */
static inline bool mega_param_has_gradient(const mega_param *r)
{
    return r->is_buffer || !r->is_frozen;
}

/* Returns the type of the parameter in a file whose weights are of type `file`. */
static inline mega_dtype mega_param_file_dtype(const mega_param *r, mega_dtype file)
{
    return r->in_acc && mega_dtype_is_half(file) ? MEGA_F32 : file;
}

typedef struct mega_params mega_params;

/* How a parameter is sharded: over `size` ranks, of which this one is `rank`. Both are 0 if every rank has the whole
 * parameter. */
typedef struct mega_param_cut {
    int rank, size;
} mega_param_cut;

/* Rows (along cut_dim) of a rank's slice that one checkpoint tensor holds: `runs` runs of `rows` rows each. The runs
 * are consecutive in the slice and in the whole parameter; in the file they start `stride` rows apart. */
typedef struct mega_param_stretch {
    int64_t local, whole, file; /* number of the first row in the slice, in the whole parameter and in the checkpoint
                                   tensor */
    int64_t rows, runs, stride;
    int tensor; /* number of the checkpoint tensor */
} mega_param_stretch;
/* Computes how a slice maps to the checkpoint and returns the number of stretches in `out`, which are in the order of
 * the slice. Parts that are adjacent in both the slice and the file form one stretch. Reads only the shape, cut_dim and
 * parts of the record. */
int mega_param_stretches(const mega_param *r, mega_param_cut cut, mega_param_stretch out[MEGA_PARAM_PARTS]);
/* The checkpoint tensors that hold the parameter: their number (1 or more), their names, and their shapes [rows,
 * columns] as in memory, without padding; a vector has 1 column. Of a stack it is the shape of one place. */
int mega_param_num_files(const mega_param *r);
const char *mega_param_file_name(const mega_param *r, int file);
void mega_param_file_shape(const mega_param *r, int file, int64_t out[2]);
/* Returns the rows of a tensor of which other parameters hold some (mega_param_part.of_rows), or 0. */
int64_t mega_param_file_rows(const mega_param *r, int file);
/* Returns whether other parameters hold a part of this tensor: some of its rows, or places of its stack. */
bool mega_param_shares_file(const mega_param *r, int file);
/* Divides the parameter into `count` equal parts that are consecutive in one checkpoint tensor, such as 3 for Q, K and
 * V with the same number of heads. If count does not divide the rows, mega_params_add rejects the record. */
void mega_param_set_blocks(mega_param *r, int count);
mega_status mega_params_create(const mega_layout *layout, mega_params **out);
void mega_params_destroy(mega_params *p);
const mega_layout *mega_params_layout(const mega_params *p); /* the layout passed to create */
mega_param_cut mega_params_cut(const mega_params *p, const mega_param *record);
/* Declares a parameter; *out_index receives its number. Call it before mega_params_place. Models do not call it: their
 * parameters are declared by the first request (mega_builder_param). */
mega_status mega_params_add(mega_params *p, const mega_param *record, int *out_index);
/* Parameters declared after this call belong to the next program (a pipeline stage may have several). They share no
 * bucket with earlier parameters, because each program exchanges its own buckets as soon as it is done with them. */
void mega_params_next_part(mega_params *p);
int mega_params_find(const mega_params *p, const char *name); /* -1: none */
/* The parameter and those declared before it that join it, one after another: how many they are, and their elements on
 * this rank. They are in memory from the first element of this one. */
int mega_params_joined(const mega_params *p, int index);
int64_t mega_params_joined_elements(const mega_params *p, int index);
void mega_params_note_table(mega_params *p, int index); /* sets is_table */
/* Returns the index of the (first) parameter that has rows in this checkpoint tensor, or -1; *out_file receives the
 * number of the tensor among those of the parameter. */
int mega_params_find_file(const mega_params *p, const char *name, int *out_file);
int mega_params_num_files(const mega_params *p); /* number of checkpoint tensors of all parameters */
int mega_params_count(const mega_params *p);
size_t mega_params_record_bytes(const mega_params *p); /* memory of the records alone, without weights and gradients */
/* Returns NULL and records a message if no parameter (or bucket) has this index. Every other function that takes such
 * an index then returns NULL or an empty range. */
const mega_param *mega_params_get(const mega_params *p, int index);
int mega_params_num_buckets(const mega_params *p);
const mega_bucket *mega_params_bucket(const mega_params *p, int index);
int64_t mega_params_elements(const mega_params *p);      /* length of the flat buffers, padding included */
int64_t mega_params_logical_count(const mega_params *p); /* of the whole model, without padding and buffers */
int64_t mega_params_local_count(const mega_params *p);   /* on this rank, with padding of the vocabulary */

/* Sets the ZeRO stage, that is, what is sharded over dp (over edp, of experts): 0 nothing, 1 masters and moments, 2
 * also gradients, 3 also weights. With one dp rank the stage is 0. Every bucket is cut into as many equal slices as its
 * group has ranks; the shard of a rank is the concatenation of its slices. Call it before mega_params_place. */
mega_status mega_params_shard(mega_params *p, int zero_stage);
int mega_params_zero_stage(const mega_params *p);
/* Returns the axis over which masters, moments and updates are sharded, or an axis of one rank without a group if this
 * rank holds all of them. */
mega_axis mega_params_shards(const mega_params *p);
/* Returns the ranks that hold a bucket, or a parameter, over which its gradients are summed: dp, or edp of experts. */
mega_axis mega_params_group(const mega_params *p, int bucket);
mega_axis mega_params_group_of(const mega_params *p, const mega_param *record);
/* Returns the axis over which the slices of the bucket are cut: its group, or an axis of one rank without ZeRO. */
mega_axis mega_params_bucket_shards(const mega_params *p, int bucket);
/* Whether this rank counts the parameter (what it owns of it), so that over the ranks of one axis each element is
 * counted once: over dp if slices are cut, otherwise over ep, whose ranks have experts of their own. */
bool mega_params_counts(const mega_params *p, const mega_param *record);
const mega_axis *mega_params_counting(const mega_params *p); /* that axis, of the layout */
/* Collective over that axis. Sums `count` numbers over its ranks, each of which computed them over what it counts. */
mega_status mega_params_sum_counts(const mega_params *p, const char *what, double *sums, int64_t count);
/* With ZeRO 3, buckets of at most this many elements keep their weights whole on every rank; they are gathered once per
 * update. Call it before mega_params_place. */
mega_status mega_params_persist(mega_params *p, int64_t elements);

/* The dtype of the sums of gradients over dp: F32 (the default) leaves gradients as they are. With BF16 or F16 each
 * rank rounds its gradients, the ranks send half as much, and the sum, taken in float and rounded once, becomes the
 * gradient. Buckets with running statistics stay as they are. Call it before mega_params_place. */
mega_status mega_params_sum_in(mega_params *p, mega_dtype dtype);
mega_dtype mega_params_sum_dtype(const mega_params *p, int bucket);

/* Sets the dtype in which the buffers hold gradients, between micro-batches and until the update: F32 (the default), or
 * BF16 or F16. Programs compute a gradient in float and add it to the held one, rounded once a micro-batch; a sum over
 * dp of whole gradients (ZeRO 0 and 1) is then in this dtype. Buckets with running statistics stay as they are. Call it
 * before mega_params_place. */
mega_status mega_params_hold_gradients_in(mega_params *p, mega_dtype dtype);
mega_dtype mega_params_grad_dtype(const mega_params *p, int bucket);

/* Sets the queue in which gradients are rounded and widened, and weights rounded: of kernels of this backend. It is
 * copied; without it the caller's thread does so. */
struct mega_queue;
void mega_params_run_in(mega_params *p, mega_backend_kind backend, const struct mega_queue *queue);
/* Converts `count` numbers there. */
void mega_params_convert(const mega_params *p, void *to, mega_dtype to_dtype, const void *from, mega_dtype from_dtype,
                         int64_t count);

/* Lays out buckets in backward order (last declared first), of at most bucket_elements unless one parameter is larger
 * (0: no limit); with ZeRO 3 each layer of the list has one bucket. compute is F32, BF16, F16 or F64; masters and
 * gradients are acc (f32, or f64 with F64). With compute == acc the weights are the masters. Buffers are allocated by
 * mega_params_allocate; before that, every query except for pointers works (plan, dry run). */
mega_status mega_params_place(mega_params *p, mega_dtype compute, int64_t bucket_elements);
typedef enum mega_params_buffers { MEGA_PARAMS_WEIGHTS = 1, MEGA_PARAMS_GRADS = 2 } mega_params_buffers;
mega_status mega_params_allocate(mega_params *p, int buffers);
bool mega_params_are_cut(const mega_params *p, mega_params_buffers buffer); /* this rank has only its slices of it */
/* Like mega_params_allocate, but inside a region of the caller, which must outlive the parameters and be
 * zero-filled. */
size_t mega_params_region_bytes(const mega_params *p, int buffers);
mega_status mega_params_allocate_in(mega_params *p, int buffers, mega_region *region);
size_t mega_params_bytes(const mega_params *p, int buffers);
size_t mega_params_master_bytes(const mega_params *p); /* bytes of the masters, also if they are the weights */

mega_dtype mega_params_compute_dtype(const mega_params *p);
mega_dtype mega_params_acc_dtype(const mega_params *p);
/* Returns the type of the weights of a bucket: the compute dtype, or acc (mega_param.in_acc). */
mega_dtype mega_params_weight_dtype(const mega_params *p, int bucket);
/* A range of elements of a local slice, in row-major order. */
typedef struct mega_range {
    int64_t first, count;
} mega_range;
/* Returns the elements of parameter `index`, counted within its local slice, whose masters and moments this rank holds
 * and updates: all of them, or with ZeRO those inside this rank's slice of the bucket. */
mega_range mega_params_owned(const mega_params *p, int index);
/* mega_params_weight_dtype, local_shape; NULL if ZeRO shards it */
void *mega_params_weight(const mega_params *p, int index);
void *mega_params_master(const mega_params *p, int index); /* acc dtype; the elements of mega_params_owned */
void *mega_params_grad(const mega_params *p, int index); /* mega_params_grad_dtype; NULL if ZeRO shards it, or frozen */
/* The following functions address buffers by bucket and element. Elements are numbered along the flat buffers as if
 * those were whole; a buffer that ZeRO shards holds only the elements of this rank's slice, and only those may be
 * passed. */
mega_range mega_params_slice(const mega_params *p, int bucket); /* this rank's; without ZeRO all of it */
int64_t mega_params_shard_elements(const mega_params *p);       /* of all slices of this rank together */
/* Returns how many of these elements have optimizer moments. Frozen parameters have none; they follow all others. */
int64_t mega_params_state_elements(const mega_params *p);
int64_t mega_params_shard_index(const mega_params *p, int bucket, int64_t element); /* index in a sharded buffer */
void *mega_params_weight_at(const mega_params *p, int bucket, int64_t element);
void *mega_params_master_at(const mega_params *p, int bucket, int64_t element);
void *mega_params_grad_at(const mega_params *p, int bucket, int64_t element);
void *mega_params_flat_weight(const mega_params *p); /* start of each allocated buffer */
void *mega_params_flat_master(const mega_params *p);
void *mega_params_flat_grad(const mega_params *p);

/* Every element is computed from (seed, name, logical index), so that its value does not depend on the layout.
 * Fills the masters, then calls mega_params_publish. Collective if mega_params_publish is. */
mega_status mega_params_initialize(mega_params *p, uint32_t seed);
mega_status mega_params_initialize_team(mega_params *p, uint32_t seed, mega_team *team); /* the same bits */
/* Rounds the masters to compute weights (nothing to do if they are the same buffer), then calls mega_params_gather. */
mega_status mega_params_publish(mega_params *p);
/* With ZeRO, gathers over dp the weights that every rank keeps whole: all buckets with stages 1 and 2, those of
 * mega_params_persist with stage 3. Collective over dp. Does nothing without ZeRO. */
mega_status mega_params_gather(mega_params *p);
bool mega_params_is_gathered(const mega_params *p, int bucket); /* mega_params_gather gathers this bucket */
/* Starts the gather of one bucket that is gathered; its weights are complete after the wait. */
mega_status mega_params_gather_start(const mega_params *p, int bucket, mega_request *out);
/* Returns whether gradients that no program has summed over dp are to be summed after the backward: there are several
 * ranks, and each holds whole gradients. */
bool mega_params_sums_gradients(const mega_params *p);
/* Starts the sum over dp of the gradients of a bucket at `whole`. Without ZeRO the sum replaces `whole`; with ZeRO this
 * rank's slice of the sum is written to `slice`. Every sum of gradients over dp starts here. After the wait,
 * mega_params_reduce_finish completes it, with the same arguments; a 16-bit sum is in `whole` until then. Without ZeRO,
 * `slice` is not used; with ZeRO 1, what of `whole` is neither its slice nor a gradient is zero afterwards. */
mega_status mega_params_reduce_start(const mega_params *p, int bucket, void *whole, void *slice, mega_request *out);
void mega_params_reduce_finish(const mega_params *p, int bucket, void *whole, void *slice);

#endif
