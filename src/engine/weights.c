/* Which weights are in place: with a schedule-free optimizer, those of the training or those of the evaluation. */
#include "engine_impl.h"
#include "megalith/optimizer_state.h"

static mega_status show(mega_engine *e, bool average)
{
    if (e->optimizer == NULL || !mega_optimizer_averages(e->optimizer)) return MEGA_OK;
    MEGA_TRY(mega_update_wait(e->update));
    if (!mega_optimizer_show(e->optimizer, average)) return MEGA_OK;
    for (int c = 0; c < e->chunks; c++) /* weights packed earlier in this step are outdated */
        mega_program_step(e->chunk[c].train)->keeps_packed = false;
    return engine_agree(e, mega_params_publish(e->params));
}

mega_status engine_show_average(mega_engine *e)
{
    return show(e, true);
}

mega_status engine_show_trained(mega_engine *e)
{
    return show(e, false);
}

mega_status engine_numbers_save(const mega_engine *e, json_t *root)
{
    const int count = mega_optimizer_num_numbers(e->optimizer);
    json_t *numbers = json_object();
    for (int i = 0; i < count; i++)
        json_object_set_new(numbers, mega_optimizer_number_name(e->optimizer, i),
                            json_real(*mega_optimizer_number(e->optimizer, i)));
    if (count > 0) json_object_set(root, "optimizer_numbers", numbers);
    const bool is_whole = json_object_size(numbers) == (size_t)count;
    json_decref(numbers);
    return is_whole ? MEGA_OK : MEGA_FAIL(MEGA_ERR_MEMORY, "checkpoint: no memory for run.json");
}

mega_status engine_numbers_load(mega_engine *e, const json_t *root)
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
        *mega_optimizer_number(e->optimizer, i) = json_number_value(number);
    }
    return MEGA_OK;
}
