/* Labelled samples for a classifier: texts and pairs of texts from the TSV files of GLUE, and questions with four
 * answers from the folders of RACE, as Megatron-LM's tasks read them. All is tokenized when it is opened. */
#ifndef MEGALITH_LABELLED_H
#define MEGALITH_LABELLED_H

#include "megalith/dataset.h"
#include "megalith/status.h"
#include "megalith/threads.h"
#include "megalith/tokenizer.h"
#include <stdint.h>

enum { MEGA_LABELLED_CHOICES = 4, MEGA_LABELLED_LARGEST_ANSWER = 128, MEGA_LABELLED_CLASSES = 3 };
enum { MEGA_LABELLED_LAST = -1 };

/* The columns of a TSV file, from 1. */
typedef struct mega_labelled_columns {
    int count;         /* of the first line */
    bool or_more;      /* of that and of rows */
    int text, second;  /* second: of a pair; 0: a sample is one text */
    int label;         /* or MEGA_LABELLED_LAST; 0: a test, whose labels are not known */
    const char *begin; /* name of the first column; NULL: the number of columns tells a test */
    bool has_no_names; /* the first line is a row already */
} mega_labelled_columns;

struct labelled_reader;

typedef struct mega_labelled_task {
    const char *name;
    int64_t classes, choices; /* choices: sequences of a sample, one of which is right; 0: one sequence of a class */
    const char *label[MEGA_LABELLED_CLASSES]; /* in files */
    const char *named[MEGA_LABELLED_CLASSES]; /* in folders of models, as transformers' scripts name them */
    mega_labelled_columns with_labels, test;
    bool skips_rows; /* rows of other columns, or without a text, are left out; otherwise they are mistakes */
    mega_status (*read)(struct labelled_reader *r, const char *path);
    const char *takes; /* its files, for messages */
    bool takes_folders;
} mega_labelled_task;

/* The tasks with labels: row(name, members…) for each. Labels of classes are in the order of their numbers. */
// clang-format off
#define MEGA_LABELLED_TASKS(row) \
    row("RACE", .choices = MEGA_LABELLED_CHOICES, .read = labelled_read_race, .takes_folders = true, .takes = "a folder of RACE, or one of its .txt files") \
    row("MNLI", .classes = 3, .label = {"contradiction", "entailment", "neutral"}, .named = {"contradiction", "entailment", "neutral"}, .with_labels = {11, true, 9, 10, MEGA_LABELLED_LAST, NULL, false}, .test = {10, true, 9, 10, 0, NULL, false}, .read = labelled_read_tsv, .takes = "a TSV file") \
    row("QQP", .classes = 2, .label = {"0", "1"}, .named = {"not_duplicate", "duplicate"}, .with_labels = {6, false, 4, 5, 6, NULL, false}, .test = {3, false, 2, 3, 0, NULL, false}, .skips_rows = true, .read = labelled_read_tsv, .takes = "a TSV file") \
    row("SST-2", .classes = 2, .label = {"0", "1"}, .named = {"negative", "positive"}, .with_labels = {2, false, 1, 0, 2, "sentence", false}, .test = {2, false, 2, 0, 0, "index", false}, .read = labelled_read_tsv, .takes = "a TSV file") \
    row("CoLA", .classes = 2, .label = {"0", "1"}, .named = {"unacceptable", "acceptable"}, .with_labels = {4, false, 4, 0, 2, NULL, true}, .test = {2, false, 2, 0, 0, "index", false}, .read = labelled_read_tsv, .takes = "a TSV file") \
    row("MRPC", .classes = 2, .label = {"0", "1"}, .named = {"not_equivalent", "equivalent"}, .with_labels = {5, false, 4, 5, 1, "Quality", false}, .test = {5, false, 4, 5, 0, "index", false}, .read = labelled_read_tsv, .takes = "a TSV file") \
    row("QNLI", .classes = 2, .label = {"entailment", "not_entailment"}, .named = {"entailment", "not_entailment"}, .with_labels = {4, false, 2, 3, 4, "index", false}, .test = {3, false, 2, 3, 0, "index", false}, .read = labelled_read_tsv, .takes = "a TSV file") \
    row("RTE", .classes = 2, .label = {"entailment", "not_entailment"}, .named = {"entailment", "not_entailment"}, .with_labels = {4, false, 2, 3, 4, "index", false}, .test = {3, false, 2, 3, 0, "index", false}, .read = labelled_read_tsv, .takes = "a TSV file") \
    row("WNLI", .classes = 2, .label = {"0", "1"}, .named = {"not_entailment", "entailment"}, .with_labels = {4, false, 2, 3, 4, "index", false}, .test = {3, false, 2, 3, 0, "index", false}, .read = labelled_read_tsv, .takes = "a TSV file")
// clang-format on
#define MEGA_LABELLED_CHOICE(name, ...) "|" name  /* in the choices of an option */
#define MEGA_LABELLED_LISTED(name, ...) ", " name /* in a message */

const mega_labelled_task *mega_labelled_find(const char *name); /* NULL: there is none */
/* Returns the number of the label that a folder of a model calls so, in any case and with any of "_", "-" and " "
 * between words, or that files do; -1: none. */
int32_t mega_labelled_label_of(const mega_labelled_task *task, const char *name);
const mega_labelled_task *mega_labelled_task_get(size_t i); /* NULL: there are no more */

typedef struct mega_labelled_options {
    const mega_labelled_task *task;
    const char *const *path; /* files or folders, a set each */
    size_t num_paths;
    const mega_tokenizer *tokenizer;
    int32_t cls, sep, pad;
    int64_t seq_length; /* of a sequence: [CLS] first [SEP], of a pair also second [SEP], cut at its end. 4 or more */
    const mega_team *team; /* reading ends with MEGA_ERR_INTERRUPTED once it is stopped; may be NULL */
    bool needs_labels;     /* a file without labels is a mistake */
    const int32_t *order;  /* the class of the model for each label; NULL: they are numbered alike */
    /* If not NULL: called with the failure of a path, after which the next one is read. */
    void (*mistake)(void *user, mega_status st);
    void *user;
} mega_labelled_options;

/* One of the paths: consecutive samples. */
typedef struct mega_labelled_set {
    char *name; /* what of the path follows the name of the task, as in "dev/high": "dev-high" */
    int64_t first, count;
    int64_t skipped; /* rows that are not in the form of the file */
    bool is_test;    /* of a file without labels: all samples have the first one */
} mega_labelled_set;

typedef struct mega_labelled mega_labelled;

/* Returns MEGA_ERR_NOT_FOUND, MEGA_ERR_IO, MEGA_ERR_FORMAT with the file and line, or MEGA_ERR_MEMORY. */
mega_status mega_labelled_open(const mega_labelled_options *options, mega_labelled **out);
void mega_labelled_close(mega_labelled *l); /* NULL is allowed */
int64_t mega_labelled_count(const mega_labelled *l);
size_t mega_labelled_sets(const mega_labelled *l);
const mega_labelled_set *mega_labelled_set_get(const mega_labelled *l, size_t set);
uint64_t mega_labelled_hash(const mega_labelled *l); /* of the tokens and labels */
/* The tokens of sequence `choice` of a sample, its length, the number of tokens of type 0, and the label of the
 * sample. */
const int32_t *mega_labelled_sequence(const mega_labelled *l, int64_t sample, int64_t choice, int64_t *out_length,
                                      int64_t *out_first);
int32_t mega_labelled_label(const mega_labelled *l, int64_t sample);

/* Fills the inputs of a classifier (transformer.h): tokens, token_types, position_ids and key_end, [choices *
 * seq_length], and label [1]: that of the sample, or -1, which no loss counts, with is_left_out. From any thread. */
void mega_labelled_fill(const mega_labelled *l, int64_t index, bool is_left_out, mega_sample *sample);

#endif
