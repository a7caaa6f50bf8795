/* GPT-2 as a graph. A reader who knows Radford et al. 2019 finds the model here; how it is cut over ranks is in the
 * layers it calls. */
#include "megalith/gpt.h"
#include "megalith/layers.h"

#include <math.h>

static mega_linear_options linear_of(const mega_gpt *m, double init_std)
{
    return (mega_linear_options){.weight = {.init = m->init_xavier ? MEGA_INIT_XAVIER_UNIFORM : MEGA_INIT_NORMAL,
                                            .init_std = init_std,
                                            .transposed_in_file = true}};
}

static mega_linear_options from_residual(const mega_gpt *m)
{
    return linear_of(m, m->init_std);
}

/* Projections back into the residual stream start smaller, by 1/sqrt(2 layers) (Radford et al. 2019, section 2.3). */
static mega_linear_options into_residual(const mega_gpt *m)
{
    return linear_of(m, m->init_std / sqrt(2.0 * (double)m->num_layers));
}

/* Of the tokens' table; `tie`: what the stage is that asks, where there are several. */
static mega_param_options table_of(const mega_builder *model, const mega_gpt *m, mega_tie tie)
{
    return (mega_param_options){.init = m->init_xavier ? MEGA_INIT_XAVIER_UNIFORM : MEGA_INIT_NORMAL,
                                .init_std = m->init_std,
                                .padding_rows = m->padded_vocab - m->vocab,
                                .tie = model->layout->pp.size > 1 ? tie : MEGA_TIE_NONE};
}

static mega_tensor mlp(const mega_builder *b, const mega_gpt *m, mega_tensor x)
{
    const mega_linear_options up = from_residual(m), down = into_residual(m);
    x = mega_column_linear(b, "mlp.c_fc", x, m->ffn_hidden, &up);
    const mega_scope s = mega_scope_enter(b->graph, "mlp.act");
    x = mega_activation(b, x, m->erf_gelu ? MEGA_ACT_GELU : MEGA_ACT_GELU_TANH);
    mega_scope_leave(b->graph, s);
    return mega_row_linear(b, "mlp.c_proj", x, m->hidden, &down);
}

/* One pre-norm layer. x: [T, C]. In generation its attention keeps `cache_positions` keys and values. */
static mega_tensor layer(const mega_builder *model, const mega_gpt *m, int64_t n, mega_tensor x,
                         int64_t cache_positions)
{
    mega_graph *g = model->graph;
    const mega_builder b = mega_builder_at(model, "h.%lld", (long long)n);
    const mega_scope s = mega_scope_enter(g, "h.%lld", (long long)n);
    const mega_linear_options qkv = from_residual(m), out = into_residual(m);
    const mega_attention_options attention = {.num_heads = m->heads,
                                              .head_dim = m->head_dim,
                                              .is_causal = true,
                                              .dropout = m->attention_dropout,
                                              .recompute_core = m->recompute == MEGA_GPT_RECOMPUTE_SELECTIVE,
                                              .cache_positions = cache_positions,
                                              .qkv = &qkv,
                                              .out = &out};
    mega_tensor h = mega_norm(&b, "ln_1", x, MEGA_LAYER_NORM, m->norm_epsilon);
    h = mega_self_attention(&b, "attn", h, &attention);
    x = mega_dropout_add(&b, "attn.drop", h, x, m->hidden_dropout);
    h = mega_norm(&b, "ln_2", x, MEGA_LAYER_NORM, m->norm_epsilon);
    h = mlp(&b, m, h);
    x = mega_dropout_add(&b, "mlp.drop", h, x, m->hidden_dropout);
    mega_scope_leave(g, s);
    return x;
}

/* Full recomputation, of the layers of one part. uniform: groups of n layers, whose inputs alone are kept; block: the
 * first n layers one by one. n: layer of the part, of `count`. */
static bool region_begins(const mega_gpt *m, int64_t n)
{
    if (m->recompute != MEGA_GPT_RECOMPUTE_FULL) return false;
    return m->recompute_uniform ? n % m->recompute_layers == 0 : n < m->recompute_layers;
}
static bool region_ends(const mega_gpt *m, int64_t n, int64_t count)
{
    if (m->recompute != MEGA_GPT_RECOMPUTE_FULL) return false;
    if (!m->recompute_uniform) return n < m->recompute_layers;
    return (n + 1) % m->recompute_layers == 0 || n + 1 == count;
}

/* Where a part begins: at the embeddings, or at what the stage before sent. */
static mega_tensor enter(const mega_builder *model, const mega_gpt *m, const mega_gpt_part *part)
{
    mega_graph *g = model->graph;
    const int64_t tokens = model->samples * model->positions;
    if (!part->embeds) {
        const int64_t parts = mega_graph_is_sequence_parallel(g) ? model->layout->tp.size : 1;
        const int64_t dims[2] = {tokens / parts, m->hidden};
        const mega_tensor x = mega_graph_input(g, "stage_input", mega_graph_dtype(g), 2, dims);
        if (model->mode == MEGA_TRAIN) mega_graph_want_gradient(g, x, "stage_input_gradient");
        return x;
    }
    const mega_param_options table = table_of(model, m, MEGA_TIE_OWNER),
                             positions = {.init = table.init, .init_std = table.init_std};
    const mega_tensor ids = mega_input(model, "tokens", MEGA_I32, model->positions, 0);
    mega_tensor x = mega_vocab_embedding(model, "wte", ids, m->vocab, m->hidden, &table);
    x = mega_position_embedding(model, "wpe", x, m->positions, &positions);
    return mega_dropout(model, "drop", x, m->hidden_dropout);
}

/* The logits of the last row of each sequence. */
static void leave_generating(const mega_builder *model, const mega_gpt *m, mega_tensor x)
{
    mega_graph *g = model->graph;
    const mega_param_options table = table_of(model, m, MEGA_TIE_COPY);
    x = mega_op_take_rows(g, x, mega_input(model, "last_rows", MEGA_I32, 1, 0));
    x = mega_norm(model, "ln_f", x, MEGA_LAYER_NORM, m->norm_epsilon);
    mega_graph_output(g, mega_vocab_logits(model, "wte", x, m->vocab, &table), "logits");
}

/* Where it ends: at the loss, or at what the stage after receives. */
static void leave(const mega_builder *model, const mega_gpt *m, const mega_gpt_part *part, mega_tensor x)
{
    mega_graph *g = model->graph;
    if (!part->heads) {
        mega_graph_output(g, x, "stage_output");
        if (model->mode == MEGA_TRAIN) mega_graph_seed_gradient(g, x, "stage_output_gradient");
        return;
    }
    if (model->mode == MEGA_GENERATE) {
        leave_generating(model, m, x);
        return;
    }
    const mega_tensor labels = mega_input(model, "labels", MEGA_I32, model->positions, 0);
    const mega_tensor loss_mask = mega_input(model, "loss_mask", MEGA_F32, model->positions, 0);
    const mega_vocab_loss_options head = {.vocab_size = m->vocab, .table = table_of(model, m, MEGA_TIE_COPY)};
    x = mega_norm(model, "ln_f", x, MEGA_LAYER_NORM, m->norm_epsilon);
    const mega_head_result loss = mega_vocab_loss(model, "wte", x, labels, loss_mask, &head);
    mega_graph_output(g, loss.token_loss, "token_loss");
    mega_loss_add(model, "lm loss", loss.loss, 1.0);
}

/* Inputs that several layers read, in one order in every program. */
static void request_rows(const mega_builder *model)
{
    static const char *const name[] = {"sample_id", "seq_position", "segment_start"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) mega_input(model, name[i], MEGA_I32, model->positions, 0);
}

static mega_status describe(const mega_builder *model, const mega_gpt *m, int chunk, int64_t cache_positions)
{
    mega_graph *g = model->graph;
    const bool trains = model->mode == MEGA_TRAIN;
    MEGA_TRY(mega_gpt_check_stages(m, model->layout->pp.size));
    const mega_gpt_part part = mega_gpt_part_of(m, &model->layout->pp, chunk);
    if (model->mode != MEGA_GENERATE) request_rows(model);
    mega_tensor x = enter(model, m, &part);
    if (trains && m->distribute_saved) mega_recompute_distribute(g, &model->layout->tp);
    for (int64_t n = 0; n < part.count; n++) {
        if (trains && region_begins(m, n)) mega_recompute_begin(g);
        x = layer(model, m, part.first + n, x, cache_positions);
        if (trains && region_ends(m, n, part.count)) mega_recompute_end(g);
    }
    leave(model, m, &part, x);
    return mega_graph_status(g);
}

static mega_builder builder_of(mega_graph *g, mega_mode mode, int64_t samples, int64_t positions)
{
    return (mega_builder){.graph = g,
                          .layout = mega_graph_layout(g),
                          .mode = mode,
                          .samples = samples,
                          .positions = positions,
                          .path = "transformer"};
}

mega_status mega_gpt_describe_train(mega_graph *g, const mega_gpt *m, int chunk, int64_t batch, int64_t seq)
{
    const mega_builder model = builder_of(g, MEGA_TRAIN, batch, seq);
    mega_graph_set_sequence_parallel(g, m->sequence_parallel);
    return describe(&model, m, chunk, 0);
}

mega_status mega_gpt_describe_evaluate(mega_graph *g, const mega_gpt *m, int chunk, int64_t batch, int64_t seq)
{
    const mega_builder model = builder_of(g, MEGA_EVAL, batch, seq);
    mega_graph_set_sequence_parallel(g, m->sequence_parallel);
    return describe(&model, m, chunk, 0);
}

/* Without sequence parallelism: there are few rows, and each rank of tp sees them all. */
mega_status mega_gpt_describe_generate(mega_graph *g, const mega_gpt *m, int64_t batch, int64_t rows, int64_t capacity)
{
    const mega_builder model = builder_of(g, MEGA_GENERATE, batch, rows);
    return describe(&model, m, 0, capacity);
}

/* One row for each rank of tp, so that sequence parallelism can divide them. */
static mega_status declare_chunk(const mega_gpt *m, mega_params *params, int chunk)
{
    const mega_layout *layout = mega_params_layout(params);
    mega_graph *g = NULL;
    MEGA_TRY(mega_graph_create(&g, MEGA_F32, params, layout));
    const mega_status st = mega_gpt_describe_evaluate(g, m, chunk, layout->tp.size, 1);
    mega_graph_destroy(g);
    return st;
}

mega_status mega_gpt_declare(const mega_gpt *m, mega_params *params)
{
    const int chunks = mega_gpt_chunks(m, &mega_params_layout(params)->pp);
    for (int chunk = 0; chunk < chunks; chunk++) {
        if (chunk > 0) mega_params_next_part(params);
        MEGA_TRY(declare_chunk(m, params, chunk));
    }
    return MEGA_OK;
}
