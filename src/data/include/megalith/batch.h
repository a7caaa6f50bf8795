/* The columns of a batch, one for each named input of a model's programs: creating a batch, and copying its samples
 * into the inputs of a program. dataset.h has the functions that fill samples. */
#ifndef MEGALITH_BATCH_H
#define MEGALITH_BATCH_H

#include "megalith/dataset.h"
#include "megalith/dtype.h"
#include "megalith/program.h"
#include <stdbool.h>

enum { MEGA_INPUTS = 32, MEGA_INPUT_NAME = 64 };

/* A named input as it is filled: MEGA_I32 or MEGA_F32, whatever the compute type of the program. */
typedef struct mega_batch_input {
    char name[MEGA_INPUT_NAME];
    int64_t dtype;
    int64_t per_sample; /* count of numbers */
    int64_t below;      /* I32: values are in [0, below); 0: any value */
    /* I32: labels of so many classes (0: they are none), which are in [0, classes) or `ignored`, but in rows where the
     * input `weights` ("": none) is 0 may be anything. */
    int64_t classes, ignored;
    char weights[MEGA_INPUT_NAME];
} mega_batch_input;

/* Lists the inputs of a program over `samples` samples that a batch fills. Omits the inputs that the engine fills:
 * sample_id, seq_position, and the activations between pipeline stages (mega_border_name).
 * Returns MEGA_ERR_USAGE for an input that cannot be divided into samples, or a name that is too long. */
mega_status mega_batch_inputs_of(const mega_program *p, int64_t samples, mega_batch_input out[MEGA_INPUTS],
                                 int *out_count);

/* Creates a batch for up to `capacity` samples, without columns. Returns MEGA_ERR_MEMORY. */
mega_status mega_batch_create(int64_t capacity, mega_batch **out);
/* The same with the columns of another batch, which still need memory. */
mega_status mega_batch_create_like(const mega_batch *other, mega_batch **out);
void mega_batch_destroy(mega_batch *batch);
/* Sets how many consecutive samples have weights that a loss is divided by: a micro-batch; 0, as created: all. */
void mega_batch_set_part(mega_batch *batch, int64_t samples);
/* Adds a column, or joins it with the one of the same name. is_read: a program of this rank reads this input; otherwise
 * the column takes no memory. Returns MEGA_ERR_USAGE if the column of this name has another dtype or size. */
mega_status mega_batch_add(mega_batch *batch, const mega_batch_input *input, bool is_read);
int mega_batch_num_inputs(const mega_batch *batch);
const mega_batch_input *mega_batch_input_get(const mega_batch *batch, int number);
/* The bytes of the columns, which are memory of the host. mega_batch_allocate allocates them, once. Returns
 * MEGA_ERR_MEMORY. */
size_t mega_batch_bytes(const mega_batch *batch);
mega_status mega_batch_allocate(mega_batch *batch);

/* Starts `samples` samples with no input filled. Each has index 0 until it is set. */
void mega_batch_begin(mega_batch *batch, int64_t samples);
void mega_batch_set_seed(mega_batch *batch, uint32_t seed); /* the value of mega_sample_seed */
void mega_batch_set_index(mega_batch *batch, int64_t i, int64_t index);
/* the same number of samples with the same indices */
bool mega_batch_is_of_same_samples(const mega_batch *a, const mega_batch *b);
/* Marks the input as filled and returns where this rank keeps it, so that the caller can write `count` numbers; NULL if
 * this rank does not read it, or the model has no input of this name, dtype and count. */
int32_t *mega_sample_i32(mega_sample *sample, const char *input, int64_t count);
float *mega_sample_f32(mega_sample *sample, const char *input, int64_t count);
/* Returns MEGA_ERR_USAGE, with the name of the input and the sample, for an input of this rank that is not filled, or
 * for an id, label or position out of its range, or for weights of labels that sum to less than 0 in a micro-batch. */
mega_status mega_batch_check(const mega_batch *batch);
/* Copies `samples` samples, beginning with sample `first`, into the inputs of one slot. A program whose samples are
 * shorter gets the first numbers of each. Rows of the ignored label get the weight 0 where a head reads both. */
void mega_batch_load(const mega_batch *batch, int64_t first, int64_t samples, mega_program *p, int slot);
/* After a forward of these samples: returns MEGA_ERR_USAGE, with the sample, if the program found a label that is no
 * class (mega_program_wrong_labels). */
mega_status mega_batch_check_labels(const mega_batch *batch, int64_t first, int64_t samples, const mega_program *p,
                                    int slot);
/* Returns MEGA_ERR_UNSUPPORTED, with the name of the input, unless each input of the program, whose samples have
 * `positions` positions, is the beginning of the batch's input, whose samples have `whole`. An input is, if it holds
 * the same count of numbers for each position, in the order of the positions, or the same numbers for samples of any
 * length. */
mega_status mega_batch_check_shorter(const mega_batch *batch, const mega_program *p, int64_t samples, int64_t positions,
                                     int64_t whole);

#endif
