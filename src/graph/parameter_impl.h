/* What the files about parameters share. */
#ifndef MEGA_PARAMETER_IMPL_H
#define MEGA_PARAMETER_IMPL_H

#include "megalith/parameter.h"

/* One number a parameter, all of them or those of this rank's slices of the buckets, bucket after bucket. */
typedef struct flat_buffer {
    void *data;
    size_t bytes;
    mega_dtype dtype;
    bool is_shard;
    bool is_owned; /* else it lies in a region of the caller's, or is another buffer too */
} flat_buffer;

struct mega_params {
    const mega_layout *layout; /* borrowed */
    mega_param *param;
    int count, capacity;
    int32_t *slot; /* [num_slots], a hash table of names: the number of a parameter and 1; 0: free */
    int num_slots; /* a power of two, at least twice `count` */
    int part;      /* of what is declared next */
    mega_bucket *bucket;
    int num_buckets;
    int64_t elements; /* of a flat buffer, padding included */
    bool placed;
    mega_dtype compute, acc;
    int zero_stage;                     /* 0 where dp is one rank */
    flat_buffer weight, master, grad;   /* weight is master where compute equals acc */
    int64_t persistence, kept_elements; /* ZeRO 3: buckets up to the first stay whole, in `kept` */
    flat_buffer kept;
};

/* Size and rank of the axis that cuts a parameter; one and zero where none does. */
mega_axis mega_params_axis(const mega_params *p, mega_axis_name name);
/* Where index `local` along the cut dimension of this rank's slice stands in the whole tensor. */
int64_t mega_param_logical_index(const mega_param *r, mega_axis axis, int64_t local);

/* The number of the parameter of this name. The first request declares it. A later one must ask for the same shape and,
 * where `has_options`, for the same cut, initial values and place in the file. */
mega_status mega_params_request(mega_params *p, const mega_param *record, bool has_options, int *out_index);
/* MEGA_ERR_USAGE for a call that needs the parameters placed; no parameters always are. */
mega_status mega_params_check_placed(const mega_params *p, const char *call);
/* MEGA_ERR_USAGE for a call that comes before this buffer was allocated; no parameters need none. */
mega_status mega_params_check_buffer(const mega_params *p, const char *call, mega_params_buffers buffer);

#endif
