/* Public patterns that split a text into words; merges never cross a word boundary. */
#ifndef MEGALITH_TEXT_PRETOKENIZE_H
#define MEGALITH_TEXT_PRETOKENIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the end of the word that starts at `at` < n, by the pattern of GPT-2
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * A byte that is not part of well-formed UTF-8 counts as one character of no class, so it joins runs of punctuation. To
 * split a text, call this repeatedly from 0 until n is reached; the whole text must be in memory. */
size_t mega_word_end(const uint8_t *text, size_t at, size_t n);

/* The patterns with a fast path:
 *   DIGITS  first every character of \p{N} by itself, then the pattern of GPT-2 in each part between (StarCoder)
 *   LINES   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+
 *           |\s+(?!\S)|\s+ (GPT-4, Llama 3)
 *   LINES1  the same with \p{N} (Qwen 2)
 *   PLAIN1  the same with \p{N} and without contractions (TikTokenizer's v1) */
typedef enum mega_split {
    MEGA_SPLIT_NONE,
    MEGA_SPLIT_GPT2,
    MEGA_SPLIT_DIGITS,
    MEGA_SPLIT_LINES,
    MEGA_SPLIT_LINES1,
    MEGA_SPLIT_PLAIN1,
} mega_split;

/* mega_word_end for any of them except NONE. */
size_t mega_split_end(mega_split split, const uint8_t *text, size_t at, size_t n);
/* Returns the pattern that an expression of a tokenizer.json means, as it is written in public files; NONE: no one. */
mega_split mega_split_of(const char *expression, size_t n);

#endif
