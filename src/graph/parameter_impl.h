/* What the files about parameters share. */
#ifndef MEGA_PARAMETER_IMPL_H
#define MEGA_PARAMETER_IMPL_H

#include "megalith/parameter.h"

struct mega_params {
    const mega_layout *layout; /* borrowed */
    mega_param *param;
    int count, capacity;
    mega_bucket *bucket;
    int num_buckets;
    int64_t elements; /* of a flat buffer, padding included */
    bool placed;
    mega_dtype compute, acc;
    void *weight, *master, *grad; /* flat; weight is master where compute equals acc */
    size_t weight_bytes, master_bytes, grad_bytes;
    bool is_lent; /* the buffers lie in a region of the caller's */
};

/* Size and rank of the axis that cuts a parameter; one and zero where none does. */
mega_axis mega_params_axis(const mega_params *p, mega_axis_name name);
/* Where index `local` along the cut dimension of this rank's slice stands in the whole tensor. */
int64_t mega_param_logical_index(const mega_param *r, mega_axis axis, int64_t local);

#endif
