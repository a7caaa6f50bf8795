/* Parameters: logical (whole-model) tensors, this rank's slices of them, and the flat buffers they live in.
 *
 * How a parameter is spread over ranks is ONE record (mega_param). Initialisation, gradient reduction, norm, ZeRO and
 * checkpoint derive from it and from nothing else. */
#ifndef MEGALITH_PARAMETER_H
#define MEGALITH_PARAMETER_H

#include "megalith/comm.h"
#include "megalith/dtype.h"
#include "megalith/memory.h"
#include "megalith/param_init.h"
#include "megalith/status.h"
#include "megalith/threads.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mega_axis_name {
    MEGA_AXIS_NONE = 0,
    MEGA_AXIS_TP,
    MEGA_AXIS_PP,
    MEGA_AXIS_DP,
    MEGA_AXIS_CP,
    MEGA_AXIS_EP
} mega_axis_name;
/* A parameter that several pipeline stages request is tied: the first of them owns it (counts and saves it), the others
 * hold copies. Gradients are summed over all of them; each lies in a bucket of its own. */
typedef enum mega_tie { MEGA_TIE_NONE = 0, MEGA_TIE_OWNER, MEGA_TIE_COPY } mega_tie;

typedef struct mega_param {
    char name[MEGA_PARAM_NAME]; /* "transformer.h.0.attn.c_attn.weight"; also in the checkpoint, unless parts say other
                                 */
    int num_dims;               /* 1 or 2 */
    int64_t shape[2];           /* whole tensor in memory orientation, [out, in], padding included */
    int64_t true_shape[2];      /* without padding: what the file holds (padding rows are zero and get no gradient) */
    bool transposed_in_file;    /* file holds [in, out] (Hugging Face Conv1D) */
    int file_dims;              /* of the tensor in the file, where it has others: 1 to 4; 0: those of true_shape */
    int64_t file_dim[4]; /* the same elements in the same order: [out, in, height, width] of [out, in * size^2] */
    mega_axis_name axis; /* the axis that cuts it, or NONE: replicated */
    int cut_dim;         /* dimension that is cut; of a replicated one, 0 */
    /* Along cut_dim, in the order of the memory. The list of parameters keeps at least one, and owns the names in them.
     */
    mega_param_part part[MEGA_PARAM_PARTS];
    int num_parts;                 /* 0 stands for one part that is all of it */
    int file_of[MEGA_PARAM_PARTS]; /* filled when it is declared: which of num_files tensors of the checkpoint, counted
                                    */
    int num_files;                 /* in the order of the parts, holds each part */
    bool grads_are_summands;       /* replicated, but ranks of tp hold partial gradients (sequence parallel norms) */
    mega_init init;
    double init_std;
    bool weight_decay; /* false for biases and one-dimensional tensors */
    double lr_scale;   /* of the learning rate; 0: 1 */
    /* Saved and loaded, but not optimized; no gradient reaches it. With a momentum above 0 ops sum up what a step adds
     * to it, in the place of a gradient: each group of buffer_samples samples replaces buffer_momentum of it. */
    bool is_buffer;
    double buffer_momentum;
    int64_t buffer_samples;
    bool is_frozen; /* a parameter like the others, but not trained: no update, no moments, no part in norms */
    mega_tie tie;
    int layer;      /* of the model's list, that declares it, from 1 on: with ZeRO 3 a bucket; 0: of no list */
    bool is_shared; /* several layers of the list request it: with ZeRO 3 a bucket of its own */
    int program;    /* filled when it is declared, see mega_params_next_part */
    /* filled by mega_params_place */
    int64_t local_shape[2]; /* this rank's slice */
    int bucket;
    int64_t offset; /* elements, within the flat buffers */
    int64_t count;  /* elements of the local slice */
} mega_param;

/* Consecutive parameters of one reduction group, in backward order; `count` is a multiple of dp. */
typedef struct mega_bucket {
    int64_t offset, count, used;
    int first_param, num_params;
    int64_t kept_at; /* where ZeRO 3 keeps its weights whole (mega_params_persist); -1: each rank has its slice alone */
} mega_bucket;

/* Whether the optimizer updates it. */
static inline bool mega_param_is_trained(const mega_param *r)
{
    return !r->is_buffer && !r->is_frozen;
}

typedef struct mega_params mega_params;

/* How a parameter is cut over ranks: this rank's place among them. Zero where every rank has all of it. */
typedef struct mega_param_cut {
    int rank, size;
} mega_param_cut;

/* Rows (along cut_dim) of a rank's slice that lie in one tensor of the checkpoint: `runs` times `rows` rows, which
 * follow one another in the slice and in the whole parameter, and are `stride` rows apart in the file. */
typedef struct mega_param_stretch {
    int64_t local, whole, file; /* the first row: in the slice, in the whole parameter, in the tensor of the file */
    int64_t rows, runs, stride;
    int tensor; /* which of the tensors of the file */
} mega_param_stretch;
/* How a slice maps to the checkpoint, in the order of the slice; returns their number. Parts that follow one another in
 * the slice and in the file are one stretch. Reads the shape, cut_dim and parts of the record alone. */
int mega_param_stretches(const mega_param *r, mega_param_cut cut, mega_param_stretch out[MEGA_PARAM_PARTS]);
/* The tensors of the checkpoint that hold it, 1 or more: number, name, and [rows, columns] in the orientation of the
 * memory, without padding; columns of a vector are 1. */
int mega_param_num_files(const mega_param *r);
const char *mega_param_file_name(const mega_param *r, int file);
void mega_param_file_shape(const mega_param *r, int file, int64_t out[2]);
/* Makes its parts `count` equal ones, one after the other in one tensor of the file: 3 for Q, K, V of as many heads. A
 * count that does not divide the rows leaves parts that mega_params_add refuses. */
void mega_param_set_blocks(mega_param *r, int count);
mega_status mega_params_create(const mega_layout *layout, mega_params **out);
void mega_params_destroy(mega_params *p);
const mega_layout *mega_params_layout(const mega_params *p); /* as given to create */
mega_param_cut mega_params_cut(const mega_params *p, const mega_param *record);
/* Declares a parameter; *out_index receives its number. Only before mega_params_place. Models do not call it: their
 * parameters are declared by the first request (mega_builder_param). */
mega_status mega_params_add(mega_params *p, const mega_param *record, int *out_index);
/* What is declared from here on is of another program (a pipeline stage may have several) and shares no bucket with
 * what was declared before: each program exchanges its own buckets, when it is done with them. */
void mega_params_next_part(mega_params *p);
int mega_params_find(const mega_params *p, const char *name); /* -1: none */
/* The parameter that has rows in this tensor of the checkpoint; *out_file is the number of the tensor. -1: none. */
int mega_params_find_file(const mega_params *p, const char *name, int *out_file);
int mega_params_num_files(const mega_params *p); /* tensors of the checkpoint, of all parameters */
int mega_params_count(const mega_params *p);
size_t mega_params_record_bytes(const mega_params *p); /* of the records, without what they describe */
/* NULL, with a message, for a number that no parameter (or bucket) has; all that takes such a number then gives NULL or
 * an empty range. */
const mega_param *mega_params_get(const mega_params *p, int index);
int mega_params_num_buckets(const mega_params *p);
const mega_bucket *mega_params_bucket(const mega_params *p, int index);
int64_t mega_params_elements(const mega_params *p);      /* length of the flat buffers, padding included */
int64_t mega_params_logical_count(const mega_params *p); /* real ones of the whole model, without padding, buffers */
int64_t mega_params_local_count(const mega_params *p);   /* on this rank, padding of the vocabulary included */

/* ZeRO: what ranks of dp share out instead of each holding all of it: 1 masters and moments, 2 gradients too, 3 weights
 * too; 0 nothing (and with one rank of dp). Every bucket is cut into dp equal slices; a rank's shard is its slices, one
 * after the other. Before mega_params_place. */
mega_status mega_params_shard(mega_params *p, int zero_stage);
int mega_params_zero_stage(const mega_params *p);
/* The ranks that share out masters, moments and updates, each holding slices; this rank alone (0 of 1, without a group)
 * where it holds all of them. */
mega_axis mega_params_shards(const mega_params *p);
/* Collective over those ranks: adds up what each counted over what it owns. */
mega_status mega_params_sum_shards(const mega_params *p, const char *what, double *sums, int64_t count);
/* Before place: with ZeRO 3, weights of buckets of at most so many elements are whole on every rank, gathered once an
 * update. */
mega_status mega_params_persist(mega_params *p, int64_t elements);

/* Lays out buckets in backward order (last declared first), of at most bucket_elements unless one parameter is larger
 * (0: no limit); with ZeRO 3 a bucket is a layer of the list. compute is F32, BF16 or F64; masters and gradients are
 * acc (f32, or f64 with F64). With compute == acc the weights are the masters. Buffers are allocated by
 * mega_params_allocate; before it everything but pointers can be asked (plan, dry run). */
mega_status mega_params_place(mega_params *p, mega_dtype compute, int64_t bucket_elements);
typedef enum mega_params_buffers { MEGA_PARAMS_WEIGHTS = 1, MEGA_PARAMS_GRADS = 2 } mega_params_buffers;
mega_status mega_params_allocate(mega_params *p, int buffers);
bool mega_params_are_cut(const mega_params *p, mega_params_buffers buffer); /* this rank has slices of it alone */
/* The same inside a region of the caller's, which outlives the parameters and is zero-filled. */
size_t mega_params_region_bytes(const mega_params *p, int buffers);
mega_status mega_params_allocate_in(mega_params *p, int buffers, mega_region *region);
size_t mega_params_bytes(const mega_params *p, int buffers);
size_t mega_params_master_bytes(const mega_params *p); /* where compute is acc: of what is both */

mega_dtype mega_params_compute_dtype(const mega_params *p);
mega_dtype mega_params_acc_dtype(const mega_params *p);
/* Elements of a local slice, row-major. */
typedef struct mega_range {
    int64_t first, count;
} mega_range;
/* Those whose master, moments and update are this rank's: all of them, but where ranks of dp share them out (ZeRO). */
mega_range mega_params_owned(const mega_params *p, int index);
void *mega_params_weight(const mega_params *p, int index); /* compute dtype, local_shape; NULL where ZeRO cuts it */
void *mega_params_master(const mega_params *p, int index); /* acc dtype, mega_params_owned of it */
void *mega_params_grad(const mega_params *p, int index);   /* acc dtype; NULL where ZeRO cuts it */
/* The same by place. Elements count along the flat buffers as if they were whole; a buffer that ZeRO cuts holds those
 * of the slice alone, and of others nothing may be asked. */
mega_range mega_params_slice(const mega_params *p, int bucket); /* this rank's; the whole bucket without ZeRO */
int64_t mega_params_shard_elements(const mega_params *p);       /* all slices together */
/* The first of them, which the moments of an optimizer have a place for: frozen parameters lie behind all others. */
int64_t mega_params_state_elements(const mega_params *p);
int64_t mega_params_shard_index(const mega_params *p, int bucket, int64_t element); /* in a buffer of slices */
void *mega_params_weight_at(const mega_params *p, int bucket, int64_t element);
void *mega_params_master_at(const mega_params *p, int bucket, int64_t element);
void *mega_params_grad_at(const mega_params *p, int bucket, int64_t element);
void *mega_params_flat_weight(const mega_params *p); /* buffers as they were allocated */
void *mega_params_flat_master(const mega_params *p);
void *mega_params_flat_grad(const mega_params *p);

/* Law 1: every element from (seed, name, logical index); the value does not depend on the layout. Fills masters, then
 * publishes. Collective where publish is. */
mega_status mega_params_initialize(mega_params *p, uint32_t seed);
mega_status mega_params_initialize_team(mega_params *p, uint32_t seed, mega_team *team); /* the same bits */
/* masters -> compute weights (rounding; nothing to do when they are the same buffer), then mega_params_gather. */
mega_status mega_params_publish(mega_params *p);
/* Collective over dp with ZeRO 1 and 2: every rank gets the others' slices of the weights. Else nothing. */
mega_status mega_params_gather(mega_params *p);
/* Collective over dp: the sum of a bucket's gradients; with ZeRO of this rank's slice, what else the bucket holds is
 * spent. Gradients that lie in a buffer of slices are reduced by the program. */
mega_status mega_params_reduce_gradients(mega_params *p, int bucket);
/* What that and programs begin: the sum over dp of gradients that lie at `whole`, which goes there or, where ranks of
 * dp share out masters and moments, as this rank's slice to `slice`. All sums of gradients over dp are begun here. */
mega_status mega_params_reduce_start(const mega_params *p, int bucket, void *whole, void *slice, mega_request *out);

#ifdef __cplusplus
}
#endif

#endif
