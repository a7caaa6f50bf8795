/* Internals of an encoder, for its files and their tests. */
#ifndef MEGALITH_TEXT_ENCODER_H
#define MEGALITH_TEXT_ENCODER_H

#include "bpe.h"
#include "megalith/threads.h"
#include "tokenizer/tokenizer_impl.h"
#include "word_cache.h"

/* A word being merged with ids and ranks of 16 bits; symbols keep their positions and are linked. */
enum { MEGA_SYMBOLS16 = 4096, MEGA_SCRATCH_IDS = 12288 + 4 };
typedef struct mega_symbols16 {
    /* rank of the symbol with the next one; MEGA_NO_RANK: no pair, or the symbol was removed */
    uint16_t rank[MEGA_SYMBOLS16];
    uint16_t least[MEGA_SYMBOLS16 / 16];
    uint16_t made[MEGA_SYMBOLS16]; /* id that the pair becomes */
    uint16_t id[MEGA_SYMBOLS16], next[MEGA_SYMBOLS16 + 1], prev[MEGA_SYMBOLS16 + 1];
    int32_t scratch[MEGA_SCRATCH_IDS]; /* ids of short words that are merged together */
} mega_symbols16;

typedef mega_status mega_encode_words(mega_encoder *e, const uint8_t *text, size_t n, size_t begin, mega_ids *out);

/* How the words of a text are found. */
typedef enum mega_finder {
    MEGA_FIND_SPLIT,  /* by a public pattern */
    MEGA_FIND_PIECES, /* they were found before, by a pipeline */
    MEGA_FIND_MARKS,  /* a word begins at U+2581 after another character */
} mega_finder;

/* The best way to a place in a word of a Unigram model. */
typedef struct mega_best_path {
    double score, second; /* of the best and the second best way; -INFINITY: there is none yet */
    uint64_t last;        /* of the last token of the best one: where it begins, and in the lower half its node */
} mega_best_path;

struct mega_encoder {
    const mega_tokenizer *tokenizer;
    mega_finder finder;
    mega_split split;
    mega_word_cache cache;   /* empty for kinds without merges */
    mega_symbols16 *symbols; /* NULL if the tokenizer has no table of pairs */
    mega_encode_words *words;
    mega_bpe bpe;
    mega_best_path *path; /* Unigram */
    int64_t path_capacity;
    /* of a pipeline */
    mega_regex_match *match; /* NULL: no step has an expression */
    mega_buffer normal[2], splitted[2];
    mega_pieces pieces[2];
    bool drops_first;             /* the text that begins at 0 has lost its first character */
    const mega_piece *next_piece; /* FIND_PIECES: the next word; its places count from piece_base */
    size_t piece_base;
};

/* Writes where the next words end, up to `max` of them; the first begins at `at` < n. Returns their number.
 * mega_split_end is the definition. */
typedef int mega_word_ends(mega_split split, const uint8_t *text, size_t at, size_t n, size_t *end, int max);

/* The same functions compiled for several instruction sets. */
mega_encode_words mega_encode_words_avx512, mega_encode_words_avx2, mega_encode_words_portable;
mega_word_ends mega_word_ends_avx512, mega_word_ends_avx2, mega_word_ends_portable;

typedef struct mega_encode_set {
    mega_encode_words *words; /* GPT-2's split, with the cache */
    mega_word_ends *ends;
} mega_encode_set;
mega_encode_set mega_encode_set_for(mega_isa isa);

/* The definition of the functions above: one word after the other, without a cache. */
mega_encode_words mega_encode_words_plain;

/* Returns the end of the word at `at`, as e->finder says. */
size_t mega_encoder_word_end(mega_encoder *e, const uint8_t *text, size_t at, size_t n);

/* Merges one word of any length and leaves the ids in e->bpe.symbol. */
mega_status mega_encoder_merge(mega_encoder *e, const uint8_t *word, size_t n, size_t begin, int64_t *count);

/* Text without added tokens, one function per kind. `begin` is the offset in the user's text, for messages. */
mega_status mega_encoder_bpe(mega_encoder *e, const uint8_t *text, size_t n, size_t begin, mega_ids *out);
mega_status mega_encoder_chars(const mega_tokenizer *t, const uint8_t *text, size_t n, size_t begin, mega_ids *out);
mega_status mega_encoder_numbers(const mega_tokenizer *t, const uint8_t *text, size_t n, size_t begin, mega_ids *out);
/* Normalized text, by the steps of a pipeline. first: the user's text begins with it. */
mega_status mega_encoder_pieces(mega_encoder *e, const uint8_t *text, size_t n, size_t begin, bool first,
                                mega_ids *out);
/* WordPiece: writes the ids of a word to `out`, which has room for one per byte; returns their number, at least 1. */
int64_t mega_encoder_wordpiece(const mega_pipeline *p, const uint8_t *word, size_t n, int32_t *out);
/* Unigram: pieces of a text, in order, each by itself. */
mega_status mega_encoder_unigram(mega_encoder *e, const uint8_t *text, size_t n, const mega_piece *piece, int64_t count,
                                 size_t begin, mega_ids *out);
/* Writes the ids of a word's characters to e->bpe.symbol, which has room for one per byte; returns their number. */
int64_t mega_encoder_symbols(mega_encoder *e, const uint8_t *word, size_t n);

#endif
