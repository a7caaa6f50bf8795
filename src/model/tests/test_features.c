/* A small model of each family, with weights drawn here: every feature that its config.json turns on changes the logits
 * (model_features.h). golden_test_families does the same with the models that transformers makes. */
#include "block.h"
#include "megalith/hf_config.h"
#include "megalith/language.h"
#include "model_features.h"

enum { BATCH = 2, LENGTH = 12 };

#define SIZES                                                                                        \
    "\"vocab_size\": 31, \"hidden_size\": 16, \"intermediate_size\": 20, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 8, \"max_position_embeddings\": 16, "
#define NO_HEAD_DIM                                                                                   \
    "\"vocab_size\": 31, \"hidden_size\": 16, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, " \
    "\"max_position_embeddings\": 16, "
#define GPT_SIZES "\"vocab_size\": 31, \"n_embd\": 16, \"n_layer\": 2, \"n_head\": 2, \"n_positions\": 16, "
#define T5_SIZES                                                                                            \
    "\"vocab_size\": 31, \"d_model\": 16, \"d_kv\": 6, \"d_ff\": 20, \"num_layers\": 2, \"num_heads\": 2, " \
    "\"relative_attention_num_buckets\": 8, \"relative_attention_max_distance\": 12, \"n_positions\": 16, "
#define EXPERTS "\"num_experts\": 3, \"num_experts_per_tok\": 2, "
#define GRANITE                                                                             \
    "\"num_local_experts\": 3, \"num_experts_per_tok\": 2, \"embedding_multiplier\": 2.0, " \
    "\"attention_multiplier\": 0.5, \"residual_multiplier\": 0.5, \"logits_scaling\": 0.25, "
#define LATENT                                                                                   \
    "\"kv_lora_rank\": 6, \"qk_nope_head_dim\": 4, \"qk_rope_head_dim\": 4, \"v_head_dim\": 6, " \
    "\"first_k_dense_replace\": 1, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 12, "  \
    "\"n_routed_experts\": 6, \"n_group\": 2, \"topk_group\": 1, \"intermediate_size\": 20, "
#define WINDOWS  "\"sliding_window\": 4, "
#define BY_LAYER "\"layer_types\": [\"sliding_attention\", \"full_attention\"], "
#define TWO      "2.0, 3.0, 5.0, 9.0"

static const struct model {
    const char *type, *keys;
} models[] = {
    {"gpt2", GPT_SIZES},
    {"llama", SIZES "\"attention_bias\": true, \"mlp_bias\": true, "
                    "\"rope_theta\": 1000.0, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, "
                    "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 16}, "},
    {"llama", SIZES "\"tie_word_embeddings\": true, \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 3.0}, "},
    {"llama", SIZES "\"rope_theta\": 1000.0, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, "
                    "\"original_max_position_embeddings\": 16, \"beta_fast\": 16.0, \"beta_slow\": 2.0}, "},
    {"mistral", SIZES WINDOWS},
    {"qwen2", SIZES WINDOWS "\"use_sliding_window\": true, \"max_window_layers\": 1, "},
    {"qwen3", SIZES},
    {"mixtral", SIZES "\"num_local_experts\": 3, \"num_experts_per_tok\": 2, "},
    {"qwen3_moe", SIZES EXPERTS "\"moe_intermediate_size\": 12, \"norm_topk_prob\": true, "},
    {"qwen2_moe", SIZES EXPERTS "\"moe_intermediate_size\": 12, \"shared_expert_intermediate_size\": 14, "},
    {"granitemoe", SIZES GRANITE},
    {"granitemoeshared", SIZES GRANITE "\"shared_intermediate_size\": 14, "},
    {"glm4_moe", SIZES "\"n_routed_experts\": 6, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 12, "
                       "\"n_group\": 3, \"topk_group\": 2, \"routed_scaling_factor\": 1.5, \"use_qk_norm\": true, "},
    {"deepseek_v3", NO_HEAD_DIM LATENT "\"q_lora_rank\": 10, "},
    {"gpt_oss", SIZES WINDOWS "\"num_local_experts\": 3, \"num_experts_per_tok\": 2, \"swiglu_limit\": 0.05, "
                              "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 100.0}, "},
    {"olmoe", NO_HEAD_DIM EXPERTS "\"intermediate_size\": 20, \"num_key_value_heads\": 1, "},
    {"smollm3", SIZES "\"no_rope_layer_interval\": 2, "},
    {"gemma", SIZES},
    {"gemma2", SIZES WINDOWS "\"query_pre_attn_scalar\": 20, \"attn_logit_softcapping\": 5.0, "
                             "\"final_logit_softcapping\": 3.0, "},
    {"gemma3_text", SIZES WINDOWS BY_LAYER "\"query_pre_attn_scalar\": 20, \"rope_theta\": 10000.0, "
                                           "\"rope_local_base_freq\": 100.0, "},
    {"olmo2", SIZES},
    {"phi3", NO_HEAD_DIM "\"intermediate_size\": 20, \"num_key_value_heads\": 1, \"rope_scaling\": {\"rope_type\": "
                         "\"longrope\", \"short_factor\": [" TWO "], \"long_factor\": [" TWO "]}, "
                         "\"original_max_position_embeddings\": 8, "},
    {"phimoe", SIZES WINDOWS "\"num_local_experts\": 3, \"attention_bias\": true, \"lm_head_bias\": true, "
                             "\"router_jitter_noise\": 0.3, "
                             "\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [" TWO "], \"long_factor\": "
                             "[" TWO "], \"short_mscale\": 1.2, \"long_mscale\": 1.2, "
                             "\"original_max_position_embeddings\": 8}, "},
    {"gpt_neox", NO_HEAD_DIM "\"intermediate_size\": 20, \"rotary_pct\": 0.25, "},
    {"phi", NO_HEAD_DIM "\"intermediate_size\": 20, \"num_key_value_heads\": 2, "},
    {"starcoder2", NO_HEAD_DIM WINDOWS "\"intermediate_size\": 20, \"num_key_value_heads\": 1, "},
    {"bloom", "\"vocab_size\": 31, \"hidden_size\": 16, \"n_layer\": 2, \"n_head\": 2, "},
    {"opt", NO_HEAD_DIM "\"ffn_dim\": 20, \"word_embed_proj_dim\": 16, "},
    {"opt", NO_HEAD_DIM "\"ffn_dim\": 20, \"word_embed_proj_dim\": 16, \"do_layer_norm_before\": false, "},
    {"gpt_bigcode", GPT_SIZES},
    {"bert", NO_HEAD_DIM "\"intermediate_size\": 20, "},
    {"megatron-bert", NO_HEAD_DIM "\"intermediate_size\": 20, "},
    {"roberta", NO_HEAD_DIM "\"intermediate_size\": 20, "},
    {"xlm-roberta", NO_HEAD_DIM "\"intermediate_size\": 20, "},
    {"distilbert", "\"vocab_size\": 31, \"dim\": 16, \"hidden_dim\": 20, \"n_layers\": 2, \"n_heads\": 2, "
                   "\"max_position_embeddings\": 16, "},
    {"modernbert", NO_HEAD_DIM "\"intermediate_size\": 20, \"local_attention\": 4, "},
    {"t5", T5_SIZES},
    {"t5",
     T5_SIZES "\"feed_forward_proj\": \"gated-silu\", \"tie_word_embeddings\": false, \"num_decoder_layers\": 1, "},
    {"mt5", T5_SIZES},
    {"umt5", T5_SIZES},
    {"umt5", T5_SIZES "\"tie_word_embeddings\": false, "},
    {"megatron-t5", "\"vocab_size\": 31, \"hidden_size\": 16, \"ffn_hidden_size\": 20, \"num_layers\": 2, "
                    "\"num_attention_heads\": 2, \"kv_channels\": 6, \"max_position_embeddings\": 16, "},
    {"megalith_gpt", SIZES WINDOWS "\"position_embedding_type\": \"rope\", \"rotary_interleaved\": true, "
                                   "\"norm_one_plus_weight\": true, \"query_key_norm\": \"head\", \"gated_mlp\": true, "
                                   "\"gate_second\": true, \"embedding_norm\": true, "},
};
enum { MODELS = sizeof models / sizeof *models };

static mega_model_shape read_shape(const struct model *of)
{
    const char *path = mega_kit_path(mega_kit_temp_folder(), "config.json");
    char text[1024];
    mega_model_shape shape;
    snprintf(text, sizeof text, "{%s\"model_type\": \"%s\", \"eos_token_id\": 2}", of->keys, of->type);
    mega_kit_write(path, text);
    GPT_RUN_OK(mega_hf_config_read(path, &shape));
    return shape;
}

static mega_transformer read_model(const struct model *of)
{
    const mega_model_shape shape = read_shape(of);
    mega_transformer m;
    mega_transformer_from_shape(&shape, 1, &m);
    return m;
}

/* Adds numbers of standard deviation 0.2 to norms' weights, and gives them to all else. */
static void draw(const gpt_run *r)
{
    for (int i = 0; i < mega_params_count(r->params); i++) {
        const mega_param *p = mega_params_get(r->params, i);
        float *drawn = malloc((size_t)p->count * sizeof *drawn);
        double *w = mega_params_master(r->params, i);
        mega_kit_normal(drawn, p->count, 3 + (uint32_t)i);
        for (int64_t k = 0; k < p->count; k++) w[k] = 0.2 * (double)drawn[k] + (p->num_dims == 1 ? w[k] : 0.0);
        free(drawn);
    }
}

static const char *idle_of(mega_transformer m, bool *met)
{
    static char idle[MEGA_PARAM_NAME];
    features_named named;
    features_name(&named, &m.net);
    gpt_run r = features_open(&m, BATCH, LENGTH);
    draw(&r);
    gpt_run_fill(&r, 0, 0);
    const char *found = features_idle(&r, met);
    snprintf(idle, sizeof idle, "%s", found != NULL ? found : "");
    gpt_run_free(&r);
    return idle;
}

static void every_feature_counts(void **state)
{
    (void)state;
    bool met[FEATURES] = {false};
    for (int i = 0; i < MODELS; i++) {
        const char *idle = idle_of(read_model(&models[i]), met);
        if (idle[0] != '\0') fail_msg("%s (row %d): without %s its losses are the same", models[i].type, i, idle);
    }
    mega_transformer scaled = read_model(&models[0]); /* by features of the network that a family need not have */
    scaled.net.residual_scale = 0.5;
    scaled.net.logit_scale = 3.0;
    assert_string_equal(idle_of(scaled, met), "");
    for (int i = 0; i < FEATURES; i++)
        if (!met[i]) fail_msg("%s: no row of `models` has it", features_all[i].name);
}

static void every_family_has_a_row(void **state)
{
    (void)state;
    for (int i = 0; mega_families[i] != NULL; i++) {
        int k = 0;
        while (k < MODELS && strcmp(models[k].type, mega_families[i]->model_type) != 0) k++;
        if (k == MODELS) fail_msg("%s: add a small model of it to `models`", mega_families[i]->model_type);
    }
}

/* The check itself: a window as long as the sequence and a cap far above all logits are found. */
static void a_feature_without_effect_is_found(void **state)
{
    (void)state;
    bool met[FEATURES] = {false};
    mega_transformer m = read_model(&(struct model){"mistral", SIZES "\"sliding_window\": 12, "});
    assert_string_equal(idle_of(m, met), "window");
    m = read_model(&(struct model){"gemma2", SIZES WINDOWS "\"query_pre_attn_scalar\": 20, "
                                                           "\"attn_logit_softcapping\": 5.0, "
                                                           "\"final_logit_softcapping\": 100000.0, "});
    assert_string_equal(idle_of(m, met), "logit_cap");
}

/* Of single texts; decoders and T5 have no head for masked tokens. */
static void only_encoders_show_masks(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        mega_model_shape shape = read_shape(&models[i]);
        mega_language_model m;
        if (shape.net.t5 != MEGA_T5_NONE) shape.net.decoder_start = 0;
        GPT_RUN_OK(mega_language_model_create(
            &shape, &(mega_language_options){.vocab_multiple = 1, .encodes = shape.net.is_encoder}, &m));
        const mega_status st = mega_language_model_show_masks(&m, 2);
        if (st != (shape.net.is_encoder ? MEGA_OK : MEGA_ERR_UNSUPPORTED) ||
            (st != MEGA_OK && strstr(mega_error_message(), "which predicts no masked tokens") == NULL))
            fail_msg("%s: %s, \"%s\"", models[i].type, mega_status_name(st), mega_error_message());
        mega_language_model_fini(&m);
    }
}

/* 16 bits are too few for the numbers that decide a choice. */
static void a_bias_of_the_choice_is_not_rounded(void **state)
{
    (void)state;
    const mega_transformer m = read_model(&(struct model){
        "glm4_moe", SIZES "\"n_routed_experts\": 6, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 12, "});
    for (int dtype = MEGA_F32; dtype <= MEGA_BF16; dtype++) {
        mega_layout *layout = NULL;
        mega_params *params = NULL;
        GPT_RUN_OK(mega_layout_create(NULL, NULL, &layout));
        GPT_RUN_OK(mega_params_create(layout, &params));
        mega_builder b = {.layout = layout, .samples = 1, .positions = 4, .path = "model.layers.1", .index = 1};
        GPT_RUN_OK(mega_graph_create((mega_dtype)dtype, params, layout, &b.graph));
        mega_flow flow = {.x = mega_input(&b, "x", MEGA_F32, 4, 16)};
        transformer_block(&b, &m, &flow);
        GPT_RUN_OK(mega_graph_status(b.graph));
        const int bias = mega_params_find(params, "model.layers.1.mlp.gate.e_score_correction_bias");
        assert_true(mega_params_get(params, bias)->in_acc);
        GPT_RUN_OK(mega_params_place(params, (mega_dtype)dtype, 0));
        assert_int_equal(mega_params_weight_dtype(params, mega_params_get(params, bias)->bucket), MEGA_F32);
        mega_graph_destroy(b.graph);
        mega_params_destroy(params);
        mega_layout_destroy(layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_feature_counts),
        cmocka_unit_test(every_family_has_a_row),
        cmocka_unit_test(a_feature_without_effect_is_found),
        cmocka_unit_test(only_encoders_show_masks),
        cmocka_unit_test(a_bias_of_the_choice_is_not_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
