/* BERT's normalizer and how it splits text, as `tokenizers` does it (BertNormalizer, BertPreTokenizer) and as Megatron
 * does (BertWordPiece*). */
#ifndef MEGALITH_TEXT_BERT_H
#define MEGALITH_TEXT_BERT_H

#include "megalith/memory.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct mega_bert_rules {
    bool clean;   /* control characters vanish, white space becomes a blank */
    bool chinese; /* blanks around each Chinese character */
    bool strip;   /* canonical decomposition without its marks */
    bool lower;
    bool megatron; /* lower case before the decomposition, by the rules for whole words */
} mega_bert_rules;

/* What is done with a character. */
enum {
    MEGA_BERT_DROP = 1,
    MEGA_BERT_BLANK = 2,
    MEGA_BERT_CHINESE = 4,
    MEGA_BERT_CHANGES = 8,   /* it is written in other characters, or in none */
    MEGA_BERT_REORDERS = 16, /* it may change its place among others */
    MEGA_BERT_WHITE = 32,    /* white space, which splits text */
    MEGA_BERT_PUNCTUATION = 64,
    MEGA_BERT_MARK = 128,
    MEGA_BERT_ACTS = 31, /* of those above, what the normalizer looks at */
};

typedef struct mega_bert {
    mega_bert_rules rules;
    uint8_t *kind; /* by code point */
    uint8_t ascii[128], keeps[128];
} mega_bert;

/* Characters of another kind in `tokenizers` than their category in our table says; bert_table.c, made by
 * tools/make_bert_table.py. */
typedef struct mega_bert_exception {
    uint32_t first;
    uint16_t count;
    uint8_t kind; /* DROP, PUNCTUATION, MARK or 0 */
} mega_bert_exception;
extern const mega_bert_exception mega_bert_exceptions[];
extern const int mega_bert_exceptions_count;

mega_status mega_bert_create(const mega_bert_rules *rules, mega_bert **out);
void mega_bert_destroy(mega_bert *b);
size_t mega_bert_bytes(const mega_bert *b);
/* Appends the normal form of a text. Bytes that are not UTF-8 vanish. */
mega_status mega_bert_normalize(const mega_bert *b, const uint8_t *text, size_t n, mega_buffer *out);
/* The same, step by step: its definition. */
mega_status mega_bert_normalize_plain(const mega_bert *b, const uint8_t *text, size_t n, mega_buffer *out);

#endif
