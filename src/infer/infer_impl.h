/* Shared by the files that generate: the generator, and the parts of a run. */
#ifndef MEGALITH_INFER_IMPL_H
#define MEGALITH_INFER_IMPL_H

#include "beam.h"
#include "megalith/generate.h"

enum { NOT_FINITE = -1 };

/* What the last stage says about a sequence after a run: the token drawn for it, or the next one of its prompt, and the
 * logarithm of its probability. NOT_FINITE in place of a token: nothing can be drawn from such logits. */
typedef struct generator_told {
    int32_t token;
    float logprob;
} generator_told;

struct mega_generator {
    struct infer_owned *owned; /* owned.h; NULL: the caller owns the engine */
    mega_language_model m;
    mega_generator_options options;
    mega_engine *engine;
    int64_t batch, capacity; /* number of sequences; most tokens of a sequence */
    int32_t *filled;         /* [batch] rows of each cache that are filled */
    int32_t *history;        /* [batch, capacity] prompt, followed by new tokens */
    int64_t *length;         /* [batch] tokens in history */
    int64_t *taken;          /* [batch] rows given to the run in progress */
    int32_t *source;         /* [batch] tokens that the encoder has read, of a model with one */
    bool *active;            /* [batch] */
    generator_told *told;    /* [batch] */
    mega_candidate *scratch; /* [vocab] */
    float *logits;           /* [vocab], float for any compute type */
    mega_buffer *tail;       /* [batch] the last bytes of each text, while texts end it */
    beams *beams;            /* NULL: the generator searches no beams */
    /* the run in progress: its texts and rules, borrowed */
    mega_generation *text;
    int count;
    const mega_generation_rules *rules;
    bool reads_singly;   /* prompts are read one token at a time */
    const char *running; /* the call that has not returned, whose callbacks may not make another; NULL: none */
};

/* generate.c: what a call that draws tokens begins with, and ends with, where it returns st. */
mega_status generator_enter(mega_generator *g, const char *call);
mega_status generator_leave(mega_generator *g, mega_status st);

/* generate_rows.c: one run of a program, and what the last stage reads from its logits. */

/* The largest number of tokens that are not yet in the cache of their sequence; 0: no sequence is active. */
int64_t generator_most_pending(const mega_generator *g);
/* The tokens of a text before the new ones: its prompt or, where an encoder reads that, the id with which a decoder
 * begins. */
int64_t generator_begin_text(mega_generator *g, int64_t b, const mega_generation *text);
/* Where the model has an encoder: it reads the prompts of `count` texts or, if is_same, one prompt for all
 * sequences. */
mega_status generator_read_sources(mega_generator *g, const mega_generation *text, int count, bool is_same);
/* Runs all layers on the pending tokens of each active sequence, as many as fit, and fills `taken`. *out: the program
 * that ran. */
mega_status generator_run_rows(mega_generator *g, mega_run *out);
/* Logits of sequence b after a run of the program, in float; NULL: another stage has them. Each rank of tp has computed
 * those of a part of the vocabulary. Valid until the next call. */
const float *generator_row_logits(mega_generator *g, mega_run program, int64_t b);

/* generate.c: whether a text is one that g can generate; b is its number, for messages. */
mega_status generator_check_text(const mega_generator *g, const mega_generation *s, int b);

/* Returns the error of all stages if the last one found logits that are not finite after this number of tokens. */
mega_status generator_not_finite(const mega_generator *g, int64_t tokens);

/* generate_end.c: whether the last token of sequence b ends it. */
mega_status generator_ends_begin(mega_generator *g);
mega_status generator_ends(mega_generator *g, int b, bool *out);

#endif
