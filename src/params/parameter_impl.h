/* Declarations shared by the parameter*.c files. */
#ifndef MEGA_PARAMETER_IMPL_H
#define MEGA_PARAMETER_IMPL_H

#include "megalith/kernels.h"
#include "megalith/memory.h"
#include "megalith/parameter.h"
#include "megalith/parameter_request.h"

/* A buffer with one number per parameter element, bucket after bucket: whole buckets, or only this rank's slices of
 * them. */
typedef struct flat_buffer {
    void *data;
    size_t bytes;
    mega_dtype dtype;
    bool is_shard;
    bool is_owned; /* false: the memory is a region of the caller, or that of another buffer */
} flat_buffer;

struct mega_params {
    const mega_layout *layout; /* borrowed */
    mega_param *param;
    int count, capacity;
    int32_t *slot; /* [num_slots], a hash table of the names of parameters and checkpoint tensors; 0: free */
    int num_slots; /* a power of two, at least twice `names` */
    int names;
    mega_arena text; /* names of checkpoint tensors */
    int program;     /* program of the parameters that are declared next */
    mega_bucket *bucket;
    int num_buckets;
    int64_t elements;                             /* length of a flat buffer, padding included */
    int64_t state_elements;                       /* elements before the frozen parameters, which are at the end */
    int64_t shard_elements, shard_state_elements; /* the same of a buffer of this rank's slices alone */
    bool placed;
    mega_dtype compute, acc;
    mega_dtype sums;                  /* of gradients over dp; F32: as they are */
    mega_dtype held;                  /* of gradients between micro-batches; F32: the acc dtype */
    int zero_stage;                   /* 0 if dp has one rank */
    flat_buffer weight, master, grad; /* weight and master are one buffer if compute == acc; buckets may hold
                                           gradients in different types, see mega_bucket.grads_at */
    size_t grad_bytes;                /* of the buffer `grad` */
    int64_t persistence;              /* ZeRO 3: buckets of at most this many elements stay whole, in `kept` */
    size_t kept_bytes;
    flat_buffer kept;                 /* whole weights of some buckets, see mega_bucket.kept_at */
    struct mega_param_groups *groups; /* borrowed; NULL: none */
    mega_backend_kind backend;        /* of the kernels that convert numbers, in this queue */
    mega_queue queue;
};

/* Returns the axis with this name; for MEGA_AXIS_NONE, size 1 and rank 0. */
mega_axis mega_params_axis(const mega_params *p, mega_axis_name name);

/* parameter_parts.c: completes a record so that it has at least one part, and brings equivalent descriptions of parts
 * into one form. */
void mega_param_complete_parts(mega_param *r);
/* Checks a complete record that is sharded over `ranks` ranks: each row of the parameter and of its checkpoint tensors
 * must be in exactly one part. */
mega_status mega_param_check_parts(const mega_param *r, int64_t ranks);
bool mega_param_parts_equal(const mega_param *a, const mega_param *b);

/* Whether gradients of this compute dtype can be held and summed in the types that were set. */
mega_status mega_params_check_types(const mega_params *p, mega_dtype compute);
/* Returns MEGA_ERR_USAGE, naming `call`, unless this buffer is allocated or there are no parameters. */
mega_status mega_params_check_buffer(const mega_params *p, const char *call, mega_params_buffers buffer);

#endif
