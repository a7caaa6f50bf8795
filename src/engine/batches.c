/* The batches of an engine: which samples of the run they hold, and who fills them: the caller, or the training data,
 * which are read on the caller's thread or ahead of the step (megalith/reader.h). */
#include "engine_impl.h"

/* For getters, which return no status: false leaves a message. */
static bool is_given(const mega_engine *e, const char *call)
{
    return engine_check_given(e, call, "e", e) == MEGA_OK;
}

/* first: the number, in the order of the run, of the sample that mega_engine_sample counts from. */
static mega_batch *give_batch(mega_engine *e, int64_t rows, int64_t first, engine_batch_of of)
{
    e->batch_of = of;
    mega_batch_begin(e->batch, rows);
    for (int64_t i = 0; i < rows; i++) mega_batch_set_index(e->batch, i, first + mega_engine_sample(e, i));
    return e->batch;
}

/* The coming micro-batch, or the coming step, with nothing filled. */
static mega_batch *begin_batch(mega_engine *e, engine_batch_of of)
{
    const int64_t first = e->progress.consumed_samples;
    int64_t rows = e->options.micro_batch;
    if (of == ENGINE_BATCH_OF_STEP) rows = mega_batch_ramp_at(&e->options.batch, first) / e->layout->dp.size;
    return give_batch(e, rows, first, of);
}

mega_status engine_read_training_data(mega_engine *e, engine_batch_of of)
{
    return mega_dataset_fill(&e->training_data, e->options.dropout_seed, begin_batch(e, of));
}

static bool can_fill(const mega_engine *e, const char *call)
{
    if (engine_check_given(e, call, "e", e) != MEGA_OK || engine_check_allocated(e, call) != MEGA_OK) return false;
    if (!e->has_training_data && e->micro.phase == ENGINE_STEPPED) return true;
    if (e->has_training_data)
        (void)MEGA_FAIL(MEGA_ERR_USAGE, "%s: the engine reads its training_data; create one without it to fill batches",
                        call);
    else
        (void)MEGA_FAIL(MEGA_ERR_USAGE, "%s: a micro-batch is under way; call mega_engine_%s first", call,
                        e->micro.phase == ENGINE_FORWARDED ? "backward and mega_engine_step" : "step");
    return false;
}

mega_batch *mega_engine_batch(mega_engine *e)
{
    return can_fill(e, "mega_engine_batch") ? begin_batch(e, ENGINE_BATCH_OF_STEP) : NULL;
}

mega_batch *mega_engine_micro_batch(mega_engine *e)
{
    return can_fill(e, "mega_engine_micro_batch") ? begin_batch(e, ENGINE_BATCH_OF_MICRO_BATCH) : NULL;
}

int64_t mega_engine_sample(const mega_engine *e, int64_t i)
{
    if (!is_given(e, "mega_engine_sample")) return -1;
    const mega_axis *dp = &e->layout->dp;
    const int64_t size = e->options.micro_batch;
    const int64_t before = e->batch_of == ENGINE_BATCH_OF_MICRO_BATCH ? e->micro.done : 0;
    return ((before + i / size) * dp->size + dp->rank) * size + i % size;
}

mega_status mega_engine_read(mega_engine *e, const mega_dataset *dataset, uint32_t seed)
{
    MEGA_TRY(engine_check_given(e, "mega_engine_read", "e", e));
    MEGA_TRY(engine_begin_call(e, engine_check_allocated(e, "mega_engine_read")));
    if (!can_fill(e, "mega_engine_read")) return engine_agree(e, MEGA_ERR_USAGE);
    return engine_agree(e, mega_dataset_fill(dataset, seed, mega_engine_batch(e)));
}

mega_batch *mega_engine_evaluation_batch(mega_engine *e, int64_t rows, int64_t first)
{
    if (engine_check_given(e, "mega_engine_evaluation_batch", "e", e) != MEGA_OK) return NULL;
    if (engine_check_allocated(e, "mega_engine_evaluation_batch") != MEGA_OK) return NULL;
    if (rows > 0 && rows <= e->batch_capacity && rows % e->options.micro_batch == 0)
        return give_batch(e, rows, first, ENGINE_BATCH_OF_EVALUATION);
    (void)MEGA_FAIL(MEGA_ERR_USAGE,
                    "mega_engine_evaluation_batch: %lld rows; expected a multiple of micro_batch (%lld), at most %lld",
                    (long long)rows, (long long)e->options.micro_batch, (long long)e->batch_capacity);
    return NULL;
}
