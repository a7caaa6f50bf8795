/* A language model that is ready to run, created from the shape in a model folder. Generation and evaluation use
 * only this interface. */
#ifndef MEGALITH_LANGUAGE_H
#define MEGALITH_LANGUAGE_H

#include "megalith/checkpoint.h"
#include "megalith/model.h"

/* The names of the inputs and outputs of `model` are those in transformer.h. */
typedef struct mega_language_model {
    mega_model model;            /* borrows from self, or from the caller's objects */
    int64_t positions;           /* length of the longest sequence */
    int64_t vocab, padded_vocab; /* number of ids; columns of the logits */
    bool has_source;             /* T5: an encoder reads the prompt, and the decoder begins with the id `start` */
    int32_t start;
    int stage_programs; /* per pipeline stage: mega_engine_options.stage_programs */
    void *self;         /* owned by mega_language_model_create; else NULL */
} mega_language_model;  /* a zero-initialized struct is valid and empty */

typedef struct mega_language_options {
    int tp, stages;         /* number of ranks that share the model; 0 means 1 */
    int64_t vocab_multiple; /* columns of the logits are padded to a multiple of this (only for speed) */
    /* Layers of the first and of the last pipeline stage; 0 means as many as the others. */
    int64_t first_stage_layers, last_stage_layers;
    /* Interleaved stages: the number of programs per stage, or of layers per program. 0 and 0 mean one program. */
    int64_t stage_programs, program_layers;
    double expert_buffer; /* as in transformer.h; 0: its default */
    bool encodes;         /* the model is an encoder, its output is "hidden" (transformer.h); otherwise refused */
} mega_language_options;

/* Creates the model without dropout. Returns MEGA_ERR_USAGE, and names options that would work, if the model cannot
 * be split over these ranks. */
mega_status mega_language_model_create(const mega_model_shape *shape, const mega_language_options *options,
                                       mega_language_model *out);
/* Gives an encoder the output "logits" of so many rows of each sample in place of "hidden" (transformer.h). To be
 * called before an engine is made of it. Returns MEGA_ERR_UNSUPPORTED if it has no head for masked tokens. */
mega_status mega_language_model_show_masks(mega_language_model *m, int64_t masks);
void mega_language_model_fini(mega_language_model *m);

#endif
