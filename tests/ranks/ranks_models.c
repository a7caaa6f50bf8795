/* Models of one's own over ranks: a chain of parts with borders of different widths, a parameter that is added as an
 * activation, rows of one, a loss in two of the parts and a metric in a third.   ranks_models
 *
 * Over two ranks the pipeline (each stage has two parts, which take turns) and ZeRO 3 make the losses of one rank.
 * Every mistake in the model is the same error on every rank, also where one rank alone made it. */
#include "engine_run.h"
#include "megalith/builder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = ENGINE_RUN_SEQ, V = ENGINE_RUN_VOCAB, PARTS = 4, STEPS = 3, BATCH = 4 };
static const int64_t width[PARTS] = {8, 24, 12, 20}; /* of what a part hands to the next; the last: of the head */

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
    OTHER_BORDER,
    NO_GRADIENT_BACK,
    NO_OUTPUT
} mistake;

typedef struct model {
    mistake mistake;
} model;

static const struct {
    mistake mistake;
    bool needs_stages;
    const char *message;
} mistakes[] = {
    {LONG_NAME, false, "parameter \"part3.wwww"},
    {TWO_SHAPES, false, "parameter part3.weight: this request is for [50, 13], but an earlier one declared [50, 12]"},
    {TWO_WAYS, false, "parameter part3.weight: this request has other options (initial values"},
    {SHAPE, false, "op bias_add in \"part 2\": bias is part 2"},
    {NO_LOSS, false,
     "head in \"part 3\": it makes a gradient, but its loss has no name; declare the loss with mega_lo"},
    {NO_WEIGHTS, false, "loss \"head\" in \"part 3\": its weight is not a value that the program computes"},
    {LOSS_OF_TOKENS, false, "loss \"head\" in \"part 3\": its sum is [16] f64; expected [1] f64"},
    {METRIC_ALONE, false, "nothing to differentiate; declare a loss with mega_loss_add"},
    {LOSS_TWICE, false, "loss \"head\" in \"part 3\": the name is declared twice, first in \"part 3\""},
    {LOSS_OF_TWO_PARTS, false, "loss \"size\" in \"part 2\": the name is declared twice, first in \"part 1\""},
    {LOSS_NAN, false, "loss \"head\" in \"part 3\": its coefficient is nan; expected a finite number"},
    {LOSS_OTHERWISE, false, "model: loss \"head\" has the coefficient 1 in training and 2 in evaluation"},
    {LOSSES_PER_TOKEN, false, "divides by the tokens of one loss, and the model has 2 with a coefficient"},
    {NOTHING_TO_EVALUATE, false, "model: it has no loss to evaluate; declare one with mega_loss_add"},
    {LOSS_OF_ONE_RANK, false, "\"head\" with coefficient 2"},
    {UNKNOWN_INPUT, false, "nothing fills input \"images\"; the engine fills tokens, labels"},
    {WIDE_INPUT, false, "\"position_ids\" is [32] i32; expected [16] i32"},
    {SAME_NAME, false, "the name \"labels\" is given to two tensors"},
    {LONG_PATH, false, "scope \"part 3.pppp"},
    {OTHER_BORDER, true,
     "pipeline stage 0 ends with stage_output [16, 8] f64, and stage 1 begins with stage_input [16, 9]"},
    {NO_GRADIENT_BACK, true, "nothing to differentiate"},
    {NO_OUTPUT, true, "\"stage_output\" is missing"},
};

static void need(mega_status st)
{
    if (st == MEGA_OK) return;
    fprintf(stderr, "%s\n", mega_error_message());
    exit(1);
}

static int chunks_of(const mega_axis *pp)
{
    return pp->size > 1 ? PARTS / pp->size : 1;
}

static int chunks(const void *of, const mega_layout *layout)
{
    (void)of;
    return chunks_of(&layout->pp);
}

/* Parts first … first + count - 1 of this program. */
static int first_part(const mega_axis *pp, int chunk)
{
    return pp->size > 1 ? chunk * pp->size + pp->rank : 0;
}

static int count_parts(const mega_axis *pp)
{
    return pp->size > 1 ? 1 : PARTS;
}

static mega_tensor matrix(const mega_builder *b, const char *name, int64_t rows, int64_t cols)
{
    const mega_param_options o = {.init = MEGA_INIT_NORMAL, .init_std = 0.3};
    return mega_builder_param(b, name, rows, cols, &o);
}

static mega_tensor input(mega_graph *g, const char *name, mega_dtype dtype, int64_t n)
{
    return mega_graph_input(g, name, dtype, 1, &n);
}

static mega_tensor first(const model *m, const mega_builder *b)
{
    mega_graph *g = b->graph;
    const int64_t tokens = b->samples * b->positions;
    const mega_tensor ids = input(g, "tokens", MEGA_I32, tokens);
    if (m->mistake == WIDE_INPUT) input(g, "position_ids", MEGA_I32, 2 * tokens);
    const mega_tensor positions = matrix(b, "positions", T + 4, width[0]);
    const mega_tensor x = mega_op_embedding(g, ids, matrix(b, "weight", V, width[0]), (mega_tensor){0}, 0);
    return mega_op_add(g, x, mega_op_rows(g, positions, 2, tokens));
}

/* A second request of the weight, or of a parameter that has no place. */
static void make_request(const model *m, const mega_builder *b)
{
    char letters[MEGA_PARAM_NAME] = "";
    memset(letters, 'w', sizeof letters - 1);
    if (m->mistake == LONG_NAME) matrix(b, letters, V, V);
    if (m->mistake == TWO_SHAPES) matrix(b, "weight", V, width[PARTS - 2] + 1);
    if (m->mistake == TWO_WAYS)
        mega_builder_param(b, "weight", V, width[PARTS - 2], &(mega_param_options){.init = MEGA_INIT_ONE});
}

static void last(const model *m, const mega_builder *b, mega_tensor x)
{
    mega_graph *g = b->graph;
    const int64_t tokens = b->samples * b->positions;
    char letters[301] = "";
    memset(letters, 'p', sizeof letters - 1);
    const mega_head_shape s = {.valid = V, .with_gradient = b->mode == MEGA_TRAIN};
    const mega_tensor mask = input(g, "loss_mask", MEGA_F32, tokens);
    const mega_tensor weight = matrix(b, "weight", V, width[PARTS - 2]);
    make_request(m, b);
    if (m->mistake == UNKNOWN_INPUT) input(g, "images", MEGA_F32, tokens);
    if (m->mistake == LONG_PATH) mega_scope_leave(g, mega_scope_enter(g, "%s", letters));
    if (m->mistake == SAME_NAME) input(g, "labels", MEGA_I32, tokens);
    const mega_head_result r = mega_op_lm_head_loss(g, x, weight, input(g, "labels", MEGA_I32, tokens), mask, &s);
    const bool is_other = (m->mistake == LOSS_OTHERWISE && b->mode == MEGA_EVAL) ||
                          (m->mistake == LOSS_OF_ONE_RANK && b->layout->world.rank == 1);
    mega_loss loss = r.loss;
    if (m->mistake == LOSS_OF_TOKENS) loss.sum = r.token_loss;
    if (m->mistake == NO_WEIGHTS) loss.weight = mega_none();
    if (m->mistake == NO_LOSS || (m->mistake == NOTHING_TO_EVALUATE && b->mode == MEGA_EVAL)) return;
    mega_loss_add(b, "head", loss, m->mistake == METRIC_ALONE ? 0 : m->mistake == LOSS_NAN ? NAN : is_other ? 2 : 1);
    if (m->mistake == LOSS_TWICE) mega_loss_add(b, "head", loss, 1);
}

/* Where one part takes more than the part before it hands over, which stages alone can describe. */
static bool is_border_other(const model *m, const mega_builder *b, int part)
{
    return m->mistake == OTHER_BORDER && part == 1 && b->layout->pp.size > 1;
}

/* A loss of part 1, and a metric of part 2 that would have a gradient. */
static void middle_loss(const model *m, const mega_builder *b, mega_tensor x, mega_tensor y)
{
    mega_graph *g = b->graph;
    const mega_tensor distance = mega_op_squared_error(g, y, mega_op_scale(g, x, 0.5));
    const char *name = b->index == 1 || m->mistake == LOSS_OF_TWO_PARTS ? "size" : "spread";
    if (m->mistake == METRIC_ALONE || (m->mistake == NOTHING_TO_EVALUATE && b->mode == MEGA_EVAL)) return;
    mega_loss_add(b, name, mega_op_weighted_sum(g, distance, mega_none()), b->index == 1 ? 0.25 : 0);
}

static mega_tensor middle(const model *m, const mega_builder *b, mega_tensor x)
{
    const int64_t in = width[b->index - 1] + is_border_other(m, b, b->index);
    x = mega_op_linear(b->graph, x, matrix(b, "weight", width[b->index], in));
    if (m->mistake == SHAPE && b->index == 2) x = mega_op_bias_add(b->graph, x, x);
    const mega_tensor y = mega_op_gelu(b->graph, x, true);
    middle_loss(m, b, x, y);
    return y;
}

static void leave(const model *m, const mega_builder *b, mega_tensor x)
{
    if (m->mistake != NO_OUTPUT) mega_graph_output(b->graph, x, "stage_output");
    if (b->mode == MEGA_TRAIN && m->mistake != NO_GRADIENT_BACK)
        mega_graph_seed_gradient(b->graph, x, "stage_output_gradient");
}

static mega_tensor enter(const model *m, const mega_builder *b, int part)
{
    const int64_t dim[2] = {b->samples * b->positions, width[part - 1] + is_border_other(m, b, part)};
    const mega_tensor x = mega_graph_input(b->graph, "stage_input", mega_graph_dtype(b->graph), 2, dim);
    if (b->mode == MEGA_TRAIN) mega_graph_want_gradient(b->graph, x, "stage_input_gradient");
    return x;
}

static mega_status describe(const void *of, mega_graph *g, int chunk, int64_t batch, int64_t seq, bool train)
{
    const model *m = of;
    const mega_builder whole = {.graph = g,
                                .layout = mega_graph_layout(g),
                                .mode = train ? MEGA_TRAIN : MEGA_EVAL,
                                .samples = batch,
                                .positions = seq};
    const mega_axis *pp = &whole.layout->pp;
    const int from = first_part(pp, chunk), end = from + count_parts(pp);
    mega_tensor x = from > 0 ? enter(m, &whole, from) : mega_none();
    for (int part = from; part < end; part++) {
        const mega_scope s = mega_scope_enter(g, "part %d", part);
        mega_builder b = mega_builder_at(&whole, "part%d", part);
        b.index = part;
        if (part == 0) x = first(m, &b);
        else if (part < PARTS - 1)
            x = middle(m, &b, x);
        else
            last(m, &b, x);
        mega_scope_leave(g, s);
    }
    if (end < PARTS) leave(m, &whole, x);
    return mega_graph_status(g);
}

static mega_status create(mega_engine **out, const model *m, mega_world *world, int pp, int zero)
{
    const int dp = world == NULL ? 1 : mega_world_size(world) / pp;
    mega_engine_options o = engine_run_options(BATCH, 1, 1e-2);
    o.compute = MEGA_F64;
    o.world = world;
    o.layout.pp = pp;
    o.batch.micro_step = dp;
    o.zero_stage = zero;
    o.per_token_loss = m->mistake == LOSSES_PER_TOKEN;
    return mega_engine_create(out, (mega_engine_model){m, describe, chunks}, &o);
}

static void fill(mega_engine *e, mega_batch *b, int step)
{
    for (int64_t k = 0; k < b->rows; k++) {
        int32_t row[T + 1];
        engine_run_sample(row, BATCH * step + mega_engine_sample(e, k));
        for (int t = 0; t < T; t++) {
            b->tokens[k * T + t] = row[t];
            b->labels[k * T + t] = row[t + 1];
            b->position_ids[k * T + t] = t;
            b->segment_start[k * T + t] = 0;
            b->loss_mask[k * T + t] = 1;
        }
        b->sample_id[k] = (uint32_t)k;
    }
}

/* Of each step loss, norm, losses and metric by name; of an evaluation all but the norm. */
enum { NAMES = 3, NUMBERS = 2 + NAMES, ALL = STEPS * NUMBERS + 1 + NAMES };

static void train(mega_world *world, int pp, int zero, double out[ALL])
{
    static const char *const name[NAMES] = {"size", "spread", "head"};
    const model m = {NONE};
    mega_engine *e = NULL;
    mega_loss_sums sums = {0};
    int at = 0;
    need(create(&e, &m, world, pp, zero));
    need(mega_engine_allocate(e));
    need(mega_engine_compare_ranks(e));
    need(mega_engine_initialize(e, 11));
    for (int i = 0; i < STEPS; i++) {
        mega_step_result r;
        fill(e, mega_engine_batch(e), 0);
        need(mega_engine_step(e, &r));
        out[at++] = r.loss;
        out[at++] = r.grad_norm;
        for (int k = 0; k < NAMES; k++) out[at++] = r.metric[k];
        if (fabs(r.loss - 0.25 * r.metric[0] - r.metric[2]) > 1e-12) fprintf(stderr, "no sum of losses\n"), exit(1);
    }
    fill(e, mega_engine_evaluation_batch(e, mega_engine_batch(e)->rows), STEPS);
    need(mega_engine_evaluate(e, &sums));
    out[at++] = sums.loss / sums.count;
    for (int k = 0; k < NAMES; k++) out[at++] = sums.metric[k] / sums.weight[k];
    for (int k = 0; k < NAMES; k++)
        if (mega_engine_num_metrics(e) != NAMES || strcmp(mega_engine_metric_name(e, k), name[k]) != 0)
            fprintf(stderr, "loss %d is called %s\n", k, mega_engine_metric_name(e, k)), exit(1);
    if (mega_engine_metric_name(e, NAMES) != NULL || mega_engine_metric_name(e, -1) != NULL) exit(1);
    mega_engine_destroy(e);
}

static int compare(mega_world *world, const char *what, int pp, int zero)
{
    double one[ALL], many[ALL], again[ALL];
    int failures = 0;
    train(NULL, 1, 0, one);
    train(world, pp, zero, many);
    train(world, pp, zero, again);
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

/* Every rank sees each failure, and goes on to the next. */
static int make_mistakes(mega_world *world, int pp)
{
    int failures = 0;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        const model m = {mistakes[i].mistake};
        mega_engine *e = NULL;
        if (mistakes[i].needs_stages && pp == 1) continue;
        if (mistakes[i].mistake == LOSS_OF_ONE_RANK && (world == NULL || pp > 1)) continue;
        mega_error_clear();
        const mega_status st = create(&e, &m, world, pp, 0);
        if (st == MEGA_OK || e != NULL || strstr(mega_error_message(), mistakes[i].message) == NULL) {
            fprintf(stderr, "rank %d, %d stages: expected \"%s\" in: %s\n", mega_world_rank(world), pp,
                    mistakes[i].message, mega_error_message());
            failures++;
        }
        mega_engine_destroy(e);
        mega_world_forget_failure(world);
    }
    return failures;
}

int main(void)
{
    mega_world *world = NULL;
    need(mega_world_create(&world, NULL));
    int failures = make_mistakes(NULL, 1);
    failures += make_mistakes(world, 1);
    failures += make_mistakes(world, 2);
    failures += compare(world, "a pipeline of two stages", 2, 0);
    failures += compare(world, "ZeRO 3", 1, 3);
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
