/* Evaluation of a token sequence in windows. */
#include "megalith/evaluate.h"
#include "encode.h"

#include <math.h>

int64_t mega_evaluate_windows(int64_t tokens, int64_t stride)
{
    const int64_t targets = tokens - 1 - stride;
    return targets > 0 ? (targets + stride - 1) / stride + 1 : 1;
}

/* The tokens to evaluate. */
typedef struct text {
    const int32_t *tokens;
    int64_t count, windows;
    int64_t seq, stride; /* of a window */
    int32_t pad;
} text;

/* Whether target i of a window counts: it exists, and no earlier window has counted it. */
static bool target_counts(const text *t, int64_t window, int64_t i)
{
    const int64_t first = window == 0 ? 0 : t->seq - t->stride;
    return window < t->windows && window * t->stride + i + 1 < t->count && i >= first;
}

static void fill_sample(const text *t, mega_sample *sample, int64_t window)
{
    int32_t *ids = mega_sample_i32(sample, "tokens", t->seq), *labels = mega_sample_i32(sample, "labels", t->seq);
    int32_t *positions = mega_sample_i32(sample, "position_ids", t->seq);
    int32_t *segments = mega_sample_i32(sample, "key_begin", t->seq);
    float *mask = mega_sample_f32(sample, "loss_mask", t->seq);
    const int64_t begin = window * t->stride;
    for (int64_t i = 0; i < t->seq; i++) { /* a pipeline stage reads some of these */
        const int64_t at = begin + i;
        const bool real = window < t->windows && at + 1 < t->count;
        if (ids != NULL) ids[i] = window < t->windows && at < t->count ? t->tokens[at] : t->pad;
        if (labels != NULL) labels[i] = real ? t->tokens[at + 1] : t->pad;
        if (positions != NULL) positions[i] = (int32_t)i;
        if (segments != NULL) segments[i] = 0;
        if (mask != NULL) mask[i] = target_counts(t, window, i) ? 1.0f : 0.0f;
    }
}

/* Sums over windows of loss L and number of targets N. */
typedef struct text_sums {
    double loss, targets, loss_squared, loss_targets, targets_squared;
} text_sums;
enum { TEXT_SUMS = sizeof(text_sums) / sizeof(double) };

/* Only ranks with the last pipeline stage have losses. */
static void add_losses(text_sums *sum, const mega_engine *e, const text *t, int64_t window)
{
    mega_run_value loss;
    if (!mega_engine_run_output(e, MEGA_RUN_EVALUATE, "token_loss", &loss)) return;
    encode_numbers x = {.value = &loss};
    for (int64_t begin = 0; begin < loss.count; begin += t->seq) {
        double of_window = 0, targets = 0;
        for (int64_t at = begin; at < begin + t->seq; at++) {
            if (!target_counts(t, window + at / t->seq, at % t->seq)) continue;
            const double one = encode_number(&x, at);
            sum->loss += one;
            of_window += one;
            targets++;
        }
        sum->targets += targets;
        sum->loss_squared += of_window * of_window;
        sum->loss_targets += of_window * targets;
        sum->targets_squared += targets * targets;
    }
}

/* The error of a ratio of sums over windows (linearized). */
static double error_of(const text_sums *s, int64_t windows)
{
    const double mean = s->loss / s->targets, n = (double)windows;
    const double squares = s->loss_squared - 2 * mean * s->loss_targets + mean * mean * s->targets_squared;
    if (windows < 2) return NAN;
    return sqrt((squares > 0 ? squares : 0) * n / (n - 1)) / s->targets;
}

/* A run over the text. */
typedef struct windows_work {
    mega_engine *engine;
    const text *text;
    const mega_evaluate_options *options;
    text_sums sum;
} windows_work;

static void windows_fill(void *user, int64_t window, int64_t row, mega_sample *sample)
{
    const windows_work *w = user;
    (void)row;
    fill_sample(w->text, sample, window);
}

static void windows_take(void *user, int64_t window)
{
    windows_work *w = user;
    const int64_t windows = w->text->windows, batch = mega_engine_train_micro_batch_size(w->engine);
    const int64_t done = window + mega_engine_layout(w->engine)->dp.size * batch;
    add_losses(&w->sum, w->engine, w->text, window);
    if (w->options->progress != NULL) w->options->progress(w->options->user, done < windows ? done : windows, windows);
}

/* Only the last pipeline stage has losses. */
static mega_status sum_ranks(text_sums *sum, const mega_layout *layout)
{
    const mega_axis *pp = &layout->pp;
    MEGA_TRY(mega_comm_all_reduce(layout->dp.comm, "evaluation", sum, TEXT_SUMS, MEGA_F64, MEGA_REDUCE_SUM));
    return mega_comm_broadcast(pp->comm, "evaluation", sum, (int64_t)sizeof *sum, pp->size - 1);
}

mega_status mega_evaluate(mega_engine *engine, const int32_t *tokens, int64_t count, const mega_evaluate_options *o,
                          mega_evaluation *out)
{
    const int64_t seq = mega_engine_run_rows(engine, MEGA_RUN_EVALUATE);
    if (seq < 0) return MEGA_ERR_USAGE;
    if (count < 2)
        return MEGA_MISTAKE("evaluation: %lld tokens; at least 2 are needed, the first has nothing before it",
                            (long long)count);
    if (o->stride < 1 || o->stride > seq)
        return MEGA_MISTAKE(
            "evaluation: windows of %lld tokens with a stride of %lld; expected a stride from 1 to that length",
            (long long)seq, (long long)o->stride);
    const text t = {.tokens = tokens,
                    .count = count,
                    .windows = mega_evaluate_windows(count, o->stride),
                    .seq = seq,
                    .stride = o->stride,
                    .pad = o->pad};
    windows_work work = {.engine = engine, .text = &t, .options = o};
    text_sums *sum = &work.sum;
    MEGA_TRY(encode_run(
        engine, &(encode_work){.samples = t.windows, .fill = windows_fill, .take = windows_take, .user = &work}));
    MEGA_TRY(sum_ranks(sum, mega_engine_layout(engine)));
    if (!isfinite(sum->loss))
        return MEGA_FAIL(
            MEGA_ERR_NUMERIC,
            "evaluation: the loss of the text is %g; the weights of %s have NaN or Inf, or are too large for its "
            "computations: give another checkpoint, or float32 in place of --bf16 and --fp16",
            sum->loss, o->folder != NULL ? o->folder : "the model");
    *out = (mega_evaluation){.loss_sum = sum->loss,
                             .targets = (int64_t)sum->targets,
                             .windows = t.windows,
                             .error = error_of(sum, t.windows)};
    return MEGA_OK;
}
