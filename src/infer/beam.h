/* The rules of a beam search, without the model: which candidates continue, which texts have ended, and when to
 * stop. */
#ifndef MEGALITH_BEAM_H
#define MEGALITH_BEAM_H

#include "megalith/generator.h"

/* A possible next token of a beam; score: sum of the logarithms of the probabilities of its new tokens. */
typedef struct beam_candidate {
    double score;
    int32_t beam, token;
} beam_candidate;

/* Tokens of new text, one row of `most` for each beam. */
typedef struct beam_rows {
    int32_t *token;
    int64_t *count;
    double *score;
} beam_rows;

enum { BEAM_MORE_STOPS = 8 };

typedef struct beams {
    int64_t width, most; /* allocated: open beams, and new tokens of each */
    /* the search in progress */
    mega_beam_options options;
    int64_t max_new, made; /* new tokens at most, and of each open beam so far */
    beam_rows open, next;  /* [width]; next: for the following step */
    beam_rows ended;       /* [width + 1] texts that have ended, in no order */
    bool *is_stopped;      /* [width + 1] ended by the id `stop` */
    int num_ended;
    int32_t *source;      /* [width] the beam that each open beam continues */
    beam_candidate *best; /* [beams_candidates] */
} beams;

mega_status beams_create(int64_t width, int64_t most, beams **out);
void beams_destroy(beams *b); /* NULL is allowed */
/* The number of candidates of a step: enough that `width` beams go on if any go on, although others end. */
int beams_candidates(const beams *b);
void beams_begin(beams *b, const mega_beam_options *options, int64_t max_new);

/* Fills b->best with the best candidates among ids below draw_vocab, best first, and returns how many there are; their
 * probabilities are those among all of vocab. row(user, beam) returns the logits of one open beam, valid until the next
 * call; last(user, beam) its last token. */
typedef const float *beam_logits(void *user, int beam);
typedef int32_t beam_last(void *user, int beam);
int beams_rank(beams *b, int64_t vocab, int64_t draw_vocab, beam_logits *row, beam_last *last, void *user);
/* Takes the n candidates in b->best: fills `source`, and the open beams with one more token each. Returns whether the
 * search has ended. */
bool beams_step(beams *b, int n);
/* Ends the search, adding open beams if it has not ended by itself; fills texts [width] best first and returns their
 * number. */
int beams_finish(beams *b, bool is_done, mega_beam_text *texts);

#endif
