/* GPT-NeoX and Pythia (Black et al. 2022): rotation of a part of each head, parallel branches. */
#include "hf_impl.h"

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "50432")},
    {HF_INT("hidden_size", hidden, "6144")},
    {HF_INT("intermediate_size", ffn_hidden, "24576")},
    {HF_INT("num_hidden_layers", num_layers, "44")},
    {HF_INT("num_attention_heads", heads, "64")},
    {HF_INT("max_position_embeddings", positions, "2048")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("layer_norm_eps", norm_epsilon, "1e-05"), .high = 1.0, .positive = true},
    {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
    {HF_FLOAT("hidden_dropout", hidden_dropout, "0.0"), .high = 1.0},
    {HF_ACTIVATION("hidden_act", net.activation, "\"gelu\"")},
    {HF_BOOL("attention_bias", net.no_qkv_bias, "true"), .negated = true},
    {HF_BOOL("use_parallel_residual", net.parallel, "true")},
    {HF_BOOL("tie_word_embeddings", net.untied, "false"), .negated = true},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"GPTNeoXForCausalLM", "GPTNeoXModel", NULL};
static const char *const ignored[] = {"*.attention.bias", "*.attention.masked_bias", "*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {.root = "gpt_neox",
                                        .block = "gpt_neox.layers.%d",
                                        .end = "",
                                        .tokens = "embed_in",
                                        .final_norm = "gpt_neox.final_layer_norm",
                                        .head = "embed_out",
                                        .tied = "gpt_neox.embed_in",
                                        .norm_1 = "input_layernorm",
                                        .norm_2 = "post_attention_layernorm",
                                        .attention = "attention",
                                        .qkv = "query_key_value",
                                        .out = "dense",
                                        .qkv_order = MEGA_QKV_BY_HEAD,
                                        .up = "mlp.dense_h_to_4h",
                                        .down = "mlp.dense_4h_to_h"};

static void gpt_neox_finish(hf_reader *r, mega_model_shape *s)
{
    hf_take(r, "attention_probs_dropout_prob"); /* of early folders, and never read */
    hf_take(r, "hidden_dropout_prob");
    s->net.no_out_bias = s->net.no_qkv_bias;
}

MEGA_FAMILY(120, gpt_neox) = {HF_TABLES("gpt_neox"),
                              .net = {.positions = MEGA_POSITIONS_ROPE},
                              .rope_keys = " rotary_pct rotary_emb_base ",
                              .theta = 10000.0,
                              .fraction = 0.25,
                              .finish = gpt_neox_finish};
