/* GPT-2's split of a text into words; merges never cross a word boundary. */
#ifndef MEGALITH_TEXT_PRETOKENIZE_H
#define MEGALITH_TEXT_PRETOKENIZE_H

#include <stddef.h>
#include <stdint.h>

/* Returns the end of the word that starts at `at` < n, by the pattern
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * A byte that is not part of well-formed UTF-8 counts as one character of no class, so it joins runs of punctuation. To
 * split a text, call this repeatedly from 0 until n is reached; the whole text must be in memory. */
size_t mega_word_end(const uint8_t *text, size_t at, size_t n);

#endif
