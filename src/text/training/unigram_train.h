/* Learns the pieces of a Unigram model (Kudo 2018), as the trainer of SentencePiece does: seeds from a suffix array,
 * rounds of EM, after each of which the pieces go that are missed least, and the final choice. */
#ifndef MEGALITH_TEXT_UNIGRAM_TRAIN_H
#define MEGALITH_TEXT_UNIGRAM_TRAIN_H

#include "megalith/threads.h"
#include "megalith/tokenizer_train.h"
#include "word_counts.h"

typedef struct mega_unigram_word {
    const char *text; /* borrowed from the counts */
    uint32_t size;
    int64_t count;
} mega_unigram_word;

typedef struct mega_unigram_piece {
    size_t begin; /* in the bytes of the model */
    uint32_t size;
    double score; /* log of its probability; of a seed, how often it occurs times its length */
} mega_unigram_piece;

typedef struct mega_unigram {
    mega_unigram_word *word; /* in order of their bytes, so that no sum depends on the order of the text */
    int64_t words;
    uint32_t *covered; /* characters that are pieces in any case; the most frequent first */
    int64_t num_covered;
    double coverage; /* the share of the text that these make up */
    mega_buffer bytes;
    mega_unigram_piece *piece;
    int64_t pieces, capacity;
    mega_team *team;
} mega_unigram;

/* Counts the words of a text: what white space (blank, tab, end of line) divides, with U+2581 in front. Long ones are
 * cut. `scratch` is the caller's. */
mega_status mega_unigram_count(const char *text, size_t n, mega_buffer *scratch, mega_word_counts *out);

/* Learns at most `wanted` pieces, the best first; the characters that make up `coverage` of the text are among them.
 * Returns MEGA_ERR_USAGE if these alone are more. The result is the same for any number of workers. */
mega_status mega_unigram_train(const mega_word_counts *words, int64_t wanted, double coverage, int workers,
                               mega_trainer_report *report, void *user, mega_unigram *out);
void mega_unigram_fini(mega_unigram *u);

/* For the files of the trainer. Finds the characters and the seeds; scores are their weights. */
mega_status mega_unigram_seed(mega_unigram *u);
mega_status mega_unigram_add_piece(mega_unigram *u, const char *bytes, size_t n, double score);
static inline const char *mega_unigram_bytes(const mega_unigram *u, int64_t piece)
{
    return u->bytes.data + u->piece[piece].begin;
}
enum { MEGA_UNIGRAM_LONGEST_WORD = 192 }; /* in bytes */

/* Writes what was learnt as a SentencePiece model: <pad>, </s> and <unk> come first, as in T5. */
mega_status mega_unigram_model(const mega_unigram *u, mega_buffer *out);

#endif
