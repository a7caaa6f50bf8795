/* GPT-2 (Radford et al. 2019) as a list of layers. The layers it calls shard it over ranks. */
#include "megalith/gpt.h"
#include "megalith/layers.h"
#include "megalith/memory.h"

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

/* Projections back into the residual stream get a smaller initial standard deviation, by 1/sqrt(2 layers) (Radford et
 * al. 2019, section 2.3). */
static mega_linear_options into_residual(const mega_gpt *m)
{
    return linear_of(m, m->init_std / sqrt(2.0 * (double)m->num_layers));
}

/* Returns the options of the token table, which the embedding and the head both declare. */
static mega_param_options table_of(const mega_gpt *m)
{
    return (mega_param_options){.init = m->init_xavier ? MEGA_INIT_XAVIER_UNIFORM : MEGA_INIT_NORMAL,
                                .init_std = m->init_std,
                                .padding_rows = m->padded_vocab - m->vocab};
}

/* Declares the inputs that several layers read, so that every program has them in the same order. */
static void request_rows(const mega_builder *b)
{
    static const char *const name[] = {"sample_id", "seq_position", "segment_start"};
    if (b->mode == MEGA_GENERATE) return;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) mega_input(b, name[i], MEGA_I32, b->positions, 0);
}

static mega_tensor gpt_mlp(const mega_builder *b, const mega_gpt *m, mega_tensor x)
{
    const mega_linear_options up = from_residual(m), down = into_residual(m);
    x = mega_column_linear(b, "mlp.c_fc", x, m->ffn_hidden, &up);
    const mega_scope s = mega_scope_enter(b->graph, "mlp.act");
    x = mega_activation(b, x, m->erf_gelu ? MEGA_ACT_GELU : MEGA_ACT_GELU_TANH);
    mega_scope_leave(b->graph, s);
    return mega_row_linear(b, "mlp.c_proj", x, m->hidden, &down);
}

/* ---- the layers ---- */

static void gpt_embedding(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_gpt *m = self;
    const mega_param_options table = table_of(m), positions = {.init = table.init, .init_std = table.init_std};
    request_rows(b);
    const mega_tensor ids = mega_input(b, "tokens", MEGA_I32, b->positions, 0);
    mega_tensor x = mega_vocab_embedding(b, "wte", ids, m->vocab, m->hidden, &table);
    x = mega_position_embedding(b, "wpe", x, m->positions, &positions);
    flow->x = mega_dropout(b, "drop", x, m->hidden_dropout);
}

/* One pre-norm layer. x is [T, C]. */
static void gpt_block(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_gpt *m = self;
    const mega_linear_options qkv = from_residual(m), out = into_residual(m);
    const mega_attention_options attention = {.num_heads = m->heads,
                                              .head_dim = m->head_dim,
                                              .is_causal = true,
                                              .dropout = m->attention_dropout,
                                              .recompute_core = m->recompute == MEGA_GPT_RECOMPUTE_SELECTIVE,
                                              .qkv = &qkv,
                                              .out = &out};
    mega_tensor x = flow->x;
    request_rows(b);
    mega_tensor h = mega_norm(b, "ln_1", x, MEGA_LAYER_NORM, m->norm_epsilon);
    h = mega_self_attention(b, "attn", h, &attention);
    x = mega_dropout_add(b, "attn.drop", h, x, m->hidden_dropout);
    h = mega_norm(b, "ln_2", x, MEGA_LAYER_NORM, m->norm_epsilon);
    h = gpt_mlp(b, m, h);
    flow->x = mega_dropout_add(b, "mlp.drop", h, x, m->hidden_dropout);
}

/* Outputs the logits of the last row of each sequence, for generation. */
static void gpt_logits(const mega_builder *b, const mega_gpt *m, mega_tensor x)
{
    const mega_param_options table = table_of(m);
    x = mega_op_take_rows(b->graph, x, mega_input(b, "last_rows", MEGA_I32, 1, 0));
    x = mega_norm(b, "ln_f", x, MEGA_LAYER_NORM, m->norm_epsilon);
    mega_graph_output(b->graph, mega_vocab_logits(b, "wte", x, m->vocab, &table), "logits");
}

/* The last norm and the loss. The parameter name "wte" ties the head to the embedding. */
static void gpt_head(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_gpt *m = self;
    request_rows(b);
    if (b->mode == MEGA_GENERATE) {
        gpt_logits(b, m, flow->x);
        return;
    }
    const mega_tensor labels = mega_input(b, "labels", MEGA_I32, b->positions, 0);
    const mega_tensor loss_mask = mega_input(b, "loss_mask", MEGA_F32, b->positions, 0);
    const mega_vocab_loss_options options = {.vocab_size = m->vocab, .table = table_of(m)};
    const mega_tensor x = mega_norm(b, "ln_f", flow->x, MEGA_LAYER_NORM, m->norm_epsilon);
    const mega_head_result loss = mega_vocab_loss(b, "wte", x, labels, loss_mask, &options);
    mega_graph_output(b->graph, loss.token_loss, "token_loss");
    mega_loss_add(b, "lm loss", loss.loss, 1.0);
}

/* ---- the list ---- */

mega_status mega_gpt_list_create(const mega_gpt *m, int stages, mega_gpt_list *out)
{
    mega_gpt_list list = {.first_layer = NULL};
    MEGA_TRY(mega_gpt_first_layers(m, stages, &list.first_layer));
    list.layer[0] = (mega_layer){"transformer", gpt_embedding, m, 1, "embedding"};
    list.layer[1] = (mega_layer){"transformer.h.%d", gpt_block, m, (int)m->num_layers, "block"};
    list.layer[2] = (mega_layer){"transformer", gpt_head, m, 1, "head"};
    *out = list;
    return MEGA_OK;
}

void mega_gpt_list_destroy(mega_gpt_list *list)
{
    mega_free(list->first_layer);
    list->first_layer = NULL;
}

/* Full recomputation with `uniform` keeps only the inputs of groups of n blocks; with `block` it recomputes the first n
 * blocks of each part, one by one. */
mega_model mega_gpt_model(const mega_gpt_list *list)
{
    const mega_gpt *m = list->layer[0].self;
    const bool is_full = m->recompute == MEGA_GPT_RECOMPUTE_FULL;
    return (mega_model){.name = "transformer",
                        .layer = list->layer,
                        .num_layers = MEGA_GPT_ROWS,
                        .partition = MEGA_PARTITION_TYPE,
                        .partition_type = "^block$",
                        .first_layer = list->first_layer,
                        .recompute_interval = !is_full               ? 0
                                              : m->recompute_uniform ? (int)m->recompute_layers
                                                                     : 1,
                        .recompute_type = "^block$",
                        .recompute_regions = m->recompute_uniform ? 0 : (int)m->recompute_layers,
                        .sequence_parallel = m->sequence_parallel,
                        .distribute_saved = m->distribute_saved};
}
