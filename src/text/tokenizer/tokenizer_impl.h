/* Shared by the files of the tokenizer. */
#ifndef MEGALITH_TEXT_TOKENIZER_IMPL_H
#define MEGALITH_TEXT_TOKENIZER_IMPL_H

#include "folder_rules.h"
#include "megalith/tokenizer.h"
#include "models/pair_table.h"
#include "pipeline.h"
#include "vocabulary.h"

#define MEGA_END_OF_TEXT   "<|endoftext|>"
#define MEGA_TIKTOKEN_FILE "tokenizer.tiktoken.json" /* in a folder that we save */

/* The kinds after NULL have a pipeline. Their names: kinds in tokenizer.c. */
typedef enum mega_tokenizer_kind {
    MEGA_KIND_BPE,
    MEGA_KIND_BYTE,
    MEGA_KIND_CHAR,
    MEGA_KIND_NULL,
    MEGA_KIND_HUGGINGFACE,
    MEGA_KIND_SENTENCEPIECE,     /* with Megatron's own special tokens */
    MEGA_KIND_GPT_SENTENCEPIECE, /* as the model says */
    MEGA_KIND_LLAMA2,            /* the same, and BOS in front */
    MEGA_KIND_TIKTOKEN,
    MEGA_KIND_BERT_LOWER, /* Megatron's own class */
    MEGA_KIND_BERT_CASED,
    MEGA_KINDS
} mega_tokenizer_kind;

/* A token that is searched for in the text itself, before the text is split into words. */
typedef struct mega_added_token {
    char *content;
    size_t size;
    int32_t id;
    bool special;        /* found only by mega_encoder_encode_special */
    bool normalized;     /* searched for in a second pass, in the text between the others */
    bool lstrip, rstrip; /* takes the white space before it, after it */
    bool single_word;    /* only if no character of a word touches it */
    mega_text pattern;   /* what is searched for, if it is not the content: its normal form */
} mega_added_token;

typedef struct mega_kept_file {
    const char *name; /* a constant */
    char *bytes;
    size_t size;
} mega_kept_file;

enum { MEGA_KEPT_FILES = 13 };

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
    bool has_plain_added;                  /* some added token is not special */
    bool added_begins[2][256];             /* by pass: whether an added token begins with this byte */
    int added_only[2];                     /* the only such byte; -1: there are none, -2: there are several */
    bool special_in_data;                  /* special tokens are recognised in data, too, as in prompts */
    mega_pipeline *pipe;                   /* NULL: words by GPT-2's pattern, and nothing else */
    mega_kept_file files[MEGA_KEPT_FILES]; /* written unchanged where the tokenizer is saved */
    int num_files;
    bool splits_special; /* and not even in prompts */
    bool cleans_up;      /* decoded text has no blanks before punctuation and in contractions */
    int32_t eod;
    int32_t role[MEGA_ROLES]; /* ids; -1: none */
    int64_t size;
};

/* Creates an empty tokenizer with a name, to be filled by a reader and then finished. */
mega_status mega_tokenizer_begin(mega_tokenizer_kind kind, const char *name, mega_tokenizer **out);
/* Appends to the list of added tokens; its id must be in the vocabulary. */
mega_status mega_tokenizer_add_token(mega_tokenizer *t, const char *content, size_t n, int32_t id, bool special,
                                     bool normalized);
/* Returns where the next added token of a pass is: the index of it in the list, or -1. It is at text[*begin..*end),
 * with the white space that it takes, and the search goes on at *next. `special`: special tokens count. */
int mega_added_find(const mega_tokenizer *t, const uint8_t *text, size_t n, size_t from, size_t done, int pass,
                    bool special, size_t *begin, size_t *end, size_t *next);
/* If the vocabulary has the token <|endoftext|>, makes it special and the end of a document. */
mega_status mega_tokenizer_add_end_of_text(mega_tokenizer *t);
/* Computes derived fields: byte_id, size, end of document, tables. The tokenizer does not change afterwards. */
mega_status mega_tokenizer_finish(mega_tokenizer *t);

/* tokenizer_save.c. Keeps a file of this name instead of one made from the tokenizer, and takes over its bytes. */
void mega_tokenizer_keep(mega_tokenizer *t, const char *name, char *bytes, size_t size);
/* Keeps all files of a tokenizer that the folder holds, but `without` (NULL: all). */
mega_status mega_tokenizer_keep_folder(mega_tokenizer *t, const char *folder, const char *without);

/* tokenizer_made.c. Keeps a tokenizer.json and a tokenizer_config.json for a file of another library to which tokens
 * were appended, when all of them are in the vocabulary. */
enum {
    MEGA_MADE_UNK,
    MEGA_MADE_CLS,
    MEGA_MADE_SEP,
    MEGA_MADE_PAD,
    MEGA_MADE_MASK,
    MEGA_MADE_BOS,
    MEGA_MADE_EOS,
    MEGA_MADE_ROLES
};
typedef struct mega_made {
    const char *class, *more;          /* tokenizer_class, and lines in front of it */
    const char *role[MEGA_MADE_ROLES]; /* NULL: none */
    int64_t extra_ids;                 /* <extra_id_N> */
    bool around;                       /* CLS and SEP stand around a text */
    const uint8_t *charsmap;           /* of a SentencePiece model */
    size_t charsmap_size;
} mega_made;
mega_status mega_tokenizer_keep_made(mega_tokenizer *t, const mega_made *m);

/* With `ignore_merges`: finds the tokens that merges do not make of their own bytes, and notes them in p->whole.
 * Without any, the setting has no effect. */
mega_status mega_pipeline_find_whole(const mega_tokenizer *t, mega_pipeline *p);

/* Readers. Each creates a finished tokenizer. */
mega_status mega_tokenizer_read_bpe(const char *vocab_file, const char *merge_file, mega_tokenizer **out);
/* vocab.json and merges.txt of a folder whose class has steps of its own. */
mega_status mega_tokenizer_read_bpe_folder(const char *vocab_file, const char *merge_file, mega_folder_rules *rules,
                                           mega_tokenizer **out);
mega_status mega_tokenizer_read_char(const char *vocab_file, mega_tokenizer **out);
mega_status mega_tokenizer_read_json(const char *path, mega_tokenizer **out);
/* The text of one with the rules of its folder. If the rules say that the folder has it, it is kept and taken over
 * (*text is NULL then). `path`: for messages, and the files beside it are kept. */
mega_status mega_tokenizer_read_json_text(const char *path, const mega_folder_rules *rules, char **text, size_t size,
                                          mega_tokenizer **out);
/* Notes the ids of the roles that the rules name. */
void mega_tokenizer_set_roles(mega_tokenizer *t, const mega_folder_rules *rules);
/* The vocabulary of BERT: a folder with no tokenizer.json, as `transformers` reads it with its tokenizer_config.json;
 * one of Megatron's two kinds from the text of the file, which is taken over (*text is NULL then); and the
 * tokenizer.json that belongs to that. */
mega_status mega_tokenizer_read_bert_folder(const char *vocab, const mega_folder_rules *rules, mega_tokenizer **out);
mega_status mega_tokenizer_read_bert_text(const char *path, mega_tokenizer_kind kind, int64_t extra_ids, char **text,
                                          size_t size, mega_tokenizer **out);
mega_status mega_bert_json(const char *path, bool lower, const char *text, size_t size, mega_buffer *out);
/* The same for a SentencePiece model of T5, mT5 or XLM-RoBERTa. */
mega_status mega_tokenizer_read_sentencepiece_folder(const char *model, mega_folder_rules *rules, mega_tokenizer **out);
/* tokenizer.model, whose pieces `transformers` takes as a BPE; it adds tokens to the rules. */
mega_status mega_tokenizer_read_model_folder(const char *model, mega_folder_rules *rules, mega_tokenizer **out);
/* The tokenizer.json of T5 for the bytes of a model. `name`: for messages. */
mega_status mega_sentencepiece_json(const char *name, const char *model, size_t size, int64_t extra_ids,
                                    mega_buffer *out);
mega_status mega_tokenizer_make_bytes(mega_tokenizer **out);
/* A SentencePiece model, as one of its three kinds, from its bytes, which are taken over (*text is NULL then).
 * extra_ids: <extra_id_N> at the end. */
mega_status mega_tokenizer_read_sentencepiece_text(const char *path, mega_tokenizer_kind kind, int64_t extra_ids,
                                                   char **text, size_t size, mega_tokenizer **out);
mega_status mega_tokenizer_read_tiktoken(const mega_tokenizer_options *options, mega_tokenizer **out);
/* Creates what the options name; tokenizer_create.c. */
const char *mega_tokenizer_kind_name(mega_tokenizer_kind kind);
bool mega_tokenizer_kind_needs_model(mega_tokenizer_kind kind);
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
