/* Text generation by an engine in MEGA_GENERATE: prompts are read in chunks, then one token of each sequence at a time.
 *
 * The engine has programs, weights and caches; the generator (generator.h) holds the texts. */
#ifndef MEGALITH_GENERATE_H
#define MEGALITH_GENERATE_H

#include "megalith/engine_commands.h"
#include "megalith/generator.h"
#include "megalith/language.h"
#include "megalith/tokenizer.h"

/* The text that an id is drawn for. The random number is addressed by (seed, index, count), so that a sequence gets the
 * same tokens in any batch. */
typedef struct mega_draw {
    uint64_t index;
    const int32_t *history; /* [count] the tokens so far */
    int64_t count;
    int64_t drawn; /* of them, how many were drawn, for top_p_decay */
} mega_draw;

typedef struct mega_candidate {
    double weight;
    int32_t id;
} mega_candidate;
/* Draws one id from logits[0..vocab). scratch: vocab entries, overwritten. */
int32_t mega_sample_token(const float *logits, int64_t vocab, const mega_sampling *s, const mega_draw *text,
                          mega_candidate *scratch);
/* The logarithm of the softmax of logits[0..vocab) at `id`. */
double mega_log_probability(const float *logits, int64_t vocab, int32_t id);
/* Whether none of logits[0..vocab) is NaN or infinite. */
bool mega_logits_are_finite(const float *logits, int64_t vocab);
/* MEGA_ERR_USAGE, with the member's name, if one is out of range: 0 < temperature (unless greedy); 0 <= top_p, min_p,
 * top_p_decay <= 1; 0 <= top_p_bound <= top_p; top_k, repetition_penalty >= 0. */
mega_status mega_sampling_check(const mega_sampling *s);

/* Ranks that share a model (of tensor parallelism, of a pipeline's stages) each call the same functions with the same
 * arguments and get the same tokens; each keeps the keys and values of its heads and layers. */
typedef struct mega_generator_options {
    int64_t draw_vocab; /* ids below it are drawn; 0: all of the model's. A checkpoint's vocabulary may be padded beyond
                           the tokenizer's, which has no text for those ids; log-probabilities are still the model's */
    bool no_cache;      /* read the whole sequence again for each token */
    bool has_beams;     /* mega_generator_beams will be called */
    const mega_tokenizer *tokenizer; /* borrowed; for mega_generation_rules.stop; or NULL */
    const char *folder;              /* borrowed; of the model, for messages; or NULL */
} mega_generator_options;

/* What mega_engine_options.prefill is for `samples` sequences of up to `positions` tokens: at most 64 tokens of each
 * prompt at a time, and prompt_tokens of all prompts (0: no limit). */
int64_t mega_generator_prefill(int64_t samples, int64_t positions, int64_t prompt_tokens);

/* engine: in MEGA_GENERATE, of the language model m; mega_engine_run_samples sequences side by side, of up to seq
 * tokens each, prompt and new ones. Borrowed until destroy; one generator at a time uses it. Local. */
mega_status mega_generator_create(mega_engine *engine, const mega_language_model *m,
                                  const mega_generator_options *options, mega_generator **out);

#endif
