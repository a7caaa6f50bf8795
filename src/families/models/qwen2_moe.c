/* Qwen1.5 and Qwen2 with experts (Yang et al. 2024): beside them an MLP, with a gate, that computes every token. */
#include "hf_impl.h"

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "151936")},
    {HF_INT("hidden_size", hidden, "2048")},
    {HF_INT("intermediate_size", ffn_hidden, "5632")},
    {HF_INT("num_hidden_layers", num_layers, "24")},
    {HF_INT("num_attention_heads", heads, "16")},
    {HF_INT("max_position_embeddings", positions, "32768")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("rms_norm_eps", norm_epsilon, "1e-06"), .high = 1.0, .positive = true},
    {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
    {HF_INT("num_key_value_heads", net.kv_heads, "16"), .derive = hf_derive_kv_heads},
    {HF_INT("head_dim", net.head_dim, "null"), .derive = hf_derive_head_dim},
    {HF_ACTIVATION("hidden_act", net.activation, "\"silu\"")},
    {HF_BOOL("qkv_bias", net.no_qkv_bias, "true"), .negated = true},
    {HF_BOOL("tie_word_embeddings", net.untied, "false"), .negated = true},
    {HF_INT("num_experts", net.experts.count, "60"), .alias = "num_local_experts"},
    {HF_INT("num_experts_per_tok", net.experts.choices, "4")},
    {HF_INT("moe_intermediate_size", net.experts.hidden, "1408")},
    {HF_INT("shared_expert_intermediate_size", net.experts.shared, "5632")},
    {HF_BOOL("norm_topk_prob", net.experts.normalized, "false")},
    {HF_FLOAT("router_aux_loss_coef", net.experts.balance, "0.001"), .high = 1e6},
    {HF_FIXED("output_router_logits", "false")},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"Qwen2MoeForCausalLM", "Qwen2MoeModel", NULL};
static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {HF_LLAMA_NAMES, HF_LLAMA_EXPERTS, HF_LLAMA_SHARED("mlp.shared_expert"),
                                        .shared_router = "mlp.shared_expert_gate"};

/* Without a list, every other layer before max_window_layers has the window, from the first on. */
static bool qwen2_moe_has_window(const mega_model_shape *s, int64_t layer)
{
    return s->net.has_window && layer % 2 == 0 && layer < s->net.first_full;
}

static void qwen2_moe_finish(hf_reader *r, mega_model_shape *s)
{
    const bool is_used = hf_take_bool(r, "use_sliding_window", false);
    if (is_used) hf_take_window(r, s, 4096);
    else
        hf_take_whole(r, "sliding_window", 0); /* transformers 5 writes 0 then */
    s->net.first_full = hf_take_whole(r, "max_window_layers", 28);
    hf_take_layer_types(r, s, qwen2_moe_has_window);
    if (!s->net.has_window) hf_clear_windows(r, s);
    hf_take_dense_layers(r, s);
    hf_check_choices(r, s, "num_experts_per_tok");
}

static void qwen2_moe_write_rest(const mega_model_shape *s, void *user, hf_put *put)
{
    put(user, "use_sliding_window", s->net.has_window ? "true" : "false");
    hf_put_window(s, user, put);
    hf_put_int(user, put, "max_window_layers", s->net.first_full);
    hf_put_layer_types(s, user, put);
    hf_put_dense_layers(s, user, put);
}

MEGA_FAMILY(42, qwen2_moe) = {
    HF_TABLES("qwen2_moe"),
    .net = {HF_LLAMA_NET, .no_out_bias = true, .no_mlp_bias = true, .experts = {.shared_gate = true}},
    .rope_keys = " ",
    .theta = 10000.0,
    .finish = qwen2_moe_finish,
    .write = qwen2_moe_write_rest};
