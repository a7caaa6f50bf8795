/* The router of experts: gradients of its losses against differences in double, groups of samples, jitter, and wrong
 * calls. */
#include "kit.h"
#include "megalith/experts.h"
#include "megalith/layers.h"
#include "megalith/program.h"
#include "megalith/router.h"

#include <math.h>
#include <string.h>

enum { B = 4, S = 6, C = 5, EXPERTS = 7, CHOICES = 2 };

typedef struct bench {
    mega_layout *one, layout;
    mega_params *params;
    mega_program *program;
    mega_builder b;
} bench;

static void bench_begin(bench *k, mega_mode mode, int tp)
{
    *k = (bench){.program = NULL};
    need(mega_layout_create(NULL, NULL, &k->one));
    k->layout = *k->one;
    k->layout.tp.size = tp;
    need(mega_params_create(&k->layout, &k->params));
    k->b = (mega_builder){.layout = &k->layout, .mode = mode, .samples = B, .positions = S, .path = "m"};
    need(mega_graph_create(MEGA_F64, k->params, &k->layout, &k->b.graph));
}

static void bench_end(bench *k)
{
    mega_program_destroy(k->program);
    mega_graph_destroy(k->b.graph);
    mega_params_destroy(k->params);
    mega_layout_destroy(k->one);
}

static const mega_router_options sigmoids = {
    .route = {.score = MEGA_ROUTE_SIGMOID, .choices = CHOICES, .normalized = true, .epsilon = 1e-20, .scale = 2.5},
    .has_bias = true,
    .weight = {.init = MEGA_INIT_FAN_IN}};

/* A layer before the router, which gets its gradient, and a loss of each kind. */
static void describe(const mega_builder *b, const mega_router_options *o, int64_t group)
{
    const mega_linear_options fan_in = {.weight = {.init = MEGA_INIT_FAN_IN}};
    const mega_tensor x = mega_linear(b, "fc", mega_input(b, "x", MEGA_F64, S, C), C, &fan_in);
    const mega_router_result r = mega_router(b, "gate", x, EXPERTS, o);
    const mega_router_balance_result balance = mega_router_balance(b, &r, group, 0);
    mega_loss_add(b, "balance", balance.loss, 0.5);
    mega_loss_add(b, "z", mega_router_z_loss(b, &r, mega_none()), 0.01);
    mega_loss_add(b, "weights", mega_sum(b, mega_mul(b, r.weight, r.weight), mega_none()), -0.3);
    mega_loss_add(b, "fullest", balance.fullest, 0);
    mega_loss_add(b, "emptiest", balance.emptiest, 0);
    mega_loss_add(b, "entropy", balance.entropy, 0);
}

static void bench_build(bench *k)
{
    const mega_program_options o = {.backend = MEGA_BACKEND_PLAIN, .differentiate = true, .name = "router"};
    float random[B * S * C];
    need(mega_params_place(k->params, MEGA_F64, 0));
    need(mega_params_allocate(k->params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    need(mega_params_initialize(k->params, 6));
    need(mega_program_build(k->b.graph, &o, &k->program));
    k->b.graph = NULL;
    need(mega_program_allocate(k->program));
    mega_kit_normal(random, B * S * C, 3);
    double *x = mega_program_tensor(k->program, "x", 0);
    for (int i = 0; i < B * S * C; i++) x[i] = (double)random[i];
    *mega_program_step_block(k->program) = (mega_step_block){.seed = 3, .step = 4, .loss_factor = 1};
}

static double loss_at(const bench *k, int number)
{
    mega_program_loss l;
    assert_true(mega_program_loss_get(k->program, number, 0, &l));
    return *(const double *)l.sum / *(const double *)l.weight;
}

static double whole_loss(bench *k)
{
    need(mega_program_forward(k->program, 0));
    return 0.5 * loss_at(k, 0) + 0.01 * loss_at(k, 1) - 0.3 * loss_at(k, 2);
}

static void check_gradients(bench *k)
{
    memset(mega_params_flat_grad(k->params), 0, mega_params_bytes(k->params, MEGA_PARAMS_GRADS));
    need(mega_program_forward(k->program, 0));
    need(mega_program_backward(k->program, 0));
    for (int p = 0; p < mega_params_count(k->params); p++) {
        const mega_param *r = mega_params_get(k->params, p);
        double *w = mega_params_master(k->params, p);
        const double *d = mega_params_grad(k->params, p);
        for (int64_t i = 0; i < r->count; i += 1 + r->count / 7) {
            const double was = w[i], h = 1e-5;
            w[i] = was + h;
            const double above = whole_loss(k);
            w[i] = was - h;
            const double slope = (above - whole_loss(k)) / (2 * h);
            w[i] = was;
            if (!(fabs(slope - d[i]) <= 1e-8))
                fail_msg("%s[%lld]: slope %.10g, gradient %.10g", r->name, (long long)i, slope, d[i]);
        }
    }
}

static void gradients_of_all_losses(void **state)
{
    static const mega_route_score scores[] = {MEGA_ROUTE_SOFTMAX, MEGA_ROUTE_SIGMOID, MEGA_ROUTE_SOFTMAX_OF_CHOSEN,
                                              MEGA_ROUTE_SOFTMAX_OF_NEAR};
    (void)state;
    for (int i = 0; i < 4; i++) {
        mega_router_options o = sigmoids;
        bench k;
        o.route.score = scores[i], o.has_bias = i == 1;
        if (i >= 2) o.route.normalized = false, o.route.epsilon = 0;
        if (i == 3) o.route.margin = 0.6;
        bench_begin(&k, MEGA_TRAIN, 1);
        describe(&k.b, &o, 2);
        bench_build(&k);
        check_gradients(&k);
        assert_true(loss_at(&k, 3) >= 1 && loss_at(&k, 4) <= 1 && loss_at(&k, 5) > 0 && loss_at(&k, 5) <= 1);
        bench_end(&k);
    }
}

/* A bias that prefers two experts makes them all that are chosen: half of the tokens' choices each. */
static void a_bias_decides_the_choice(void **state)
{
    mega_router_options o = sigmoids;
    bench k;
    (void)state;
    bench_begin(&k, MEGA_TRAIN, 1);
    const int64_t dim[1] = {EXPERTS};
    o.choice_bias = mega_graph_input(k.b.graph, "choice_bias", MEGA_F64, 1, dim);
    describe(&k.b, &o, 1);
    bench_build(&k);
    double *bias = mega_program_tensor(k.program, "choice_bias", 0);
    for (int e = 0; e < EXPERTS; e++) bias[e] = e == 2 || e == 5 ? 2 : 0;
    check_gradients(&k);
    assert_true(fabs(loss_at(&k, 3) - EXPERTS / 2.0) < 1e-12 && loss_at(&k, 4) == 0);
    assert_true(fabs(loss_at(&k, 5) - log(2) / log(EXPERTS)) < 1e-12);
    bench_end(&k);
}

/* The bias may be a buffer, which checkpoints hold, but no trained parameter, as it gets no gradient. */
static void a_bias_is_not_trained(void **state)
{
    (void)state;
    for (int is_buffer = 0; is_buffer < 2; is_buffer++) {
        mega_router_options o = sigmoids;
        const mega_param_options bias = {.init = MEGA_INIT_ONE, .is_buffer = is_buffer == 1};
        const mega_program_options build = {.backend = MEGA_BACKEND_PLAIN, .differentiate = true, .name = "router"};
        bench k;
        bench_begin(&k, MEGA_TRAIN, 1);
        o.choice_bias = mega_builder_param(&k.b, "gate.correction", EXPERTS, 0, &bias);
        describe(&k.b, &o, 1);
        need(mega_params_place(k.params, MEGA_F64, 0));
        const mega_status st = mega_program_build(k.b.graph, &build, &k.program);
        k.b.graph = NULL;
        assert_int_equal(st, is_buffer == 1 ? MEGA_OK : MEGA_ERR_UNSUPPORTED);
        if (is_buffer == 0)
            assert_non_null(strstr(mega_error_message(), "op route in \"gate\" gives no gradient to operand 1"));
        bench_end(&k);
    }
}

/* With jitter the inputs that address its bits exist, and gradients pass through it; evaluation has none. */
static void jitter_is_for_training(void **state)
{
    mega_router_options o = sigmoids;
    double with = 0, without = 0;
    (void)state;
    for (int way = 0; way < 3; way++) {
        bench k;
        o.jitter = way == 0 ? 0 : 0.2;
        bench_begin(&k, way == 2 ? MEGA_EVAL : MEGA_TRAIN, 1);
        describe(&k.b, &o, 2);
        bench_build(&k);
        if (way == 1) {
            int32_t *sample = mega_program_tensor(k.program, "sample_id", 0);
            int32_t *position = mega_program_tensor(k.program, "seq_position", 0);
            for (int i = 0; i < B * S; i++) sample[i] = 7 + i / S, position[i] = i % S;
        }
        check_gradients(&k);
        const double loss = whole_loss(&k);
        if (way == 0) without = loss;
        if (way == 1) with = loss;
        if (way == 2) assert_true(loss == without);
        bench_end(&k);
    }
    assert_true(with != without && fabs(with - without) < 0.1);
}

/* A bias of the logits prefers two experts. Sinkhorn's iterations give each expert about as many tokens in training,
 * over the micro-batch or over each sample, and gradients are those of the chosen weights; evaluation has the choice of
 * the logits. */
static void sinkhorn_balances_in_training(void **state)
{
    static const struct {
        mega_mode mode;
        bool sinkhorn;
        int64_t group;
        double least, most; /* of the fullest expert */
    } ways[] = {{MEGA_TRAIN, false, 0, 3.5, 3.5},
                {MEGA_TRAIN, true, 0, 1.0, 1.5},
                {MEGA_TRAIN, true, 1, 1.0, 1.8},
                {MEGA_EVAL, true, 0, 3.5, 3.5}};
    double loss[4];
    (void)state;
    for (int way = 0; way < 4; way++) {
        mega_router_options o = sigmoids;
        bench k;
        o.sinkhorn = ways[way].sinkhorn, o.sinkhorn_group = ways[way].group;
        bench_begin(&k, ways[way].mode, 1);
        describe(&k.b, &o, B);
        bench_build(&k);
        double *bias = mega_params_master(k.params, mega_params_find(k.params, "m.gate.bias"));
        for (int e = 0; e < EXPERTS; e++) bias[e] = e == 2 || e == 5 ? 6 : 0;
        check_gradients(&k);
        loss[way] = whole_loss(&k);
        const double fullest = loss_at(&k, 3);
        if (!(fullest >= ways[way].least - 1e-12 && fullest <= ways[way].most + 1e-12))
            fail_msg("way %d: the fullest expert has %.4g of an even part", way, fullest);
        bench_end(&k);
    }
    assert_true(loss[0] == loss[3] && loss[1] != loss[0] && loss[2] != loss[1]);
}

static void expect(bench *k, mega_status status, const char *message)
{
    if (mega_graph_status(k->b.graph) != status || strstr(mega_error_message(), message) == NULL)
        fail_msg("status %d, \"%s\"; expected \"%s\"", (int)mega_graph_status(k->b.graph), mega_error_message(),
                 message);
    bench_end(k);
}

static void wrong_calls_are_refused(void **state)
{
    mega_router_options o = sigmoids;
    bench k;
    (void)state;
    bench_begin(&k, MEGA_TRAIN, 1);
    describe(&k.b, &o, 3);
    expect(&k, MEGA_ERR_USAGE, "groups of 3 samples in a micro-batch of 4 samples and 24 tokens");
    bench_begin(&k, MEGA_TRAIN, 1);
    o.jitter = NAN;
    describe(&k.b, &o, 1);
    expect(&k, MEGA_ERR_USAGE, "layer \"m\", gate: jitter nan; expected 0 or more");
    bench_begin(&k, MEGA_EVAL, 1);
    o.jitter = 0, o.route.choices = 8;
    describe(&k.b, &o, 1);
    expect(&k, MEGA_ERR_USAGE, "8 choices of 7 experts");
    bench_begin(&k, MEGA_TRAIN, 2);
    mega_graph_set_sequence_parallel(k.b.graph, true);
    describe(&k.b, &sigmoids, 1);
    expect(&k, MEGA_ERR_UNSUPPORTED, "mega_router_balance");
    o = sigmoids, o.sinkhorn = true;
    bench_begin(&k, MEGA_TRAIN, 2);
    mega_graph_set_sequence_parallel(k.b.graph, true);
    mega_router(&k.b, "gate", mega_input(&k.b, "x", MEGA_F64, S, C), EXPERTS, &o);
    expect(&k, MEGA_ERR_UNSUPPORTED, "gate");
    o.sinkhorn_group = 3;
    bench_begin(&k, MEGA_TRAIN, 1);
    describe(&k.b, &o, 1);
    expect(&k, MEGA_ERR_USAGE, "layer \"m\", gate: groups of 3 samples in a micro-batch of 4 samples and 24 tokens");
    const int64_t dim[1] = {EXPERTS};
    bench_begin(&k, MEGA_TRAIN, 1);
    o.sinkhorn_group = 0, o.choice_bias = mega_graph_input(k.b.graph, "choice_bias", MEGA_F64, 1, dim);
    describe(&k.b, &o, 1);
    expect(&k, MEGA_ERR_USAGE, "gate: sinkhorn and a choice_bias; expected one of them");
}

static mega_tensor biased_expert(const mega_builder *b, const mega_experts *experts, mega_tensor x, const void *self)
{
    (void)self;
    x = mega_experts_column_linear(b, experts, "experts.#.up", x, 8, NULL);
    return mega_experts_row_linear(b, experts, "experts.#.down", x, 6, NULL);
}

/* The first rank of tp alone has their gradient, and all ranks have the same biases. */
static void gradients_of_biases_of_cut_experts_are_summed(void **state)
{
    (void)state;
    mega_layout *one = NULL;
    mega_params *params = NULL;
    need(mega_layout_create(NULL, NULL, &one));
    mega_layout layout = *one;
    layout.tp.size = 2;
    need(mega_params_create(&layout, &params));
    mega_builder b = {.layout = &layout, .samples = 1, .positions = 4, .path = "m"};
    need(mega_graph_create(MEGA_F32, params, &layout, &b.graph));
    const mega_moe_options o = {.num_experts = 3, .router = {.route = {.choices = 1}}};
    mega_moe(&b, "moe", mega_input(&b, "x", MEGA_F32, 4, 6), &o, biased_expert, NULL, NULL);
    need(mega_graph_status(b.graph));
    const int bias = mega_params_find(params, "m.experts.2.down.bias");
    assert_true(bias >= 0 && mega_params_get(params, bias)->grads_are_partial);
    mega_graph_destroy(b.graph);
    mega_params_destroy(params);
    mega_layout_destroy(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_all_losses),
        cmocka_unit_test(a_bias_decides_the_choice),
        cmocka_unit_test(a_bias_is_not_trained),
        cmocka_unit_test(jitter_is_for_training),
        cmocka_unit_test(sinkhorn_balances_in_training),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(gradients_of_biases_of_cut_experts_are_summed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
