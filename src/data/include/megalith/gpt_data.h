/* The GPT data set: samples of seq_length + 1 tokens cut from the stream of shuffled documents, in the order
 * Megatron-LM gives for the same data, split, seed and number of samples. All arrays are functions of these alone. */
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

typedef struct mega_gpt_data mega_gpt_data; /* one split of one prefix, or a blend of several; read by any threads */

/* Memory for the order of samples, which the ranks of a host hold once. One of them creates a share and builds its data
 * sets with it; the others open what its offer names and build theirs with that. Arrays that lie in cache files are
 * mapped from there instead. A share may go once all have built: what they mapped stays. */
typedef struct mega_gpt_share mega_gpt_share;
typedef struct mega_gpt_offer {
    int64_t pid, fd; /* fd -1: nothing is shared */
    int64_t nonce, table, blocks, bytes;
} mega_gpt_offer; /* eight bytes each, to be sent as they are */
MEGA_CHECK_RESULT mega_status mega_gpt_share_create(mega_gpt_share **out);
void mega_gpt_share_offer(mega_gpt_share *share, mega_gpt_offer *out); /* after the last build with it */
/* *out NULL where nothing is offered, or it cannot be opened (/proc/PID/fd of containers of their own). */
MEGA_CHECK_RESULT mega_status mega_gpt_share_open(mega_gpt_share **out, const mega_gpt_offer *offer);
void mega_gpt_share_destroy(mega_gpt_share *share);

/* A row as the model sees it (Megatron's get_ltor_masks_and_position_ids). */
typedef struct mega_ltor_options {
    int32_t eod;
    bool reset_position_ids, reset_attention_mask, eod_mask_loss;
} mega_ltor_options;

typedef struct mega_gpt_data_options {
    const char *const *data_path; /* --data-path: one prefix, or weight prefix weight prefix … */
    int num_data_path;
    const char *split;              /* --split; NULL: "969, 30, 1" */
    const char *const *separate[3]; /* --train-data-path, --valid-data-path, --test-data-path; each used whole */
    int num_separate[3];
    const char *cache_path; /* --data-cache-path; NULL: folder index-cache beside the data */
    bool in_memory;         /* neither read nor write cache files */
    mega_gpt_share *share;  /* borrowed; NULL: every rank has memory of its own for what is not cached */
    bool check_only;        /* open and check everything, and build no order of samples: none can be read */
    int64_t seq_length;
    uint32_t seed;
    int64_t num_samples[3];            /* requested of each split; a data set may hold more */
    mega_ltor_options ltor;            /* how mega_dataset_gpt shows a sample */
    int64_t vocab;                     /* ids that its samples may hold, or an error; 0: any */
    const volatile sig_atomic_t *stop; /* not NULL: building ends with MEGA_ERR_INTERRUPTED once it is not 0 */
} mega_gpt_data_options;

/* out[MEGA_SPLIT_…]: NULL where the split is empty. Notes (cache built, cache folder read-only, …) go to the log. */
MEGA_CHECK_RESULT mega_status mega_gpt_data_build(mega_gpt_data *out[MEGA_SPLIT_COUNT], const mega_gpt_data_options *o);
void mega_gpt_data_destroy(mega_gpt_data *d);

/* Takes the parts, also on failure, and gives their samples one after the other, as one data set. They are of the same
 * data, whose hash is the first part's. */
MEGA_CHECK_RESULT mega_status mega_gpt_data_join(mega_gpt_data **out, mega_gpt_data *const *part, int count);

int64_t mega_gpt_data_samples(const mega_gpt_data *d);
/* Of the arrays that hold the order of its samples, of NULL 0. With check_only: of those that a build would make. */
size_t mega_gpt_data_bytes(const mega_gpt_data *d);
int64_t mega_gpt_data_seq_length(const mega_gpt_data *d);
/* Hash of the content of all members, wherever their files lie: tells whether a run goes on with the same data. */
uint64_t mega_gpt_data_hash(const mega_gpt_data *d);
/* Hash of the sizes of all .bin files and of 1,024 blocks of them (of a blend, its members share these, at least 8
 * each): tells data that changed in place. */
MEGA_CHECK_RESULT mega_status mega_gpt_data_content_hash(const mega_gpt_data *d, uint64_t *out);
/* Looks at about `tokens` tokens, spread over all members: counts ends of documents (id eod), and stops at an id
 * outside 0 … vocab - 1. */
typedef struct mega_gpt_data_probe {
    int64_t tokens, ends; /* looked at; of them ends */
    const char *stray_in; /* prefix of the data that hold such an id, borrowed; NULL: there is none */
    int64_t sequence;     /* where it is */
    int32_t id;
} mega_gpt_data_probe;
void mega_gpt_data_look(const mega_gpt_data *d, int64_t tokens, int64_t vocab, int32_t eod, mega_gpt_data_probe *out);
/* What the sampler hands out; 0 <= index < samples, else MEGA_ERR_USAGE. tokens: [seq_length + 1]. An error where the
 * files no longer hold what they held when they were opened, as far as reading them shows it (mega_map_check shows the
 * rest). */
MEGA_CHECK_RESULT mega_status mega_gpt_data_sample(const mega_gpt_data *d, int64_t index, int32_t *tokens);

/* Returns the samples of `data`, which is borrowed, as a data set: index i is sample i, in Megatron's order already,
 * and epochs are in `data` itself (num_samples). Fills the inputs that mega_ltor_sample fills. Any threads may read. A
 * file that is cut while it is read is an error of the batch in a program that called mega_map_guard (file.h);
 * elsewhere SIGBUS ends it. The hash is one of the content and of the order. Returns one without samples, and leaves a
 * message, if data is NULL (an empty split) or was built with check_only. */
mega_dataset mega_dataset_gpt(mega_gpt_data *data);
/* Hash of some of the first `samples` samples, which there must be: their order and their content. */
uint64_t mega_gpt_data_order_hash(const mega_gpt_data *d, int64_t samples);

/* Boundaries of --split over `size` items: split k is [bounds[k], bounds[k+1]). */
MEGA_CHECK_RESULT mega_status mega_split_bounds(const char *split, int64_t size, int64_t bounds[MEGA_SPLIT_COUNT + 1]);

/* Refuses options that look for ends of documents where no id is one (eod < 0). tokenizer: its type, NULL: there is
 * none. */
MEGA_CHECK_RESULT mega_status mega_ltor_check(const mega_ltor_options *o, const char *tokenizer);
/* Refuses the same options where `ends` of `tokens` input tokens of these data end a document, and that is none. */
MEGA_CHECK_RESULT mega_status mega_ltor_check_ends(const mega_ltor_options *o, const char *data, int64_t tokens,
                                                   int64_t ends);

/* tokens [L+1]; outputs [L] each, any may be NULL. segment_start[q] is the first key position that query q sees (0
 * without reset_attention_mask); it sees segment_start[q] … q. */
void mega_ltor_row(const int32_t *tokens, int64_t L, const mega_ltor_options *o, int32_t *input, int32_t *label,
                   float *loss_mask, int32_t *position, int32_t *segment_start);

/* The same into the inputs tokens, labels, loss_mask, position_ids and segment_start of a sample, as far as the model
 * has them with L numbers each. */
void mega_ltor_sample(mega_sample *sample, const int32_t *tokens, int64_t L, const mega_ltor_options *o);

/* Which data set index the n-th consumed sample of a run is (--dataloader-type).
 *
 *   single   the consumed samples in order; asking past the end is an error
 *   cyclic   a new permutation (torch.randperm seeded with the epoch) every `active` samples, where active is `total`
 *            less the rest that does not fill micro_batch * data_parallel rows. Megatron's order without data sharding,
 *            which for one data-parallel rank is also its order with it. */
typedef struct mega_sampler mega_sampler;
typedef enum mega_sampler_type { MEGA_SAMPLER_SINGLE = 0, MEGA_SAMPLER_CYCLIC } mega_sampler_type;
MEGA_CHECK_RESULT mega_status mega_sampler_create(mega_sampler **out, mega_sampler_type type, int64_t total,
                                                  int64_t micro_batch, int64_t data_parallel);
size_t mega_sampler_bytes(mega_sampler_type type, int64_t total); /* that such a sampler holds, at most */
void mega_sampler_destroy(mega_sampler *s);
/* consumed: number of samples before this one since the run began. Any thread; it keeps the permutation of one epoch,
 * so each change of the epoch takes as long as to make one. */
MEGA_CHECK_RESULT mega_status mega_sampler_index(mega_sampler *s, int64_t consumed, int64_t *out_index);
/* The samples of a data set in the order of a sampler, as a data set without an end: its sample n is the one at
 * mega_sampler_index n. Where the sampler ends, reading fails. Borrowed. */
typedef struct mega_sampled {
    mega_sampler *sampler;
    mega_dataset dataset;
} mega_sampled;
mega_dataset mega_dataset_sampled(mega_sampled *s);

#ifdef __cplusplus
}
#endif

#endif
