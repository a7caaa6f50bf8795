/* Mistral (Jiang et al. 2023): Llama with a window. */
#include "hf_impl.h"

static const mega_family_key rows[] = {{HF_INT("vocab_size", vocab, "32000")},
                                       {HF_INT("hidden_size", hidden, "4096")},
                                       {HF_INT("intermediate_size", ffn_hidden, "14336")},
                                       {HF_INT("num_hidden_layers", num_layers, "32")},
                                       {HF_INT("num_attention_heads", heads, "32")},
                                       {HF_INT("max_position_embeddings", positions, "131072")},
                                       {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
                                       {HF_FLOAT("rms_norm_eps", norm_epsilon, "1e-06"), .high = 1.0, .positive = true},
                                       {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
                                       {HF_INT("num_key_value_heads", net.kv_heads, "8"), .derive = hf_derive_kv_heads},
                                       {HF_INT("head_dim", net.head_dim, "null"), .derive = hf_derive_head_dim},
                                       {HF_ACTIVATION("hidden_act", net.activation, "\"silu\"")},
                                       {HF_BOOL("tie_word_embeddings", net.untied, "false"), .negated = true},
                                       {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"MistralForCausalLM", "MistralModel", NULL};
static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {HF_LLAMA_NAMES};

static void mistral_finish(hf_reader *r, mega_model_shape *s)
{
    hf_take_window(r, s, 4096);
}

MEGA_FAMILY(30, mistral) = {
    HF_TABLES("mistral"),     .net = {HF_LLAMA_NET, .no_qkv_bias = true, .no_out_bias = true, .no_mlp_bias = true},
    .rope_keys = " ",         .theta = 10000.0,
    .finish = mistral_finish, .write = hf_put_window};
