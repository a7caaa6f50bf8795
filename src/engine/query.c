/* Queries that do not communicate: settings and counters, under DeepSpeed's names, and the parts of an engine. */
#include "engine_calls.h"
#include "engine_step.h"
#include <math.h>

/* For getters, which return no status. Returns false and leaves a message if e is NULL. */
static bool query_is_given(const mega_engine *e, const char *call)
{
    return engine_check_given(e, call, "e", e) == MEGA_OK;
}

int64_t mega_engine_global_steps(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_global_steps") ? e->progress.iteration : -1;
}

int64_t mega_engine_skipped_steps(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_skipped_steps") ? e->progress.skipped : -1;
}

mega_recorded mega_engine_recorded(const mega_engine *e)
{
    const bool has_device = query_is_given(e, "mega_engine_recorded") && e->memory.device != NULL;
    return has_device ? e->memory.device->recorded : (mega_recorded){0};
}

int64_t mega_engine_micro_steps(const mega_engine *e)
{
    if (!query_is_given(e, "mega_engine_micro_steps")) return -1;
    return e->progress.consumed_samples / e->options.batch.micro_step + e->micro.done;
}

int64_t mega_engine_global_samples(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_global_samples") ? e->progress.consumed_samples : -1;
}

/* A schedule whose lr asks for the learning rate would ask for ever. Few threads ask at the same time, so many calls
 * that have not returned are within each other. */
static double scheduled_lr(mega_engine *e)
{
    enum { MOST_AT_ONCE = 32 };
    const mega_lr_scheduler *s = &e->step.scheduler;
    uint64_t none = 0;
    /* Of threads that ask at the same time, only the first is held to querying numbers. */
    const bool is_first = atomic_compare_exchange_strong(&e->calls.lr_thread, &none, mega_thread_id());
    double lr = NAN;
    if (atomic_fetch_add(&e->calls.lr_depth, 1) < MOST_AT_ONCE)
        lr = s->lr(s->user, e->progress.iteration - e->progress.skipped, e->progress.schedule_samples);
    else
        (void)MEGA_MISTAKE(
            "mega_engine_lr: the function lr of schedule \"%s\" asks for the learning rate that it is to "
            "return; let it compute that from its arguments",
            s->name != NULL ? s->name : "");
    atomic_fetch_sub(&e->calls.lr_depth, 1);
    if (is_first) atomic_store(&e->calls.lr_thread, 0);
    return lr;
}

double mega_engine_lr(const mega_engine *e)
{
    if (!query_is_given(e, "mega_engine_lr")) return NAN;
    if (e->step.scheduler.lr != NULL) return scheduled_lr((mega_engine *)e);
    if (e->options.step_schedule.kind != MEGA_SCHEDULER_NONE)
        return mega_step_schedule_lr(&e->options.step_schedule, e->progress.schedule_steps);
    return mega_lr_schedule_lr_at(&e->options.schedule, e->progress.schedule_samples, e->progress.schedule_tokens);
}

int64_t mega_engine_step_positions(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_step_positions") ? engine_length_of(e, e->progress.iteration + 1) : -1;
}

double mega_engine_loss_scale(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_loss_scale") ? engine_scale(e) : NAN;
}

double mega_engine_global_grad_norm(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_global_grad_norm") ? e->step.grad_norm : NAN;
}

int64_t mega_engine_train_batch_size(const mega_engine *e)
{
    if (!query_is_given(e, "mega_engine_train_batch_size")) return -1;
    return mega_batch_ramp_at(&e->options.batch, e->progress.consumed_samples);
}

int64_t mega_engine_train_micro_batch_size(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_train_micro_batch_size") ? e->options.micro_batch : -1;
}

int64_t mega_engine_gradient_accumulation_steps(const mega_engine *e)
{
    if (!query_is_given(e, "mega_engine_gradient_accumulation_steps")) return -1;
    return mega_engine_train_batch_size(e) / e->options.batch.micro_step;
}

mega_dtype mega_engine_dtype(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_dtype") ? e->options.compute : MEGA_F32;
}

int mega_engine_zero_stage(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_zero_stage") ? e->options.zero_stage : -1;
}

const mega_layout *mega_engine_layout(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_layout") ? e->layout : NULL;
}

mega_world *mega_engine_world(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_world") ? e->options.world : NULL;
}

bool mega_engine_is_main_process(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_is_main_process") && e->layout->world.rank == 0;
}

bool mega_engine_is_first_stage(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_is_first_stage") && e->layout->pp.rank == 0;
}

bool mega_engine_is_last_stage(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_is_last_stage") && e->layout->pp.rank == e->layout->pp.size - 1;
}

/* ---- what an engine consists of ---- */

const mega_program *mega_engine_program(const mega_engine *e, bool train)
{
    if (!query_is_given(e, "mega_engine_program")) return NULL;
    return train ? e->programs.train : e->programs.evaluate;
}

const mega_program *mega_engine_chunk_program(const mega_engine *e, int chunk, bool train)
{
    if (!query_is_given(e, "mega_engine_chunk_program")) return NULL;
    if (chunk >= 0 && chunk < e->programs.chunks)
        return train ? e->programs.chunk[chunk].train : e->programs.chunk[chunk].evaluate;
    (void)MEGA_MISTAKE("mega_engine_chunk_program: chunk %d; this rank has chunks 0 to %d", chunk,
                       e->programs.chunks - 1);
    return NULL;
}

int mega_engine_chunks(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_chunks") ? e->programs.chunks : 0;
}

const mega_update *mega_engine_update_program(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_update_program") ? e->update : NULL;
}

mega_params *mega_engine_params(const mega_engine *e)
{
    if (engine_check_free(e, "mega_engine_params") != MEGA_OK) return NULL;
    return mega_update_wait(e->update) == MEGA_OK ? e->params : NULL;
}

const mega_params *mega_engine_whole(const mega_engine *e)
{
    if (!query_is_given(e, "mega_engine_whole")) return NULL;
    return mega_model_parts_params(e->model.parts);
}

const mega_model_parts *mega_engine_parts(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_parts") ? e->model.parts : NULL;
}

mega_optimizer *mega_engine_optimizer(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_optimizer") ? e->optimizer : NULL;
}

const mega_lr_schedule *mega_engine_schedule(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_schedule") ? &e->options.schedule : NULL;
}

const mega_step_schedule *mega_engine_step_schedule(const mega_engine *e)
{
    return query_is_given(e, "mega_engine_step_schedule") ? &e->options.step_schedule : NULL;
}

mega_engine_progress *mega_engine_progress_get(mega_engine *e)
{
    return query_is_given(e, "mega_engine_progress_get") ? &e->progress : NULL;
}
