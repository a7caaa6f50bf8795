/* DeepSeek-V3 and R1 (DeepSeek-AI 2024): latent attention, scores by a sigmoid, a bias of the choice, groups of
 * experts, an MLP beside them, dense first layers. */
#include "hf_impl.h"

#include <math.h>
#include <stdio.h>

/* Without it, queries are computed from the token. */
static int64_t no_q_rank(const mega_model_shape *s)
{
    (void)s;
    return 0;
}

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "129280")},
    {HF_INT("hidden_size", hidden, "7168")},
    {HF_INT("intermediate_size", ffn_hidden, "18432")},
    {HF_INT("num_hidden_layers", num_layers, "61")},
    {HF_INT("num_attention_heads", heads, "128")},
    {HF_INT("max_position_embeddings", positions, "4096")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("rms_norm_eps", norm_epsilon, "1e-06"), .high = 1.0, .positive = true},
    {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
    {HF_INT("q_lora_rank", net.latent.q_rank, "1536"), .derive = no_q_rank, .null_if_derived = true},
    {HF_INT("kv_lora_rank", net.latent.kv_rank, "512")},
    {HF_INT("qk_nope_head_dim", net.latent.own_dim, "128")},
    {HF_INT("qk_rope_head_dim", net.latent.rope_dim, "64")},
    {HF_INT("v_head_dim", net.latent.value_dim, "128")},
    {HF_ACTIVATION("hidden_act", net.activation, "\"silu\"")},
    {HF_BOOL("attention_bias", net.no_qkv_bias, "false"), .negated = true},
    {HF_BOOL("rope_interleave", net.rope.interleaved, "true")},
    {HF_BOOL("tie_word_embeddings", net.untied, "false"), .negated = true},
    {HF_INT("n_routed_experts", net.experts.count, "256"), .alias = "num_local_experts"},
    {HF_INT("num_experts_per_tok", net.experts.choices, "8")},
    {HF_INT("moe_intermediate_size", net.experts.hidden, "2048")},
    {HF_INT("n_group", net.experts.groups, "8")},
    {HF_INT("topk_group", net.experts.chosen_groups, "4")},
    {HF_BOOL("norm_topk_prob", net.experts.normalized, "true")},
    {HF_FLOAT("routed_scaling_factor", net.experts.scale, "2.5"), .high = 1e6, .positive = true},
    {HF_FIXED("output_router_logits", "false")},
    {HF_FIXED("scoring_func", "\"sigmoid\"")},
    {HF_FIXED("topk_method", "\"noaux_tc\"")},
    {HF_FIXED("moe_layer_freq", "1")},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"DeepseekV3ForCausalLM", "DeepseekV3Model", NULL};
/* The last: a layer that predicts one more token, which transformers leaves out too. */
static const char *const ignored[] = {"*.rotary_emb.inv_freq", "model.layers.61.*", NULL};

static const mega_family_names names = {HF_LLAMA_NAMES,
                                        HF_LLAMA_EXPERTS,
                                        HF_LLAMA_SHARED("mlp.shared_experts"),
                                        HF_CHOICE_BIAS,
                                        .q_down = "self_attn.q_a_proj",
                                        .q_latent_norm = "self_attn.q_a_layernorm",
                                        .q_up = "self_attn.q_b_proj",
                                        .kv_down = "self_attn.kv_a_proj_with_mqa",
                                        .kv_latent_norm = "self_attn.kv_a_layernorm",
                                        .kv_up = "self_attn.kv_b_proj"};

/* A key that says what others say already, or is missing. */
static void same_as_others(hf_reader *r, const char *key, int64_t value)
{
    char expected[64];
    if (hf_take_int(r, key, value) == value) return;
    snprintf(expected, sizeof expected, "%lld, or no such key", (long long)value);
    hf_refuse(r, key, json_object_get(r->json, key), expected);
}

/* YaRN with mscale_all_dim also makes scores larger. */
static double scale_of_scores(const mega_rope_settings *rope, int64_t head_dim)
{
    const double m = rope->scaling == MEGA_ROPE_YARN && rope->mscale_all_dim > 0.0 && rope->factor > 1.0
                         ? 0.1 * rope->mscale_all_dim * log(rope->factor) + 1.0
                         : 1.0;
    return m == 1.0 ? 0.0 : m * m / sqrt((double)head_dim);
}

static void deepseek_v3_finish(hf_reader *r, mega_model_shape *s)
{
    mega_experts_shape *e = &s->net.experts;
    const mega_latent_shape *l = &s->net.latent;
    char expected[96];
    s->net.no_out_bias = s->net.no_qkv_bias;
    s->net.head_dim = l->own_dim + l->rope_dim;
    s->net.attention_scale = scale_of_scores(&s->net.rope, s->net.head_dim);
    same_as_others(r, "num_key_value_heads", s->heads);
    same_as_others(r, "head_dim", l->rope_dim);
    same_as_others(r, "qk_head_dim", s->net.head_dim);
    if (l->value_dim > s->net.head_dim) {
        snprintf(expected, sizeof expected, "at most %lld, qk_nope_head_dim + qk_rope_head_dim",
                 (long long)s->net.head_dim);
        hf_refuse(r, "v_head_dim", json_object_get(r->json, "v_head_dim"), expected);
    }
    e->shared = hf_take_int(r, "n_shared_experts", 1) * e->hidden;
    /* layers that predict more tokens: no part of the model, and not saved */
    hf_take_whole(r, "num_nextn_predict_layers", 0);
    hf_take_whole(r, "num_mtp_layers", 0);
    /* of their training and of their ranks; transformers does not read them */
    hf_take(r, "aux_loss_alpha"), hf_take(r, "seq_aux"), hf_take(r, "ep_size");
    hf_take_first_dense(r, s, 3);
    hf_check_groups(r, s, "n_group", "topk_group");
    hf_check_choices(r, s, "num_experts_per_tok");
}

static void deepseek_v3_write(const mega_model_shape *s, void *user, hf_put *put)
{
    const mega_experts_shape *e = &s->net.experts;
    hf_put_int(user, put, "num_key_value_heads", s->heads);
    hf_put_int(user, put, "n_shared_experts", e->hidden > 0 ? e->shared / e->hidden : 0);
    hf_put_int(user, put, "num_nextn_predict_layers", 0);
    hf_put_first_dense(s, user, put);
}

MEGA_FAMILY(67, deepseek_v3) = {
    HF_TABLES("deepseek_v3"),
    .net = {HF_LLAMA_NET, .no_mlp_bias = true,
            .experts = {.score = MEGA_ROUTE_SIGMOID, .choice_bias = true, .group_best = 2, .epsilon = 1e-20}},
    .rope_keys = " ",
    .theta = 10000.0,
    .finish = deepseek_v3_finish,
    .write = deepseek_v3_write};
