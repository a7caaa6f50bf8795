/* The batches of an engine: which samples of the run they hold, and who fills them. Either the caller does, or the
 * engine reads training data, on the caller's thread or ahead of the step (megalith/reader.h). */
#include "engine_calls.h"
#include "engine_data.h"
#include "engine_step.h"

/* For getters, which return no status. Returns false and leaves a message if e is NULL. */
static bool batches_are_given(const mega_engine *e, const char *call)
{
    return engine_check_given(e, call, "e", e) == MEGA_OK;
}

/* Which samples of the run a batch of this rank holds. Over all ranks they begin at sample `first`, after the given
 * number of micro-batches of every rank. */
typedef struct engine_rows {
    engine_batch_purpose purpose;
    int64_t first, micro_batches;
} engine_rows;

static int64_t sample_of_row(const mega_engine *e, int64_t micro_batches, int64_t i)
{
    const mega_axis *dp = &e->layout->dp;
    const int64_t size = e->options.micro_batch;
    return ((micro_batches + i / size) * dp->size + dp->rank) * size + i % size;
}

static void describe_rows(const mega_engine *e, const engine_rows *at, int64_t rows, mega_batch *b)
{
    mega_batch_begin(b, rows);
    for (int64_t i = 0; i < rows; i++) mega_batch_set_index(b, i, at->first + sample_of_row(e, at->micro_batches, i));
}

/* Returns the number of samples, over all ranks, of the step that begins with sample `first`. */
static int64_t step_samples(const mega_engine *e, int64_t first)
{
    return mega_batch_ramp_at(&e->options.batch, first);
}

static void describe_training_rows(const mega_engine *e, const engine_rows *at, mega_batch *b)
{
    const int64_t of_step = step_samples(e, at->first) / e->layout->dp.size;
    describe_rows(e, at, at->purpose == ENGINE_BATCH_OF_STEP ? of_step : e->options.micro_batch, b);
}

/* Returns the rows of the next micro-batch or of the next step. */
static engine_rows coming_rows(const mega_engine *e, engine_batch_purpose purpose)
{
    return (engine_rows){.purpose = purpose,
                         .first = e->progress.consumed_samples,
                         .micro_batches = purpose == ENGINE_BATCH_OF_MICRO_BATCH ? e->micro.done : 0};
}

/* Predicts the rows that will be requested after these. An engine that only evaluates runs no step, so its samples
 * advance with each micro-batch. */
static engine_rows rows_after(const mega_engine *e, engine_rows at)
{
    const int64_t step = step_samples(e, at.first), each = e->options.micro_batch * e->layout->dp.size;
    at.micro_batches++;
    if (at.purpose == ENGINE_BATCH_OF_MICRO_BATCH && (e->programs.train == NULL || at.micro_batches * each < step))
        return at;
    return (engine_rows){.purpose = at.purpose, .first = at.first + step};
}

static mega_batch *begin_batch(mega_engine *e, engine_batch_purpose purpose)
{
    const engine_rows at = coming_rows(e, purpose);
    e->data.purpose = purpose;
    describe_training_rows(e, &at, e->data.batch);
    return e->data.batch;
}

/* Queues the rows that follow `at` in the reader, until it has no vacant batch. */
static void read_ahead(mega_engine *e, engine_rows at)
{
    mega_batch *b;
    for (int i = mega_reader_announced(e->data.reader); i > 0; i--) at = rows_after(e, at);
    while ((b = mega_reader_vacant(e->data.reader)) != NULL) {
        at = rows_after(e, at);
        describe_training_rows(e, &at, b);
        mega_reader_announce(e->data.reader, e->options.dropout_seed);
    }
}

static mega_status read_engine_batch(mega_engine *e, engine_batch_purpose purpose)
{
    const uint32_t seed = e->options.dropout_seed;
    mega_batch *b = begin_batch(e, purpose);
    engine_record_phase(e, "reading the training data", -1);
    if (e->data.reader == NULL) return mega_dataset_fill(&e->data.set, seed, b);
    MEGA_TRY(mega_reader_take(e->data.reader, seed, &e->data.batch));
    read_ahead(e, coming_rows(e, purpose));
    return MEGA_OK;
}

mega_status engine_read_training_data(mega_engine *e, engine_batch_purpose purpose)
{
    if (e->watch.profile == NULL) return read_engine_batch(e, purpose);
    const mega_profile_moment began = mega_profile_now(e->options.team);
    const mega_status st = read_engine_batch(e, purpose);
    mega_profile_span(e->watch.profile, "data", began, mega_profile_now(e->options.team), 0);
    return st;
}

static bool can_fill(const mega_engine *e, const char *call)
{
    if (engine_check_free(e, call) != MEGA_OK || engine_check_allocated(e, call) != MEGA_OK) return false;
    if (!e->data.has_set && e->micro.phase == ENGINE_STEPPED) return true;
    if (e->data.has_set)
        (void)MEGA_MISTAKE("%s: the engine reads its training_data; create one without it to fill batches", call);
    else
        (void)MEGA_MISTAKE("%s: a micro-batch is under way; call mega_engine_%s first", call,
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
    if (!batches_are_given(e, "mega_engine_sample")) return -1;
    return sample_of_row(e, e->data.purpose == ENGINE_BATCH_OF_MICRO_BATCH ? e->micro.done : 0, i);
}

mega_batch *engine_evaluation_batch(mega_engine *e, int64_t rows, int64_t first)
{
    if (engine_check_allocated(e, "mega_engine_evaluation_batch") != MEGA_OK) return NULL;
    if (rows > 0 && rows <= e->data.capacity && rows % e->options.micro_batch == 0) {
        e->data.purpose = ENGINE_BATCH_OF_EVALUATION;
        describe_rows(e, &(engine_rows){.purpose = e->data.purpose, .first = first}, rows, e->data.batch);
        return e->data.batch;
    }
    (void)MEGA_MISTAKE(
        "mega_engine_evaluation_batch: %lld rows; expected a multiple of micro_batch (%lld), at most %lld",
        (long long)rows, (long long)e->options.micro_batch, (long long)e->data.capacity);
    return NULL;
}

mega_batch *mega_engine_evaluation_batch(mega_engine *e, int64_t rows, int64_t first)
{
    if (engine_check_free(e, "mega_engine_evaluation_batch") != MEGA_OK) return NULL;
    return engine_evaluation_batch(e, rows, first);
}
