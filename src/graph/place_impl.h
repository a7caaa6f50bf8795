/* Declarations shared by the files of the place pass. */
#ifndef MEGA_PLACE_IMPL_H
#define MEGA_PLACE_IMPL_H

#include "edit_impl.h"

typedef struct place {
    mega_graph *g;
    graph_edit edit;
    int *first, *last; /* by bucket: first and last instruction that adds to its gradients */
    int *result;       /* by bucket: which result of the first instruction that is */
    int *sequence;     /* buckets in the order of their first use, in reduce_to_slices of their last */
    int num_sequence;
    int32_t *whole; /* by bucket: the value that holds all its gradients */
} place;

/* pass_place.c */
mega_status mega_place_insert(place *p, int before, bool backward, instruction op);
int32_t mega_place_bucket_tensor(place *p, int bucket, bool gradients); /* 0: out of memory */
int64_t mega_place_param_offset(const mega_graph *g, int param);        /* offset in its bucket, in elements */
/* pass_place_held.c: gradients that are held in 16 bits */
mega_status mega_place_held_gradients(place *p);
/* pass_place_weights.c: ZeRO 3 */
mega_status mega_place_weight_gathers(place *p);

#endif
