/* Qwen2 and Qwen2.5 (Yang et al. 2024): Llama with biases of Q, K and V. */
#include "hf_impl.h"

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "151936")},
    {HF_INT("hidden_size", hidden, "4096")},
    {HF_INT("intermediate_size", ffn_hidden, "22016")},
    {HF_INT("num_hidden_layers", num_layers, "32")},
    {HF_INT("num_attention_heads", heads, "32")},
    {HF_INT("max_position_embeddings", positions, "32768")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("rms_norm_eps", norm_epsilon, "1e-06"), .high = 1.0, .positive = true},
    {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
    {HF_INT("num_key_value_heads", net.kv_heads, "32"), .derive = hf_derive_kv_heads},
    {HF_INT("head_dim", net.head_dim, "null"), .derive = hf_derive_head_dim},
    {HF_ACTIVATION("hidden_act", net.activation, "\"silu\"")},
    {HF_BOOL("tie_word_embeddings", net.untied, "false"), .negated = true},
    {HF_FIXED("use_mrope", "false")},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"Qwen2ForCausalLM", "Qwen2Model", NULL};
static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {HF_LLAMA_NAMES};

/* Without a list, layers from max_window_layers on have the window. */
static bool qwen2_has_window(const mega_model_shape *s, int64_t layer)
{
    return s->net.has_window && layer >= s->net.first_full;
}

static void qwen2_finish(hf_reader *r, mega_model_shape *s)
{
    const bool is_used = hf_take_bool(r, "use_sliding_window", false);
    hf_take_window(r, s, 4096);
    if (!is_used) s->net.has_window = false;
    s->net.first_full = hf_take_whole(r, "max_window_layers", 28);
    hf_take_layer_types(r, s, qwen2_has_window);
    if (!s->net.has_window) hf_clear_windows(r, s);
}

static void qwen2_write_rest(const mega_model_shape *s, void *user, hf_put *put)
{
    put(user, "use_sliding_window", s->net.has_window ? "true" : "false");
    hf_put_window(s, user, put);
    hf_put_int(user, put, "max_window_layers", s->net.first_full);
    hf_put_layer_types(s, user, put);
}

MEGA_FAMILY(40, qwen2) = {HF_TABLES("qwen2"),     .net = {HF_LLAMA_NET, .no_out_bias = true, .no_mlp_bias = true},
                          .rope_keys = " ",       .theta = 10000.0,
                          .finish = qwen2_finish, .write = qwen2_write_rest};
