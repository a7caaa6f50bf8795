/* The evaluation of a classifier after each epoch: how many samples of each validation set it gets right, in Megatron's
 * lines, and at the end a table with confidence intervals. */
#include "megalith/interval.h"
#include "train_impl.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct set_result {
    const char *name;
    int64_t correct, total;
    bool is_test; /* without labels, or with such samples */
} set_result;

static double share_of_right(const mega_step_result *r, const trainer *t)
{
    for (int i = 0; i < mega_engine_num_metrics(t->engine); i++)
        if (strcmp(mega_engine_metric_name(t->engine, i), "accuracy") == 0) return r->metric[i];
    return 0;
}

/* Collective: the world. *is_whole: no signal ended it. */
static mega_status evaluate_set(trainer *t, const mega_dataset *d, set_result *out, double *loss_sum, bool *is_whole)
{
    mega_step_result r = {.loss = NAN};
    bool late;
    train_record_phase(t, "evaluating the validation sets");
    if (t->io->status != NULL) t->io->status(t->io->user, "evaluating");
    const mega_status st = mega_engine_evaluate_quietly(t->engine, d, 0, &r);
    *is_whole = st == MEGA_OK;
    if (st != MEGA_ERR_INTERRUPTED) MEGA_TRY(train_save_after_failure(t, st));
    MEGA_TRY(train_poll_ranks(t, 0, &late)); /* sets t->stop to the signal */
    if (!*is_whole) return MEGA_OK;
    out->total = d->count;
    out->correct = llround(share_of_right(&r, t) * (double)d->count);
    *loss_sum += r.loss * (double)d->count;
    return MEGA_OK;
}

static void log_row(const trainer *t, const set_result *r)
{
    const mega_interval i = mega_interval_of_share(r->correct, r->total);
    char range[48];
    if (r->is_test) snprintf(range, sizeof range, "no labels");
    else
        snprintf(range, sizeof range, "%8.4f to %8.4f", 100.0 * i.low, 100.0 * i.high);
    train_line(t, "   %-24s %10lld %10lld %12.4f   %s", r->name, (long long)r->correct, (long long)r->total,
               100.0 * (double)r->correct / (double)r->total, range);
}

static void log_table(const trainer *t, const set_result *result, size_t count, const set_result *all)
{
    train_line(t, " results of %s", t->cfg->classify.task);
    train_line(t, "   %-24s %10s %10s %12s   %s", "data", "correct", "total", "accuracy (%)",
               "95 % confidence interval (Wilson)");
    for (size_t i = 0; i < count; i++) log_row(t, &result[i]);
    if (count > 1) log_row(t, all);
}

static mega_status evaluate_all(trainer *t, int64_t epoch, set_result *result, size_t *count, set_result *all)
{
    mega_task_set set;
    double loss_sum = 0;
    for (size_t i = 0; t->task->evaluation_set(&t->epochs.texts, i, &set); i++) {
        bool is_whole;
        const double began = mega_time_now();
        result[i] = (set_result){.name = set.name, .is_test = set.is_test};
        MEGA_TRY(evaluate_set(t, &set.samples, &result[i], &loss_sum, &is_whole));
        if (!is_whole) {
            train_line(t, "a signal ended the evaluation of epoch %lld: no accuracy is known%s", (long long)epoch,
                       t->cfg->save != NULL && epoch >= 0 ? "; a run that goes on from here evaluates it first" : "");
            *count = 0;
            return MEGA_OK;
        }
        all->correct += result[i].correct;
        all->total += result[i].total;
        all->is_test = all->is_test || set.is_test;
        *count = i + 1;
        train_line(t,
                   " > |epoch: %lld| metrics for %s: correct / total = %lld / %lld = %.4f %%, elapsed time (sec): %.3f",
                   (long long)epoch, set.name, (long long)result[i].correct, (long long)result[i].total,
                   100.0 * (double)result[i].correct / (double)result[i].total, mega_time_now() - began);
    }
    if (*count == 0) return MEGA_OK;
    train_line(t, " >> |epoch: %lld| overall: correct / total = %lld / %lld = %.4f %%", (long long)epoch,
               (long long)all->correct, (long long)all->total, 100.0 * (double)all->correct / (double)all->total);
    t->evaluated = true;
    t->log.last_validation_loss = loss_sum / (double)all->total;
    return MEGA_OK;
}

/* Collective: the world. is_last: prints the table of results. */
static mega_status sets_evaluate(trainer *t, int64_t epoch, bool is_last)
{
    const size_t most = t->cfg->classify.valid_data.count;
    set_result all = {.name = "overall"}, *result = mega_calloc(most + 1, sizeof *result);
    size_t count = 0;
    mega_status st = result != NULL ? MEGA_OK : MEGA_NO_MEMORY("tasks", "the results");
    st = train_agree(t, st);
    if (st == MEGA_OK) st = evaluate_all(t, epoch, result, &count, &all);
    if (st == MEGA_OK && count > 0) {
        if (is_last) log_table(t, result, count, &all);
        train_monitor_evaluation(t, MEGA_SPLIT_VALID, t->log.last_validation_loss, false, is_last);
    }
    mega_free(result);
    return st;
}

static mega_status sets_after(trainer *t)
{
    const int64_t iteration = mega_engine_progress_get(t->engine)->iteration;
    if (!train_ends_epoch(t)) return MEGA_OK;
    train_end_epoch(t);
    MEGA_TRY(train_save(t));
    return sets_evaluate(t, (iteration - 1) / t->epochs.steps, iteration >= t->train_iters);
}

/* The checkpoint at the end of an epoch is written before the epoch is evaluated, so a run that goes on from it cannot
 * know whether that was done. */
static mega_status sets_begin(trainer *t)
{
    const int64_t done = t->first_iteration;
    const bool is_at_end = done > 0 && done < t->train_iters && t->epochs.steps > 0 && done % t->epochs.steps == 0;
    return is_at_end ? sets_evaluate(t, done / t->epochs.steps - 1, false) : MEGA_OK;
}

/* Evaluates where nothing was trained, or nothing was left to train. */
static mega_status sets_end(trainer *t)
{
    if (t->cfg->skip_train) {
        MEGA_TRY(sets_evaluate(t, -1, true));
        return train_check_stop(t, "the evaluation");
    }
    return t->evaluated ? MEGA_OK : sets_evaluate(t, t->train_iters / t->epochs.steps - 1, true);
}

const train_course train_by_sets = {.is_as_megatron = true,
                                    .in_epochs = true,
                                    .save_option = "--save",
                                    .load_option = "--load",
                                    .restart_option = "--restart",
                                    .batch_options = "--global-batch-size",
                                    .weights_option = "--pretrained-checkpoint",
                                    .losses_in_log = "the table above",
                                    .length_options = "--epochs, --train-data, --keep-last and --global-batch-size",
                                    .begin = sets_begin,
                                    .after = sets_after,
                                    .end = sets_end};
