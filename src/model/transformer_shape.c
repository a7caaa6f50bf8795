/* Shape and stages of a transformer. */
#include "block.h"
#include "megalith/layers.h"
#include "megalith/memory.h"
#include "network.h"

#include <math.h>
#include <string.h>

static double or_zero(double x)
{
    return isnan(x) ? 0.0 : x;
}

static mega_router_training router_training_of(const mega_model_options *o)
{
    const char *type = o->moe_router_load_balancing_type;
    const bool is_sinkhorn = type != NULL && strcmp(type, "sinkhorn") == 0;
    const bool is_balanced = type != NULL && strcmp(type, "none") != 0 && !is_sinkhorn;
    return (mega_router_training){.balance = is_balanced ? or_zero(o->moe_aux_loss_coeff) : 0.0,
                                  .z = or_zero(o->moe_z_loss_coeff),
                                  .group = is_balanced && strcmp(type, "seq_aux_loss") == 0,
                                  .jitter = or_zero(o->moe_input_jitter_eps),
                                  .sinkhorn = is_sinkhorn,
                                  .bias_rate =
                                      o->moe_router_enable_expert_bias ? or_zero(o->moe_router_bias_update_rate) : 0.0};
}

static mega_expert_capacity capacity_of(const mega_model_options *o)
{
    const char *policy = o->moe_token_drop_policy;
    return (mega_expert_capacity){.factor = or_zero(o->moe_expert_capacity_factor),
                                  .least = o->moe_min_capacity,
                                  .by_position = policy != NULL && strcmp(policy, "position") == 0};
}

mega_status mega_transformer_from_options(const mega_model_options *o, int64_t vocab, const mega_network_shape *net,
                                          mega_transformer *out)
{
    *out = (mega_transformer){
        .num_layers = o->num_layers,
        .expert_buffer = o->moe_buffer_factor,
        .capacity = capacity_of(o),
        .hidden = o->hidden_size,
        .ffn_hidden = o->ffn_hidden_size,
        .heads = o->num_attention_heads,
        .head_dim = o->kv_channels,
        .positions = o->max_position_embeddings,
        .vocab = vocab,
        .padded_vocab = o->padded_vocab_size,
        .norm_epsilon = o->layernorm_epsilon,
        .init_std = o->init_method_std,
        .init_xavier = o->init_method_xavier_uniform,
        .attention_dropout = o->attention_dropout,
        .hidden_dropout = o->hidden_dropout,
        .sequence_parallel = o->sequence_parallel,
        .recompute_layers = 1,
        .router = router_training_of(o),
        .first_stage_layers = o->decoder_first_pipeline_num_layers,
        .last_stage_layers = o->decoder_last_pipeline_num_layers,
        .stage_chunks = o->num_virtual_stages_per_pipeline_rank,
    };
    if (net != NULL) out->net = *net;
    else
        MEGA_TRY(mega_network_from_options(o, &out->net));
    if (out->router.bias_rate > 0.0 && out->net.experts.count > 0 && !out->net.experts.choice_bias)
        return MEGA_MISTAKE(
            "--moe-router-enable-expert-bias: the experts of this model have no bias of the choice; leave "
            "the option out");
    if (out->router.sinkhorn && (out->net.experts.choice_bias || out->net.experts.groups > 1))
        return MEGA_MISTAKE(
            "--moe-router-load-balancing-type sinkhorn: it decides the choice of experts, and in this model biases or "
            "groups of experts do; give another type, or a model without them");
    if (mega_model_num_experts(o) > 0 && mega_network_has_experts_alone(&out->net, o->num_layers))
        out->ffn_hidden = out->net.experts.hidden; /* what folders of such models say */
    return net != NULL ? MEGA_OK : mega_network_find_family(out, &out->net);
}

static int64_t programs_of_a_stage(const mega_transformer *m)
{
    return m->stage_chunks > 1 ? m->stage_chunks : 1;
}

/* Returns the number of layers of each program of a stage; -1 if the layers do not divide evenly. `said` is the stage's
 * own number of layers, or 0 for a stage without one. As in Megatron, all stages have equally many programs, and all
 * programs of a stage have equally many layers. */
static int64_t layers_of_chunk(const mega_transformer *m, int stages, int64_t said)
{
    const int64_t chunks = programs_of_a_stage(m);
    const int64_t others = stages - (m->first_stage_layers > 0) - (m->last_stage_layers > 0);
    const int64_t left = m->num_layers - m->first_stage_layers - m->last_stage_layers;
    if (said > 0) return said % chunks == 0 ? said / chunks : -1;
    if (others == 0) return left == 0 ? 0 : -1;
    return left > 0 && left % (others * chunks) == 0 ? left / (others * chunks) : -1;
}

mega_status mega_transformer_check_stages(const mega_transformer *m, int stages)
{
    if (stages <= 1 || (layers_of_chunk(m, stages, 0) >= 0 && layers_of_chunk(m, stages, m->first_stage_layers) >= 0 &&
                        layers_of_chunk(m, stages, m->last_stage_layers) >= 0))
        return MEGA_OK;
    return MEGA_MISTAKE(
        "%lld layers cannot be cut into %d pipeline stages (first %lld, last %lld; 0: as many as the "
        "others) of %lld programs each; choose --num-layers as a multiple of stages times programs, or "
        "--decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers as multiples of the "
        "programs so that the rest divides",
        (long long)m->num_layers, stages, (long long)m->first_stage_layers, (long long)m->last_stage_layers,
        (long long)programs_of_a_stage(m));
}

mega_status mega_transformer_first_layers(const mega_transformer *m, int stages, int **out)
{
    const int parts = stages * (int)programs_of_a_stage(m);
    *out = NULL;
    if (m->net.t5 != MEGA_T5_NONE) return t5_first_layers(m, stages, out);
    MEGA_TRY(mega_transformer_check_stages(m, stages));
    if (stages == 1 || (m->first_stage_layers == 0 && m->last_stage_layers == 0)) return MEGA_OK;
    int *first = mega_calloc((size_t)parts, sizeof *first);
    if (first == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "model: no memory for the boundaries of %d parts", parts);
    for (int p = 0, layer = 1; p < parts; p++) { /* layer 0 is the embedding, in the first part */
        const int stage = p % stages;
        const int64_t said = stage == 0 ? m->first_stage_layers : stage == stages - 1 ? m->last_stage_layers : 0;
        first[p] = p == 0 ? 0 : layer;
        layer += (int)layers_of_chunk(m, stages, said);
    }
    *out = first;
    return MEGA_OK;
}

void mega_transformer_from_shape(const mega_model_shape *shape, int64_t vocab_multiple, mega_transformer *out)
{
    *out = (mega_transformer){.num_layers = shape->num_layers,
                              .hidden = shape->hidden,
                              .ffn_hidden = shape->ffn_hidden,
                              .heads = shape->heads,
                              .head_dim = shape->net.head_dim > 0 ? shape->net.head_dim : shape->hidden / shape->heads,
                              .positions = shape->positions,
                              .vocab = shape->vocab,
                              .padded_vocab = mega_vocab_pad(shape->vocab, vocab_multiple, 1),
                              .norm_epsilon = shape->norm_epsilon,
                              .init_std = shape->init_std,
                              .net = shape->net};
}

void mega_transformer_to_shape(const mega_transformer *m, int64_t eos, mega_model_shape *out)
{
    *out = (mega_model_shape){.num_layers = m->num_layers,
                              .hidden = m->hidden,
                              .ffn_hidden = m->ffn_hidden,
                              .heads = m->heads,
                              .positions = m->positions,
                              .vocab = m->vocab,
                              .norm_epsilon = m->norm_epsilon,
                              .attention_dropout = m->attention_dropout,
                              .hidden_dropout = m->hidden_dropout,
                              .init_std = m->init_std,
                              .eos = eos,
                              .net = m->net};
    out->net.head_dim = m->head_dim;
}
