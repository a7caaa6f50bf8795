/* Text generation by an engine in MEGA_GENERATE: prompts are read in chunks, then one token of each sequence at a time.
 *
 * A generator holds the texts being generated; the engine has programs, weights and caches. */
#ifndef MEGALITH_GENERATE_H
#define MEGALITH_GENERATE_H

#include "megalith/engine_commands.h"
#include "megalith/language.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the next token is drawn (Megatron's rules): logits / temperature; top_k > 0 drops logits below the k-th largest
 * one (ties stay); top_p > 0 then drops the tail beyond cumulative probability p (the token that crosses it stays).
 */
typedef struct mega_sampling {
    bool greedy; /* largest logit, the lowest id among equals; also with top_k == 1 */
    double temperature, top_p;
    int64_t top_k;
    uint32_t seed;
} mega_sampling;

/* Draws one id from logits[0..vocab). The random number is addressed by (seed, index, position), so that a sequence
 * gets the same tokens in any batch. scratch: vocab entries, overwritten. */
typedef struct mega_candidate {
    double weight;
    int32_t id;
} mega_candidate;
int32_t mega_sample_token(const float *logits, int64_t vocab, const mega_sampling *s, uint64_t index, int64_t position,
                          mega_candidate *scratch);

/* Ranks that share a model (of tensor parallelism, of a pipeline's stages) each call the same functions with the same
 * arguments and get the same tokens; each keeps the keys and values of its heads and layers. */
typedef struct mega_generator mega_generator;
typedef struct mega_generator_options {
    int64_t draw_vocab; /* ids below it are drawn, as if there were no others; 0: all of the model's. A checkpoint's
                           vocabulary may be padded beyond the tokenizer's, which has no text for those ids */
    bool no_cache;      /* read the whole sequence again for each token */
} mega_generator_options;

/* What mega_engine_options.prefill is for `samples` sequences of up to `positions` tokens: at most 64 tokens of each
 * prompt at a time, and prompt_tokens of all prompts (0: no limit). */
int64_t mega_generator_prefill(int64_t samples, int64_t positions, int64_t prompt_tokens);

/* engine: in MEGA_GENERATE, of the language model m; micro_batch sequences side by side, of up to seq tokens each,
 * prompt and new ones. Borrowed until destroy; one generator at a time uses it. Local. */
mega_status mega_generator_create(mega_engine *engine, const mega_language_model *m,
                                  const mega_generator_options *options, mega_generator **out);
void mega_generator_destroy(mega_generator *g);

typedef struct mega_generation {
    const int32_t *prompt; /* at least one token */
    int64_t prompt_count;
    int64_t max_new;
    uint64_t index;  /* number of the text; determines its random numbers */
    int32_t *tokens; /* [max_new], filled */
    int64_t count;   /* filled: number of new tokens, including the end-of-document id if it was drawn */
    bool finished;   /* filled: ended by `eod` */
} mega_generation;

/* Called on every rank for each new token. Returning false stops the run (MEGA_OK; tokens made so far stay); ranks that
 * share a model must return the same. */
typedef bool mega_token_sink(void *user, int row, int32_t token);
/* Collective over tp and pp. count sequences, at most micro_batch. eod -1: none. sink may be NULL. Nothing is allocated
 * here. Returns MEGA_ERR_INTERRUPTED on all ranks of a model after the current instruction, once the team of one is
 * asked to stop (mega_team_stop_on); the tokens made before stay. */
mega_status mega_generator_run(mega_generator *g, mega_generation *sequences, int count, const mega_sampling *sampling,
                               int32_t eod, mega_token_sink *sink, void *user);

#ifdef __cplusplus
}
#endif

#endif
