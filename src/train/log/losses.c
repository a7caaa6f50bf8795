/* Prints losses under the names that the model gives them. For a model with one loss, only that is shown. For several,
 * "loss" is the value that is trained (the sum of coefficient * loss), followed by each loss under its own name; a task
 * may show these alone, as Megatron's BERT does. */
#include "train_impl.h"
#include <math.h>
#include <stdio.h>

const char *train_loss_name(const trainer *t)
{
    return mega_engine_num_metrics(t->engine) == 1 ? mega_engine_metric_name(t->engine, 0) : "loss";
}

int train_loss_parts(const trainer *t)
{
    const int metrics = mega_engine_num_metrics(t->engine);
    return metrics > 1 ? metrics : 0;
}

const char *train_loss_key(char out[MEGA_LOSS_NAME], const char *name)
{
    snprintf(out, MEGA_LOSS_NAME, "%s", name);
    for (char *c = out; *c != '\0'; c++)
        if (*c == ' ') *c = '_';
    return out;
}

void train_losses_add(train_interval *sum, const mega_step_result *r)
{
    if (r->skipped) {
        sum->skipped++;
        sum->nan += !isfinite(r->loss);
        return;
    }
    sum->loss += r->loss;
    for (int i = 0; i < MEGA_METRICS; i++) sum->metric[i] += r->metric[i];
}

/* As in Megatron, a loss of 0 is not shown, because nothing was trained, and skipped iterations do not count. */
void train_losses_text(const trainer *t, const train_interval *sum, mega_buffer *out)
{
    const double n = (double)(sum->iterations - sum->skipped);
    const bool has_sum = train_loss_parts(t) == 0 || !t->task->shows_parts_alone;
    if (has_sum && n > 0 && sum->loss / n > 0)
        mega_buffer_printf(out, " %s: %.6E |", train_loss_name(t), sum->loss / n);
    for (int i = 0; i < train_loss_parts(t); i++)
        if (n > 0 && isfinite(sum->metric[i])) /* NAN: only evaluation computes this metric */
            mega_buffer_printf(out, " %s: %.6E |", mega_engine_metric_name(t->engine, i), sum->metric[i] / n);
}

static void losses_put_value(mega_buffer *out, const char *name, double loss, bool perplexity)
{
    mega_buffer_printf(out, "%s value: %.6E | ", name, loss);
    if (perplexity) mega_buffer_printf(out, "%s PPL: %.6E | ", name, train_perplexity(loss));
}

/* Writes Megatron's evaluation line; if the loss is a likelihood, it includes the perplexity. */
void train_evaluation_text(const trainer *t, const char *where, const mega_loss_sums *sums, mega_buffer *out)
{
    const double loss = train_evaluation_loss(sums);
    const char *name = train_loss_name(t);
    const bool alone = train_loss_parts(t) > 0 && t->task->shows_parts_alone;
    mega_buffer_printf(out, " validation loss at %s | ", where);
    if (!alone) losses_put_value(out, name, loss, true);
    for (int i = 0; i < train_loss_parts(t); i++)
        if (sums->weight[i] > 0)
            losses_put_value(out, mega_engine_metric_name(t->engine, i), sums->metric[i] / sums->weight[i],
                             alone && (t->task->likelihoods == 0 || i < t->task->likelihoods));
}

double train_evaluation_loss(const mega_loss_sums *sums)
{
    return sums->count > 0 ? sums->loss / sums->count : 0;
}
