/* Shared by the files of the tokenizer. */
#ifndef MEGALITH_TEXT_TOKENIZER_IMPL_H
#define MEGALITH_TEXT_TOKENIZER_IMPL_H

#include "megalith/tokenizer.h"
#include "pair_table.h"
#include "vocabulary.h"

#define MEGA_END_OF_TEXT "<|endoftext|>"

typedef enum mega_tokenizer_kind { MEGA_KIND_BPE, MEGA_KIND_BYTE, MEGA_KIND_CHAR, MEGA_KIND_NULL } mega_tokenizer_kind;

/* A token that is searched for in the text itself, before the text is split into words. */
typedef struct mega_added_token {
    char *content;
    size_t size;
    int32_t id;
    bool special;    /* found only by mega_encoder_encode_special */
    bool normalized; /* searched for in a second pass, in the text between the others */
} mega_added_token;

struct mega_tokenizer {
    mega_tokenizer_kind kind;
    char *name; /* the file or folder it was read from, or its type; for messages */
    mega_vocabulary vocabulary;
    mega_merges merges;
    mega_pair_table pairs; /* a fast table of the same merges, if they fit it */
    /* BPE and bytes: the id of each single byte; characters: of each ASCII character; -1: none */
    int32_t byte_id[256];
    mega_added_token *added;
    int num_added;
    bool has_plain_added; /* some added token is not special */
    int32_t eod;
    int64_t size;
};

/* Creates an empty tokenizer with a name, to be filled by a reader and then finished. */
mega_status mega_tokenizer_begin(mega_tokenizer_kind kind, const char *name, mega_tokenizer **out);
/* Appends to the list of added tokens; its id must be in the vocabulary. */
mega_status mega_tokenizer_add_token(mega_tokenizer *t, const char *content, size_t n, int32_t id, bool special,
                                     bool normalized);
/* If the vocabulary has the token <|endoftext|>, makes it special and the end of a document. */
mega_status mega_tokenizer_add_end_of_text(mega_tokenizer *t);
/* Computes derived fields: byte_id, size, end of document, tables. The tokenizer does not change afterwards. */
mega_status mega_tokenizer_finish(mega_tokenizer *t);

/* Readers. Each creates a finished tokenizer. */
mega_status mega_tokenizer_read_bpe(const char *vocab_file, const char *merge_file, mega_tokenizer **out);
mega_status mega_tokenizer_read_char(const char *vocab_file, mega_tokenizer **out);
mega_status mega_tokenizer_read_json(const char *path, mega_tokenizer **out);
mega_status mega_tokenizer_make_bytes(mega_tokenizer **out);
/* *out: whether the file is a tokenizer.json and not a plain vocabulary (a list, or an object of numbers). */
mega_status mega_tokenizer_is_json(bool *out, const char *path);

/* Adds a merge of two tokens given by their symbols; messages do not name the position. */
mega_status mega_tokenizer_add_merge(mega_tokenizer *t, mega_buffer *scratch, const char *left, size_t left_size,
                                     const char *right, size_t right_size);
/* Adds one entry of a vocabulary written in symbols. */
mega_status mega_tokenizer_add_symbols(mega_tokenizer *t, mega_buffer *scratch, const char *symbols, size_t n,
                                       int64_t id);
/* Returns the id of an entry by its key in a vocabulary file; -1: not found. */
int32_t mega_tokenizer_find_symbols(const mega_tokenizer *t, mega_buffer *scratch, const char *symbols, size_t n);

#endif
