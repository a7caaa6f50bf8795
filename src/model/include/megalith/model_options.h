/* Options of the network: its shape, initial weights and dropout, and how it is split over ranks. The options
 * are declared in model/options.c. */
#ifndef MEGALITH_MODEL_OPTIONS_H
#define MEGALITH_MODEL_OPTIONS_H

#include "megalith/option.h"

typedef struct mega_model_options {
    const char *preset; /* such as "gpt2"; NULL without a preset */
    int64_t num_layers, hidden_size, ffn_hidden_size, num_attention_heads, kv_channels, max_position_embeddings;
    int64_t padded_vocab_size; /* set once the tokenizer is known */

    /* What kind of network it is: mega_network_from_options reads these. */
    const char *position_embedding_type, *normalization, *glu_activation, *attention_head_type, *window_size;
    bool add_position_embedding, use_rotary_position_embeddings, use_rope_scaling;
    double rotary_percent, rotary_base, rotary_seq_len_interpolation_factor, rope_scaling_factor;
    const char *rope_type;
    bool rotary_interleaved, yarn_correction_range_round_to_int;
    double rotary_scaling_factor, yarn_beta_fast, yarn_beta_slow, mscale, mscale_all_dim;
    int64_t yarn_original_max_position_embeddings, no_rope_freq;
    bool group_query_attention;
    int64_t num_query_groups, num_key_value_heads;
    bool swiglu, squared_relu, untie_embeddings_and_output_weights;
    bool add_bias_linear, add_qkv_bias, qk_layernorm, embed_layernorm, apply_layernorm_1p;
    double layernorm_epsilon, attention_dropout, hidden_dropout;
    double init_method_std;
    bool init_method_xavier_uniform;

    /* A mixture of experts, and how its router is trained. num_experts: a number, or one for each layer with experts;
     * none, or the number 1: no mixture (mega_model_num_experts) */
    mega_list num_experts;
    const char *mlp_type;    /* "residual": an MLP beside the experts; NULL: "standard", none */
    int64_t expert_interval; /* the last of each so many layers has experts, as in Megatron-DeepSpeed; 0: moe_layer_freq
                                says which */
    int64_t moe_ffn_hidden_size, moe_router_topk, moe_router_num_groups, moe_router_group_topk;
    const char *moe_init_from; /* folder of the dense model that it begins with; NULL: none */
    const char *moe_layer_freq, *moe_router_score_function, *moe_router_load_balancing_type;
    bool moe_router_pre_softmax, moe_router_enable_expert_bias;
    double moe_router_topk_scaling_factor, moe_aux_loss_coeff, moe_z_loss_coeff, moe_input_jitter_eps,
        moe_buffer_factor, moe_router_bias_update_rate;
    double moe_expert_capacity_factor;
    const char *moe_token_drop_policy;
    int64_t moe_min_capacity;

    bool sequence_parallel;                                                      /* false if tp is 1 */
    int64_t decoder_first_pipeline_num_layers, decoder_last_pipeline_num_layers; /* 0: as many as other stages */
    int64_t num_layers_per_virtual_pipeline_stage;
    int64_t num_virtual_stages_per_pipeline_rank; /* derived from the member above; 0 or 1: one program per stage */
} mega_model_options;

/* The most experts of a layer; 0: no mixture; -1: not all of num_experts are numbers from 1 to MEGA_ROUTE_EXPERTS. */
int64_t mega_model_num_experts(const mega_model_options *options);
/* The number at place i of num_experts; 0: it is none from 1 to MEGA_ROUTE_EXPERTS. */
int64_t mega_model_experts_at(const mega_model_options *options, size_t i);

/* The option tables, one per title of --help. */
extern const mega_option_section mega_model_kind_section, mega_model_experts_section;
extern const mega_option_section mega_model_distributed_section, mega_model_network_section,
    mega_model_regularization_section, mega_model_initialization_section, mega_model_training_section;
#endif
