/* Evaluates a split and prints Megatron's lines. */
#include "megalith/progress.h"
#include "train_impl.h"
#include <stdio.h>

/* Shows progress on the run's terminal, or, if the output is piped, like any other long operation. */
static void evaluate_show(const trainer *t, mega_progress *shown, int64_t done, int64_t total)
{
    char text[96];
    if (t->io->status == NULL) {
        mega_progress_update(shown, 0, (uint64_t)done);
        return;
    }
    snprintf(text, sizeof text, "%s, %lld of %lld samples", shown->what, (long long)done, (long long)total);
    t->io->status(t->io->user, text);
}

/* Returns the first sample of an evaluation of `total` samples: 0 if nothing is trained, as in Megatron. The split was
 * sized from this command's options, but the run that wrote the checkpoint may have consumed more with other options:
 * then the blocks of `total` samples start over. */
static int64_t first_sample(const trainer *t, int split, int64_t total)
{
    if (split != MEGA_SPLIT_VALID || t->cfg->skip_train) return 0;
    const int64_t consumed = mega_engine_progress_get(t->engine)->consumed_valid_samples;
    const int64_t blocks = t->data[split].samples / total;
    /* a cyclic split starts over by itself */
    const bool comes_round = t->cfg->dataloader_type == MEGA_DATALOADER_CYCLIC;
    if (comes_round || blocks == 0 || consumed + total <= t->data[split].samples) return consumed;
    return consumed / total % blocks * total;
}

/* Computes the mean loss over eval_iters batches, one micro-batch at a time so that progress can be shown for large
 * batches. The validation split continues where the last evaluation ended. An evaluation that a signal ends (after the
 * current instruction) still counts its samples as consumed, so that a resumed run reads the same samples in each
 * later evaluation as an uninterrupted run. */
static mega_status evaluate_run(trainer *t, int split, mega_loss_sums *sums, bool *is_whole)
{
    const mega_train_options *cfg = t->cfg;
    mega_engine_progress *progress = mega_engine_progress_get(t->engine);
    const bool moves = split == MEGA_SPLIT_VALID;
    const int64_t total = cfg->eval_iters * cfg->engine.optim.global_batch_size, first = first_sample(t, split, total);
    const mega_dataset data = mega_dataset_sampled(&t->sampled[split]);
    mega_progress shown;
    mega_progress_begin(&shown, moves ? "evaluating the validation set" : "evaluating the test set", "samples", 0,
                        (uint64_t)total);
    int64_t done = 0;
    bool is_left = false, late;
    while (done < total && !is_left) {
        const mega_status st =
            mega_engine_evaluate_part(t->engine, &data, first + done, cfg->engine.optim.micro_batch_size, sums);
        is_left = st == MEGA_ERR_INTERRUPTED;
        if (!is_left) MEGA_TRY(train_save_after_failure(t, st));
        done += is_left ? 0 : cfg->engine.optim.micro_batch_size * cfg->engine.data_parallel_size;
        evaluate_show(t, &shown, done, total);
    }
    MEGA_TRY(train_poll_ranks(t, 0, &late)); /* sets t->stop to the signal */
    if (t->io->status == NULL) mega_progress_end(&shown, 0, (uint64_t)total);
    if (moves) progress->consumed_valid_samples += total;
    *is_whole = !is_left;
    return MEGA_OK;
}

mega_status train_evaluate(trainer *t, int split, const char *where, bool is_final)
{
    static const char dashes[] =
        "------------------------------------------------------------------------------------------"
        "----------------------------------------------------------------------";
    mega_loss_sums sums = {0};
    mega_buffer text = {0};
    bool is_whole;
    if (t->data[split].self == NULL || t->cfg->eval_iters == 0) return MEGA_OK;
    MEGA_TRY(evaluate_run(t, split, &sums, &is_whole));
    if (!is_whole) {
        train_line(t, "a signal ended the evaluation at %s: no loss is known", where);
        return MEGA_OK;
    }
    train_evaluation_text(t, where, &sums, &text);
    MEGA_TRY(mega_buffer_check(&text, "the line of an evaluation"));
    const int rule = text.size + 1 < sizeof dashes ? (int)text.size + 1 : (int)sizeof dashes - 1;
    train_line(t, "%.*s", rule, dashes);
    train_line(t, "%s", text.data);
    t->evaluated = true;
    train_line(t, "%.*s", rule, dashes);
    mega_buffer_fini(&text);
    if (split == MEGA_SPLIT_VALID) t->log.last_validation_loss = train_evaluation_loss(&sums);
    train_monitor_evaluation(t, split, train_evaluation_loss(&sums), true, is_final);
    return MEGA_OK;
}
