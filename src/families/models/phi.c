/* Phi 1, 1.5 and 2 (Gunasekar et al. 2023): rotation of a part of each head, both branches after one norm, a bias of
 * the head. */
#include "hf_impl.h"

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "51200")},
    {HF_INT("hidden_size", hidden, "2048")},
    {HF_INT("intermediate_size", ffn_hidden, "8192")},
    {HF_INT("num_hidden_layers", num_layers, "24")},
    {HF_INT("num_attention_heads", heads, "32")},
    {HF_INT("max_position_embeddings", positions, "2048")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("layer_norm_eps", norm_epsilon, "1e-05"), .high = 1.0, .positive = true},
    {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
    {HF_FLOAT("resid_pdrop", hidden_dropout, "0.0"), .high = 1.0},
    {HF_FIXED("embd_pdrop", "0.0"), .is_written = true},
    {HF_FIXED("qk_layernorm", "false"), .is_written = true},
    {HF_INT("num_key_value_heads", net.kv_heads, "null"), .derive = hf_derive_kv_heads},
    {HF_ACTIVATION("hidden_act", net.activation, "\"gelu_new\"")},
    {HF_BOOL("tie_word_embeddings", net.untied, "false"), .negated = true},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"PhiForCausalLM", "PhiModel", NULL};
static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {.root = "model",
                                        .block = "model.layers.%d",
                                        .end = "",
                                        .tokens = "embed_tokens",
                                        .final_norm = "model.final_layernorm",
                                        .head = "lm_head",
                                        .tied = "model.embed_tokens",
                                        .norm_1 = "input_layernorm",
                                        .attention = "self_attn",
                                        .qkv = "qkv_proj",
                                        .out = "dense",
                                        .qkv_order = MEGA_QKV_THREE,
                                        .q = "self_attn.q_proj",
                                        .k = "self_attn.k_proj",
                                        .v = "self_attn.v_proj",
                                        .up = "mlp.fc1",
                                        .down = "mlp.fc2"};

MEGA_FAMILY(130, phi) = {
    HF_TABLES("phi"),
    .net = {.positions = MEGA_POSITIONS_ROPE, .parallel = true, .shared_norm = true, .head_bias = true},
    .rope_keys = " partial_rotary_factor ",
    .theta = 10000.0,
    .fraction = 0.5,
};
