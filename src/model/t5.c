/* T5 (Raffel et al. 2020): an encoder reads a text, and a decoder that attends to its output predicts another. Two
 * kinds: that of transformers, whose blocks are in layers/t5.c, and that of Megatron-LM, whose blocks are here. The
 * flow is x in the encoder; in the decoder it is x and, up to the last block, as more[0] the output of the encoder. */
#include "block.h"
#include "megalith/memory.h"
#include "megalith/t5_blocks.h"

#include <math.h>
#include <stdio.h>

static bool is_original(const mega_transformer *m)
{
    return m->net.t5 == MEGA_T5_ORIGINAL;
}

/* Rows of the decoder are as many as its samples have positions. */
static mega_builder of_decoder(const mega_builder *b, const mega_transformer *m)
{
    mega_builder d = *b;
    if (m->decoder_positions > 0) d.positions = m->decoder_positions;
    return d;
}

/* Generation has two programs: one encodes the texts of all samples and keeps the keys and values that the decoder
 * reads of them, and one decodes a token of each. Both have x alone in the flow: in the first it is that of the
 * encoder, through all layers of the decoder too; in the second that of the decoder, from the first layer on. */
static bool encodes(const mega_builder *b)
{
    return b->mode == MEGA_GENERATE && b->positions > 1;
}

static bool decodes(const mega_builder *b)
{
    return b->mode == MEGA_GENERATE && b->positions == 1;
}

/* The encoder keeps no caches. */
static mega_builder of_encoder(const mega_builder *b)
{
    mega_builder e = *b;
    if (encodes(b)) e.mode = MEGA_EVAL;
    return e;
}

/* Declares the inputs that several layers read. */
static void request_rows(const mega_builder *b, bool is_decoder)
{
    const char *const name[] = {"sample_id", "seq_position", is_decoder ? "cross_key_end" : "key_end"};
    if (b->mode == MEGA_GENERATE) return;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) mega_input(b, name[i], MEGA_I32, b->positions, 0);
}

/* A stack: its parameters beside those of the blocks are under this path. */
static mega_builder stack_of(const mega_builder *b, const mega_transformer *m, bool is_decoder)
{
    static const char *const path[2][2] = {{"language_model.encoder", "language_model.decoder"},
                                           {"encoder", "decoder"}};
    mega_builder root = *b;
    root.path[0] = '\0';
    return mega_builder_at(&root, "%s", path[is_original(m)][is_decoder]);
}

static mega_param_options matrix_of(const mega_transformer *m)
{
    return block_from_residual(m, false).weight;
}

/* ---- blocks of transformers ---- */

static mega_t5_options t5_attention_options(const mega_builder *b, const mega_transformer *m, bool is_decoder)
{
    const bool by_layer = m->net.biases_by_layer;
    const char *table = by_layer ? "layer.0.SelfAttention.relative_attention_bias"
                                 : "block.0.layer.0.SelfAttention.relative_attention_bias";
    const mega_builder owner = by_layer ? *b : stack_of(b, m, is_decoder);
    const mega_param_options weights = matrix_of(m);
    return (mega_t5_options){.num_heads = m->heads,
                             .head_dim = m->head_dim,
                             .ffn_channels = m->ffn_hidden,
                             .activation = m->net.activation,
                             .is_gated = m->net.gated,
                             .epsilon = m->norm_epsilon,
                             .dropout = m->hidden_dropout,
                             .weights = weights,
                             .bias = mega_attention_bias(&owner, table, m->net.relative_buckets, m->heads, &weights),
                             .bias_distance = m->net.relative_distance,
                             .key_end = is_decoder ? NULL : "key_end",
                             .source_end = is_decoder ? "cross_key_end" : NULL,
                             .recompute_core = m->recompute == MEGA_TRANSFORMER_RECOMPUTE_SELECTIVE};
}

/* ---- blocks of Megatron-LM ---- */

/* source: mega_none() for self-attention; else `positions` rows of each sample. */
static mega_tensor t5_attention(const mega_builder *b, const mega_transformer *m, const char *name, mega_tensor x,
                                mega_tensor source, int64_t positions, bool is_decoder)
{
    static const char *const part[] = {"query", "key", "value"};
    const bool is_cross = positions > 0;
    mega_linear_options qkv = block_from_residual(m, false);
    const mega_linear_options out = block_into_residual(m, false);
    char file[3][MEGA_PATH], qkv_name[MEGA_PATH], out_name[MEGA_PATH];
    for (int i = 0; i < 3; i++) {
        snprintf(file[i], sizeof file[i], "%s.%s.weight", name, part[i]);
        qkv.weight.part[i] = (mega_param_part){.file = file[i], .rows = m->heads * m->head_dim};
    }
    qkv.weight.num_parts = 3;
    snprintf(qkv_name, sizeof qkv_name, "%s.query_key_value", name);
    snprintf(out_name, sizeof out_name, "%s.dense", name);
    const mega_attention_options o = {.num_heads = m->heads,
                                      .head_dim = m->head_dim,
                                      .is_causal = is_decoder && !is_cross,
                                      .key_begin = "",
                                      .key_end = is_cross     ? "cross_key_end"
                                                 : is_decoder ? NULL
                                                              : "key_end",
                                      .dropout = m->attention_dropout,
                                      .recompute_core = m->recompute == MEGA_TRANSFORMER_RECOMPUTE_SELECTIVE,
                                      .qkv = &qkv,
                                      .out = &out,
                                      .qkv_name = qkv_name,
                                      .out_name = out_name};
    return is_cross ? mega_cross_attention(b, name, x, source, positions, &o) : mega_self_attention(b, name, x, &o);
}

static mega_tensor t5_mlp(const mega_builder *b, const mega_transformer *m, mega_tensor x)
{
    const mega_linear_options up = block_from_residual(m, false), down = block_into_residual(m, false);
    x = mega_activation(b, mega_column_linear(b, "mlp.dense_h_to_4h", x, m->ffn_hidden, &up), m->net.activation);
    return mega_row_linear(b, "mlp.dense_4h_to_h", x, m->hidden, &down);
}

/* source: as for attention; mega_none() and 0 in the encoder. */
static mega_tensor megatron_block(const mega_builder *b, const mega_transformer *m, mega_tensor x, mega_tensor source,
                                  int64_t positions)
{
    const bool is_decoder = positions > 0;
    mega_tensor y = block_norm(b, m, "input_layernorm", x);
    y = t5_attention(b, m, "self_attention", y, mega_none(), 0, is_decoder);
    x = mega_dropout_add(b, "self_attention.drop", y, x, m->hidden_dropout);
    if (is_decoder) {
        y = block_norm(b, m, "post_attention_layernorm", x);
        y = t5_attention(b, m, "inter_attention", y, source, positions, true);
        x = mega_dropout_add(b, "inter_attention.drop", y, x, m->hidden_dropout);
    }
    y = block_norm(b, m, is_decoder ? "post_inter_attention_layernorm" : "post_attention_layernorm", x);
    return mega_dropout_add(b, "mlp.drop", t5_mlp(b, m, y), x, m->hidden_dropout);
}

/* ---- the layers ---- */

static mega_tensor embedding(const mega_builder *b, const mega_transformer *m, bool is_decoder)
{
    const mega_family_names *n = block_names(m);
    const mega_vocab_loss_options head = block_head_options(m);
    const mega_param_options places = {.init = head.table.init, .init_std = head.table.init_std};
    const mega_builder stack = stack_of(b, m, is_decoder);
    request_rows(b, is_decoder);
    const bool is_apart = is_decoder && b->mode != MEGA_GENERATE; /* from the inputs of the encoder */
    const mega_tensor ids = mega_input(b, is_apart ? "decoder_tokens" : "tokens", MEGA_I32, b->positions, 0);
    mega_tensor x = mega_vocab_embedding(b, n->tokens, ids, m->vocab, m->hidden, &head.table);
    if (m->net.positions == MEGA_POSITIONS_TABLE) {
        const char *ids_of = is_apart ? "decoder_position_ids" : "position_ids";
        x = mega_embedding_add(b, n->positions, ids_of, x, m->positions, &places);
    }
    return mega_dropout(&stack, "drop", x, m->hidden_dropout);
}

static void t5_embedding(const mega_builder *b, const void *self, mega_flow *flow)
{
    flow->x = embedding(b, self, decodes(b));
}

static void t5_encoder(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_transformer *m = self;
    const mega_builder e = of_encoder(b);
    if (decodes(b)) return;
    request_rows(&e, false);
    if (is_original(m)) {
        const mega_t5_options o = t5_attention_options(&e, m, false);
        flow->x = mega_t5_encoder_block(&e, flow->x, &o);
    } else {
        flow->x = megatron_block(&e, m, flow->x, mega_none(), 0);
    }
}

/* The last norm of a stack. transformers drops elements after it. */
static mega_tensor last_norm(const mega_builder *b, const mega_transformer *m, mega_tensor x, bool is_decoder)
{
    const mega_builder stack = stack_of(b, m, is_decoder);
    const mega_norm_options n = {.kind = MEGA_RMS_NORM, .epsilon = m->norm_epsilon};
    if (!is_original(m)) return block_norm(&stack, m, "final_layernorm", x);
    x = mega_norm_with(&stack, "final_layer_norm", x, &n);
    return mega_dropout(&stack, "last_drop", x, m->hidden_dropout);
}

static void t5_encoder_end(const mega_builder *b, const void *self, mega_flow *flow)
{
    if (decodes(b)) return;
    request_rows(b, false);
    flow->x = last_norm(b, self, flow->x, false);
}

static void t5_decoder_embedding(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_builder d = of_decoder(b, self);
    if (b->mode == MEGA_GENERATE) return;
    flow->more[0] = flow->x;
    flow->x = embedding(&d, self, true);
}

/* A block of the decoder. The source is kept, or was kept, where this generates. */
static mega_tensor decoder_block_of(const mega_builder *b, const mega_transformer *m, mega_tensor x, mega_tensor source,
                                    int64_t positions)
{
    if (is_original(m)) {
        const mega_t5_options o = t5_attention_options(b, m, true);
        return mega_t5_decoder_block(b, x, source, positions, &o);
    }
    return encodes(b) ? t5_attention(b, m, "inter_attention", x, source, positions, true)
                      : megatron_block(b, m, x, source, positions);
}

static void t5_decoder(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_transformer *m = self;
    if (encodes(b)) {
        decoder_block_of(b, m, mega_none(), flow->x, b->positions);
        return;
    }
    if (decodes(b)) {
        mega_builder d = *b;
        d.cache = b->length; /* the rest is as long as the texts of the encoder */
        flow->x = decoder_block_of(&d, m, flow->x, mega_none(), b->cache - b->length);
        return;
    }
    const mega_builder d = of_decoder(b, m);
    request_rows(&d, true);
    flow->x = decoder_block_of(&d, m, flow->x, flow->more[0], b->positions);
    /* nobody reads the output of the encoder after the last block, so a stage of the head alone must not receive it */
    if (b->index + 1 == (int)m->net.decoder_layers) flow->more[0] = mega_none();
}

static mega_tensor head_input(const mega_builder *b, const mega_transformer *m, mega_tensor x)
{
    x = last_norm(b, m, x, true);
    return block_scaled(b, x, m->net.logit_scale);
}

static void t5_head(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_transformer *m = self;
    const mega_builder d = of_decoder(b, m);
    const mega_vocab_loss_options options = block_head_options(m);
    request_rows(&d, true);
    if (encodes(b)) return;
    if (decodes(b)) {
        const mega_tensor x = head_input(b, m, flow->x);
        mega_graph_output(b->graph, mega_vocab_logits_with(b, block_head_name(m), x, &options), "logits");
        return;
    }
    const mega_tensor labels = mega_input(&d, "labels", MEGA_I32, d.positions, 0);
    const mega_tensor loss_mask = mega_input(&d, "loss_mask", MEGA_F32, d.positions, 0);
    const mega_tensor x = head_input(&d, m, flow->x);
    const mega_head_result r = mega_vocab_loss(&d, block_head_name(m), x, labels, loss_mask, &options);
    mega_graph_output(d.graph, r.token_loss, "token_loss");
    mega_loss_add(&d, "lm loss", r.loss, 1.0);
}

/* ---- the list ---- */

enum { BEFORE_BLOCKS = 1, BETWEEN_STACKS = 2, AFTER_BLOCKS = 1 };

int t5_layers(const mega_transformer *m, mega_layer *out)
{
    const bool original = is_original(m);
    const char *encoder = original ? "encoder.block.%d" : "language_model.encoder.layers.%d";
    const mega_layer list[] = {{"", t5_embedding, m, 1, "embedding"},
                               {encoder, t5_encoder, m, (int)m->num_layers, "block"},
                               {"", t5_encoder_end, m, 1, "norm"},
                               {"", t5_decoder_embedding, m, 1, "embedding"},
                               {block_names(m)->block, t5_decoder, m, (int)m->net.decoder_layers, "block"},
                               {"", t5_head, m, 1, "head"}};
    const int count = (int)(sizeof list / sizeof *list);
    for (int i = 0; i < count; i++) out[i] = list[i];
    return count;
}

/* The encoder is in the stages before split_stage and the decoder in the others, each cut evenly (Megatron's rule). */
static mega_status cut_between_stacks(const mega_transformer *m, int stages, int *first)
{
    const int64_t split = m->split_stage, encoder = m->num_layers, decoder = m->net.decoder_layers;
    if (split >= stages || m->stage_chunks > 1 || encoder % split != 0 || decoder % (stages - split) != 0)
        return MEGA_MISTAKE(
            "--pipeline-model-parallel-split-rank %lld with %d pipeline stages of %lld programs each: the %lld layers "
            "of "
            "the encoder are cut evenly into the stages before it, and the %lld of the decoder into the others, in one "
            "program each; give a number from 1 to the stages - 1 for which both divide, or leave it out: the layers "
            "are "
            "then cut by their weights",
            (long long)split, stages, (long long)(m->stage_chunks > 1 ? m->stage_chunks : 1), (long long)encoder,
            (long long)decoder);
    const int begin = BEFORE_BLOCKS + (int)encoder + BETWEEN_STACKS; /* the first block of the decoder */
    for (int p = 1; p < stages; p++)
        first[p] = p < split    ? BEFORE_BLOCKS + (int)(p * (encoder / split))
                   : p == split ? begin - 1
                                : begin + (int)((p - split) * (decoder / (stages - split)));
    return MEGA_OK;
}

/* ---- parts with about as many weights that multiply: those of blocks, and of the head ---- */

typedef struct cutting {
    const mega_transformer *m;
    double *weight;                  /* [count] of each layer */
    int count, begin, parts, stages; /* begin: the first block of the decoder */
} cutting;

static int part_of(const cutting *c, const int *first, int layer)
{
    int part = 0;
    while (part + 1 < c->parts && first[part + 1] <= layer) part++;
    return part;
}

/* Whether no two programs of one stage request the same table, which the graph cannot do: that of tokens is in both
 * embeddings and in a tied head, and the blocks of a stack of transformers share one of biases, unless each has its
 * own. */
static bool tables_are_apart(const cutting *c, const int *first)
{
    const int embeds = part_of(c, first, c->begin - 1), last = c->parts - 1;
    if (c->parts == c->stages) return true;
    if (embeds != 0 && embeds % c->stages == 0) return false;
    if (!c->m->net.untied && embeds != last && embeds % c->stages == last % c->stages) return false;
    const bool shares_biases = is_original(c->m) && !c->m->net.biases_by_layer;
    return !shares_biases || (part_of(c, first, (int)c->m->num_layers) < c->stages &&
                              part_of(c, first, c->count - 2) - part_of(c, first, c->begin) < c->stages);
}

static double largest_part(const cutting *c, const int *first)
{
    double most = 0.0;
    for (int p = 0; p < c->parts; p++) {
        double sum = 0.0;
        for (int i = first[p]; i < (p + 1 < c->parts ? first[p + 1] : c->count); i++) sum += c->weight[i];
        if (sum > most) most = sum;
    }
    return most;
}

/* Part `part` begins with layer `split`; the last part may be the head alone. */
static mega_status cut_at(const cutting *c, int split, int part, bool head_alone, int *first)
{
    const int count = c->count - head_alone, parts = c->parts - head_alone;
    if (part > split || part >= parts || parts - part > count - split) return MEGA_OK;
    MEGA_TRY(mega_partition_balance(c->weight + split, count - split, parts - part, first + part));
    for (int p = part; p < parts; p++) first[p] += split;
    const int begin = first[part];
    MEGA_TRY(mega_partition_balance(c->weight, split, part, first));
    first[part] = begin;
    if (head_alone) first[parts] = count;
    return MEGA_OK;
}

/* Stages of several programs: a part begins with the embedding of the decoder or after it, such that tables are
 * apart. */
static mega_status cut_apart(const cutting *c, int *first, int *tried)
{
    double best = INFINITY;
    for (int i = 0; i < 4 * (c->parts - 1); i++) {
        tried[c->parts - 1] = 0;
        MEGA_TRY(cut_at(c, c->begin - i % 2, 1 + i / 4, i / 2 % 2 == 1, tried));
        if (tried[c->parts - 1] == 0 || !tables_are_apart(c, tried) || largest_part(c, tried) >= best) continue;
        best = largest_part(c, tried);
        for (int p = 0; p < c->parts; p++) first[p] = tried[p];
    }
    if (isfinite(best)) return MEGA_OK;
    return MEGA_MISTAKE(
        "--num-virtual-stages-per-pipeline-rank %d: however %d layers of the encoder and %d of the decoder "
        "are cut for %d pipeline stages, two programs of one stage would share a table of tokens or of "
        "biases, which is not implemented; give a smaller number, or leave it out",
        c->parts / c->stages, (int)c->m->num_layers, (int)c->m->net.decoder_layers, c->stages);
}

/* Part p begins at first[p]; there is room for one more number. */
static mega_status cut_by_weights(const mega_transformer *m, int stages, int parts, int *first)
{
    const int64_t encoder = m->num_layers, decoder = m->net.decoder_layers;
    const int begin = BEFORE_BLOCKS + (int)encoder + BETWEEN_STACKS;
    cutting c = {
        .m = m, .count = begin + (int)decoder + AFTER_BLOCKS, .begin = begin, .parts = parts, .stages = stages};
    const double width = (double)m->hidden, attention = 4.0 * (double)(m->heads * m->head_dim) * width;
    const double ffn = (m->net.gated ? 3.0 : 2.0) * (double)m->ffn_hidden * width;
    int *tried = mega_calloc((size_t)parts + 1, sizeof *tried);
    c.weight = mega_calloc((size_t)c.count, sizeof *c.weight);
    mega_status st = MEGA_OK;
    if (c.weight == NULL || tried == NULL)
        st = MEGA_FAIL(MEGA_ERR_MEMORY, "model: no memory for the weights of %d layers", c.count);
    for (int i = 0; i < (int)encoder && st == MEGA_OK; i++) c.weight[BEFORE_BLOCKS + i] = attention + ffn;
    for (int i = 0; i < (int)decoder && st == MEGA_OK; i++) c.weight[begin + i] = 2.0 * attention + ffn;
    if (st == MEGA_OK) c.weight[c.count - 1] = (double)m->padded_vocab * width;
    if (st == MEGA_OK) st = mega_partition_balance(c.weight, c.count, parts, first);
    if (st == MEGA_OK && !tables_are_apart(&c, first)) st = cut_apart(&c, first, tried);
    MEGA_FREE(c.weight, tried);
    return st;
}

mega_status t5_first_layers(const mega_transformer *m, int stages, int **out)
{
    const int parts = stages * (m->stage_chunks > 1 ? (int)m->stage_chunks : 1);
    *out = NULL;
    if (stages == 1) return MEGA_OK;
    if (m->first_stage_layers > 0 || m->last_stage_layers > 0)
        return MEGA_MISTAKE("--decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers are "
                            "about a model of one stack; a T5 takes --pipeline-model-parallel-split-rank");
    int *first = mega_calloc((size_t)parts + 1, sizeof *first);
    if (first == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "model: no memory for the boundaries of %d parts", parts);
    const mega_status st =
        m->split_stage > 0 ? cut_between_stacks(m, stages, first) : cut_by_weights(m, stages, parts, first);
    if (st == MEGA_OK) *out = first;
    else
        mega_free(first);
    return st;
}
