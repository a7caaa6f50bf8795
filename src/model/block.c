/* The layers of a language model: one function for the embedding, one for all blocks, one for the head of a decoder.
 * What differs between families is in the shape (mega_network_shape), and the names of parameters in the family. The
 * layers that are called here shard the model over ranks. */
#include "block.h"

#include <math.h>
#include <stdio.h>

const mega_family_names *block_names(const mega_transformer *m)
{
    return mega_family_of(&m->net)->names;
}

static mega_linear_options linear_of(const mega_transformer *m, double init_std, bool no_bias)
{
    return (mega_linear_options){.no_bias = no_bias,
                                 .weight = {.init = m->init_xavier ? MEGA_INIT_XAVIER_UNIFORM : MEGA_INIT_NORMAL,
                                            .init_std = init_std,
                                            .transposed_in_file = block_names(m)->transposed}};
}

mega_linear_options block_from_residual(const mega_transformer *m, bool no_bias)
{
    return linear_of(m, m->init_std, no_bias);
}

/* Projections back into the residual stream get a smaller initial standard deviation, by 1/sqrt(2 layers) (Radford et
 * al. 2019, section 2.3). */
mega_linear_options block_into_residual(const mega_transformer *m, bool no_bias)
{
    return linear_of(m, m->init_std / sqrt(2.0 * (double)m->num_layers), no_bias);
}

/* Returns the options of the token table, which the embedding and a tied head both declare. */
static mega_param_options table_of(const mega_transformer *m)
{
    return (mega_param_options){.init = m->init_xavier ? MEGA_INIT_XAVIER_UNIFORM : MEGA_INIT_NORMAL,
                                .init_std = m->init_std,
                                .padding_rows = m->padded_vocab - m->vocab};
}

static mega_norm_options norm_of(const mega_transformer *m)
{
    return (mega_norm_options){.kind = m->net.rms ? MEGA_RMS_NORM : MEGA_LAYER_NORM,
                               .epsilon = m->norm_epsilon,
                               .no_bias = m->net.norm_no_bias,
                               .no_weight = m->net.norm_no_weight,
                               .weight_plus_one = m->net.norm_plus_one};
}

mega_tensor block_norm(const mega_builder *b, const mega_transformer *m, const char *name, mega_tensor x)
{
    const mega_norm_options o = norm_of(m);
    return mega_norm_with(b, name, x, &o);
}

mega_tensor block_scaled(const mega_builder *b, mega_tensor x, double factor)
{
    return factor == 0.0 || factor == 1.0 ? x : mega_scale(b, x, factor);
}

mega_builder block_sequences(const mega_builder *b, const mega_transformer *m)
{
    mega_builder of = *b;
    const int64_t choices = m->net.choices;
    if (choices > 1 && b->positions % choices != 0)
        mega_builder_fail(b, MEGA_MISTAKE("layer \"%s\": samples of %lld positions, which are %lld sequences of equal "
                                          "length; expected a multiple",
                                          b->path, (long long)b->positions, (long long)choices));
    if (choices < 2 || mega_graph_status(b->graph) != MEGA_OK) return of;
    of.samples *= choices;
    of.positions /= choices;
    return of;
}

/* Declares the inputs that several layers read, so that every program has them in the same order. */
void block_request_rows(const mega_builder *b, const mega_transformer *m)
{
    const char *const name[] = {"sample_id", "seq_position", m->net.is_encoder ? "key_end" : "key_begin"};
    if (b->mode == MEGA_GENERATE) return;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) mega_input(b, name[i], MEGA_I32, b->positions, 0);
}

/* ---- attention ---- */

static mega_rope rope_of(const mega_transformer *m)
{
    const mega_rope_settings *r = &m->net.rope;
    return (mega_rope){.theta = r->theta,
                       .fraction = r->fraction,
                       .interleaved = r->interleaved,
                       .scaling = r->scaling,
                       .factor = r->factor,
                       .beta_fast = r->beta_fast,
                       .beta_slow = r->beta_slow,
                       .attention_factor = r->attention_factor,
                       .mscale = r->mscale,
                       .mscale_all_dim = r->mscale_all_dim,
                       .low_freq_factor = r->low_freq_factor,
                       .high_freq_factor = r->high_freq_factor,
                       .no_truncate = r->no_truncate,
                       .original_positions = r->original_positions,
                       .max_positions = m->positions,
                       .long_factor = r->num_factors > 0 ? r->long_factor : NULL,
                       .short_factor = r->num_factors > 0 ? r->short_factor : NULL};
}

/* Names of the tensors of Q, K and V, for as long as the options are used. */
typedef struct qkv_files {
    char name[3][MEGA_PATH];
} qkv_files;

/* Says how the rows of Q, K and V lie in files. */
static void place_qkv(const mega_transformer *m, mega_param_options *weight, qkv_files *files)
{
    const mega_family_names *n = block_names(m);
    const int64_t kv_heads = m->net.kv_heads > 0 ? m->net.kv_heads : m->heads;
    const char *const file[] = {n->q, n->k, n->v};
    const bool by_head = n->qkv_order == MEGA_QKV_BY_HEAD || (n->qkv_order == MEGA_QKV_EITHER && kv_heads == m->heads);
    if (!by_head && n->qkv_order != MEGA_QKV_THREE) return;
    weight->num_parts = 3;
    for (int i = 0; i < 3; i++) {
        weight->part[i].rows = (i == 0 ? m->heads : kv_heads) * m->head_dim;
        if (by_head) {
            weight->part[i].first = i * m->head_dim;
            weight->part[i].block = m->head_dim;
            weight->part[i].stride = 3 * m->head_dim;
            continue;
        }
        snprintf(files->name[i], MEGA_PATH, "%s.weight", file[i]);
        weight->part[i].file = files->name[i];
    }
}

static mega_qk_norm query_norm_of(const mega_transformer *m)
{
    static const mega_qk_norm kind[] = {[MEGA_QUERY_NORM_NONE] = MEGA_QK_NORM_NONE,
                                        [MEGA_QUERY_NORM_HEAD] = MEGA_QK_NORM_HEAD,
                                        [MEGA_QUERY_NORM_ALL] = MEGA_QK_NORM_ALL};
    return kind[m->net.query_norm];
}

static mega_latent_options latent_of(const mega_transformer *m)
{
    const mega_latent_shape *l = &m->net.latent;
    const mega_family_names *n = block_names(m);
    return (mega_latent_options){.q_rank = l->q_rank,
                                 .kv_rank = l->kv_rank,
                                 .own_dim = l->own_dim,
                                 .rope_dim = l->rope_dim,
                                 .value_dim = l->value_dim,
                                 .norm_epsilon = 1e-6, /* of these norms in transformers, whatever config.json says */
                                 .q_down = n->q_down,
                                 .q_norm = n->q_latent_norm,
                                 .q_up = l->q_rank > 0 ? n->q_up : n->q,
                                 .kv_down = n->kv_down,
                                 .kv_norm = n->kv_latent_norm,
                                 .kv_up = n->kv_up};
}

static mega_tensor block_attention(const mega_builder *b, const mega_transformer *m, mega_tensor x)
{
    const mega_network_shape *net = &m->net;
    const mega_family_names *n = block_names(m);
    const bool has_window = net->has_window && (!net->window_by_layer || mega_shape_bit(net->windowed, b->index));
    const bool is_rotated = net->positions == MEGA_POSITIONS_ROPE && !mega_shape_bit(net->no_rope, b->index);
    mega_linear_options qkv = block_from_residual(m, net->no_qkv_bias), out = block_into_residual(m, net->no_out_bias);
    qkv_files files;
    char qkv_name[MEGA_PATH], out_name[MEGA_PATH];
    mega_rope rope = rope_of(m);
    const mega_latent_options latent = latent_of(m);
    if (net->latent.kv_rank == 0) place_qkv(m, &qkv.weight, &files);
    snprintf(qkv_name, sizeof qkv_name, "%s.%s", n->attention, n->qkv);
    snprintf(out_name, sizeof out_name, "%s.%s", n->attention, n->out);
    if (has_window && net->window_theta > 0.0) { /* layers with a window have a rotation of their own */
        rope = (mega_rope){.theta = net->window_theta, .fraction = rope.fraction, .interleaved = rope.interleaved};
    }
    const mega_attention_options o = {.num_heads = m->heads,
                                      .num_kv_heads = net->kv_heads,
                                      .head_dim = m->head_dim,
                                      .scale = net->attention_scale,
                                      .softcap = net->attention_softcap,
                                      .is_causal = !net->is_encoder,
                                      .key_end = net->is_encoder ? "key_end" : NULL,
                                      .has_window = has_window,
                                      .window_left = net->window_left,
                                      .window_right = net->window_right,
                                      .alibi = net->positions == MEGA_POSITIONS_ALIBI,
                                      .sinks_name = net->sinks ? n->sinks : NULL,
                                      .sinks_std = m->init_std,
                                      .rope = is_rotated ? &rope : NULL,
                                      .qk_norm = query_norm_of(m),
                                      .qk_norm_options = norm_of(m),
                                      .dropout = m->attention_dropout,
                                      .recompute_core = m->recompute == MEGA_TRANSFORMER_RECOMPUTE_SELECTIVE,
                                      .qkv = &qkv,
                                      .out = &out,
                                      .qkv_name = qkv_name,
                                      .out_name = out_name,
                                      .latent = net->latent.kv_rank > 0 ? &latent : NULL};
    return mega_self_attention(b, n->attention, x, &o);
}

/* ---- MLP ---- */

void block_place_two(mega_param_options *weight, int64_t rows, const char *first, const char *second,
                     char file[2][MEGA_PATH])
{
    snprintf(file[0], MEGA_PATH, "%s.weight", first);
    snprintf(file[1], MEGA_PATH, "%s.weight", second);
    weight->num_parts = 2;
    for (int i = 0; i < 2; i++) weight->part[i] = (mega_param_part){.file = file[i], .rows = rows};
}

/* Gate and up are one product. Where the gate is the second half, its rows are the second part. */
static void place_gate(const mega_transformer *m, const block_mlp_names *n, int64_t width, mega_param_options *weight,
                       char file[2][MEGA_PATH])
{
    if (n->gate_file == NULL) weight->blocks = 2;
    else if (m->net.gate_second)
        block_place_two(weight, width, n->up_file, n->gate_file, file);
    else
        block_place_two(weight, width, n->gate_file, n->up_file, file);
}

mega_tensor block_mlp(const mega_builder *b, const mega_transformer *m, const block_mlp_names *n, int64_t width,
                      mega_tensor x)
{
    mega_linear_options up = block_from_residual(m, m->net.no_mlp_bias),
                        down = block_into_residual(m, m->net.no_mlp_bias);
    char file[2][MEGA_PATH];
    if (m->net.gated) place_gate(m, n, width, &up.weight, file);
    x = mega_column_linear(b, n->up, x, (m->net.gated ? 2 : 1) * width, &up);
    const mega_scope s = mega_scope_enter(b->graph, "mlp.act");
    x = m->net.gated ? mega_glu(b, x, m->net.activation, m->net.gate_second) : mega_activation(b, x, m->net.activation);
    mega_scope_leave(b->graph, s);
    return mega_row_linear(b, n->down, x, m->hidden, &down);
}

/* ---- the layers ---- */

void transformer_embedding(const mega_builder *builder, const void *self, mega_flow *flow)
{
    const mega_transformer *m = self;
    const mega_builder sequences = block_sequences(builder, m), *b = &sequences;
    const mega_family_names *n = block_names(m);
    const mega_param_options table = table_of(m), positions = {.init = table.init, .init_std = table.init_std};
    block_request_rows(b, m);
    const mega_tensor ids = mega_input(b, "tokens", MEGA_I32, b->positions, 0);
    mega_tensor x = mega_vocab_embedding(b, n->tokens, ids, m->vocab, m->hidden, &table);
    x = block_scaled(b, x, m->net.embedding_scale);
    if (m->net.positions == MEGA_POSITIONS_TABLE)
        x = mega_position_embedding_after(b, n->positions, x, m->positions, m->net.skipped_positions, &positions);
    if (m->net.token_types > 0)
        x = mega_embedding_add(b, n->token_types, "token_types", x, m->net.token_types, &positions);
    if (m->net.embedding_norm) x = block_norm(b, m, n->embedding_norm, x);
    flow->x = mega_dropout(b, "drop", x, m->hidden_dropout);
}

/* The outputs of attention and of the MLP, with the norms before and after them. */
static mega_tensor attention_branch(const mega_builder *b, const mega_transformer *m, mega_tensor x)
{
    const mega_family_names *n = block_names(m);
    const mega_norm_place place = m->net.norm_place;
    x = block_attention(b, m, x);
    if (place == MEGA_NORM_AFTER || place == MEGA_NORM_BOTH) x = block_norm(b, m, n->after_1, x);
    return block_scaled(b, x, m->net.residual_scale);
}

static mega_tensor mlp_branch(const mega_builder *b, const mega_transformer *m, mega_tensor x)
{
    const mega_family_names *n = block_names(m);
    const mega_norm_place place = m->net.norm_place;
    const bool has_experts = mega_shape_experts(&m->net.experts, b->index) > 0;
    const block_mlp_names mlp = {n->up, n->down, n->gate_file, n->up_file};
    x = has_experts ? block_experts(b, m, x) : block_mlp(b, m, &mlp, m->ffn_hidden, x);
    if (place == MEGA_NORM_AFTER || place == MEGA_NORM_BOTH) x = block_norm(b, m, n->after_2, x);
    return block_scaled(b, x, m->net.residual_scale);
}

/* One layer. x is [T, C]. */
void transformer_block(const mega_builder *builder, const void *self, mega_flow *flow)
{
    const mega_transformer *m = self;
    const mega_builder sequences = block_sequences(builder, m), *b = &sequences;
    const mega_family_names *n = block_names(m);
    const mega_norm_place place = m->net.norm_place;
    const bool before = place == MEGA_NORM_BEFORE || place == MEGA_NORM_BOTH;
    mega_tensor x = flow->x;
    block_request_rows(b, m);
    const mega_tensor read = before && !(m->net.first_unnormed && b->index == 0) ? block_norm(b, m, n->norm_1, x) : x;
    const mega_tensor a = attention_branch(b, m, read);
    if (m->net.parallel) {
        const mega_tensor again = m->net.shared_norm || !before ? read : block_norm(b, m, n->norm_2, x);
        const mega_tensor h = mlp_branch(b, m, again);
        x = mega_dropout_add(b, "attn.drop", a, x, m->hidden_dropout);
        flow->x = mega_dropout_add(b, "mlp.drop", h, x, m->hidden_dropout);
        return;
    }
    x = mega_dropout_add(b, "attn.drop", a, x, m->net.kept_attention ? 0.0 : m->hidden_dropout);
    if (place == MEGA_NORM_AFTER_SUM) x = block_norm(b, m, n->norm_1, x);
    const mega_tensor h = mlp_branch(b, m, before ? block_norm(b, m, n->norm_2, x) : x);
    x = mega_dropout_add(b, "mlp.drop", h, x, m->hidden_dropout);
    flow->x = place == MEGA_NORM_AFTER_SUM ? block_norm(b, m, n->norm_2, x) : x;
}

mega_tensor block_last_norm(const mega_builder *b, const mega_transformer *m, mega_tensor x)
{
    if (!m->net.no_final_norm) x = block_norm(b, m, block_names(m)->final_norm, x);
    return block_scaled(b, x, m->net.logit_scale);
}

mega_vocab_loss_options block_head_options(const mega_transformer *m)
{
    return (mega_vocab_loss_options){.vocab_size = m->vocab,
                                     .table = table_of(m),
                                     .has_bias = m->net.head_bias,
                                     .softcap = m->net.logit_softcap,
                                     .bias_name = block_names(m)->head_bias};
}

/* A tied head has the name of the table of tokens. */
const char *block_head_name(const mega_transformer *m)
{
    return m->net.untied ? block_names(m)->head : block_names(m)->tied;
}

/* The last norm and the loss. In generation, the logits of the last row of each sequence. */
void transformer_head(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_transformer *m = self;
    const char *name = block_head_name(m);
    const mega_vocab_loss_options options = block_head_options(m);
    block_request_rows(b, m);
    if (b->mode == MEGA_GENERATE) {
        mega_tensor x = mega_op_take_rows(b->graph, flow->x, mega_input(b, "last_rows", MEGA_I32, 1, 0));
        x = block_last_norm(b, m, x);
        mega_graph_output(b->graph, mega_vocab_logits_with(b, name, x, &options), "logits");
        return;
    }
    const mega_tensor labels = mega_input(b, "labels", MEGA_I32, b->positions, 0);
    const mega_tensor loss_mask = mega_input(b, "loss_mask", MEGA_F32, b->positions, 0);
    const mega_tensor x = block_last_norm(b, m, flow->x);
    const mega_head_result loss = mega_vocab_loss(b, name, x, labels, loss_mask, &options);
    mega_graph_output(b->graph, loss.token_loss, "token_loss");
    mega_loss_add(b, "lm loss", loss.loss, 1.0);
}
