/* A model read from a folder: shape, tokenizer, and an engine with its weights that generates or evaluates. */
#ifndef MEGALITH_PRETRAINED_H
#define MEGALITH_PRETRAINED_H

#include "megalith/checkpoint.h"
#include "megalith/comm.h"
#include "megalith/engine_commands.h"
#include "megalith/language.h"
#include "megalith/tokenizer.h"

typedef struct mega_pretrained_options {
    mega_dtype compute; /* F32, BF16, F16 or F64 */
    mega_backend_kind backend;
    int64_t gpu;                /* with MEGA_BACKEND_CUDA: number of the GPU */
    const char *matmul_library; /* then: as mega_cuda_use_library takes it; NULL: own kernels */
    int64_t vocab_multiple;     /* rows of the vocabulary are padded to a multiple of it (speed only) */
    mega_team *team;            /* borrowed until fini; reads and runs; may be NULL */
    mega_world *world;          /* borrowed until fini, or NULL: one rank */
    mega_layout_sizes layout;   /* layout of the world's ranks; zeros: all are data parallel */
    /* Layers of the first and of the last pipeline stage; 0: as many as the others. */
    int64_t first_stage_layers, last_stage_layers;
    int64_t stage_programs, program_layers; /* interleaved stages, as in mega_language_options */
    double expert_buffer;                   /* as in mega_language_options */
    bool encodes;                           /* as in mega_language_options */
    size_t memory_limit;                    /* bytes that this process may hold (--memory-limit); 0: not given */
} mega_pretrained_options;

typedef struct mega_pretrained {
    mega_language_model language;
    mega_model_shape shape;      /* from the folder's config.json */
    mega_engine *engine;         /* created by mega_pretrained_load; NULL before */
    mega_tokenizer *tokenizer;   /* NULL when the folder has none */
    int32_t end[MEGA_SHAPE_EOS]; /* the ids that end a text, by the folder's files */
    int num_ends;
    int64_t masks;               /* of each sample, of the sizes that it was loaded with */
    int64_t iteration;           /* 0 if megalith did not write the folder */
    char *folder;                /* the folder that was read */
    mega_checkpoint *checkpoint; /* open between mega_pretrained_open and _load */
    mega_pretrained_options options;
} mega_pretrained; /* zero-initialised is valid and empty */

/* What the engine is for: MEGA_EVAL or MEGA_GENERATE; samples side by side, positions of each (the new ones of
 * generation included), mega_engine_options.prefill, and how many micro-batches the samples of a generation are cut
 * into; 0: 1. If they are not a multiple of it, some more samples have room. masks: as in
 * mega_language_model_show_masks; 0: none are shown. */
typedef struct mega_pretrained_sizes {
    mega_mode mode;
    int64_t samples, positions, prefill, micro_batches, masks;
} mega_pretrained_sizes;

/* The sizes of a generation of `samples` texts in micro_batches (0: 1), at most as many as texts; prompt_tokens as in
 * mega_generator_prefill, of a micro-batch. */
mega_pretrained_sizes mega_pretrained_generation(int64_t samples, int64_t positions, int64_t micro_batches,
                                                 int64_t prompt_tokens);
/* Checks that there is a model and that its files are undamaged; reads all of them. */
mega_status mega_pretrained_check(const char *path);
/* path: as for mega_checkpoint_open, but a missing or empty folder is an error. Reads everything except the weights, so
 * that the caller can compare the folder with its options before the weights are read. */
mega_status mega_pretrained_open(const char *path, const mega_pretrained_options *options, mega_pretrained *out);
/* Collective over the world. Creates the engine and reads the weights that this rank holds. To be called once. */
mega_status mega_pretrained_load(mega_pretrained *m, const mega_pretrained_sizes *sizes);
/* The number of ids that have text: those of the tokenizer (NULL: all of the model's). A checkpoint's vocabulary may be
 * padded beyond them. */
int64_t mega_pretrained_known(const mega_pretrained *m, const mega_tokenizer *tokenizer);
void mega_pretrained_fini(mega_pretrained *m);

#endif
