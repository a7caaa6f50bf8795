/* Whether an engine can be created and can take a call. Collective calls ask all ranks before they begin, so that one
 * wrong call does not leave the other ranks waiting. */
#include "engine_impl.h"

mega_status engine_agree(const mega_engine *e, mega_status st)
{
    return e->options.layout.planned_ranks > 0 ? st : mega_comm_agree(e->layout->world.comm, st);
}

mega_status engine_check_given(const mega_engine *e, const char *call, const char *argument, const void *value)
{
    if (e == NULL) return MEGA_FAIL(MEGA_ERR_USAGE, "%s: the engine is NULL; create one with mega_engine_create", call);
    if (value == NULL) return MEGA_FAIL(MEGA_ERR_USAGE, "%s: the argument %s is NULL; give it", call, argument);
    return MEGA_OK;
}

mega_status engine_check_allocated(const mega_engine *e, const char *call)
{
    if (e->is_allocated) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_USAGE, "%s: the engine has no memory yet; call mega_engine_allocate first", call);
}

mega_status engine_check_step(const mega_engine *e, const mega_step_result *out)
{
    MEGA_TRY(engine_check_given(e, "mega_engine_step", "out", out));
    if (e->train == NULL)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_engine_step: the engine was created with no_train, so it cannot train; "
                                         "create one without it");
    MEGA_TRY(engine_check_allocated(e, "mega_engine_step"));
    if (e->batch_of == ENGINE_BATCH_OF_STEP) return mega_batch_check(e->batch);
    return MEGA_FAIL(MEGA_ERR_USAGE,
                     "mega_engine_step: the rows of the batch are %s; call mega_engine_batch and fill what it returns",
                     e->batch_of == ENGINE_BATCH_OF_EVALUATION ? "those of an evaluation" : "not filled");
}

mega_status engine_check_evaluate(const mega_engine *e, const mega_loss_sums *sums)
{
    MEGA_TRY(engine_check_given(e, "mega_engine_evaluate", "sums", sums));
    if (e->evaluate == NULL)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_engine_evaluate: the engine was created with no_evaluate, so it cannot "
                                         "evaluate; create one without it");
    MEGA_TRY(engine_check_allocated(e, "mega_engine_evaluate"));
    if (e->batch_of != ENGINE_BATCH_NONE) return mega_batch_check(e->batch);
    return MEGA_FAIL(MEGA_ERR_USAGE, "mega_engine_evaluate: the rows of the batch are not filled; call "
                                     "mega_engine_evaluation_batch and fill what it returns");
}

mega_status engine_check_save(const mega_engine *e, const mega_engine_save_options *o)
{
    MEGA_TRY(engine_check_given(e, "mega_engine_save", "options", o));
    MEGA_TRY(engine_check_given(e, "mega_engine_save", "options.folder", o->folder));
    if (e->optimizer == NULL)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "mega_engine_save: the engine was created with no_train, so it has no state to save; create "
                         "one without it");
    return engine_check_allocated(e, "mega_engine_save");
}

mega_status engine_check_load(const mega_engine *e, const mega_checkpoint *c, const mega_engine_load_options *o,
                              const mega_engine_loaded *out)
{
    MEGA_TRY(engine_check_given(e, "mega_engine_load", "options", o));
    MEGA_TRY(engine_check_given(e, "mega_engine_load", "out", out));
    if (c == NULL)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_engine_load: the checkpoint is NULL; mega_checkpoint_open leaves NULL "
                                         "where a folder holds no checkpoint");
    return engine_check_allocated(e, "mega_engine_load");
}

mega_status engine_check_allocate(const mega_engine *e)
{
    if (e->options.layout.planned_ranks > 0)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "mega_engine_allocate: the layout is that of a plan (planned_ranks %d), so nothing can run; "
                         "create an engine with planned_ranks 0",
                         e->options.layout.planned_ranks);
    if (e->arena == NULL) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_USAGE, "mega_engine_allocate: the engine %s; it is called once",
                     e->is_allocated ? "has its memory already" : "failed to get its memory before");
}

/* Everything that does not need the layout. */
mega_status engine_check_options(const mega_model *model, const mega_engine_options *o)
{
    const mega_batch_ramp *b = &o->batch;
    if (model == NULL) return MEGA_FAIL(MEGA_ERR_USAGE, "mega_engine_create: model is NULL; give it");
    if (o->micro_batch < 1 || o->seq < 1)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "mega_engine_create: micro_batch %lld, seq %lld; expected both to be at least 1",
                         (long long)o->micro_batch, (long long)o->seq);
    if (b->micro_step < o->micro_batch || b->micro_step % o->micro_batch != 0)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "mega_engine_create: batch.micro_step %lld; expected micro_batch (%lld) times the number of "
                         "data-parallel ranks",
                         (long long)b->micro_step, (long long)o->micro_batch);
    if (b->global_batch < b->micro_step || b->global_batch % b->micro_step != 0)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "mega_engine_create: batch.global_batch %lld; expected a multiple of batch.micro_step (%lld)",
                         (long long)b->global_batch, (long long)b->micro_step);
    if (o->zero_stage < 0 || o->zero_stage > 3)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_engine_create: zero_stage %d; expected 0, 1, 2 or 3", o->zero_stage);
    return MEGA_OK;
}

mega_status engine_check_ramp(const mega_engine *e)
{
    const int64_t expected = e->options.micro_batch * e->layout->dp.size;
    if (e->options.batch.micro_step == expected) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_USAGE,
                     "mega_engine_create: batch.micro_step %lld; expected %lld, micro_batch (%lld) times %d "
                     "data-parallel ranks",
                     (long long)e->options.batch.micro_step, (long long)expected, (long long)e->options.micro_batch,
                     e->layout->dp.size);
}
