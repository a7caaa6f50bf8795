/* Learns merges from counted words (Sennrich et al. 2016, on bytes). */
#ifndef MEGALITH_TEXT_BPE_TRAIN_H
#define MEGALITH_TEXT_BPE_TRAIN_H

#include "megalith/tokenizer_train.h"
#include "vocabulary.h"
#include "word_counts.h"

/* The vocabulary must hold the 256 single bytes in GPT-2's order; new tokens are added after them until it has
 * `vocab_size` tokens, or no pair occurs `min_frequency` times. Merges the most frequent pair first; among equally
 * frequent ones the pair with the lower left id, then the lower right id, as Hugging Face's trainer does. Returns
 * MEGA_ERR_MEMORY. */
mega_status mega_bpe_train(mega_vocabulary *vocabulary, mega_merges *merges, const mega_word_counts *words,
                           int64_t vocab_size, int64_t min_frequency, mega_trainer_report *report, void *user);

#endif
