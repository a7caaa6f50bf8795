/* What the files of a tokenizer's folder say besides its vocabulary: tokenizer_config.json, special_tokens_map.json,
 * added_tokens.json and config.json. `transformers` gives each of them a say in the ids: the class rebuilds the steps
 * of tokenizer.json by its own rules, and tokens are added after those of the file. All of it is read here, and nowhere
 * else. */
#ifndef MEGALITH_TEXT_FOLDER_RULES_H
#define MEGALITH_TEXT_FOLDER_RULES_H

#include "megalith/memory.h"
#include "megalith/status.h"
#include "megalith/tokenizer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The classes of `transformers` that are built here. */
typedef enum mega_class {
    MEGA_CLASS_FILE, /* TokenizersBackend: tokenizer.json as it is */
    MEGA_CLASS_GPT2,
    MEGA_CLASS_ROBERTA,
    MEGA_CLASS_NEOX,
    MEGA_CLASS_QWEN2,
    MEGA_CLASS_QWEN35,
    MEGA_CLASS_LLAMA,
    MEGA_CLASS_GEMMA,
    MEGA_CLASS_BERT,
    MEGA_CLASS_T5,
    MEGA_CLASS_XLMR,
    MEGA_CLASS_ALBERT,
    MEGA_CLASSES
} mega_class;

typedef struct mega_rule_token {
    char *content; /* owned */
    size_t size;
    int64_t id; /* as its file has it; -1: any */
    bool special, normalized, lstrip, rstrip, single_word;
    bool is_string;       /* its file has no flags for it */
    bool says_normalized; /* and not only by being special */
    size_t at;            /* place in tokenizer.json, for messages */
} mega_rule_token;

typedef struct mega_rule_tokens {
    mega_rule_token *list;
    int count;
} mega_rule_tokens;

typedef struct mega_rule_role {
    mega_rule_token token; /* content NULL: none */
    const char *source;    /* the file that says so, or the class; NULL: nobody does */
} mega_rule_role;

typedef struct mega_folder_rules {
    char *config;            /* path of tokenizer_config.json, for messages */
    const char *merges_file; /* borrowed; whose text is merges_at … merges_end of the one that is read; NULL: none */
    size_t merges_at, merges_end;
    mega_class class;
    char class_name[64];
    char named[64], model_type[64]; /* what the class was found from */
    bool is_ours;                   /* a tokenizer of our own kinds, whose files say all */
    bool names_class;               /* by a tokenizer_class, and not by the type of model alone */
    const char *class_source;       /* the file and key that named it */
    bool has_json;                  /* the folder has a tokenizer.json */
    bool has_pieces;                /* or a SentencePiece model alone */
    bool has_config;                /* and a tokenizer_config.json */
    bool has_extra;                 /* a file lists tokens without a role */
    mega_rule_role role[MEGA_ROLES];
    mega_rule_tokens own_roles; /* tokens with a role of the model's own */
    mega_rule_tokens more;      /* tokens without a role */
    mega_rule_tokens decoder;   /* added_tokens_decoder, or added_tokens.json; by id */
    bool has_decoder;           /* it is added_tokens_decoder, in place of the tokens of tokenizer.json */
    /* settings; -1: the class's own */
    int prefix_blank, lower, chinese, strip, legacy, adds_bos, adds_eos, keep_accents;
    bool split_special, clean_up, clean_up_bpe;
    int64_t extra_ids;
} mega_folder_rules;

/* Reads the files beside `path`, which is one of the folder or the folder itself. Refuses what is not built, by file
 * and key. has_pieces: the vocabulary is a SentencePiece model. `plain`: the class of a vocabulary without a
 * tokenizer.json, where the folder names none; MEGA_CLASS_FILE: it has one. */
mega_status mega_rules_read(const char *path, mega_class plain, bool has_pieces, mega_folder_rules *out);
/* Keeps with the tokenizer what its class was found from (MEGA_RULES_FILE): a checkpoint has a config.json of its own,
 * whose type of model says nothing about the tokenizer. */
#define MEGA_RULES_FILE "megalith_tokenizer.json"
mega_status mega_rules_keep(const mega_folder_rules *r, mega_tokenizer *t);
void mega_rules_fini(mega_folder_rules *r);
/* Refuses a class that does not read the vocabulary at `path`, which is one of `class`. */
mega_status mega_rules_check_class(const mega_folder_rules *r, mega_class class, const char *path);
/* Adds a token without a role; gives a role to a token, if no file has said what it is. */
mega_status mega_rules_add(mega_folder_rules *r, const mega_rule_token *token);
mega_status mega_rules_set_role(mega_folder_rules *r, mega_role role, const char *text, size_t n, const char *source);

/* The tokens that are added, in their order; `own` are those of tokenizer.json. */
mega_status mega_rules_tokens(const mega_folder_rules *r, const mega_rule_tokens *own, mega_rule_tokens *out);
mega_status mega_rule_tokens_append(mega_rule_tokens *list, const mega_rule_token *token);
void mega_rule_tokens_fini(mega_rule_tokens *list);

/* The steps of a class in place of those of tokenizer.json, as JSON; empty: none. `settings`: of its model. */
typedef struct mega_class_steps {
    mega_buffer normalizer, pre_tokenizer, decoder, settings;
} mega_class_steps;
/* `precompiled`: the Precompiled normalizer of the file, or NULL. */
mega_status mega_class_write_steps(const mega_folder_rules *r, const char *precompiled, size_t n,
                                   mega_class_steps *out);
void mega_class_steps_fini(mega_class_steps *s);
/* The type of model that a class is for; NULL: any. */
const char *mega_class_model(mega_class class);
/* The token that a class has for a role if no file names one; NULL: none. */
const char *mega_class_role(mega_class class, mega_role role);
/* Finds the class as AutoTokenizer does. `named`: tokenizer_class of tokenizer_config.json or config.json, "": none;
 * byte_level: tokenizer.json mentions ByteLevel. Returns false if `transformers` has rules for it that are not
 * built. */
bool mega_class_find(const char *named, const char *model_type, bool byte_level, mega_class *out);
/* The roles of the tokens around a text, where class and settings say so in place of tokenizer.json: *before and
 * *after; MEGA_ROLES: none. Returns false if the file says so. has_post: it has a post_processor. */
bool mega_rules_around(const mega_folder_rules *r, bool has_post, mega_role *before, mega_role *after);
/* Refuses a role around a text that the folder says is none; MEGA_ROLES: fine. */
mega_status mega_rules_need(const mega_folder_rules *r, mega_role role);

#endif
