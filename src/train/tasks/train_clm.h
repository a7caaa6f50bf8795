/* Shared by clm_names.c, clm_options.c and clm_overrides.c. */
#ifndef MEGALITH_TRAIN_CLM_H
#define MEGALITH_TRAIN_CLM_H

#include "megalith/memory.h"
#include "rules/train_rules.h"

/* Returns the folder that a name of a model or data set leads to; NULL: there is none, and `looked` lists where it was
 * looked for. sub: a folder in it, or NULL. */
const char *train_clm_folder(mega_train_options *cfg, const char *name, const char *sub, mega_buffer *looked);
bool train_clm_has(mega_train_options *cfg, const char *folder, const char *file);
/* If --resume_from_checkpoint names the folder of a run that has ended, sets cfg->load to its newest state: the final
 * model has weights alone. */
void train_clm_find_state(mega_train_options *cfg);
void train_clm_find_data(mega_train_options *cfg); /* sets cfg->clm.train and .validation */

void train_clm_take_type(mega_train_options *cfg); /* clm_overrides.c: --model_type, --config_overrides */

#endif
