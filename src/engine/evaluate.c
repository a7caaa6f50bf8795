/* Evaluation of a data set: runs the forward passes of its batches and computes the means of losses and metrics. */
#include "engine_calls.h"
#include "engine_losses.h"
#include "engine_step.h"
#include "engine_watch.h"
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
        return MEGA_MISTAKE(
            "%s: %lld samples from %lld on, read %s, max_batches %lld; expected at least 1 sample, from 0 "
            "or later, a function, and at least 0 batches",
            call, (long long)d->count, (long long)d->first, d->read == NULL ? "NULL" : "given", (long long)max_batches);
    return engine_check_can_evaluate(e, call);
}

/* Programs compute the mean over all rows of a micro-batch; no row can be left out. So samples that do not fill a
 * micro-batch are evaluated one by one: all rows of the micro-batch are the same sample, the mean is its value, and the
 * micro-batch counts as one row. */
typedef struct evaluated_part {
    int64_t first, count;
    int64_t taken; /* samples per micro-batch: its rows, or 1 */
} evaluated_part;

/* Returns the position of a micro-batch in the part that is evaluated. The part counts the micro-batches of all ranks;
 * `micro_batch` counts those of this rank in its batch. */
static int64_t evaluate_place(const mega_engine *e, int64_t micro_batch)
{
    const int64_t size = e->options.micro_batch;
    return e->data.evaluated.first + mega_engine_sample(e, micro_batch * size) / size;
}

double engine_evaluation_weight(const mega_engine *e, int64_t micro_batch)
{
    if (e->data.evaluated.count == 0) return 1;
    return evaluate_place(e, micro_batch) < e->data.evaluated.count ? e->data.evaluated.weight : 0;
}

/* Local. Fills the batch with the next micro-batches of a part. Those past its end repeat its last one, with weight
 * 0. */
static mega_status evaluate_fill(mega_engine *e, const mega_dataset *d, const evaluated_part *part)
{
    const int64_t size = e->options.micro_batch;
    mega_dataset in_order = *d;
    in_order.in_order = true;
    mega_batch *b = engine_evaluation_batch(e, e->data.capacity, 0);
    if (b == NULL) return MEGA_ERR_USAGE;
    for (int64_t i = 0; i < e->data.capacity; i++) {
        int64_t place = evaluate_place(e, i / size);
        if (place >= e->data.evaluated.count) place = e->data.evaluated.count - 1;
        mega_batch_set_index(b, i, part->first + place * part->taken + i % size % part->taken);
    }
    MEGA_TRY(mega_dataset_fill(&in_order, e->options.dropout_seed, b));
    return mega_batch_check(b);
}

static mega_status evaluate_part(mega_engine *e, const mega_dataset *d, const evaluated_part *part, engine_sums *sums)
{
    const int64_t size = e->options.micro_batch, global = e->data.capacity / size * e->layout->dp.size;
    e->data.evaluated.count = part->count / part->taken;
    e->data.evaluated.weight = (double)part->taken / (double)size;
    for (e->data.evaluated.first = 0; e->data.evaluated.first < e->data.evaluated.count;
         e->data.evaluated.first += global) {
        MEGA_TRY(engine_agree(e, evaluate_fill(e, d, part)));
        MEGA_TRY(engine_agree(e, engine_run_evaluation(e, sums)));
    }
    return MEGA_OK;
}

static mega_status evaluate_samples(mega_engine *e, const mega_dataset *d, int64_t count, engine_sums *sums)
{
    const int64_t size = e->options.micro_batch, tail = count % size;
    MEGA_TRY(evaluate_part(e, d, &(evaluated_part){0, count - tail, size}, sums));
    MEGA_TRY(evaluate_part(e, d, &(evaluated_part){count - tail, tail, 1}, sums));
    if (e->layout->tp.rank > 0) *sums = (engine_sums){.stops = 0}; /* all ranks of tp have the same sums: count one */
    sums->stops = mega_world_stops(e->options.world, mega_team_is_stopped(e->options.team));
    MEGA_TRY(engine_losses_reduce(e, e->layout->world.comm, "loss of an evaluation", sums));
    if (sums->stops > 0) return MEGA_FAIL(MEGA_ERR_INTERRUPTED, "the evaluation was interrupted by a signal");
    return MEGA_OK;
}

/* Collective over the world. Checks that the arguments are the same on all ranks: otherwise the ranks would evaluate
 * different numbers of batches. */
static mega_status evaluate_compare(const mega_engine *e, const mega_dataset *d, int64_t max_batches)
{
    int64_t most[6] = {d->count, d->first, max_batches, -d->count, -d->first, -max_batches};
    mega_comm *world = e->layout->world.comm;
    MEGA_TRY(mega_comm_all_reduce(world, "samples of an evaluation", most, 6, MEGA_I64, MEGA_REDUCE_MAX));
    if (most[0] == -most[3] && most[1] == -most[4] && most[2] == -most[5]) return MEGA_OK;
    return mega_comm_agree(world,
                           MEGA_MISTAKE("mega_engine_evaluate: the ranks have different data sets (over all ranks: "
                                        "count %lld to %lld, first %lld to %lld, max_batches %lld to %lld); pass "
                                        "the same on all",
                                        (long long)-most[3], (long long)most[0], (long long)-most[4],
                                        (long long)most[1], (long long)-most[5], (long long)most[2]));
}

static mega_status evaluate_quietly(mega_engine *e, const mega_dataset *dataset, int64_t max_batches,
                                    mega_step_result *out)
{
    engine_sums sums = {.stops = 0};
    mega_step_result r = {0};
    MEGA_TRY(engine_begin_call(e, evaluate_check(e, dataset, max_batches, out)));
    MEGA_TRY(evaluate_compare(e, dataset, max_batches));
    const int64_t global = e->data.capacity * e->layout->dp.size;
    r.samples = dataset->count;
    if (max_batches > 0 && max_batches <= (dataset->count - 1) / global) r.samples = max_batches * global;
    const mega_status st = evaluate_samples(e, dataset, r.samples, &sums);
    e->data.evaluated = (engine_evaluation_part){0};
    e->data.purpose = ENGINE_BATCH_NONE;
    MEGA_TRY(st);
    for (int i = 0; i < e->model.num_losses; i++) {
        const engine_loss *l = &e->model.loss[i];
        r.metric[i] = !l->is_evaluated                 ? NAN
                      : sums.loss[i][LOSS_WEIGHT] != 0 ? sums.loss[i][LOSS_SUM] / sums.loss[i][LOSS_WEIGHT]
                                                       : 0;
        if (l->is_evaluated && l->coefficient != 0) r.loss += l->coefficient * r.metric[i];
    }
    if (!isfinite(r.loss)) return engine_nonfinite_evaluation(e, r.loss);
    *out = r;
    return MEGA_OK;
}

mega_status mega_engine_evaluate_quietly(mega_engine *e, const mega_dataset *dataset, int64_t max_batches,
                                         mega_step_result *out)
{
    MEGA_TRY(engine_enter(e, "mega_engine_evaluate"));
    return engine_leave(e, evaluate_quietly(e, dataset, max_batches, out));
}

mega_status mega_engine_evaluate(mega_engine *e, const mega_dataset *dataset, int64_t max_batches,
                                 mega_step_result *out)
{
    MEGA_TRY(mega_engine_evaluate_quietly(e, dataset, max_batches, out));
    engine_monitor_event(e, "Train/Samples/eval_loss", out->loss);
    return MEGA_OK;
}

/* Local. Fills the batch with `rows` samples of a part of the data set. */
static mega_status read_part(mega_engine *e, const mega_dataset *d, int64_t first, int64_t rows)
{
    static const char call[] = "mega_engine_evaluate_part";
    MEGA_TRY(engine_check_given(e, call, "dataset", d));
    if (first < 0)
        return MEGA_MISTAKE("%s: the first sample is %lld; expected 0 or a later one", call, (long long)first);
    MEGA_TRY(engine_check_can_evaluate(e, call));
    mega_batch *b = engine_evaluation_batch(e, rows, first);
    engine_record_phase(e, "reading the evaluation data", -1);
    return b != NULL ? mega_dataset_fill(d, e->options.dropout_seed, b) : MEGA_ERR_USAGE;
}

static mega_status evaluate_part_of(mega_engine *e, const mega_dataset *dataset, int64_t first, int64_t rows,
                                    mega_loss_sums *sums)
{
    MEGA_TRY(engine_begin_call(e, read_part(e, dataset, first, rows)));
    return engine_evaluate_batch(e, sums);
}

mega_status mega_engine_evaluate_part(mega_engine *e, const mega_dataset *dataset, int64_t first, int64_t rows,
                                      mega_loss_sums *sums)
{
    MEGA_TRY(engine_enter(e, "mega_engine_evaluate_part"));
    return engine_leave(e, evaluate_part_of(e, dataset, first, rows, sums));
}
