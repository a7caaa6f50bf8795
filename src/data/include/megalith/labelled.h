/* Labelled samples for a classifier: pairs of texts from the TSV files of GLUE (MNLI, QQP), and questions with four
 * answers from the folders of RACE, as Megatron-LM's tasks read them. All is tokenized when it is opened. */
#ifndef MEGALITH_LABELLED_H
#define MEGALITH_LABELLED_H

#include "megalith/dataset.h"
#include "megalith/status.h"
#include "megalith/threads.h"
#include "megalith/tokenizer.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mega_labelled_kind { MEGA_LABELLED_MNLI, MEGA_LABELLED_QQP, MEGA_LABELLED_RACE } mega_labelled_kind;
enum { MEGA_LABELLED_CHOICES = 4, MEGA_LABELLED_LARGEST_ANSWER = 128 };

/* "MNLI", "QQP" or "RACE"; returns false for another name. */
bool mega_labelled_find(const char *name, mega_labelled_kind *out);
const char *mega_labelled_name(mega_labelled_kind kind);
int64_t mega_labelled_classes(mega_labelled_kind kind); /* of a sample; 0: it is a choice */
int64_t
mega_labelled_choices(mega_labelled_kind kind); /* sequences of a sample, one of which is right; 0: one sequence */

typedef struct mega_labelled_options {
    mega_labelled_kind kind;
    const char *const *path; /* files; RACE: folders of .txt files, or such files. A set each */
    size_t num_paths;
    const mega_tokenizer *tokenizer;
    int32_t cls, sep, pad;
    int64_t seq_length;    /* of a sequence: [CLS] first [SEP] second [SEP], cut at its end. 4 or more */
    const mega_team *team; /* reading ends with MEGA_ERR_INTERRUPTED once it is stopped; may be NULL */
} mega_labelled_options;

/* One of the paths: consecutive samples. */
typedef struct mega_labelled_set {
    char *name; /* what of the path follows the name of the task, as in "dev/high": "dev-high" */
    int64_t first, count;
    int64_t skipped; /* rows that are not in the form of the file */
} mega_labelled_set;

typedef struct mega_labelled mega_labelled;

/* Returns MEGA_ERR_NOT_FOUND, MEGA_ERR_IO, MEGA_ERR_FORMAT with the file and line, or MEGA_ERR_MEMORY. */
mega_status mega_labelled_open(const mega_labelled_options *options, mega_labelled **out);
void mega_labelled_close(mega_labelled *l); /* NULL is allowed */
int64_t mega_labelled_count(const mega_labelled *l);
size_t mega_labelled_sets(const mega_labelled *l);
const mega_labelled_set *mega_labelled_set_get(const mega_labelled *l, size_t set);
uint64_t mega_labelled_hash(const mega_labelled *l); /* of the tokens and labels */
/* The tokens of sequence `choice` of a sample, its length, the number of tokens of type 0, and the label of the sample. */
const int32_t *mega_labelled_sequence(const mega_labelled *l, int64_t sample, int64_t choice, int64_t *out_length,
                                      int64_t *out_first);
int32_t mega_labelled_label(const mega_labelled *l, int64_t sample);

/* Fills the inputs of a classifier (gpt.h): tokens, token_types, position_ids and key_end, [choices * seq_length], and
 * label [1]: that of the sample, or -1, which no loss counts, with is_left_out. From any thread. */
void mega_labelled_fill(const mega_labelled *l, int64_t index, bool is_left_out, mega_sample *sample);

#ifdef __cplusplus
}
#endif

#endif
