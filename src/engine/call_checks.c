/* Checks whether an engine can be created and whether a call is allowed. Collective calls check on all ranks before
 * they begin, so that one wrong call does not leave the other ranks waiting. */
#include "engine_calls.h"
#include "engine_step.h"
#include "megalith/extent.h"

enum { MOST_MICRO_BATCHES = 1 << 24 };

mega_status engine_agree(const mega_engine *e, mega_status st)
{
    if (e->options.layout.planned_ranks > 0) return st;
    if (e->layout->world.size > 1 && !mega_world_failed(e->options.world)) st = engine_take_failure(e, st);
    return mega_comm_agree(e->layout->world.comm, st);
}

mega_status engine_agree_read(const mega_engine *e)
{
    return e->memory.device == NULL ? MEGA_OK : engine_agree(e, engine_take_failure(e, MEGA_OK));
}

mega_status engine_begin_pass(const mega_engine *e, mega_status st)
{
    mega_world_forget_failure(e->options.world);
    return engine_agree(e, engine_take_failure(e, st));
}

bool mega_engine_has_failed(mega_engine *e)
{
    return e->memory.device != NULL && engine_begin_pass(e, MEGA_OK) != MEGA_OK;
}

mega_status engine_begin_call(const mega_engine *e, mega_status st)
{
    MEGA_TRY(engine_begin_pass(e, st));
    return mega_update_wait(e->update);
}

mega_status engine_check_given(const mega_engine *e, const char *call, const char *argument, const void *value)
{
    if (e == NULL) return MEGA_MISTAKE("%s: the engine is NULL; create one with mega_engine_create", call);
    if (value == NULL) return MEGA_MISTAKE("%s: the argument %s is NULL; give it", call, argument);
    return MEGA_OK;
}

mega_status engine_check_allocated(const mega_engine *e, const char *call)
{
    if (e->memory.is_allocated) return MEGA_OK;
    return MEGA_MISTAKE("%s: the engine has no memory yet; call mega_engine_allocate first", call);
}

mega_status engine_check_weights(const mega_engine *e, const char *call)
{
    if (e->memory.has_weights) return MEGA_OK;
    return MEGA_MISTAKE(
        "%s: the parameters have no values; call mega_engine_initialize or mega_engine_load first (again, "
        "where a load failed while it was reading)",
        call);
}

mega_status engine_check_forward_pass(const mega_engine *e, const char *call)
{
    if (e->programs.train != NULL || e->programs.evaluate != NULL) return MEGA_OK;
    return MEGA_MISTAKE("%s: the engine was created %s, so it has no program for it; %s", call,
                        e->options.generate ? "for generation (MEGA_GENERATE)" : "with no_train and no_evaluate",
                        e->options.generate ? "call mega_engine_run, or create one in MEGA_EVAL"
                                            : "leave one of them out");
}

mega_status engine_check_trains(const mega_engine *e, const char *call)
{
    if (e->programs.train != NULL) return MEGA_OK;
    return MEGA_MISTAKE(
        "%s: the engine was created with no_train (MEGA_EVAL), so it cannot train; create one without it", call);
}

/* If the caller computes the loss from an output (mega_output), the model has no loss that a backward pass could start
 * from. */
mega_status engine_check_has_loss(const mega_engine *e, const char *call)
{
    for (int i = 0; i < e->model.num_losses; i++)
        if (e->model.loss[i].is_trained && e->model.loss[i].coefficient != 0) return MEGA_OK;
    return MEGA_FAIL(
        MEGA_ERR_USAGE,
        "%s: the model has no loss with a coefficient other than 0, so a step would train nothing; declare "
        "one with mega_loss_add",
        call);
}

mega_status engine_check_step(const mega_engine *e, const mega_step_result *out)
{
    static const char call[] = "mega_engine_train_batch";
    static const char *const rows[] = {[ENGINE_BATCH_NONE] =
                                           "not filled (an evaluation or a step in between empties them)",
                                       [ENGINE_BATCH_OF_MICRO_BATCH] = "those of one micro-batch",
                                       [ENGINE_BATCH_OF_EVALUATION] = "those of an evaluation"};
    MEGA_TRY(engine_check_given(e, call, "out", out));
    MEGA_TRY(engine_check_trains(e, call));
    MEGA_TRY(engine_check_allocated(e, call));
    MEGA_TRY(engine_check_weights(e, call));
    MEGA_TRY(engine_check_has_loss(e, call));
    if (e->micro.phase != ENGINE_STEPPED || e->micro.done > 0)
        return MEGA_MISTAKE(
            "mega_engine_train_batch: %lld micro-batches of a step were begun with mega_engine_forward; "
            "complete the step with mega_engine_step at its accumulation boundary",
            (long long)(e->micro.done + (e->micro.phase != ENGINE_STEPPED)));
    if (e->data.has_set || e->data.purpose == ENGINE_BATCH_OF_STEP) return MEGA_OK;
    return MEGA_FAIL(
        MEGA_ERR_USAGE,
        "mega_engine_train_batch: the rows of the batch are %s; call mega_engine_batch and fill what it returns",
        rows[e->data.purpose]);
}

/* If the caller computes the loss itself, the model has no loss to evaluate either. */
static mega_status check_evaluates(const mega_engine *e, const char *call)
{
    for (int i = 0; i < e->model.num_losses; i++)
        if (e->model.loss[i].is_evaluated) return MEGA_OK;
    return MEGA_FAIL(
        MEGA_ERR_USAGE,
        "%s: the model has no loss to evaluate; declare one with mega_loss_add, or run mega_engine_forward "
        "in MEGA_EVAL and read its outputs",
        call);
}

mega_status engine_check_can_evaluate(const mega_engine *e, const char *call)
{
    if (e->programs.evaluate == NULL)
        return MEGA_MISTAKE("%s: the engine was created with no_evaluate, so it cannot evaluate; create one without it",
                            call);
    MEGA_TRY(check_evaluates(e, call));
    MEGA_TRY(engine_check_allocated(e, call));
    MEGA_TRY(engine_check_weights(e, call));
    if (e->micro.phase != ENGINE_FORWARDED) return MEGA_OK;
    return MEGA_MISTAKE("%s: it would overwrite what mega_engine_forward keeps for the backward pass; call "
                        "mega_engine_backward first",
                        call);
}

mega_status engine_check_evaluate(const mega_engine *e, const mega_loss_sums *sums)
{
    MEGA_TRY(engine_check_given(e, "mega_engine_evaluate_batch", "sums", sums));
    MEGA_TRY(engine_check_can_evaluate(e, "mega_engine_evaluate_batch"));
    if (e->data.purpose != ENGINE_BATCH_NONE) return mega_batch_check(e->data.batch);
    return MEGA_MISTAKE("mega_engine_evaluate_batch: the rows of the batch are not filled; call "
                        "mega_engine_evaluation_batch and fill what it returns");
}

mega_status engine_check_save(const mega_engine *e, const mega_engine_save_options *o)
{
    MEGA_TRY(engine_check_given(e, "mega_engine_save", "options", o));
    MEGA_TRY(engine_check_given(e, "mega_engine_save", "options.folder", o->folder));
    if (e->optimizer == NULL)
        return MEGA_MISTAKE(
            "mega_engine_save: the engine was created with no_train, so it has no state to save; create "
            "one without it");
    MEGA_TRY(engine_check_allocated(e, "mega_engine_save"));
    return engine_check_weights(e, "mega_engine_save");
}

mega_status engine_check_load(const mega_engine *e, const mega_checkpoint *c, const mega_engine_load_options *o,
                              const mega_engine_loaded *out)
{
    MEGA_TRY(engine_check_given(e, "mega_engine_load", "options", o));
    MEGA_TRY(engine_check_given(e, "mega_engine_load", "out", out));
    if (c == NULL)
        return MEGA_MISTAKE("mega_engine_load: the checkpoint is NULL; mega_checkpoint_open leaves NULL "
                            "where a folder holds no checkpoint");
    return engine_check_allocated(e, "mega_engine_load");
}

mega_status engine_check_allocate(const mega_engine *e)
{
    if (e->options.layout.planned_ranks > 0)
        return MEGA_MISTAKE(
            "mega_engine_allocate: the layout is that of a plan (planned_ranks %d), so nothing can run; "
            "create an engine with planned_ranks 0",
            e->options.layout.planned_ranks);
    if (e->memory.arena == NULL) return MEGA_OK;
    return MEGA_MISTAKE("mega_engine_allocate: the engine %s; it is called once",
                        e->memory.is_allocated ? "has its memory already" : "failed to get its memory before");
}

/* The number of tokens in a micro-batch and of micro-batches in a step must fit in 32 bits. */
static mega_status check_step_size(const mega_engine_options *o)
{
    if (mega_extent_mul(o->micro_batch, o->seq) > INT32_MAX)
        return MEGA_MISTAKE(
            "mega_engine_create: micro_batch %lld, seq %lld; expected at most %d tokens in a micro-batch",
            (long long)o->micro_batch, (long long)o->seq, INT32_MAX);
    if (o->batch.global_batch / o->micro_batch > MOST_MICRO_BATCHES)
        return MEGA_MISTAKE("mega_engine_create: batch.global_batch %lld, micro_batch %lld; expected at most %d "
                            "micro-batches in a step",
                            (long long)o->batch.global_batch, (long long)o->micro_batch, MOST_MICRO_BATCHES);
    return MEGA_OK;
}

/* Checks the options that can be checked without the layout. */
mega_status engine_check_options(const mega_model *model, const mega_engine_options *o)
{
    const mega_batch_ramp *b = &o->batch;
    if (model == NULL) return MEGA_MISTAKE("mega_engine_create: model is NULL; give it");
    MEGA_TRY(engine_check_ranges(o));
    if (b->micro_step % o->micro_batch != 0)
        return MEGA_MISTAKE(
            "mega_engine_create: batch.micro_step %lld; expected micro_batch (%lld) times the number of "
            "data-parallel ranks",
            (long long)b->micro_step, (long long)o->micro_batch);
    MEGA_TRY(check_step_size(o));
    if (o->grad_accum_dtype == MEGA_F16 && o->compute != MEGA_F16)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "mega_engine_create: grad_accum_dtype f16 with compute %s; only compute f16 scales the loss, "
                         "without which small gradients become 0: give f32 or bf16",
                         mega_dtype_name(o->compute));
    if (o->generate && o->prefill > o->seq)
        return MEGA_MISTAKE(
            "mega_engine_create: prefill %lld; expected at most seq (%lld), the positions of the longest "
            "sample",
            (long long)o->prefill, (long long)o->seq);
    if (o->generate && o->micro_batches > MEGA_RUN_MICRO_BATCHES)
        return MEGA_MISTAKE("mega_engine_create: %lld micro_batches of a run; expected at most %d",
                            (long long)o->micro_batches, MEGA_RUN_MICRO_BATCHES);
    mega_status st = mega_batch_ramp_check(b);
    if (st == MEGA_OK && !o->no_train) st = mega_curriculum_check(&o->curriculum, o->seq);
    if (st == MEGA_OK) st = engine_check_lengths(model, o);
    if (st == MEGA_OK && !o->no_train) st = mega_lr_schedule_check(&o->schedule);
    if (st == MEGA_OK && !o->no_train) st = mega_step_schedule_check(&o->step_schedule);
    if (st == MEGA_OK && o->compute == MEGA_F16) st = mega_loss_scale_check(&o->loss_scale);
    if (st != MEGA_OK) MEGA_CONTEXT("mega_engine_create");
    return st;
}

mega_status engine_check_ramp(const mega_engine *e)
{
    const int64_t expected = mega_extent_mul(e->options.micro_batch, e->layout->dp.size);
    if (e->options.batch.micro_step == expected) return MEGA_OK;
    return MEGA_MISTAKE("mega_engine_create: batch.micro_step %lld; expected %lld, micro_batch (%lld) times %d "
                        "data-parallel ranks",
                        (long long)e->options.batch.micro_step, (long long)expected, (long long)e->options.micro_batch,
                        e->layout->dp.size);
}
