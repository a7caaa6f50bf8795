/* What the files about parameters share. */
#ifndef MEGA_PARAMETER_IMPL_H
#define MEGA_PARAMETER_IMPL_H

#include "megalith/memory.h"
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
    int32_t *slot; /* [num_slots], a hash table of names of parameters and their tensors of the file; 0: free */
    int num_slots; /* a power of two, at least twice `names` */
    int names;
    mega_arena text; /* names of tensors of the file */
    int program;     /* of what is declared next */
    mega_bucket *bucket;
    int num_buckets;
    int64_t elements;       /* of a flat buffer, padding included */
    int64_t state_elements; /* those before the frozen parameters, which lie at its end */
    bool placed;
    mega_dtype compute, acc;
    int zero_stage;                     /* 0 where dp is one rank */
    flat_buffer weight, master, grad;   /* weight is master where compute equals acc */
    int64_t persistence, kept_elements; /* ZeRO 3: buckets up to the first stay whole, in `kept` */
    flat_buffer kept;
};

/* Size and rank of the axis that cuts a parameter; one and zero where none does. */
mega_axis mega_params_axis(const mega_params *p, mega_axis_name name);

/* parameter_parts.c: a record as the list keeps it has at least one part; what is valid gets one spelling. */
void mega_param_complete_parts(mega_param *r);
/* Of a complete record that `ranks` ranks cut: each row of it and of its tensors of the file is in one part. */
mega_status mega_param_check_parts(const mega_param *r, int64_t ranks);
bool mega_param_parts_equal(const mega_param *a, const mega_param *b);

/* The number of the parameter of this name. The first request declares it. A later one must ask for the same shape and,
 * where `has_options`, for the same cut, initial values and place in the file. */
mega_status mega_params_request(mega_params *p, const mega_param *record, bool has_options, int *out_index);
/* MEGA_ERR_USAGE for a call that needs the parameters placed; no parameters always are. */
mega_status mega_params_check_placed(const mega_params *p, const char *call);
/* MEGA_ERR_USAGE for a call that comes before this buffer was allocated; no parameters need none. */
mega_status mega_params_check_buffer(const mega_params *p, const char *call, mega_params_buffers buffer);

#endif
