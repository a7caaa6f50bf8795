/* Named outputs of a model: what the caller reads, and a gradient that the caller gives instead of a loss. */
#include "kit.h"
#include "megalith/builder.h"
#include "megalith/program.h"

#include <math.h>
#include <string.h>

enum { B = 2, S = 3, T = B * S, C = 4, N = 5 };

typedef struct bench {
    mega_layout *layout;
    mega_params *params;
    mega_program *program;
    mega_builder b;
    mega_tensor x, y; /* y = x W + bias */
} bench;

static void begin(bench *k, mega_dtype dtype)
{
    *k = (bench){.program = NULL};
    const mega_param_options random = {.init = MEGA_INIT_NORMAL, .init_std = 0.5};
    need(mega_layout_create(NULL, NULL, &k->layout));
    need(mega_params_create(k->layout, &k->params));
    k->b = (mega_builder){.layout = k->layout, .samples = B, .positions = S, .path = "m"};
    need(mega_graph_create(dtype, k->params, k->layout, &k->b.graph));
    k->x = mega_input(&k->b, "x", dtype, S, C);
    k->y = mega_op_linear(k->b.graph, k->x, mega_builder_param(&k->b, "weight", N, C, &random));
    k->y = mega_op_bias_add(k->b.graph, k->y, mega_builder_param(&k->b, "bias", N, 0, &random));
}

static mega_loss sum_of(const bench *k)
{
    return mega_op_weighted_sum(k->b.graph, mega_op_row_sum(k->b.graph, k->y), mega_none());
}

static void build(bench *k, mega_dtype dtype, bool differentiate, bool per_token)
{
    const mega_program_options o = {
        .backend = MEGA_BACKEND_PLAIN, .differentiate = differentiate, .per_token_loss = per_token, .name = "outputs"};
    need(mega_params_place(k->params, dtype, 0));
    need(mega_params_allocate(k->params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    need(mega_params_initialize(k->params, 6));
    mega_graph *g = k->b.graph;
    k->b.graph = NULL;
    need(mega_program_build(g, &o, &k->program));
    need(mega_program_allocate(k->program));
    mega_program_step_block(k->program)->loss_factor = 0.75;
    void *x = mega_program_tensor(k->program, "x", 0);
    for (int i = 0; i < T * C; i++) {
        const double v = sin(1.0 + i);
        if (dtype == MEGA_F64) ((double *)x)[i] = v;
        else if (dtype == MEGA_F32)
            ((float *)x)[i] = (float)v;
        else
            ((uint16_t *)x)[i] = mega_f32_to_bf16((float)v);
    }
}

static void end(bench *k)
{
    mega_program_destroy(k->program);
    mega_graph_destroy(k->b.graph);
    mega_params_destroy(k->params);
    mega_layout_destroy(k->layout);
}

/* Computes the gradients of all parameters after a forward and a backward; if `gives`, the gradient of "y" is all
 * ones. */
static void gradients(bench *k, bool gives, double weight, double out[N * C + N])
{
    float ones[T * N];
    for (int i = 0; i < T * N; i++) ones[i] = 1;
    memset(mega_params_flat_grad(k->params), 0, mega_params_bytes(k->params, MEGA_PARAMS_GRADS));
    need(mega_program_forward(k->program, 0));
    if (gives) need(mega_program_output_gradient(k->program, "y", 0, ones, T * N, weight));
    need(mega_program_backward(k->program, 0));
    memcpy(out, mega_params_grad(k->params, 0), N * C * sizeof *out);
    memcpy(out + N * C, mega_params_grad(k->params, 1), N * sizeof *out);
}

/* The sum over an output as a loss of the model and as a loss that the caller computes give the same bits. */
static void a_given_gradient_is_that_of_a_loss(void **state)
{
    (void)state;
    for (int per_token = 0; per_token < 2; per_token++) {
        double expected[N * C + N], found[N * C + N];
        bench with, without;
        begin(&with, MEGA_F64);
        mega_loss_add(&with.b, "sum", sum_of(&with), 1);
        build(&with, MEGA_F64, true, per_token == 1);
        gradients(&with, false, 0, expected);
        begin(&without, MEGA_F64);
        mega_output(&without.b, "y", without.y);
        build(&without, MEGA_F64, true, per_token == 1);
        gradients(&without, true, T, found);
        assert_memory_equal(found, expected, sizeof expected);
        for (int i = 0; i < N * C + N; i++) assert_true(found[i] != 0);
        end(&with);
        end(&without);
    }
}

/* A given gradient applies to one backward, adds to the losses of the model, and has no effect with weight 0. */
static void a_given_gradient_is_for_one_backward(void **state)
{
    (void)state;
    double alone[N * C + N], both[N * C + N], after[N * C + N];
    bench k;
    begin(&k, MEGA_F64);
    mega_loss_add(&k.b, "sum", sum_of(&k), 1);
    mega_output(&k.b, "y", k.y);
    build(&k, MEGA_F64, true, false);
    gradients(&k, false, 0, alone);
    gradients(&k, true, 2 * T, both);
    for (int i = 0; i < N * C + N; i++) assert_true(fabs(both[i] - 1.5 * alone[i]) < 1e-14);
    gradients(&k, false, 0, after);
    assert_memory_equal(after, alone, sizeof alone);
    gradients(&k, true, 0, after);
    assert_memory_equal(after, alone, sizeof alone);
    float ones[T * N] = {1};
    need(mega_program_forward(k.program, 0));
    need(mega_program_output_gradient(k.program, "y", 0, ones, T * N, 1)); /* no backward uses it */
    gradients(&k, false, 0, after);
    assert_memory_equal(after, alone, sizeof alone);
    end(&k);
}

/* Values, views, inputs and parameters can be outputs; a data set need not provide any of them. */
static void outputs_are_read_by_name(void **state)
{
    (void)state;
    bench k;
    mega_program_output o;
    begin(&k, MEGA_BF16);
    mega_output(&k.b, "y", k.y);
    mega_output(&k.b, "flat", mega_op_reshape(k.b.graph, k.y, S * N));
    mega_output(&k.b, "copy", k.x);
    mega_output(&k.b, "sums", mega_op_row_sum(k.b.graph, k.y));
    build(&k, MEGA_BF16, true, false);
    need(mega_program_forward(k.program, 0));
    assert_true(mega_program_output_get(k.program, "y", 0, &o));
    assert_true(o.count == T * N && o.dtype == MEGA_BF16 && o.takes_gradient);
    const uint16_t *y = o.value;
    assert_true(mega_program_output_get(k.program, "flat", 0, &o));
    assert_memory_equal(o.value, y, T * N * sizeof *y);
    assert_true(mega_program_output_get(k.program, "copy", 0, &o));
    assert_false(o.takes_gradient);
    assert_memory_equal(o.value, mega_program_tensor(k.program, "x", 0), T * C * sizeof *y);
    assert_true(mega_program_output_get(k.program, "sums", 0, &o));
    assert_true(o.count == T && o.dtype == MEGA_F32 && o.takes_gradient);
    for (int t = 0; t < T; t++) {
        double sum = 0;
        for (int n = 0; n < N; n++) sum += (double)mega_bf16_to_f32(y[t * N + n]);
        assert_true(fabs((double)((const float *)o.value)[t] - sum) < 1e-5);
    }
    assert_false(mega_program_output_get(k.program, "z", 0, &o));
    mega_program_named named;
    for (int i = 0; mega_program_named_get(k.program, i, &named); i++)
        assert_true(named.role != MEGA_PROGRAM_INPUT || strcmp(named.name, "x") == 0);
    end(&k);
}

static void wrong_gradients_are_refused(void **state)
{
    (void)state;
    const float g[T * N] = {1};
    bench k;
    begin(&k, MEGA_F32);
    const mega_tensor labels = mega_input(&k.b, "labels", MEGA_I32, S, 0);
    mega_loss_add(&k.b, "sum", sum_of(&k), 1);
    mega_output(&k.b, "y", k.y);
    mega_output(&k.b, "hits", mega_op_accuracy(k.b.graph, k.y, labels).sum); /* no gradient passes through it */
    mega_output(&k.b, "x2", mega_op_mul(k.b.graph, k.x, k.x));
    build(&k, MEGA_F32, true, false);
    mega_program *p = k.program;
    need_error(mega_program_output_gradient(p, "y", 0, g, T * N, 1), MEGA_ERR_USAGE, "before a forward of its slot");
    memset(mega_program_tensor(p, "labels", 0), 0, T * sizeof(int32_t));
    need(mega_program_forward(p, 0));
    need_error(mega_program_output_gradient(p, "z", 0, g, T * N, 1), MEGA_ERR_NOT_FOUND, "it has no output \"z\"");
    need_error(mega_program_output_gradient(p, "y", 1, g, T * N, 1), MEGA_ERR_USAGE, "slot");
    need_error(mega_program_output_gradient(p, "y", 0, NULL, T * N, 1), MEGA_ERR_USAGE, "its gradient is NULL");
    need_error(mega_program_output_gradient(p, "y", 0, g, T, 1), MEGA_ERR_USAGE, "expected 30 elements");
    need_error(mega_program_output_gradient(p, "x2", 0, g, T * C, 1), MEGA_ERR_USAGE, "depends on no parameter");
    need_error(mega_program_output_gradient(p, "hits", 0, g, 1, 1), MEGA_ERR_USAGE,
               "depends on no parameter through ops");
    need(mega_program_backward(p, 0));
    end(&k);
}

typedef void declare(const bench *k);

static void twice(const bench *k)
{
    mega_output(&k->b, "y", k->y);
    mega_output(&k->b, "y", k->y);
}

static void nameless(const bench *k)
{
    mega_output(&k->b, "", k->y);
}

static void of_nothing(const bench *k)
{
    mega_output(&k->b, "y", mega_none());
}

static void of_ids(const bench *k)
{
    mega_output(&k->b, "y", mega_input(&k->b, "ids", MEGA_I32, S, 0));
}

static void of_slabs(const bench *k)
{
    k->layout->tp.size = 2;
    mega_graph_set_sequence_parallel(k->b.graph, true);
    mega_output(&k->b, "y", k->y);
    k->layout->tp.size = 1;
}

static void wrong_outputs_are_refused(void **state)
{
    (void)state;
    static const struct {
        declare *declare;
        const char *message;
    } wrong[] = {{twice, "mega_output declares \"y\", which an earlier mega_output declared"},
                 {nameless, "layer \"m\": an output is declared without a name"},
                 {of_nothing, "layer \"m\", output \"y\": it is no tensor"},
                 {of_ids, "layer \"m\", output \"y\": ids is i32; expected f32"},
                 {of_slabs, "output \"y\": with sequence parallelism"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bench k;
        begin(&k, MEGA_F32);
        wrong[i].declare(&k);
        const mega_status st = mega_graph_status(k.b.graph);
        need_error(st, i == 4 ? MEGA_ERR_UNSUPPORTED : MEGA_ERR_USAGE, wrong[i].message);
        end(&k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_given_gradient_is_that_of_a_loss), cmocka_unit_test(a_given_gradient_is_for_one_backward),
        cmocka_unit_test(outputs_are_read_by_name),           cmocka_unit_test(wrong_gradients_are_refused),
        cmocka_unit_test(wrong_outputs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
