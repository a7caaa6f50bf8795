/* The inside of an encoder, for its files and their tests. */
#ifndef MEGALITH_TEXT_ENCODER_H
#define MEGALITH_TEXT_ENCODER_H

#include "bpe.h"
#include "megalith/threads.h"
#include "tokenizer_impl.h"
#include "word_cache.h"

/* A word being merged with ids and ranks of 16 bits; symbols keep their places and are linked. */
enum { MEGA_SYMBOLS16 = 4096, MEGA_SCRATCH_IDS = 12288 + 4 };
typedef struct mega_symbols16 {
    uint16_t rank[MEGA_SYMBOLS16]; /* of the symbol with the next one; MEGA_NO_RANK: none, or the symbol is gone */
    uint16_t least[MEGA_SYMBOLS16 / 16];
    uint16_t made[MEGA_SYMBOLS16]; /* id that the pair becomes */
    uint16_t id[MEGA_SYMBOLS16], next[MEGA_SYMBOLS16 + 1], prev[MEGA_SYMBOLS16 + 1];
    int32_t scratch[MEGA_SCRATCH_IDS]; /* ids of short words merged side by side */
} mega_symbols16;

typedef mega_status mega_encode_words(mega_encoder *e, const uint8_t *text, size_t n, size_t begin, mega_ids *out);

struct mega_encoder {
    const mega_tokenizer *tokenizer;
    mega_word_cache cache;   /* empty for kinds without merges */
    mega_symbols16 *symbols; /* NULL where the tokenizer has no table of pairs */
    mega_encode_words *words;
    mega_bpe bpe;
};

/* Where the next words end, up to `max` of them, the first beginning at `at` < n; returns how many. mega_word_end is
 * the definition. */
typedef int mega_word_ends(const uint8_t *text, size_t at, size_t n, size_t *end, int max);

/* The same functions compiled for several instruction sets. */
mega_encode_words mega_encode_words_avx512, mega_encode_words_avx2, mega_encode_words_portable;
mega_word_ends mega_word_ends_avx512, mega_word_ends_avx2, mega_word_ends_portable;

typedef struct mega_encode_set {
    mega_encode_words *words; /* by GPT-2's split, through the cache */
    mega_word_ends *ends;
} mega_encode_set;
mega_encode_set mega_encode_set_for(mega_isa isa);

/* The same in the plainest way: one word after the other, each merged anew. The definition of the above. */
mega_encode_words mega_encode_words_plain;

/* Merges one word of any length and leaves the ids in e->bpe.symbol. */
mega_status mega_encoder_merge(mega_encoder *e, const uint8_t *word, size_t n, size_t begin, int64_t *count);

/* Text without added tokens, one function a kind. `begin` is where the text stands in what the user gave, for messages.
 */
mega_status mega_encoder_bpe(mega_encoder *e, const uint8_t *text, size_t n, size_t begin, mega_ids *out);
mega_status mega_encoder_chars(const mega_tokenizer *t, const uint8_t *text, size_t n, size_t begin, mega_ids *out);
mega_status mega_encoder_numbers(const mega_tokenizer *t, const uint8_t *text, size_t n, size_t begin, mega_ids *out);

#endif
