/* Compares blocks of T5 (t5_blocks.h) with transformers in float64, results and all gradients: tests/golden/t5.json,
 * made by tools/make_t5_golden.py. An encoder of two blocks, which share a table of biases, and a decoder of one, with
 * sequences of different length; the end of one source is padding. */
#include "kit.h"
#include "megalith/memory.h"
#include "megalith/program.h"
#include "megalith/t5_blocks.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

static int64_t whole(const json_t *from, const char *name)
{
    return json_integer_value(json_object_get(from, name));
}

/* Number i of tensor n (tools/make_t5_golden.py). */
static double number(int64_t n, int64_t i)
{
    return sin(1.7 * (double)i + (double)n) / 2;
}

typedef struct model {
    const json_t *golden, *row;
    int64_t B, S, T, C; /* samples; positions of source and target; channels */
    mega_layout *layout;
    mega_params *params;
    mega_program *program;
} model;

static mega_tensor last_norm(const mega_builder *b, mega_tensor x)
{
    const mega_norm_options n = {.kind = MEGA_RMS_NORM, .epsilon = 1e-6};
    return mega_norm_with(b, "final_layer_norm", x, &n);
}

static mega_t5_options options_of(const model *m)
{
    const bool is_gated = json_is_true(json_object_get(m->row, "gated"));
    return (mega_t5_options){.num_heads = whole(m->row, "heads"),
                             .head_dim = whole(m->row, "head_dim"),
                             .ffn_channels = whole(m->row, "ffn"),
                             .activation = is_gated ? MEGA_ACT_GELU_TANH : MEGA_ACT_RELU,
                             .is_gated = is_gated,
                             .bias_distance = whole(m->row, "distance")};
}

static void describe(const model *m, const mega_builder *b)
{
    static const char table[] = "block.0.layer.0.SelfAttention.relative_attention_bias";
    const mega_builder encoder = mega_builder_at(b, "encoder");
    mega_builder decoder = mega_builder_at(b, "decoder");
    mega_t5_options o = options_of(m);
    const int64_t buckets = whole(m->row, "buckets");
    mega_tensor x = mega_input(&encoder, "x", MEGA_F64, m->S, m->C);
    mega_graph_want_gradient(b->graph, x, "dx");
    o.key_end = o.source_end = "source_end";
    o.bias = mega_attention_bias(&encoder, table, buckets, o.num_heads, NULL);
    for (int i = 0; i < 2; i++) {
        const mega_builder block = mega_builder_at(&encoder, "block.%d", i);
        x = mega_t5_encoder_block(&block, x, &o);
    }
    x = last_norm(&encoder, x);
    decoder.positions = m->T;
    mega_tensor z = mega_input(&decoder, "z", MEGA_F64, m->T, m->C);
    mega_graph_want_gradient(b->graph, z, "dz");
    o.key_end = NULL, o.source_end = "seen_of_source";
    o.bias = mega_attention_bias(&decoder, table, buckets, o.num_heads, NULL);
    const mega_builder block = mega_builder_at(&decoder, "block.0");
    z = last_norm(&decoder, mega_t5_decoder_block(&block, z, x, m->S, &o));
    mega_graph_output(b->graph, z, "y");
    mega_graph_seed_gradient(b->graph, z, "dy");
}

/* Finds the tensor of the file, and the element of it, that is element k of a parameter. */
static const char *place_of(const model *m, const mega_param *p, int64_t k, int64_t *element)
{
    mega_param_stretch stretch[MEGA_PARAM_PARTS];
    const int count = mega_param_stretches(p, mega_params_cut(m->params, p), stretch);
    const int64_t columns = p->local_shape[1] > 0 ? p->local_shape[1] : 1, row = k / columns;
    for (int i = 0; i < count; i++) {
        const bool by_columns = p->axis == MEGA_AXIS_TP && p->cut_dim == 1; /* on one rank all of them */
        const int64_t along = row - stretch[i].local;
        if (!by_columns && (along < 0 || along >= stretch[i].rows)) continue;
        *element = by_columns ? k : (stretch[i].file + along) * columns + k % columns;
        return mega_param_file_name(p, stretch[i].tensor);
    }
    fail_msg("%s: element %lld is in no part", p->name, (long long)k);
    return NULL;
}

static void set_weights(const model *m)
{
    for (int i = 0; i < mega_params_count(m->params); i++) {
        const mega_param *p = mega_params_get(m->params, i);
        double *w = mega_params_master(m->params, i);
        for (int64_t k = 0; k < p->count; k++) {
            int64_t at;
            const char *name = place_of(m, p, k, &at);
            const json_t *n = json_object_get(json_object_get(m->row, "weights"), name);
            if (n == NULL) fail_msg("transformers has no parameter %s", name);
            w[k] = number(json_integer_value(n), at);
        }
    }
}

/* As errors of elements, relative to the largest number of the tensor. */
static void agrees(const model *m, const char *name, const json_t *list, const double *x, int64_t count)
{
    double most = 0.0, error = 0.0;
    assert_int_equal(json_array_size(list), count);
    for (int64_t i = 0; i < count; i++) {
        const double expected = json_number_value(json_array_get(list, (size_t)i));
        most = fmax(most, fabs(expected));
        error = fmax(error, fabs(x[i] - expected));
    }
    if (!(error <= 1e-9 * most))
        fail_msg("%s, %s: error %.3g of %.3g", json_string_value(json_object_get(m->row, "name")), name, error, most);
}

/* Every tensor of transformers has its gradient. */
static void check_gradients(const model *m)
{
    const char *name;
    json_t *list;
    json_object_foreach(json_object_get(m->row, "gradients"), name, list)
    {
        const int64_t count = (int64_t)json_array_size(list);
        double *x = mega_calloc((size_t)count, sizeof *x);
        assert_non_null(x);
        for (int n = 0; n < mega_params_count(m->params); n++) {
            const mega_param *p = mega_params_get(m->params, n);
            const double *gradient = mega_params_grad(m->params, n);
            for (int64_t k = 0; k < p->count; k++) {
                int64_t at;
                if (strcmp(place_of(m, p, k, &at), name) == 0) x[at] = gradient[k];
            }
        }
        agrees(m, name, list, x, count);
        mega_free(x);
    }
}

static void set_inputs(const model *m)
{
    mega_program *p = m->program;
    double *x = mega_program_tensor(p, "x", 0), *z = mega_program_tensor(p, "z", 0);
    double *dy = mega_program_tensor(p, "dy", 0);
    int32_t *end = mega_program_tensor(p, "source_end", 0), *seen = mega_program_tensor(p, "seen_of_source", 0);
    for (int64_t i = 0; i < m->B * m->S * m->C; i++) x[i] = number(1, i);
    for (int64_t i = 0; i < m->B * m->T * m->C; i++) z[i] = number(2, i), dy[i] = number(3, i);
    for (int64_t b = 0; b < m->B; b++) {
        const json_t *length = json_array_get(json_object_get(m->golden, "lengths"), (size_t)b);
        for (int64_t i = 0; i < m->S; i++) end[b * m->S + i] = (int32_t)json_integer_value(length);
        for (int64_t i = 0; i < m->T; i++) seen[b * m->T + i] = (int32_t)json_integer_value(length);
    }
}

static void blocks_agree_in(const json_t *golden, const json_t *row)
{
    model m = {.golden = golden, .row = row, .B = whole(golden, "batch"), .S = whole(golden, "source")};
    m.T = whole(golden, "target"), m.C = whole(golden, "channels");
    need(mega_layout_create(NULL, NULL, &m.layout));
    need(mega_params_create(m.layout, &m.params));
    mega_builder b = {.layout = m.layout, .samples = m.B, .positions = m.S};
    need(mega_graph_create(MEGA_F64, m.params, m.layout, &b.graph));
    describe(&m, &b);
    need(mega_graph_status(b.graph));
    need(mega_params_place(m.params, MEGA_F64, 0));
    need(mega_params_allocate(m.params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    set_weights(&m);
    const mega_program_options o = {.backend = MEGA_BACKEND_PLAIN, .name = "t5", .differentiate = true};
    need(mega_program_build(b.graph, &o, &m.program));
    need(mega_program_allocate(m.program));
    mega_step_block *step = mega_program_step_block(m.program);
    step->loss_factor = 1.0;
    step->first_micro_batch = step->last_micro_batch = true;
    set_inputs(&m);
    need(mega_program_forward(m.program, 0));
    need(mega_program_backward(m.program, 0));
    agrees(&m, "y", json_object_get(row, "y"), mega_program_tensor(m.program, "y", 0), m.B * m.T * m.C);
    agrees(&m, "dx", json_object_get(row, "dx"), mega_program_tensor(m.program, "dx", 0), m.B * m.S * m.C);
    agrees(&m, "dz", json_object_get(row, "dz"), mega_program_tensor(m.program, "dz", 0), m.B * m.T * m.C);
    check_gradients(&m);
    mega_program_destroy(m.program);
    mega_params_destroy(m.params);
    mega_layout_destroy(m.layout);
}

static void blocks_agree(void **state)
{
    json_error_t error;
    json_t *golden = json_load_file(mega_kit_source("tests/golden/t5.json"), 0, &error);
    (void)state;
    if (golden == NULL) fail_msg("t5.json: %s", error.text);
    const json_t *cases = json_object_get(golden, "cases");
    assert_int_equal(json_array_size(cases), 2);
    for (size_t i = 0; i < json_array_size(cases); i++) blocks_agree_in(golden, json_array_get(cases, i));
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
