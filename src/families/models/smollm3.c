/* SmolLM3: Llama, in which some layers are not rotated. */
#include "hf_impl.h"

static const mega_family_key rows[] = {{HF_INT("vocab_size", vocab, "128256")},
                                       {HF_INT("hidden_size", hidden, "2048")},
                                       {HF_INT("intermediate_size", ffn_hidden, "11008")},
                                       {HF_INT("num_hidden_layers", num_layers, "36")},
                                       {HF_INT("num_attention_heads", heads, "16")},
                                       {HF_INT("max_position_embeddings", positions, "32768")},
                                       {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
                                       {HF_FLOAT("rms_norm_eps", norm_epsilon, "1e-06"), .high = 1.0, .positive = true},
                                       {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
                                       {HF_INT("num_key_value_heads", net.kv_heads, "4"), .derive = hf_derive_kv_heads},
                                       {HF_INT("head_dim", net.head_dim, "null"), .derive = hf_derive_head_dim},
                                       {HF_ACTIVATION("hidden_act", net.activation, "\"silu\"")},
                                       {HF_BOOL("attention_bias", net.no_qkv_bias, "false"), .negated = true},
                                       {HF_BOOL("mlp_bias", net.no_mlp_bias, "false"), .negated = true},
                                       {HF_BOOL("tie_word_embeddings", net.untied, "true"), .negated = true},
                                       {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"SmolLM3ForCausalLM", "SmolLM3Model", NULL};
static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {HF_LLAMA_NAMES};

/* Without a list, the layers that are not rotated have the window. */
static bool smollm3_has_window(const mega_model_shape *s, int64_t layer)
{
    return s->net.has_window && mega_shape_bit(s->net.no_rope, layer);
}

static void smollm3_finish(hf_reader *r, mega_model_shape *s)
{
    const bool is_used = hf_take_bool(r, "use_sliding_window", false);
    hf_take_window(r, s, 0);
    if (!is_used) s->net.has_window = false;
    hf_take(r, "max_window_layers"); /* of Qwen, and never read */
    hf_take_no_rope(r, s, 4);
    hf_take_layer_types(r, s, smollm3_has_window);
    if (!s->net.has_window) hf_clear_windows(r, s);
    s->net.no_out_bias = s->net.no_qkv_bias;
}

static void smollm3_write_rest(const mega_model_shape *s, void *user, hf_put *put)
{
    put(user, "use_sliding_window", s->net.has_window ? "true" : "false");
    hf_put_window(s, user, put);
    hf_put_no_rope(s, user, put);
    hf_put_layer_types(s, user, put);
}

MEGA_FAMILY(60, smollm3) = {HF_TABLES("smollm3"), .net = {HF_LLAMA_NET},    .rope_keys = " ",
                            .theta = 2000000.0,   .finish = smollm3_finish, .write = smollm3_write_rest};
