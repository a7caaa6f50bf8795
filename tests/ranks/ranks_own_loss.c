/* Tests a loss that the caller computes from an output of the model, one micro-batch at a time, on two ranks in every
 * layout without a pipeline: losses, norms and weights must be those of one rank whose model has that loss. Calls in
 * which one rank names another output change nothing. A backward pass that fails on one rank fails on both, and the
 * step can be repeated. */
#include "megalith/engine_commands.h"
#include "megalith/layers.h"
#include "rank_calls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQ = RANK_SEQ, IDS = RANK_IDS, C = 6, N = 3, SAMPLES = 24, STEPS = 3, TABLE = IDS * C, OUTPUT = SEQ * N };

static int failures;
static bool backward_fails; /* the backward pass fails on this rank */

/* ---- the model: y = fc(same(x + down(tanh(up(x))))), whose loss is the sum of y^2 ---- */

static void same_shape(const void *self, const int64_t *rows_in, const int64_t *channels_in, int64_t *out_rows,
                       int64_t *out_channels)
{
    (void)self;
    out_rows[0] = rows_in[0];
    out_channels[0] = channels_in[0];
}

static mega_status same_forward(const void *self, const mega_custom_call *c)
{
    (void)self;
    memcpy(c->out[0], c->in[0], (size_t)(c->rows[0] * c->channels[0]) * sizeof(double));
    return MEGA_OK;
}

static mega_status same_backward(const void *self, const mega_custom_call *c)
{
    (void)self;
    if (backward_fails) return MEGA_FAIL(MEGA_ERR_FORMAT, "no way back");
    memcpy(c->d_in[0], c->d_out[0], (size_t)(c->rows[0] * c->channels[0]) * sizeof(double));
    return MEGA_OK;
}

static const mega_custom_op same = {.name = "same",
                                    .num_in = 1,
                                    .num_out = 1,
                                    .shape = same_shape,
                                    .forward = same_forward,
                                    .backward = same_backward,
                                    .is_row_wise = true};

/* *self: the coefficient of the loss in the model. */
static void describe(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_linear_options random = {.weight = {.init = MEGA_INIT_NORMAL, .init_std = 0.4}};
    const mega_param_options table = {.init = MEGA_INIT_NORMAL, .init_std = 0.4};
    const mega_tensor x = mega_embedding(b, "table", mega_input(b, "tokens", MEGA_I32, SEQ, 0), IDS, C, &table);
    mega_tensor h = mega_activation(b, mega_column_linear(b, "up", x, 2 * C, &random), MEGA_ACT_TANH);
    h = mega_add(b, x, mega_row_linear(b, "down", h, C, &random));
    mega_tensor copy;
    mega_custom(b, &same, NULL, &h, &copy);
    const mega_tensor y = mega_linear(b, "fc", copy, N, &random);
    mega_output(b, "y", y);
    mega_loss_add(b, "size", mega_sum(b, mega_mul(b, y, y), mega_none()), *(const double *)self);
    flow->x = mega_none();
}

static const double none = 0, one = 1;
static const mega_layer layer_without = {.path = "net", .describe = describe, .self = &none};
static const mega_layer layer_with = {.path = "net", .describe = describe, .self = &one};
static const mega_model without_loss = {.name = "own", .layer = &layer_without, .num_layers = 1, .positions = SEQ};
static const mega_model with_loss = {.name = "own", .layer = &layer_with, .num_layers = 1, .positions = SEQ};

static const mega_dataset data = {.count = SAMPLES, .read = rank_read_tokens};

/* ---- a run ---- */

typedef struct layout {
    const char *name;
    char *option, *value;
    int dp;
} layout;

typedef struct outcome {
    double size[STEPS], norm[STEPS];
    float table[TABLE];
} outcome;

static mega_engine *open_engine(mega_world *world, const layout *l, const mega_model *model)
{
    char *argv[] = {"own_loss",
                    "--micro-batch-size",
                    "1",
                    "--lr",
                    "0.05",
                    "--fp64",
                    "--seed",
                    "3",
                    "--num-threads",
                    "1",
                    "--gradient-accumulation-steps",
                    l->dp == 2 ? "2" : "4",
                    l->option,
                    l->value};
    const int argc = (int)(sizeof argv / sizeof *argv) - (l->option == NULL ? 2 : 0);
    mega_engine *e = NULL;
    need(mega_initialize(
        &(mega_setup){.model = model, .training_data = &data, .argc = argc, .argv = argv, .world = world}, &e));
    return e;
}

/* Runs the backward pass for the sum of y^2 over the rows as the loss. */
static mega_status own_backward(mega_engine *e, const char *output)
{
    float y[OUTPUT];
    need(mega_engine_read_output(e, "y", OUTPUT, y));
    for (int i = 0; i < OUTPUT; i++) y[i] *= 2;
    return mega_engine_backward_from(e, output, y, OUTPUT, SEQ);
}

/* Runs a step whose last micro-batch fails on rank 1: the whole step is discarded. */
static void step_that_fails(mega_engine *e)
{
    while (!mega_engine_is_accumulation_boundary(e)) {
        need(mega_engine_forward(e, NULL));
        need(own_backward(e, "y"));
        need(mega_engine_step(e, NULL));
    }
    need(mega_engine_forward(e, NULL));
    backward_fails = mega_world_rank(mega_engine_world(e)) == 1;
    failures += rank_call_differs(e, "a backward that fails", own_backward(e, "y"), MEGA_ERR_FORMAT, "no way back");
    backward_fails = false;
}

static void run(mega_engine *e, bool has_loss, outcome *out)
{
    const char *output = mega_world_rank(mega_engine_world(e)) == 1 ? "z" : "y";
    mega_step_result r;
    for (int step = 0; step < STEPS; step++) {
        if (step == 1 && !has_loss) step_that_fails(e);
        do {
            need(mega_engine_forward(e, NULL));
            failures +=
                rank_call_differs(e, "another output", own_backward(e, output), MEGA_ERR_NOT_FOUND, "no output \"z\"");
            need(has_loss ? mega_engine_backward(e) : own_backward(e, "y"));
            need(mega_engine_step(e, &r));
        } while (!mega_engine_was_step_applied(e));
        out->size[step] = r.metric[0];
        out->norm[step] = r.grad_norm;
    }
    need(mega_engine_get_param(e, "net.table.weight", NULL, TABLE, out->table));
}

/* Compares two outcomes with a tolerance, because the caller gets y rounded to F32. */
static void compare(const layout *l, const char *how, const outcome *a, const outcome *b)
{
    double most = 0;
    for (int i = 0; i < STEPS; i++)
        most = fmax(most, fmax(fabs(a->size[i] - b->size[i]), fabs(a->norm[i] - b->norm[i])));
    for (int i = 0; i < TABLE; i++) most = fmax(most, fabs((double)a->table[i] - (double)b->table[i]));
    if (most <= 1e-6 && a->norm[0] > 0) return;
    fprintf(stderr, "%s, %s: losses, norms or weights differ by %g\n", l->name, how, most);
    failures++;
}

static void run_alone(outcome *out)
{
    const mega_engine_options o = {.compute = MEGA_F64,
                                   .micro_batch = 1,
                                   .seq = SEQ,
                                   .batch = {.global_batch = 4, .micro_step = 1},
                                   .clip_grad = 1.0,
                                   .dropout_seed = 3,
                                   .optimizer = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
                                   .schedule = {.style = MEGA_LR_CONSTANT,
                                                .max_lr = 0.05,
                                                .decay = 100,
                                                .start_weight_decay = 0.01,
                                                .end_weight_decay = 0.01}};
    mega_engine *e = NULL;
    mega_step_result r;
    need(mega_engine_create(&(mega_setup){.model = &with_loss, .training_data = &data, .options = &o}, &e));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 3));
    for (int step = 0; step < STEPS; step++) {
        need(mega_engine_train_batch(e, &r));
        out->size[step] = r.metric[0];
        out->norm[step] = r.grad_norm;
    }
    need(mega_engine_get_param(e, "net.table.weight", NULL, TABLE, out->table));
    mega_engine_destroy(e);
}

int main(void)
{
    static const layout all[] = {{"dp", NULL, NULL, 2},
                                 {"zero1", "--zero-stage", "1", 2},
                                 {"zero2", "--zero-stage", "2", 2},
                                 {"zero3", "--zero-stage", "3", 2},
                                 {"overlap", "--DDP-impl", "torch", 2},
                                 {"tp", "--tensor-model-parallel-size", "2", 1}};
    mega_world *world = NULL;
    outcome alone, found;
    need(mega_world_create(NULL, &world));
    run_alone(&alone);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int has_loss = 0; has_loss < 2; has_loss++) {
            mega_engine *e = open_engine(world, &all[i], has_loss == 1 ? &with_loss : &without_loss);
            run(e, has_loss == 1, &found);
            compare(&all[i], has_loss == 1 ? "loss of the model" : "loss of the caller", &found, &alone);
            mega_engine_destroy(e);
        }
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
