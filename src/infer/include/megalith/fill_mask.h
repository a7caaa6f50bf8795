/* Filling masks with a folder of BERT or its kin: which tokens a text may have where it has its mask.
 *
 *     mega_filler *f;
 *     mega_filler_open(&(mega_filler_setup){.folder = "bert", .positions = 64}, &f);
 *     mega_filler_encode(f, "the [MASK] jumps", tokens, 64, &count);
 *     const int64_t begin[] = {0, count};
 *     mega_masked_texts texts = {.tokens = tokens, .begin = begin, .count = 1, .top = 5};
 *     mega_filler_run(f, &texts, best, 5);
 *     mega_filler_destroy(f);
 *
 * Ranks that share the model make the same calls with the same arguments and get the same tokens. */
#ifndef MEGALITH_FILL_MASK_H
#define MEGALITH_FILL_MASK_H

#include "megalith/comm.h"
#include "megalith/dtype.h"
#include "megalith/memory.h"
#include "megalith/status.h"
#include "megalith/threads.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_filler mega_filler;

/* Arguments of mega_filler_open. A zero-initialized member means "not given". */
typedef struct mega_filler_setup {
    const char *folder; /* required: a Hugging Face folder of an encoder, or a folder in which pretrain_bert saved */
    mega_dtype compute; /* MEGA_F32, MEGA_BF16 or MEGA_F16 */
    int64_t texts;      /* texts that are read side by side; 0: 1 */
    int64_t positions;  /* of a text at most; each text takes the time of so many tokens; 0: as many as the model has */
    int64_t masks;      /* masks of a text that are filled at once; a text with more is read several times; 0: 1 */
    int64_t threads;    /* 0: all cores */
    int tp, pp;         /* ranks that share the model; 0: 1 */
    mega_world *world;  /* borrowed until destroy; NULL: created, of the ranks that were started */
    mega_team *team;    /* borrowed until destroy; NULL: created, of `threads` */
} mega_filler_setup;

/* Collective over the world. Reads a model with its tokenizer. Returns MEGA_ERR_NOT_FOUND, MEGA_ERR_FORMAT or
 * MEGA_ERR_UNSUPPORTED for the folder, MEGA_ERR_USAGE for a wrong setup or a tokenizer without a mask,
 * MEGA_ERR_MEMORY. */
MEGA_CHECK_RESULT mega_status mega_filler_open(const mega_filler_setup *setup, mega_filler **out);
void mega_filler_destroy(mega_filler *f);
/* Writes the ids of a text to ids [capacity], [CLS], [SEP] and masks included, and their number to *count. Returns
 * MEGA_ERR_USAGE if they do not fit; *count is set then too. */
MEGA_CHECK_RESULT mega_status mega_filler_encode(mega_filler *f, const char *text, int32_t *ids, int64_t capacity,
                                                 int64_t *count);
/* Appends the bytes of ids. */
MEGA_CHECK_RESULT mega_status mega_filler_decode(const mega_filler *f, const int32_t *ids, int64_t count,
                                                 mega_buffer *out);
int32_t mega_filler_mask(const mega_filler *f);      /* the id of the mask; -1 for NULL */
int64_t mega_filler_positions(const mega_filler *f); /* of a text at most; -1 for NULL */

/* A token and its probability. */
typedef struct mega_filling {
    int32_t token;
    float score;
} mega_filling;

/* Text i has the tokens begin[i] … begin[i + 1] - 1. */
typedef struct mega_masked_texts {
    const int32_t *tokens;
    const int64_t *begin; /* [count + 1] */
    int64_t count;
    int64_t top;            /* tokens wanted for each mask */
    const int32_t *targets; /* [num_targets] only these tokens are considered; NULL: all */
    int64_t num_targets;
} mega_masked_texts;

/* Collective over the ranks that share the model. Writes for each mask, in the order of the texts, its `top` most
 * probable tokens, the best first: out [masks * top], at most `room`. Probabilities are those among all tokens. Nothing
 * is allocated here. Returns MEGA_ERR_USAGE for wrong texts, MEGA_ERR_NUMERIC if the logits are not finite,
 * MEGA_ERR_INTERRUPTED on all ranks once the team of one is asked to stop. */
MEGA_CHECK_RESULT mega_status mega_filler_run(mega_filler *f, const mega_masked_texts *texts, mega_filling *out,
                                              int64_t room);

#ifdef __cplusplus
}
#endif

#endif
