/* Evaluation of a data set: the forward passes of a batch, as often as it takes, and the means of losses and metrics.
 */
#include "engine_impl.h"
#include "megalith/record.h"
#include "megalith/threads.h"
#include <math.h>

static mega_status evaluate_check(const mega_engine *e, const mega_dataset *d, int64_t max_batches,
                                  const mega_step_result *out)
{
    static const char call[] = "mega_engine_evaluate";
    MEGA_TRY(engine_check_given(e, call, "dataset", d));
    MEGA_TRY(engine_check_given(e, call, "out", out));
    if (d->read == NULL || d->first < 0 || d->count < 1 || max_batches < 0)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "%s: %lld samples from %lld on, read %s, max_batches %lld; expected at least 1 sample, from 0 "
                         "or later, a function, and at least 0 batches",
                         call, (long long)d->count, (long long)d->first, d->read == NULL ? "NULL" : "given",
                         (long long)max_batches);
    return engine_check_can_evaluate(e, call);
}

/* Local. The batch after `first` samples; those beyond the end are the first ones again. */
static mega_status evaluate_fill(mega_engine *e, const mega_dataset *d, int64_t first)
{
    mega_dataset in_order = *d;
    in_order.in_order = true;
    mega_batch *b = mega_engine_evaluation_batch(e, e->batch_capacity, first);
    if (b == NULL) return MEGA_ERR_USAGE;
    MEGA_TRY(mega_dataset_fill(&in_order, e->options.dropout_seed, b));
    return mega_batch_check(b);
}

int64_t engine_real_samples(const mega_engine *e, int64_t micro_batch)
{
    const int64_t size = e->options.micro_batch;
    const int64_t first = e->evaluated_first + mega_engine_sample(e, micro_batch * size);
    const int64_t left = e->evaluated_count - first;
    return left < 0 ? 0 : left < size ? left : size;
}

static mega_status evaluate_batches(mega_engine *e, const mega_dataset *d, int64_t batches, engine_sums *sums)
{
    const int64_t global = e->batch_capacity * e->layout->dp.size;
    for (int64_t i = 0; i < batches; i++) {
        e->evaluated_first = i * global;
        MEGA_TRY(engine_agree(e, evaluate_fill(e, d, e->evaluated_first)));
        MEGA_TRY(engine_agree(e, engine_run_evaluation(e, sums)));
    }
    if (e->layout->tp.rank > 0) *sums = (engine_sums){.stops = 0}; /* ranks of tp have the same */
    sums->stops = mega_world_stops(e->options.world, mega_team_is_stopped(e->options.team));
    MEGA_TRY(engine_losses_reduce(e, e->layout->world.comm, "loss of an evaluation", sums));
    if (sums->stops > 0) return MEGA_FAIL(MEGA_ERR_INTERRUPTED, "the evaluation was interrupted by a signal");
    return MEGA_OK;
}

mega_status mega_engine_evaluate(mega_engine *e, const mega_dataset *dataset, int64_t max_batches,
                                 mega_step_result *out)
{
    engine_sums sums = {.stops = 0};
    mega_step_result r = {0};
    if (e == NULL) return engine_check_given(e, "mega_engine_evaluate", "e", e);
    MEGA_TRY(engine_begin_call(e, evaluate_check(e, dataset, max_batches, out)));
    const int64_t global = e->batch_capacity * e->layout->dp.size;
    int64_t batches = (dataset->count + global - 1) / global;
    if (max_batches > 0 && max_batches < batches) batches = max_batches;
    e->evaluated_count = batches * global < dataset->count ? batches * global : dataset->count;
    const mega_status st = evaluate_batches(e, dataset, batches, &sums);
    r.samples = e->evaluated_count;
    e->evaluated_count = 0;
    e->batch_of = ENGINE_BATCH_NONE;
    MEGA_TRY(st);
    for (int i = 0; i < e->num_losses; i++) {
        const engine_loss *l = &e->loss[i];
        r.metric[i] = !l->is_evaluated              ? NAN
                      : sums.of[i][LOSS_WEIGHT] > 0 ? sums.of[i][LOSS_SUM] / sums.of[i][LOSS_WEIGHT]
                                                    : 0;
        if (l->is_evaluated && l->coefficient != 0) r.loss += l->coefficient * r.metric[i];
    }
    if (!isfinite(r.loss)) return engine_nonfinite_evaluation(e, r.loss);
    *out = r;
    return MEGA_OK;
}
