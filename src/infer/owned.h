/* What a generator or a filler owns that a C program opened from a folder: model, tokenizer's encoder, threads,
 * world. */
#ifndef MEGALITH_INFER_OWNED_H
#define MEGALITH_INFER_OWNED_H

#include "megalith/pretrained.h"

/* The members of mega_generator_setup and of mega_filler_setup. */
typedef struct infer_setup {
    const char *call; /* for messages */
    const char *folder;
    mega_dtype compute;
    int64_t texts, positions, masks, micro_batches, threads, tp, pp, ep;
    mega_world *world;
    mega_team *team;
    bool encodes; /* the model is an encoder that fills masks; else it generates */
} infer_setup;

typedef struct infer_owned {
    mega_pretrained model;
    mega_encoder *encoder; /* NULL: the folder has no tokenizer */
    mega_team *team;       /* NULL: the caller's */
    bool owns_world;
    mega_world *world;
} infer_owned;

/* Collective over the world. Checks the setup and reads the model. */
mega_status infer_owned_open(const infer_setup *setup, infer_owned **out);
void infer_owned_destroy(infer_owned *own); /* NULL is allowed */
/* Copies the ids of a text; `call` is for messages. */
mega_status infer_copy_ids(const char *call, const mega_ids *all, int32_t *ids, int64_t capacity, int64_t *count);

#endif
