/* Learns merges from counted words (Sennrich et al. 2016), on bytes or on characters. */
#ifndef MEGALITH_TEXT_BPE_TRAIN_H
#define MEGALITH_TEXT_BPE_TRAIN_H

#include "megalith/tokenizer_train.h"
#include "tokenizer/vocabulary.h"
#include "word_counts.h"

/* The vocabulary must hold the 256 single bytes in GPT-2's order; new tokens are added after them until it has
 * `vocab_size` tokens, or no pair occurs `min_frequency` times. Merges the most frequent pair first; among equally
 * frequent ones the pair with the lower left id, then the lower right id, as Hugging Face's trainer does. Returns
 * MEGA_ERR_MEMORY. */
mega_status mega_bpe_train(mega_vocabulary *vocabulary, mega_merges *merges, const mega_word_counts *words,
                           int64_t vocab_size, int64_t min_frequency, mega_trainer_report *report, void *user);
/* The same on characters, for the tokens alone: a word begins with a character, and the others follow it with `inner`
 * in front. The vocabulary must hold these; a character that it lacks is left out of its word. A token that is made of
 * two others has the `inner` of its first part only. */
mega_status mega_bpe_train_characters(mega_vocabulary *vocabulary, const char *inner, const mega_word_counts *words,
                                      int64_t vocab_size, int64_t min_frequency, mega_trainer_report *report,
                                      void *user);

#endif
