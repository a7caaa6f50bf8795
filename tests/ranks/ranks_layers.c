/* Tests each layer of layers.h over ranks of tensor parallelism: its result, the gradient of its input and the
 * gradients of its parameters must be those of the same layer on one rank. Usage: ranks_layers
 *
 * Every rank takes part in each case, without and with sequence parallelism. */
#include "megalith/philox.h"
#include "megalith/program.h"
#include "megalith/t5_blocks.h"
#include "rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, S = 8, T = B * S, C = 16, F = 24, HEADS = 4, VOCAB = 21, PADDED = 24 };

typedef mega_tensor describe_layer(const mega_builder *b, mega_tensor x);

static mega_tensor column_and_row(const mega_builder *b, mega_tensor x)
{
    x = mega_activation(b, mega_column_linear(b, "up", x, F, NULL), MEGA_ACT_GELU_TANH);
    return mega_row_linear(b, "down", x, C, NULL);
}

static mega_tensor linear(const mega_builder *b, mega_tensor x)
{
    return mega_linear(b, "whole", x, C, NULL);
}

static mega_tensor attention(const mega_builder *b, mega_tensor x)
{
    const mega_attention_options o = {.num_heads = HEADS, .is_causal = true, .dropout = 0.3};
    return mega_self_attention(b, "attn", x, &o);
}

static const double long_factor[] = {1, 2}, short_factor[] = {1, 1};
static const mega_rope rotary = {.theta = 100,
                                 .scaling = MEGA_ROPE_LONGROPE,
                                 .original_positions = 4,
                                 .max_positions = 16,
                                 .long_factor = long_factor,
                                 .short_factor = short_factor};

/* Options that matter to the cut by heads: some key/value heads, ALiBi by the number of a head, a window, and
 * dropout. */
static mega_tensor grouped(const mega_builder *b, mega_tensor x, int64_t kv_heads, mega_qk_norm norm)
{
    const mega_linear_options qkv = {.weight = {.num_parts = 3,
                                                .part = {{.file = "q_proj.weight", .rows = C},
                                                         {.file = "k_proj.weight", .rows = kv_heads * C / HEADS},
                                                         {.file = "v_proj.weight", .rows = kv_heads * C / HEADS}}}};
    const mega_attention_options o = {.num_heads = HEADS,
                                      .num_kv_heads = kv_heads,
                                      .is_causal = true,
                                      .softcap = 0.8,
                                      .has_window = true,
                                      .window_left = 4,
                                      .alibi = true,
                                      .dropout = 0.3,
                                      .rope = &rotary,
                                      .qk_norm = norm,
                                      .qk_norm_options = {.kind = MEGA_RMS_NORM, .epsilon = 1e-6},
                                      .qkv = &qkv};
    return mega_self_attention(b, "attn", x, &o);
}

/* Two key/value heads: two ranks of tp have one each, four ranks have both. */
static mega_tensor grouped_attention(const mega_builder *b, mega_tensor x)
{
    return grouped(b, x, 2, MEGA_QK_NORM_NONE);
}

static mega_tensor multi_query(const mega_builder *b, mega_tensor x)
{
    return grouped(b, x, 1, MEGA_QK_NORM_NONE);
}

static mega_tensor norm_of_heads(const mega_builder *b, mega_tensor x)
{
    return grouped(b, x, 2, MEGA_QK_NORM_HEAD);
}

static mega_tensor norm_of_all_heads(const mega_builder *b, mega_tensor x)
{
    return grouped(b, x, 2, MEGA_QK_NORM_ALL);
}

/* Keys and values from another value than the queries; every rank has its heads of both. */
static mega_tensor cross_attention(const mega_builder *b, mega_tensor x)
{
    const mega_attention_options o = {.num_heads = HEADS, .dropout = 0.3};
    return mega_cross_attention(b, "cross", x, mega_norm(b, "ln", x, MEGA_LAYER_NORM, 1e-5), S, &o);
}

/* The columns of the table are cut like the heads. */
static mega_tensor biased_attention(const mega_builder *b, mega_tensor x)
{
    const mega_attention_options o = {.num_heads = HEADS,
                                      .bias = mega_attention_bias(b, "relative", 4, HEADS, NULL),
                                      .bias_distance = 4,
                                      .dropout = 0.3};
    return mega_self_attention(b, "attn", x, &o);
}

/* A decoder block that attends to the result of an encoder block. */
static mega_tensor t5_blocks(const mega_builder *b, mega_tensor x)
{
    const mega_builder encoder = mega_builder_at(b, "encoder"), decoder = mega_builder_at(b, "decoder");
    mega_t5_options o = {
        .num_heads = HEADS, .ffn_channels = F, .activation = MEGA_ACT_GELU_TANH, .is_gated = true, .dropout = 0.3};
    o.bias = mega_attention_bias(&encoder, "relative", 4, HEADS, NULL), o.bias_distance = 4;
    const mega_tensor source = mega_t5_encoder_block(&encoder, x, &o);
    o.bias = mega_attention_bias(&decoder, "relative", 4, HEADS, NULL);
    return mega_t5_decoder_block(&decoder, x, source, S, &o);
}

static mega_tensor norm_and_dropout(const mega_builder *b, mega_tensor x)
{
    return mega_dropout_add(b, "drop", mega_norm(b, "ln", x, MEGA_LAYER_NORM, 1e-5), x, 0.3);
}

static mega_tensor ids(const mega_builder *b)
{
    return mega_input(b, "seq_position", MEGA_I32, S, 0); /* any values */
}

static mega_tensor embeddings(const mega_builder *b, mega_tensor x)
{
    const mega_param_options o = {.padding_rows = PADDED - VOCAB};
    const mega_tensor table = mega_vocab_embedding(b, "wte", ids(b), VOCAB, C, &o);
    return mega_op_add(b->graph, mega_position_embedding(b, "wpe", table, VOCAB, NULL), x);
}

static mega_tensor head(const mega_builder *b, mega_tensor x)
{
    const mega_vocab_loss_options o = {.vocab_size = VOCAB, .table = {.padding_rows = PADDED - VOCAB}};
    const mega_tensor mask = mega_input(b, "loss_mask", MEGA_F32, S, 0);
    const mega_head_result r = mega_vocab_loss(b, "wte", x, ids(b), mask, &o);
    mega_loss_add(b, "loss", r.loss, 1);
    return r.token_loss;
}

static const struct {
    const char *name;
    describe_layer *describe;
    bool is_head; /* its result is [T], complete on every rank, and it computes its own gradient */
} layers[] = {{"column and row linear", column_and_row, false},
              {"linear", linear, false},
              {"self attention", attention, false},
              {"grouped attention", grouped_attention, false},
              {"multi-query attention", multi_query, false},
              {"attention with norms of heads", norm_of_heads, false},
              {"attention with norms of all heads", norm_of_all_heads, false},
              {"cross attention", cross_attention, false},
              {"attention with biases", biased_attention, false},
              {"blocks of T5", t5_blocks, false},
              {"norm and dropout", norm_and_dropout, false},
              {"embeddings", embeddings, false},
              {"head", head, true}};

typedef struct run {
    mega_layout *layout;
    mega_params *params;
    mega_program *program;
    int64_t rows; /* rows of x and of the result: all tokens, or this rank's slab */
} run;

static double number(uint32_t what, int64_t i)
{
    const mega_philox r = mega_philox4x32((mega_philox){{(uint32_t)i, what, 0, 0}}, 3, 4);
    return (double)r.v[0] / 4294967296.0 - 0.5;
}

/* Finds the tensor of the file, and the element of it, that holds element k of this rank's part of a parameter. Layouts
 * may divide the tensors of a file among other parameters, but not change the tensors. */
static const char *place_of(const run *r, const mega_param *p, int64_t k, int64_t *element)
{
    mega_param_stretch stretch[MEGA_PARAM_PARTS];
    const int count = mega_param_stretches(p, mega_params_cut(r->params, p), stretch);
    const bool by_columns = p->cut_dim == 1 && p->axis == MEGA_AXIS_TP;
    int64_t at[2] = {k / p->local_shape[1], k % p->local_shape[1]}, shape[2];
    for (int i = 0; i < count; i++) {
        const mega_param_stretch *s = &stretch[i];
        const int64_t along = at[by_columns] - s->local;
        if (along < 0 || along >= s->rows * s->runs) continue;
        at[by_columns] = s->file + (s->runs > 1 ? along / s->rows * s->stride + along % s->rows : along);
        mega_param_file_shape(p, s->tensor, shape);
        *element = at[0] < shape[0] ? at[0] * shape[1] + at[1] : -1; /* -1: padding, which the file does not have */
        return mega_param_file_name(p, s->tensor);
    }
    fprintf(stderr, "%s: element %lld is in no part\n", p->name, (long long)k);
    exit(1);
}

/* Sets every parameter, including biases, to random values that depend on the position in the file. */
static void set_parameters(const run *r)
{
    for (int i = 0; i < mega_params_count(r->params); i++) {
        const mega_param *p = mega_params_get(r->params, i);
        double *w = mega_params_master(r->params, i);
        for (int64_t k = 0; k < p->count; k++) {
            int64_t at;
            const char *name = place_of(r, p, k, &at);
            w[k] = at >= 0 ? number(mega_name_hash(name), at) : 0;
        }
    }
}

static void set_inputs(const run *r, bool is_head)
{
    const int64_t first = r->rows < T ? r->rows * r->layout->tp.rank : 0;
    double *x = mega_program_tensor(r->program, "x", 0), *dy = mega_program_tensor(r->program, "dy", 0);
    float *mask = mega_program_tensor(r->program, "loss_mask", 0);
    int32_t *sample = mega_program_tensor(r->program, "sample_id", 0);
    int32_t *position = mega_program_tensor(r->program, "seq_position", 0);
    int32_t *row = mega_program_tensor(r->program, "position_ids", 0);
    for (int64_t i = 0; i < r->rows * C; i++) {
        x[i] = number(1, first * C + i);
        if (!is_head) dy[i] = number(2, first * C + i);
    }
    for (int t = 0; t < T; t++) {
        if (sample != NULL) sample[t] = 40 + t / S;
        if (position != NULL) position[t] = is_head ? (t * 7) % VOCAB : t % S; /* labels of the head */
        if (row != NULL) row[t] = t % S;
        if (mask != NULL) mask[t] = t % 3 == 0 ? 0.0f : 1.0f;
    }
}

static void open_run(run *r, int layer, mega_world *world, bool slabs)
{
    const bool is_head = layers[layer].is_head;
    need(mega_layout_create(world, &(mega_layout_sizes){.tp = mega_world_size(world)}, &r->layout));
    slabs = slabs && r->layout->tp.size > 1;
    r->rows = slabs ? T / r->layout->tp.size : T;
    need(mega_params_create(r->layout, &r->params));
    mega_builder b = {.layout = r->layout, .samples = B, .positions = S, .path = "m"};
    need(mega_graph_create(MEGA_F64, r->params, r->layout, &b.graph));
    mega_graph_set_sequence_parallel(b.graph, slabs);
    const int64_t dim[2] = {r->rows, C};
    const mega_tensor x = mega_graph_input(b.graph, "x", MEGA_F64, 2, dim);
    mega_graph_want_gradient(b.graph, x, "dx");
    const mega_tensor y = layers[layer].describe(&b, x);
    mega_graph_output(b.graph, y, "y");
    if (!is_head) mega_graph_seed_gradient(b.graph, y, "dy");
    need(mega_params_place(r->params, MEGA_F64, 0));
    need(mega_params_allocate(r->params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    const mega_program_options o = {
        .backend = MEGA_BACKEND_PLAIN, .differentiate = true, .per_token_loss = true, .name = "layer", .world = world};
    need(mega_program_build(b.graph, &o, &r->program));
    need(mega_program_allocate(r->program));
    mega_step_block *step = mega_program_step_block(r->program);
    step->seed = 5;
    step->loss_factor = 0.5;
    step->first_micro_batch = step->last_micro_batch = true;
    set_parameters(r);
    set_inputs(r, is_head);
    need(mega_program_forward(r->program, 0));
    need(mega_program_backward(r->program, 0));
}

static void close_run(run *r)
{
    mega_program_destroy(r->program);
    mega_params_destroy(r->params);
    mega_layout_destroy(r->layout);
}

static int differs(const run *r, const char *layer, const char *what, double apart, double size)
{
    const double relative = sqrt(apart / (size > 0 ? size : 1));
    if (relative <= 1e-12) return 0;
    fprintf(stderr, "%s, %s, rank %d of %d%s: %.3g apart\n", layer, what, r->layout->tp.rank, r->layout->tp.size,
            r->rows < T ? ", a slab of the tokens each" : "", relative);
    return 1;
}

/* Compares this rank's rows of a tensor over all tokens. */
static int compare_rows(const run *many, const run *one, const char *layer, const char *name, int64_t cols, bool whole)
{
    const double *a = mega_program_tensor(many->program, name, 0), *b = mega_program_tensor(one->program, name, 0);
    const int64_t rows = whole ? T : many->rows, first = rows < T ? rows * many->layout->tp.rank : 0;
    double apart = 0, size = 0;
    for (int64_t i = 0; i < rows * cols; i++) {
        const double expected = b[first * cols + i];
        apart += (a[i] - expected) * (a[i] - expected);
        size += expected * expected;
    }
    return differs(many, layer, name, apart, size);
}

/* Returns the gradient of an element of a tensor of the file on one rank. */
static double gradient_of(const run *one, const char *name, int64_t element)
{
    int file;
    const int index = mega_params_find_file(one->params, name, &file);
    const mega_param *p = mega_params_get(one->params, index);
    for (int64_t k = 0; k < p->count; k++) {
        int64_t at;
        if (strcmp(place_of(one, p, k, &at), name) == 0 && at == element)
            return ((const double *)mega_params_grad(one->params, index))[k];
    }
    fprintf(stderr, "%s: element %lld is in no parameter\n", name, (long long)element);
    exit(1);
}

static int compare_gradients(const run *many, const run *one, const char *layer)
{
    int failures = 0;
    for (int i = 0; i < mega_params_count(many->params); i++) {
        const mega_param *p = mega_params_get(many->params, i);
        double *a = mega_params_grad(many->params, i), apart = 0, size = 0;
        if (p->grads_are_partial)
            need(mega_comm_all_reduce(many->layout->tp.comm, p->name, a, p->count, MEGA_F64, MEGA_REDUCE_SUM));
        for (int64_t k = 0; k < p->count; k++) {
            int64_t at;
            const char *name = place_of(many, p, k, &at);
            const double expected = at >= 0 ? gradient_of(one, name, at) : 0;
            apart += (a[k] - expected) * (a[k] - expected);
            size += expected * expected;
        }
        failures += differs(many, layer, p->name, apart, size);
    }
    return failures;
}

int main(void)
{
    mega_world *world;
    int failures = 0;
    need(mega_world_create(NULL, &world));
    for (int i = 0; i < (int)(sizeof layers / sizeof *layers); i++)
        for (int slabs = 0; slabs < 2; slabs++) {
            run one, many;
            const bool is_head = layers[i].is_head;
            open_run(&one, i, NULL, false);
            open_run(&many, i, world, slabs == 1);
            failures += compare_rows(&many, &one, layers[i].name, "y", is_head ? 1 : C, is_head);
            failures += compare_rows(&many, &one, layers[i].name, "dx", C, false);
            failures += compare_gradients(&many, &one, layers[i].name);
            close_run(&one);
            close_run(&many);
        }
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
