/* A GPT that generates text: shared by the tests of generators. */
#ifndef GENERATE_KIT_H
#define GENERATE_KIT_H

#include "gpt_describe.h"
#include "kit.h"
#include "megalith/generate.h"

typedef struct generating {
    mega_transformer gpt;
    mega_transformer_list list;
    mega_language_model language;
    mega_engine *engine;
} generating;

/* Initializes in place, because layers point into the list. */
static inline void generating_open(generating *m, gpt_size size, const mega_engine_options *o)
{
    m->gpt = gpt_of(size);
    need(gpt_language(&m->language, &m->list, &m->gpt));
    const mega_setup setup = {.model = &m->language.model, .mode = MEGA_GENERATE, .options = o};
    need(mega_engine_create(&setup, &m->engine));
    need(mega_engine_allocate(m->engine));
    need(mega_engine_initialize(m->engine, 7));
}

static inline void generating_close(generating *m)
{
    mega_engine_destroy(m->engine);
    mega_transformer_list_destroy(&m->list);
}

#endif
