/* Trains a vocabulary on text. The result depends on the documents, but not on their order or the number of workers. */
#ifndef MEGALITH_TOKENIZER_TRAIN_H
#define MEGALITH_TOKENIZER_TRAIN_H

#include "megalith/documents.h"
#include "megalith/tokenizer.h"

typedef struct mega_trainer mega_trainer;

typedef struct mega_trainer_options {
    /* "GPT2BPETokenizer"; "BertWordPieceLowerCase" and "BertWordPieceCase" learn WordPiece, "SentencePieceTokenizer"
     * and "GPTSentencePieceTokenizer" Unigram; "CharTokenizer", "ByteTokenizer" */
    const char *type;
    int64_t vocab_size;        /* all tokens of the files; ignored for characters and bytes */
    int64_t min_frequency;     /* BPE, WordPiece: pairs that occur less often are not merged; 0 means 2 */
    double character_coverage; /* Unigram: the share of the text whose characters are pieces; 0 means 0.9995 */
    int workers;               /* Unigram: threads that learn; 0 means one */
} mega_trainer_options;

/* Returns the least vocab_size of a type; 0: it takes none. */
int64_t mega_trainer_least(const char *type);

mega_status mega_trainer_create(const mega_trainer_options *options, mega_trainer **out);
void mega_trainer_destroy(mega_trainer *t);
/* Adds one document. Its words never join those of the next document. */
mega_status mega_trainer_add(mega_trainer *t, const char *text, size_t bytes);
/* Adds everything that `other` (of the same type) has counted; other stays unchanged. For workers that each read a
 * part. */
mega_status mega_trainer_join(mega_trainer *t, const mega_trainer *other);

/* The documents of some files, to be read and counted by `workers` threads, including the caller. */
typedef struct mega_trainer_input {
    mega_documents_options documents;
    const char *const *keys; /* keys of JSON lines; the texts of all of them are used */
    int num_keys, workers;
    bool skip_bad_lines; /* bad lines are counted, each with a warning; otherwise the first one is an error */
} mega_trainer_input;
typedef struct mega_trainer_counts {
    int64_t documents, bad_lines;
    uint64_t text_bytes;
} mega_trainer_counts;
mega_status mega_trainer_read(mega_trainer *t, const mega_trainer_input *input, mega_trainer_counts *out);

/* Called now and then with the number of tokens made so far; NULL: never. */
typedef void mega_trainer_report(void *user, int64_t made, int64_t wanted);
void mega_trainer_on_report(mega_trainer *t, mega_trainer_report *report, void *user);
/* Creates the tokenizer; it has fewer tokens than requested if no pair is frequent enough. */
mega_status mega_trainer_finish(mega_trainer *t, mega_tokenizer **out);

#endif
