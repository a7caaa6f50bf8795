/* OLMo 2 (OLMo team 2024): norms of the outputs of both branches, and of all queries and keys. */
#include "hf_impl.h"

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "50304")},
    {HF_INT("hidden_size", hidden, "4096")},
    {HF_INT("intermediate_size", ffn_hidden, "11008")},
    {HF_INT("num_hidden_layers", num_layers, "32")},
    {HF_INT("num_attention_heads", heads, "32")},
    {HF_INT("max_position_embeddings", positions, "2048")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("rms_norm_eps", norm_epsilon, "1e-05"), .high = 1.0, .positive = true},
    {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
    {HF_INT("num_key_value_heads", net.kv_heads, "null"), .derive = hf_derive_kv_heads},
    {HF_INT("head_dim", net.head_dim, "null"), .derive = hf_derive_head_dim},
    {HF_ACTIVATION("hidden_act", net.activation, "\"silu\"")},
    {HF_BOOL("attention_bias", net.no_qkv_bias, "false"), .negated = true},
    {HF_BOOL("tie_word_embeddings", net.untied, "false"), .negated = true},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"Olmo2ForCausalLM", "Olmo2Model", NULL};
static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {HF_LLAMA_PATHS, HF_LLAMA_ATTENTION, HF_LLAMA_MLP, HF_AFTER_NORMS,
                                        HF_HEAD_NORMS};

static void olmo2_finish(hf_reader *r, mega_model_shape *s)
{
    (void)r;
    s->net.no_out_bias = s->net.no_qkv_bias;
}

MEGA_FAMILY(100, olmo2) = {
    HF_TABLES("olmo2"),
    .net = {HF_LLAMA_NET, .no_mlp_bias = true, .norm_place = MEGA_NORM_AFTER, .query_norm = MEGA_QUERY_NORM_ALL},
    .rope_keys = " ", .theta = 10000.0, .finish = olmo2_finish};
