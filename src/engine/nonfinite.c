/* Finds the op that caused a non-finite loss or gradient of a step, or a non-finite loss of an evaluation. Every rank
 * sees that in the sums, so all ranks run the step again and check the output of every instruction. The error names the
 * earliest instruction, in the order of the computation, whose output was not finite. */
#include "engine_build.h"
#include "engine_calls.h"
#include "engine_losses.h"
#include "engine_step.h"

#include <math.h>
#include <stdio.h>

#define REMEDY "Lower --lr, raise --lr-warmup-iters, lower --clip-grad"

struct engine_search {
    bool evaluates;
    mega_nonfinite now; /* found in the current pass */
    int64_t when;       /* time of the earliest one found; INT64_MAX: none */
    int64_t micro_batch;
    mega_error_record what;
};

/* Returns the position of an instruction in the order of the computation: micro-batches one after the other, each
 * forward through all parts of the model and then backward. */
static int64_t nonfinite_when(const mega_engine *e, const mega_schedule_pass *x, int instruction)
{
    const int64_t parts = (int64_t)e->layout->pp.size * e->programs.chunks;
    const int64_t part = (int64_t)x->chunk * e->layout->pp.size + e->layout->pp.rank;
    const int64_t turn = x->forward ? part : 2 * parts - 1 - part;
    return ((int64_t)x->micro_batch * 2 * parts + turn) * INT32_MAX + instruction;
}

void engine_search_before(engine_search *s)
{
    s->now.instruction = -1;
}

void engine_search_after(const mega_engine *e, const mega_schedule_pass *x)
{
    engine_search *s = e->watch.search;
    if (s->now.instruction < 0) return;
    const int64_t at = nonfinite_when(e, x, s->now.instruction);
    if (at >= s->when) return;
    s->when = at;
    s->micro_batch = x->micro_batch;
    s->what = s->now.what;
}

/* Writes the name of the step or evaluation that failed, for use in a message. */
static void name_run(const mega_engine *e, bool evaluates, char out[64])
{
    if (evaluates) snprintf(out, 64, "evaluation after iteration %lld", (long long)e->progress.iteration);
    else
        snprintf(out, 64, "iteration %lld", (long long)e->progress.iteration + 1);
}

static const char *consequence(bool evaluates)
{
    return evaluates ? "Nothing of this iteration is saved" : "No update was made";
}

static mega_status nonfinite_report(const mega_engine *e, const engine_search *s, const char *what)
{
    const mega_layout *l = e->layout;
    const int64_t rows = e->options.micro_batch, row = s->micro_batch * rows;
    const int64_t first = mega_sample_index(mega_batch_sample(e->data.batch, row));
    char rank[64] = "", run[64];
    name_run(e, s->evaluates, run);
    if (l->world.size > 1) snprintf(rank, sizeof rank, "rank %d, pipeline stage %d: ", l->world.rank, l->pp.rank);
    return engine_name_options_as_given(
        e, MEGA_FAIL(MEGA_ERR_NUMERIC,
                     "%s, samples %lld to %lld (micro-batch %lld of the %s): %s; %s%s. %s. " REMEDY
                     ", or look at these samples with `megalith data show`",
                     run, (long long)first, (long long)(first + rows - 1), (long long)s->micro_batch,
                     s->evaluates ? "batch" : "step", what, rank, s->what.text, consequence(s->evaluates)));
}

static void nonfinite_watch(const mega_engine *e, bool evaluates, mega_nonfinite *found)
{
    for (int c = 0; c < e->programs.chunks; c++)
        mega_program_watch(evaluates ? e->programs.chunk[c].evaluate : e->programs.chunk[c].train, found);
}

static mega_status run_step_again(mega_engine *e)
{
    engine_sums sums = {.stops = 0};
    mega_step_result r = {0};
    step_clock clock = clock_start(e, &r);
    return engine_run_schedule(e, &sums, &clock);
}

static mega_status run_again(mega_engine *e, engine_search *s)
{
    engine_sums sums = {.stops = 0};
    e->watch.search = s;
    nonfinite_watch(e, s->evaluates, &s->now);
    const mega_status st = s->evaluates ? engine_run_evaluation(e, &sums) : run_step_again(e);
    nonfinite_watch(e, s->evaluates, NULL);
    e->watch.search = NULL;
    return engine_agree(e, st);
}

/* Returns MEGA_OK if no rank found a value that is not finite. */
static mega_status nonfinite_search(mega_engine *e, bool evaluates, const char *what)
{
    engine_search s = {.evaluates = evaluates, .when = INT64_MAX};
    mega_comm *all = e->layout->world.comm;
    MEGA_TRY(run_again(e, &s));
    int64_t first = s.when;
    MEGA_TRY(mega_comm_all_reduce(all, "what is not finite", &first, 1, MEGA_I64, MEGA_REDUCE_MIN));
    return mega_comm_agree(all, first < INT64_MAX && first == s.when ? nonfinite_report(e, &s, what) : MEGA_OK);
}

/* Reports that every op's output is finite and only the sum over micro-batches or ranks is not. */
static mega_status sum_failed(const mega_engine *e, bool evaluates, const char *what)
{
    char run[64];
    name_run(e, evaluates, run);
    const bool is_f16 = !evaluates && e->options.sums.dtype == MEGA_F16;
    return engine_name_options_as_given(
        e, MEGA_FAIL(MEGA_ERR_NUMERIC, "%s: %s, and every op's output is finite when %s run again%s. %s. " REMEDY, run,
                     what, !evaluates && e->micro.done > 0 ? "its last micro-batch, the only one kept, is" : "it is",
                     is_f16 ? "; gradients are summed in fp16, whose largest number is 65504: give "
                              "--communication-data-type fp32 or bf16"
                            : "",
                     consequence(evaluates)));
}

static mega_status nonfinite_loss(mega_engine *e, bool evaluates, double loss)
{
    char what[128], scale[64] = "";
    if (!evaluates) engine_scale_text(e, scale);
    snprintf(what, sizeof what, "the loss is %g%s", isnan(loss) ? fabs(loss) : loss, scale); /* no sign of a NaN */
    MEGA_TRY(nonfinite_search(e, evaluates, what));
    return mega_comm_agree(e->layout->world.comm, sum_failed(e, evaluates, what));
}

mega_status engine_nonfinite_loss(mega_engine *e, double loss)
{
    return nonfinite_loss(e, false, loss);
}

mega_status engine_nonfinite_evaluation(mega_engine *e, double loss)
{
    return nonfinite_loss(e, true, loss);
}

mega_status engine_nonfinite_gradient(mega_engine *e)
{
    const int param = mega_optimizer_find_nonfinite(e->optimizer);
    char what[MEGA_PARAM_NAME + 128], scale[64];
    snprintf(what, sizeof what, "the gradient of %s is not finite%s",
             param >= 0 ? mega_params_get(e->params, param)->name : "a parameter", engine_scale_text(e, scale));
    MEGA_TRY(nonfinite_search(e, false, what));
    /* report the message of a rank that holds the parameter, if there is one */
    MEGA_TRY(mega_comm_agree(e->layout->world.comm, param >= 0 ? sum_failed(e, false, what) : MEGA_OK));
    return mega_comm_agree(e->layout->world.comm, sum_failed(e, false, what));
}
