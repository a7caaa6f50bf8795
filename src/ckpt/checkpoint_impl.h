/* An opened checkpoint. */
#ifndef MEGALITH_CHECKPOINT_IMPL_H
#define MEGALITH_CHECKPOINT_IMPL_H

#include "ckpt_impl.h"

struct mega_checkpoint {
    char *folder;
    mega_team *team; /* borrowed; NULL: the caller alone */
    int64_t iteration;
    mega_model_shape shape;
    mega_hf_weights weights;
    mega_safetensors *masters; /* exact weights where model.safetensors is narrower, else NULL */
    mega_safetensors *moments; /* NULL: none were saved */
    char *run_json;            /* NULL: none */
    uint64_t sums_hash;        /* of the checksums of all files but those that may differ; 0 without state/ */
};

#endif
