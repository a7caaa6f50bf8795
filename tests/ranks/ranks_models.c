/* Tests a user's own model over ranks. Its list of layers has borders of different widths, a parameter that is added as
 * an activation, rows of one element, a table that the first and the last layer share, a second value that passes
 * through layers that do not read it, a loss in each of two layers and a metric in a third. Usage: ranks_models
 *
 * With a pipeline (one program per stage, or several that alternate), data parallelism and ZeRO, it must have the
 * losses of one rank. Every mistake in the model must be the same error on every rank, even if only one rank made
 * it. */
#include "engine_run.h"
#include "megalith/model.h"
#include "rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = ENGINE_RUN_SEQ, V = ENGINE_RUN_VOCAB, LAYERS = 6, STEPS = 3, BATCH = 12, SIDE = 6 };
static const int64_t width[LAYERS] = {8,  24, 12,
                                      10, 20, 8}; /* channels from each layer to the next; the last: of the head */

typedef enum mistake {
    NONE,
    LONG_NAME,
    TWO_SHAPES,
    TWO_WAYS,
    SHAPE,
    NO_LOSS,
    NO_WEIGHTS,
    LOSS_OF_TOKENS,
    METRIC_ALONE,
    LOSS_TWICE,
    LOSS_OF_TWO_PARTS,
    LOSS_NAN,
    LOSS_OTHERWISE,
    LOSSES_PER_TOKEN,
    LOSS_OF_ONE_RANK,
    NOTHING_TO_EVALUATE,
    UNKNOWN_INPUT,
    WIDE_INPUT,
    SAME_NAME,
    LONG_PATH,
    OTHER_PARAMETER,
    OTHER_BORDER,
    INPUT_PASSES,
    NO_LAYER_LEFT,
    TIED_IN_ONE_STAGE,
    OTHER_MODEL,
    OTHER_ATTRIBUTE
} mistake;

typedef struct model {
    mistake mistake;
    bool is_other_rank; /* this rank makes the mistake */
} model;

static const struct {
    mistake mistake;
    int stages, programs; /* stages and programs needed; 0: any */
    const char *message;
} mistakes[] = {
    {LONG_NAME, 0, 0, "parameter \"ends.wwww"},
    {TWO_SHAPES, 0, 0, "parameter ends.table: this request is for [50, 9], but an earlier one declared [50, 8]"},
    {TWO_WAYS, 0, 0, "parameter ends.table: this request has other options (initial values"},
    {SHAPE, 0, 0, "op bias_add in \"layer2\": bias is layer2"},
    {NO_LOSS, 0, 0, "head in \"ends\": it makes a gradient, but its loss has no name; declare the loss with mega_lo"},
    {NO_WEIGHTS, 0, 0, "loss \"head\" in \"ends\": its weight is not a value that the program computes"},
    {LOSS_OF_TOKENS, 0, 0, "loss \"head\" in \"ends\": its sum is [16] f64; expected [1] f64"},
    {METRIC_ALONE, 0, 0, "nothing to differentiate; declare a loss with mega_loss_add"},
    {LOSS_TWICE, 0, 0, "loss \"head\" in \"ends\": the name is declared twice, first in \"ends\""},
    {LOSS_OF_TWO_PARTS, 0, 0, "loss \"size\" in \"layer2\": the name is declared twice, first in \"layer1\""},
    {LOSS_NAN, 0, 0, "loss \"head\" in \"ends\": its coefficient is nan; expected a finite number"},
    {LOSS_OTHERWISE, 0, 0, "model: loss \"head\" has the coefficient 1 in training and 2 in evaluation"},
    {LOSSES_PER_TOKEN, 0, 0, "divides by the tokens of one loss, and the model has 2 with a coefficient"},
    {NOTHING_TO_EVALUATE, 0, 0, "model: it has no loss to evaluate; declare one with mega_loss_add"},
    {LOSS_OF_ONE_RANK, 0, 0, "\"head\" with coefficient 2"},
    {SAME_NAME, 0, 0, "the name \"labels\" is given to two tensors"},
    {LONG_PATH, 0, 0, "scope \"ends.pppp"},
    {OTHER_PARAMETER, 0, 0, "parameter layer2.extra: it is requested in a program, but was not when the whole model"},
    {OTHER_BORDER, 2, 1,
     "layer \"layer2\" (2 of the list) hands over [16, 13] f64 as value 0 of the flow, but [16, 12] f64 when"},
    {INPUT_PASSES, 2, 1, "layer \"layer2\" (2 of the list) hands over [16] i32 to the next pipeline stage"},
    {NO_LAYER_LEFT, 2, 4, "6 layers in 8 parts (stages times programs per stage)"},
    {TIED_IN_ONE_STAGE, 2, 3, "parameter ends.table: two programs of one pipeline stage request it"},
    {OTHER_MODEL, 2, 1, "its ranks have different models, from layer 3 on"},
    {OTHER_ATTRIBUTE, 0, 0, "its ranks have different models, from layer 3 on"},
};

/* Mistakes that only the first step can find, because the engine does not know what its caller fills in. */
static const struct {
    mistake mistake;
    const char *message;
} unfilled[] = {
    {UNKNOWN_INPUT, "input \"images\" of sample 0 (row 0 of the batch) is not filled"},
    {WIDE_INPUT, "input \"position_ids\" of sample 0 (row 0 of the batch) is not filled"},
};

static mega_tensor matrix(const mega_builder *b, const char *name, int64_t rows, int64_t cols)
{
    const mega_param_options o = {.init = MEGA_INIT_NORMAL, .init_std = 0.3};
    return mega_builder_param(b, name, rows, cols, &o);
}

static mega_tensor input(mega_graph *g, const char *name, mega_dtype dtype, int64_t n)
{
    return mega_graph_input(g, name, dtype, 1, &n);
}

/* One layer of the list, and its model. */
typedef struct row {
    const model *m;
    int number;
} listed;

static mega_tensor table(const mega_builder *b)
{
    return matrix(b, "table", V, width[LAYERS - 1]);
}

static void first(const mega_builder *b, const void *self, mega_flow *flow)
{
    const listed *r = self;
    mega_graph *g = b->graph;
    const int64_t tokens = b->samples * b->positions;
    const mega_tensor ids = input(g, "tokens", MEGA_I32, tokens);
    if (r->m->mistake == WIDE_INPUT) input(g, "position_ids", MEGA_I32, 2 * tokens);
    const mega_tensor positions = matrix(b, "positions", T + 4, width[0]);
    const mega_tensor x = mega_op_embedding(g, ids, table(b), (mega_tensor){0}, 0);
    flow->x = mega_op_add(g, x, mega_op_rows(g, positions, 2, tokens));
    flow->more[1] = mega_op_linear(g, x, matrix(b, "side", SIDE, width[0])); /* layer 4 reads it */
    if (r->m->mistake == INPUT_PASSES) flow->more[0] = ids;
}

/* Adds a loss to layer 1, and to layer 2 a metric that is differentiable but has the coefficient 0. */
static void middle_loss(const listed *r, const mega_builder *b, mega_tensor x, mega_tensor y)
{
    mega_graph *g = b->graph;
    if (r->number > 2 || r->m->mistake == METRIC_ALONE) return;
    if (r->m->mistake == NOTHING_TO_EVALUATE && b->mode == MEGA_EVAL) return;
    const mega_tensor distance = mega_op_squared_error(g, y, mega_op_scale(g, x, 0.5));
    const char *name = r->number == 1 || r->m->mistake == LOSS_OF_TWO_PARTS ? "size" : "spread";
    mega_loss_add(b, name, mega_op_weighted_sum(g, distance, mega_none()), r->number == 1 ? 0.25 : 0);
}

static void middle(const mega_builder *b, const void *self, mega_flow *flow)
{
    const listed *r = self;
    mega_graph *g = b->graph;
    const mistake wrong = r->m->mistake;
    const bool is_other =
        (wrong == OTHER_BORDER && b->mode == MEGA_TRAIN) || (wrong == OTHER_MODEL && r->m->is_other_rank);
    mega_tensor x = mega_op_linear(g, flow->x, matrix(b, "weight", width[r->number], mega_tensor_channels(b, flow->x)));
    if (wrong == SHAPE && r->number == 2) x = mega_op_bias_add(g, x, x);
    if (wrong == OTHER_PARAMETER && r->number == 2 && b->mode == MEGA_TRAIN)
        x = mega_op_linear(g, x, matrix(b, "extra", width[2], width[2]));
    if (is_other && r->number == 2) x = mega_op_linear(g, x, matrix(b, "weight2", width[2] + 1, width[2]));
    if (wrong == TIED_IN_ONE_STAGE && r->number == 4) {
        const mega_builder ends = {.graph = g, .layout = b->layout, .path = "ends"};
        x = mega_op_add(g, x,
                        mega_op_embedding(g, mega_input(b, "tokens", MEGA_I32, b->positions, 0),
                                          mega_op_linear(g, table(&ends), matrix(b, "up", width[4], width[5])),
                                          (mega_tensor){0}, 0));
    }
    if (r->number == 4) {
        x = mega_op_add(g, x, mega_op_linear(g, flow->more[1], matrix(b, "of_side", width[4], SIDE)));
        flow->more[1] = mega_none();
    }
    flow->x = mega_op_gelu(g, x, wrong != OTHER_ATTRIBUTE || r->number != 2 || !r->m->is_other_rank);
    middle_loss(r, b, x, flow->x);
}

/* Requests the table a second time, with another shape or initialization, or a parameter whose name is too long. */
static void make_request(const model *m, const mega_builder *b)
{
    char letters[MEGA_PARAM_NAME] = "";
    memset(letters, 'w', sizeof letters - 1);
    if (m->mistake == LONG_NAME) matrix(b, letters, V, V);
    if (m->mistake == TWO_SHAPES) matrix(b, "table", V, width[LAYERS - 1] + 1);
    if (m->mistake == TWO_WAYS)
        mega_builder_param(b, "table", V, width[LAYERS - 1], &(mega_param_options){.init = MEGA_INIT_ONE});
}

static void last(const mega_builder *b, const void *self, mega_flow *flow)
{
    const model *m = ((const listed *)self)->m;
    mega_graph *g = b->graph;
    const int64_t tokens = b->samples * b->positions;
    char letters[301] = "";
    memset(letters, 'p', sizeof letters - 1);
    const mega_head_shape s = {.valid = V, .with_gradient = b->mode == MEGA_TRAIN};
    const mega_tensor mask = input(g, "loss_mask", MEGA_F32, tokens);
    const mega_tensor x = mega_op_linear(g, flow->x, matrix(b, "down", width[LAYERS - 1], width[LAYERS - 2]));
    make_request(m, b);
    if (m->mistake == UNKNOWN_INPUT) input(g, "images", MEGA_F32, tokens);
    if (m->mistake == LONG_PATH) mega_scope_leave(g, mega_scope_enter(g, "%s", letters));
    if (m->mistake == SAME_NAME) input(g, "labels", MEGA_I32, tokens);
    const mega_head_result r = mega_op_lm_head_loss(g, x, table(b), input(g, "labels", MEGA_I32, tokens), mask, &s);
    const bool is_other = (m->mistake == LOSS_OTHERWISE && b->mode == MEGA_EVAL) ||
                          (m->mistake == LOSS_OF_ONE_RANK && b->layout->world.rank == 1);
    mega_loss loss = r.loss;
    if (m->mistake == LOSS_OF_TOKENS) loss.sum = r.token_loss;
    if (m->mistake == NO_WEIGHTS) loss.weight = mega_none();
    if (m->mistake == NO_LOSS || (m->mistake == NOTHING_TO_EVALUATE && b->mode == MEGA_EVAL)) return;
    mega_loss_add(b, "head", loss, m->mistake == METRIC_ALONE ? 0 : m->mistake == LOSS_NAN ? NAN : is_other ? 2 : 1);
    if (m->mistake == LOSS_TWICE) mega_loss_add(b, "head", loss, 1);
}

/* The layout of the ranks: those that are left by pp are data parallel. */
typedef struct division {
    int pp, programs, zero;
} division;

static mega_status create(mega_engine **out, const model *m, mega_world *world, division d)
{
    const int dp = world == NULL ? 1 : mega_world_size(world) / d.pp;
    mega_engine_options o = engine_run_options(BATCH, 1, 1e-2);
    listed r[LAYERS];
    for (int i = 0; i < LAYERS; i++) r[i] = (listed){m, i};
    const mega_layer layer[LAYERS] = {{"ends", first, &r[0], 1, NULL},    {"layer1", middle, &r[1], 1, NULL},
                                      {"layer2", middle, &r[2], 1, NULL}, {"layer3", middle, &r[3], 1, NULL},
                                      {"layer4", middle, &r[4], 1, NULL}, {"ends", last, &r[5], 1, NULL}};
    const mega_model list = {.name = "m", .layer = layer, .num_layers = LAYERS, .partition = MEGA_PARTITION_UNIFORM};
    o.compute = MEGA_F64;
    o.world = world;
    o.layout.pp = d.pp;
    o.stage_programs = d.programs;
    o.batch.micro_step = dp;
    o.zero_stage = d.zero;
    o.per_token_loss = m->mistake == LOSSES_PER_TOKEN;
    return mega_engine_create(&(mega_setup){.model = &list, .options = &o}, out);
}

static void fill(mega_engine *e, mega_batch *b, int step)
{
    for (int64_t k = 0; k < mega_batch_num_samples(b); k++)
        engine_run_fill(b, k, BATCH * step + mega_engine_sample(e, k));
}

/* For each step: loss, norm, and losses and metric by name. For an evaluation: all except the norm. */
enum { NAMES = 3, NUMBERS = 2 + NAMES, ALL = STEPS * NUMBERS + 1 + NAMES };

static void train(mega_world *world, division d, double out[ALL])
{
    static const char *const name[NAMES] = {"size", "spread", "head"};
    const model m = {NONE, false};
    mega_engine *e = NULL;
    mega_loss_sums sums = {0};
    int at = 0;
    need(create(&e, &m, world, d));
    need(mega_engine_allocate(e));
    need(mega_engine_compare_ranks(e));
    need(mega_engine_initialize(e, 11));
    for (int i = 0; i < STEPS; i++) {
        mega_step_result r;
        fill(e, mega_engine_batch(e), 0);
        need(mega_engine_train_batch(e, &r));
        out[at++] = r.loss;
        out[at++] = r.grad_norm;
        for (int k = 0; k < NAMES; k++) out[at++] = r.metric[k];
        if (fabs(r.loss - 0.25 * r.metric[0] - r.metric[2]) > 1e-12) fprintf(stderr, "no sum of losses\n"), exit(1);
    }
    fill(e, mega_engine_evaluation_batch(e, mega_batch_num_samples(mega_engine_batch(e)), 0), STEPS);
    need(mega_engine_evaluate_batch(e, &sums));
    out[at++] = sums.loss / sums.count;
    for (int k = 0; k < NAMES; k++) out[at++] = sums.metric[k] / sums.weight[k];
    for (int k = 0; k < NAMES; k++)
        if (mega_engine_num_metrics(e) != NAMES || strcmp(mega_engine_metric_name(e, k), name[k]) != 0)
            fprintf(stderr, "loss %d is called %s\n", k, mega_engine_metric_name(e, k)), exit(1);
    if (mega_engine_metric_name(e, NAMES) != NULL || mega_engine_metric_name(e, -1) != NULL) exit(1);
    mega_engine_destroy(e);
}

static int compare(mega_world *world, division d)
{
    double one[ALL], many[ALL], again[ALL];
    char what[64];
    int failures = 0;
    snprintf(what, sizeof what, "%d stages of %d programs, ZeRO %d", d.pp, d.programs, d.zero);
    train(NULL, (division){1, 1, 0}, one);
    train(world, d, many);
    train(world, d, again);
    for (int i = 0; i < ALL; i++) {
        if (!(fabs(one[i] - many[i]) <= 1e-10 * fabs(one[i])) || !(fabs(one[i]) > 1e-6)) {
            fprintf(stderr, "%s: number %d is %.15g, on one rank %.15g\n", what, i, many[i], one[i]);
            failures++;
        }
        if (memcmp(&many[i], &again[i], sizeof *many) != 0)
            fprintf(stderr, "%s: number %d has other bits in a second run\n", what, i), failures++;
    }
    if (!(one[(STEPS - 1) * NUMBERS] < one[0])) fprintf(stderr, "%s: the loss does not fall\n", what), failures++;
    return failures;
}

/* Makes each mistake: every rank must see the failure and can go on to the next. */
static int make_mistakes(mega_world *world, int pp)
{
    int failures = 0;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        const model m = {mistakes[i].mistake, mega_world_rank(world) == mega_world_size(world) - 1};
        const int programs = mistakes[i].programs > 0 ? mistakes[i].programs : 1;
        mega_engine *e = NULL;
        if (mistakes[i].stages > pp) continue;
        if (mistakes[i].mistake == LOSS_OF_ONE_RANK && (world == NULL || pp > 1)) continue;
        if (mistakes[i].mistake == OTHER_ATTRIBUTE && world == NULL) continue;
        mega_error_clear();
        const mega_status st = create(&e, &m, world, (division){pp, programs, 0});
        if (st == MEGA_OK || e != NULL || strstr(mega_error_message(), mistakes[i].message) == NULL) {
            fprintf(stderr, "rank %d, %d stages: expected \"%s\" in: %s\n", mega_world_rank(world), pp,
                    mistakes[i].message, mega_error_message());
            failures++;
        }
        mega_engine_destroy(e);
    }
    return failures;
}

static int make_unfilled_steps(mega_world *world, int pp)
{
    int failures = 0;
    for (size_t i = 0; i < sizeof unfilled / sizeof *unfilled; i++) {
        const model m = {.mistake = unfilled[i].mistake};
        mega_engine *e = NULL;
        mega_step_result r;
        need(create(&e, &m, world, (division){pp, 1, 0}));
        need(mega_engine_allocate(e));
        need(mega_engine_initialize(e, 11));
        fill(e, mega_engine_batch(e), 0);
        const mega_status st = mega_engine_train_batch(e, &r);
        if (st == MEGA_OK || strstr(mega_error_message(), unfilled[i].message) == NULL) {
            fprintf(stderr, "rank %d, %d stages: expected \"%s\" in: %s\n", mega_world_rank(world), pp,
                    unfilled[i].message, mega_error_message());
            failures++;
        }
        mega_engine_destroy(e);
    }
    return failures;
}

int main(void)
{
    mega_world *world = NULL;
    need(mega_world_create(NULL, &world));
    const int ranks = mega_world_size(world);
    int failures = make_mistakes(NULL, 1);
    failures += make_mistakes(world, 1);
    if (ranks == 2) failures += make_mistakes(world, 2);
    failures += make_unfilled_steps(NULL, 1);
    if (ranks == 2) failures += make_unfilled_steps(world, 2);
    for (int pp = 1; pp <= 3; pp++)
        for (int programs = 1; programs <= (pp > 1 ? LAYERS / pp : 1) && ranks % pp == 0; programs++)
            for (int zero = 0; zero <= (ranks > pp ? 3 : 0); zero++)
                failures += compare(world, (division){pp, programs, zero});
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
