/* Networks of ranks_kinds that model/block.c, model/encoder.c and model/t5.c describe, in a family of their own. */
#ifndef MEGALITH_TESTS_KINDS_NETWORKS_H
#define MEGALITH_TESTS_KINDS_NETWORKS_H

#include "megalith/family.h"

static const mega_family_names family_names = {.root = "",
                                               .block = "block.%d",
                                               .end = "",
                                               .tokens = "tokens",
                                               .embedding_norm = "tokens_norm",
                                               .final_norm = "last_norm",
                                               .head = "head",
                                               .tied = "tokens",
                                               .norm_1 = "norm_1",
                                               .norm_2 = "norm_2",
                                               .after_1 = "after_1",
                                               .after_2 = "after_2",
                                               .attention = "attention",
                                               .qkv = "qkv",
                                               .out = "out",
                                               .qkv_order = MEGA_QKV_THREE,
                                               .q = "attention.q",
                                               .k = "attention.k",
                                               .v = "attention.v",
                                               .up = "up",
                                               .down = "down",
                                               .gate_file = "gate",
                                               .up_file = "upper",
                                               .router = "experts.router",
                                               .expert_up = "experts.#.both",
                                               .expert_down = "experts.#.down",
                                               .expert_gate_file = "experts.#.gate",
                                               .expert_up_file = "experts.#.up",
                                               .shared_up = "shared.both",
                                               .shared_down = "shared.down",
                                               .shared_gate_file = "shared.gate",
                                               .shared_up_file = "shared.up",
                                               .shared_router = "shared.router",
                                               .blend = "blend",
                                               .sinks = "attention.sinks",
                                               .q_down = "attention.q_down",
                                               .q_latent_norm = "attention.q_norm",
                                               .q_up = "attention.q_up",
                                               .kv_down = "attention.kv_down",
                                               .kv_latent_norm = "attention.kv_norm",
                                               .kv_up = "attention.kv_up",
                                               .positions = "places",
                                               .token_types = "types",
                                               .pooler = "pooler",
                                               .sentence_head = "pairs",
                                               .classifier = "classes",
                                               .transform = "transform",
                                               .transform_norm = "transform_norm",
                                               .head_bias = "head_bias"};
static const mega_family family = {.model_type = "kinds", .names = &family_names};
static const mega_network_shape modern = {.family = &family,
                                          .positions = MEGA_POSITIONS_ROPE,
                                          .rope = {.theta = 50, .fraction = 0.5},
                                          .kv_heads = 1,
                                          .has_window = true,
                                          .window_by_layer = true,
                                          .window_left = 3,
                                          .windowed = {5},
                                          .attention_softcap = 2,
                                          .logit_softcap = 4,
                                          .query_norm = MEGA_QUERY_NORM_HEAD,
                                          .no_qkv_bias = true,
                                          .no_out_bias = true,
                                          .no_mlp_bias = true,
                                          .rms = true,
                                          .norm_plus_one = true,
                                          .norm_place = MEGA_NORM_BOTH,
                                          .activation = MEGA_ACT_SILU,
                                          .gated = true,
                                          .untied = true,
                                          .embedding_scale = 2};
/* The second of the four layers has an MLP. */
static const mega_network_shape experts = {
    .family = &family,
    .positions = MEGA_POSITIONS_ROPE,
    .rope = {.theta = 50},
    .no_qkv_bias = true,
    .no_out_bias = true,
    .no_mlp_bias = true,
    .rms = true,
    .activation = MEGA_ACT_SILU,
    .gated = true,
    .untied = true,
    .experts = {
        .count = 4, .choices = 2, .hidden = 12, .shared = 8, .shared_gate = true, .normalized = true, .dense = {2}}};
/* GPT-2's blocks; the first layer has fewer experts than the others, and both kinds of MLP are weighted by token. */
static const mega_network_shape residual = {.family = &family,
                                            .positions = MEGA_POSITIONS_TABLE,
                                            .untied = true,
                                            .experts = {.count = 4,
                                                        .choices = 2,
                                                        .hidden = 12,
                                                        .fewer = {2},
                                                        .shared = 8,
                                                        .blended = true,
                                                        .has_biases = true,
                                                        .normalized = true,
                                                        .dense = {2}}};
/* What deepseek_v3 has: latent attention, groups of experts, an MLP beside them, a first layer without. Values are
 * narrower than keys, and the layers down to the latents have biases. */
static const mega_network_shape latent = {
    .family = &family,
    .positions = MEGA_POSITIONS_ROPE,
    .rope = {.theta = 50, .interleaved = true},
    .head_dim = 6,
    .latent = {.q_rank = 10, .kv_rank = 6, .own_dim = 4, .rope_dim = 2, .value_dim = 3},
    .no_mlp_bias = true,
    .rms = true,
    .activation = MEGA_ACT_SILU,
    .gated = true,
    .untied = true,
    .experts = {.count = 4,
                .choices = 2,
                .hidden = 12,
                .shared = 8,
                .score = MEGA_ROUTE_SIGMOID,
                .groups = 2,
                .chosen_groups = 1,
                .group_best = 2,
                .epsilon = 1e-20,
                .scale = 1.5,
                .normalized = true,
                .dense = {1}}};
/* The experts of a layer are one tensor in the file, gate and up row by row, turned. */
static const mega_family_names stacked_names = {.root = "",
                                                .block = "block.%d",
                                                .end = "",
                                                .tokens = "tokens",
                                                .final_norm = "last_norm",
                                                .head = "head",
                                                .norm_1 = "norm_1",
                                                .norm_2 = "norm_2",
                                                .attention = "attention",
                                                .qkv = "qkv",
                                                .out = "out",
                                                .qkv_order = MEGA_QKV_THREE,
                                                .q = "attention.q",
                                                .k = "attention.k",
                                                .v = "attention.v",
                                                .sinks = "attention.sinks",
                                                .up = "up",
                                                .down = "down",
                                                .router = "experts.router",
                                                .expert_up = "experts.#.both",
                                                .expert_down = "experts.#.down",
                                                .expert_up_stack = "experts.both",
                                                .expert_down_stack = "experts.down",
                                                .turned_stacks = true};
static const mega_family stacked_family = {.model_type = "stacks", .names = &stacked_names};
/* What gpt_oss has: sinks, a window in every other layer, biases of experts and of their router, gates that are cut.
 * The limit is low, so that many are. */
#define STACKED_NET(biases, score_, margin_)                                                                       \
    {                                                                                                              \
        .family = &stacked_family, .positions = MEGA_POSITIONS_ROPE, .rope = {.theta = 50}, .kv_heads = 2,         \
        .has_window = true, .window_by_layer = true, .window_left = 5, .windowed = {5}, .sinks = true,             \
        .no_mlp_bias = true, .rms = true, .activation = MEGA_ACT_SILU, .gated = true, .untied = true, .experts = { \
            .count = 4,                                                                                            \
            .choices = 2,                                                                                          \
            .hidden = 12,                                                                                          \
            .score = (score_),                                                                                     \
            .margin = (margin_),                                                                                   \
            .has_biases = (biases),                                                                                \
            .gate_limit = 0.8,                                                                                     \
            .gate_alpha = 1.702                                                                                    \
        }                                                                                                          \
    }
static const mega_network_shape gpt_oss = STACKED_NET(true, MEGA_ROUTE_SOFTMAX_OF_CHOSEN, 0);
/* Without biases of experts, and with the weights of phimoe. */
static const mega_network_shape stacked = STACKED_NET(false, MEGA_ROUTE_SOFTMAX_OF_NEAR, 0.2);
static const mega_family_names fused_names = {.root = "",
                                              .block = "block.%d",
                                              .end = "",
                                              .tokens = "tokens",
                                              .embedding_norm = "tokens_norm",
                                              .final_norm = "last_norm",
                                              .tied = "tokens",
                                              .norm_1 = "norm_1",
                                              .attention = "attention",
                                              .qkv = "qkv",
                                              .out = "out",
                                              .up = "up",
                                              .down = "down"};
static const mega_family fused = {.model_type = "fused", .names = &fused_names};
static const mega_network_shape parallel = {.family = &fused,
                                            .positions = MEGA_POSITIONS_ALIBI,
                                            .kv_heads = 1,
                                            .embedding_norm = true,
                                            .parallel = true,
                                            .shared_norm = true,
                                            .activation = MEGA_ACT_RELU_SQUARED,
                                            .head_bias = true};
static const mega_network_shape bert = {.family = &family,
                                        .is_encoder = true,
                                        .token_types = 2,
                                        .transform = true,
                                        .transform_activation = MEGA_ACT_GELU,
                                        .sentence_head = true,
                                        .activation = MEGA_ACT_GELU,
                                        .norm_place = MEGA_NORM_AFTER_SUM,
                                        .embedding_norm = true,
                                        .no_final_norm = true,
                                        .head_bias = true};
static const mega_network_shape t5 = {.family = &family,
                                      .t5 = MEGA_T5_ORIGINAL,
                                      .decoder_layers = 2,
                                      .relative_buckets = 8,
                                      .relative_distance = 12,
                                      .positions = MEGA_POSITIONS_NONE,
                                      .activation = MEGA_ACT_GELU_TANH,
                                      .gated = true,
                                      .untied = true};
static const mega_network_shape umt5 = {.family = &family,
                                        .t5 = MEGA_T5_ORIGINAL,
                                        .decoder_layers = 2,
                                        .relative_buckets = 8,
                                        .relative_distance = 12,
                                        .biases_by_layer = true,
                                        .positions = MEGA_POSITIONS_NONE,
                                        .activation = MEGA_ACT_RELU,
                                        .logit_scale = 0.125};
static const mega_network_shape megatron_t5 = {
    .family = &family, .t5 = MEGA_T5_MEGATRON, .decoder_layers = 2, .head_bias = true};
/* A classifier of samples that are four sequences each. */
static const mega_network_shape choices = {.family = &family,
                                           .is_encoder = true,
                                           .token_types = 2,
                                           .choices = 4,
                                           .activation = MEGA_ACT_GELU,
                                           .head_bias = true};

#endif
