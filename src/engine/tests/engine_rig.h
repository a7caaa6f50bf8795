/* Creates, trains and saves an engine with the model of engine_run.h, for tests of calls. */
#ifndef MEGALITH_ENGINE_RIG_H
#define MEGALITH_ENGINE_RIG_H

#include "engine_run.h"
#include "kit.h"

enum { SEQ = ENGINE_RUN_SEQ, BATCH = 4 };

typedef struct rig {
    mega_transformer gpt;
    mega_engine *engine;
} rig;

static inline void rig_create(rig *r)
{
    r->gpt = engine_run_gpt();
    const mega_engine_options o = engine_run_options(BATCH, 2, 1e-2);
    need(gpt_engine_create(&r->engine, &r->gpt, &o));
}

static inline void rig_open(rig *r, uint32_t seed)
{
    rig_create(r);
    need(mega_engine_allocate(r->engine));
    need(mega_engine_initialize(r->engine, seed));
}

static inline void fill(mega_engine *e)
{
    mega_batch *b = mega_engine_batch(e);
    assert_non_null(b);
    for (int64_t r = 0; r < mega_batch_num_samples(b); r++) engine_run_fill(b, r, r);
}

static inline mega_status save(rig *r, const char *folder, const char *extra)
{
    const mega_engine_save_options o = {.folder = folder, .save_dtype = MEGA_F32, .extra_json = extra};
    return mega_engine_save(r->engine, &o);
}

static inline double loss_of_a_step(rig *r)
{
    mega_step_result out;
    fill(r->engine);
    need(mega_engine_train_batch(r->engine, &out));
    return out.loss;
}

#endif
