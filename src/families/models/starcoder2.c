/* StarCoder2 (Lozhkov et al. 2024): layer norms with biases, rotation, grouped heads. */
#include "hf_impl.h"

static const mega_family_key rows[] = {{HF_INT("vocab_size", vocab, "49152")},
                                       {HF_INT("hidden_size", hidden, "3072")},
                                       {HF_INT("intermediate_size", ffn_hidden, "12288")},
                                       {HF_INT("num_hidden_layers", num_layers, "30")},
                                       {HF_INT("num_attention_heads", heads, "24")},
                                       {HF_INT("max_position_embeddings", positions, "4096")},
                                       {HF_FLOAT("initializer_range", init_std, "0.018042"), .high = HF_ANY_STD},
                                       {HF_FLOAT("norm_epsilon", norm_epsilon, "1e-05"), .high = 1.0, .positive = true},
                                       {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
                                       {HF_FLOAT("residual_dropout", hidden_dropout, "0.0"), .high = 1.0},
                                       {HF_INT("num_key_value_heads", net.kv_heads, "2"), .derive = hf_derive_kv_heads},
                                       {HF_INT("head_dim", net.head_dim, "null"), .derive = hf_derive_head_dim},
                                       {HF_ACTIVATION("hidden_act", net.activation, "\"gelu_pytorch_tanh\"")},
                                       {HF_BOOL("use_bias", net.no_qkv_bias, "true"), .negated = true},
                                       {HF_BOOL("tie_word_embeddings", net.untied, "true"), .negated = true},
                                       {HF_FIXED("mlp_type", "\"default\"")},
                                       {HF_FIXED("norm_type", "\"layer_norm\"")},
                                       {HF_FIXED("scale_attn_weights", "true")},
                                       {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"Starcoder2ForCausalLM", "Starcoder2Model", NULL};
static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {HF_LLAMA_PATHS, HF_LLAMA_NORMS, HF_LLAMA_ATTENTION, .up = "mlp.c_fc",
                                        .down = "mlp.c_proj"};

static void starcoder2_finish(hf_reader *r, mega_model_shape *s)
{
    hf_take(r, "activation_function"); /* hidden_act and norm_epsilon count */
    hf_take(r, "layer_norm_epsilon");
    hf_take_float(r, "embedding_dropout", 0.0); /* ours is that of the branches */
    hf_take_window(r, s, 0);
    s->net.no_out_bias = s->net.no_mlp_bias = s->net.no_qkv_bias;
}

static void starcoder2_write_rest(const mega_model_shape *s, void *user, hf_put *put)
{
    mega_buffer b = {0};
    mega_buffer_json_double(&b, s->hidden_dropout);
    hf_put_text(user, put, "embedding_dropout", &b);
    hf_put_window(s, user, put);
}

MEGA_FAMILY(140, starcoder2) = {HF_TABLES("starcoder2"),
                                .net = {.positions = MEGA_POSITIONS_ROPE},
                                .rope_keys = " ",
                                .theta = 10000.0,
                                .finish = starcoder2_finish,
                                .write = starcoder2_write_rest};
