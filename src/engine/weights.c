/* What only some optimizers have: weights of the training and weights of the evaluation, of which one are in place;
 * numbers in run.json; the errors of compression. */
#include "engine_calls.h"
#include "engine_state.h"
#include "megalith/device_memory.h"
#include "megalith/optimizer_state.h"
#include <limits.h>

static mega_status show(mega_engine *e, bool average)
{
    if (e->optimizer == NULL || !mega_optimizer_averages(e->optimizer)) return MEGA_OK;
    MEGA_TRY(mega_update_wait(e->update));
    if (!mega_optimizer_show(e->optimizer, average)) return MEGA_OK;
    for (int c = 0; c < e->programs.chunks; c++) /* weights packed earlier in this step are outdated */
        mega_program_step_block(e->programs.chunk[c].train)->keeps_packed = false;
    return engine_agree(e, mega_params_publish(e->params));
}

mega_status engine_use_averaged_weights(mega_engine *e)
{
    return show(e, true);
}

mega_status engine_use_trained_weights(mega_engine *e)
{
    return show(e, false);
}

/* ---- 1-bit Adam ---- */

engine_residuals engine_residuals_here(const mega_engine *e)
{
    const bool has_any = mega_optimizer_num_errors(e->optimizer) > 0 && mega_optimizer_has_errors(e->optimizer);
    return has_any ? (engine_residuals){e->layout->dp.size, true} : (engine_residuals){0};
}

mega_status engine_residuals_save(const mega_engine *e, json_t *root)
{
    if (engine_residuals_here(e).ranks == 0) return MEGA_OK;
    json_t *layout =
        json_pack("{s:i, s:i}", "data_parallel", e->layout->dp.size, "tensor_parallel", e->layout->tp.size);
    return layout != NULL && json_object_set_new(root, "compression_errors", layout) == 0
               ? MEGA_OK
               : MEGA_NO_MEMORY("checkpoint", "run.json");
}

engine_residuals engine_residuals_there(const mega_engine *e, const json_t *root)
{
    const json_t *layout = json_object_get(root, "compression_errors");
    const json_int_t dp = json_integer_value(json_object_get(layout, "data_parallel"));
    const json_int_t tp = json_integer_value(json_object_get(layout, "tensor_parallel"));
    if (mega_optimizer_num_errors(e->optimizer) == 0 || dp < 1 || dp > INT_MAX) return (engine_residuals){0};
    return (engine_residuals){(int)dp, dp == e->layout->dp.size && tp == e->layout->tp.size};
}

void engine_residuals_clear(mega_engine *e)
{
    const size_t size = mega_dtype_size(mega_params_acc_dtype(e->params));
    const int moments = mega_optimizer_num_moments(e->optimizer), errors = mega_optimizer_num_errors(e->optimizer);
    for (int m = moments - errors; m < moments; m++)
        for (int i = 0; i < mega_params_count(e->params); i++) {
            void *error = mega_optimizer_moment(e->optimizer, m, i);
            if (error != NULL) mega_device_fill(error, 0, (size_t)mega_params_owned(e->params, i).count * size);
        }
}

/* ---- numbers ---- */

mega_status engine_optimizer_numbers_save(const mega_engine *e, json_t *root)
{
    const int count = mega_optimizer_num_numbers(e->optimizer);
    json_t *numbers = json_object();
    for (int i = 0; i < count; i++)
        json_object_set_new(numbers, mega_optimizer_number_name(e->optimizer, i),
                            json_real(mega_optimizer_number(e->optimizer, i)));
    if (count > 0) json_object_set(root, "optimizer_numbers", numbers);
    const bool is_whole = json_object_size(numbers) == (size_t)count;
    json_decref(numbers);
    return is_whole ? MEGA_OK : MEGA_NO_MEMORY("checkpoint", "run.json");
}

mega_status engine_optimizer_numbers_load(mega_engine *e, const json_t *root)
{
    const json_t *numbers = json_object_get(root, "optimizer_numbers");
    for (int i = 0; i < mega_optimizer_num_numbers(e->optimizer); i++) {
        const char *name = mega_optimizer_number_name(e->optimizer, i);
        const json_t *number = json_object_get(numbers, name);
        if (!json_is_number(number))
            return MEGA_FAIL(MEGA_ERR_FORMAT,
                             "run.json of the checkpoint: \"optimizer_numbers\": \"%s\" is no number; --no-load-optim "
                             "starts with fresh moments",
                             name);
        mega_optimizer_set_number(e->optimizer, i, json_number_value(number));
    }
    return MEGA_OK;
}
