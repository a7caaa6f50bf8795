/* Qwen3 with experts (Yang et al. 2025). */
#include "hf_impl.h"

static const mega_family_key rows[] = {{HF_INT("vocab_size", vocab, "151936")},
                                       {HF_INT("hidden_size", hidden, "2048")},
                                       {HF_INT("intermediate_size", ffn_hidden, "6144")},
                                       {HF_INT("num_hidden_layers", num_layers, "24")},
                                       {HF_INT("num_attention_heads", heads, "32")},
                                       {HF_INT("max_position_embeddings", positions, "32768")},
                                       {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
                                       {HF_FLOAT("rms_norm_eps", norm_epsilon, "1e-06"), .high = 1.0, .positive = true},
                                       {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
                                       {HF_INT("num_key_value_heads", net.kv_heads, "4"), .derive = hf_derive_kv_heads},
                                       {HF_INT("head_dim", net.head_dim, "null"), .derive = hf_derive_head_dim},
                                       {HF_ACTIVATION("hidden_act", net.activation, "\"silu\"")},
                                       {HF_BOOL("attention_bias", net.no_qkv_bias, "false"), .negated = true},
                                       {HF_BOOL("tie_word_embeddings", net.untied, "false"), .negated = true},
                                       {HF_INT("num_experts", net.experts.count, "128"), .alias = "num_local_experts"},
                                       {HF_INT("num_experts_per_tok", net.experts.choices, "8")},
                                       {HF_INT("moe_intermediate_size", net.experts.hidden, "768")},
                                       {HF_BOOL("norm_topk_prob", net.experts.normalized, "false")},
                                       {HF_FLOAT("router_aux_loss_coef", net.experts.balance, "0.001"), .high = 1e6},
                                       {HF_FIXED("output_router_logits", "false")},
                                       {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"Qwen3MoeForCausalLM", "Qwen3MoeModel", NULL};
static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {HF_LLAMA_NAMES, HF_HEAD_NORMS, HF_LLAMA_EXPERTS};

/* All layers have the window, or none. */
static void qwen3_moe_finish(hf_reader *r, mega_model_shape *s)
{
    const bool is_used = hf_take_bool(r, "use_sliding_window", false);
    hf_take_window(r, s, 4096);
    if (!is_used) s->net.has_window = false;
    s->net.no_out_bias = s->net.no_qkv_bias;
    hf_take_dense_layers(r, s);
    hf_check_choices(r, s, "num_experts_per_tok");
}

static void qwen3_moe_write_rest(const mega_model_shape *s, void *user, hf_put *put)
{
    put(user, "use_sliding_window", s->net.has_window ? "true" : "false");
    hf_put_window(s, user, put);
    hf_put_dense_layers(s, user, put);
}

MEGA_FAMILY(52, qwen3_moe) = {
    HF_TABLES("qwen3_moe"),     .net = {HF_LLAMA_NET, .no_mlp_bias = true, .query_norm = MEGA_QUERY_NORM_HEAD},
    .rope_keys = " ",           .theta = 10000.0,
    .finish = qwen3_moe_finish, .write = qwen3_moe_write_rest};
