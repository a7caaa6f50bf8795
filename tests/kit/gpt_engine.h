/* Creates an engine from a GPT, for tests and measurements. */
#ifndef MEGALITH_TESTS_GPT_ENGINE_H
#define MEGALITH_TESTS_GPT_ENGINE_H

#include "megalith/engine_commands.h"
#include "megalith/gpt.h"

/* Creates an engine with the stages and programs of the GPT. Without a GPT, returns what mega_engine_create returns
 * without a model. With data NULL the caller fills batches. */
static inline mega_status gpt_engine_create_with(mega_engine **out, const mega_gpt *gpt,
                                                 const mega_engine_options *options, const mega_dataset *data)
{
    mega_gpt_list list;
    if (options == NULL) return MEGA_FAIL(MEGA_ERR_USAGE, "gpt_engine_create: options is NULL; give it");
    if (gpt == NULL) return mega_engine_create(&(mega_setup){.options = options}, out);
    mega_engine_options o = *options;
    o.stage_programs = (int)gpt->stage_chunks;
    mega_status st = mega_gpt_list_create(gpt, o.layout.pp > 1 ? o.layout.pp : 1, &list);
    if (st != MEGA_OK) return o.world == NULL ? st : mega_comm_agree(mega_world_comm(o.world), st);
    const mega_model model = mega_gpt_model(&list);
    st = mega_engine_create(&(mega_setup){.model = &model, .training_data = data, .options = &o}, out);
    mega_gpt_list_destroy(&list);
    return st;
}

static inline mega_status gpt_engine_create(mega_engine **out, const mega_gpt *gpt, const mega_engine_options *options)
{
    return gpt_engine_create_with(out, gpt, options, NULL);
}

#endif
