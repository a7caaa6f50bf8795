/* Compares the frequencies of rotary embeddings with those of transformers, and attention layers with PyTorch, in
 * float64: tests/golden/attention.json, made by tools/make_attention_golden.py. Each layer runs over the whole sequence
 * and, as in generation, position by position with a cache. */
#include "kit.h"
#include "megalith/layers.h"
#include "megalith/memory.h"
#include "megalith/program.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

static json_t *load(const char *name)
{
    json_error_t error;
    json_t *golden = json_load_file(mega_kit_source("tests/golden/attention.json"), 0, &error);
    if (golden == NULL) fail_msg("attention.json: %s", error.text);
    json_t *found = json_incref(json_object_get(golden, name));
    json_decref(golden);
    assert_non_null(found);
    return found;
}

static double real(const json_t *from, const char *name)
{
    return json_number_value(json_object_get(from, name));
}

static int64_t whole(const json_t *from, const char *name)
{
    return (int64_t)real(from, name);
}

static const char *text(const json_t *from, const char *name)
{
    const char *t = json_string_value(json_object_get(from, name));
    return t != NULL ? t : "";
}

/* The numbers of a list, to be freed. */
static double *numbers(const json_t *from, const char *name)
{
    const json_t *list = json_object_get(from, name);
    double *x = mega_calloc(json_array_size(list) + 1, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < json_array_size(list); i++) x[i] = json_number_value(json_array_get(list, i));
    return x;
}

/* ---- frequencies ---- */

/* The rope of one row of the file, and its lists, to be freed. */
typedef struct golden_rope {
    mega_rope rope;
    double *long_factor, *short_factor;
} golden_rope;

static golden_rope rope_of(const json_t *row)
{
    static const char *const kind[] = {"default", "linear", "dynamic", "yarn", "llama3", "longrope"};
    const json_t *p = json_object_get(row, "parameters");
    golden_rope g = {.long_factor = numbers(p, "long_factor"), .short_factor = numbers(p, "short_factor")};
    mega_rope *r = &g.rope;
    for (int i = 0; i < 6; i++)
        if (strcmp(kind[i], text(p, "rope_type")) == 0) r->scaling = (mega_rope_scaling)i;
    r->theta = json_object_get(p, "rope_theta") != NULL ? real(p, "rope_theta") : 10000.0;
    r->fraction = real(p, "partial_rotary_factor");
    r->factor = real(p, "factor");
    r->beta_fast = real(p, "beta_fast");
    r->beta_slow = real(p, "beta_slow");
    r->attention_factor = real(p, "attention_factor");
    r->mscale = real(p, "mscale");
    r->mscale_all_dim = real(p, "mscale_all_dim");
    r->low_freq_factor = real(p, "low_freq_factor");
    r->high_freq_factor = real(p, "high_freq_factor");
    r->no_truncate = json_is_false(json_object_get(p, "truncate"));
    r->original_positions = whole(p, "original_max_position_embeddings");
    r->max_positions = whole(row, "max_positions");
    r->long_factor = g.long_factor;
    r->short_factor = g.short_factor;
    return g;
}

static void free_rope(golden_rope *g)
{
    mega_free(g->long_factor);
    mega_free(g->short_factor);
}

/* The powers of PyTorch are not always rounded to the nearest float: one unit in the last place is allowed. */
static void frequencies_agree(void **state)
{
    json_t *list = load("ropes");
    (void)state;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        golden_rope g = rope_of(row);
        double *expected = numbers(row, "frequencies"), factor = 0.0;
        float found[256] = {0};
        const size_t count = json_array_size(json_object_get(row, "frequencies"));
        assert_true(count > 0 && count < 256);
        need(mega_rope_frequencies(&g.rope, whole(row, "head_dim"), whole(row, "length"), found, &factor));
        for (size_t k = 0; k < count; k++)
            if (!(fabs((double)found[k] / expected[k] - 1.0) <= 1.2e-7))
                fail_msg("%s: frequency %zu is %.9g, expected %.9g", text(row, "name"), k, (double)found[k],
                         expected[k]);
        assert_true(found[count] == 0.0f);
        if (!(fabs(factor - real(row, "factor")) <= 1e-15)) fail_msg("%s: factor %.17g", text(row, "name"), factor);
        mega_free(expected);
        free_rope(&g);
    }
    json_decref(list);
}

static void expect_refused(mega_rope rope, int64_t head_dim, const char *message)
{
    float out[64];
    double factor;
    assert_int_equal(mega_rope_frequencies(&rope, head_dim, 10, out, &factor), MEGA_ERR_USAGE);
    if (strstr(mega_error_message(), message) == NULL)
        fail_msg("expected \"%s\" in: %s", message, mega_error_message());
}

static void mistakes_are_refused(void **state)
{
    (void)state;
    expect_refused((mega_rope){.theta = 0.5}, 8, "theta 0.5; expected a finite number above 1");
    expect_refused((mega_rope){.theta = 1e4, .fraction = 1.5}, 8, "fraction 1.5 of the channels");
    expect_refused((mega_rope){.theta = 1e4, .fraction = 0.4}, 8, "3 channels of a head are rotated");
    expect_refused((mega_rope){.theta = 1e4, .scaling = (mega_rope_scaling)9}, 8, "scaling 9; expected one of");
    expect_refused((mega_rope){.theta = 1e4, .scaling = MEGA_ROPE_LINEAR}, 8, "scaling linear needs a factor");
    expect_refused((mega_rope){.theta = 1e4, .scaling = MEGA_ROPE_DYNAMIC, .factor = 2}, 8, "needs max_positions");
    expect_refused((mega_rope){.theta = 1e4, .scaling = MEGA_ROPE_YARN, .factor = 2}, 8, "needs original_positions");
    expect_refused((mega_rope){.theta = 1e4, .scaling = MEGA_ROPE_LLAMA3, .factor = 2, .original_positions = 8}, 8,
                   "needs low_freq_factor above 0");
    expect_refused((mega_rope){.theta = 1e4, .scaling = MEGA_ROPE_LONGROPE, .factor = 2, .original_positions = 8}, 8,
                   "needs long_factor and short_factor");
}

/* ---- layers ---- */

/* A layer of the file: its sizes, and its programs over the whole sequence and over one position with a cache. */
typedef struct golden_layer {
    const json_t *row;
    int64_t B, S, C, H, G, D;
    golden_rope rope;
    mega_layout *layout;
    mega_params *params;
    mega_program *sequence, *position;
} golden_layer;

static golden_rope rope_named(const char *name)
{
    json_t *list = load("ropes");
    golden_rope found = {.long_factor = NULL};
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(text(json_array_get(list, i), "name"), name) == 0) found = rope_of(json_array_get(list, i));
    json_decref(list);
    return found;
}

static mega_tensor describe(const golden_layer *l, const mega_builder *b, mega_tensor x)
{
    const mega_linear_options qkv = {.no_bias = true,
                                     .weight = {.num_parts = 3,
                                                .part = {{.file = "q_proj.weight", .rows = l->H * l->D},
                                                         {.file = "k_proj.weight", .rows = l->G * l->D},
                                                         {.file = "v_proj.weight", .rows = l->G * l->D}}}};
    const mega_linear_options out = {.no_bias = true};
    const json_t *norm = json_object_get(l->row, "norm");
    const char *kind = json_string_value(json_array_get(norm, 0)), *over = json_string_value(json_array_get(norm, 1));
    const mega_attention_options o = {
        .num_heads = l->H,
        .num_kv_heads = l->G,
        .head_dim = l->D,
        .scale = real(l->row, "scale"),
        .softcap = real(l->row, "softcap"),
        .is_causal = true,
        .has_window = json_object_get(l->row, "window") != NULL,
        .window_left = whole(l->row, "window") - 1,
        .alibi = json_is_true(json_object_get(l->row, "alibi")),
        .rope = &l->rope.rope,
        .qk_norm = over == NULL                ? MEGA_QK_NORM_NONE
                   : strcmp(over, "head") == 0 ? MEGA_QK_NORM_HEAD
                                               : MEGA_QK_NORM_ALL,
        .qk_norm_options = {.kind = kind != NULL && strcmp(kind, "rms") == 0 ? MEGA_RMS_NORM : MEGA_LAYER_NORM,
                            .epsilon = 1e-6,
                            .no_bias = true},
        .q_norm_name = "q_norm",
        .k_norm_name = "k_norm",
        .qkv = &qkv,
        .out = &out,
        .qkv_name = "qkv",
        .out_name = "o_proj"};
    return mega_self_attention(b, "attn", x, &o);
}

/* Number i of tensor n (tools/make_attention_golden.py). */
static double number(int n, int64_t i)
{
    return sin(1.7 * (double)i + n) / 2;
}

static void set(const golden_layer *l, const char *name, int64_t first, int n, int64_t count)
{
    const int index = mega_params_find(l->params, name);
    if (index < 0) fail_msg("there is no parameter %s", name);
    double *w = mega_params_master(l->params, index);
    for (int64_t i = 0; i < count; i++) w[first + i] = number(n, i);
}

/* Q, K and V are one parameter, or three. */
static bool is_apart(const golden_layer *l)
{
    return mega_params_find(l->params, "m.qkv.weight") < 0;
}

static void set_weights(const golden_layer *l)
{
    static const char *const apart[] = {"m.qkv_q.weight", "m.qkv_k.weight", "m.qkv_v.weight"};
    const json_t *norm = json_object_get(l->row, "norm");
    int64_t first = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t count = (i == 0 ? l->H : l->G) * l->D * l->C;
        set(l, is_apart(l) ? apart[i] : "m.qkv.weight", is_apart(l) ? 0 : first, 2 + i, count);
        first += count;
    }
    set(l, "m.o_proj.weight", 0, 5, l->C * l->H * l->D);
    if (norm == NULL) return;
    const bool is_head = strcmp(json_string_value(json_array_get(norm, 1)), "head") == 0;
    set(l, "m.q_norm.weight", 0, 6, is_head ? l->D : l->H * l->D);
    set(l, "m.k_norm.weight", 0, 7, is_head ? l->D : l->G * l->D);
}

static mega_program *build(const golden_layer *l, mega_graph *g, const char *name)
{
    const mega_program_options o = {
        .backend = MEGA_BACKEND_PLAIN, .name = name, .differentiate = strcmp(name, "sequence") == 0};
    mega_program *p = NULL;
    need(mega_program_build(g, &o, &p));
    need(mega_program_allocate(p));
    mega_program_step_block(p)->loss_factor = 1.0;
    mega_program_step_block(p)->first_micro_batch = mega_program_step_block(p)->last_micro_batch = true;
    (void)l;
    return p;
}

static void open_layer(golden_layer *l)
{
    need(mega_layout_create(NULL, NULL, &l->layout));
    need(mega_params_create(l->layout, &l->params));
    mega_builder b = {.layout = l->layout, .samples = l->B, .positions = l->S, .path = "m"};
    mega_builder one = {
        .layout = l->layout, .samples = l->B, .positions = 1, .cache = l->S + 1, .mode = MEGA_GENERATE, .path = "m"};
    one.length = l->S; /* a window shorter than the sequence is a ring */
    need(mega_graph_create(MEGA_F64, l->params, l->layout, &b.graph));
    need(mega_graph_create(MEGA_F64, l->params, l->layout, &one.graph));
    const mega_tensor x = mega_input(&b, "x", MEGA_F64, l->S, l->C);
    mega_graph_want_gradient(b.graph, x, "dx");
    const mega_tensor y = describe(l, &b, x);
    need(mega_graph_status(b.graph));
    mega_graph_output(b.graph, y, "y");
    mega_graph_seed_gradient(b.graph, y, "dy");
    mega_graph_output(one.graph, describe(l, &one, mega_input(&one, "x", MEGA_F64, 1, l->C)), "y");
    need(mega_params_place(l->params, MEGA_F64, 0));
    need(mega_params_allocate(l->params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    set_weights(l);
    l->sequence = build(l, b.graph, "sequence");
    l->position = build(l, one.graph, "position");
}

static void close_layer(golden_layer *l)
{
    mega_program_destroy(l->sequence);
    mega_program_destroy(l->position);
    mega_params_destroy(l->params);
    mega_layout_destroy(l->layout);
    free_rope(&l->rope);
}

static void agrees(const golden_layer *l, const char *name, const char *what, const double *x)
{
    double *expected = numbers(l->row, name);
    const int64_t count = (int64_t)json_array_size(json_object_get(l->row, name));
    const double error = mega_kit_relative_error_f64(x, expected, count);
    mega_free(expected);
    assert_true(count > 0);
    if (!(error <= 1e-12)) fail_msg("%s, %s%s: relative error %.3g", text(l->row, "name"), name, what, error);
}

static const double *gradient(const golden_layer *l, const char *name)
{
    return mega_params_grad(l->params, mega_params_find(l->params, name));
}

static void run_sequence(const golden_layer *l)
{
    mega_program *p = l->sequence;
    double *x = mega_program_tensor(p, "x", 0), *dy = mega_program_tensor(p, "dy", 0);
    int32_t *position = mega_program_tensor(p, "position_ids", 0);
    for (int64_t i = 0; i < l->B * l->S * l->C; i++) x[i] = number(1, i), dy[i] = number(8, i);
    for (int64_t t = 0; t < l->B * l->S; t++) {
        ((int32_t *)mega_program_tensor(p, "key_begin", 0))[t] = 0;
        ((int32_t *)mega_program_tensor(p, "sample_id", 0))[t] = (int32_t)(t / l->S);
        if (position != NULL) position[t] = (int32_t)(t % l->S);
    }
    need(mega_program_forward(p, 0));
    need(mega_program_backward(p, 0));
    agrees(l, "y", "", mega_program_tensor(p, "y", 0));
    agrees(l, "dx", "", mega_program_tensor(p, "dx", 0));
    agrees(l, "dout", "", gradient(l, "m.o_proj.weight"));
}

/* Gradients of the weights of Q, K and V, one after the other as in the file. */
static void check_weights(const golden_layer *l)
{
    static const char *const apart[] = {"m.qkv_q.weight", "m.qkv_k.weight", "m.qkv_v.weight"};
    const int64_t q = l->H * l->D * l->C, kv = l->G * l->D * l->C;
    double *joined = mega_calloc((size_t)(q + 2 * kv), sizeof *joined);
    assert_non_null(joined);
    for (int i = 0; i < 3 && is_apart(l); i++)
        memcpy(joined + (i == 0 ? 0 : q + (i - 1) * kv), gradient(l, apart[i]),
               (size_t)(i == 0 ? q : kv) * sizeof *joined);
    agrees(l, "dqkv", "", is_apart(l) ? joined : gradient(l, "m.qkv.weight"));
    mega_free(joined);
    if (json_object_get(l->row, "norm") == NULL) return;
    agrees(l, "dq_norm", "", gradient(l, "m.q_norm.weight"));
    agrees(l, "dk_norm", "", gradient(l, "m.k_norm.weight"));
}

static void run_by_position(const golden_layer *l)
{
    mega_program *p = l->position;
    const size_t row = (size_t)l->C * sizeof(double);
    int32_t *filled = mega_calloc((size_t)l->B, sizeof *filled);
    double *y = mega_calloc((size_t)(l->B * l->S * l->C), sizeof *y);
    int32_t *position = mega_program_tensor(p, "position_ids", 0);
    assert_true(filled != NULL && y != NULL);
    mega_program_step_block(p)->kv_length = filled;
    for (int64_t i = 0; i < l->S; i++) {
        for (int64_t b = 0; b < l->B; b++) {
            double *x = (double *)mega_program_tensor(p, "x", 0) + b * l->C;
            for (int64_t c = 0; c < l->C; c++) x[c] = number(1, (b * l->S + i) * l->C + c);
            filled[b] = (int32_t)i;
            if (position != NULL) position[b] = (int32_t)i;
        }
        need(mega_program_forward(p, 0));
        for (int64_t b = 0; b < l->B; b++)
            memcpy(y + (b * l->S + i) * l->C, (const double *)mega_program_tensor(p, "y", 0) + b * l->C, row);
    }
    agrees(l, "y", " by position", y);
    mega_free(filled);
    mega_free(y);
}

static void layers_agree(void **state)
{
    json_t *list = load("layers");
    (void)state;
    for (size_t i = 0; i < json_array_size(list); i++) {
        golden_layer l = {.row = json_array_get(list, i)};
        int64_t *const size[] = {&l.B, &l.S, &l.C, &l.H, &l.G, &l.D};
        for (size_t k = 0; k < 6; k++)
            *size[k] = json_integer_value(json_array_get(json_object_get(l.row, "shape"), k));
        l.rope = rope_named(text(l.row, "rope"));
        l.rope.rope.interleaved = json_is_true(json_object_get(l.row, "interleaved"));
        open_layer(&l);
        run_sequence(&l);
        check_weights(&l);
        run_by_position(&l);
        close_layer(&l);
    }
    json_decref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_agree),
        cmocka_unit_test(mistakes_are_refused),
        cmocka_unit_test(layers_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
