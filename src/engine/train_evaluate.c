/* Evaluation on a split, with Megatron's lines. */
#include "train_impl.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Mean loss over eval_iters batches. The validation split goes on where the last evaluation ended. */
static mega_status run(trainer *t, int split, double *out)
{
    const mega_config *cfg = t->cfg;
    mega_engine_progress *progress = mega_engine_progress_get(t->engine);
    const bool moves = split == MEGA_SPLIT_VALID;
    int64_t consumed = moves ? progress->consumed_valid_samples : 0;
    mega_loss_sums sums = {0, 0};
    for (int64_t i = 0; i < cfg->eval_iters; i++) {
        mega_batch *b = mega_engine_evaluation_batch(t->engine, cfg->global_batch_size);
        MEGA_TRY(train_fill(t, split, consumed, b));
        MEGA_TRY(mega_engine_evaluate(t->engine, &sums));
        consumed += b->rows;
        if (t->io->status != NULL) {
            char text[96];
            snprintf(text, sizeof text, "evaluating %lld of %lld", (long long)i + 1, (long long)cfg->eval_iters);
            t->io->status(t->io->user, text);
        }
    }
    if (moves) progress->consumed_valid_samples = consumed;
    *out = sums.count > 0 ? sums.loss / sums.count : 0;
    return MEGA_OK;
}

mega_status train_evaluate(trainer *t, int split, const char *where, bool is_final)
{
    static const char dashes[] =
        "------------------------------------------------------------------------------------------"
        "----------------------------------------------------------------------";
    char text[512];
    double loss;
    if (t->data[split] == NULL || t->cfg->eval_iters == 0) return MEGA_OK;
    MEGA_TRY(run(t, split, &loss));
    const int n = snprintf(text, sizeof text, " validation loss at %s | lm loss value: %.6E | lm loss PPL: %.6E | ",
                           where, loss, exp(fmin(20, loss)));
    const int rule = n + 1 < (int)sizeof dashes ? n + 1 : (int)sizeof dashes - 1;
    train_line(t, "%.*s", rule, dashes);
    train_line(t, "%s", text);
    train_line(t, "%.*s", rule, dashes);
    if (split == MEGA_SPLIT_VALID) t->last_validation_loss = loss;
    return train_monitor_evaluation(t, split, loss, is_final);
}
