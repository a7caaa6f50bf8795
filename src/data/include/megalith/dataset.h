/* Data sets: samples by index, in an order that depends only on the seed and on the number of samples consumed, so that
 * neither the layout of ranks nor a restart changes it. A sample fills the inputs that a model requests by name
 * (mega_input). */
#ifndef MEGALITH_DATASET_H
#define MEGALITH_DATASET_H

#include "megalith/status.h"
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_sample mega_sample; /* one sample of a batch, to be filled */
typedef struct mega_batch mega_batch;   /* the samples of this rank in a step or an evaluation */

/* Copy the values of one input of the sample: positions * channels numbers, where count must be exactly that. Inputs
 * that this rank does not read, as most stages of a pipeline do not, are accepted and ignored.
 * Return MEGA_ERR_USAGE if the model has no input of this name, dtype and count; the message lists those it has. */
MEGA_CHECK_RESULT mega_status mega_sample_set_f32(mega_sample *sample, const char *input, const float *values,
                                                  int64_t count);
MEGA_CHECK_RESULT mega_status mega_sample_set_i32(mega_sample *sample, const char *input, const int32_t *values,
                                                  int64_t count);

/* Return the position of the sample in the order of the run, which addresses its dropout masks, and the seed of that
 * order (-1 and 0 with a message if sample is NULL). Together they address the random numbers of an augmentation, so
 * that every layout draws the same ones. */
int64_t mega_sample_index(const mega_sample *sample);
uint32_t mega_sample_seed(const mega_sample *sample);

/* Returns the number of samples in the batch on this rank. */
int64_t mega_batch_num_samples(const mega_batch *batch);

/* Returns sample i of the batch, 0 <= i < mega_batch_num_samples, otherwise NULL. Borrowed from the batch. */
mega_sample *mega_batch_sample(mega_batch *batch, int64_t i);

/* A value that the engine copies. `user` is borrowed until mega_engine_destroy.
 *
 * A callback returns a status and leaves its message with MEGA_FAIL. The step that needed the sample then fails on
 * every rank with that status and message, before any update. A callback may query numbers of the engine; other calls
 * of it are refused ("Callbacks" in engine.h). */
typedef struct mega_dataset {
    int64_t first, count; /* an epoch consists of the samples first … first + count - 1 */
    /* Fills every input of one sample. Must be a function of the index (and of mega_sample_index and _seed). */
    mega_status (*read)(void *user, int64_t index, mega_sample *sample);
    /* Optional: runs after all samples of a batch on this rank have been read. */
    mega_status (*collate)(void *user, mega_batch *batch);
    /* Optional: returns a hash of the content; called once, when the engine is created. Checkpoints store it, and a run
     * that resumes with other data is refused (mega_load_options). */
    uint64_t (*hash)(void *user);
    void *user;
    bool in_order; /* samples are not shuffled */
    /* read and collate may be called by several threads at the same time. The engine then reads training samples on a
     * background thread, at most two batches ahead of the step that needs them; otherwise only the thread that calls
     * the engine calls them. The training is the same either way. */
    bool is_thread_safe;
    /* Samples of each epoch's permutation that are read; the rest of it is dropped. 0: all of them. With
     * --dataloader-drop-last the engine sets it to the whole global batches in `count`. */
    int64_t epoch;
    /* Optional: called with 1 when an engine or a read of a batch begins to use the data set, and with -1 when it has
     * ended, on any thread. Between the two, what `user` points to must stay. */
    void (*use)(void *user, int change);
} mega_dataset;

/* Returns the index of the n-th sample of a run, n >= 0 (-1 with a message if n or the data set is wrong). Each epoch
 * is a permutation of its own, a function of the seed and of the epoch, of which the first `epoch` samples are read (0:
 * all); epochs follow without a gap. Computed in place: nothing is stored, any n costs the same. */
int64_t mega_dataset_index(const mega_dataset *dataset, uint32_t seed, int64_t n);

/* Reads all samples of the batch, each at the index of its position in the run, then collates them.
 * Returns MEGA_ERR_USAGE for a data set without samples or without `read`, or the status of the callback that failed.
 */
MEGA_CHECK_RESULT mega_status mega_dataset_fill(const mega_dataset *dataset, uint32_t seed, mega_batch *batch);

/* A file of unsigned bytes in the idx format of MNIST. */
enum { MEGA_IDX_DIMS = 4 };
typedef struct mega_idx {
    uint8_t *bytes; /* the content of dim[0] items, owned by this struct */
    int num_dims;
    int64_t dim[MEGA_IDX_DIMS];
} mega_idx;

/* Reads an idx file of bytes, plain or gzip-compressed, into memory.
 * Returns MEGA_ERR_NOT_FOUND, MEGA_ERR_IO, MEGA_ERR_FORMAT or MEGA_ERR_MEMORY; *out is then unchanged. */
MEGA_CHECK_RESULT mega_status mega_idx_open(const char *path, mega_idx *out);
/* Frees the bytes. NULL and a zero-initialized struct are valid. */
void mega_idx_close(mega_idx *idx);

#ifdef __cplusplus
}
#endif

#endif
