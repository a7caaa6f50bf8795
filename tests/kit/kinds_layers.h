/* The layers of ranks_kinds' models that are lists of their own: of images, with two losses, with a custom op, and a
 * decoder whose key/value heads tp does not divide. */
#ifndef MEGALITH_TESTS_KINDS_LAYERS_H
#define MEGALITH_TESTS_KINDS_LAYERS_H

#include "engine_run.h"
#include "megalith/layers.h"

enum { T = ENGINE_RUN_SEQ, V = 20, C = 16, SIDE = 4, CLASSES = 5, GROUP = 2 };

/* ---- a model of images ---- */

static mega_tensor normed(const mega_builder *b, mega_tensor x, int64_t channels, mega_image_size *size)
{
    const mega_conv_options o = {.kernel_size = 3, .padding = 1, .no_bias = true};
    const mega_tensor y = mega_conv2d(b, "conv", x, channels, &o, size);
    return mega_activation(b, mega_batch_norm(b, "norm", y, GROUP, 0, 1e-5), MEGA_ACT_RELU);
}

static void pixels(const mega_builder *b, const void *self, mega_flow *flow)
{
    mega_image_size size = {SIDE, SIDE};
    (void)self;
    flow->x = normed(b, mega_input(b, "pixels", MEGA_F32, T, 1), 4, &size);
}

static void convolved(const mega_builder *b, const void *self, mega_flow *flow)
{
    mega_image_size size = {SIDE, SIDE};
    (void)self;
    flow->x = mega_add(b, flow->x, normed(b, flow->x, 4, &size));
}

static void classified(const mega_builder *b, const void *self, mega_flow *flow)
{
    mega_image_size size = {SIDE, SIDE};
    const mega_pool_options pool = {.window = 2};
    const mega_linear_options o = {.weight = {.init = MEGA_INIT_NORMAL, .init_std = 0.5}};
    const mega_tensor label = mega_input(b, "label", MEGA_I32, 1, 0);
    (void)self;
    const mega_tensor x = mega_mean_positions(b, mega_max_pool2d(b, flow->x, &pool, &size));
    const mega_tensor up = mega_activation(b, mega_column_linear(b, "up", x, 8, &o), MEGA_ACT_TANH);
    const mega_tensor logits = mega_row_linear(b, "down", up, CLASSES, &o);
    mega_loss_add(b, "class", mega_cross_entropy(b, logits, label, mega_none()), 1);
    mega_loss_add(b, "right", mega_accuracy(b, logits, label), 0);
}

/* ---- models of tokens ---- */

static const mega_linear_options random_weights = {.weight = {.init = MEGA_INIT_NORMAL, .init_std = 0.3}};
static const mega_vocab_loss_options vocabulary = {.vocab_size = V,
                                                   .table = {.init = MEGA_INIT_NORMAL, .init_std = 0.3}};

static void embedded(const mega_builder *b, const void *self, mega_flow *flow)
{
    (void)self;
    flow->x =
        mega_vocab_embedding(b, "table", mega_input(b, "tokens", MEGA_I32, b->positions, 0), V, C, &vocabulary.table);
}

static void block(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_tensor x = mega_norm(b, "norm", flow->x, MEGA_LAYER_NORM, 1e-5);
    (void)self;
    const mega_tensor up = mega_activation(b, mega_column_linear(b, "up", x, 2 * C, &random_weights), MEGA_ACT_SILU);
    flow->x = mega_dropout_add(b, "drop", mega_row_linear(b, "down", up, C, &random_weights), flow->x, 0.1);
}

/* Blocks of even number have one key/value head and see everything, those of odd number have two and a window. */
static void decoded(const mega_builder *b, const void *self, mega_flow *flow)
{
    enum { HEADS = 4, D = 6 };
    static const mega_rope rope = {.theta = 50, .fraction = 0.7};
    const bool is_even = b->index % 2 == 0;
    const int64_t kv = is_even ? 1 : 2;
    const mega_linear_options qkv = {.weight = {.init = MEGA_INIT_NORMAL,
                                                .init_std = 0.2,
                                                .num_parts = 3,
                                                .part = {{.file = "q_proj.weight", .rows = HEADS * D},
                                                         {.file = "k_proj.weight", .rows = kv * D},
                                                         {.file = "v_proj.weight", .rows = kv * D}}}};
    const mega_attention_options o = {.num_heads = HEADS,
                                      .num_kv_heads = kv,
                                      .head_dim = D,
                                      .is_causal = true,
                                      .softcap = is_even ? 0 : 2,
                                      .has_window = !is_even,
                                      .window_left = 2,
                                      .alibi = is_even,
                                      .qk_norm = b->index == 1   ? MEGA_QK_NORM_HEAD
                                                 : b->index == 2 ? MEGA_QK_NORM_ALL
                                                                 : MEGA_QK_NORM_NONE,
                                      .qk_norm_options = {.kind = MEGA_RMS_NORM, .epsilon = 1e-5},
                                      .rope = &rope,
                                      .dropout = 0.1,
                                      .qkv = &qkv,
                                      .out = &random_weights};
    (void)self;
    const mega_tensor x = mega_norm(b, "norm", flow->x, MEGA_LAYER_NORM, 1e-5);
    flow->x = mega_dropout_add(b, "drop", mega_self_attention(b, "attn", x, &o), flow->x, 0.1);
}

static void add_loss(const mega_builder *b, const char *table, mega_tensor x, const char *name, double coefficient)
{
    const mega_tensor labels = mega_input(b, "labels", MEGA_I32, b->positions, 0);
    const mega_tensor weights = mega_input(b, "weights", MEGA_F32, b->positions, 0);
    mega_loss_add(b, name, mega_vocab_loss(b, table, x, labels, weights, &vocabulary).loss, coefficient);
}

static void early(const mega_builder *b, const void *self, mega_flow *flow)
{
    (void)self;
    add_loss(b, "early", mega_norm(b, "early.norm", flow->x, MEGA_LAYER_NORM, 1e-5), "early", 0.3);
}

static void late(const mega_builder *b, const void *self, mega_flow *flow)
{
    (void)self;
    add_loss(b, "table", mega_norm(b, "norm", flow->x, MEGA_LAYER_NORM, 1e-5), "late", 1);
}

/* y = a b, z = a - b^2. */
static void gate_shape(const void *self, const int64_t *rows_in, const int64_t *channels_in, int64_t *out_rows,
                       int64_t *out_channels)
{
    (void)self;
    for (int k = 0; k < 2; k++) {
        out_rows[k] = rows_in[0];
        out_channels[k] = channels_in[0];
    }
}

static double at(const mega_custom_call *c, const void *values, int64_t i)
{
    if (values == NULL) return 0;
    return c->dtype == MEGA_F64 ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

static void put(const mega_custom_call *c, void *values, int64_t i, double value)
{
    if (values == NULL) return;
    if (c->dtype == MEGA_F64) ((double *)values)[i] = value;
    else
        ((float *)values)[i] = (float)value;
}

static mega_status gate_forward(const void *self, const mega_custom_call *c)
{
    (void)self;
    for (int64_t i = c->thread; i < c->rows[0] * c->channels[0]; i += c->num_threads) {
        const double a = at(c, c->in[0], i), b = at(c, c->in[1], i);
        put(c, c->out[0], i, a * b);
        put(c, c->out[1], i, a - b * b);
    }
    return MEGA_OK;
}

static mega_status gate_backward(const void *self, const mega_custom_call *c)
{
    (void)self;
    for (int64_t i = c->thread; i < c->rows[0] * c->channels[0]; i += c->num_threads) {
        const double a = at(c, c->in[0], i), b = at(c, c->in[1], i);
        const double dy = at(c, c->d_out[0], i), dz = at(c, c->d_out[1], i);
        put(c, c->d_in[0], i, b * dy + dz);
        put(c, c->d_in[1], i, a * dy - 2 * b * dz);
    }
    return MEGA_OK;
}

static const mega_custom_op gate = {.name = "gate",
                                    .num_in = 2,
                                    .num_out = 2,
                                    .shape = gate_shape,
                                    .forward = gate_forward,
                                    .backward = gate_backward,
                                    .is_row_wise = true};

static void gated(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_tensor x = mega_norm(b, "norm", flow->x, MEGA_LAYER_NORM, 1e-5);
    const mega_tensor in[2] = {mega_column_linear(b, "a", x, C, &random_weights),
                               mega_column_linear(b, "b", x, C, &random_weights)};
    mega_tensor out[2] = {mega_none(), mega_none()};
    mega_custom(b, &gate, self, in, out);
    const mega_tensor y = mega_row_linear(b, "c", out[0], C, &random_weights);
    const mega_tensor z = mega_row_linear(b, "d", out[1], C, &random_weights);
    flow->x = mega_add(b, flow->x, mega_add(b, y, z));
}

/* ---- the lists ---- */

static const mega_layer conv[] = {{"pixels", pixels, NULL, 1, "begin"},
                                  {"block.%d", convolved, NULL, 3, "block"},
                                  {"class", classified, NULL, 1, "end"}};
static const mega_layer losses[] = {{"", embedded, NULL, 1, "begin"},
                                    {"block.%d", block, NULL, 2, "block"},
                                    {"", early, NULL, 1, "end"},
                                    {"more.%d", block, NULL, 2, "block"},
                                    {"", late, NULL, 1, "end"}};
static const mega_layer custom[] = {
    {"", embedded, NULL, 1, "begin"}, {"block.%d", gated, NULL, 4, "block"}, {"", late, NULL, 1, "end"}};

static const mega_layer decoder[] = {
    {"", embedded, NULL, 1, "begin"}, {"block.%d", decoded, NULL, 4, "block"}, {"", late, NULL, 1, "end"}};

#endif
