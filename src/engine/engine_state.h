/* What a checkpoint keeps besides parameters: the state of the caller, averages, what a compression has lost. */
#ifndef MEGALITH_ENGINE_STATE_H
#define MEGALITH_ENGINE_STATE_H

#include "engine_impl.h"

/* client_state.c. engine_reset_to_step_0 resets the engine to step 0 and zeroes the optimizer states. */
void engine_client_free(mega_engine *e);
void engine_reset_to_step_0(mega_engine *e);
/* weights.c. Collective over the world where the optimizer has other weights for evaluations (optimizer_state.h): puts
 * these, or those of the training, in place. */
mega_status engine_use_averaged_weights(mega_engine *e);
mega_status engine_use_trained_weights(mega_engine *e);
/* The residuals of 1-bit Adam, what its compression has lost and adds to the next exchange, in a checkpoint: on how
 * many ranks of dp (0: it has nothing of this), and whether these are the ranks of this layout, which then goes on with
 * them. Otherwise they start at 0. */
typedef struct engine_residuals {
    int ranks;
    bool is_own;
} engine_residuals;
engine_residuals engine_residuals_here(const mega_engine *e);
engine_residuals engine_residuals_there(const mega_engine *e, const json_t *root);
mega_status engine_residuals_save(const mega_engine *e, json_t *root);
void engine_residuals_clear(mega_engine *e);
/* The optimizer's numbers in run.json. */
mega_status engine_optimizer_numbers_save(const mega_engine *e, json_t *root);
mega_status engine_optimizer_numbers_load(mega_engine *e, const json_t *root);

#endif
