/* What a tokenizer.json or a SentencePiece model does besides byte-pair encoding: text is normalized, split into
 * pieces, its pieces are encoded, and the tokens of a template are put around the ids. GPT-2's own kind has none of
 * it. */
#ifndef MEGALITH_TEXT_PIPELINE_H
#define MEGALITH_TEXT_PIPELINE_H

#include "megalith/memory.h"
#include "megalith/status.h"
#include "megalith/tokenizer.h"
#include "models/bert.h"
#include "models/charsmap.h"
#include "models/pretokenize.h"
#include "models/trie.h"
#include "unicode/regex.h"
#include "unicode/unicode_forms.h"

typedef struct mega_text {
    char *data; /* owned; NUL-terminated */
    size_t size;
} mega_text;

typedef enum mega_normalize {
    MEGA_NORMALIZE_NFC,
    MEGA_NORMALIZE_NFD,
    MEGA_NORMALIZE_NFKC,
    MEGA_NORMALIZE_NFKD,
    MEGA_NORMALIZE_LOWERCASE,
    MEGA_NORMALIZE_STRIP,
    MEGA_NORMALIZE_PREPEND,
    MEGA_NORMALIZE_REPLACE,
    MEGA_NORMALIZE_REPLACE_REGEX,
    MEGA_NORMALIZE_BERT,
    MEGA_NORMALIZE_STRIP_ACCENTS,
    MEGA_NORMALIZE_NMT,           /* control characters vanish, white space and some others become blanks */
    MEGA_NORMALIZE_PRECOMPILED,   /* by the charsmap, as `tokenizers` reads it */
    MEGA_NORMALIZE_SENTENCEPIECE, /* all that a SentencePiece model does before its segmentation */
} mega_normalize;

typedef struct mega_normalize_step {
    mega_normalize kind;
    mega_text from, to; /* prepend: to; replace: both */
    mega_regex *regex;
    mega_nfc *nfc;
    mega_bert *bert;         /* of a second BertNormalizer and later ones; NULL: the pipeline's */
    mega_charsmap *charsmap; /* of a second Precompiled and later ones; NULL: the pipeline's */
    bool left, right;        /* strip */
} mega_normalize_step;

/* What becomes of the matches of a split. */
typedef enum mega_behavior {
    MEGA_SPLIT_REMOVED,
    MEGA_SPLIT_ISOLATED,
    MEGA_SPLIT_WITH_PREVIOUS,
    MEGA_SPLIT_WITH_NEXT,
    MEGA_SPLIT_CONTIGUOUS,
} mega_behavior;

typedef enum mega_pre_kind {
    MEGA_PRE_REGEX,
    MEGA_PRE_STRING,
    MEGA_PRE_NUMBERS,    /* matches are characters of \p{N} */
    MEGA_PRE_PATTERN,    /* one of the public patterns, whose words cover the text */
    MEGA_PRE_BYTE_LEVEL, /* a prefix blank, and GPT-2's pattern if use_pattern */
    MEGA_PRE_METASPACE,
    MEGA_PRE_WHITE,       /* matches are white space */
    MEGA_PRE_PUNCTUATION, /* matches are punctuation characters */
    MEGA_PRE_BERT,        /* white space is removed, each punctuation character is a piece */
} mega_pre_kind;

typedef enum mega_prepend { MEGA_PREPEND_ALWAYS, MEGA_PREPEND_FIRST, MEGA_PREPEND_NEVER } mega_prepend;

typedef struct mega_pre_step {
    mega_pre_kind kind;
    mega_behavior behavior;
    bool invert;
    bool prefix_blank, use_pattern; /* byte level; metaspace splits if use_pattern */
    mega_prepend prepend;           /* metaspace */
    mega_split split;
    mega_text text; /* the string to split by; the character that metaspace writes for a blank */
    mega_regex *regex;
} mega_pre_step;

/* How tokens become text. Applied in the order of these fields. */
typedef struct mega_decoder_steps {
    bool none;         /* tokens are their own bytes */
    mega_text from[4]; /* replaced in each token */
    mega_text to[4];
    int replacements;
    bool metaspace;     /* from[0] at the begin of the text is removed, not replaced */
    bool byte_fallback; /* <0xHH> are bytes; a run of them that is not UTF-8 becomes U+FFFD for each */
    bool sentencepiece; /* the same for each byte that is not UTF-8; control tokens are not shown; unknown as unknown */
    uint32_t strip;     /* this character is removed from the begin of the text, */
    int64_t strip_most; /* at most so often */
    mega_text unknown;  /* sentencepiece */
    /* WordPiece: a blank before each token but the first, and those that begin with the prefix */
    bool wordpiece, cleanup; /* cleanup: no blanks before punctuation and in contractions, */
    bool whole;              /* where the whole text has them, and not within each token */
    mega_text prefix;        /* WordPiece */
} mega_decoder_steps;

/* A node of the trie of a Unigram model: as in mega_trie, and the score of the token that ends there; -INFINITY: none
 * does. */
typedef struct mega_unigram_node {
    uint32_t base, parent;
    double score;
} mega_unigram_node;
enum {
    MEGA_UNIGRAM_UNKNOWN = INT32_MAX, /* in place of an id: a character that is no token */
    /* of a character: a token has another one before it, or after it, or is that character. None: it is always
     * unknown */
    MEGA_JOINS_BEFORE = 1,
    MEGA_JOINS_AFTER = 2,
    MEGA_IS_TOKEN = 4,
    MEGA_CHARACTERS = 0x10000,
};

/* How a word becomes tokens. */
typedef enum mega_model { MEGA_MODEL_BPE, MEGA_MODEL_WORDPIECE, MEGA_MODEL_UNIGRAM } mega_model;

typedef struct mega_pipeline {
    mega_normalize_step *normalize;
    int num_normalize;
    mega_pre_step *pre;
    int num_pre;
    mega_charsmap charsmap; /* of a SentencePiece model or a Precompiled normalizer */
    mega_bert *bert;        /* of the first BERT step; NULL: none */
    bool dummy_prefix, remove_extra;
    mega_text *kept; /* what its replacements leave alone */
    int num_kept;
    bool kept_begins[256];
    bool printable_stays; /* all printable ASCII stays as it is, whatever of it follows */
    mega_model model;
    mega_trie trie;       /* of WordPiece and Unigram: the tokens that words are made of */
    uint32_t continued;   /* WordPiece: the node of the prefix; TRIE_NONE: no token has it */
    int64_t longest_word; /* WordPiece: in characters; a longer one is unknown */
    mega_text inner;      /* WordPiece: what tokens inside a word begin with */
    double *score;        /* Unigram: of each id that a word may have */
    int64_t scores;
    double unknown_score;
    mega_unigram_node *node; /* Unigram: the trie, as mega_unigram_prepare makes it */
    int32_t *node_id;        /* of the token that ends at a node; MEGA_UNIGRAM_UNKNOWN of the root */
    uint32_t nodes;
    size_t longest;          /* Unigram: bytes of the longest token */
    uint8_t *characters;     /* Unigram: what tokens have of each character up to U+FFFF; NULL: it is not known */
    uint8_t wide_characters; /* the same for all other characters */
    bool narrow;             /* Unigram: sums of scores are rounded to float, as SentencePiece does */
    bool blank_marks;        /* normalized text and the nodes have a blank for each U+2581 */
    bool byte_level;         /* its symbols are bytes and not characters */
    mega_split fast;         /* byte level: the one pattern that splits it, if no other step is needed */
    bool ignore_merges, byte_fallback, fuse_unknown;
    uint64_t
        whole[64]; /* ignore_merges: a bit for each hash of a word that only the vocabulary has, by mega_whole_bit */
    uint64_t joined[1024]; /* a bit for each two bytes that follow each other in a token of the trie */
    bool splits_at_mark;   /* characters: no merge crosses from another character to U+2581, so words begin there */
    int32_t unknown;       /* -1: none */
    int32_t byte_token[256];
    /* the template */
    int32_t *prefix, *suffix;
    int num_prefix, num_suffix;
    mega_decoder_steps decoder;
    uint64_t fingerprint; /* of everything above */
} mega_pipeline;

/* Builds the trie of the tokens that are in the vocabulary now, and finds the node of the prefix. */
struct mega_vocabulary;
mega_status mega_pipeline_build_trie(mega_pipeline *p, const struct mega_vocabulary *v);

/* Makes the nodes of a Unigram model from its trie, which is freed, and notes the characters of its tokens. */
mega_status mega_unigram_prepare(mega_pipeline *p, const mega_trie_key *key, int64_t count);

/* Whether two bytes follow each other in a token of the trie. */
static inline bool mega_pipeline_joins(const mega_pipeline *p, uint8_t first, uint8_t second)
{
    return (p->joined[4 * first + second / 64] >> second % 64 & 1) != 0;
}

/* The place of a word in `whole`. */
static inline unsigned mega_whole_bit(const uint8_t *word, size_t n)
{
    return ((unsigned)n * 0x9E3779B1u + word[0] * 0x85EBCA6Bu + word[n / 2] * 0xC2B2AE35u +
            word[n - 1] * 0x27D4EB2Fu) >>
           20;
}

void mega_pipeline_destroy(mega_pipeline *p);
size_t mega_pipeline_bytes(const mega_pipeline *p);
/* Copies a text; returns MEGA_ERR_MEMORY. */
mega_status mega_text_set(mega_text *out, const char *data, size_t n);
mega_status mega_pipeline_add_prefix(mega_pipeline *p, int32_t id);
mega_status mega_pipeline_add_suffix(mega_pipeline *p, int32_t id);

/* Normalizes a text; *result is it, in `text` itself if nothing changes, or in one of the two buffers. */
typedef struct mega_span {
    const uint8_t *text;
    size_t n;
} mega_span;
mega_status mega_pipeline_normalize(const mega_pipeline *p, mega_regex_match *match, mega_span text,
                                    mega_buffer buffers[2], mega_span *result);

/* All that a SentencePiece model does before its segmentation. */
void mega_sentencepiece_normalize(const mega_pipeline *p, mega_span in, mega_buffer *out);

/* *drops: whether the normalizer removes the first character of a text, and Metaspace marks only the begin of a text:
 * for `tokenizers` what follows is not its begin then. Uses the buffers. */
mega_status mega_pipeline_drops_first(const mega_pipeline *p, mega_regex_match *match, mega_span text,
                                      mega_buffer buffers[2], bool *drops);

/* A piece of a text. first: the user's text begins with it. */
typedef struct mega_piece {
    size_t begin, end;
    bool first;
} mega_piece;
typedef struct mega_pieces {
    mega_piece *piece;
    int64_t count, capacity;
} mega_pieces;
/* Splits a text; `first` as above. Pieces are in pieces[0] and refer to *result, which is `text` or a buffer. */
mega_status mega_pipeline_split(const mega_pipeline *p, mega_regex_match *match, mega_span text, bool first,
                                mega_buffer buffers[2], mega_pieces pieces[2], mega_span *result);

#endif
