/* Tests a model whose parameters have parts: Q, K and V with different numbers of rows as three tensors of the file,
 * gate and up as two, and Q, K and V interleaved by head as one, with biases. Compares it, on one rank and on two in
 * every layout, with a model that has one parameter for each tensor of the file: the losses, the bytes of the
 * checkpoint, which loads in any layout, and the tensors by name must be the same.
 *
 *   ranks_parts FOLDER */
#include "megalith/engine_commands.h"
#include "megalith/file.h"
#include "megalith/layers.h"
#include "megalith/memory.h"
#include "megalith/philox.h"
#include "megalith/safetensors.h"
#include "rank_calls.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEQ = RANK_SEQ,
    IDS = RANK_IDS,
    C = 8,
    D = 2,
    HEADS = 4,
    GROUPS = 2,
    Q = HEADS * D,
    KV = GROUPS * D,
    F = 8,
    N = 3
};
enum { SAMPLES = 24, STEPS = 3, MORE = 2, SEED = 3 };
#define STD 0.4

static int failures;

enum { PATH = 512 };

__attribute__((format(printf, 2, 3))) static void path_of(char out[PATH], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(out, PATH, fmt, ap);
    va_end(ap);
    if (n >= 0 && n < PATH) return;
    fprintf(stderr, "a path is too long\n");
    exit(1);
}

static void fail(const char *run, const char *what)
{
    fprintf(stderr, "%s: %s\n", run, what);
    failures++;
}

/* ---- a custom op over groups of channels: y = q * k + v by head, or y = tanh(gate) * up ---- */

typedef enum source { JOINED, APART, BY_HEAD } source; /* one input; one per group; one, interleaved by head */

typedef struct mixing {
    mega_custom_op op;
    source from;
    int groups, sharing; /* 3 or 2 groups; heads of the first group per head of the others */
} mixing;

/* Returns the offset of group g of head h in a row of in[*input]: the element for d is at in[*input][row * pitch +
 * offset + d]. */
static int64_t place(const mixing *m, int g, int64_t h, int64_t heads, int *input)
{
    const int64_t other = h / m->sharing;
    *input = m->from == APART ? g : 0;
    if (m->from == BY_HEAD) return (h * m->groups + g) * D;
    if (m->from == APART) return (g == 0 ? h : other) * D;
    return (g == 0 ? h : heads + (g - 1) * (heads / m->sharing) + other) * D;
}

static int64_t heads_of(const mixing *m, const int64_t *channels)
{
    if (m->from == APART) return channels[0] / D;
    return channels[0] / D * m->sharing / (m->sharing + m->groups - 1);
}

static void mix_shape(const void *self, const int64_t *rows_in, const int64_t *channels_in, int64_t *out_rows,
                      int64_t *out_channels)
{
    out_rows[0] = rows_in[0];
    out_channels[0] = heads_of(self, channels_in) * D;
}

static mega_status mix_forward(const void *self, const mega_custom_call *c)
{
    const mixing *m = self;
    const int64_t heads = heads_of(m, c->channels);
    double *y = c->out[0];
    for (int64_t r = 0; r < c->rows[0]; r++)
        for (int64_t h = 0; h < heads; h++)
            for (int d = 0; d < D; d++) {
                double x[3] = {0, 0, 0};
                for (int g = 0, in; g < m->groups; g++) {
                    const int64_t at = place(m, g, h, heads, &in);
                    x[g] = ((const double *)c->in[in])[r * c->channels[in] + at + d];
                }
                y[(r * heads + h) * D + d] = m->groups == 3 ? x[0] * x[1] + x[2] : tanh(x[0]) * x[1];
            }
    return MEGA_OK;
}

static mega_status mix_backward(const void *self, const mega_custom_call *c)
{
    const mixing *m = self;
    const int64_t heads = heads_of(m, c->channels);
    const double *dy = c->d_out[0];
    for (int i = 0; i < c->num_in; i++) memset(c->d_in[i], 0, (size_t)(c->rows[0] * c->channels[i]) * sizeof(double));
    for (int64_t r = 0; r < c->rows[0]; r++)
        for (int64_t h = 0; h < heads; h++)
            for (int d = 0; d < D; d++) {
                double x[3] = {0, 0, 0}, *dx[3] = {NULL, NULL, NULL};
                for (int g = 0, in; g < m->groups; g++) {
                    const int64_t at = place(m, g, h, heads, &in);
                    x[g] = ((const double *)c->in[in])[r * c->channels[in] + at + d];
                    dx[g] = (double *)c->d_in[in] + r * c->channels[in] + at + d;
                }
                const double by = dy[(r * heads + h) * D + d], t = tanh(x[0]);
                *dx[0] += by * (m->groups == 3 ? x[1] : (1 - t * t) * x[1]);
                *dx[1] += by * (m->groups == 3 ? x[0] : t);
                if (m->groups == 3) *dx[2] += by;
            }
    return MEGA_OK;
}

#define OP(inputs)                                                                                 \
    {                                                                                              \
        .name = "mix", .num_in = inputs, .num_out = 1, .shape = mix_shape, .forward = mix_forward, \
        .backward = mix_backward, .is_row_wise = true                                              \
    }
static const mixing qkv_joined = {OP(1), JOINED, 3, HEADS / GROUPS}, qkv_apart = {OP(3), APART, 3, HEADS / GROUPS};
static const mixing glu_joined = {OP(1), JOINED, 2, 1}, glu_apart = {OP(2), APART, 2, 1};
static const mixing neox_joined = {OP(1), JOINED, 3, 1}, neox_by_head = {OP(1), BY_HEAD, 3, 1};

/* ---- the model; *self: whether each tensor of the file is a parameter of its own ---- */

static const bool joined = false, apart = true;
static const mega_linear_options plain = {.weight = {.init = MEGA_INIT_NORMAL, .init_std = STD}},
                                 bare = {.no_bias = true, .weight = {.init = MEGA_INIT_NORMAL, .init_std = STD}};

static mega_tensor mix(const mega_builder *b, const mixing *m, const mega_tensor *in)
{
    mega_tensor y;
    mega_custom(b, &m->op, m, in, &y);
    return y;
}

static void embed(const mega_builder *b, const void *self, mega_flow *flow)
{
    (void)self;
    flow->x = mega_embedding(b, "table", mega_input(b, "tokens", MEGA_I32, SEQ, 0), IDS, C, &plain.weight);
}

static mega_tensor grouped_attention(const mega_builder *b, bool is_apart, mega_tensor x)
{
    if (is_apart) {
        const mega_tensor in[3] = {mega_linear(b, "self_attn.q_proj", x, Q, &plain),
                                   mega_linear(b, "self_attn.k_proj", x, KV, &plain),
                                   mega_linear(b, "self_attn.v_proj", x, KV, &plain)};
        return mix(b, &qkv_apart, in);
    }
    mega_linear_options o = plain;
    o.weight.num_parts = 3;
    o.weight.part[0] = (mega_param_part){.file = "self_attn.q_proj.weight", .rows = Q};
    o.weight.part[1] = (mega_param_part){.file = "self_attn.k_proj.weight", .rows = KV};
    o.weight.part[2] = (mega_param_part){.file = "self_attn.v_proj.weight", .rows = KV};
    const mega_tensor qkv = mega_column_linear(b, "self_attn.qkv_proj", x, Q + 2 * KV, &o);
    return mix(b, &qkv_joined, &qkv);
}

static mega_tensor gated(const mega_builder *b, bool is_apart, mega_tensor x)
{
    if (is_apart) {
        const mega_tensor in[2] = {mega_linear(b, "mlp.gate_proj", x, F, &bare),
                                   mega_linear(b, "mlp.up_proj", x, F, &bare)};
        return mix(b, &glu_apart, in);
    }
    mega_linear_options o = bare;
    o.weight.num_parts = 2;
    o.weight.part[0] = (mega_param_part){.file = "mlp.gate_proj.weight", .rows = F};
    o.weight.part[1] = (mega_param_part){.file = "mlp.up_proj.weight", .rows = F};
    const mega_tensor both = mega_column_linear(b, "mlp.gate_up_proj", x, 2 * F, &o);
    return mix(b, &glu_joined, &both);
}

static void llama(const mega_builder *b, const void *self, mega_flow *flow)
{
    const bool is_apart = *(const bool *)self;
    const mega_tensor a = grouped_attention(b, is_apart, flow->x);
    flow->x = mega_add(b, flow->x, mega_row_linear(b, "self_attn.o_proj", a, C, &plain));
    const mega_tensor h = gated(b, is_apart, flow->x);
    flow->x = mega_add(b, flow->x, mega_row_linear(b, "mlp.down_proj", h, C, &bare));
}

static void neox(const mega_builder *b, const void *self, mega_flow *flow)
{
    mega_tensor qkv;
    if (*(const bool *)self) {
        qkv = mega_linear(b, "attention.query_key_value", flow->x, 3 * Q, &plain);
    } else {
        mega_linear_options o = plain;
        o.weight.num_parts = 3;
        for (int i = 0; i < 3; i++)
            o.weight.part[i] = (mega_param_part){
                .file = "attention.query_key_value.weight", .rows = Q, .first = i * D, .block = D, .stride = 3 * D};
        qkv = mega_column_linear(b, "attention.qkv", flow->x, 3 * Q, &o);
    }
    const mega_tensor a = mix(b, *(const bool *)self ? &neox_by_head : &neox_joined, &qkv);
    flow->x = mega_add(b, flow->x, mega_row_linear(b, "attention.dense", a, C, &plain));
}

static void head(const mega_builder *b, const void *self, mega_flow *flow)
{
    (void)self;
    const mega_tensor y = mega_linear(b, "fc", flow->x, N, &plain);
    mega_loss_add(b, "size", mega_sum(b, mega_mul(b, y, y), mega_none()), 1);
    flow->x = mega_none();
}

#define LAYERS(how)                                                                                 \
    {                                                                                               \
        {.path = "embed", .describe = embed}, {.path = "llama", .describe = llama, .self = &(how)}, \
            {.path = "neox", .describe = neox, .self = &(how)}, {.path = "head", .describe = head}, \
    }
static const mega_layer layers_joined[] = LAYERS(joined), layers_apart[] = LAYERS(apart);
static const mega_model model_joined = {.name = "parts", .layer = layers_joined, .num_layers = 4, .positions = SEQ};
static const mega_model model_apart = {.name = "parts", .layer = layers_apart, .num_layers = 4, .positions = SEQ};

static const mega_dataset data = {.count = SAMPLES, .read = rank_read_tokens};

/* ---- tensors by name ---- */

static void get(mega_engine *e, const char *name, const char *what, int64_t count, float *out)
{
    need(mega_engine_get_param(e, name, what, count, out));
}

/* Compares the rows of a parameter with parts, read as tensors of the file, element by element with the positions that
 * its parts define. */
static void check_places(mega_engine *e, const char *run)
{
    static float qkv[3 * Q * C], file[3 * Q * C], bias[3 * Q], file_bias[3 * Q], joint[(Q + 2 * KV) * C], k[KV * C];
    get(e, "neox.attention.qkv.weight", NULL, 3 * Q * C, qkv);
    get(e, "neox.attention.query_key_value.weight", NULL, 3 * Q * C, file);
    get(e, "neox.attention.qkv.bias", NULL, 3 * Q, bias);
    get(e, "neox.attention.query_key_value.bias", NULL, 3 * Q, file_bias);
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < 3; i++)
            for (int d = 0; d < D; d++) {
                const int there = (h * 3 + i) * D + d, here = (i * HEADS + h) * D + d;
                for (int c = 0; c < C; c++)
                    if (file[there * C + c] != qkv[here * C + c]) fail(run, "query_key_value is in another order");
                if (file_bias[there] != bias[here]) fail(run, "the bias of query_key_value is in another order");
            }
    get(e, "llama.self_attn.qkv_proj.weight", NULL, (Q + 2 * KV) * C, joint);
    get(e, "llama.self_attn.k_proj.weight", NULL, KV * C, k);
    if (memcmp(k, joint + Q * C, sizeof k) != 0) fail(run, "k_proj is not the second part of qkv_proj");
}

/* Checks that initial values depend on the names of the tensors of the file. */
static void check_initial(mega_engine *e, const char *run)
{
    static const struct {
        const char *name;
        int count;
    } tensor[] = {{"llama.self_attn.q_proj.weight", Q * C},
                  {"llama.self_attn.v_proj.weight", KV * C},
                  {"llama.mlp.up_proj.weight", F * C},
                  {"neox.attention.query_key_value.weight", 3 * Q * C}};
    static float found[3 * Q * C];
    for (size_t i = 0; i < sizeof tensor / sizeof *tensor; i++) {
        get(e, tensor[i].name, NULL, tensor[i].count, found);
        for (int k = 0; k < tensor[i].count; k++)
            if (found[k] != (float)(STD * mega_philox_normal(SEED, mega_name_hash(tensor[i].name), (uint64_t)k)))
                fail(run, tensor[i].name);
    }
}

/* Sets one tensor of the file and restores it: the other parts must not change. */
static void check_set(mega_engine *e, const char *run)
{
    static float joint[(Q + 2 * KV) * C], then[(Q + 2 * KV) * C], k[KV * C], other[KV * C];
    get(e, "llama.self_attn.qkv_proj.weight", NULL, (Q + 2 * KV) * C, joint);
    get(e, "llama.self_attn.k_proj.weight", NULL, KV * C, k);
    for (int i = 0; i < KV * C; i++) other[i] = joint[Q * C + i] = (float)(i + 1);
    need(mega_engine_set_param(e, "llama.self_attn.k_proj.weight", NULL, KV * C, other));
    get(e, "llama.self_attn.qkv_proj.weight", NULL, (Q + 2 * KV) * C, then);
    if (memcmp(then, joint, sizeof then) != 0) fail(run, "setting k_proj set something else");
    need(mega_engine_set_param(e, "llama.self_attn.k_proj.weight", NULL, KV * C, k));
    if (mega_engine_get_param(e, "llama.self_attn.k_prj.weight", NULL, KV * C, k) != MEGA_ERR_NOT_FOUND ||
        strstr(mega_error_message(), "did you mean \"llama.self_attn.k_proj.weight\"") == NULL)
        fail(run, "no nearest name of a tensor of the file");
}

/* ---- files ---- */

static bool is_same_file(const char *a, const char *b, const char *name)
{
    char path[PATH], *text[2] = {NULL, NULL};
    size_t size[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        path_of(path, "%s/%s", i == 0 ? a : b, name);
        need(mega_file_read(path, &text[i], &size[i]));
    }
    const bool same = size[0] == size[1] && memcmp(text[0], text[1], size[0]) == 0;
    mega_free(text[0]);
    mega_free(text[1]);
    return same;
}

static void compare_folders(const char *run, const char *a, const char *b, bool with_state)
{
    static const char *const name[] = {"model.safetensors", "state/optimizer.safetensors", "state/masters.safetensors"};
    for (int i = 0; i < (with_state ? 3 : 1); i++)
        if (!is_same_file(a, b, name[i])) fail(run, name[i]);
}

/* Checks the file: the rows of query_key_value are [heads, 3, D]. */
static void check_file(mega_engine *e, const char *run, const char *folder)
{
    static float qkv[3 * Q * C];
    char path[PATH];
    mega_safetensors *file = NULL;
    path_of(path, "%s/model.safetensors", folder);
    get(e, "neox.attention.qkv.weight", NULL, 3 * Q * C, qkv);
    need(mega_safetensors_open(path, &file));
    if (mega_safetensors_find(file, "llama.self_attn.qkv_proj.weight") != NULL) fail(run, "qkv_proj is in the file");
    const mega_safetensor *k = mega_safetensors_find(file, "llama.self_attn.k_proj.weight");
    const mega_safetensor *t = mega_safetensors_find(file, "neox.attention.query_key_value.weight");
    if (k == NULL || k->num_dims != 2 || k->shape[0] != KV || k->shape[1] != C) fail(run, "k_proj of the file");
    if (t == NULL || t->num_dims != 2 || t->shape[0] != 3 * Q) fail(run, "query_key_value of the file");
    for (int r = 0; t != NULL && r < 3 * Q * C; r++) {
        const int row = r / C, h = row / (3 * D), i = row / D % 3, d = row % D;
        float found;
        memcpy(&found, t->data + 4 * r, sizeof found);
        if (found != qkv[((i * HEADS + h) * D + d) * C + r % C]) fail(run, "query_key_value has another order there");
    }
    mega_safetensors_close(file);
}

/* ---- runs ---- */

typedef struct outcome {
    double loss[STEPS + MORE], norm[STEPS + MORE];
    float moment[Q * C];
} outcome;

static void train(mega_engine *e, outcome *out, int begin, int end)
{
    mega_step_result r;
    for (int step = begin; step < end; step++) {
        need(mega_engine_train_batch(e, &r));
        out->loss[step] = r.metric[0];
        out->norm[step] = r.grad_norm;
    }
}

static void compare(const char *run, const outcome *a, const outcome *b)
{
    char text[96];
    double most = 0, moments = 0;
    for (int i = 0; i < STEPS + MORE; i++)
        most = fmax(most, fmax(fabs(a->loss[i] / b->loss[i] - 1), fabs(a->norm[i] / b->norm[i] - 1)));
    for (int i = 0; i < Q * C; i++) moments = fmax(moments, fabs((double)a->moment[i] - (double)b->moment[i]));
    snprintf(text, sizeof text, "losses or norms differ by %.2g, moments by %.2g", most, moments);
    if (!(most <= 1e-12 && moments <= 1e-9 && a->loss[0] > 0 && a->norm[0] > 0)) fail(run, text);
}

static void save(mega_engine *e, const char *folder)
{
    need(mega_engine_save_checkpoint(e, folder, NULL, NULL));
}

static void load(mega_engine *e, const char *folder)
{
    bool found = false;
    need(mega_engine_load_checkpoint(e, folder, NULL, NULL, &found, NULL));
    if (!found) fail(folder, "no checkpoint");
}

static void get_moment(mega_engine *e, outcome *out)
{
    get(e, "llama.self_attn.q_proj.weight", "exp_avg", Q * C, out->moment);
}

/* Saves FOLDER/iter_0000000 and, after STEPS steps, FOLDER/iter_0000003. With `from`, it first loads that folder and
 * saves it unchanged. */
static void run_alone(const mega_model *model, const char *folder, const char *from, outcome *out)
{
    const mega_engine_options o = {.compute = MEGA_F64,
                                   .micro_batch = 1,
                                   .seq = SEQ,
                                   .batch = {.global_batch = 4, .micro_step = 1},
                                   .clip_grad = 1.0,
                                   .dropout_seed = SEED,
                                   .optimizer = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
                                   .schedule = {.style = MEGA_LR_CONSTANT,
                                                .max_lr = 0.05,
                                                .decay = 100,
                                                .start_weight_decay = 0.01,
                                                .end_weight_decay = 0.01}};
    mega_engine *e = NULL;
    need(mega_engine_create(&(mega_setup){.model = model, .training_data = &data, .options = &o}, &e));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, SEED));
    if (from == NULL) {
        save(e, folder);
        train(e, out, 0, STEPS);
        get_moment(e, out);
    } else {
        load(e, from);
    }
    save(e, folder);
    train(e, out, STEPS, STEPS + MORE);
    mega_engine_destroy(e);
}

typedef struct layout {
    const char *name;
    char *option, *value;
    int dp;
} layout;

static mega_engine *open_engine(mega_world *world, const layout *l)
{
    char *argv[14] = {
        "parts", "--micro-batch-size",           "1", "--lr", "0.05", "--fp64", "--seed", "3", "--num-threads",
        "1",     "--gradient-accumulation-steps"};
    int argc = 11;
    argv[argc++] = l->dp == 2 ? "2" : "4";
    if (l->option != NULL) {
        argv[argc++] = l->option;
        argv[argc++] = l->value;
    }
    mega_engine *e = NULL;
    need(mega_initialize(
        &(mega_setup){.model = &model_joined, .training_data = &data, .argc = argc, .argv = argv, .world = world}, &e));
    return e;
}

static void run_layout(mega_world *world, const layout *l, const char *work, const char *alone, const outcome *expected)
{
    char mine[PATH], again[PATH], first[PATH], there[PATH];
    outcome found;
    path_of(mine, "%s/%s", work, l->name);
    path_of(again, "%s/%s-again", work, l->name);
    mega_engine *e = open_engine(world, l);
    check_initial(e, l->name);
    check_places(e, l->name);
    save(e, mine);
    path_of(first, "%s/iter_0000000", mine);
    path_of(there, "%s/iter_0000000", alone);
    compare_folders(l->name, first, there, false);
    check_file(e, l->name, first);
    train(e, &found, 0, STEPS);
    check_places(e, l->name);
    get_moment(e, &found);
    load(e, alone);
    check_places(e, l->name);
    save(e, again);
    path_of(first, "%s/iter_%07d", again, STEPS);
    path_of(there, "%s/iter_%07d", alone, STEPS);
    compare_folders(l->name, first, there, true);
    train(e, &found, STEPS, STEPS + MORE);
    compare(l->name, &found, expected);
    check_set(e, l->name); /* values are F32 */
    mega_engine_destroy(e);
}

/* On each rank alone: compares parts with separate parameters. */
static void compare_models(const char *joined_folder, const char *apart_folder, const char *third, outcome *out)
{
    outcome other, resumed;
    char a[PATH], b[PATH];
    run_alone(&model_apart, apart_folder, NULL, &other);
    run_alone(&model_joined, joined_folder, NULL, out);
    compare("parts against parameters", out, &other);
    path_of(a, "%s/iter_0000000", joined_folder);
    path_of(b, "%s/iter_0000000", apart_folder);
    compare_folders("parts against parameters, initial values", a, b, false);
    run_alone(&model_joined, third, apart_folder, &resumed);
    path_of(a, "%s/iter_%07d", third, STEPS);
    path_of(b, "%s/iter_%07d", apart_folder, STEPS);
    compare_folders("parts from a file of parameters", a, b, true);
    for (int i = STEPS; i < STEPS + MORE; i++)
        if (!(fabs(resumed.loss[i] / other.loss[i] - 1) <= 1e-12)) fail("parts from a file of parameters", "losses");
}

int main(int argc, char **argv)
{
    static const layout all[] = {{"dp", NULL, NULL, 2},
                                 {"zero1", "--zero-stage", "1", 2},
                                 {"zero3", "--zero-stage", "3", 2},
                                 {"tp", "--tensor-model-parallel-size", "2", 1},
                                 {"pp", "--pipeline-model-parallel-size", "2", 1}};
    if (argc != 2) return fprintf(stderr, "usage: ranks_parts FOLDER\n"), 2;
    mega_world *world = NULL;
    outcome alone;
    char folder[3][PATH], first[PATH];
    need(mega_world_create(NULL, &world));
    for (int i = 0; i < 3; i++) path_of(folder[i], "%s/alone-%d-%d", argv[1], mega_world_rank(world), i);
    compare_models(folder[0], folder[1], folder[2], &alone);
    path_of(first, "%s/alone-0-0", argv[1]);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) run_layout(world, &all[i], argv[1], first, &alone);
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
