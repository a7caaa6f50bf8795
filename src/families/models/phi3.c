/* Phi-3 and Phi-4 (Abdin et al. 2024): Llama with Q, K and V in one tensor, and gate and up in another. */
#include "hf_impl.h"

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "32064")},
    {HF_INT("hidden_size", hidden, "3072")},
    {HF_INT("intermediate_size", ffn_hidden, "8192")},
    {HF_INT("num_hidden_layers", num_layers, "32")},
    {HF_INT("num_attention_heads", heads, "32")},
    {HF_INT("max_position_embeddings", positions, "4096")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("rms_norm_eps", norm_epsilon, "1e-05"), .high = 1.0, .positive = true},
    {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
    {HF_FLOAT("resid_pdrop", hidden_dropout, "0.0"), .high = 1.0},
    {HF_FIXED("embd_pdrop", "0.0"), .is_written = true},
    {HF_INT("num_key_value_heads", net.kv_heads, "null"), .derive = hf_derive_kv_heads},
    {HF_INT("head_dim", net.head_dim, "null"), .derive = hf_derive_head_dim},
    {HF_ACTIVATION("hidden_act", net.activation, "\"silu\"")},
    {HF_BOOL("tie_word_embeddings", net.untied, "false"), .negated = true},
    {HF_FIXED("attention_bias", "false")},
    {HF_FIXED("mlp_bias", "false")},
    {HF_FIXED("full_attn_mod", "1")},
    {HF_FIXED("interpolate_factor", "1")},
    {HF_FIXED("lm_head_bias", "false")},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"Phi3ForCausalLM", "Phi3Model", NULL};
static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {HF_LLAMA_PATHS,           HF_LLAMA_NORMS,    HF_LLAMA_MLP_AS_ONE,
                                        .attention = "self_attn", .qkv = "qkv_proj", .out = "o_proj",
                                        .qkv_order = MEGA_QKV_ONE};

static void phi3_finish(hf_reader *r, mega_model_shape *s)
{
    const bool is_new = json_object_get(r->json, "rope_parameters") != NULL;
    const mega_rope_scaling scaling = s->net.rope.scaling;
    hf_take_window(r, s, 0);
    if (scaling == MEGA_ROPE_NONE || scaling == MEGA_ROPE_LONGROPE) return;
    const char *key = is_new ? "rope_parameters" : "rope_scaling";
    hf_refuse(r, key, json_object_get(r->json, key), "rope_type default or longrope, the only ones of model_type phi3");
}

MEGA_FAMILY(110, phi3) = {HF_TABLES("phi3"),
                          .net = {HF_LLAMA_NET, .no_qkv_bias = true, .no_out_bias = true, .no_mlp_bias = true},
                          .rope_keys = " partial_rotary_factor original_max_position_embeddings ",
                          .theta = 10000.0,
                          .finish = phi3_finish,
                          .write = hf_put_window};
