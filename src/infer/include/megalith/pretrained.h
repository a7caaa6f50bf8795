/* A model read from a folder: shape, tokenizer, and an engine with its weights that generates or evaluates. */
#ifndef MEGALITH_PRETRAINED_H
#define MEGALITH_PRETRAINED_H

#include "megalith/checkpoint.h"
#include "megalith/comm.h"
#include "megalith/engine_commands.h"
#include "megalith/language.h"
#include "megalith/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_pretrained_options {
    mega_dtype compute; /* F32, BF16 or F64 */
    bool plain;
    int64_t vocab_multiple;   /* rows of the vocabulary are padded to a multiple of it (speed only) */
    mega_team *team;          /* borrowed until fini; reads and runs; may be NULL */
    mega_world *world;        /* borrowed until fini, or NULL: one rank */
    mega_layout_sizes layout; /* of its ranks; zeros: all of them are data parallel */
    /* Layers of the first and of the last pipeline stage; 0: as many as the others. */
    int64_t first_stage_layers, last_stage_layers;
    int64_t stage_programs, program_layers; /* interleaved stages, as in mega_language_options */
    size_t memory_limit; /* bytes that this process may hold (--memory-limit); 0: not given */
} mega_pretrained_options;

typedef struct mega_pretrained {
    mega_language_model language;
    mega_model_shape shape;      /* as the folder says it */
    mega_engine *engine;         /* of mega_pretrained_load; NULL before */
    mega_tokenizer *tokenizer;   /* NULL when the folder has none */
    int64_t iteration;           /* 0 for a folder that is no checkpoint of ours */
    char *folder;                /* the folder that was read */
    mega_checkpoint *checkpoint; /* from open to load */
    mega_pretrained_options options;
} mega_pretrained; /* zero-initialised is valid and empty */

/* What the engine is for: MEGA_EVAL or MEGA_GENERATE; samples side by side, positions of each (the new ones of
 * generation included), and mega_engine_options.prefill. */
typedef struct mega_pretrained_sizes {
    mega_mode mode;
    int64_t samples, positions, prefill;
} mega_pretrained_sizes;

mega_status mega_pretrained_check(const char *path); /* is there one, and are its files whole? Reads them all */
/* path: as mega_checkpoint_open takes it. A missing or empty folder is an error here. Reads everything but the weights:
 * what the folder says can be compared with what was asked for before they are. */
mega_status mega_pretrained_open(mega_pretrained *out, const char *path, const mega_pretrained_options *options);
/* Collective over the world. Makes the engine and reads the weights that this rank holds. Once. */
mega_status mega_pretrained_load(mega_pretrained *m, const mega_pretrained_sizes *sizes);
void mega_pretrained_fini(mega_pretrained *m);

#ifdef __cplusplus
}
#endif

#endif
