/* The inside of an encoder, for its files and their tests. */
#ifndef MEGALITH_TEXT_ENCODER_H
#define MEGALITH_TEXT_ENCODER_H

#include "bpe.h"
#include "tokenizer_impl.h"

/* A word seen before and its ids, in one cache line. A slot belongs to whatever word of its hash came last: no chains,
 * no eviction to think about, and results never depend on what is in it. */
enum { MEGA_CACHE_SLOTS = 1 << 15, MEGA_CACHE_WORD = 30, MEGA_CACHE_IDS = 8 };
typedef struct mega_cached_word {
    int32_t id[MEGA_CACHE_IDS];
    uint8_t word[MEGA_CACHE_WORD]; /* zero-filled behind its end */
    uint8_t size, count;           /* size 0: empty */
} mega_cached_word;

struct mega_encoder {
    const mega_tokenizer *tokenizer;
    mega_cached_word *cache; /* NULL for kinds without merges */
    mega_bpe bpe;
};

/* Text without added tokens, one function a kind. `begin` is where the text stands in what the user gave, for messages.
 */
mega_status mega_encoder_bpe(mega_encoder *e, const uint8_t *text, size_t n, size_t begin, mega_ids *out);
mega_status mega_encoder_chars(const mega_tokenizer *t, const uint8_t *text, size_t n, size_t begin, mega_ids *out);
mega_status mega_encoder_numbers(const mega_tokenizer *t, const uint8_t *text, size_t n, size_t begin, mega_ids *out);

#endif
