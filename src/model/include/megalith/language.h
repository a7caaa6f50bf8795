/* A model of tokens that is ready to run, made from what a folder says of it: generation and evaluation know no more.
 */
#ifndef MEGALITH_LANGUAGE_H
#define MEGALITH_LANGUAGE_H

#include "megalith/checkpoint.h"
#include "megalith/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Inputs and outputs of the list have the names that gpt.h says. */
typedef struct mega_language_model {
    mega_model model;            /* borrows from self, or from what the caller made it of */
    int64_t positions;           /* of the longest sequence */
    int64_t vocab, padded_vocab; /* ids, and columns of the logits */
    int stage_programs;          /* of each pipeline stage: mega_engine_options.stage_programs */
    void *self;                  /* of mega_language_model_create; else NULL */
} mega_language_model;           /* zero-initialised is valid and empty */

typedef struct mega_language_options {
    int tp, stages;         /* ranks that share the model: 0 counts as 1 */
    int64_t vocab_multiple; /* columns of the logits are padded to a multiple of it (speed only) */
    /* Layers of the first and of the last pipeline stage; 0: as many as the others. */
    int64_t first_stage_layers, last_stage_layers;
    /* Interleaved stages: programs of each stage, or the layers of each of its programs. 0: one program. */
    int64_t stage_programs, program_layers;
} mega_language_options;

/* Refuses ranks that cannot share the model, with the options that would. Dropout is 0. */
mega_status mega_language_model_create(const mega_model_shape *shape, const mega_language_options *options,
                                       mega_language_model *out);
void mega_language_model_fini(mega_language_model *m);

#ifdef __cplusplus
}
#endif

#endif
