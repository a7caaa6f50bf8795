/* Tests a linear model in two parts, with a loss of each, one that both add to, and two metrics, against gradients
 * computed here. Usage: ranks_losses
 *
 *   part 0:  x = table[token]        "size": mean over unmasked rows of |x|^2, coefficient 0.5
 *                                    "both": mean over unmasked rows of |x|^2, and of |y|^2 in part 1, coefficient
 *                                    0.125
 *   part 1:  y = x weight^T          "far": mean over all rows of |y - 3 y|^2, coefficient -0.25
 *                                    "kept": mean over unmasked rows of |y|^2, and "hits", the accuracy: metrics
 *
 * On one rank, and with tensor, pipeline and data parallelism and every stage of ZeRO, losses, metrics, gradient norm
 * and updates must be those of the formulas, and two runs must have the same bits. */
#include "device.h"
#include "megalith/builder.h"
#include "rank_layouts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = ENGINE_RUN_SEQ, C = 6, V = 20, BATCH = 4, STEPS = 3, LOSSES = 5 };
static const char *const name[LOSSES] = {"size", "both", "far", "kept", "hits"};
static const double coefficient[LOSSES] = {0.5, 0.125, -0.25, 0, 0}, LR = 0.05;

/* ---- the model ---- */

static mega_tensor matrix(const mega_builder *b, const char *what, int64_t rows)
{
    const mega_param_options o = {.init = MEGA_INIT_NORMAL, .init_std = 0.4};
    return mega_builder_param(b, what, rows, C, &o);
}

static mega_loss size_of(mega_graph *g, mega_tensor x, mega_tensor weights)
{
    return mega_op_weighted_sum(g, mega_op_squared_error(g, x, mega_op_scale(g, x, 0)), weights);
}

static void begin(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_tensor mask = mega_input(b, "loss_mask", MEGA_F32, b->positions, 0), none = mega_none();
    const mega_tensor table = matrix(b, "table", V);
    (void)self;
    flow->x = mega_op_embedding(b->graph, mega_input(b, "tokens", MEGA_I32, b->positions, 0), table, none, 0);
    mega_loss_add(b, name[0], size_of(b->graph, flow->x, mask), coefficient[0]);
    mega_layer_loss_add(b, name[1], size_of(b->graph, flow->x, mask), coefficient[1]);
}

static void finish(const mega_builder *b, const void *self, mega_flow *flow)
{
    mega_graph *g = b->graph;
    const mega_tensor mask = mega_input(b, "loss_mask", MEGA_F32, b->positions, 0), none = mega_none();
    (void)self;
    const mega_tensor y = mega_op_linear(g, flow->x, matrix(b, "weight", C));
    const mega_tensor far = mega_op_squared_error(g, y, mega_op_scale(g, y, 3));
    mega_loss_add(b, name[2], mega_op_weighted_sum(g, far, none), coefficient[2]);
    mega_layer_loss_add(b, name[1], size_of(g, y, mask), coefficient[1]);
    mega_loss_add(b, name[3], size_of(g, y, mask), coefficient[3]);
    const mega_tensor labels = mega_input(b, "labels", MEGA_I32, b->positions, 0);
    mega_loss_add(b, name[4], mega_op_accuracy(g, y, labels), coefficient[4]);
}

static const mega_layer layers[] = {{"", begin, NULL, 1, "begin"}, {"", finish, NULL, 1, "finish"}};
static const mega_model model = {.layer = layers, .num_layers = 2, .partition = MEGA_PARTITION_UNIFORM};

static void sample(int32_t tokens[T], int32_t labels[T], float mask[T], int64_t n)
{
    int32_t row[T + 1];
    engine_run_sample(row, n);
    for (int t = 0; t < T; t++) {
        tokens[t] = row[t];
        labels[t] = row[t + 1] % (C + 1);
        if (labels[t] == C) labels[t] = -100; /* ignored */
        mask[t] = (row[t + 1] + n) % 3 == 0 ? 0.0F : 1.0F;
    }
}

/* ---- the formulas ---- */

typedef struct truth {
    double table[V][C], weight[C][C], d_table[V][C], d_weight[C][C];
    double loss, norm, value[LOSSES];
} truth;

/* Adds one row of a micro-batch to the sums and weights of the losses. */
static void true_row(const truth *t, int32_t token, int32_t label, double mask, double y[C], double of[LOSSES][2])
{
    const double *x = t->table[token];
    int best = 0;
    for (int i = 0; i < C; i++) {
        y[i] = 0;
        for (int k = 0; k < C; k++) y[i] += t->weight[i][k] * x[k];
        of[0][0] += mask * x[i] * x[i];
        of[1][0] += mask * (x[i] * x[i] + y[i] * y[i]);
        of[2][0] += 4 * y[i] * y[i]; /* |y - 3 y|^2 */
        of[3][0] += mask * y[i] * y[i];
        if (y[i] > y[best]) best = i;
    }
    of[0][1] += mask, of[1][1] += mask, of[2][1] += 1, of[3][1] += mask;
    of[4][0] += label >= 0 && best == label;
    of[4][1] += label >= 0;
}

static void true_micro_batch(truth *t, int64_t n, int64_t micro_batches)
{
    int32_t tokens[T], labels[T];
    float mask[T];
    double y[T][C], of[LOSSES][2] = {{0}};
    sample(tokens, labels, mask, n);
    for (int r = 0; r < T; r++) true_row(t, tokens[r], labels[r], (double)mask[r], y[r], of);
    for (int l = 0; l < LOSSES; l++) t->value[l] += of[l][0] / of[l][1] / (double)micro_batches;
    for (int r = 0; r < T; r++)
        for (int i = 0; i < C; i++) {
            const double to_size = (coefficient[0] + coefficient[1]) / of[0][1] / (double)micro_batches;
            const double to_both = (double)mask[r] * coefficient[1] / of[1][1] / (double)micro_batches;
            const double dy = 8 * y[r][i] * coefficient[2] / of[2][1] / (double)micro_batches + 2 * y[r][i] * to_both;
            t->d_table[tokens[r]][i] += 2 * (double)mask[r] * t->table[tokens[r]][i] * to_size;
            for (int k = 0; k < C; k++) {
                t->d_weight[i][k] += dy * t->table[tokens[r]][k];
                t->d_table[tokens[r]][k] += dy * t->weight[i][k];
            }
        }
}

/* Computes a step on the samples from `first` on; a micro-batch is one sample. */
static void true_step(truth *t, int64_t first)
{
    double *p[] = {&t->table[0][0], &t->weight[0][0]}, *d[] = {&t->d_table[0][0], &t->d_weight[0][0]};
    const int count[] = {V * C, C * C};
    double square = 0;
    memset(t->d_table, 0, sizeof t->d_table);
    memset(t->d_weight, 0, sizeof t->d_weight);
    memset(t->value, 0, sizeof t->value);
    for (int n = 0; n < BATCH; n++) true_micro_batch(t, first + n, BATCH);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < count[k]; i++) square += d[k][i] * d[k][i], p[k][i] -= LR * d[k][i];
    t->norm = sqrt(square);
    t->loss = coefficient[0] * t->value[0] + coefficient[1] * t->value[1] + coefficient[2] * t->value[2];
}

/* ---- a run ---- */

static void fill(mega_engine *e, mega_batch *b, int64_t first)
{
    for (int64_t k = 0; k < mega_batch_num_samples(b); k++) {
        int32_t tokens[T], labels[T];
        float mask[T];
        sample(tokens, labels, mask, first + mega_engine_sample(e, k));
        need(mega_sample_set_i32(mega_batch_sample(b, k), "tokens", tokens, T));
        need(mega_sample_set_i32(mega_batch_sample(b, k), "labels", labels, T));
        need(mega_sample_set_f32(mega_batch_sample(b, k), "loss_mask", mask, T));
    }
}

/* Runs the steps, then an evaluation. */
static void run(mega_world *world, const layout *l, outcome out[STEPS + 1])
{
    mega_engine *e = rank_open_engine(world, l, &model, MEGA_BACKEND_CPU, BATCH, LR);
    mega_loss_sums sums = {0};
    for (int i = 0; i < STEPS; i++) {
        mega_step_result r;
        fill(e, mega_engine_batch(e), (int64_t)i * BATCH);
        need(mega_engine_train_batch(e, &r));
        out[i] = (outcome){.loss = r.loss, .norm = r.grad_norm};
        memcpy(out[i].value, r.metric, sizeof out[i].value);
    }
    fill(e, mega_engine_evaluation_batch(e, BATCH / (l->is_alone ? 1 : mega_world_size(world) / l->tp / l->pp), 0),
         STEPS * BATCH);
    need(mega_engine_evaluate_batch(e, &sums));
    out[STEPS] = (outcome){.loss = sums.loss / sums.count, .norm = 0};
    for (int k = 0; k < LOSSES; k++) out[STEPS].value[k] = sums.metric[k] / sums.weight[k];
    for (int k = 0; k < LOSSES; k++)
        if (mega_engine_num_metrics(e) != LOSSES || strcmp(mega_engine_metric_name(e, k), name[k]) != 0)
            fprintf(stderr, "%s: loss %d is called %s\n", l->name, k, mega_engine_metric_name(e, k)), exit(1);
    mega_engine_destroy(e);
}

static int check(mega_world *world, const layout *l, truth t)
{
    outcome found[STEPS + 1], again[STEPS + 1];
    int failures = 0;
    run(world, l, found);
    run(world, l, again);
    if (memcmp(found, again, sizeof found) != 0) fprintf(stderr, "%s: other bits twice\n", l->name), failures++;
    for (int i = 0; i <= STEPS; i++) {
        true_step(&t, (int64_t)i * BATCH);
        failures += rank_number_differs(l, i, "loss", found[i].loss, t.loss);
        if (i < STEPS) failures += rank_number_differs(l, i, "norm", found[i].norm, t.norm);
        for (int k = 0; k < LOSSES; k++) failures += rank_number_differs(l, i, name[k], found[i].value[k], t.value[k]);
    }
    return failures;
}

/* Returns the initial weights, which do not depend on the layout. */
static truth begin_truth(void)
{
    truth t;
    const layout one = {.is_alone = true};
    mega_engine *e = rank_open_engine(NULL, &one, &model, MEGA_BACKEND_CPU, BATCH, LR);
    mega_device_read(t.table, mega_params_master(mega_engine_params(e), 0), sizeof t.table);
    mega_device_read(t.weight, mega_params_master(mega_engine_params(e), 1), sizeof t.weight);
    mega_engine_destroy(e);
    return t;
}

int main(void)
{
    static const layout layouts[] = {
        {"one rank", 1, 1, 0, true}, {"tensor", 2, 1, 0, false}, {"pipeline", 1, 2, 0, false}, {"data", 1, 1, 0, false},
        {"ZeRO 1", 1, 1, 1, false},  {"ZeRO 2", 1, 1, 2, false}, {"ZeRO 3", 1, 1, 3, false}};
    mega_world *world = NULL;
    int failures = 0;
    need(mega_world_create(NULL, &world));
    const truth t = begin_truth();
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) failures += check(world, &layouts[i], t);
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
