/* Named losses and metrics in a graph: what is rejected, and which instructions a loss or a metric adds. test_ops.c
 * compares their gradients with finite differences. */
#include "graph_kit.h"
#include "kit.h"
#include "megalith/program.h"
#include "program_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { T = 4, C = 8 };

typedef struct sketch {
    mega_layout *layout;
    mega_params *params;
    mega_graph *g;
    mega_tensor x, y, mask; /* y depends on a parameter, x does not */
} sketch;

static mega_tensor weight(const sketch *k)
{
    return mega_graph_param(k->g, 0);
}

static sketch begin(void)
{
    const mega_param r = {
        .name = "weight", .num_dims = 2, .shape = {C, C}, .true_shape = {C, C}, .init = MEGA_INIT_ONE};
    sketch k = {.layout = NULL};
    need(mega_layout_create(NULL, NULL, &k.layout));
    need(mega_params_create(k.layout, &k.params));
    need(mega_params_add(k.params, &r, NULL));
    need(mega_params_place(k.params, MEGA_F32, 0));
    need(mega_graph_create(MEGA_F32, k.params, k.layout, &k.g));
    k.x = declare_input(k.g, "x", MEGA_F32, T, C);
    k.mask = declare_input(k.g, "mask", MEGA_F32, T, 0);
    k.y = mega_op_linear(k.g, k.x, weight(&k));
    return k;
}

static mega_loss error(const sketch *k, mega_tensor a, mega_tensor b)
{
    return mega_op_weighted_sum(k->g, mega_op_squared_error(k->g, a, b), k->mask);
}

static void end(sketch *k, mega_program *p)
{
    mega_program_destroy(p);
    mega_params_destroy(k->params);
    mega_layout_destroy(k->layout);
}

static void expect_refusal(sketch k, mega_status status, const char *text)
{
    mega_program *p = NULL;
    const mega_program_options o = {.differentiate = true, .name = "train"};
    assert_int_equal(mega_program_build(k.g, &o, &p), status);
    if (strstr(mega_error_message(), text) == NULL) fail_msg("expected \"%s\" in: %s", text, mega_error_message());
    end(&k, p);
}

static mega_head_result head(const sketch *k)
{
    const mega_head_shape s = {.valid = C, .with_gradient = true};
    return mega_op_lm_head_loss(k->g, k->x, weight(k), declare_input(k->g, "labels", MEGA_I32, T, 0), k->mask, &s);
}

static void wrong_losses_are_named(void **state)
{
    (void)state;
    char letters[MEGA_LOSS_NAME + 1] = "";
    memset(letters, 'l', MEGA_LOSS_NAME);
    const char *const unnamed[] = {NULL, "", letters};
    for (int i = 0; i < 3; i++) {
        sketch k = begin();
        mega_graph_loss(k.g, unnamed[i], error(&k, k.x, k.y), 1);
        expect_refusal(k, MEGA_ERR_USAGE, "characters; expected 1 to 127");
    }
    sketch k = begin();
    const mega_scope s = mega_scope_enter(k.g, "h.3");
    mega_graph_loss(k.g, "error", error(&k, k.x, k.y), 1);
    mega_scope_leave(k.g, s);
    mega_graph_loss(k.g, "error", error(&k, k.x, k.y), 0);
    expect_refusal(k, MEGA_ERR_USAGE, "loss \"error\" in \"\": the name is declared twice, first in \"h.3\"");
    k = begin();
    for (int i = 0; i <= MEGA_METRICS; i++)
        mega_graph_loss(k.g, (char[2]){(char)('a' + i), '\0'}, error(&k, k.x, k.y), 1);
    expect_refusal(k, MEGA_ERR_USAGE, "loss \"i\" in \"\": the model has more than 8 losses and metrics");

    const double coefficient[] = {-NAN, INFINITY, -INFINITY};
    const char *const found[] = {"its coefficient is nan;", "its coefficient is inf;", "its coefficient is -inf;"};
    for (int i = 0; i < 3; i++) {
        k = begin();
        mega_graph_loss(k.g, "error", error(&k, k.x, k.y), coefficient[i]);
        expect_refusal(k, MEGA_ERR_USAGE, found[i]);
    }
}

static void losses_are_two_numbers(void **state)
{
    (void)state;
    sketch k = begin();
    mega_graph_loss(k.g, "error", (mega_loss){mega_op_squared_error(k.g, k.x, k.y), error(&k, k.x, k.y).weight}, 1);
    expect_refusal(k, MEGA_ERR_USAGE, "loss \"error\" in \"\": its sum is [4] f32; expected [1] f32");
    k = begin();
    mega_graph_loss(k.g, "error", (mega_loss){error(&k, k.x, k.y).sum, k.y}, 1);
    expect_refusal(k, MEGA_ERR_USAGE, "loss \"error\" in \"\": its weight is [4, 8] f32; expected [1] f32");
    const mega_tensor no_values[] = {{0}, {1000}, {-1}, {1}}; /* the last is the input x */
    for (int i = 0; i < 4; i++) {
        k = begin();
        mega_graph_loss(k.g, "error", (mega_loss){error(&k, k.x, k.y).sum, no_values[i]}, 1);
        expect_refusal(k, MEGA_ERR_USAGE, "its weight is not a value that the program computes");
    }
}

static void gradients_of_losses_are_not_lost(void **state)
{
    (void)state;
    sketch k = begin();
    mega_graph_loss(k.g, "error", error(&k, k.x, k.x), 1);
    expect_refusal(k, MEGA_ERR_USAGE, "loss \"error\" in \"\" depends on no parameter, so that it cannot be trained");
    k = begin();
    mega_graph_loss(k.g, "error", (mega_loss){error(&k, k.x, k.y).sum, error(&k, k.x, k.y).sum}, 1);
    expect_refusal(k, MEGA_ERR_UNSUPPORTED, "its weight depends on a parameter, and no gradient passes through");
    k = begin();
    mega_graph_loss(k.g, "error", error(&k, k.x, k.y), 0);
    expect_refusal(k, MEGA_ERR_USAGE, "nothing to differentiate; declare a loss with mega_loss_add");

    k = begin(); /* a head without a named loss, next to a loss: its gradient would be trained unnoticed */
    mega_graph_loss(k.g, "error", error(&k, k.x, k.y), 1);
    head(&k);
    expect_refusal(k, MEGA_ERR_USAGE, "it makes a gradient, but its loss has no name");
    k = begin();
    const mega_head_result late = head(&k);
    mega_graph_loss(k.g, "head", (mega_loss){late.loss.sum, error(&k, k.x, k.x).weight}, 1);
    expect_refusal(k, MEGA_ERR_USAGE, "its weight is computed after the head, which divides its gradient by it");
    k = begin();
    const mega_tensor rows = error(&k, k.x, k.x).weight;
    const mega_head_result r = head(&k);
    mega_graph_loss(k.g, "head", r.loss, 1);
    mega_graph_loss(k.g, "head by rows", (mega_loss){r.loss.sum, rows}, 1);
    expect_refusal(k, MEGA_ERR_UNSUPPORTED, "losses \"head\" and \"head by rows\" divide the sum of one head");
}

static int count(const mega_program *p, op_kind kind)
{
    int n = 0;
    for (int i = 0; i < p->g->num_ops; i++) n += p->g->op[i].kind == kind;
    return n;
}

/* Builds a program with losses of these coefficients; 0: no such loss. The last loss is that of a head. */
static mega_program *build(sketch *k, double first, double second, double of_head)
{
    mega_program *p = NULL;
    const mega_program_options o = {.differentiate = true, .name = "train"};
    *k = begin();
    mega_graph_loss(k->g, "first", error(k, k->x, k->y), first);
    mega_graph_loss(k->g, "second", error(k, mega_op_gelu(k->g, k->y, true), k->x), second);
    mega_graph_loss(k->g, "head", head(k).loss, of_head);
    need(mega_program_build(k->g, &o, &p));
    return p;
}

static void metrics_add_nothing_to_the_backward(void **state)
{
    (void)state;
    sketch k;
    mega_program *p = build(&k, 1, 0, 0);
    assert_int_equal(count(p, OP_LOSS_SEED), 1);
    assert_int_equal(count(p, OP_GELU_GRAD), 0);
    assert_int_equal(count(p, OP_SQUARED_ERROR_GRAD), 1);
    assert_int_equal(count(p, OP_LINEAR_GRAD_W), 1);
    assert_int_equal(count(p, OP_LINEAR_GRAD_X), 0);
    end(&k, p);
    p = build(&k, -2, 0.5, 0);
    assert_int_equal(count(p, OP_LOSS_SEED), 2);
    assert_int_equal(count(p, OP_GELU_GRAD), 1);
    end(&k, p);
    p = build(&k, 0, 0, 3); /* the gradient of a head is only in the forward program */
    assert_int_equal(count(p, OP_LOSS_SEED), 0);
    assert_int_equal(count(p, OP_LINEAR_GRAD_W), 1);
    assert_int_equal(mega_program_num_instructions(p, true), 0);
    end(&k, p);
}

static void programs_list_their_losses(void **state)
{
    (void)state;
    static const char *const name[] = {"first", "second", "head"};
    const double coefficient[] = {1, 0, -0.25};
    sketch k;
    mega_program *p = build(&k, coefficient[0], coefficient[1], coefficient[2]);
    for (int pass = 0; pass < 2; pass++) {
        mega_program_loss l;
        for (int i = 0; i < 3; i++) {
            assert_true(mega_program_loss_get(p, i, 0, &l));
            assert_string_equal(l.name, name[i]);
            assert_true(l.coefficient == coefficient[i]);
            assert_true((l.sum != NULL) == (pass == 1) && (l.weight != NULL) == (pass == 1));
        }
        assert_false(mega_program_loss_get(p, 3, 0, &l));
        assert_false(mega_program_loss_get(p, -1, 0, &l));
        assert_false(mega_program_loss_get(p, 0, 1, &l)); /* a slot that does not exist */
        if (pass > 0) continue;
        need(mega_params_allocate(k.params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
        need(mega_program_allocate(p));
    }
    end(&k, p);
}

/* With weight 0, the loss and its gradient are 0. */
static void a_loss_without_weight_has_no_gradient(void **state)
{
    (void)state;
    sketch k;
    mega_program *p = build(&k, 1, 0, 0);
    need(mega_params_allocate(k.params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    need(mega_program_allocate(p));
    need(mega_params_initialize(k.params, 1));
    const float mask[2][T] = {{0}, {1, 0, 0, 1}};
    for (int i = 0; i < 2; i++) {
        float *x = mega_program_tensor(p, "x", 0);
        for (int n = 0; n < T * C; n++) x[n] = (float)n;
        memset(mega_program_tensor(p, "labels", 0), 0, T * sizeof(int32_t));
        memcpy(mega_program_tensor(p, "mask", 0), mask[i], sizeof mask[i]);
        memset(mega_params_flat_grad(k.params), 0, C * C * sizeof(float));
        need(mega_program_forward(p, 0));
        need(mega_program_backward(p, 0));
        const float d = ((const float *)mega_params_grad(k.params, 0))[0];
        assert_true(i == 0 ? d == 0 : isfinite(d) && d != 0);
    }
    end(&k, p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_losses_are_named),           cmocka_unit_test(losses_are_two_numbers),
        cmocka_unit_test(gradients_of_losses_are_not_lost), cmocka_unit_test(metrics_add_nothing_to_the_backward),
        cmocka_unit_test(programs_list_their_losses),       cmocka_unit_test(a_loss_without_weight_has_no_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
