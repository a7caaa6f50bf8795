/* Turns text into token data sets: one thread reads documents, several tokenize them, and they are written in their
 * order, so that the files are the same for any number of workers. Memory does not grow with the input. */
#ifndef MEGALITH_PREPROCESS_H
#define MEGALITH_PREPROCESS_H

#include "megalith/documents.h"
#include "megalith/punkt.h"
#include "megalith/status.h"
#include "megalith/tokenizer.h"
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

enum { MEGA_PREPROCESS_KEYS_MAX = 64 };

typedef struct mega_preprocess_job {
    const char *const *inputs; /* as in mega_documents_options */
    int num_inputs;
    mega_document_format format;
    bool split_on_blank_lines;
    const char *const *keys; /* one data set for each key: PREFIX_KEY_document.bin and .idx, or PREFIX_KEY_sentence */
    int num_keys;
    const mega_tokenizer *tokenizer; /* not used by mega_preprocess_char_vocabulary */
    const mega_punkt *sentences;     /* cut documents into sentences, each a sequence of the data set; NULL: do not */
    bool keep_newlines;              /* white space between sentences belongs to the one before it */
    bool append_eod;                 /* append the tokenizer's end-of-document id to documents that are not empty */
    const char *output_prefix;
    int workers;                       /* threads that tokenize, at least 1 */
    int64_t log_interval;              /* documents between progress lines; 0: by time only */
    bool skip_bad_lines;               /* skip invalid lines (with a warning) instead of stopping at the first */
    const volatile sig_atomic_t *stop; /* may be NULL; once *stop is not 0: give up and remove what was written */
} mega_preprocess_job;

typedef struct mega_preprocess_result {
    int64_t documents, bad_lines;
    int64_t sentences;                        /* of all keys, if they were cut */
    int64_t empty_documents;                  /* documents without a token under any key */
    int64_t tokens[MEGA_PREPROCESS_KEYS_MAX]; /* for each key, including ends of documents */
    uint64_t text_bytes;                      /* bytes of UTF-8 of all keys */
    double seconds;
} mega_preprocess_result;

mega_status mega_preprocess(const mega_preprocess_job *job, mega_preprocess_result *out);

/* Reads the whole input and writes its characters as the vocabulary of a CharTokenizer. Refuses standard input, which
 * could not be read again. */
mega_status mega_preprocess_char_vocabulary(const mega_preprocess_job *job, const char *path);

/* Where the parameters that cut sentences come from. */
typedef struct mega_preprocess_sentences {
    const char *language;
    const char *parameters; /* their folder, or one that has a folder for each language; NULL: learn from the input */
    const char *abbreviations; /* a file of further abbreviations; may be NULL */
    const char *save;          /* a folder to write them to; may be NULL */
} mega_preprocess_sentences;
/* Reads them, or learns them from the whole input, which cannot be standard input then. */
mega_status mega_preprocess_learn(const mega_preprocess_job *job, const mega_preprocess_sentences *o, mega_punkt **out);

/* Returns PREFIX_KEY_document, or PREFIX_KEY_sentence, in a new block; NULL when memory is short. */
char *mega_preprocess_output(const mega_preprocess_job *job, int key);

#endif
