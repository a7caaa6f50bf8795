/* Mistakes in the description of a model: each causes an error that names the layer and the tensor; no gradient is lost
 * silently. */
#include "graph_kit.h"
#include "kit.h"
#include "megalith/builder.h"
#include "megalith/program.h"

#include <stdio.h>
#include <string.h>

enum { T = 4, C = 8 };

typedef struct sketch {
    mega_layout *layout;
    mega_params *params;
    mega_graph *g;
    mega_tensor x;
} sketch;

static sketch begin(void)
{
    sketch k = {.layout = NULL};
    need(mega_layout_create(NULL, NULL, &k.layout));
    need(mega_params_create(k.layout, &k.params));
    declare_like(k.params, (mega_param){.init = MEGA_INIT_ONE}, "weight", C, C);
    declare_like(k.params, (mega_param){.init = MEGA_INIT_ONE}, "bias", C, 0);
    declare_like(k.params, (mega_param){.init = MEGA_INIT_ONE}, "mask", T, 0);
    need(mega_params_place(k.params, MEGA_F32, 0));
    need(mega_graph_create(MEGA_F32, k.params, k.layout, &k.g));
    k.x = declare_input(k.g, "x", MEGA_F32, T, C);
    return k;
}

/* Ends the description with a given gradient of y and builds a training program, which must fail. */
static void expect_refusal(sketch *k, mega_tensor y, mega_status status, const char *text)
{
    mega_program *p = NULL;
    const mega_program_options o = {.differentiate = true, .name = "train"};
    if (y.id != 0) mega_graph_seed_gradient(k->g, y, "dy");
    assert_int_equal(mega_program_build(k->g, &o, &p), status);
    if (strstr(mega_error_message(), text) == NULL) fail_msg("expected \"%s\" in: %s", text, mega_error_message());
    mega_params_destroy(k->params);
    mega_layout_destroy(k->layout);
}

static mega_head_result head(const sketch *k, mega_tensor mask)
{
    const mega_scope s = mega_scope_enter(k->g, "head");
    const mega_head_shape shape = {.valid = C, .with_gradient = true};
    const mega_head_result r =
        mega_op_lm_head_loss(k->g, mega_op_linear(k->g, k->x, param_named(k->g, "weight")), param_named(k->g, "weight"),
                             declare_input(k->g, "labels", MEGA_I32, T, 0), mask, &shape);
    mega_graph_loss(k->g, "loss", r.loss, 1);
    mega_scope_leave(k->g, s);
    return r;
}

static void gradients_are_not_lost(void **state)
{
    (void)state;
    const mega_tensor none = {0};
    sketch k = begin();
    head(&k, param_named(k.g, "mask"));
    expect_refusal(&k, none, MEGA_ERR_UNSUPPORTED, "loss in \"head\": the mask head.mask depends on a parameter");

    k = begin(); /* a loss computed from the token losses of a head, instead of the loss of the head */
    mega_tensor y = head(&k, declare_input(k.g, "loss_mask", MEGA_F32, T, 0)).token_loss;
    expect_refusal(&k, y, MEGA_ERR_UNSUPPORTED, "op xent_grad in \"head\" has no gradient");

    k = begin(); /* rows of a weight, used as a weight */
    y = mega_op_linear(k.g, k.x, mega_op_rows(k.g, param_named(k.g, "weight"), 0, 2));
    expect_refusal(&k, y, MEGA_ERR_USAGE, "\"weight\" in \"\": it is used as a weight, but is no parameter");

    k = begin();
    const mega_tensor table = mega_op_rows(k.g, param_named(k.g, "weight"), 1, 2);
    y = mega_op_embedding(k.g, declare_input(k.g, "ids", MEGA_I32, T, 0), table, none, 0);
    expect_refusal(&k, y, MEGA_ERR_USAGE, "it is used as a weight, but is no parameter");

    k = begin();
    y = mega_op_take_rows(k.g, param_named(k.g, "weight"), declare_input(k.g, "rows", MEGA_I32, 2, 0));
    expect_refusal(&k, y, MEGA_ERR_UNSUPPORTED, "op take_rows in \"\" has no gradient");
}

static void wrong_descriptions_name_layer_and_tensor(void **state)
{
    (void)state;
    const mega_tensor none = {0}, foreign = {1000};
    sketch k = begin();
    mega_scope s = mega_scope_enter(k.g, "h.3");
    mega_graph_param(k.g, 3);
    mega_scope_leave(k.g, s);
    expect_refusal(&k, none, MEGA_ERR_USAGE, "graph in \"h.3\": parameter number 3 is not declared; 3 are");

    k = begin(); /* an output with the name of an input; a state twice in one layer */
    mega_graph_output(k.g, mega_op_gelu(k.g, k.x, true), "x");
    expect_refusal(&k, none, MEGA_ERR_USAGE, "the name \"x\" is given to two tensors");
    k = begin();
    const int64_t dim[2] = {T, C};
    s = mega_scope_enter(k.g, "h.3");
    mega_graph_state(k.g, "cache", MEGA_F32, 2, dim);
    mega_graph_state(k.g, "cache", MEGA_F32, 2, dim);
    mega_scope_leave(k.g, s);
    expect_refusal(&k, none, MEGA_ERR_USAGE, "graph in \"h.3\": the name \"h.3.cache\" is given to two tensors");

    k = begin(); /* more labels than rows */
    s = mega_scope_enter(k.g, "head");
    mega_op_lm_head_loss(k.g, k.x, param_named(k.g, "weight"), declare_input(k.g, "labels", MEGA_I32, T + 1, 0),
                         declare_input(k.g, "loss_mask", MEGA_F32, T, 0), &(mega_head_shape){.valid = C});
    mega_scope_leave(k.g, s);
    expect_refusal(&k, none, MEGA_ERR_USAGE, "head in \"head\": labels are labels [5] i32; expected [4] i32");

    k = begin(); /* tensors of another graph */
    expect_refusal(&k, mega_op_gelu(k.g, foreign, true), MEGA_ERR_USAGE, "operand 0 is tensor 1000");
    k = begin();
    mega_graph_output(k.g, foreign, "y");
    expect_refusal(&k, none, MEGA_ERR_USAGE, "output \"y\" is not a value");
    k = begin();
    expect_refusal(&k, foreign, MEGA_ERR_USAGE, "gradient \"dy\" is given for no tensor");
    k = begin();
    mega_graph_want_gradient(k.g, foreign, "dx");
    expect_refusal(&k, none, MEGA_ERR_USAGE, "gradient \"dx\" of \"no tensor\"");
    k = begin();
    expect_refusal(&k, mega_op_rows(k.g, foreign, 0, 1), MEGA_ERR_USAGE, "rows 0 to 0 of (none)");
    k = begin();
    const mega_tensor y = mega_op_linear(k.g, k.x, param_named(k.g, "weight"));
    mega_op_lm_head_loss(k.g, y, foreign, y, y, &(mega_head_shape){.valid = C});
    expect_refusal(&k, none, MEGA_ERR_USAGE, "an operand is no tensor of this graph");
}

/* A given gradient must belong to a value that depends on a parameter. */
static void seeds_reach_a_parameter(void **state)
{
    (void)state;
    const mega_tensor none = {0};
    sketch k = begin();
    expect_refusal(&k, mega_op_gelu(k.g, k.x, true), MEGA_ERR_USAGE,
                   "gradient \"dy\" is given for gelu, which depends on no parameter");
    k = begin();
    expect_refusal(&k, k.x, MEGA_ERR_USAGE, "gradient \"dy\" is given for x, which depends on no parameter");
    k = begin();
    mega_graph_seed_gradient(k.g, declare_input(k.g, "ids", MEGA_I32, T, 0), "dids");
    expect_refusal(&k, none, MEGA_ERR_USAGE, "gradient \"dids\" is given for ids, which is i32; only values of f32");
    k = begin(); /* also next to one that does */
    mega_graph_seed_gradient(k.g, mega_op_linear(k.g, k.x, param_named(k.g, "weight")), "good");
    expect_refusal(&k, mega_op_gelu(k.g, k.x, true), MEGA_ERR_USAGE, "gradient \"dy\" is given for gelu");
}

static void graphs_compute_in_the_type_of_their_parameters(void **state)
{
    (void)state;
    static const mega_dtype other[] = {MEGA_BF16, MEGA_F64};
    for (int i = 0; i < 2; i++) {
        sketch k = begin();
        mega_program *p = NULL;
        const int64_t dim[2] = {T, C};
        mega_graph_destroy(k.g);
        need(mega_graph_create(other[i], k.params, k.layout, &k.g));
        const mega_tensor x = mega_graph_input(k.g, "x", other[i], 2, dim);
        mega_graph_output(k.g, mega_op_linear(k.g, x, param_named(k.g, "weight")), "y");
        const mega_program_options o = {.backend = MEGA_BACKEND_PLAIN, .name = "other"};
        assert_int_equal(mega_program_build(k.g, &o, &p), MEGA_ERR_USAGE);
        if (strstr(mega_error_message(), "but its parameters were placed in f32") == NULL)
            fail_msg("%s", mega_error_message());
        mega_params_destroy(k.params);
        mega_layout_destroy(k.layout);
    }
}

/* A graph can use parameters that are declared after its creation, also more than its initial capacity. */
static void graphs_grow_with_their_parameters(void **state)
{
    (void)state;
    sketch k = {.layout = NULL};
    need(mega_layout_create(NULL, NULL, &k.layout));
    need(mega_params_create(k.layout, &k.params));
    need(mega_graph_create(MEGA_F32, k.params, k.layout, &k.g));
    char name[16];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "w%d", i);
        declare_like(k.params, (mega_param){.init = MEGA_INIT_ONE}, name, C, C);
    }
    k.x = declare_input(k.g, "x", MEGA_F32, T, C);
    const mega_tensor y = mega_op_linear(k.g, k.x, param_named(k.g, "w299"));
    mega_graph_seed_gradient(k.g, y, "dy");
    const mega_program_options o = {.differentiate = true, .name = "train"};
    mega_program *p = NULL;
    need(mega_params_place(k.params, MEGA_F32, 0));
    need(mega_params_allocate(k.params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    need(mega_program_build(k.g, &o, &p));
    need(mega_program_allocate(p));
    need(mega_program_forward(p, 0));
    need(mega_program_backward(p, 0));
    mega_program_destroy(p);
    mega_params_destroy(k.params);
    mega_layout_destroy(k.layout);
}

static void parameters_of_impossible_sizes_are_refused(void **state)
{
    (void)state;
    sketch k = begin();
    mega_params *p = NULL;
    mega_param r = {.name = "w", .num_dims = 2, .shape = {1ll << 32, 1ll << 32}, .true_shape = {1ll << 32, 1ll << 32}};
    need(mega_params_create(k.layout, &p));
    assert_int_equal(mega_params_add(p, &r, NULL), MEGA_ERR_USAGE);
    if (strstr(mega_error_message(), "parameter w: [4294967296, 4294967296] has more than") == NULL)
        fail_msg("%s", mega_error_message());
    mega_params_destroy(p);
    mega_graph_destroy(k.g);
    mega_params_destroy(k.params);
    mega_layout_destroy(k.layout);
}

static void a_status_without_a_message_stays(void **state)
{
    (void)state;
    sketch k = begin();
    const mega_builder b = {.graph = k.g, .layout = k.layout};
    mega_error_clear();
    mega_builder_fail(&b, MEGA_ERR_UNSUPPORTED);
    assert_int_equal(mega_graph_status(k.g), MEGA_ERR_UNSUPPORTED);
    expect_refusal(&k, (mega_tensor){0}, MEGA_ERR_UNSUPPORTED, "without a message");
}

static void extents_that_do_not_exist_are_zero(void **state)
{
    (void)state;
    sketch k = begin();
    const mega_tensor foreign = {1000};
    assert_int_equal(mega_graph_dim(k.g, k.x, 1), C);
    assert_int_equal(mega_graph_dim(k.g, k.x, 2), 0);
    assert_int_equal(mega_graph_dim(k.g, k.x, 40), 0);
    assert_int_equal(mega_graph_dim(k.g, k.x, -1), 0);
    assert_int_equal(mega_graph_dim(k.g, foreign, 0), 0);
    mega_graph_destroy(k.g);
    mega_params_destroy(k.params);
    mega_layout_destroy(k.layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_not_lost),
        cmocka_unit_test(wrong_descriptions_name_layer_and_tensor),
        cmocka_unit_test(seeds_reach_a_parameter),
        cmocka_unit_test(graphs_compute_in_the_type_of_their_parameters),
        cmocka_unit_test(graphs_grow_with_their_parameters),
        cmocka_unit_test(parameters_of_impossible_sizes_are_refused),
        cmocka_unit_test(a_status_without_a_message_stays),
        cmocka_unit_test(extents_that_do_not_exist_are_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
