/* Tests, for models of every kind, that results do not depend on the layout of ranks: runs steps of a small
 * model in a layout of ranks, and compares them with the same steps on one rank, which the first rank runs for all.
 * Losses, metrics, gradient norms and an evaluation must agree, and the same layout twice must give the same bits,
 * including weights.
 *
 *   ranks_kinds list MODEL            prints rows of settings, "RANKS SETTING…" each; any two settings meet in some row
 *   ranks_kinds MODEL [tp=2] [sp=1] [pp=2] [chunks=2] [zero=1|2|3] [recompute=1|2] [precision=f64|f32|bf16|f16]
 *               [micro=N] [refused=1]
 *
 *   gpt      with dropout
 *   conv     convolutions with batch norm over groups of two samples, pooling, an accuracy metric
 *   losses   two vocabulary losses with coefficients, one of them in the middle of the model; dropout
 *   custom   a custom op with two inputs and two outputs
 *   decoder  attention with one or two key/value heads, of which tp 2 divides only two, rotary positions, windows, a
 *            soft-cap, ALiBi, norms of queries and keys, and dropout
 *
 *   modern   model/decoder.c with one key/value head, rotary positions, SwiGLU, RMS norms (1 + w) on both sides, norms of
 *            queries and keys, windows in some layers, soft-caps of scores and logits, a head of its own; dropout
 *   parallel model/decoder.c with ALiBi, one key/value head whose rows are in one tensor with those of the queries, a norm
 *            of the embedding, both branches after one norm, a bias of the head
 *   bert     model/encoder.c with types of tokens, padding, norms of the sums, masked tokens and pairs of sentences;
 *            dropout
 *   t5       model/t5.c, the kind of transformers: biases of relative positions, a gate, a head of its own; the decoder has
 *            shorter samples, and begins with the second stage; dropout
 *   megatron_t5  model/t5.c, Megatron's kind: a table of positions that both stacks share; stages cut by weights, also
 *            within the stacks; dropout
 *   choices  a classifier of model/encoder.c whose samples are four sequences, one of which is right; norms before the
 *            branches; dropout
 *
 * recompute: 1 as the model says, 2 as the options say (groups of two layers, whose saved inputs tp shares out).
 * The single rank uses micro-batches of two samples and no recomputation, for any layout. refused: this model does not
 * support the layout, and the engine must refuse it. */
#include "cover.h"
#include "engine_run.h"
#include "kinds_networks.h"
#include "megalith/batch.h"
#include "megalith/hash.h"
#include "megalith/layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    T = ENGINE_RUN_SEQ,
    TARGET = 12,
    V = 20,
    C = 16,
    SIDE = 4,
    CLASSES = 5,
    GROUP = 2,
    BATCH = 8,
    STEPS = 3,
    VALUES = 2
};

static void need(mega_status st)
{
    if (st == MEGA_OK) return;
    fprintf(stderr, "%s\n", mega_error_message());
    exit(1);
}

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

/* ---- the list of models ---- */

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

#define ROWS(list) list, (int)(sizeof(list) / sizeof *(list))
static const struct {
    const char *name;
    const mega_layer *layer; /* NULL: GPT */
    int num_layers;
    bool all_rows;                 /* cannot use sequence parallelism */
    const mega_network_shape *net; /* of a GPT; NULL: GPT-2's */
} models[] = {{"gpt", NULL, 0, false, NULL},
              {"conv", ROWS(conv), true, NULL},
              {"losses", ROWS(losses), false, NULL},
              {"custom", ROWS(custom), false, NULL},
              {"decoder", ROWS(decoder), false, NULL},
              {"modern", NULL, 0, false, &modern},
              {"parallel", NULL, 0, false, &parallel},
              {"bert", NULL, 0, false, &bert},
              {"t5", NULL, 0, false, &t5},
              {"megatron_t5", NULL, 0, false, &megatron_t5},
              {"choices", NULL, 0, false, &choices}};

/* ---- settings ---- */

typedef struct setting {
    int model, tp, sp, pp, chunks, zero, recompute, precision, micro, refused;
} setting;

static const struct {
    const char *name;
    mega_dtype dtype;
    double tolerance;
} precisions[] = {{"f64", MEGA_F64, 1e-8}, {"f32", MEGA_F32, 1e-5}, {"bf16", MEGA_BF16, 2e-2}, {"f16", MEGA_F16, 3e-3}};

enum { IN_TENSOR, IN_STAGES, IN_DATA, IN_ZERO, IN_RECOMPUTE, IN_PRECISION, IN_MICRO, FACTORS };
static const char *const words[FACTORS][COVER_LEVELS] = {
    [IN_TENSOR] = {"", "tp=2", "tp=2 sp=1"},
    [IN_STAGES] = {"", "pp=2", "pp=2 chunks=2"},
    [IN_DATA] = {"", ""}, /* determines the number of ranks */
    [IN_ZERO] = {"", "zero=1", "zero=2", "zero=3"},
    [IN_RECOMPUTE] = {"", "recompute=1", "recompute=2"},
    [IN_PRECISION] = {"precision=f64", "precision=f32", "precision=bf16", "precision=f16"},
    [IN_MICRO] = {"micro=2", "micro=4"}};
static int listed; /* the model whose rows are generated; cover_make cannot pass it */

static int ranks_of(const int *level)
{
    return (level[IN_TENSOR] > 0 ? 2 : 1) * (level[IN_STAGES] > 0 ? 2 : 1) * (level[IN_DATA] > 0 ? 2 : 1);
}

static bool allows(const cover_row *r)
{
    const int *level = r->level;
    const int together = (level[IN_DATA] > 0 ? 2 : 1) * (level[IN_MICRO] > 0 ? 4 : 2);
    if (ranks_of(level) > 4 || (models[listed].all_rows && level[IN_TENSOR] == 2)) return false;
    if (level[IN_DATA] == 0 && level[IN_ZERO] > 0) return false;
    return level[IN_STAGES] != 2 || BATCH / together % 2 == 0; /* programs alternate over two micro-batches */
}

static int print_rows(int model)
{
    static cover c = {.factors = FACTORS, .levels = {3, 3, 2, 4, 3, 4, 2}, .wanted = ~0U, .allows = allows};
    listed = model;
    if (!cover_make(&c)) return 1;
    for (int i = 0; i < c.rows; i++) {
        printf("%d", ranks_of(c.row[i].level));
        for (int f = 0; f < FACTORS; f++)
            if (words[f][c.row[i].level[f]][0] != '\0') printf(" %s", words[f][c.row[i].level[f]]);
        printf("\n");
    }
    if (models[model].all_rows) printf("2 tp=2 sp=1 precision=f32 refused=1\n");
    return 0;
}

static int choice(const char *text, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0) return i;
    fprintf(stderr, "unknown: %s\n", text);
    exit(2);
}

static int model_of(const char *name)
{
    enum { MODELS = sizeof models / sizeof *models };
    const char *names[MODELS];
    for (int i = 0; i < MODELS; i++) names[i] = models[i].name;
    return choice(name, names, MODELS);
}

static setting read_setting(int argc, char **argv)
{
    setting s = {.model = model_of(argc > 1 ? argv[1] : ""), .tp = 1, .pp = 1, .chunks = 1, .micro = 2};
    const char *const kinds[] = {precisions[0].name, precisions[1].name, precisions[2].name, precisions[3].name};
    const struct {
        const char *name;
        int *out;
    } numbers[] = {{"tp", &s.tp},         {"sp", &s.sp},          {"pp", &s.pp},
                   {"chunks", &s.chunks}, {"zero", &s.zero},      {"recompute", &s.recompute},
                   {"micro", &s.micro},   {"refused", &s.refused}};
    const char *names[sizeof numbers / sizeof *numbers];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) names[i] = numbers[i].name;
    for (int i = 2; i < argc; i++) {
        char name[32];
        const char *is = strchr(argv[i], '=');
        snprintf(name, sizeof name, "%.*s", is == NULL ? 0 : (int)(is - argv[i]), argv[i]);
        if (strcmp(name, "precision") == 0) s.precision = choice(is + 1, kinds, 4);
        else
            *numbers[choice(name, names, sizeof numbers / sizeof *numbers)].out = atoi(is + 1);
    }
    return s;
}

/* ---- a run ---- */

typedef struct outcome {
    double loss, norm, value[VALUES];
    uint64_t weights; /* hash of the weights that this rank owns */
} outcome;

static mega_status create(mega_engine **out, mega_world *world, const setting *s)
{
    const bool alone = world == NULL;
    const int tp = alone ? 1 : s->tp, pp = alone ? 1 : s->pp, micro = alone ? GROUP : s->micro;
    mega_engine_options o = engine_run_options(BATCH, micro, 1e-3);
    o.compute = precisions[s->precision].dtype;
    o.loss_scale.fixed = 1024; /* of fp16 */
    o.world = world;
    o.layout = (mega_layout_sizes){.tp = tp, .pp = pp};
    o.stage_programs = alone ? 1 : s->chunks;
    o.batch.micro_step = (int64_t)micro * (mega_world_size(world) / tp / pp);
    o.zero_stage = alone ? 0 : s->zero;
    o.bucket_elements = 500;
    if (!alone && s->recompute == 2)
        o.recompute = (mega_recompute_options){.replaces = true, .interval = 2, .distribute = true};
    if (models[s->model].layer == NULL) {
        mega_gpt gpt = engine_run_gpt();
        gpt.num_layers = 4;
        if (models[s->model].net != NULL) gpt.net = *models[s->model].net;
        gpt.attention_dropout = gpt.hidden_dropout = 0.1;
        gpt.recompute = !alone && s->recompute == 1 ? MEGA_GPT_RECOMPUTE_FULL : MEGA_GPT_RECOMPUTE_NONE;
        gpt.stage_chunks = o.stage_programs;
        if (gpt.net.t5 != MEGA_T5_NONE) gpt.decoder_positions = TARGET;
        if (gpt.net.t5 == MEGA_T5_ORIGINAL) {
            gpt.init_std = 0.1; /* scores are not scaled */
            gpt.split_stage = pp > 1 && gpt.stage_chunks <= 1;
        }
        gpt.sequence_parallel = !alone && s->sp;
        return gpt_engine_create(out, &gpt, &o);
    }
    const mega_model m = {.layer = models[s->model].layer,
                          .num_layers = models[s->model].num_layers,
                          .partition = MEGA_PARTITION_UNIFORM,
                          .recompute_interval = !alone && s->recompute == 1,
                          .recompute_type = "block|begin",
                          .sequence_parallel = !alone && s->sp};
    return mega_engine_create(&(mega_setup){.model = &m, .options = &o}, out);
}

/* What samples of an encoder have besides tokens: padding, types of tokens, and the label of a pair. */
static void fill_encoder(mega_sample *sample, const int32_t *row, int64_t n)
{
    int32_t *types = mega_sample_i32(sample, "token_types", T), *end = mega_sample_i32(sample, "key_end", T);
    int32_t *label = mega_sample_i32(sample, "is_random", 1);
    float *mask = mega_sample_f32(sample, "loss_mask", T);
    const int32_t length = T - (int32_t)(n % 4);
    for (int32_t k = 0; k < T; k++) {
        if (types != NULL) types[k] = k >= 7 && k < length;
        if (end != NULL) end[k] = length;
        if (mask != NULL) mask[k] = (k + (int32_t)n) % 4 == 0 && k < 12 ? 1.0f : 0.0f; /* as many in each sample */
    }
    if (label != NULL) label[0] = row[3] % 2;
}

/* What samples of an encoder with a decoder have besides tokens: padding, and what the decoder reads and predicts. */
static void fill_t5(mega_sample *sample, const int32_t *row, int64_t n)
{
    int32_t *end = mega_sample_i32(sample, "key_end", T), *seen = mega_sample_i32(sample, "cross_key_end", TARGET);
    int32_t *read = mega_sample_i32(sample, "decoder_tokens", TARGET);
    int32_t *position = mega_sample_i32(sample, "decoder_position_ids", TARGET);
    int32_t *label = mega_sample_i32(sample, "labels", TARGET);
    float *mask = mega_sample_f32(sample, "loss_mask", TARGET);
    const int32_t length = T - (int32_t)(n % 4);
    for (int32_t k = 0; k < T && end != NULL; k++) end[k] = length;
    for (int32_t k = 0; k < TARGET; k++) {
        if (seen != NULL) seen[k] = length;
        if (read != NULL) read[k] = k == 0 ? 0 : row[(3 * k + 1) % T];
        if (position != NULL) position[k] = k;
        if (label != NULL) label[k] = row[(3 * k + 4) % T];
        if (mask != NULL) mask[k] = k < 9 ? 1.0f : 0.0f;
    }
}

/* Four sequences of different lengths, and which of them is right. */
static void fill_choices(mega_sample *sample, const int32_t *row, int64_t n)
{
    enum { EACH = T / 4 };
    int32_t *types = mega_sample_i32(sample, "token_types", T), *end = mega_sample_i32(sample, "key_end", T);
    int32_t *position = mega_sample_i32(sample, "position_ids", T), *label = mega_sample_i32(sample, "label", 1);
    for (int32_t k = 0; k < T; k++) {
        if (types != NULL) types[k] = k % EACH > 1;
        if (end != NULL) end[k] = EACH - (int32_t)((n + k / EACH) % 2);
        if (position != NULL) position[k] = k % EACH;
    }
    if (label != NULL) label[0] = row[3] % 4;
}

/* Fills a batch with the same samples in every step, so that the loss decreases. */
static void fill(mega_batch *b, const setting *s)
{
    for (int64_t i = 0; i < mega_batch_num_samples(b); i++) {
        mega_sample *sample = mega_batch_sample(b, i);
        const int64_t n = mega_sample_index(sample) % BATCH;
        int32_t row[T + 1];
        float value[T];
        engine_run_sample(row, n);
        if (models[s->model].layer == NULL) {
            engine_run_fill(b, i, n);
            if (models[s->model].net == &bert) fill_encoder(sample, row, n);
            if (models[s->model].net != NULL && models[s->model].net->t5 != MEGA_T5_NONE) fill_t5(sample, row, n);
            if (models[s->model].net == &choices) fill_choices(sample, row, n);
        } else if (models[s->model].layer == conv) {
            for (int k = 0; k < T; k++) value[k] = (float)row[k] / 10 - 1;
            row[0] %= CLASSES;
            need(mega_sample_set_f32(sample, "pixels", value, T));
            need(mega_sample_set_i32(sample, "label", row, 1));
        } else {
            int32_t zero[T] = {0}, position[T];
            for (int k = 0; k < T; k++) value[k] = 1, position[k] = k;
            if (models[s->model].layer == decoder) {
                need(mega_sample_set_i32(sample, "key_begin", zero, T));
                need(mega_sample_set_i32(sample, "position_ids", position, T));
            }
            need(mega_sample_set_i32(sample, "tokens", row, T));
            need(mega_sample_set_i32(sample, "labels", row + 1, T));
            need(mega_sample_set_f32(sample, "weights", value, T));
        }
    }
}

static uint64_t hash_weights(const mega_engine *e)
{
    const mega_params *p = mega_engine_params(e);
    uint64_t hash = MEGA_HASH_START;
    for (int i = 0; i < mega_params_count(p); i++)
        hash = mega_hash64(hash, mega_params_master(p, i),
                           (size_t)mega_params_owned(p, i).count * mega_dtype_size(mega_params_acc_dtype(p)));
    return hash;
}

/* Runs the steps, then an evaluation. */
static void train(mega_world *world, const setting *s, outcome out[STEPS + 1])
{
    mega_engine *e = NULL;
    mega_loss_sums sums = {0};
    mega_step_result r;
    const int shares = world == NULL ? 1 : mega_world_size(world) / s->tp / s->pp;
    memset(out, 0, (STEPS + 1) * sizeof *out);
    need(create(&e, world, s));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 11));
    /* the accuracy of a classifier is known in the evaluation alone, and one of 8 samples is more than a tolerance */
    const int values = models[s->model].net == &choices ? 1 : mega_engine_num_metrics(e);
    for (int i = 0; i < STEPS; i++) {
        fill(mega_engine_batch(e), s);
        need(mega_engine_train_batch(e, &r));
        out[i] = (outcome){.loss = r.loss, .norm = r.grad_norm, .weights = hash_weights(e)};
        for (int k = 0; k < values; k++) out[i].value[k] = r.metric[k];
    }
    fill(mega_engine_evaluation_batch(e, BATCH / shares, (int64_t)STEPS * BATCH), s);
    need(mega_engine_evaluate_batch(e, &sums));
    out[STEPS].loss = sums.loss / sums.count;
    for (int k = 0; k < values; k++) out[STEPS].value[k] = sums.metric[k] / sums.weight[k];
    mega_engine_destroy(e);
}

static double apart(double a, double b)
{
    return fabs(a - b) / fmax(fabs(b), 1e-300);
}

static int compare(const outcome *many, const outcome *one, const setting *s, double *worst)
{
    int failures = 0;
    for (int i = 0; i <= STEPS; i++) {
        const double a[] = {many[i].loss, many[i].norm, many[i].value[0], many[i].value[1]};
        const double b[] = {one[i].loss, one[i].norm, one[i].value[0], one[i].value[1]};
        static const char *const what[] = {"loss", "norm", "first value", "second value"};
        for (int k = 0; k < 4; k++) {
            const double d = a[k] == b[k] ? 0 : apart(a[k], b[k]);
            *worst = fmax(*worst, d);
            if (d <= precisions[s->precision].tolerance) continue;
            fprintf(stderr, "step %d: %s %.12g, on one rank %.12g: %.3g apart, at most %.3g\n", i + 1, what[k], a[k],
                    b[k], d, precisions[s->precision].tolerance);
            failures++;
        }
    }
    return failures;
}

static int expect_refusal(mega_world *world, const setting *s)
{
    mega_engine *e = NULL;
    const mega_status st = create(&e, world, s);
    const char *message = mega_error_message();
    mega_engine_destroy(e);
    if (st == MEGA_ERR_UNSUPPORTED && strstr(message, "with sequence parallelism a rank of tp has a part") != NULL)
        return 0;
    fprintf(stderr, "status %d, \"%s\"; expected that it is refused\n", (int)st, message);
    return 1;
}

static int check(mega_world *world, const setting *s)
{
    outcome one[STEPS + 1], many[STEPS + 1], again[STEPS + 1];
    double worst = 0;
    if (mega_world_rank(world) == 0) train(NULL, s, one);
    need(mega_comm_broadcast(mega_world_comm(world), "results", one, sizeof one, 0));
    train(world, s, many);
    train(world, s, again);
    int failures = compare(many, one, s, &worst);
    if (memcmp(many, again, sizeof many) != 0) fprintf(stderr, "other bits the second time\n"), failures++;
    if (!(one[STEPS - 1].loss < one[0].loss)) fprintf(stderr, "the loss does not fall\n"), failures++;
    if (mega_world_rank(world) == 0) printf("%.2g apart\n", worst);
    return failures;
}

int main(int argc, char **argv)
{
    mega_world *world = NULL;
    if (argc == 3 && strcmp(argv[1], "list") == 0) return print_rows(model_of(argv[2]));
    const setting s = read_setting(argc, argv);
    need(mega_world_create(NULL, &world));
    const int failures = s.refused ? expect_refusal(world, &s) : check(world, &s);
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
