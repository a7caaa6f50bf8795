/* Prints the training log line (Megatron's fields in Megatron's order, then our own) and the progress line on a
 * terminal. */
#include "megalith/progress.h"
#include "train_impl.h"
#include <math.h>
#include <stdio.h>

/* Returns whether to print a line. Megatron prints at multiples of --log-interval. We also print the first and the
 * last iteration, and at least one line per minute; these extra lines show the sums so far and reset nothing, so that
 * the regular lines match Megatron's. */
static bool is_due(const trainer *t, int64_t iteration, double step_s)
{
    const bool regular = iteration % t->cfg->log_interval == 0;
    const bool end = iteration == t->first_iteration + 1 || iteration == t->train_iters;
    return regular || end || mega_time_now() + step_s - t->log.last_line > 58;
}

/* Returns the estimated time left, for training alone, at the speed of this interval. */
static const char *time_left(const trainer *t, char *out, int size)
{
    const int64_t iterations = t->train_iters - mega_engine_progress_told(t->engine)->iteration;
    mega_format_duration(out, size, t->log.interval.seconds / (double)t->log.interval.iterations * (double)iterations);
    return out;
}

static void throughput(const trainer *t, double *tokens_s, double *flops, double *palm)
{
    *tokens_s = t->log.interval.seconds > 0 ? (double)t->log.interval.tokens / t->log.interval.seconds : 0;
    *flops = t->log.interval.seconds > 0 ? t->log.interval.flops / t->log.interval.seconds : 0;
    *palm = t->log.interval.seconds > 0 ? t->log.interval.palm / t->log.interval.seconds : 0;
}

static void write_peak(trainer *t, mega_buffer *b, double flops)
{
    char note[128];
    train_load_read(t, mega_engine_progress_told(t->engine)->iteration % t->cfg->log_interval == 0);
    if (train_has_gpu(t)) {
        if (t->peak.flops > 0) mega_buffer_printf(b, " of published peak: %.1f%% |", 100 * flops / t->peak.flops);
        return;
    }
    train_peak_measure_if_doubtful(t);
    const double percent = train_peak_percent(&t->peak, flops);
    mega_buffer_printf(b, " of measured peak: %.1f%%%s |", percent,
                       train_peak_note(note, sizeof note, &t->peak, &t->cpu.load, train_load_threads(t)));
}

static void write_line(trainer *t, const mega_step_result *r, double params_norm)
{
    const mega_engine_progress *p = mega_engine_progress_told(t->engine);
    const double ranks = (double)t->cfg->engine.world_size;
    const double n = (double)t->log.interval.iterations;
    double tokens_s, flops, palm;
    char left[32];
    mega_buffer *const b = &t->log.line; /* reused for every line, so that nothing is allocated */
    b->size = 0;
    b->failed = false;
    throughput(t, &tokens_s, &flops, &palm);
    mega_buffer_printf(b, " iteration %8lld/%8lld |", (long long)p->iteration, (long long)t->train_iters);
    mega_buffer_printf(b, " consumed samples: %12lld |", (long long)p->consumed_samples);
    if (t->cfg->engine.optim.curriculum_learning)
        mega_buffer_printf(b, " consumed tokens: %12lld |", (long long)p->consumed_tokens);
    mega_buffer_printf(b, " elapsed time per iteration (ms): %.1f |", t->log.interval.seconds * 1e3 / n);
    if (t->cfg->log_throughput)
        mega_buffer_printf(b, " throughput per GPU (TFLOP/s/GPU): %.1f |", flops / ranks * 1e-12);
    mega_buffer_printf(b, " learning rate: %.3E |", r->lr);
    mega_buffer_printf(b, " global batch size: %5lld |", (long long)r->samples);
    train_losses_text(t, &t->log.interval, b);
    mega_buffer_printf(b, " loss scale: %.1f |", mega_engine_loss_scale(t->engine));
    if (!r->skipped) mega_buffer_printf(b, " grad norm: %.3f |", r->grad_norm);
    if (t->cfg->log_num_zeros_in_grad && !r->skipped)
        mega_buffer_printf(b, " num zeros: %.1f |", (double)r->grad_zeros);
    if (t->cfg->log_params_norm) mega_buffer_printf(b, " params norm: %.3f |", params_norm);
    if (t->cfg->engine.optim.curriculum_learning)
        mega_buffer_printf(b, " curriculum seqlen: %5lld |", (long long)(r->tokens / r->samples));
    mega_buffer_printf(b, " number of skipped iterations: %3lld | number of nan iterations: %3lld |",
                       (long long)t->log.interval.skipped, (long long)t->log.interval.nan);
    mega_buffer_printf(b, " tokens/s: %.1f | TFLOP/s: %.4f | TFLOP/s (PaLM): %.4f |", tokens_s, flops * 1e-12,
                       palm * 1e-12);
    write_peak(t, b, flops / ranks);
    mega_buffer_printf(b, " time left: %s |", time_left(t, left, sizeof left));
    if (!b->failed) train_line(t, "%s", b->data);
}

/* Called once. "Allocated" is the planned memory, "reserved" is the memory that the process really holds. Pages that
 * have not been touched yet are planned but not held; they are still counted as reserved. */
static void write_memory(const trainer *t, int64_t iteration)
{
    const double planned = (double)train_memory_total(t) / 1048576;
    const double reserved = fmax(planned, (double)mega_memory_resident() / 1048576);
    const double most = fmax(reserved, (double)mega_memory_peak() / 1048576);
    train_line(
        t,
        "[Rank 0] (after %lld iterations) memory (MB) | allocated: %.1f | max allocated: %.1f | reserved: %.1f | "
        "max reserved: %.1f",
        (long long)iteration, planned, planned, reserved, most);
}

/* By the second iteration, each pass has run as often as it takes to become a graph. */
static void write_graphs(const trainer *t, int64_t iteration)
{
    const mega_recorded r = mega_engine_recorded(t->engine);
    if (iteration != t->first_iteration + 2 || r.recordings == 0) return;
    train_line(t,
               "[Rank 0] (after %lld iterations) graphs on the GPU: %lld, with %lld launches of kernels; meanwhile its "
               "free memory fell by %.1f MB, for all its processes",
               (long long)iteration, (long long)r.recordings, (long long)r.launches, (double)r.bytes / 1048576);
}

static void draw_bar(trainer *t, double loss, double tokens_s)
{
    mega_buffer *const bar = &t->log.line; /* of log lines: the last one is printed */
    bar->size = 0;
    bar->failed = false;
    train_epochs_bar(t, loss, tokens_s, bar);
    if (!bar->failed) t->io->status(t->io->user, bar->data);
}

static void log_draw_status(trainer *t, const mega_step_result *r)
{
    const mega_engine_progress *p = mega_engine_progress_told(t->engine);
    char left[32], text[256];
    double tokens_s, flops, palm;
    throughput(t, &tokens_s, &flops, &palm);
    if (t->task->course->in_epochs) {
        draw_bar(t, r->loss, tokens_s);
        return;
    }
    snprintf(text, sizeof text, "iteration %lld of %lld, %d %%, loss %.4f, %.0f tokens/s, %s left",
             (long long)p->iteration, (long long)t->train_iters, (int)(100 * p->iteration / t->train_iters), r->loss,
             tokens_s, time_left(t, left, sizeof left));
    t->io->status(t->io->user, text);
}

void train_log_step(trainer *t, const mega_step_result *r, double params_norm, double step_s)
{
    const int64_t iteration = mega_engine_progress_told(t->engine)->iteration;
    double palm;
    t->log.interval.flops += train_token_flops(t, r, &palm) * (double)r->tokens;
    t->log.interval.palm += palm * (double)r->tokens;
    train_losses_add(&t->log.interval, r);
    t->log.interval.seconds += step_s;
    t->log.interval.tokens += r->tokens;
    t->log.interval.iterations++;
    if (is_due(t, iteration, step_s)) {
        write_line(t, r, params_norm);
        if (iteration == t->first_iteration + 1) write_memory(t, iteration);
        t->log.last_line = mega_time_now();
    }
    write_graphs(t, iteration);
    if (t->io->status != NULL) log_draw_status(t, r);
    if (iteration % t->cfg->log_interval == 0) t->log.interval = (train_interval){0};
}
