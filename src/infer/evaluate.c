/* Evaluation of a token sequence in windows. */
#include "megalith/evaluate.h"
#include "budget.h"
#include "megalith/batch.h"
#include "megalith/model_parts.h"
#include "relay.h"

#include <string.h>

int64_t mega_evaluate_windows(int64_t tokens, int64_t stride)
{
    const int64_t targets = tokens - 1 - stride;
    return targets > 0 ? (targets + stride - 1) / stride + 1 : 1;
}

/* What one sample of the batch counts: its window's targets that no earlier window counted. */
static void fill_sample(mega_sample *sample, int64_t window, const int32_t *tokens, int64_t count,
                        const mega_evaluate_options *o, int64_t windows)
{
    int32_t *ids = mega_sample_i32(sample, "tokens", o->seq), *labels = mega_sample_i32(sample, "labels", o->seq);
    int32_t *positions = mega_sample_i32(sample, "position_ids", o->seq);
    int32_t *segments = mega_sample_i32(sample, "segment_start", o->seq);
    float *mask = mega_sample_f32(sample, "loss_mask", o->seq);
    const int64_t begin = window * o->stride;
    const int64_t first = window == 0 ? 0 : o->seq - o->stride;
    for (int64_t i = 0; i < o->seq; i++) { /* a pipeline stage reads some of these */
        const int64_t at = begin + i;
        const bool real = window < windows && at + 1 < count;
        if (ids != NULL) ids[i] = window < windows && at < count ? tokens[at] : o->pad;
        if (labels != NULL) labels[i] = real ? tokens[at + 1] : o->pad;
        if (positions != NULL) positions[i] = (int32_t)i;
        if (segments != NULL) segments[i] = 0;
        if (mask != NULL) mask[i] = real && i >= first ? 1.0f : 0.0f;
    }
}

static void fill(mega_batch *batch, mega_program *p, int64_t window, const int32_t *tokens, int64_t count,
                 const mega_evaluate_options *o, int64_t windows)
{
    mega_batch_begin(batch, o->batch);
    for (int64_t b = 0; b < o->batch; b++) {
        mega_batch_set_index(batch, b, window + b);
        fill_sample(mega_batch_sample(batch, b), window + b, tokens, count, o, windows);
    }
    mega_batch_load(batch, 0, o->batch, p, 0);
}

static void add_losses(mega_evaluation *sum, mega_program *p, int64_t rows)
{
    const float *mask = mega_program_tensor(p, "loss_mask", 0);
    const void *loss = mega_program_tensor(p, "token_loss", 0);
    const bool wide = mega_program_acc_dtype(p) == MEGA_F64;
    for (int64_t t = 0; t < rows && mask != NULL; t++) { /* the last stage of a pipeline has them */
        if (mask[t] == 0.0f) continue;
        sum->loss_sum += wide ? ((const double *)loss)[t] : (double)((const float *)loss)[t];
        sum->targets++;
    }
}

static mega_status leave_check(relay *hand, const mega_layout *layout, const mega_evaluate_options *o)
{
    const mega_status stop = relay_stop_check(layout, o->world, o->team, "the evaluation");
    if (stop != MEGA_OK) MEGA_TRY(relay_finish(hand));
    return stop;
}

/* Data-parallel ranks take turns at the batches of windows. */
static mega_status run_windows(mega_evaluation *sum, mega_program *p, mega_batch *batch, const mega_layout *layout,
                               const int32_t *tokens, int64_t count, const mega_evaluate_options *o)
{
    const mega_axis *dp = &layout->dp;
    relay hand = {.pp = &layout->pp};
    const int64_t often = layout->pp.size == 1 ? 1 : 16; /* stages of a pipeline seldom wait for each other */
    int64_t batches = 0;
    for (int64_t window = dp->rank * o->batch; window < sum->windows; window += dp->size * o->batch, batches++) {
        if (batches > 0 && batches % often == 0) MEGA_TRY(leave_check(&hand, layout, o));
        fill(batch, p, window, tokens, count, o, sum->windows);
        MEGA_TRY(relay_before(&hand, p));
        MEGA_TRY(mega_program_forward(p, 0));
        MEGA_TRY(relay_after(&hand, p));
        add_losses(sum, p, o->batch * o->seq);
        if (o->progress != NULL) {
            const int64_t done = window + dp->size * o->batch;
            o->progress(o->user, done < sum->windows ? done : sum->windows, sum->windows);
        }
    }
    MEGA_TRY(leave_check(&hand, layout, o));
    return relay_finish(&hand);
}

/* The last stage of a pipeline has the losses. */
static mega_status sum_ranks(mega_evaluation *sum, const mega_axis *dp, const mega_axis *pp)
{
    double both[2] = {sum->loss_sum, (double)sum->targets};
    MEGA_TRY(mega_comm_all_reduce(dp->comm, "evaluation", both, 2, MEGA_F64, MEGA_REDUCE_SUM));
    MEGA_TRY(mega_comm_broadcast(pp->comm, "evaluation", both, (int64_t)sizeof both, pp->size - 1));
    sum->loss_sum = both[0];
    sum->targets = (int64_t)both[1];
    return MEGA_OK;
}

static mega_status build_program(mega_program **out, const mega_language_model *m, mega_params *params,
                                 const mega_layout *layout, const mega_evaluate_options *o)
{
    mega_graph *graph = NULL;
    MEGA_TRY(mega_graph_create(&graph, mega_params_compute_dtype(params), params, layout));
    const mega_model_sizes what = {.mode = MEGA_EVAL, .samples = o->batch, .positions = o->seq};
    const mega_status st = mega_model_describe(&m->model, 1, 0, what, graph);
    if (st != MEGA_OK) {
        mega_graph_destroy(graph);
        return st;
    }
    const mega_program_options options = {
        .backend = o->backend, .team = o->team, .world = o->world, .name = "evaluate"};
    MEGA_TRY(mega_program_build(out, graph, &options));
    MEGA_TRY(budget_check(o->memory_limit, params, (const mega_program *const *)out, 1, "the evaluation",
                          "a smaller --micro-batch-size or --seq-length, or --bf16"));
    return mega_program_allocate(*out);
}

mega_status mega_evaluate(mega_evaluation *out, const mega_language_model *m, mega_params *params,
                          const mega_layout *layout, const int32_t *tokens, int64_t count,
                          const mega_evaluate_options *o)
{
    if (count < 2)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "evaluation: %lld tokens; at least 2 are needed, the first has nothing before it",
                         (long long)count);
    if (o->seq < 1 || o->seq > m->positions || o->stride < 1 || o->stride > o->seq || o->batch < 1)
        return MEGA_FAIL(
            MEGA_ERR_USAGE,
            "evaluation: %lld windows of %lld tokens moving on by %lld; expected windows of 1 to %lld tokens (the "
            "model's positions) that move on by 1 up to their own length",
            (long long)o->batch, (long long)o->seq, (long long)o->stride, (long long)m->positions);
    mega_evaluation sum = {.windows = mega_evaluate_windows(count, o->stride)};
    mega_program *p = NULL;
    mega_batch *batch = NULL;
    mega_status st = build_program(&p, m, params, layout, o);
    if (st == MEGA_OK) st = mega_batch_create_for(&batch, p, o->batch);
    if (st == MEGA_OK) st = run_windows(&sum, p, batch, layout, tokens, count, o);
    mega_batch_destroy(batch);
    mega_program_destroy(p);
    st = mega_comm_agree(layout->world.comm, st); /* before one waits for another that failed */
    if (st == MEGA_OK) st = sum_ranks(&sum, &layout->dp, &layout->pp);
    if (st == MEGA_OK) *out = sum;
    return st;
}
