/* Samples of a batch: the inputs that a model requests by name (mega_input), filled by name. */
#ifndef MEGALITH_DATASET_H
#define MEGALITH_DATASET_H

#include "megalith/status.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_sample mega_sample; /* one sample of a batch, to be filled */
typedef struct mega_batch mega_batch;   /* the samples of this rank in a step or an evaluation */

/* Copy the values of one input of the sample: positions * channels numbers, where count must be exactly that. Inputs
 * that this rank does not read, as most stages of a pipeline do not, are accepted and ignored.
 * Return MEGA_ERR_USAGE if the model has no input of this name, dtype and count; the message lists those it has. */
mega_status mega_sample_set_f32(mega_sample *sample, const char *input, const float *values, int64_t count);
mega_status mega_sample_set_i32(mega_sample *sample, const char *input, const int32_t *values, int64_t count);

/* Returns the position of the sample in the order of the run; it addresses the dropout masks of the sample. */
int64_t mega_sample_index(const mega_sample *sample);

/* Returns the number of samples in the batch on this rank. */
int64_t mega_batch_num_samples(const mega_batch *batch);

/* Returns sample i of the batch, 0 <= i < mega_batch_num_samples, else NULL. Borrowed from the batch. */
mega_sample *mega_batch_sample(mega_batch *batch, int64_t i);

#ifdef __cplusplus
}
#endif

#endif
