/* Shared by the readers of tokenizer.json. */
#ifndef MEGALITH_TEXT_TOKENIZER_JSON_H
#define MEGALITH_TEXT_TOKENIZER_JSON_H

#include "megalith/json_cursor.h"
#include "megalith/utf8.h"
#include "tokenizer_impl.h"

/* Offsets of the values that we read; 0: missing. */
typedef struct json_layout {
    size_t added_tokens, normalizer, pre_tokenizer, post_processor, decoder, model;
    size_t vocab, merges; /* inside the model */
    size_t settings;      /* the object with the settings of the model */
    char model_type[16];
} json_layout;

typedef struct json_reader {
    mega_cursor *c;
    const json_layout *layout;
    mega_tokenizer *t;
    mega_pipeline *pipe;
    mega_buffer text; /* the last string read */
    bool fused;       /* the decoder has joined the tokens */
    const mega_folder_rules *rules;
    mega_rule_tokens tokens; /* that are added */
    mega_buffer whole;       /* the file, and after it the steps of its class */
    bool says_around;        /* the rules say what is around a text, in place of the file: */
    mega_role before, after;
} json_reader;

/* Finds the offset of the value of each key in `keys`; *place is left alone if it is missing or null. */
mega_status mega_json_members(mega_cursor *c, const char *const *keys, size_t *const *places, int count);

/* Calls `step` for a component, or for each of a Sequence, whose parts are under `key`. depth: 0. */
typedef mega_status json_step(json_reader *r, size_t at, const char *type);
mega_status mega_json_steps(json_reader *r, size_t at, const char *key, json_step *step, int depth);

/* Puts the steps of the folder's class in place of those of the file. */
mega_status mega_json_replace_steps(json_reader *r, json_layout *l);

/* Read parts of the file into r->pipe. The template needs the vocabulary and the added tokens. */
mega_status mega_pipeline_read(json_reader *r);
mega_status mega_pipeline_read_model(json_reader *r);    /* the settings of the model */
mega_status mega_pipeline_read_template(json_reader *r); /* the tokens around a text */
/* What depends on the vocabulary: bytes, unknown token, where words begin, the fingerprint. */
mega_status mega_pipeline_finish(json_reader *r);

/* Writes an added token as `tokenizers` expects it: it wants all of its keys. */
void mega_json_put_added(mega_buffer *out, const char *bytes, size_t n, int64_t id, bool normalized, bool special);

/* Whether no merge makes a token in which U+2581 follows another character. */
bool mega_pipeline_splits_at_mark(const mega_tokenizer *t);
/* Finds the tokens <0x00> to <0xFF>. Returns whether all are there. */
bool mega_pipeline_find_bytes(const mega_tokenizer *t, mega_pipeline *p);

#endif
