/* The internals of an opened checkpoint. */
#ifndef MEGALITH_CHECKPOINT_IMPL_H
#define MEGALITH_CHECKPOINT_IMPL_H

/* Advice for PyTorch weight files, which cannot be read. */
#define MEGA_CHECKPOINT_FROM_TORCH                                                                      \
    "PyTorch files cannot be read: load them with the program that wrote them and save the weights as " \
    "transformers does, config.json and model.safetensors with the names of GPT2LMHeadModel (docs/huggingface.md)"

#include "ckpt_impl.h"

/* A folder that was found damaged. */
typedef struct known_damage {
    char *folder;
    mega_error_record found;
    struct known_damage *next;
} known_damage;

/* checkpoint_mixture.c: writes to `out` the record by which a parameter of a mixture is read, with the files of the
 * dense model. *is_kept: the folder has nothing for it, and it keeps the values that it has. */
mega_status mega_checkpoint_source(const mega_checkpoint *c, const mega_param *p, mega_param *out, bool *is_kept);

/* How to open folders. */
typedef struct opening {
    mega_team *team;       /* borrowed; NULL: only the calling thread */
    mega_sums sums;        /* which files to checksum; the caller must check the others */
    known_damage *damaged; /* folders already found damaged */
    bool shape_alone;      /* config.json suffices: no weights are opened, and none need be there */
} opening;
mega_status mega_checkpoint_open_as(const char *path, bool any_whole, const opening *how, mega_checkpoint **out);

struct mega_checkpoint {
    char *folder;
    mega_team *team; /* borrowed; NULL: only the calling thread */
    int64_t iteration;
    mega_model_shape shape;
    mega_hf_weights weights;
    mega_safetensors *masters;  /* exact weights if model.safetensors has a narrower type, otherwise NULL */
    mega_safetensors *moments;  /* NULL: none were saved */
    mega_safetensors *client;   /* arrays of the calling program; NULL: none */
    char *run_json;             /* NULL: none */
    mega_checksums sums;        /* empty if the folder has no state/ */
    bool begins_classifier;     /* mega_checkpoint_begin_classifier */
    const mega_family *mixture; /* mega_checkpoint_begin_mixture; NULL: the weights are those of the folder's model */
    mega_params *dense;         /* of it: the parameters that the folder holds */
    bool says_ignored;          /* log once, on rank 0, which tensors of the folder are not read */
    uint64_t sums_hash;         /* hash of the checksums of all files except those that may differ; 0 without state/ */
};

#endif
