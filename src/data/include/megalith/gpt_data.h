/* The GPT data set: samples of seq_length + 1 tokens cut from the stream of shuffled documents, in the order of
 * Megatron-LM for the same data, split, seed and number of samples. All arrays depend only on these. */
#ifndef MEGALITH_GPT_DATA_H
#define MEGALITH_GPT_DATA_H

#include "megalith/dataset.h"
#include "megalith/status.h"
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MEGA_SPLIT_TRAIN = 0, MEGA_SPLIT_VALID, MEGA_SPLIT_TEST, MEGA_SPLIT_COUNT };

typedef struct mega_gpt_data mega_gpt_data; /* one split of one prefix, or a blend of several; any thread may read it */

/* Memory for the order of samples, of which the ranks of a host hold only one copy. One rank creates a share and builds
 * its data sets with it; the others open it from the first one's offer and build theirs with it. Arrays in cache files
 * are mapped from there instead. A share may be destroyed when all have built: the mapped arrays stay. */
typedef struct mega_gpt_share mega_gpt_share;
typedef struct mega_gpt_offer {
    int64_t pid, fd; /* fd -1: nothing is shared */
    int64_t nonce, table, blocks, bytes;
} mega_gpt_offer; /* eight bytes each, to be sent unchanged */
/* Returns MEGA_ERR_MEMORY. */
MEGA_CHECK_RESULT mega_status mega_gpt_share_create(mega_gpt_share **out);
void mega_gpt_share_offer(mega_gpt_share *share, mega_gpt_offer *out); /* call it after the last build with the share */
/* *out is NULL if nothing is offered, or the offer cannot be opened (/proc/PID/fd of another container). Returns
 * MEGA_ERR_MEMORY. */
MEGA_CHECK_RESULT mega_status mega_gpt_share_open(const mega_gpt_offer *offer, mega_gpt_share **out);
void mega_gpt_share_destroy(mega_gpt_share *share);

/* How a row is presented to the model (Megatron's get_ltor_masks_and_position_ids). */
typedef struct mega_ltor_options {
    int32_t eod;
    bool reset_position_ids, reset_attention_mask, eod_mask_loss;
} mega_ltor_options;

typedef struct mega_gpt_data_options {
    const char *const *data_path; /* --data-path: one prefix, weight prefix weight prefix …, or prefix prefix … */
    int num_data_path;
    const char *const *data_path2; /* --data-path2: beside data_path, data whose part 2 of 98,2,0 is the validation */
    int num_data_path2;
    const char *split;              /* --split; NULL: "969, 30, 1" */
    const char *const *separate[3]; /* --train-data-path, --valid-data-path, --test-data-path; each used as a whole */
    int num_separate[3];
    const char *cache_path; /* --data-cache-path; NULL: folder index-cache beside the data */
    bool in_memory;         /* neither read nor write cache files */
    mega_gpt_share *share;  /* borrowed; NULL: arrays that are not cached are private to each rank */
    /* open and check everything, but do not build the order of samples: none can then be read */
    bool check_only;
    bool is_quiet; /* what was opened is told at the level of debugging */
    int64_t seq_length;
    uint32_t seed;
    int64_t num_samples[3]; /* number requested of each split; a data set may have more */
    mega_ltor_options ltor; /* how mega_dataset_gpt presents a sample */
    /* the samples of BERT or T5 instead of a GPT's (sentence_data.h); borrowed. NULL: a GPT's */
    const struct mega_sentence_options *sentences;
    int64_t vocab;                     /* token ids must be below this; 0: any */
    const volatile sig_atomic_t *stop; /* if not NULL: building returns MEGA_ERR_INTERRUPTED once *stop is not 0 */
} mega_gpt_data_options;

/* Whether these values of --data-path are prefixes without weights. */
bool mega_blend_is_by_size(const char *const *args, int n);
/* Builds out[MEGA_SPLIT_…]; NULL for an empty split. A log line says what each split of a prefix has; of a
 * blend those of its first members. Returns
 * MEGA_ERR_NOT_FOUND, MEGA_ERR_FORMAT, MEGA_ERR_USAGE, MEGA_ERR_MEMORY or MEGA_ERR_INTERRUPTED. */
MEGA_CHECK_RESULT mega_status mega_gpt_data_build(const mega_gpt_data_options *o, mega_gpt_data *out[MEGA_SPLIT_COUNT]);
void mega_gpt_data_destroy(mega_gpt_data *d); /* does nothing but warn while an engine uses it */

/* Concatenates the samples of the parts into one data set and takes the parts over, even on failure. All parts must be
 * of the same data, whose hash is the first part's. Returns MEGA_ERR_MEMORY. */
MEGA_CHECK_RESULT mega_status mega_gpt_data_join(mega_gpt_data *const *part, int count, mega_gpt_data **out);

int64_t mega_gpt_data_samples(const mega_gpt_data *d);
/* Returns the size of the arrays that hold the order of its samples, 0 for NULL. With check_only: of those that a build
 * would create. */
size_t mega_gpt_data_bytes(const mega_gpt_data *d);
int64_t mega_gpt_data_seq_length(const mega_gpt_data *d);
/* Returns a hash of the .idx content of all members, wherever their files are: shows whether a run resumes with the
 * same data. */
uint64_t mega_gpt_data_hash(const mega_gpt_data *d);
/* Computes a hash of the sizes of all .bin files and of 1,024 blocks of them (members of a blend share these, at least
 * 8 each): shows whether data has changed in place. Returns MEGA_ERR_IO if a file cannot be read. */
MEGA_CHECK_RESULT mega_status mega_gpt_data_content_hash(const mega_gpt_data *d, uint64_t *out);
/* Examines about `tokens` tokens, spread over all members: counts ends of documents (id eod), and stops at an id
 * outside of [0, vocab). */
typedef struct mega_gpt_data_probe {
    int64_t tokens, ends; /* tokens examined; ends of documents among them */
    const char *stray_in; /* prefix of the data with an id out of range, borrowed; NULL: none */
    int64_t sequence;     /* the sequence that contains it */
    int32_t id;
} mega_gpt_data_probe;
void mega_gpt_data_look(const mega_gpt_data *d, int64_t tokens, int64_t vocab, int32_t eod, mega_gpt_data_probe *out);
/* Reads sample `index`, an index that the sampler returned. tokens: [seq_length + 1]. Returns MEGA_ERR_USAGE unless 0
 * <= index < samples, and an error if the files have changed since they were opened, as far as reading shows it
 * (mega_map_check shows the rest). */
MEGA_CHECK_RESULT mega_status mega_gpt_data_sample(const mega_gpt_data *d, int64_t index, int32_t *tokens);

/* Returns the samples of `data`, which is borrowed, as a data set: index i is sample i, already in Megatron's order,
 * and epochs are part of `data` itself (num_samples). Fills the inputs that mega_ltor_sample fills. Any thread may
 * read. In a program that called mega_map_guard (file.h), a file that is truncated while it is read makes the batch
 * fail; in other programs SIGBUS kills the process. The hash covers content and order. Returns a data set without
 * samples, with a message, if data is NULL (an empty split) or was built with check_only. */
mega_dataset mega_dataset_gpt(mega_gpt_data *data);
/* Returns a hash of the order and content of some of the first `samples` samples, which must exist. */
uint64_t mega_gpt_data_order_hash(const mega_gpt_data *d, int64_t samples);

/* Computes the boundaries of --split over `size` items: split k is [bounds[k], bounds[k+1]). Returns MEGA_ERR_USAGE. */
MEGA_CHECK_RESULT mega_status mega_split_bounds(const char *split, int64_t size, int64_t bounds[MEGA_SPLIT_COUNT + 1]);

/* Returns MEGA_ERR_USAGE for options that need ends of documents if no id marks one (eod < 0). tokenizer: its type;
 * NULL: none. */
MEGA_CHECK_RESULT mega_status mega_ltor_check(const mega_ltor_options *o, const char *tokenizer);
/* Returns MEGA_ERR_USAGE for the same options if `ends`, the number of input tokens that end a document, is 0. tokens:
 * how many were looked at; data: their name, for the message. */
MEGA_CHECK_RESULT mega_status mega_ltor_check_ends(const mega_ltor_options *o, const char *data, int64_t tokens,
                                                   int64_t ends);

/* tokens [L+1]; the outputs have L elements each, any may be NULL. Query q may attend to positions key_begin[q] …
 * q; key_begin is 0 without reset_attention_mask. */
void mega_ltor_row(const int32_t *tokens, int64_t L, const mega_ltor_options *o, int32_t *input, int32_t *label,
                   float *loss_mask, int32_t *position, int32_t *key_begin);

/* The same for the inputs tokens, labels, loss_mask, position_ids and key_begin of a sample, if the model has them
 * with L numbers each. */
void mega_ltor_sample(mega_sample *sample, const int32_t *tokens, int64_t L, const mega_ltor_options *o);

/* Maps the n-th consumed sample of a run to an index of the data set (--dataloader-type).
 *
 *   single   the samples in order; asking past the end is an error
 *   cyclic   a new permutation (torch.randperm seeded with the epoch) every `active` samples, where active is `total`
 *            rounded down to a multiple of micro_batch * data_parallel. This is Megatron's order without
 *            data sharding;
 *            for one data-parallel rank it is also the order with it.
 *
 * mega_sampler_create returns MEGA_ERR_USAGE if there are too few samples, or MEGA_ERR_MEMORY. */
typedef struct mega_sampler mega_sampler;
typedef enum mega_sampler_type { MEGA_SAMPLER_SINGLE = 0, MEGA_SAMPLER_CYCLIC } mega_sampler_type;
MEGA_CHECK_RESULT mega_status mega_sampler_create(mega_sampler_type type, int64_t total, int64_t micro_batch,
                                                  int64_t data_parallel, mega_sampler **out);
/* The same, except that each cyclic epoch is a permutation of all samples, of which only whole batches of `batch`
 * samples are read (--dataloader-drop-last): the samples that are dropped differ from epoch to epoch. */
MEGA_CHECK_RESULT mega_status mega_sampler_create_drop_last(mega_sampler_type type, int64_t total, int64_t batch,
                                                            mega_sampler **out);
size_t mega_sampler_bytes(mega_sampler_type type, int64_t total); /* upper limit of the memory of such a sampler */
void mega_sampler_destroy(mega_sampler *s);                       /* does nothing but warn while an engine uses it */
/* consumed: number of samples before this one since the run began. Any thread may call it. It keeps the permutation of
 * one epoch, so every change of the epoch costs computing one. Returns MEGA_ERR_USAGE past the end. */
MEGA_CHECK_RESULT mega_status mega_sampler_index(mega_sampler *s, int64_t consumed, int64_t *out_index);
/* The samples of a data set in the order of a sampler, as an endless data set: its sample n is the one at
 * mega_sampler_index n. Reading fails where the sampler ends. Borrows both. */
typedef struct mega_sampled {
    mega_sampler *sampler;
    mega_dataset dataset;
} mega_sampled;
mega_dataset mega_dataset_sampled(mega_sampled *s);

#ifdef __cplusplus
}
#endif

#endif
