/* A model read from a folder: shape, weights and tokenizer, ready for generation or evaluation. No optimizer. */
#ifndef MEGALITH_PRETRAINED_H
#define MEGALITH_PRETRAINED_H

#include "megalith/checkpoint.h"
#include "megalith/comm.h"
#include "megalith/language.h"
#include "megalith/parameter.h"
#include "megalith/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_pretrained {
    mega_language_model language;
    mega_model_shape shape; /* as the folder says it */
    mega_layout *layout;
    mega_params *params;       /* weights only, no gradients; of this rank's pipeline stage */
    mega_tokenizer *tokenizer; /* NULL when the folder has none */
    int64_t iteration;         /* 0 for a folder that is no checkpoint of ours */
    char *folder;              /* the folder that was read */
} mega_pretrained;             /* zero-initialised is valid and empty */

typedef struct mega_pretrained_options {
    mega_dtype compute;       /* F32, BF16 or F64 */
    int64_t vocab_multiple;   /* rows of the vocabulary are padded to a multiple of it (speed only) */
    mega_team *team;          /* reads it; may be NULL */
    mega_world *world;        /* borrowed, or NULL: one rank */
    mega_layout_sizes layout; /* of its ranks; zeros: all of them are data parallel */
    /* Layers of the first and of the last pipeline stage; 0: as many as the others. */
    int64_t first_stage_layers, last_stage_layers;
    size_t memory_limit; /* bytes that this process may hold (--memory-limit); 0: not given */
} mega_pretrained_options;
/* path: as mega_checkpoint_open takes it. A missing or empty folder is an error here. Each rank reads what it holds. */
mega_status mega_pretrained_check(const char *path); /* is there one, and are its files whole? Reads them all */
mega_status mega_pretrained_load(mega_pretrained *out, const char *path, const mega_pretrained_options *options);
void mega_pretrained_fini(mega_pretrained *m);

#ifdef __cplusplus
}
#endif

#endif
