/* Creates an engine from a GPT, for tests and measurements. */
#ifndef MEGALITH_TESTS_GPT_ENGINE_H
#define MEGALITH_TESTS_GPT_ENGINE_H

#include "megalith/engine_commands.h"
#include "megalith/transformer.h"
#include <stdlib.h>

/* The lists of models whose engines describe them again while they train (a curriculum), until the program ends. */
typedef struct gpt_engine_kept {
    mega_transformer_list list;
    struct gpt_engine_kept *next;
} gpt_engine_kept;
static gpt_engine_kept *gpt_engine_lists;

static inline void gpt_engine_free_lists(void)
{
    while (gpt_engine_lists != NULL) {
        gpt_engine_kept *next = gpt_engine_lists->next;
        mega_transformer_list_destroy(&gpt_engine_lists->list);
        free(gpt_engine_lists);
        gpt_engine_lists = next;
    }
}

/* Frees a list, or keeps it until the program ends. */
static inline void gpt_engine_finish(gpt_engine_kept *kept, bool is_kept)
{
    if (!is_kept) {
        mega_transformer_list_destroy(&kept->list);
        free(kept);
        return;
    }
    if (gpt_engine_lists == NULL) atexit(gpt_engine_free_lists);
    kept->next = gpt_engine_lists;
    gpt_engine_lists = kept;
}

/* Creates an engine with the stages and programs of the GPT. Without a GPT, returns what mega_engine_create returns
 * without a model. With data NULL the caller fills batches. */
static inline mega_status gpt_engine_create_with(mega_engine **out, const mega_transformer *gpt,
                                                 const mega_engine_options *options, const mega_dataset *data)
{
    if (options == NULL) return MEGA_FAIL(MEGA_ERR_USAGE, "gpt_engine_create: options is NULL; give it");
    if (gpt == NULL) return mega_engine_create(&(mega_setup){.options = options}, out);
    mega_engine_options o = *options;
    o.stage_programs = (int)gpt->stage_chunks;
    gpt_engine_kept *kept = calloc(1, sizeof *kept);
    if (kept == NULL) abort();
    mega_status st = mega_transformer_list_create(gpt, o.layout.pp > 1 ? o.layout.pp : 1, &kept->list);
    if (st != MEGA_OK) {
        free(kept);
        return o.world == NULL ? st : mega_comm_agree(mega_world_comm(o.world), st);
    }
    const mega_model model = mega_transformer_model(&kept->list);
    st = mega_engine_create(&(mega_setup){.model = &model, .training_data = data, .options = &o}, out);
    gpt_engine_finish(kept, o.curriculum.is_on);
    return st;
}

static inline mega_status gpt_engine_create(mega_engine **out, const mega_transformer *gpt,
                                            const mega_engine_options *options)
{
    return gpt_engine_create_with(out, gpt, options, NULL);
}

#endif
