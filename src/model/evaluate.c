/* Evaluation of a token sequence in windows. */
#include "megalith/evaluate.h"

#include <string.h>

int64_t mega_evaluate_windows(int64_t tokens, int64_t stride)
{
    const int64_t targets = tokens - 1 - stride;
    return targets > 0 ? (targets + stride - 1) / stride + 1 : 1;
}

/* What one row of the batch counts: its window's targets that no earlier window counted. */
static void fill_row(mega_program *p, int64_t row, int64_t window, const int32_t *tokens, int64_t count,
                     const mega_evaluate_options *o, int64_t windows)
{
    int32_t *input = (int32_t *)mega_program_tensor(p, "tokens", 0) + row * o->seq;
    int32_t *label = (int32_t *)mega_program_tensor(p, "labels", 0) + row * o->seq;
    float *mask = (float *)mega_program_tensor(p, "loss_mask", 0) + row * o->seq;
    int32_t *position = (int32_t *)mega_program_tensor(p, "position_ids", 0) + row * o->seq;
    int32_t *seq_position = (int32_t *)mega_program_tensor(p, "seq_position", 0) + row * o->seq;
    uint32_t *sample = (uint32_t *)mega_program_tensor(p, "sample_id", 0) + row * o->seq;
    int32_t *segment = (int32_t *)mega_program_tensor(p, "segment_start", 0) + row * o->seq;
    const int64_t begin = window * o->stride;
    const int64_t first = window == 0 ? 0 : o->seq - o->stride;
    for (int64_t i = 0; i < o->seq; i++) {
        const int64_t at = begin + i;
        const bool real = window < windows && at + 1 < count;
        input[i] = window < windows && at < count ? tokens[at] : o->pad;
        label[i] = real ? tokens[at + 1] : o->pad;
        mask[i] = real && i >= first ? 1.0f : 0.0f;
        position[i] = seq_position[i] = (int32_t)i;
        sample[i] = (uint32_t)window;
        segment[i] = 0;
    }
}

static void add_losses(mega_evaluation *sum, mega_program *p, int64_t rows)
{
    const float *mask = mega_program_tensor(p, "loss_mask", 0);
    const void *loss = mega_program_tensor(p, "token_loss", 0);
    const bool wide = mega_program_acc_dtype(p) == MEGA_F64;
    for (int64_t t = 0; t < rows; t++) {
        if (mask[t] == 0.0f) continue;
        sum->loss_sum += wide ? ((const double *)loss)[t] : (double)((const float *)loss)[t];
        sum->targets++;
    }
}

/* Data-parallel ranks take turns at the batches of windows. */
static mega_status run_windows(mega_evaluation *sum, mega_program *p, const mega_axis *dp, const int32_t *tokens,
                               int64_t count, const mega_evaluate_options *o)
{
    for (int64_t window = dp->rank * o->batch; window < sum->windows; window += dp->size * o->batch) {
        for (int64_t b = 0; b < o->batch; b++) fill_row(p, b, window + b, tokens, count, o, sum->windows);
        MEGA_TRY(mega_program_forward(p, 0));
        add_losses(sum, p, o->batch * o->seq);
        if (o->progress != NULL) {
            const int64_t done = window + dp->size * o->batch;
            o->progress(o->user, done < sum->windows ? done : sum->windows, sum->windows);
        }
    }
    return MEGA_OK;
}

static mega_status sum_ranks(mega_evaluation *sum, const mega_axis *dp)
{
    double both[2] = {sum->loss_sum, (double)sum->targets};
    MEGA_TRY(mega_comm_all_reduce(dp->comm, "evaluation", both, 2, MEGA_F64, MEGA_REDUCE_SUM));
    sum->loss_sum = both[0];
    sum->targets = (int64_t)both[1];
    return MEGA_OK;
}

static mega_status build_program(mega_program **out, const mega_gpt *m, mega_params *params, const mega_layout *layout,
                                 const mega_evaluate_options *o)
{
    mega_graph *graph = NULL;
    MEGA_TRY(mega_graph_create(&graph, mega_params_compute_dtype(params), params, layout));
    const mega_status st = mega_gpt_describe_evaluate(graph, m, 0, o->batch, o->seq);
    if (st != MEGA_OK) {
        mega_graph_destroy(graph);
        return st;
    }
    const mega_program_options options = {.backend = o->backend, .team = o->team, .name = "evaluate"};
    MEGA_TRY(mega_program_build(out, graph, &options));
    return mega_program_allocate(*out);
}

mega_status mega_gpt_evaluate(mega_evaluation *out, const mega_gpt *m, mega_params *params, const mega_layout *layout,
                              const int32_t *tokens, int64_t count, const mega_evaluate_options *o)
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
    mega_status st = build_program(&p, m, params, layout, o);
    if (st == MEGA_OK) st = run_windows(&sum, p, &layout->dp, tokens, count, o);
    mega_program_destroy(p);
    st = mega_comm_agree(layout->world.comm, st); /* before one waits for another that failed */
    if (st == MEGA_OK) st = sum_ranks(&sum, &layout->dp);
    if (st == MEGA_OK) *out = sum;
    return st;
}
