/* GPT-2 as a graph. A reader who knows Radford et al. 2019 finds the model here; how it is cut over ranks is in the
 * layers it calls. */
#include "megalith/gpt.h"
#include "megalith/layers.h"

static mega_rows training_rows(mega_graph *g, int64_t batch, int64_t seq)
{
    const int64_t tokens = batch * seq;
    mega_rows r = {.batch = batch, .seq = seq};
    r.sample_id = mega_graph_input(g, "sample_id", MEGA_I32, 1, &tokens);
    r.seq_position = mega_graph_input(g, "seq_position", MEGA_I32, 1, &tokens);
    r.segment_start = mega_graph_input(g, "segment_start", MEGA_I32, 1, &tokens);
    return r;
}

static mega_tensor mlp(const mega_place *at, const mega_gpt *m, mega_tensor x)
{
    x = mega_column_linear(at, "mlp.c_fc", x);
    x = mega_gelu(at, "mlp.act", x, !m->erf_gelu);
    return mega_row_linear(at, "mlp.c_proj", x);
}

/* One pre-norm layer. x: [T, C] */
static mega_tensor layer(const mega_place *model, const mega_gpt *m, int64_t n, mega_tensor x, const mega_rows *rows)
{
    mega_graph *g = model->graph;
    const mega_place at = mega_place_at(model, "h.%lld", (long long)n);
    const mega_scope s = mega_scope_enter(g, "h.%lld", (long long)n);
    const mega_self_attention_shape attention = {.heads = m->heads,
                                                 .head_dim = m->head_dim,
                                                 .dropout = m->attention_dropout,
                                                 .site = mega_dropout_site(n, MEGA_DROP_ATTENTION),
                                                 .recompute_core = m->recompute == MEGA_GPT_RECOMPUTE_SELECTIVE};
    mega_tensor h = mega_layer_norm(&at, "ln_1", x, m->norm_epsilon);
    h = mega_self_attention(&at, h, rows, &attention);
    x = mega_dropout_add(&at, "attn.drop", h, x, m->hidden_dropout, mega_dropout_site(n, MEGA_DROP_AFTER_ATTENTION),
                         rows);
    h = mega_layer_norm(&at, "ln_2", x, m->norm_epsilon);
    h = mlp(&at, m, h);
    x = mega_dropout_add(&at, "mlp.drop", h, x, m->hidden_dropout, mega_dropout_site(n, MEGA_DROP_AFTER_MLP), rows);
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
static mega_tensor enter(const mega_place *model, const mega_gpt *m, const mega_gpt_part *part, const mega_rows *rows,
                         bool training)
{
    mega_graph *g = model->graph;
    const int64_t tokens = rows->batch * rows->seq;
    if (!part->embeds) {
        const int64_t dims[2] = {m->sequence_parallel ? tokens / model->layout->tp.size : tokens, m->hidden};
        const mega_tensor x = mega_graph_input(g, "stage_input", mega_params_compute_dtype(model->params), 2, dims);
        if (training) mega_graph_want_gradient(g, x, "stage_input_gradient");
        return x;
    }
    const mega_tensor ids = mega_graph_input(g, "tokens", MEGA_I32, 1, &tokens);
    const mega_tensor positions = mega_graph_input(g, "position_ids", MEGA_I32, 1, &tokens);
    mega_tensor x = mega_vocab_embedding(model, "wte", ids);
    x = mega_position_embedding(model, "wpe", positions, x);
    return mega_dropout_add(model, "drop", x, (mega_tensor){0}, m->hidden_dropout,
                            mega_dropout_site(0, MEGA_DROP_EMBEDDING), rows);
}

/* Where it ends: at the loss, or at what the stage after receives. */
static void leave(const mega_place *model, const mega_gpt *m, const mega_gpt_part *part, mega_tensor x, int64_t tokens,
                  bool training)
{
    mega_graph *g = model->graph;
    if (!part->heads) {
        mega_graph_output(g, x, "stage_output");
        if (training) mega_graph_seed_gradient(g, x, "stage_output_gradient");
        return;
    }
    const mega_tensor labels = mega_graph_input(g, "labels", MEGA_I32, 1, &tokens);
    const mega_tensor loss_mask = mega_graph_input(g, "loss_mask", MEGA_F32, 1, &tokens);
    x = mega_layer_norm(model, "ln_f", x, m->norm_epsilon);
    const mega_head_result loss =
        mega_vocab_head_loss(model, "wte", x, labels, loss_mask, m->vocab, training, m->per_token_loss);
    mega_graph_output(g, loss.token_loss, "token_loss");
    mega_graph_output(g, loss.loss_sum, "loss_sum");
    mega_graph_output(g, loss.mask_sum, "mask_sum");
}

static mega_status describe(mega_graph *g, const mega_gpt *m, int chunk, int64_t batch, int64_t seq, bool training)
{
    const mega_place model = {.graph = g,
                              .params = mega_graph_params(g),
                              .layout = mega_graph_layout(g),
                              .sequence_parallel = m->sequence_parallel,
                              .path = "transformer"};
    const mega_gpt_part part = mega_gpt_part_of(m, &model.layout->pp, chunk);
    const mega_rows rows = training_rows(g, batch, seq);
    mega_tensor x = enter(&model, m, &part, &rows, training);
    if (training && m->distribute_saved) mega_recompute_distribute(g, &model.layout->tp);
    for (int64_t n = 0; n < part.count; n++) {
        if (training && region_begins(m, n)) mega_recompute_begin(g);
        x = layer(&model, m, part.first + n, x, &rows);
        if (training && region_ends(m, n, part.count)) mega_recompute_end(g);
    }
    leave(&model, m, &part, x, batch * seq, training);
    return mega_graph_status(g);
}

mega_status mega_gpt_describe_train(mega_graph *g, const mega_gpt *m, int chunk, int64_t batch, int64_t seq)
{
    return describe(g, m, chunk, batch, seq, true);
}

mega_status mega_gpt_describe_evaluate(mega_graph *g, const mega_gpt *m, int chunk, int64_t batch, int64_t seq)
{
    mega_gpt plain = *m;
    plain.attention_dropout = plain.hidden_dropout = 0.0;
    plain.recompute = MEGA_GPT_RECOMPUTE_NONE;
    return describe(g, &plain, chunk, batch, seq, false);
}

/* One layer of a text that is being made: its keys and values stay. */
static mega_tensor cached_layer(const mega_place *model, const mega_gpt *m, int64_t n, mega_tensor x,
                                const mega_rows *rows, int64_t capacity)
{
    mega_graph *g = model->graph;
    const mega_place at = mega_place_at(model, "h.%lld", (long long)n);
    const mega_scope s = mega_scope_enter(g, "h.%lld", (long long)n);
    const mega_self_attention_shape attention = {.heads = m->heads, .head_dim = m->head_dim};
    const mega_tensor h = mega_layer_norm(&at, "ln_1", x, m->norm_epsilon);
    x = mega_op_add(g, x, mega_cached_self_attention(&at, h, rows->batch, rows->seq, capacity, &attention));
    x = mega_op_add(g, x, mlp(&at, m, mega_layer_norm(&at, "ln_2", x, m->norm_epsilon)));
    mega_scope_leave(g, s);
    return x;
}

mega_status mega_gpt_describe_generate(mega_graph *g, const mega_gpt *m, int64_t batch, int64_t rows, int64_t capacity)
{
    const mega_place model = {
        .graph = g, .params = mega_graph_params(g), .layout = mega_graph_layout(g), .path = "transformer"};
    const mega_gpt_part part = mega_gpt_part_of(m, &model.layout->pp, 0);
    const mega_rows new_rows = {.batch = batch, .seq = rows};
    mega_gpt plain = *m;
    plain.hidden_dropout = 0.0;
    plain.sequence_parallel = false; /* few rows: each rank of tp sees them all */
    mega_tensor x = enter(&model, &plain, &part, &new_rows, false);
    for (int64_t n = 0; n < part.count; n++) x = cached_layer(&model, &plain, part.first + n, x, &new_rows, capacity);
    if (!part.heads) {
        mega_graph_output(g, x, "stage_output");
        return mega_graph_status(g);
    }
    x = mega_op_take_rows(g, x, mega_graph_input(g, "last_rows", MEGA_I32, 1, &batch));
    x = mega_layer_norm(&model, "ln_f", x, m->norm_epsilon);
    mega_graph_output(g, mega_vocab_logits(&model, "wte", x), "logits");
    return mega_graph_status(g);
}
