/* An opened checkpoint. */
#ifndef MEGALITH_CHECKPOINT_IMPL_H
#define MEGALITH_CHECKPOINT_IMPL_H

/* What to do with weights in files of PyTorch, which are not read. */
#define MEGA_CHECKPOINT_FROM_TORCH                                                                       \
    "files of PyTorch are not read: load them with the program that wrote them and save the weights as " \
    "transformers does, config.json and model.safetensors with the names of GPT2LMHeadModel (docs/huggingface.md)"

#include "ckpt_impl.h"

/* A folder that was found damaged. */
typedef struct known_damage {
    char *folder;
    mega_error_record found;
    struct known_damage *next;
} known_damage;

/* How folders are opened. */
typedef struct opening {
    mega_team *team;       /* as in a checkpoint */
    mega_sums sums;        /* those left out are for the caller to see to */
    known_damage *damaged; /* known already */
} opening;
mega_status mega_checkpoint_open_as(mega_checkpoint **out, const char *path, bool any_whole, const opening *how);

struct mega_checkpoint {
    char *folder;
    mega_team *team; /* borrowed; NULL: the caller alone */
    int64_t iteration;
    mega_model_shape shape;
    mega_hf_weights weights;
    mega_safetensors *masters; /* exact weights where model.safetensors is narrower, else NULL */
    mega_safetensors *moments; /* NULL: none were saved */
    mega_safetensors *client;  /* arrays of the caller; NULL: none */
    char *run_json;            /* NULL: none */
    mega_checksums sums;       /* empty without state/ */
    uint64_t sums_hash;        /* of the checksums of all files but those that may differ; 0 without state/ */
};

#endif
