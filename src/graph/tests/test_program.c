/* The public API of a program: mistakes while describing, memory, states, values that are not finite, runs with
 * MEGA_CHECK. */
#include "graph_kit.h"
#include "kit.h"
#include "megalith/memory.h"
#include "megalith/threads.h"
#include "program_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    declare_like(k.params, (mega_param){.init = MEGA_INIT_NORMAL, .init_std = 0.5}, "weight", 8, 8);
    declare_like(k.params, (mega_param){.init = MEGA_INIT_NORMAL, .init_std = 0.5}, "bias", 8, 0);
    need(mega_params_place(k.params, MEGA_F32, 0));
    need(mega_params_allocate(k.params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    need(mega_params_initialize(k.params, 2));
    need(mega_graph_create(MEGA_F32, k.params, k.layout, &k.g));
    const int64_t dim[2] = {4, 8};
    k.x = mega_graph_input(k.g, "x", MEGA_F32, 2, dim);
    return k;
}

static void end(sketch *k)
{
    mega_params_destroy(k->params);
    mega_layout_destroy(k->layout);
}

/* After a mistake while describing, the first message is kept, whatever is called afterwards, and build returns it. */
static void expect_refusal(sketch *k, mega_status status, const char *text)
{
    const mega_tensor y = mega_op_gelu(k->g, k->x, true);
    mega_graph_output(k->g, y, "late");
    assert_int_equal(mega_graph_status(k->g), status);
    if (strstr(mega_error_message(), text) == NULL) fail_msg("expected \"%s\" in: %s", text, mega_error_message());
    mega_program *p = NULL;
    const mega_program_options o = {.name = "refused"};
    mega_error_clear();
    assert_int_equal(mega_program_build(k->g, &o, &p), status);
    assert_null(p);
    assert_non_null(strstr(mega_error_message(), text));
    end(k);
}

static void mistakes_of_a_description_are_named(void **state)
{
    (void)state;
    const int64_t odd[2] = {3, 8}, none[2] = {0, 8};
    sketch k = begin();
    const mega_scope s = mega_scope_enter(k.g, "h.%d", 7);
    mega_op_add(k.g, k.x, mega_graph_input(k.g, "odd", MEGA_F32, 2, odd));
    mega_scope_leave(k.g, s);
    expect_refusal(&k, MEGA_ERR_USAGE, "op add in \"h.7\": b is odd [3, 8] f32; expected [4, 8] f32");

    k = begin();
    mega_graph_input(k.g, "empty", MEGA_F32, 2, none);
    expect_refusal(&k, MEGA_ERR_USAGE, "\"empty\"");

    k = begin();
    mega_graph_input(k.g, "x", MEGA_F32, 2, odd);
    expect_refusal(&k, MEGA_ERR_USAGE, "\"x\" is given to two tensors");

    k = begin();
    mega_graph_param(k.g, 17);
    expect_refusal(&k, MEGA_ERR_USAGE, "parameter number 17");

    k = begin();
    mega_graph_output(k.g, k.x, "y");
    expect_refusal(&k, MEGA_ERR_USAGE, "output \"y\"");

    k = begin();
    mega_op_gelu(k.g, (mega_tensor){0}, true);
    expect_refusal(&k, MEGA_ERR_USAGE, "operand 0 is missing");

    k = begin();
    mega_graph_region_begin(k.g);
    mega_graph_region_begin(k.g);
    expect_refusal(&k, MEGA_ERR_USAGE, "begins inside another");

    k = begin();
    mega_graph_region_end(k.g);
    expect_refusal(&k, MEGA_ERR_USAGE, "never began");

    k = begin();
    mega_op_dropout(k.g, k.x, 0.5, 1, (mega_tensor){0}, (mega_tensor){0});
    expect_refusal(&k, MEGA_ERR_USAGE, "sample ids and positions are missing");

    k = begin();
    mega_op_lm_head_loss(k.g, k.x, param_named(k.g, "bias"), k.x, k.x, &(mega_head_shape){.valid = 1});
    expect_refusal(&k, MEGA_ERR_USAGE, "[T, C] and [V, C]");
}

static void mistakes_of_a_program_are_named(void **state)
{
    (void)state;
    mega_program *p = NULL;
    mega_program_options o = {.differentiate = true, .name = "train"};
    sketch k = begin();
    mega_graph_output(k.g, mega_op_gelu(k.g, k.x, true), "y");
    assert_int_equal(mega_program_build(k.g, &o, &p), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "nothing to differentiate"));
    end(&k);

    k = begin(); /* take_rows has no gradient */
    const int64_t n = 2;
    const mega_tensor h = mega_op_linear(k.g, k.x, param_named(k.g, "weight"));
    const mega_tensor y = mega_op_take_rows(k.g, h, mega_graph_input(k.g, "rows", MEGA_I32, 1, &n));
    mega_graph_output(k.g, y, "y");
    mega_graph_seed_gradient(k.g, y, "seed");
    assert_int_equal(mega_program_build(k.g, &o, &p), MEGA_ERR_UNSUPPORTED);
    assert_non_null(strstr(mega_error_message(), "take_rows"));
    end(&k);

    k = begin(); /* an input that the loss does not depend on */
    const mega_tensor z = mega_op_gelu(k.g, mega_op_linear(k.g, k.x, param_named(k.g, "weight")), true);
    mega_graph_want_gradient(k.g, mega_graph_input(k.g, "unseen", MEGA_F32, 1, &n), "d_unseen");
    mega_graph_output(k.g, z, "y");
    mega_graph_seed_gradient(k.g, z, "seed");
    assert_int_equal(mega_program_build(k.g, &o, &p), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "\"unseen\""));
    end(&k);

    k = begin();
    mega_graph_region_begin(k.g);
    assert_int_equal(mega_program_build(k.g, &o, &p), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "not ended"));
    end(&k);

    mega_graph *g = NULL;
    assert_int_equal(mega_graph_create(MEGA_I32, NULL, NULL, &g), MEGA_ERR_UNSUPPORTED);
    need(mega_graph_create(MEGA_F64, NULL, NULL, &g));
    o.differentiate = false;
    assert_int_equal(mega_program_build(g, &o, &p), MEGA_ERR_UNSUPPORTED);
    assert_non_null(strstr(mega_error_message(), "plain backend"));
    assert_null(p);
}

static mega_tensor small_layer(sketch *k, mega_tensor *before_gelu)
{
    const mega_scope s = mega_scope_enter(k->g, "layer");
    *before_gelu =
        mega_op_bias_add(k->g, mega_op_linear(k->g, k->x, param_named(k->g, "weight")), param_named(k->g, "bias"));
    const mega_tensor y = mega_op_gelu(k->g, *before_gelu, true);
    mega_scope_leave(k->g, s);
    return y;
}

static mega_program *small_program(sketch *k, int slots, bool differentiate)
{
    mega_tensor y = small_layer(k, &y);
    y = mega_op_add(k->g, y, k->x);
    mega_graph_output(k->g, y, "y");
    mega_graph_seed_gradient(k->g, y, "seed");
    mega_program *p = NULL;
    const mega_program_options o = {.differentiate = differentiate, .slots = slots, .name = "small"};
    need(mega_program_build(k->g, &o, &p));
    return p;
}

static void memory_is_planned_before_it_is_allocated(void **state)
{
    (void)state;
    sketch k = begin();
    mega_program *p = small_program(&k, 3, true);
    mega_program_memory m;
    mega_program_memory_get(p, &m);
    assert_int_equal(m.slots, 3);
    assert_int_equal(m.total_bytes,
                     3 * m.saved_bytes + m.scratch_bytes + m.input_bytes + m.state_bytes + m.control_bytes);
    assert_true(m.saved_bytes >= 4 * 8 * sizeof(float) && m.saved_bytes % 64 == 0); /* gelu's operand */
    assert_int_equal(m.state_bytes, 0);
    assert_null(mega_program_tensor(p, "x", 0));
    need(mega_program_allocate(p));
    char *x[3];
    for (int s = 0; s < 3; s++) {
        x[s] = mega_program_tensor(p, "x", s);
        assert_int_equal((uintptr_t)x[s] % 64, 0);
        for (int o = 0; o < s; o++) assert_true(x[s] != x[o]);
    }
    assert_null(mega_program_tensor(p, "no such name", 0));
    assert_int_equal(mega_program_acc_dtype(p), MEGA_F32);
    assert_int_equal(mega_program_allocate(p), MEGA_ERR_USAGE); /* twice */
    mega_program_destroy(p);
    end(&k);
}

/* Tensors that only one phase reads or writes have `passes` copies; each slot has its own of those that the backward
 * reads again. */
static void slots_share_what_passes_through(void **state)
{
    (void)state;
    sketch k = begin();
    mega_tensor h;
    const mega_tensor y = small_layer(&k, &h);
    mega_graph_output(k.g, h, "h");
    mega_graph_output(k.g, y, "y");
    mega_graph_seed_gradient(k.g, y, "dy");
    mega_graph_want_gradient(k.g, k.x, "dx");
    mega_program *p = NULL;
    const mega_program_options o = {.differentiate = true, .slots = 4, .passes = 2, .name = "passing"};
    need(mega_program_build(k.g, &o, &p));
    need(mega_program_allocate(p));
    static const char *const name[] = {"x", "h", "y", "dy", "dx"};
    for (int n = 0; n < 5; n++)
        for (int s = 0; s < 4; s++)
            for (int other = 0; other < s; other++) {
                const bool same = mega_program_tensor(p, name[n], s) == mega_program_tensor(p, name[n], other);
                assert_int_equal(same, n >= 2 && s % 2 == other % 2);
            }
    mega_program_memory m;
    mega_program_memory_get(p, &m);
    assert_int_equal(m.input_bytes, (4 * 2 + 2 * 3) * 4 * 8 * sizeof(float));
    /* The printed program names the areas of memory of y and h. */
    mega_buffer text = {0};
    need(mega_program_print(p, &text));
    if (strstr(text.data, " passing+0.00") == NULL || strstr(text.data, " io+0.00") == NULL ||
        strstr(text.data, "state+") != NULL)
        fail_msg("expected passing+ and io+, and no state+, in\n%s", text.data);
    mega_buffer_fini(&text);
    mega_program_destroy(p);
    end(&k);
}

static void parameters_must_have_memory(void **state)
{
    (void)state;
    sketch k = begin();
    mega_params *bare = NULL;
    mega_graph_destroy(k.g);
    need(mega_params_create(k.layout, &bare));
    declare_like(bare, (mega_param){.init = MEGA_INIT_NORMAL, .init_std = 0.5}, "weight", 8, 8);
    declare_like(bare, (mega_param){.init = MEGA_INIT_NORMAL, .init_std = 0.5}, "bias", 8, 0);
    need(mega_params_place(bare, MEGA_F32, 0));
    mega_params *const allocated = k.params;
    k.params = bare;
    need(mega_graph_create(MEGA_F32, bare, k.layout, &k.g));
    const int64_t dim[2] = {4, 8};
    k.x = mega_graph_input(k.g, "x", MEGA_F32, 2, dim);
    mega_program *p = small_program(&k, 1, true);
    assert_int_equal(mega_program_allocate(p), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "mega_params_allocate"));
    mega_program_destroy(p);
    mega_params_destroy(allocated);
    end(&k);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    sketch k = begin();
    mega_graph_destroy(k.g);
    for (uint64_t n = 1;; n++) {
        mega_program *p = NULL;
        const int64_t dim[2] = {4, 8};
        mega_alloc_fail_at(n);
        k.g = NULL;
        mega_status st = mega_graph_create(MEGA_F32, k.params, k.layout, &k.g);
        if (st == MEGA_OK) {
            k.x = mega_graph_input(k.g, "x", MEGA_F32, 2, dim);
            mega_graph_region_begin(k.g);
            mega_tensor y = mega_op_linear(k.g, k.x, param_named(k.g, "weight"));
            y = mega_op_gelu(k.g, mega_op_bias_add(k.g, y, param_named(k.g, "bias")), true);
            mega_graph_region_end(k.g);
            mega_graph_output(k.g, y, "y");
            mega_graph_seed_gradient(k.g, y, "seed");
            const mega_program_options o = {.differentiate = true, .slots = 2, .name = "short of memory"};
            st = mega_program_build(k.g, &o, &p);
            if (st == MEGA_OK) st = mega_program_allocate(p);
        }
        mega_alloc_fail_at(0);
        if (st != MEGA_OK && p != NULL) { /* it holds a part of its memory */
            assert_int_equal(mega_program_forward(p, 0), MEGA_ERR_USAGE);
            assert_null(mega_program_tensor(p, "y", 0));
            st = mega_program_allocate(p);
            assert_true(st == MEGA_ERR_USAGE || st == MEGA_OK);
            st = MEGA_ERR_MEMORY;
        }
        mega_program_destroy(p);
        if (st == MEGA_OK) break;
        assert_int_equal(st, MEGA_ERR_MEMORY);
        assert_true(n < 1000);
    }
    end(&k);
}

static void fill(mega_program *p, const char *name, float value)
{
    float *x = mega_program_tensor(p, name, 0);
    for (int i = 0; i < 32; i++) x[i] = value * (float)(i + 1);
}

/* Runs a forward (and backward) while watched. Returns the first instruction whose output is not finite; -1: none. */
static int first_nonfinite(mega_program *p, bool backward, mega_nonfinite *found)
{
    found->instruction = -1;
    mega_program_watch(p, found);
    need(mega_program_forward(p, 0));
    if (backward) need(mega_program_backward(p, 0));
    mega_program_watch(p, NULL);
    return found->instruction;
}

static void the_first_value_that_is_not_finite_is_found(void **state)
{
    (void)state;
    sketch k = begin();
    mega_program *p = small_program(&k, 1, true);
    mega_nonfinite found;
    need(mega_program_allocate(p));
    fill(p, "x", 0.01f);
    fill(p, "seed", 1.0f);
    assert_int_equal(first_nonfinite(p, true, &found), -1);
    ((float *)mega_params_weight(k.params, 1))[3] = INFINITY; /* the bias */
    assert_true(first_nonfinite(p, false, &found) >= 0);
    assert_non_null(strstr(found.what.text, "op linear in \"layer\""));
    assert_non_null(strstr(found.what.text, "row 0, column 3"));
    ((float *)mega_params_weight(k.params, 1))[3] = 0.0f;
    ((float *)mega_program_tensor(p, "seed", 0))[9] = NAN;
    assert_int_equal(first_nonfinite(p, false, &found), -1);
    assert_true(first_nonfinite(p, true, &found) >= 0);
    assert_non_null(strstr(found.what.text, "backward"));
    assert_non_null(strstr(found.what.text, "gelu_grad"));
    mega_program_destroy(p);
    end(&k);
}

/* Returns whether a forward still computes after a signal has asked to stop. */
static bool computes_when_stopped(bool differentiate)
{
    volatile sig_atomic_t stop = 0;
    float before[32];
    sketch k = begin();
    mega_program *p = small_program(&k, 1, differentiate);
    need(mega_team_create(1, &p->team));
    mega_team_stop_on(p->team, &stop);
    need(mega_program_allocate(p));
    fill(p, "x", 0.01f);
    need(mega_program_forward(p, 0));
    memcpy(before, mega_program_tensor(p, "y", 0), sizeof before);
    fill(p, "x", 0.5f);
    stop = SIGTERM;
    need(mega_program_forward(p, 0));
    const bool computed = memcmp(before, mega_program_tensor(p, "y", 0), sizeof before) != 0;
    stop = 0;
    need(mega_program_forward(p, 0));
    assert_memory_not_equal(before, mega_program_tensor(p, "y", 0), sizeof before);
    mega_team *team = p->team;
    mega_program_destroy(p);
    mega_team_destroy(team);
    end(&k);
    return computed;
}

static void a_signal_leaves_a_program_that_only_reads(void **state)
{
    (void)state;
    assert_false(computes_when_stopped(false));
    assert_true(computes_when_stopped(true));
}

/* With MEGA_CHECK a run stops at the op that computed a value that is not finite; otherwise it gives the same
 * numbers. */
static void the_checked_walk_gives_the_same_numbers(void **state)
{
    (void)state;
    float y[2][32], d[2][64];
    char *const before = getenv("MEGA_CHECK") == NULL ? NULL : strdup(getenv("MEGA_CHECK"));
    for (int check = 0; check < 2; check++) {
        setenv("MEGA_CHECK", check == 0 ? "0" : "1", 1);
        sketch k = begin();
        mega_program *p = small_program(&k, 1, true);
        need(mega_program_allocate(p));
        fill(p, "x", 0.01f);
        fill(p, "seed", 0.3f);
        need(mega_program_forward(p, 0));
        need(mega_program_backward(p, 0));
        memcpy(y[check], mega_program_tensor(p, "y", 0), sizeof y[0]);
        memcpy(d[check], mega_params_grad(k.params, 0), sizeof d[0]);
        if (check == 1) {
            /* The memory of a dead value is filled with NaN, so that a use afterwards is noticed. */
            const plan_block *b = &p->block[0];
            const char *area = b->area == AREA_SAVED ? p->saved[0] : p->scratch;
            assert_true(isnan(((const float *)(area + b->at))[0]));
            ((float *)mega_program_tensor(p, "x", 0))[0] = NAN;
            assert_int_equal(mega_program_forward(p, 0), MEGA_ERR_NUMERIC);
        }
        mega_program_destroy(p);
        end(&k);
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_equal(d[0], d[1], sizeof d[0]);
    if (before != NULL) setenv("MEGA_CHECK", before, 1);
    else
        unsetenv("MEGA_CHECK");
    free(before);
}

static mega_program *state_program(sketch *k, const char *name, int64_t capacity, int slots, mega_program *states_of,
                                   mega_status expected)
{
    const int64_t dim[3] = {2, capacity, 8}, qkv[2] = {4, 24};
    mega_graph *g = NULL;
    need(mega_graph_create(MEGA_F32, k->params, k->layout, &g));
    const mega_scope s = mega_scope_enter(g, "h.0");
    const mega_tensor keys = mega_graph_state(g, "keys", MEGA_F32, 3, dim);
    const mega_tensor values = mega_graph_state(g, "values", MEGA_F32, 3, dim);
    mega_scope_leave(g, s);
    const mega_attention_shape a = {
        .batch = 2, .seq = 2, .heads = 1, .kv_heads = 1, .head_dim = 8, .scale = 1.0, .causal = true};
    const mega_tensor x = mega_graph_input(g, "qkv", MEGA_F32, 2, qkv);
    mega_graph_output(g, mega_op_attention_cached(g, (mega_attention_qkv){.q = x}, keys, values, &a), "y");
    mega_program *p = NULL;
    const mega_program_options o = {.name = name, .slots = slots, .states_of = states_of};
    assert_int_equal(mega_program_build(g, &o, &p), expected);
    return p;
}

static void states_are_shared_by_name(void **state)
{
    (void)state;
    sketch k = begin();
    mega_graph_destroy(k.g);
    mega_program *first = state_program(&k, "first", 6, 2, NULL, MEGA_OK);
    mega_program *second = state_program(&k, "second", 6, 2, first, MEGA_OK);
    assert_null(state_program(&k, "third", 7, 2, first, MEGA_ERR_USAGE));
    assert_non_null(strstr(mega_error_message(), "h.0.keys"));
    assert_null(state_program(&k, "fourth", 6, 3, first, MEGA_ERR_USAGE));
    assert_non_null(strstr(mega_error_message(), "fourth has 3 slots"));
    mega_program_memory m;
    mega_program_memory_get(second, &m);
    assert_int_equal(m.state_bytes, 0);
    mega_program_memory_get(first, &m);
    assert_int_equal(m.state_bytes, 2 * 2 * 2 * 6 * 8 * sizeof(float)); /* slots, keys and values, their shape */
    assert_int_equal(mega_program_allocate(second), MEGA_ERR_USAGE);    /* the first is not allocated yet */
    need(mega_program_allocate(first));
    need(mega_program_allocate(second));
    assert_non_null(mega_program_tensor(first, "h.0.keys", 0));
    for (int slot = 0; slot < 2; slot++)
        assert_ptr_equal(mega_program_tensor(first, "h.0.keys", slot), mega_program_tensor(second, "h.0.keys", slot));
    assert_ptr_not_equal(mega_program_tensor(first, "h.0.keys", 0), mega_program_tensor(first, "h.0.keys", 1));
    assert_ptr_not_equal(mega_program_tensor(first, "h.0.values", 0), mega_program_tensor(first, "h.0.keys", 1));
    mega_program_destroy(second);
    mega_program_destroy(first);
    end(&k);
}

static void the_printed_program_is_this_text(void **state)
{
    (void)state;
    char *const before = getenv("MEGA_CHECK") == NULL ? NULL : strdup(getenv("MEGA_CHECK"));
    unsetenv("MEGA_CHECK"); /* canaries would change the offsets */
    sketch k = begin();
    mega_program *p = small_program(&k, 1, true);
    mega_buffer text = {0};
    need(mega_program_print(p, &text));
    static const char *const parts[] = {"forward · small · f32 · saved ",
                                        "linear",
                                        "layer",
                                        "[4, 8] f32",
                                        "scratch+0.00",
                                        "x weight bias",
                                        "gelu_grad",
                                        "→ d(bias)",
                                        "d(weight)",
                                        "gradients",
                                        "forward 0.000 GFLOP"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(text.data, parts[i]) == NULL) fail_msg("expected \"%s\" in\n%s", parts[i], text.data);
    assert_int_equal(mega_program_num_instructions(p, false), 3);
    assert_int_equal(mega_program_num_instructions(p, true), 2);
    mega_program_cost c;
    mega_program_cost_get(p, &c);
    assert_true(c.forward_flops == 2.0 * 4 * 8 * 8 && c.backward_flops == c.forward_flops);
    mega_buffer_fini(&text);
    mega_program_destroy(p);
    end(&k);
    if (before != NULL) setenv("MEGA_CHECK", before, 1);
    free(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_of_a_description_are_named),
        cmocka_unit_test(mistakes_of_a_program_are_named),
        cmocka_unit_test(memory_is_planned_before_it_is_allocated),
        cmocka_unit_test(slots_share_what_passes_through),
        cmocka_unit_test(parameters_must_have_memory),
        cmocka_unit_test(every_failed_allocation_is_reported),
        cmocka_unit_test(the_first_value_that_is_not_finite_is_found),
        cmocka_unit_test(a_signal_leaves_a_program_that_only_reads),
        cmocka_unit_test(the_checked_walk_gives_the_same_numbers),
        cmocka_unit_test(states_are_shared_by_name),
        cmocka_unit_test(the_printed_program_is_this_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
