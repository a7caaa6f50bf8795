/* Tests a model in two parts with views, a custom op, a loss that weights its rows itself, a router of experts, and an
 * output. Usage: ranks_values
 *
 *   part 0:  h = table[token]; x = h + down(tanh(up(n(h)))) with a batch norm n; x is passed on as a view of rows with
 *            half of its channels
 *   part 1:  y = 2 x^2 in a custom op; "first": mean of |y|^2 over first positions; "rows": cross-entropy of each row,
 *            averaged over a sample and weighted by it; "balance", "z", "weights" and "fullest" of a router with jitter
 *
 * With tensor, pipeline and data parallelism and every stage of ZeRO, losses, norm and output must be those of one rank
 * (in the evaluation, with the running statistics after the steps), and two runs must have the same bits. If the op
 * fails on one rank, the step or the evaluation returns its message on both ranks, and the following steps are the same
 * as in a run without failures. */
#include "megalith/layers.h"
#include "megalith/router.h"
#include "rank_layouts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = ENGINE_RUN_SEQ, C = 8, V = 20, BATCH = 4, STEPS = 3, LOSSES = 6, OUTPUT = 2 * C };
static const double LR = 0.05;

/* ---- the custom op ---- */

/* fails: if this is N > 0, the Nth forward from now on returns an error. */
typedef struct square {
    int fails;
} square;
static square own;

static void square_shape(const void *self, const int64_t *rows_in, const int64_t *channels_in, int64_t *out_rows,
                         int64_t *out_channels)
{
    (void)self;
    out_rows[0] = rows_in[0];
    out_channels[0] = channels_in[0];
}

static mega_status square_forward(const void *self, const mega_custom_call *c)
{
    const double *x = c->in[0];
    double *y = c->out[0];
    (void)self; /* self is `own`, which forward changes */
    if (own.fails > 0 && --own.fails == 0) return MEGA_FAIL(MEGA_ERR_FORMAT, "no square today");
    for (int64_t i = 0; i < c->rows[0] * c->channels[0]; i++) y[i] = 2 * x[i] * x[i];
    return MEGA_OK;
}

static mega_status square_backward(const void *self, const mega_custom_call *c)
{
    const double *x = c->in[0], *dy = c->d_out[0];
    double *dx = c->d_in[0];
    (void)self;
    for (int64_t i = 0; i < c->rows[0] * c->channels[0]; i++) dx[i] = 4 * x[i] * dy[i];
    return MEGA_OK;
}

static const mega_custom_op op = {.name = "square",
                                  .num_in = 1,
                                  .num_out = 1,
                                  .shape = square_shape,
                                  .forward = square_forward,
                                  .backward = square_backward,
                                  .is_row_wise = true};

/* ---- the model ---- */

static const mega_linear_options random_weights = {.weight = {.init = MEGA_INIT_NORMAL, .init_std = 0.4}};

static void begin(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_param_options table = {.init = MEGA_INIT_NORMAL, .init_std = 0.4};
    const mega_tensor tokens = mega_input(b, "tokens", MEGA_I32, b->positions, 0);
    const mega_tensor h = mega_embedding(b, "table", tokens, V, C, &table);
    (void)self;
    const mega_tensor n = mega_batch_norm(b, "norm", h, 1, 0.2, 1e-5);
    const mega_tensor up = mega_activation(b, mega_column_linear(b, "up", n, 2 * C, &random_weights), MEGA_ACT_TANH);
    const mega_tensor x = mega_add(b, h, mega_row_linear(b, "down", up, C, &random_weights));
    flow->x = mega_reshape(b, x, C / 2);
}

static void route(const mega_builder *b, mega_tensor x)
{
    const mega_router_options gate = {
        .route = {.score = MEGA_ROUTE_SIGMOID, .choices = 2, .normalized = true, .epsilon = 1e-20},
        .jitter = 0.1,
        .has_bias = true,
        .weight = random_weights.weight};
    const mega_router_result r = mega_router(b, "gate", x, 5, &gate);
    const mega_router_balance_result balance = mega_router_balance(b, &r, 1, 0);
    mega_loss_add(b, "balance", balance.loss, 0.5);
    mega_loss_add(b, "z", mega_router_z_loss(b, &r, mega_none()), 0.02);
    mega_loss_add(b, "weights", mega_sum(b, mega_mul(b, r.weight, r.weight), mega_none()), 0.1);
    mega_loss_add(b, "fullest", balance.fullest, 0);
}

static void finish(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_tensor x = mega_reshape(b, flow->x, C), labels = mega_input(b, "labels", MEGA_I32, b->positions, 0);
    const mega_tensor weights = mega_input(b, "weight", MEGA_F32, 1, 0);
    mega_tensor y = mega_none();
    mega_custom(b, &op, self, &x, &y);
    mega_output(b, "y", mega_reshape(b, mega_first_position(b, y), C / 2));
    const mega_tensor first = mega_first_position(b, y);
    mega_loss_add(b, "first", mega_sum(b, mega_mul(b, first, first), mega_none()), 0.25);
    const mega_tensor rows = mega_row_cross_entropy(b, mega_linear(b, "fc", y, V, &random_weights), labels);
    mega_loss_add(b, "rows", mega_sum(b, mega_scale(b, mega_reshape(b, rows, T), 1.0 / T), weights), 1);
    route(b, x);
}

static const mega_layer layers[] = {{"", begin, NULL, 1, "begin"}, {"", finish, &own, 1, "finish"}};
static const mega_model model = {.layer = layers, .num_layers = 2, .partition = MEGA_PARTITION_UNIFORM};

/* ---- a run ---- */

static void fill(const mega_engine *e, mega_batch *b, int64_t first)
{
    for (int64_t k = 0; k < mega_batch_num_samples(b); k++) {
        const int64_t n = first + mega_engine_sample(e, k);
        const float weight = 0.5F + (float)(n % 3);
        int32_t row[T + 1];
        engine_run_sample(row, n);
        need(mega_sample_set_i32(mega_batch_sample(b, k), "tokens", row, T));
        need(mega_sample_set_i32(mega_batch_sample(b, k), "labels", row + 1, T));
        need(mega_sample_set_f32(mega_batch_sample(b, k), "weight", &weight, 1));
    }
}

/* Checks a call in which the op fails on one rank. */
static void must_fail(const layout *l, const char *call, mega_status st)
{
    if (st == MEGA_ERR_FORMAT && strstr(mega_error_message(), "forward: no square today") != NULL) return;
    fprintf(stderr, "%s, %s: status %d, \"%s\"\n", l->name, call, (int)st, mega_error_message());
    exit(1);
}

static mega_status step(mega_engine *e, int64_t first, mega_step_result *r)
{
    fill(e, mega_engine_batch(e), first);
    return mega_engine_train_batch(e, r);
}

static mega_status evaluate(mega_engine *e, const mega_world *world, const layout *l, mega_loss_sums *sums)
{
    const int shares = l->is_alone ? 1 : mega_world_size(world) / l->tp / l->pp;
    fill(e, mega_engine_evaluation_batch(e, BATCH / shares, 0), STEPS * BATCH);
    return mega_engine_evaluate_batch(e, sums);
}

/* Runs the steps, then an evaluation, and reads the output of its last micro-batch; the last rank fails in between. */
static void run(mega_world *world, const layout *l, bool fails, outcome out[STEPS + 1], float y[OUTPUT])
{
    mega_engine *e = rank_open_engine(world, l, &model, MEGA_BACKEND_PLAIN, BATCH, LR);
    mega_loss_sums sums = {0};
    mega_step_result r;
    const bool is_last = mega_world_rank(world) == mega_world_size(world) - 1;
    for (int i = 0; i < STEPS; i++) {
        if (fails && i == 1) {
            own.fails = is_last ? 2 : 0;
            must_fail(l, "step", step(e, (int64_t)i * BATCH, &r));
            own.fails = 0;
        }
        need(step(e, (int64_t)i * BATCH, &r));
        out[i] = (outcome){.loss = r.loss, .norm = r.grad_norm};
        memcpy(out[i].value, r.metric, sizeof out[i].value);
    }
    if (fails) {
        own.fails = is_last ? 1 : 0;
        must_fail(l, "evaluation", evaluate(e, world, l, &sums));
        own.fails = 0;
    }
    need(evaluate(e, world, l, &sums));
    out[STEPS] = (outcome){.loss = sums.loss / sums.count, .norm = 0};
    for (int k = 0; k < LOSSES; k++) out[STEPS].value[k] = sums.metric[k] / sums.weight[k];
    memset(y, 0, OUTPUT * sizeof *y);
    const int64_t count = mega_engine_output_count(e, "y");
    if (count > 0) need(mega_engine_read_output(e, "y", count, y));
    if (count != C && l->pp == 1) fprintf(stderr, "%s: %lld elements of y\n", l->name, (long long)count), exit(1);
    mega_engine_destroy(e);
}

static int check(mega_world *world, const layout *l, const outcome *one, const float *y_of_one)
{
    static const char *const names[LOSSES] = {"first", "rows", "balance", "z", "weights", "fullest"};
    outcome found[STEPS + 1], again[STEPS + 1];
    float y[OUTPUT], y_again[OUTPUT];
    int failures = 0;
    run(world, l, false, found, y);
    run(world, l, !l->is_alone, again, y_again);
    if (memcmp(found, again, sizeof found) != 0 || memcmp(y, y_again, sizeof y) != 0)
        fprintf(stderr, "%s: other bits after a failure\n", l->name), failures++;
    for (int i = 0; i <= STEPS; i++) {
        failures += rank_number_differs(l, i, "loss", found[i].loss, one[i].loss);
        failures += rank_number_differs(l, i, "norm", found[i].norm, one[i].norm);
        for (int k = 0; k < LOSSES; k++)
            failures += rank_number_differs(l, i, names[k], found[i].value[k], one[i].value[k]);
    }
    /* The last rank has the last sample of the evaluation; with a pipeline the last stage has the output. */
    for (int i = 0; i < C && (l->is_alone || mega_world_rank(world) == mega_world_size(world) - 1); i++)
        if (fabsf(y[i] - y_of_one[i]) > 1e-6F * fabsf(y_of_one[i]))
            fprintf(stderr, "%s: y[%d] is %g, expected %g\n", l->name, i, (double)y[i], (double)y_of_one[i]),
                failures++;
    return failures;
}

int main(void)
{
    static const layout layouts[] = {
        {"one rank", 1, 1, 0, true}, {"tensor", 2, 1, 0, false}, {"pipeline", 1, 2, 0, false}, {"data", 1, 1, 0, false},
        {"ZeRO 1", 1, 1, 1, false},  {"ZeRO 2", 1, 1, 2, false}, {"ZeRO 3", 1, 1, 3, false}};
    mega_world *world = NULL;
    outcome one[STEPS + 1];
    float y[OUTPUT];
    int failures = 0;
    need(mega_world_create(NULL, &world));
    run(world, &layouts[0], false, one, y);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) failures += check(world, &layouts[i], one, y);
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
