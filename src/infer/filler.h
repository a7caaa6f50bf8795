/* Shared by the files that fill masks. */
#ifndef MEGALITH_INFER_FILLER_H
#define MEGALITH_INFER_FILLER_H

#include "megalith/filler.h"
#include "owned.h"

/* A sample: the masks of a text from a token on. */
typedef struct filler_place {
    int64_t text, at; /* text; token from which on masks are not filled yet */
    int64_t mask;     /* number of the first of them, among all texts */
    int64_t number;   /* of the sample */
} filler_place;

typedef struct filler_sample {
    int64_t mask, count; /* number of its first mask, and of its masks */
} filler_sample;

struct mega_filler {
    infer_owned *owned; /* NULL: the caller owns the engine */
    mega_engine *engine;
    const mega_tokenizer *tokenizer;
    const char *folder; /* of the model, for messages */
    int64_t positions, masks, vocab, padded_vocab;
    int64_t known; /* ids of the tokenizer: a checkpoint's vocabulary may be padded beyond them */
    int32_t mask, pad;
    filler_sample *sample; /* [samples of a run] */
    float *logits;         /* [vocab] */
    /* the run in progress */
    const mega_masked_texts *texts;
    mega_filling *out;
    filler_place next;
    bool is_infinite;
};

#endif
