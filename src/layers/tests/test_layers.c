/* Layers that are sharded over tp, tested without ranks: the program of each of two ranks runs alone over a group of
 * one rank, so that its reduction returns that rank's partial sum. The partial sums add up to what a single rank
 * computes. */
#include "kit.h"
#include "megalith/layers.h"
#include "megalith/memory.h"
#include "megalith/program.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { B = 2, S = 6, T = B * S, C = 16, F = 24, HEADS = 4, VOCAB = 21, PADDED = 24 };

static const mega_linear_options random_weights = {.weight = {.init = MEGA_INIT_NORMAL, .init_std = 0.4}};

typedef mega_tensor describe_layer(const mega_builder *b, mega_tensor x);

static mega_tensor mlp(const mega_builder *b, mega_tensor x)
{
    x = mega_activation(b, mega_column_linear(b, "up", x, F, &random_weights), MEGA_ACT_GELU_TANH);
    return mega_row_linear(b, "down", x, C, &random_weights);
}

static mega_tensor attention(const mega_builder *b, mega_tensor x)
{
    const mega_attention_options o = {
        .num_heads = HEADS, .is_causal = true, .dropout = 0.3, .qkv = &random_weights, .out = &random_weights};
    return mega_self_attention(b, "attn", x, &o);
}

/* Returns the options of the table of the embedding and the head. */
static mega_param_options table(void)
{
    return (mega_param_options){.init = MEGA_INIT_NORMAL, .init_std = 0.4, .padding_rows = PADDED - VOCAB};
}

static mega_tensor embed(const mega_builder *b, mega_tensor x)
{
    const mega_param_options o = table();
    (void)x;
    return mega_vocab_embedding(b, "wte", mega_input(b, "seq_position", MEGA_I32, S, 0), VOCAB, C, &o); /* any ids do */
}

static mega_builder builder_of(mega_dtype dtype, mega_params *params, const mega_layout *layout)
{
    mega_builder b = {.layout = layout, .samples = B, .positions = S, .path = "m"};
    need(mega_graph_create(dtype, params, layout, &b.graph));
    return b;
}

/* Computes the result of one rank of `size`. The biases of row layers are not compared (they are zero at the start). */
static void run(describe_layer *describe, int rank, int size, double *y)
{
    mega_layout *one = NULL;
    mega_params *params = NULL;
    mega_program *p = NULL;
    need(mega_layout_create(NULL, NULL, &one));
    mega_layout layout = *one;
    layout.tp.rank = rank;
    layout.tp.size = size;
    need(mega_params_create(&layout, &params));
    const mega_builder b = builder_of(MEGA_F64, params, &layout);
    const mega_tensor x = mega_input(&b, "x", MEGA_F64, S, C);
    mega_graph_output(b.graph, describe(&b, x), "y");
    need(mega_params_place(params, MEGA_F64, 0));
    need(mega_params_allocate(params, MEGA_PARAMS_WEIGHTS));
    need(mega_params_initialize(params, 6));
    const mega_program_options o = {.backend = MEGA_BACKEND_PLAIN, .name = "layer"};
    need(mega_program_build(b.graph, &o, &p));
    need(mega_program_allocate(p));
    mega_program_step_block(p)->seed = 5;
    float random[T * C];
    mega_kit_normal(random, T * C, 3);
    for (int i = 0; i < T * C; i++) ((double *)mega_program_tensor(p, "x", 0))[i] = (double)random[i];
    int32_t *const sample = mega_program_tensor(p, "sample_id", 0), *const ids =
                                                                        mega_program_tensor(p, "seq_position", 0);
    for (int t = 0; t < T; t++) {
        if (sample != NULL) sample[t] = 40 + t / S;
        if (ids != NULL) ids[t] = (t * 7) % VOCAB;
    }
    need(mega_program_forward(p, 0));
    memcpy(y, mega_program_tensor(p, "y", 0), T * C * sizeof *y);
    mega_program_destroy(p);
    mega_params_destroy(params);
    mega_layout_destroy(one);
}

static void partial_results_add_up(describe_layer *describe)
{
    double whole[T * C], part[T * C], sum[T * C] = {0};
    run(describe, 0, 1, whole);
    for (int rank = 0; rank < 2; rank++) {
        run(describe, rank, 2, part);
        assert_true(mega_kit_relative_error_f64(part, whole, T * C) > 0.1); /* each rank contributes a real share */
        for (int i = 0; i < T * C; i++) sum[i] += part[i];
    }
    assert_true(mega_kit_relative_error_f64(sum, whole, T * C) <= 1e-14);
}

static void column_and_row_linear(void **state)
{
    (void)state;
    partial_results_add_up(mlp);
}

/* With dropout of the probabilities: masks depend on the head's number in the whole model. */
static void self_attention(void **state)
{
    (void)state;
    partial_results_add_up(attention);
}

static void vocabulary_embedding(void **state)
{
    (void)state;
    partial_results_add_up(embed);
}

/* If all logits are 0, every real id is equally likely, and the padding of the vocabulary has probability 0. */
static void the_loss_knows_no_padding(void **state)
{
    (void)state;
    mega_layout *one = NULL;
    mega_params *params = NULL;
    mega_program *p = NULL;
    need(mega_layout_create(NULL, NULL, &one));
    need(mega_params_create(one, &params));
    mega_builder b = builder_of(MEGA_F64, params, one);
    b.mode = MEGA_EVAL;
    const mega_tensor x = mega_input(&b, "x", MEGA_F64, S, C);
    const mega_tensor ids = mega_input(&b, "ids", MEGA_I32, S, 0), mask = mega_input(&b, "mask", MEGA_F32, S, 0);
    const mega_vocab_loss_options head = {.vocab_size = VOCAB, .table = table()};
    mega_graph_output(b.graph, mega_vocab_loss(&b, "wte", x, ids, mask, &head).token_loss, "loss");
    need(mega_params_place(params, MEGA_F64, 0));
    need(mega_params_allocate(params, MEGA_PARAMS_WEIGHTS));
    memset(mega_params_flat_master(params), 0, (size_t)mega_params_elements(params) * sizeof(double));
    const mega_program_options o = {.backend = MEGA_BACKEND_PLAIN, .name = "head"};
    need(mega_program_build(b.graph, &o, &p));
    need(mega_program_allocate(p));
    memset(mega_program_tensor(p, "x", 0), 0, T * C * sizeof(double));
    memset(mega_program_tensor(p, "ids", 0), 0, T * sizeof(int32_t));
    need(mega_program_forward(p, 0));
    const double *loss = mega_program_tensor(p, "loss", 0);
    for (int t = 0; t < T; t++) assert_true(fabs(loss[t] - log((double)VOCAB)) < 1e-14);
    mega_program_destroy(p);
    mega_params_destroy(params);
    mega_layout_destroy(one);
}

/* Checks one head over two tokens against the formula: softmax of q.k / sqrt(D), then the values. */
static void scores_are_divided_by_the_root_of_the_head(void **state)
{
    (void)state;
    enum { D = 4 };
    static const double x[2][D] = {{0.9, -0.4, 0.7, 0.2}, {-0.3, 0.8, 0.5, 1.1}};
    mega_layout *one = NULL;
    mega_params *params = NULL;
    mega_program *p = NULL;
    need(mega_layout_create(NULL, NULL, &one));
    need(mega_params_create(one, &params));
    mega_builder b = builder_of(MEGA_F64, params, one);
    b.samples = 1;
    b.positions = 2;
    const mega_attention_options a = {.num_heads = 1, .is_causal = true};
    mega_graph_output(b.graph, mega_self_attention(&b, "attn", mega_input(&b, "x", MEGA_F64, 2, D), &a), "y");
    need(mega_params_place(params, MEGA_F64, 0));
    need(mega_params_allocate(params, MEGA_PARAMS_WEIGHTS));
    double *w = mega_params_master(params, 0), *out = mega_params_master(params, 2);
    memset(w, 0, 3 * D * D * sizeof *w);
    memset(out, 0, D * D * sizeof *out);
    for (int i = 0; i < D; i++) { /* q = 3 x, k = 2 x, v = x */
        for (int part = 0; part < 3; part++) w[(part * D + i) * D + i] = 3 - part;
        out[i * D + i] = 1;
    }
    const mega_program_options o = {.backend = MEGA_BACKEND_PLAIN, .name = "layer"};
    need(mega_program_build(b.graph, &o, &p));
    need(mega_program_allocate(p));
    memcpy(mega_program_tensor(p, "x", 0), x, sizeof x);
    need(mega_program_forward(p, 0));
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

/* Checks the properties of a parameter that others read: how it is sharded, whether it decays, and whether its
 * gradients are partial sums. */
static void records_of_parameters(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool is_cut, decays, is_partial;
        int cut_dim, blocks;
    } expected[] = {{"m.up.weight", true, true, false, 0, 1},          {"m.up.bias", true, false, false, 0, 1},
                    {"m.down.weight", true, true, false, 1, 1},        {"m.down.bias", false, false, true, 0, 1},
                    {"m.attn.c_attn.weight", true, true, false, 0, 3}, {"m.attn.c_attn.bias", true, false, false, 0, 3},
                    {"m.attn.c_proj.weight", true, true, false, 1, 1}, {"m.attn.c_proj.bias", false, false, true, 0, 1},
                    {"m.norm.weight", false, false, true, 0, 1},       {"m.norm.bias", false, false, true, 0, 1},
                    {"m.whole.weight", false, true, true, 0, 1},       {"m.whole.bias", false, false, true, 0, 1},
                    {"m.bare.weight", false, true, true, 0, 1},        {"m.tokens.weight", true, true, false, 0, 1},
                    {"m.positions.weight", false, true, true, 0, 1}};
    static const struct {
        bool slabs;
        int tp;
    } way[] = {{false, 1}, {false, 2}, {true, 1}, {true, 2}};
    for (size_t w = 0; w < sizeof way / sizeof *way; w++) {
        const bool is_slab = way[w].slabs && way[w].tp > 1;
        mega_layout *one = NULL;
        mega_params *params = NULL;
        need(mega_layout_create(NULL, &(mega_layout_sizes){.tp = way[w].tp, .planned_ranks = way[w].tp}, &one));
        need(mega_params_create(one, &params));
        const mega_builder b = builder_of(MEGA_F32, params, one);
        mega_graph_set_sequence_parallel(b.graph, way[w].slabs);
        assert_int_equal(mega_graph_is_sequence_parallel(b.graph), is_slab);
        mega_tensor x = mega_input(&b, "x", MEGA_F32, is_slab ? S / 2 : S, C);
        const mega_param_options tokens = table();
        mlp(&b, x);
        mega_self_attention(&b, "attn", x, &(mega_attention_options){.num_heads = HEADS});
        x = mega_norm(&b, "norm", x, MEGA_LAYER_NORM, 1e-5);
        mega_linear(&b, "whole", x, F, NULL);
        mega_linear(&b, "bare", x, F, &(mega_linear_options){.no_bias = true});
        x = mega_vocab_embedding(&b, "tokens", mega_input(&b, "ids", MEGA_I32, S, 0), VOCAB, C, &tokens);
        mega_position_embedding(&b, "positions", x, S, &tokens);
        need(mega_graph_status(b.graph));
        assert_int_equal(mega_params_count(params), sizeof expected / sizeof *expected);
        for (int i = 0; i < mega_params_count(params); i++) {
            const mega_param *p = mega_params_get(params, i);
            assert_string_equal(p->name, expected[i].name);
            assert_int_equal(p->axis == MEGA_AXIS_TP, expected[i].is_cut);
            assert_int_equal(p->weight_decay, expected[i].decays);
            assert_int_equal(p->grads_are_partial, is_slab && expected[i].is_partial);
            assert_int_equal(p->num_parts, expected[i].blocks);
            if (expected[i].is_cut) assert_int_equal(p->cut_dim, expected[i].cut_dim);
        }
        mega_graph_destroy(b.graph);
        mega_params_destroy(params);
        mega_layout_destroy(one);
    }
}

/* The head's reductions appear as instructions in the printed program; with one rank there are none. */
static void head_reduces_over_the_vocabulary(void **state)
{
    (void)state;
    for (int size = 1; size <= 2; size++) {
        mega_layout *one = NULL;
        mega_params *params = NULL;
        mega_program *p = NULL;
        mega_buffer text = {0};
        need(mega_layout_create(NULL, NULL, &one));
        mega_layout layout = *one;
        layout.tp.rank = size - 1;
        layout.tp.size = size;
        need(mega_params_create(&layout, &params));
        const mega_builder b = builder_of(MEGA_F32, params, &layout);
        const mega_tensor ids = mega_input(&b, "ids", MEGA_I32, S, 0), mask = mega_input(&b, "mask", MEGA_F32, S, 0);
        const mega_vocab_loss_options head = {.vocab_size = VOCAB, .table = table()};
        const mega_tensor x = mega_vocab_embedding(&b, "wte", ids, VOCAB, C, &head.table);
        mega_loss_add(&b, "loss", mega_vocab_loss(&b, "wte", x, ids, mask, &head).loss, 1);
        need(mega_params_place(params, MEGA_F32, 0));
        const mega_program_options o = {.differentiate = true, .name = "head"};
        need(mega_program_build(b.graph, &o, &p));
        need(mega_program_print(p, &text));
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

/* Describes a layer, and checks the error that its graph then has. */
static void expect_mistake(describe_layer *describe, int tp, const char *message)
{
    mega_layout *one = NULL;
    mega_params *params = NULL;
    need(mega_layout_create(NULL, NULL, &one));
    mega_layout layout = *one;
    layout.tp.size = tp;
    need(mega_params_create(&layout, &params));
    const mega_builder b = builder_of(MEGA_F32, params, &layout);
    describe(&b, mega_input(&b, "x", MEGA_F32, S, C));
    if (mega_graph_status(b.graph) == MEGA_OK || strstr(mega_error_message(), message) == NULL)
        fail_msg("expected \"%s\" in: %s", message, mega_error_message());
    mega_graph_destroy(b.graph);
    mega_params_destroy(params);
    mega_layout_destroy(one);
}

static mega_tensor long_name(const mega_builder *b, mega_tensor x)
{
    char name[200];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    return mega_norm(b, name, x, MEGA_LAYER_NORM, 1e-5);
}

static mega_tensor no_heads(const mega_builder *b, mega_tensor x)
{
    return mega_self_attention(b, "attn", x, NULL);
}

static mega_tensor attention_without_name(const mega_builder *b, mega_tensor x)
{
    return mega_self_attention(b, NULL, x, &(mega_attention_options){.num_heads = HEADS});
}

static mega_tensor negative_heads(const mega_builder *b, mega_tensor x)
{
    return mega_self_attention(b, "attn", x, &(mega_attention_options){.num_heads = -HEADS});
}

static mega_tensor negative_head_dim(const mega_builder *b, mega_tensor x)
{
    return mega_self_attention(b, "attn", x, &(mega_attention_options){.num_heads = HEADS, .head_dim = -3});
}

static mega_tensor uneven_kv_heads(const mega_builder *b, mega_tensor x)
{
    return mega_self_attention(b, "attn", x, &(mega_attention_options){.num_heads = HEADS, .num_kv_heads = 3});
}

/* One key/value head, whose rows lie before those of the queries in one tensor. */
static mega_tensor multi_query(const mega_builder *b, mega_tensor x)
{
    const int64_t d = mega_tensor_channels(b, x) / HEADS;
    const mega_linear_options qkv = {
        .weight = {.num_parts = 3,
                   .part = {{.rows = HEADS * d, .first = 2 * d}, {.rows = d}, {.rows = d, .first = d}}}};
    return mega_self_attention(b, "attn", x,
                               &(mega_attention_options){.num_heads = HEADS, .num_kv_heads = 1, .qkv = &qkv});
}

static mega_tensor layer_norm_of_all_heads(const mega_builder *b, mega_tensor x)
{
    const mega_attention_options o = {.num_heads = HEADS, .qk_norm = MEGA_QK_NORM_ALL};
    return mega_self_attention(b, "attn", x, &o);
}

static mega_tensor negative_window(const mega_builder *b, mega_tensor x)
{
    const mega_attention_options o = {.num_heads = HEADS, .has_window = true, .window_left = 3, .window_right = -2};
    return mega_self_attention(b, "attn", x, &o);
}

static mega_tensor negative_softcap(const mega_builder *b, mega_tensor x)
{
    return mega_self_attention(b, "attn", x, &(mega_attention_options){.num_heads = HEADS, .softcap = -5});
}

static mega_tensor negative_scale(const mega_builder *b, mega_tensor x)
{
    return mega_self_attention(b, "attn", x, &(mega_attention_options){.num_heads = HEADS, .scale = -0.5});
}

static mega_tensor rope_of_odd_heads(const mega_builder *b, mega_tensor x)
{
    const mega_rope rope = {.theta = 1e4, .fraction = 0.75};
    return mega_self_attention(b, "attn", x, &(mega_attention_options){.num_heads = HEADS, .rope = &rope});
}

static mega_tensor attention_dropout(const mega_builder *b, mega_tensor x)
{
    return mega_self_attention(b, "attn", x, &(mega_attention_options){.num_heads = HEADS, .dropout = -0.5});
}

static mega_tensor negative_dropout(const mega_builder *b, mega_tensor x)
{
    return mega_dropout(b, "drop", x, -0.5);
}

static mega_tensor nan_dropout(const mega_builder *b, mega_tensor x)
{
    return mega_dropout_add(b, "drop", x, x, (double)NAN);
}

/* The error is also reported in modes without dropout, so that a model is rejected before it trains. */
static mega_tensor dropout_of_all(const mega_builder *b, mega_tensor x)
{
    mega_builder evaluating = *b;
    evaluating.mode = MEGA_EVAL;
    return mega_dropout(&evaluating, "drop", x, 1);
}

static mega_tensor negative_stride(const mega_builder *b, mega_tensor x)
{
    mega_image_size size = {2, S / 2};
    return mega_conv2d(b, "conv", x, 1, &(mega_conv_options){.kernel_size = 1, .stride = -1}, &size);
}

static mega_tensor negative_pool_stride(const mega_builder *b, mega_tensor x)
{
    mega_image_size size = {2, S / 2};
    return mega_max_pool2d(b, x, &(mega_pool_options){.window = 1, .stride = -1}, &size);
}

static mega_tensor no_width(const mega_builder *b, mega_tensor x)
{
    return mega_linear(b, "up", x, 0, NULL);
}

static mega_tensor output_twice(const mega_builder *b, mega_tensor x)
{
    mega_output(b, "y", x);
    mega_output(b, "y", x);
    return x;
}

static mega_tensor two_widths(const mega_builder *b, mega_tensor x)
{
    return mega_linear(b, "up", mega_linear(b, "up", x, F, NULL), F, NULL);
}

static mega_tensor linear_without_name(const mega_builder *b, mega_tensor x)
{
    return mega_linear(b, "", x, C, NULL);
}

static mega_tensor dropout_without_name(const mega_builder *b, mega_tensor x)
{
    return mega_dropout(b, "", x, 0.1);
}

static mega_tensor two_dropouts(const mega_builder *b, mega_tensor x)
{
    return mega_dropout(b, "drop", mega_dropout(b, "drop", x, 0.1), 0.1);
}

static mega_tensor other_norm(const mega_builder *b, mega_tensor x)
{
    return mega_norm(b, "norm", x, (mega_norm_kind)7, 1e-5);
}

static mega_tensor no_vocabulary(const mega_builder *b, mega_tensor x)
{
    const mega_tensor ids = mega_input(b, "ids", MEGA_I32, S, 0), mask = mega_input(b, "mask", MEGA_F32, S, 0);
    return mega_vocab_loss(b, "wte", x, ids, mask, NULL).token_loss;
}

static void mistakes_name_the_layer(void **state)
{
    (void)state;
    expect_mistake(long_name, 1, "parameter \"m.nnn");
    expect_mistake(long_name, 1, "characters; expected at most 95, choose shorter names");
    expect_mistake(no_heads, 1, "layer \"m\", attn: mega_self_attention without num_heads; give");
    expect_mistake(attention_without_name, 1, "layer \"m\": a layer mega_self_attention has no name");
    expect_mistake(linear_without_name, 1, "layer \"m\": a layer with a parameter weight has no name");
    expect_mistake(dropout_without_name, 1, "layer \"m\": a dropout has no name");
    expect_mistake(negative_heads, 1, "layer \"m\", attn: -4 attention heads over 1 ranks of tp");
    expect_mistake(negative_head_dim, 1, "layer \"m\", attn: head_dim -3; expected 1 or more");
    expect_mistake(attention_dropout, 1, "layer \"m\", attn: dropout -0.5 of attention; expected 0 <= p < 1");
    expect_mistake(uneven_kv_heads, 1,
                   "layer \"m\", attn: 3 key/value heads for 4 attention heads; expected a divisor");
    expect_mistake(multi_query, 2, "1 key/value heads over 2 ranks of tp, and Q, K and V share a tensor of the file");
    expect_mistake(layer_norm_of_all_heads, 2, "a layer norm over the heads of 2 ranks of tp is not implemented yet");
    expect_mistake(negative_window, 1, "a window of 3 positions to the left and -2 to the right; expected 0 or more");
    expect_mistake(negative_softcap, 1,
                   "layer \"m\", attn: soft-cap -5 of attention; expected a finite number above 0");
    expect_mistake(negative_scale, 1, "layer \"m\", attn: scale -0.5 of attention; expected a finite number above 0");
    expect_mistake(rope_of_odd_heads, 1, "layer \"m\", attn: rope: 3 channels of a head are rotated");
    expect_mistake(negative_dropout, 1, "layer \"m\", dropout \"drop\": probability -0.5; expected 0 <= p < 1");
    expect_mistake(nan_dropout, 1, "layer \"m\", dropout \"drop\": probability nan; expected 0 <= p < 1");
    expect_mistake(dropout_of_all, 1, "layer \"m\", dropout \"drop\": probability 1; expected 0 <= p < 1");
    expect_mistake(no_width, 1, "layer \"m\", up: out_channels 0; expected 1 or more");
    expect_mistake(output_twice, 1, "layer \"m\": mega_output declares \"y\", which an earlier mega_output declared");
    expect_mistake(negative_stride, 1, "stride -1");
    expect_mistake(negative_pool_stride, 1, "stride -1");
    expect_mistake(attention, 3, "layer \"m\", attn: 4 attention heads over 3 ranks of tp");
    expect_mistake(two_widths, 1, "parameter m.up.weight: this request is for [24, 24], but an earlier one declared");
    expect_mistake(two_dropouts, 1, "dropout \"m.drop\": dropout \"m.drop\" of this program would have the same mask");
    expect_mistake(other_norm, 1, "layer \"m\", norm: norm of kind 7; expected MEGA_LAYER_NORM or MEGA_RMS_NORM");
    expect_mistake(no_vocabulary, 1, "parameter m.wte.weight: dimension 0 has 0 elements");
}

/* Describes one linear layer at a path of several levels; message receives the error of the graph, "" for none. */
static void describe_at(char message[512], const char *declared, const char *outer, const char *inner)
{
    mega_layout *layout = NULL;
    mega_params *params = NULL;
    need(mega_layout_create(NULL, NULL, &layout));
    need(mega_params_create(layout, &params));
    mega_builder model = builder_of(MEGA_F32, params, layout);
    model.path[0] = '\0';
    const mega_builder layer = mega_builder_at(&model, "%s", outer), at = mega_builder_at(&layer, "%s", inner);
    mega_row_linear(&at, "proj", mega_input(&at, "x", MEGA_F32, S, C), C, NULL);
    mega_error_clear();
    if (mega_graph_status(model.graph) == MEGA_OK) assert_true(mega_params_find(params, declared) >= 0);
    snprintf(message, 512, "%s", mega_error_message());
    mega_graph_destroy(model.graph);
    mega_params_destroy(params);
    mega_layout_destroy(layout);
}

static void long_paths_are_whole_or_refused(void **state)
{
    (void)state;
    char message[512], path[200];
    describe_at(message, "model.layers.10.block_sparse_moe.experts.3.proj.weight",
                "model.layers.10.block_sparse_moe.experts", "3");
    assert_string_equal(message, "");
    memset(path, 'p', sizeof path);
    path[120] = '\0';
    describe_at(message, "", "model.layers.10", path);
    assert_non_null(strstr(message, "layer \"model.layers.10.ppp"));
    assert_non_null(strstr(message, "its path has 136 characters; expected at most 95"));
}

static void expect_told(const mega_builder *b, mega_status st, const char *text)
{
    assert_int_equal(mega_graph_status(b->graph), st);
    if (strstr(mega_error_message(), text) == NULL) fail_msg("expected \"%s\" in: %s", text, mega_error_message());
}

/* The parts of a weight apply to its bias; a layer that needs other parts rejects them. */
static void parts_of_a_weight_are_those_of_its_bias(void **state)
{
    (void)state;
    mega_layout *one = NULL;
    mega_params *params = NULL;
    need(mega_layout_create(NULL, NULL, &one));
    need(mega_params_create(one, &params));
    mega_builder b = builder_of(MEGA_F32, params, one);
    const mega_tensor x = mega_input(&b, "x", MEGA_F32, S, C);
    mega_linear_options in = {.weight = {.num_parts = 3,
                                         .part = {{.file = "attn.q_proj.weight", .rows = C},
                                                  {.file = "attn.k_proj.weight", .rows = C},
                                                  {.file = "attn.v_proj.weight", .rows = C}}}};
    mega_self_attention(&b, "attn", x, &(mega_attention_options){.num_heads = HEADS, .qkv = &in});
    need(mega_graph_status(b.graph));
    const mega_param *weight = mega_params_get(params, mega_params_find(params, "m.attn.c_attn.weight")),
                     *bias = mega_params_get(params, mega_params_find(params, "m.attn.c_attn.bias"));
    assert_string_equal(mega_param_file_name(weight, 1), "m.attn.k_proj.weight");
    assert_int_equal(bias->num_parts, 3);
    assert_string_equal(mega_param_file_name(bias, 1), "m.attn.k_proj.bias");
    assert_int_equal(bias->part[2].rows, C);
    mega_row_linear(&b, "down", x, 2 * C,
                    &(mega_linear_options){.weight = {.num_parts = 1, .part = {{.file = "fc2.weight", .rows = C}}}});
    need(mega_graph_status(b.graph));
    bias = mega_params_get(params, mega_params_find(params, "m.down.bias"));
    assert_string_equal(mega_param_file_name(bias, 0), "m.fc2.bias");
    assert_int_equal(bias->part[0].rows, 2 * C);
    in.weight.part[0].rows = 2 * C;
    mega_self_attention(&b, "fewer", x, &(mega_attention_options){.num_heads = HEADS, .qkv = &in});
    expect_told(&b, MEGA_ERR_USAGE, "the weight of qkv has 3 parts; expected 3, Q of 16 rows, K and V of 16 each");
    mega_graph_destroy(b.graph);
    b = builder_of(MEGA_F32, params, one);
    in.weight = (mega_param_options){.num_parts = 1, .part = {{.file = "table", .rows = C}}};
    mega_column_linear(&b, "up", mega_input(&b, "x", MEGA_F32, S, C), C, &in);
    expect_told(&b, MEGA_ERR_USAGE, "part 0 of its weight is in tensor \"table\"; expected a name");
    mega_graph_destroy(b.graph);
    b = builder_of(MEGA_F32, params, one);
    const mega_param_options halves = {.blocks = 2};
    mega_vocab_embedding(&b, "wte", mega_input(&b, "ids", MEGA_I32, S, 0), 2 * C, C, &halves);
    expect_told(&b, MEGA_ERR_UNSUPPORTED, "a table of a vocabulary in 2 parts is not implemented yet");
    mega_graph_destroy(b.graph);
    mega_params_destroy(params);
    mega_layout_destroy(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_a_weight_are_those_of_its_bias),
        cmocka_unit_test(column_and_row_linear),
        cmocka_unit_test(self_attention),
        cmocka_unit_test(vocabulary_embedding),
        cmocka_unit_test(head_reduces_over_the_vocabulary),
        cmocka_unit_test(the_loss_knows_no_padding),
        cmocka_unit_test(scores_are_divided_by_the_root_of_the_head),
        cmocka_unit_test(records_of_parameters),
        cmocka_unit_test(mistakes_name_the_layer),
        cmocka_unit_test(long_paths_are_whole_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
