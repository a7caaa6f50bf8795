/* Layers cut over tp, without ranks: the program of each of two ranks runs alone over a group of one, so that its
 * reduction leaves that rank's summand. The summands together are what one rank computes. */
#include "kit.h"
#include "megalith/layers.h"
#include "megalith/memory.h"
#include "megalith/program.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { B = 2, S = 6, T = B * S, C = 16, F = 24, HEADS = 4, VOCAB = 21, PADDED = 24 };

static void must(mega_status st)
{
    if (st != MEGA_OK) fail_msg("%s", mega_error_message());
}

typedef mega_tensor describe_layer(const mega_place *at, mega_tensor x, const mega_rows *rows);

static mega_tensor mlp(const mega_place *at, mega_tensor x, const mega_rows *rows)
{
    (void)rows;
    return mega_row_linear(at, "down", mega_gelu(at, "act", mega_column_linear(at, "up", x), true));
}

static mega_tensor attention(const mega_place *at, mega_tensor x, const mega_rows *rows)
{
    const mega_self_attention_shape s = {.heads = HEADS, .head_dim = C / HEADS, .dropout = 0.3, .site = 8};
    return mega_self_attention(at, x, rows, &s);
}

static mega_tensor embed(const mega_place *at, mega_tensor x, const mega_rows *rows)
{
    (void)x;
    return mega_vocab_embedding(at, "wte", rows->seq_position); /* any ids do */
}

static void declare(mega_params *p)
{
    const mega_linear_shape up = {.in = C, .out = F, .blocks = 1, .init_std = 0.4},
                            down = {.in = F, .out = C, .blocks = 1, .init_std = 0.4},
                            qkv = {.in = C, .out = 3 * C, .blocks = 3, .init_std = 0.4},
                            proj = {.in = C, .out = C, .blocks = 1, .init_std = 0.4};
    must(mega_declare_column_linear(p, "m", "up", &up));
    must(mega_declare_row_linear(p, "m", "down", &down));
    must(mega_declare_column_linear(p, "m", "attn.c_attn", &qkv));
    must(mega_declare_row_linear(p, "m", "attn.c_proj", &proj));
    must(mega_declare_vocab_embedding(p, "m", "wte", VOCAB, PADDED, C, &proj));
}

/* Result of one rank of `size`, biases of row layers left out (they are zero at the start). */
static void run(describe_layer *describe, int rank, int size, double *y)
{
    mega_layout *one = NULL;
    mega_params *params = NULL;
    mega_graph *g = NULL;
    mega_program *p = NULL;
    must(mega_layout_create(&one, NULL, NULL));
    mega_layout layout = *one;
    layout.tp.rank = rank;
    layout.tp.size = size;
    must(mega_params_create(&params, &layout));
    declare(params);
    must(mega_params_place(params, MEGA_F64, 0));
    must(mega_params_allocate(params, MEGA_PARAMS_WEIGHTS));
    must(mega_params_initialize(params, 6));
    must(mega_graph_create(&g, MEGA_F64, params, &layout));
    const mega_place at = {.graph = g, .params = params, .layout = &layout, .path = "m"};
    const int64_t tokens = T, dim[2] = {T, C};
    const mega_tensor x = mega_graph_input(g, "x", MEGA_F64, 2, dim);
    const mega_rows rows = {.batch = B,
                            .seq = S,
                            .sample_id = mega_graph_input(g, "sample_id", MEGA_I32, 1, &tokens),
                            .seq_position = mega_graph_input(g, "seq_position", MEGA_I32, 1, &tokens)};
    mega_graph_output(g, describe(&at, x, &rows), "y");
    const mega_program_options o = {.backend = MEGA_PROGRAM_PLAIN, .name = "layer"};
    must(mega_program_build(&p, g, &o));
    must(mega_program_allocate(p));
    mega_program_step(p)->seed = 5;
    float random[T * C];
    mega_kit_normal(random, T * C, 3);
    for (int i = 0; i < T * C; i++) ((double *)mega_program_tensor(p, "x", 0))[i] = (double)random[i];
    for (int t = 0; t < T; t++) {
        ((int32_t *)mega_program_tensor(p, "sample_id", 0))[t] = 40 + t / S;
        ((int32_t *)mega_program_tensor(p, "seq_position", 0))[t] = (t * 7) % VOCAB;
    }
    must(mega_program_forward(p, 0));
    memcpy(y, mega_program_tensor(p, "y", 0), T * C * sizeof *y);
    mega_program_destroy(p);
    mega_params_destroy(params);
    mega_layout_destroy(one);
}

static void summands_are_the_whole(describe_layer *describe)
{
    double whole[T * C], part[T * C], sum[T * C] = {0};
    run(describe, 0, 1, whole);
    for (int rank = 0; rank < 2; rank++) {
        run(describe, rank, 2, part);
        assert_true(mega_kit_relative_error_f64(part, whole, T * C) > 0.1); /* each rank has a real share */
        for (int i = 0; i < T * C; i++) sum[i] += part[i];
    }
    assert_true(mega_kit_relative_error_f64(sum, whole, T * C) <= 1e-14);
}

static void column_and_row_linear(void **state)
{
    (void)state;
    summands_are_the_whole(mlp);
}

/* Dropout of the probabilities is on: masks are addressed by the head's number in the whole model. */
static void self_attention(void **state)
{
    (void)state;
    summands_are_the_whole(attention);
}

static void vocabulary_embedding(void **state)
{
    (void)state;
    summands_are_the_whole(embed);
}

/* Where all logits are 0, every real id is equally likely, and the padding of the vocabulary is none. */
static void the_loss_knows_no_padding(void **state)
{
    (void)state;
    mega_layout *one = NULL;
    mega_params *params = NULL;
    mega_graph *g = NULL;
    mega_program *p = NULL;
    must(mega_layout_create(&one, NULL, NULL));
    must(mega_params_create(&params, one));
    declare(params);
    must(mega_params_place(params, MEGA_F64, 0));
    must(mega_params_allocate(params, MEGA_PARAMS_WEIGHTS));
    memset(mega_params_flat_master(params), 0, (size_t)mega_params_elements(params) * sizeof(double));
    must(mega_graph_create(&g, MEGA_F64, params, one));
    const mega_place at = {.graph = g, .params = params, .layout = one, .path = "m"};
    const int64_t tokens = T, dim[2] = {T, C};
    const mega_tensor x = mega_graph_input(g, "x", MEGA_F64, 2, dim);
    const mega_tensor ids = mega_graph_input(g, "ids", MEGA_I32, 1, &tokens);
    const mega_tensor mask = mega_graph_input(g, "mask", MEGA_F32, 1, &tokens);
    mega_graph_output(g, mega_vocab_head_loss(&at, "wte", x, ids, mask, VOCAB, false, false).token_loss, "loss");
    const mega_program_options o = {.backend = MEGA_PROGRAM_PLAIN, .name = "head"};
    must(mega_program_build(&p, g, &o));
    must(mega_program_allocate(p));
    memset(mega_program_tensor(p, "x", 0), 0, T * C * sizeof(double));
    memset(mega_program_tensor(p, "ids", 0), 0, T * sizeof(int32_t));
    must(mega_program_forward(p, 0));
    const double *loss = mega_program_tensor(p, "loss", 0);
    for (int t = 0; t < T; t++) assert_true(fabs(loss[t] - log((double)VOCAB)) < 1e-14);
    mega_program_destroy(p);
    mega_params_destroy(params);
    mega_layout_destroy(one);
}

/* One head over two tokens by the formula: softmax of q.k / sqrt(D), then the values. */
static void scores_are_divided_by_the_root_of_the_head(void **state)
{
    (void)state;
    enum { D = 4 };
    static const double x[2][D] = {{0.9, -0.4, 0.7, 0.2}, {-0.3, 0.8, 0.5, 1.1}};
    mega_layout *one = NULL;
    mega_params *params = NULL;
    mega_graph *g = NULL;
    mega_program *p = NULL;
    must(mega_layout_create(&one, NULL, NULL));
    must(mega_params_create(&params, one));
    const mega_linear_shape qkv = {.in = D, .out = 3 * D, .blocks = 3}, proj = {.in = D, .out = D, .blocks = 1};
    must(mega_declare_column_linear(params, "m", "attn.c_attn", &qkv));
    must(mega_declare_row_linear(params, "m", "attn.c_proj", &proj));
    must(mega_params_place(params, MEGA_F64, 0));
    must(mega_params_allocate(params, MEGA_PARAMS_WEIGHTS));
    double *w = mega_params_master(params, 0), *out = mega_params_master(params, 2);
    memset(w, 0, 3 * D * D * sizeof *w);
    memset(out, 0, D * D * sizeof *out);
    for (int i = 0; i < D; i++) { /* q = 3 x, k = 2 x, v = x */
        for (int b = 0; b < 3; b++) w[(b * D + i) * D + i] = 3 - b;
        out[i * D + i] = 1;
    }
    must(mega_graph_create(&g, MEGA_F64, params, one));
    const mega_place at = {.graph = g, .params = params, .layout = one, .path = "m"};
    const int64_t dim[2] = {2, D};
    const mega_rows rows = {.batch = 1, .seq = 2};
    const mega_self_attention_shape s = {.heads = 1, .head_dim = D};
    mega_graph_output(g, mega_self_attention(&at, mega_graph_input(g, "x", MEGA_F64, 2, dim), &rows, &s), "y");
    const mega_program_options o = {.backend = MEGA_PROGRAM_PLAIN, .name = "layer"};
    must(mega_program_build(&p, g, &o));
    must(mega_program_allocate(p));
    memcpy(mega_program_tensor(p, "x", 0), x, sizeof x);
    must(mega_program_forward(p, 0));
    const double *y = mega_program_tensor(p, "y", 0);
    double score[2] = {0, 0};
    for (int j = 0; j < 2; j++)
        for (int i = 0; i < D; i++) score[j] += 3 * x[1][i] * 2 * x[j][i] / sqrt((double)D);
    const double first = 1 / (1 + exp(score[1] - score[0]));
    for (int i = 0; i < D; i++) {
        assert_true(fabs(y[i] - x[0][i]) < 1e-14);
        assert_true(fabs(y[D + i] - (first * x[0][i] + (1 - first) * x[1][i])) < 1e-14);
    }
    mega_program_destroy(p);
    mega_params_destroy(params);
    mega_layout_destroy(one);
}

/* What everyone else reads of a parameter: how it is cut, whether it decays, whether its gradients are partial sums. */
static void records_of_parameters(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool is_cut, decays, is_partial;
        int cut_dim, blocks;
    } expected[] = {{"m.up.weight", true, true, false, 0, 1},     {"m.up.bias", true, false, false, 0, 1},
                    {"m.down.weight", true, true, false, 1, 1},   {"m.down.bias", false, false, true, 0, 1},
                    {"m.qkv.weight", true, true, false, 0, 3},    {"m.qkv.bias", true, false, false, 0, 3},
                    {"m.norm.weight", false, false, true, 0, 1},  {"m.norm.bias", false, false, true, 0, 1},
                    {"m.tokens.weight", true, true, false, 0, 1}, {"m.positions.weight", false, true, true, 0, 1}};
    for (int slabs = 0; slabs < 2; slabs++) {
        const mega_linear_shape up = {.in = C, .out = F, .blocks = 1, .sequence_parallel = slabs == 1},
                                down = {.in = F, .out = C, .blocks = 1, .sequence_parallel = slabs == 1},
                                qkv = {.in = C, .out = 3 * C, .blocks = 3, .sequence_parallel = slabs == 1};
        mega_layout *one = NULL;
        mega_params *params = NULL;
        must(mega_layout_create(&one, NULL, NULL));
        must(mega_params_create(&params, one));
        must(mega_declare_column_linear(params, "m", "up", &up));
        must(mega_declare_row_linear(params, "m", "down", &down));
        must(mega_declare_column_linear(params, "m", "qkv", &qkv));
        must(mega_declare_layer_norm(params, "m", "norm", C, slabs == 1));
        must(mega_declare_vocab_embedding(params, "m", "tokens", VOCAB, PADDED, C, &up));
        must(mega_declare_embedding(params, "m", "positions", S, C, &up));
        assert_int_equal(mega_params_count(params), sizeof expected / sizeof *expected);
        for (int i = 0; i < mega_params_count(params); i++) {
            const mega_param *p = mega_params_get(params, i);
            assert_string_equal(p->name, expected[i].name);
            assert_int_equal(p->axis == MEGA_AXIS_TP, expected[i].is_cut);
            assert_int_equal(p->weight_decay, expected[i].decays);
            assert_int_equal(p->grads_are_summands, slabs == 1 && expected[i].is_partial);
            assert_int_equal(p->blocks, expected[i].blocks);
            if (expected[i].is_cut) assert_int_equal(p->cut_dim, expected[i].cut_dim);
        }
        mega_params_destroy(params);
        mega_layout_destroy(one);
    }
}

/* The head's reductions are instructions of the printed program; with one rank there is none. */
static void head_reduces_over_the_vocabulary(void **state)
{
    (void)state;
    for (int size = 1; size <= 2; size++) {
        mega_layout *one = NULL;
        mega_params *params = NULL;
        mega_graph *g = NULL;
        mega_program *p = NULL;
        mega_buffer text = {0};
        must(mega_layout_create(&one, NULL, NULL));
        mega_layout layout = *one;
        layout.tp.rank = size - 1;
        layout.tp.size = size;
        must(mega_params_create(&params, &layout));
        declare(params);
        must(mega_params_place(params, MEGA_F32, 0));
        must(mega_graph_create(&g, MEGA_F32, params, &layout));
        const mega_place at = {.graph = g, .params = params, .layout = &layout, .path = "m"};
        const int64_t tokens = T;
        const mega_tensor ids = mega_graph_input(g, "ids", MEGA_I32, 1, &tokens);
        const mega_tensor mask = mega_graph_input(g, "mask", MEGA_F32, 1, &tokens);
        const mega_tensor x = mega_vocab_embedding(&at, "wte", ids);
        const mega_head_result r = mega_vocab_head_loss(&at, "wte", x, ids, mask, VOCAB, true, false);
        mega_graph_output(g, r.loss_sum, "loss");
        const mega_program_options o = {.differentiate = true, .name = "head"};
        must(mega_program_build(&p, g, &o));
        must(mega_program_print(p, &text));
        int reductions = 0;
        for (const char *at_text = text.data; (at_text = strstr(at_text, "all_reduce tp")) != NULL; at_text++)
            reductions++;
        assert_int_equal(reductions, size == 1 ? 0 : 4); /* embedding, max, sum; gradient of x */
        mega_buffer_fini(&text);
        mega_program_destroy(p);
        mega_params_destroy(params);
        mega_layout_destroy(one);
    }
}

static void too_long_a_name_is_refused(void **state)
{
    (void)state;
    mega_layout *one = NULL;
    mega_params *params = NULL;
    char name[200];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    must(mega_layout_create(&one, NULL, NULL));
    must(mega_params_create(&params, one));
    assert_int_equal(mega_declare_layer_norm(params, "m", name, C, false), MEGA_ERR_USAGE);
    mega_params_destroy(params);
    mega_layout_destroy(one);
}

/* One linear layer at a path of several steps; the mistake of the graph, "" for none. */
static void describe_at(char message[512], const char *declared, const char *outer, const char *inner)
{
    mega_layout *layout = NULL;
    mega_params *params = NULL;
    mega_graph *g = NULL;
    const int64_t dim[2] = {T, C};
    const mega_linear_shape square = {.in = C, .out = C, .blocks = 1};
    must(mega_layout_create(&layout, NULL, NULL));
    must(mega_params_create(&params, layout));
    must(mega_declare_row_linear(params, declared, "proj", &square));
    must(mega_params_place(params, MEGA_F32, 0));
    must(mega_graph_create(&g, MEGA_F32, params, layout));
    const mega_place model = {.graph = g, .params = params, .layout = layout};
    const mega_place layer = mega_place_at(&model, "%s", outer), at = mega_place_at(&layer, "%s", inner);
    mega_row_linear(&at, "proj", mega_graph_input(g, "x", MEGA_F32, 2, dim));
    mega_error_clear();
    (void)mega_graph_status(g);
    snprintf(message, 512, "%s", mega_error_message());
    mega_graph_destroy(g);
    mega_params_destroy(params);
    mega_layout_destroy(layout);
}

static void long_paths_are_whole_or_refused(void **state)
{
    (void)state;
    char message[512], path[200];
    describe_at(message, "model.layers.10.block_sparse_moe.experts.3", "model.layers.10.block_sparse_moe.experts", "3");
    assert_string_equal(message, "");
    memset(path, 'p', sizeof path);
    path[120] = '\0';
    describe_at(message, "m", "model.layers.10", path);
    assert_non_null(strstr(message, "layer \"model.layers.10.ppp"));
    assert_non_null(strstr(message, "its path has 136 characters; expected at most 95"));
}

static void a_parameter_that_nobody_declared_is_named(void **state)
{
    (void)state;
    char message[512];
    describe_at(message, "m.h.0", "m.h", "1");
    assert_non_null(strstr(message, "graph in \"proj\": parameter m.h.1.proj.weight is used, but was never declared"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(column_and_row_linear),
        cmocka_unit_test(self_attention),
        cmocka_unit_test(vocabulary_embedding),
        cmocka_unit_test(head_reduces_over_the_vocabulary),
        cmocka_unit_test(the_loss_knows_no_padding),
        cmocka_unit_test(scores_are_divided_by_the_root_of_the_head),
        cmocka_unit_test(records_of_parameters),
        cmocka_unit_test(too_long_a_name_is_refused),
        cmocka_unit_test(long_paths_are_whole_or_refused),
        cmocka_unit_test(a_parameter_that_nobody_declared_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
