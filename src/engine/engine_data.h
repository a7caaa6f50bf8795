/* The samples of a step: inputs of the model, batches, training data. */
#ifndef MEGALITH_ENGINE_DATA_H
#define MEGALITH_ENGINE_DATA_H

#include "engine_impl.h"

/* inputs.c. engine_collect_inputs is collective over pp: creates the batches, with a column for each named input of the
 * model. engine_compare_inputs is collective over the world: returns an error unless all ranks have the same inputs. */
mega_status engine_collect_inputs(mega_engine *e);
mega_status engine_compare_inputs(const mega_engine *e);
int64_t engine_micro_batches(const mega_engine *e); /* returns how many the batch has */
/* data.c. With drop_last, cuts the epochs of the training data to whole global batches. */
mega_status engine_cut_epochs(mega_engine *e);
/* batches.c. Reads the samples of the next micro-batch or step from the training data into the batch. */
mega_status engine_read_training_data(mega_engine *e, engine_batch_purpose purpose);
/* data.c. engine_compare_data is collective over the world: checks that all ranks read the same training data.
 * engine_data_json returns the description of the training data that a checkpoint keeps in run.json, under
 * ENGINE_DATA_MEMBER; NULL: out of memory.
 * engine_check_data returns an error if the checkpoint was made with other training data. */
#define ENGINE_DATA_MEMBER "training_data"
mega_status engine_compare_data(const mega_engine *e);
json_t *engine_data_json(const mega_engine *e);
mega_status engine_check_data(const mega_engine *e, const mega_checkpoint *c);

#endif
