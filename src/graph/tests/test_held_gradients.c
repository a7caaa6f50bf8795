/* Gradients that are held in 16 bits: which instructions the place pass adds, what a step leaves in them, bit for bit,
 * and which memory they take. */
#include "graph_impl.h"
#include "graph_kit.h"
#include "kit.h"
#include "program_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS = 3, PARAMS = 2 * LAYERS, ROWS = 4, WIDTH = 8, MOST = WIDTH * WIDTH, MICRO_BATCHES = 3 };

static mega_params *open_params(const mega_layout *layout, int stage, mega_dtype held)
{
    mega_params *p;
    need(mega_params_create(layout, &p));
    for (int i = 0; i < LAYERS; i++) {
        char name[64];
        snprintf(name, sizeof name, "h.%d.weight", i);
        declare_like(p, (mega_param){.layer = i + 1}, name, WIDTH, WIDTH);
        snprintf(name, sizeof name, "h.%d.bias", i);
        declare_like(p, (mega_param){.layer = i + 1}, name, WIDTH, 0);
    }
    need(mega_params_shard(p, stage));
    need(mega_params_hold_gradients_in(p, held));
    need(mega_params_place(p, MEGA_F32, 100));
    return p;
}

/* Layers of a GEMM and a bias, then the first two parameters once more, like a table that is used twice. */
static built_program make(int ranks, int stage, bool overlap, mega_dtype held)
{
    built_program k = {.layout = NULL};
    mega_graph *g;
    need(mega_layout_create(NULL, &(mega_layout_sizes){.planned_ranks = ranks > 1 ? ranks : 0}, &k.layout));
    k.params = open_params(k.layout, stage, held);
    need(mega_graph_create(MEGA_F32, k.params, k.layout, &g));
    const int64_t dim[2] = {ROWS, WIDTH};
    mega_tensor x = mega_graph_input(g, "x", MEGA_F32, 2, dim);
    for (int i = 0; i <= LAYERS; i++) {
        x = mega_op_linear(g, x, mega_graph_param(g, i % LAYERS * 2));
        x = mega_op_gelu(g, mega_op_bias_add(g, x, mega_graph_param(g, i % LAYERS * 2 + 1)), true);
    }
    mega_graph_output(g, x, "y");
    mega_graph_seed_gradient(g, x, "seed");
    const mega_program_options o = {
        .differentiate = true, .no_fusion = true, .name = "test", .place = {.overlap_reduce = overlap}};
    need(mega_program_build(g, &o, &k.program));
    need(mega_params_allocate(k.params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    need(mega_program_allocate(k.program));
    return k;
}

static int count(const built_program *k, op_kind kind)
{
    int n = 0;
    for (int i = 0; i < k->program->g->num_ops; i++) n += k->program->g->op[i].kind == kind;
    return n;
}

/* ---- numbers ---- */

static void fill(float *out, int64_t count, double phase, double size)
{
    for (int64_t i = 0; i < count; i++) out[i] = (float)(size * sin(1.3 * (double)i + phase));
}

static void run_micro_batch(built_program *k, int number, bool is_first)
{
    mega_program_step_block(k->program)->first_micro_batch = is_first;
    mega_program_step_block(k->program)->last_micro_batch = number == MICRO_BATCHES - 1;
    fill(mega_program_tensor(k->program, "x", 0), ROWS * WIDTH, number, 1);
    fill(mega_program_tensor(k->program, "seed", 0), ROWS * WIDTH, 5 + number, 0.1 * (number + 1));
    need(mega_program_forward(k->program, 0));
    need(mega_program_backward(k->program, 0));
}

static void set_weights(built_program *k)
{
    fill(mega_params_flat_weight(k->params), mega_params_elements(k->params), 0.4, 0.5);
}

static float rounded(float x, mega_dtype type)
{
    return mega_half_to_f32(mega_f32_to_half(x, type), type);
}

/* What must be held after a step: the gradients of each micro-batch alone, in float, added one by one, rounded each
 * time. */
static void expect(mega_dtype held, float out[PARAMS][MOST])
{
    built_program k = make(1, 0, false, MEGA_F32);
    set_weights(&k);
    for (int m = 0; m < MICRO_BATCHES; m++) {
        memset(mega_params_flat_grad(k.params), 0, mega_params_bytes(k.params, MEGA_PARAMS_GRADS));
        run_micro_batch(&k, m, true);
        for (int i = 0; i < PARAMS; i++) {
            const float *one = mega_params_grad(k.params, i);
            for (int64_t n = 0; n < mega_params_get(k.params, i)->count; n++)
                out[i][n] = rounded(m == 0 ? one[n] : out[i][n] + one[n], held);
        }
    }
    built_program_end(&k);
}

static void a_step_rounds_once_a_micro_batch(void **state)
{
    (void)state;
    static float expected[PARAMS][MOST];
    for (int type = 0; type < 2; type++) {
        const mega_dtype held = type == 0 ? MEGA_BF16 : MEGA_F16;
        expect(held, expected);
        built_program k = make(1, 0, false, held);
        set_weights(&k);
        /* twice: what the step before left must not remain */
        for (int m = 0; m < 2 * MICRO_BATCHES; m++) run_micro_batch(&k, m % MICRO_BATCHES, m % MICRO_BATCHES == 0);
        for (int i = 0; i < PARAMS; i++) {
            const uint16_t *got = mega_params_grad(k.params, i);
            assert_true(mega_program_overwrites_gradient(k.program, i)); /* so that the engine does not clear it */
            for (int64_t n = 0; n < mega_params_get(k.params, i)->count; n++)
                if (mega_half_to_f32(got[n], held) != expected[i][n])
                    fail_msg("%s [%lld]: %.9g, expected %.9g", mega_params_get(k.params, i)->name, (long long)n,
                             mega_half_to_f32(got[n], held), expected[i][n]);
        }
        built_program_end(&k);
    }
}

/* ---- instructions ---- */

/* Each gradient is a value from one held_grad_zero to one held_grad_add, with all that adds to it in between. */
static void every_gradient_is_kept_behind_the_last(void **state)
{
    (void)state;
    built_program k = make(1, 0, false, MEGA_BF16);
    const mega_graph *g = k.program->g;
    assert_int_equal(count(&k, OP_HELD_GRAD_ZERO), PARAMS);
    assert_int_equal(count(&k, OP_HELD_GRAD_ADD), PARAMS);
    for (int i = 0; i < PARAMS; i++) {
        int begins = -1, keeps = -1, adds = 0;
        for (int o = 0; o < g->num_ops; o++) {
            const bool is_its = g->op[o].attr.param == i;
            if (g->op[o].kind == OP_HELD_GRAD_ZERO && is_its) begins = o;
            if (g->op[o].kind == OP_HELD_GRAD_ADD && is_its) keeps = o;
            for (int out = 0; out < OP_MAX_OUT; out++)
                if (g->op[o].out[out] != 0 && g->op[o].out[out] == g->weights.gradient[i]) {
                    assert_true(begins >= 0 && keeps < 0);
                    adds++;
                }
        }
        assert_true(keeps > begins);
        assert_int_equal(adds, i < 2 ? 2 : 1);
    }
    built_program_end(&k);
}

static void sums_come_after_the_gradients_of_the_bucket(void **state)
{
    (void)state;
    built_program k = make(2, 1, true, MEGA_BF16);
    const mega_graph *g = k.program->g;
    assert_int_equal(count(&k, OP_REDUCE_START), mega_params_num_buckets(k.params));
    for (int i = 0; i < g->num_ops; i++)
        for (int later = i + 1; later < g->num_ops && g->op[i].kind == OP_REDUCE_START; later++)
            assert_false(g->op[later].kind == OP_HELD_GRAD_ADD && g->op[later].attr.bucket == g->op[i].attr.bucket);
    for (int b = 0; b < mega_params_num_buckets(k.params); b++)
        assert_int_equal(mega_params_sum_dtype(k.params, b), MEGA_BF16);
    built_program_end(&k);
    k = make(2, 2, false, MEGA_BF16); /* whole buckets are values: their slices are rounded behind the sum */
    assert_int_equal(count(&k, OP_HELD_GRAD_ADD), 0);
    assert_int_equal(count(&k, OP_REDUCE_WAIT), mega_params_num_buckets(k.params));
    for (int b = 0; b < mega_params_num_buckets(k.params); b++)
        assert_int_equal(mega_params_sum_dtype(k.params, b), MEGA_F32);
    built_program_end(&k);
}

/* ---- memory ---- */

static void held_gradients_take_half(void **state)
{
    (void)state;
    for (int stage = 0; stage < 3; stage += 2) {
        built_program wide = make(2, stage, false, MEGA_F32), half = make(2, stage, false, MEGA_F16);
        const size_t bytes = mega_params_bytes(wide.params, MEGA_PARAMS_GRADS);
        assert_int_equal(2 * mega_params_bytes(half.params, MEGA_PARAMS_GRADS), bytes);
        assert_true(bytes > 0);
        built_program_end(&wide);
        built_program_end(&half);
    }
}

/* A bucket with running statistics keeps its type, and the addresses of those after it follow from both types. */
static void statistics_stay_in_float(void **state)
{
    (void)state;
    mega_layout *layout;
    mega_params *p;
    need(mega_layout_create(NULL, NULL, &layout));
    need(mega_params_create(layout, &p));
    declare_like(p, (mega_param){.layer = 0}, "first", 40, 0);
    mega_param mean = {.num_dims = 1,
                       .shape = {40, 0},
                       .true_shape = {40, 0},
                       .is_buffer = true,
                       .buffer_momentum = 0.1,
                       .buffer_samples = 1};
    snprintf(mean.name, sizeof mean.name, "mean");
    need(mega_params_add(p, &mean, NULL));
    declare_like(p, (mega_param){.layer = 0}, "last", 40, 0);
    need(mega_params_hold_gradients_in(p, MEGA_BF16));
    need(mega_params_place(p, MEGA_F32, 50)); /* one parameter a bucket, the last first */
    need(mega_params_allocate(p, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    assert_int_equal(mega_params_num_buckets(p), 3);
    const mega_dtype expected[3] = {MEGA_BF16, MEGA_F32, MEGA_BF16};
    size_t at = 0;
    for (int b = 0; b < 3; b++) {
        assert_int_equal(mega_params_grad_dtype(p, b), expected[b]);
        assert_ptr_equal(mega_params_grad(p, 2 - b), (char *)mega_params_flat_grad(p) + at);
        at += (size_t)mega_params_bucket(p, b)->count * mega_dtype_size(expected[b]);
    }
    assert_int_equal(mega_params_bytes(p, MEGA_PARAMS_GRADS), at);
    mega_params_destroy(p);
    mega_layout_destroy(layout);
}

static void types_that_contradict_are_refused(void **state)
{
    (void)state;
    mega_layout *layout;
    need(mega_layout_create(NULL, &(mega_layout_sizes){.planned_ranks = 2}, &layout));
    for (int stage = 0; stage < 3; stage++) {
        mega_params *p;
        need(mega_params_create(layout, &p));
        declare_like(p, (mega_param){.layer = 0}, "weight", 8, 8);
        need(mega_params_shard(p, stage));
        need(mega_params_sum_in(p, MEGA_F16));
        need(mega_params_hold_gradients_in(p, MEGA_BF16));
        assert_int_equal(mega_params_hold_gradients_in(p, MEGA_I32), MEGA_ERR_UNSUPPORTED);
        assert_int_equal(mega_params_place(p, MEGA_F64, 0), MEGA_ERR_UNSUPPORTED);
        assert_int_equal(mega_params_place(p, MEGA_F32, 0), stage < 2 ? MEGA_ERR_UNSUPPORTED : MEGA_OK);
        if (stage == 2) assert_int_equal(mega_params_hold_gradients_in(p, MEGA_F32), MEGA_ERR_USAGE);
        mega_params_destroy(p);
    }
    mega_layout_destroy(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_rounds_once_a_micro_batch),
                                       cmocka_unit_test(every_gradient_is_kept_behind_the_last),
                                       cmocka_unit_test(sums_come_after_the_gradients_of_the_bucket),
                                       cmocka_unit_test(held_gradients_take_half),
                                       cmocka_unit_test(statistics_stay_in_float),
                                       cmocka_unit_test(types_that_contradict_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
