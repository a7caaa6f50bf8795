/* GLM-4.5 (GLM team 2025): scores by a sigmoid, a bias of the choice, an MLP beside the experts, dense first layers,
 * and rotation of a part of each head. */
#include "hf_impl.h"

#include <stdio.h>

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "151552")},
    {HF_INT("hidden_size", hidden, "4096")},
    {HF_INT("intermediate_size", ffn_hidden, "10944")},
    {HF_INT("num_hidden_layers", num_layers, "46")},
    {HF_INT("num_attention_heads", heads, "96")},
    {HF_INT("max_position_embeddings", positions, "131072")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("rms_norm_eps", norm_epsilon, "1e-05"), .high = 1.0, .positive = true},
    {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
    {HF_INT("num_key_value_heads", net.kv_heads, "8"), .derive = hf_derive_kv_heads},
    {HF_INT("head_dim", net.head_dim, "null"), .derive = hf_derive_head_dim},
    {HF_ACTIVATION("hidden_act", net.activation, "\"silu\"")},
    {HF_BOOL("attention_bias", net.no_qkv_bias, "false"), .negated = true},
    {HF_BOOL("tie_word_embeddings", net.untied, "false"), .negated = true},
    {HF_INT("n_routed_experts", net.experts.count, "128"), .alias = "num_local_experts"},
    {HF_INT("num_experts_per_tok", net.experts.choices, "8")},
    {HF_INT("moe_intermediate_size", net.experts.hidden, "1408")},
    {HF_INT("n_group", net.experts.groups, "1")},
    {HF_INT("topk_group", net.experts.chosen_groups, "1")},
    {HF_BOOL("norm_topk_prob", net.experts.normalized, "true")},
    {HF_FLOAT("routed_scaling_factor", net.experts.scale, "1.0"), .high = 1e6, .positive = true},
    {HF_FIXED("output_router_logits", "false")},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"Glm4MoeForCausalLM", "Glm4MoeModel", NULL};
/* The last two: layers that predict more tokens, of the two published sizes, which transformers leaves out too. */
static const char *const ignored[] = {"*.rotary_emb.inv_freq", "model.layers.46.*", "model.layers.92.*", NULL};

static const mega_family_names names = {HF_LLAMA_NAMES, HF_HEAD_NORMS, HF_LLAMA_EXPERTS,
                                        HF_LLAMA_SHARED("mlp.shared_experts"), HF_CHOICE_BIAS};

static void glm4_moe_finish(hf_reader *r, mega_model_shape *s)
{
    mega_experts_shape *e = &s->net.experts;
    if (hf_take_bool(r, "use_qk_norm", false)) s->net.query_norm = MEGA_QUERY_NORM_HEAD;
    e->shared = hf_take_int(r, "n_shared_experts", 1) * e->hidden;
    /* layers that predict more tokens: no part of the model, and not saved */
    hf_take_whole(r, "num_nextn_predict_layers", 0);
    hf_take_whole(r, "num_mtp_layers", 0);
    hf_take_first_dense(r, s, 1);
    hf_check_groups(r, s, "n_group", "topk_group");
    hf_check_choices(r, s, "num_experts_per_tok");
}

static void glm4_moe_write(const mega_model_shape *s, void *user, hf_put *put)
{
    const mega_experts_shape *e = &s->net.experts;
    put(user, "use_qk_norm", s->net.query_norm == MEGA_QUERY_NORM_HEAD ? "true" : "false");
    hf_put_int(user, put, "n_shared_experts", e->hidden > 0 ? e->shared / e->hidden : 0);
    hf_put_int(user, put, "num_nextn_predict_layers", 0);
    hf_put_first_dense(s, user, put);
}

MEGA_FAMILY(58, glm4_moe) = {
    HF_TABLES("glm4_moe"),
    .net = {HF_LLAMA_NET, .no_out_bias = true, .no_mlp_bias = true,
            .experts = {.score = MEGA_ROUTE_SIGMOID, .choice_bias = true, .group_best = 2, .epsilon = 1e-20}},
    .rope_keys = " partial_rotary_factor ",
    .theta = 10000.0,
    .fraction = 0.5,
    .finish = glm4_moe_finish,
    .write = glm4_moe_write};
