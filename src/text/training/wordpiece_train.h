/* Learns the vocabulary of BERT's WordPiece, as the trainer of `tokenizers` does: words by BERT's normalizer and its
 * split, their characters, and merges of these. */
#ifndef MEGALITH_TEXT_WORDPIECE_TRAIN_H
#define MEGALITH_TEXT_WORDPIECE_TRAIN_H

#include "megalith/tokenizer_train.h"
#include "tokenizer/pipeline.h"
#include "word_counts.h"

/* Splits text into words; for one thread. Zero-initialised is valid and empty. */
typedef struct mega_wordpiece_words {
    mega_pipeline *steps;
    mega_buffer normal, splitted[2];
    mega_pieces pieces[2];
} mega_wordpiece_words;

mega_status mega_wordpiece_words_init(mega_wordpiece_words *w, bool lower);
void mega_wordpiece_words_fini(mega_wordpiece_words *w);
mega_status mega_wordpiece_words_count(mega_wordpiece_words *w, const char *text, size_t n, mega_word_counts *out);

/* Appends the lines of vocab.txt: five special tokens, the characters (of 1,000 at most, the most frequent ones), the
 * same inside a word, and what is made of them, until there are `vocab_size` or no pair occurs `min_frequency` times.
 * Returns MEGA_ERR_USAGE if the characters alone are more. */
mega_status mega_wordpiece_train(const mega_word_counts *words, int64_t vocab_size, int64_t min_frequency,
                                 mega_trainer_report *report, void *user, mega_buffer *vocab_txt);

#endif
