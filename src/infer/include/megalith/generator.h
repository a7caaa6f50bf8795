/* Text generation with a model folder: how tokens are drawn, when a text ends, beams, and what is reported.
 *
 *     mega_generator *g;
 *     mega_generator_open(&(mega_generator_setup){.folder = "gpt2"}, &g);
 *     mega_generator_encode(g, "In the beginning", prompt, 64, &count);
 *     mega_generation text = {.prompt = prompt, .prompt_count = count, .max_new = 32, .tokens = tokens};
 *     mega_generator_run(g, &text, 1, &(mega_generation_rules){.sampling.greedy = true});
 *     mega_generator_decode(g, text.tokens, text.count, &buffer);
 *     mega_generator_destroy(g);
 *
 * Ranks that share the model make the same calls with the same arguments and get the same tokens. */
#ifndef MEGALITH_GENERATOR_H
#define MEGALITH_GENERATOR_H

#include "megalith/comm.h"
#include "megalith/dtype.h"
#include "megalith/memory.h"
#include "megalith/status.h"
#include "megalith/threads.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the next token is drawn. The steps, in this order:
 *   repetition_penalty r: the logit x of each id that the text contains already becomes x / r if x > 0, else x * r
 *   forbids: after the id forbidden_after the id `forbidden` is not drawn
 *   temperature: logits / temperature
 *   top_k: drops logits below the k-th largest one (ties stay)
 *   top_p: drops the tail beyond cumulative probability p (the token that crosses it stays)
 *   min_p: drops ids less probable than min_p times the most probable one
 * After each token p becomes max(p * top_p_decay, top_p_bound). Members that are 0 are off. */
typedef struct mega_sampling {
    bool greedy; /* largest logit, the lowest id among equals; also with top_k == 1 */
    double temperature, top_p;
    int64_t top_k;
    uint32_t seed;
    double top_p_decay, top_p_bound, min_p, repetition_penalty;
    bool forbids;
    int32_t forbidden, forbidden_after;
} mega_sampling;

typedef struct mega_generator mega_generator;

/* Arguments of mega_generator_open. A zero-initialized member means "not given". */
typedef struct mega_generator_setup {
    const char *folder; /* required: a Hugging Face model folder, or a folder in which a training saved */
    mega_dtype compute; /* MEGA_F32, MEGA_BF16 or MEGA_F16 */
    int64_t texts;      /* texts generated side by side, or open beams; 0: 1 */
    int64_t positions;  /* of a text at most, prompt included, for which caches are made; of a T5: of the prompt, and of
                           the text; 0: as many as the model has */
    bool has_beams;     /* mega_generator_beams will be called */
    bool no_cache;      /* keep no keys and values: read the whole text again for each token */
    int64_t threads;    /* 0: all cores */
    int tp, pp, ep;     /* ranks that share the model; 0: 1. Those of ep divide its experts */
    int micro_batches;  /* parts of the texts that pipeline stages work on at the same time; 0: 1 */
    mega_world *world;  /* borrowed until destroy; NULL: created, of the ranks that were started */
    mega_team *team;    /* borrowed until destroy; NULL: created, of `threads` */
} mega_generator_setup;

/* Collective over the world. Reads a model with its tokenizer and makes a generator, which mega_generator_destroy
 * frees. Returns MEGA_ERR_NOT_FOUND, MEGA_ERR_FORMAT or MEGA_ERR_UNSUPPORTED for the folder, MEGA_ERR_USAGE for a wrong
 * setup, MEGA_ERR_MEMORY. */
MEGA_CHECK_RESULT mega_status mega_generator_open(const mega_generator_setup *setup, mega_generator **out);
/* Writes the ids of a text to ids [capacity], special tokens included, and their number to *count. Returns
 * MEGA_ERR_USAGE if they do not fit; *count is set then too. */
MEGA_CHECK_RESULT mega_status mega_generator_encode(mega_generator *g, const char *text, int32_t *ids, int64_t capacity,
                                                    int64_t *count);
/* Appends the bytes of ids, which may end inside a character of UTF-8. */
MEGA_CHECK_RESULT mega_status mega_generator_decode(const mega_generator *g, const int32_t *ids, int64_t count,
                                                    mega_buffer *out);
int64_t mega_generator_vocab(const mega_generator *g);     /* ids below it are drawn; -1 for NULL */
int64_t mega_generator_positions(const mega_generator *g); /* of a text at most; -1 for NULL */
int32_t mega_generator_end(const mega_generator *g);       /* the id that ends a document; -1: none */

typedef struct mega_generation {
    const int32_t *prompt; /* at least one token */
    int64_t prompt_count;
    int64_t max_new;
    uint64_t index;  /* number of the text; determines its random numbers */
    int64_t drawn;   /* how many tokens top_p_decay counts as drawn before the first; 0 for a text on its own */
    int32_t *tokens; /* [max_new], filled */
    float *logprobs; /* NULL, or [prompt_count - 1 + max_new], filled: the logarithm of the probability that the model
                         gave to each token after the first, before temperature and filters. The prompt is then read one
                         token at a time. Where an encoder reads the prompt: [max_new], of the new tokens */
    int64_t count;   /* filled: number of new tokens, including those that ended the text */
    bool finished;   /* filled: ended by an id or a sequence of the rules */
} mega_generation;

/* Ids that end a text when they are drawn one after the other. */
typedef struct mega_id_sequence {
    const int32_t *id;
    int count;
} mega_id_sequence;

/* Called on every rank for each new token. Returning false stops the run (MEGA_OK; tokens made so far stay); ranks that
 * share a model must return the same. */
typedef bool mega_token_sink(void *user, int row, int32_t token);
/* Called on every rank before the token of a row is drawn from these logits. */
typedef void mega_logits_sink(void *user, int row, const float *logits, int64_t vocab);

/* How texts are drawn and when they end. Everything is borrowed during the run. */
typedef struct mega_generation_rules {
    mega_sampling sampling;
    const mega_id_sequence *end; /* each ends a text, which includes it */
    int num_ends;
    const char *const *stop; /* texts that end a generated text, which includes them; the generator needs a tokenizer */
    int num_stops;
    mega_token_sink *token;   /* or NULL */
    mega_logits_sink *logits; /* or NULL */
    void *user;
} mega_generation_rules;

enum { MEGA_LONGEST_STOP = 256 }; /* bytes of a text of `stop` */

/* Collective over the ranks that share a model. count sequences, at most as many as the generator was made for. Nothing
 * is allocated here. Returns MEGA_ERR_INTERRUPTED on all ranks of a model after the current instruction, once the team
 * of one is asked to stop (mega_team_stop_on); the tokens made before stay. Returns MEGA_ERR_USAGE if a sequence or a
 * rule cannot be followed. */
MEGA_CHECK_RESULT mega_status mega_generator_run(mega_generator *g, mega_generation *sequences, int count,
                                                 const mega_generation_rules *rules);

/* ---- beam search ---- */

/* When the search ends, of the rules of Hugging Face transformers. The search is full once `width` texts have ended. */
typedef enum mega_early_stopping {
    MEGA_EARLY_STOPPING_FALSE, /* full, and no open beam, at its present length, has a better score than the worst */
    MEGA_EARLY_STOPPING_TRUE,  /* full */
    MEGA_EARLY_STOPPING_NEVER  /* as FALSE, but with length_penalty > 0 at the greatest length */
} mega_early_stopping;
typedef enum mega_beam_rules { MEGA_BEAMS_MEGATRON, MEGA_BEAMS_TRANSFORMERS } mega_beam_rules;

/* The score of a text is the sum of the logarithms of the probabilities of its new tokens, divided by their number to
 * the power length_penalty. The rules of Megatron keep the best `width` texts and end when no open beam, at its present
 * length, has a better score than the worst of these. Those of transformers differ in what early_stopping says, and in
 * a text that reaches max_new: it is one that has ended. */
typedef struct mega_beam_options {
    int width; /* number of open beams; at most as many sequences as the generator was made for */
    double length_penalty;
    int32_t stop;              /* the id that ends a text; -1: none */
    const int32_t *more_stops; /* [num_more_stops], at most 8: others that end one; borrowed; or NULL */
    int num_more_stops;
    mega_beam_rules rules;
    mega_early_stopping early_stopping;
    bool forbids; /* as in mega_sampling */
    int32_t forbidden, forbidden_after;
    /* Called on every rank after each step, or NULL. Returning false ends the search as if max_new were reached; ranks
     * that share a model must return the same. */
    bool (*step)(void *user);
    void *user;
} mega_beam_options;

typedef struct mega_beam_text {
    int32_t *tokens; /* [max_new], filled: new tokens, with the one that ended the text */
    int64_t count;   /* filled */
    double score;    /* filled */
    bool finished;   /* filled: ended by `stop` or one of more_stops */
} mega_beam_text;

/* Collective over the ranks that share a model. Finds texts that continue one prompt, of at most max_new new tokens;
 * max_new is 1 or more. texts [width] are filled best first; *count: how many there are. Nothing is allocated here, and
 * keys and values move in place. Returns what mega_generator_run returns. */
MEGA_CHECK_RESULT mega_status mega_generator_beams(mega_generator *g, const int32_t *prompt, int64_t prompt_count,
                                                   int64_t max_new, const mega_beam_options *options,
                                                   mega_beam_text *texts, int *count);
/* NULL is allowed. In a callback of one of the two calls above, which cannot be made there either, it does nothing but
 * warn. */
void mega_generator_destroy(mega_generator *g);

#ifdef __cplusplus
}
#endif

#endif
