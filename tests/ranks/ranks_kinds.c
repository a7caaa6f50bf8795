/* Tests, for models of every kind, that results do not depend on the layout of ranks: runs steps of a small model in a
 * layout of ranks, and compares them with the same steps on one rank, which the first rank runs for all. Losses,
 * metrics, gradient norms and an evaluation must agree, and the same layout twice must give the same bits, including
 * weights.
 *
 *   ranks_kinds list [MODEL]          prints rows, "RANKS MODEL SETTING…" each; any two settings of a model meet in
 *                                     some row
 *   ranks_kinds all                   runs the rows of every model that have as many ranks as there are now
 *   ranks_kinds MODEL [tp=2] [sp=1] [pp=2|4] [ep=2|4] [rounds=1] [chunks=2] [cut=before|in|after] [zero=1|2|3]
 *               [recompute=1|2] [precision=f64|f32|bf16|f16] [micro=N] [optimizer=lamb|muon] [refused=1]
 *
 *   gpt      with dropout
 *   conv     convolutions with batch norm over groups of two samples, pooling, an accuracy metric
 *   losses   two vocabulary losses with coefficients, one of them in the middle of the model; dropout
 *   custom   a custom op with two inputs and two outputs
 *   decoder  attention with one or two key/value heads, of which tp 2 divides only two, rotary positions, windows, a
 *            soft-cap, ALiBi, norms of queries and keys, and dropout
 *
 *   modern   model/block.c with one key/value head, rotary positions, SwiGLU, RMS norms (1 + w) on both sides, norms of
 *            queries and keys, windows in some layers, soft-caps of scores and logits, a head of its own; dropout
 *   parallel model/block.c with ALiBi, one key/value head whose rows are in one tensor with those of the queries, a
 *            norm of the embedding, both branches after one norm, a bias of the head
 *   experts  model/block.c with experts in three of four layers, which ep divides, losses of their balance and of their
 *            logits, jitter of what routers and experts read, rotary positions, RMS norms; dropout
 *   gpt_oss  model/block.c with what that family has: sinks, windows, experts in one tensor of the file with biases and
 *            cut gates; dropout
 *   stacked  the same without biases of experts, and with the weights of phimoe
 *   residual GPT-2's blocks with experts that Sinkhorn's iterations choose, an MLP beside them, biases of all; dropout
 *   latent   model/block.c with what deepseek_v3 has: latent attention, groups of experts chosen by sigmoids; dropout
 *   bert     model/encoder.c with types of tokens, padding, norms of the sums, masked tokens and pairs of sentences;
 *            dropout
 *   t5       model/t5.c, the kind of transformers: biases of relative positions, a gate, a head of its own; the decoder
 *            has shorter samples; dropout
 *   umt5     the same with biases of relative positions of each layer, no gate, a tied head of scaled values
 *   megatron_t5  model/t5.c, Megatron's kind: a table of positions that both stacks share; dropout
 *   choices  a classifier of model/encoder.c whose samples are four sequences, one of which is right; norms before the
 *            branches; dropout
 *
 * rounds: rows of experts are sent in several rounds.
 * recompute: 1 as the model says, 2 as the options say (groups of two layers, whose saved inputs tp shares out).
 * cut: where a T5 is cut into stages: in its encoder, where the decoder begins, or inside the decoder, which then has
 * four layers and the encoder two; in the other cases the encoder has four. Four stages are cut in all three places.
 * The single rank uses micro-batches of two samples and no recomputation, for any layout, so that its results are kept
 * for the next row. refused: this model does not support the layout, and the engine must refuse it. */
#include "cover.h"
#include "device.h"
#include "kinds_layers.h"
#include "kinds_networks.h"
#include "megalith/batch.h"
#include "megalith/hash.h"
#include "megalith/memory.h"
#include "rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TARGET = 12, BATCH = 8, STEPS = 3, VALUES = MEGA_METRICS };

/* ---- the list of models ---- */

enum { FOUR_RANKS, EXPERTS, STACKS, ENCODER, T5 }; /* which rows */

#define ROWS(list) list, (int)(sizeof(list) / sizeof *(list))
static const struct {
    const char *name;
    const mega_layer *layer; /* NULL: GPT */
    int num_layers;
    bool all_rows;                 /* cannot use sequence parallelism */
    const mega_network_shape *net; /* of a GPT; NULL: GPT-2's */
    int kind;
} models[] = {{"gpt", NULL, 0, false, NULL, FOUR_RANKS},
              {"conv", ROWS(conv), true, NULL, FOUR_RANKS},
              {"losses", ROWS(losses), false, NULL, FOUR_RANKS},
              {"custom", ROWS(custom), false, NULL, FOUR_RANKS},
              {"decoder", ROWS(decoder), false, NULL, FOUR_RANKS},
              {"modern", NULL, 0, false, &modern, FOUR_RANKS},
              {"parallel", NULL, 0, false, &parallel, FOUR_RANKS},
              {"experts", NULL, 0, false, &experts, EXPERTS},
              {"gpt_oss", NULL, 0, false, &gpt_oss, STACKS},
              {"stacked", NULL, 0, false, &stacked, STACKS},
              {"residual", NULL, 0, false, &residual, STACKS},
              {"latent", NULL, 0, false, &latent, STACKS},
              {"bert", NULL, 0, false, &bert, ENCODER},
              {"t5", NULL, 0, false, &t5, T5},
              {"umt5", NULL, 0, false, &umt5, FOUR_RANKS},
              {"megatron_t5", NULL, 0, false, &megatron_t5, T5},
              {"choices", NULL, 0, false, &choices, FOUR_RANKS}};
enum { MODELS = sizeof models / sizeof *models };

/* ---- settings ---- */

enum { CUT_ANYWHERE, CUT_BEFORE, CUT_IN, CUT_AFTER, CUTS };

typedef struct setting {
    int model, tp, sp, pp, ep, rounds, chunks, zero, recompute, precision, micro, refused, cut, optimizer;
} setting;

static const struct {
    const char *name;
    mega_dtype dtype;
    double tolerance;
} precisions[] = {{"f64", MEGA_F64, 1e-8}, {"f32", MEGA_F32, 1e-5}, {"bf16", MEGA_BF16, 2e-2}, {"f16", MEGA_F16, 3e-3}};
enum { PRECISIONS = sizeof precisions / sizeof *precisions, OPTIMIZERS = 3 };
static const mega_optimizer_kind optimizers[OPTIMIZERS] = {MEGA_OPTIMIZER_ADAM, MEGA_OPTIMIZER_LAMB,
                                                           MEGA_OPTIMIZER_MUON};

static int choice(const char *text, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0) return i;
    fprintf(stderr, "unknown: %s\n", text);
    exit(2);
}

static int model_of(const char *name)
{
    const char *names[MODELS];
    for (int i = 0; i < MODELS; i++) names[i] = models[i].name;
    return choice(name, names, MODELS);
}

static void read_word(setting *s, const char *word)
{
    static const char *const types[PRECISIONS] = {"f64", "f32", "bf16", "f16"};
    static const char *const names_of_optimizers[OPTIMIZERS] = {"adam", "lamb", "muon"};
    static const char *const cuts[CUTS] = {"anywhere", "before", "in", "after"};
    const struct {
        const char *name;
        int *out;
        const char *const *words; /* NULL: a number */
        int count;
    } settings[] = {{"tp", &s->tp, NULL, 0},
                    {"sp", &s->sp, NULL, 0},
                    {"ep", &s->ep, NULL, 0},
                    {"rounds", &s->rounds, NULL, 0},
                    {"pp", &s->pp, NULL, 0},
                    {"chunks", &s->chunks, NULL, 0},
                    {"zero", &s->zero, NULL, 0},
                    {"recompute", &s->recompute, NULL, 0},
                    {"micro", &s->micro, NULL, 0},
                    {"refused", &s->refused, NULL, 0},
                    {"cut", &s->cut, cuts, CUTS},
                    {"precision", &s->precision, types, PRECISIONS},
                    {"optimizer", &s->optimizer, names_of_optimizers, OPTIMIZERS}};
    const char *names[sizeof settings / sizeof *settings];
    const char *is = strchr(word, '=');
    char name[32];
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) names[i] = settings[i].name;
    snprintf(name, sizeof name, "%.*s", is == NULL ? 0 : (int)(is - word), word);
    const int i = choice(name, names, sizeof settings / sizeof *settings);
    *settings[i].out = settings[i].words == NULL ? atoi(is + 1) : choice(is + 1, settings[i].words, settings[i].count);
}

/* text: the model, and settings. */
static setting read_setting(const char *text)
{
    setting s = {.tp = 1, .pp = 1, .ep = 1, .chunks = 1, .micro = 2};
    char copy[256], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    const char *word = strtok_r(copy, " ", &rest);
    s.model = model_of(word == NULL ? "" : word);
    while ((word = strtok_r(NULL, " ", &rest)) != NULL) read_word(&s, word);
    return s;
}

/* ---- rows of settings ---- */

enum { IN_TENSOR, IN_STAGES, IN_DATA, IN_ZERO, IN_RECOMPUTE, IN_PRECISION, IN_MICRO, IN_EXPERTS, IN_UPDATE, FACTORS };
static const char *const words[FACTORS][COVER_LEVELS] = {
    [IN_TENSOR] = {"", "tp=2", "tp=2 sp=1"},
    [IN_STAGES] = {"", "pp=2", "pp=2 chunks=2", "pp=4", "pp=2 cut=before", "pp=2 cut=in", "pp=2 cut=after",
                   "pp=4 cut=in"},
    [IN_DATA] = {"", "", ""}, /* determines the number of ranks */
    [IN_ZERO] = {"", "zero=1", "zero=2", "zero=3"},
    [IN_RECOMPUTE] = {"", "recompute=1", "recompute=2"},
    [IN_PRECISION] = {"precision=f64", "precision=f32", "precision=bf16", "precision=f16"},
    [IN_MICRO] = {"micro=2", "micro=4"},
    [IN_EXPERTS] = {"", "ep=2", "ep=4", "ep=2 rounds=1"},
    [IN_UPDATE] = {"", "optimizer=lamb", "optimizer=muon"}};
static const int data_ranks[] = {1, 2, 4}, expert_ranks[] = {1, 2, 4, 2};
static const struct {
    int ranks, chunks;
} stages[] = {{1, 1}, {2, 1}, {2, 2}, {4, 1}, {2, 1}, {2, 1}, {2, 1}, {4, 1}};
/* The levels that a kind has of a factor (bit i: level i; 0: all), and the most ranks of its rows. */
static const struct {
    uint32_t stages, data, experts, optimizer, tensor, zero, recompute, precision;
    int ranks;
} kinds[] = {
    [FOUR_RANKS] = {1 | 2 | 4, 1 | 2, 1, 1, .ranks = 4},
    [EXPERTS] = {1 | 2 | 4, 1 | 2 | 4, 1 | 2 | 4 | 8, .ranks = 4},
    [STACKS] = {1 | 2 | 4, 1 | 2 | 4, 1 | 2 | 8, .zero = 1 | 2 | 8, .recompute = 1 | 2, .precision = 1 | 2, .ranks = 4},
    [ENCODER] = {1 | 2 | 4 | 8, 1 | 2, 1, 1, .ranks = 8},
    [T5] = {1 | 4 | 16 | 32 | 64 | 128, 1 | 2, 1, 1, .ranks = 8}};
static int listed; /* the model whose rows are generated; cover_make cannot pass it */

typedef struct listed_row {
    int ranks;
    char words[160];
} listed_row;

/* Returns the minimum number of ranks; open factors count as 1. */
static int ranks_of(const int *level)
{
    return (level[IN_TENSOR] > 0 ? 2 : 1) * (level[IN_STAGES] > 0 ? stages[level[IN_STAGES]].ranks : 1) *
           (level[IN_DATA] > 0 ? data_ranks[level[IN_DATA]] : 1);
}

static bool allows(const cover_row *r)
{
    const int *level = r->level;
    const int data = level[IN_DATA] == COVER_ANY ? 4 : data_ranks[level[IN_DATA]];
    const int together = (level[IN_DATA] > 0 ? data : 1) * (level[IN_MICRO] > 0 ? 4 : 2);
    if (level[IN_EXPERTS] > 0 && data % expert_ranks[level[IN_EXPERTS]] != 0) return false;
    if (together > BATCH) return false;
    if (ranks_of(level) > kinds[models[listed].kind].ranks) return false;
    if (models[listed].all_rows && level[IN_TENSOR] == 2) return false;
    if (ranks_of(level) == 8 && level[IN_PRECISION] > 1) return false; /* 8 ranks are compared to 1e-8 or 1e-5 */
    if (level[IN_DATA] == 0 && level[IN_ZERO] > 0) return false;
    return level[IN_STAGES] != 2 || BATCH / together % 2 == 0; /* programs alternate over two micro-batches */
}

static void add_row(listed_row *rows, int *count, int ranks, const char *settings, int model)
{
    rows[*count].ranks = ranks;
    snprintf(rows[(*count)++].words, sizeof rows->words, "%s %s", models[model].name, settings);
}

/* Sets out[…] to the rows of a model; returns how many there are. */
static int make_rows(int model, listed_row out[COVER_ROWS + 1])
{
    static cover c; /* large */
    c = (cover){.factors = FACTORS,
                .levels = {3, COVER_LEVELS, 3, 4, 3, 4, 2, 4, 3},
                .use = {[IN_TENSOR] = kinds[models[model].kind].tensor,
                        [IN_STAGES] = kinds[models[model].kind].stages,
                        [IN_DATA] = kinds[models[model].kind].data,
                        [IN_ZERO] = kinds[models[model].kind].zero,
                        [IN_RECOMPUTE] = kinds[models[model].kind].recompute,
                        [IN_PRECISION] = kinds[models[model].kind].precision,
                        [IN_EXPERTS] = kinds[models[model].kind].experts,
                        [IN_UPDATE] = kinds[models[model].kind].optimizer},
                .wanted = ~0U,
                .allows = allows};
    listed = model;
    if (!cover_make(&c)) {
        fprintf(stderr, "too many rows\n");
        exit(1);
    }
    for (int i = 0; i < c.rows; i++) {
        out[i].ranks = ranks_of(c.row[i].level);
        int n = snprintf(out[i].words, sizeof out[i].words, "%s", models[model].name);
        for (int f = 0; f < FACTORS; f++) {
            const char *more = words[f][c.row[i].level[f]];
            if (more[0] != '\0') n += snprintf(out[i].words + n, sizeof out[i].words - (size_t)n, " %s", more);
        }
    }
    if (models[model].kind == EXPERTS || models[model].kind == STACKS) /* slices of experts that other ranks hold too */
        add_row(out, &c.rows, 4, "zero=2 precision=f64 ep=2 optimizer=lamb", model);
    if (models[model].all_rows) add_row(out, &c.rows, 2, "tp=2 sp=1 precision=f32 refused=1", model);
    return c.rows;
}

static void print_rows(int model)
{
    static listed_row rows[COVER_ROWS + 1];
    const int count = make_rows(model, rows);
    for (int i = 0; i < count; i++) printf("%d %s\n", rows[i].ranks, rows[i].words);
}

/* ---- a run ---- */

typedef struct outcome {
    double loss, norm, value[VALUES];
    uint64_t weights; /* hash of the weights that this rank owns */
} outcome;

static bool has_experts(const setting *s)
{
    return models[s->model].net != NULL && models[s->model].net->experts.count > 0;
}

static mega_transformer gpt_of_setting(const setting *s, bool alone)
{
    mega_transformer gpt = engine_run_gpt();
    gpt.num_layers = 4;
    if (models[s->model].net != NULL) gpt.net = *models[s->model].net;
    if (gpt.net.head_dim > 0) gpt.head_dim = gpt.net.head_dim;
    if (has_experts(s)) gpt.router = (mega_router_training){.balance = 0.1, .z = 0.01, .group = GROUP, .jitter = 0.1};
    gpt.router.sinkhorn = models[s->model].net == &residual;
    if (models[s->model].net == &experts) {
        gpt.net.experts.jitter = 0.05;
        if (!mega_dtype_is_half(precisions[s->precision].dtype)) /* rounding decides which choices these drop */
            gpt.capacity = (mega_expert_capacity){.factor = 1, .group = GROUP};
    }
    gpt.attention_dropout = gpt.hidden_dropout = 0.1;
    gpt.recompute = !alone && s->recompute == 1 ? MEGA_TRANSFORMER_RECOMPUTE_FULL : MEGA_TRANSFORMER_RECOMPUTE_NONE;
    gpt.stage_chunks = alone ? 1 : s->chunks;
    gpt.sequence_parallel = !alone && s->sp;
    if (s->rounds) gpt.expert_buffer = 0.3;
    if (gpt.net.t5 == MEGA_T5_NONE) return gpt;
    gpt.decoder_positions = TARGET;
    if (gpt.net.t5 == MEGA_T5_ORIGINAL) gpt.init_std = 0.1; /* scores are not scaled */
    if (s->cut == CUT_AFTER) gpt.num_layers = 2, gpt.net.decoder_layers = 4;
    if (!alone && s->cut == CUT_IN) gpt.split_stage = s->pp / 2;
    return gpt;
}

/* Ends the program if a T5 is not cut where the setting says. */
static void need_cut(const mega_transformer *gpt, const setting *s)
{
    const int begin = 1 + (int)gpt->num_layers + 1; /* after the embedding, the blocks and the norm of the encoder */
    int *first = NULL;
    bool is_cut[CUTS] = {[CUT_ANYWHERE] = true};
    if (s->cut == CUT_ANYWHERE) return;
    need(mega_transformer_first_layers(gpt, s->pp, &first));
    for (int p = 1; p < s->pp; p++)
        is_cut[first[p] < begin ? CUT_BEFORE : first[p] == begin ? CUT_IN : CUT_AFTER] = true;
    mega_free(first);
    if (is_cut[s->cut] && (s->pp == 2 || (is_cut[CUT_BEFORE] && is_cut[CUT_IN] && is_cut[CUT_AFTER]))) return;
    fprintf(stderr, "the layers are not cut where this row wants it\n");
    exit(1);
}

static mega_status create(mega_engine **out, mega_world *world, const setting *s)
{
    const bool alone = world == NULL;
    const int tp = alone ? 1 : s->tp, pp = alone ? 1 : s->pp, micro = alone ? GROUP : s->micro;
    mega_engine_options o = engine_run_options(BATCH, micro, s->optimizer == 0 ? 1e-3 : 1e-2);
    o.compute = precisions[s->precision].dtype;
    o.loss_scale.fixed = 1024; /* of fp16 */
    engine_run_optimizer(&o.optimizer, optimizers[s->optimizer]);
    o.world = world;
    o.layout = (mega_layout_sizes){.tp = tp, .pp = pp, .ep = alone ? 1 : s->ep};
    o.stage_programs = alone ? 1 : s->chunks;
    o.batch.micro_step = (int64_t)micro * (mega_world_size(world) / tp / pp);
    o.zero_stage = alone ? 0 : s->zero;
    o.bucket_elements = 500;
    if (!alone && s->recompute == 2)
        o.recompute = (mega_recompute_options){.replaces = true, .interval = 2, .distribute = true};
    if (models[s->model].layer == NULL) {
        const mega_transformer gpt = gpt_of_setting(s, alone);
        if (!alone) need_cut(&gpt, s);
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
    for (int i = 0; i < mega_params_count(p); i++) {
        const size_t bytes = (size_t)mega_params_owned(p, i).count * mega_dtype_size(mega_params_acc_dtype(p));
        void *weights = device_copy_owned(p, i);
        hash = mega_hash64(hash, weights, bytes);
        free(weights);
    }
    return hash;
}

/* How many rounds an exchange takes is known where there is one. */
static bool is_of_one_rank(const mega_engine *e, int metric)
{
    return strcmp(mega_engine_metric_name(e, metric), "later rounds") != 0;
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
    need(mega_engine_compare_ranks(e));
    need(mega_engine_initialize(e, 11));
    /* the accuracy of a classifier is known in the evaluation alone, and one of 8 samples is more than a tolerance */
    const int values = models[s->model].net == &choices ? 1 : mega_engine_num_metrics(e);
    for (int i = 0; i < STEPS; i++) {
        fill(mega_engine_batch(e), s);
        need(mega_engine_train_batch(e, &r));
        out[i] = (outcome){.loss = r.loss, .norm = r.grad_norm, .weights = hash_weights(e)};
        for (int k = 0, to = 0; k < values; k++)
            if (is_of_one_rank(e, k)) out[i].value[to++] = r.metric[k];
    }
    fill(mega_engine_evaluation_batch(e, BATCH / shares, (int64_t)STEPS * BATCH), s);
    need(mega_engine_evaluate_batch(e, &sums));
    out[STEPS].loss = sums.loss / sums.count;
    for (int k = 0, to = 0; k < values; k++) /* some are those of a training alone */
        if (is_of_one_rank(e, k)) out[STEPS].value[to++] = sums.weight[k] > 0 ? sums.metric[k] / sums.weight[k] : 0;
    mega_engine_destroy(e);
}

static double apart(double a, double b)
{
    return fabs(a - b) / fmax(fabs(b), 1e-300);
}

static int compare(const outcome *many, const outcome *one, const setting *s, double *worst)
{
    int failures = 0;
    /* In 16 bits a token may choose another expert, which a count shows; the losses of routers come before counts. */
    const bool is_counted = !has_experts(s) || precisions[s->precision].tolerance < 1e-4;
    for (int i = 0; i <= STEPS; i++) {
        for (int k = 0; k < 2 + (is_counted ? VALUES : 2); k++) {
            const double a = k == 0 ? many[i].loss : k == 1 ? many[i].norm : many[i].value[k - 2];
            const double b = k == 0 ? one[i].loss : k == 1 ? one[i].norm : one[i].value[k - 2];
            const double d = a == b ? 0 : apart(a, b);
            *worst = fmax(*worst, d);
            if (d <= precisions[s->precision].tolerance) continue;
            fprintf(stderr, "step %d: %s %d: %.12g, on one rank %.12g: %.3g apart, at most %.3g\n", i + 1,
                    k == 0   ? "loss"
                    : k == 1 ? "norm"
                             : "value",
                    k - 2, a, b, d, precisions[s->precision].tolerance);
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

/* What the first rank has computed alone. */
typedef struct references {
    bool is_known[MODELS][PRECISIONS][OPTIMIZERS][2];
    outcome of[MODELS][PRECISIONS][OPTIMIZERS][2][STEPS + 1];
} references;

static const outcome *results_alone(references *r, const setting *s)
{
    const int deep = s->cut == CUT_AFTER; /* another model */
    bool *is_known = &r->is_known[s->model][s->precision][s->optimizer][deep];
    outcome *one = r->of[s->model][s->precision][s->optimizer][deep];
    if (!*is_known) train(NULL, s, one);
    *is_known = true;
    return one;
}

static int check(mega_world *world, const setting *s, references *known)
{
    outcome one[STEPS + 1], many[STEPS + 1], again[STEPS + 1];
    double worst = 0;
    if (s->refused) return expect_refusal(world, s);
    if (mega_world_rank(world) == 0) memcpy(one, results_alone(known, s), sizeof one);
    need(mega_comm_broadcast(mega_world_comm(world), "results", one, sizeof one, 0));
    train(world, s, many);
    train(world, s, again);
    int failures = compare(many, one, s, &worst);
    if (memcmp(many, again, sizeof many) != 0) fprintf(stderr, "other bits the second time\n"), failures++;
    if (!(one[STEPS - 1].loss < one[0].loss)) fprintf(stderr, "the loss does not fall\n"), failures++;
    if (mega_world_rank(world) == 0) printf("%.2g apart", worst);
    return failures;
}

/* Runs a row; its words are printed before, so that they are the last ones if it does not end. */
static int check_row(mega_world *world, const char *text, references *known)
{
    const setting s = read_setting(text);
    const bool speaks = mega_world_rank(world) == 0;
    if (speaks) printf("%d %s: ", mega_world_size(world), text);
    fflush(stdout);
    const int failures = check(world, &s, known);
    if (speaks) printf("%s\n", s.refused ? "refused" : "");
    fflush(stdout);
    if (failures > 0)
        fprintf(stderr, "FAILED: rank %d of %d: %s\n", mega_world_rank(world), mega_world_size(world), text);
    return failures;
}

static int check_all(mega_world *world, references *known)
{
    static listed_row rows[COVER_ROWS + 1];
    int failures = 0;
    for (int model = 0; model < MODELS; model++) {
        const int count = make_rows(model, rows);
        for (int i = 0; i < count; i++)
            if (rows[i].ranks == mega_world_size(world)) failures += check_row(world, rows[i].words, known);
    }
    return failures;
}

int main(int argc, char **argv)
{
    mega_world *world = NULL;
    references known = {0};
    char text[256] = "";
    if (argc > 1 && strcmp(argv[1], "list") == 0) {
        for (int model = 0; model < MODELS; model++)
            if (argc == 2 || model == model_of(argv[2])) print_rows(model);
        return 0;
    }
    for (int i = 1; i < argc; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i > 1 ? " " : "", argv[i]);
    need(mega_world_create(NULL, &world));
    const int failures = strcmp(text, "all") == 0 ? check_all(world, &known) : check_row(world, text, &known);
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
