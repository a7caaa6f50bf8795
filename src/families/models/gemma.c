/* Gemma (Mesnard et al. 2024). */
#include "hf_impl.h"
#include <math.h>
#include <string.h>

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "256000")},
    {HF_INT("hidden_size", hidden, "3072")},
    {HF_INT("intermediate_size", ffn_hidden, "24576")},
    {HF_INT("num_hidden_layers", num_layers, "28")},
    {HF_INT("num_attention_heads", heads, "16")},
    {HF_INT("max_position_embeddings", positions, "8192")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("rms_norm_eps", norm_epsilon, "1e-06"), .high = 1.0, .positive = true},
    {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
    {HF_INT("num_key_value_heads", net.kv_heads, "16"), .derive = hf_derive_kv_heads},
    {HF_INT("head_dim", net.head_dim, "256"), .derive = hf_derive_head_dim},
    {HF_ACTIVATION("hidden_act", net.activation, "\"gelu_pytorch_tanh\"")},
    {HF_BOOL("attention_bias", net.no_qkv_bias, "false"), .negated = true},
    {HF_BOOL("tie_word_embeddings", net.untied, "true"), .negated = true},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"GemmaForCausalLM", "GemmaModel", NULL};
static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {HF_LLAMA_NAMES};

/* Early folders have hidden_act "gelu" by mistake: it means the approximation by tanh. */
static void take_activation(hf_reader *r, mega_model_shape *s)
{
    const json_t *v = hf_take(r, "hidden_activation");
    const json_t *old = hf_take(r, "hidden_act");
    if (json_is_string(v) && strcmp(json_string_value(v), "gelu_pytorch_tanh") != 0 && !json_equal(v, old))
        hf_refuse(r, "hidden_activation", v, "gelu_pytorch_tanh, or the value of hidden_act");
    if (s->net.activation == MEGA_ACT_GELU) s->net.activation = MEGA_ACT_GELU_TANH;
}

static void gemma_finish(hf_reader *r, mega_model_shape *s)
{
    const json_t *both = hf_take(r, "use_bidirectional_attention");
    if (json_is_true(both)) hf_refuse(r, "use_bidirectional_attention", both, "false");
    s->net.embedding_scale = (double)sqrtf((float)s->hidden); /* a float32 there */
    s->net.no_out_bias = s->net.no_qkv_bias;
    take_activation(r, s);
}

MEGA_FAMILY(70, gemma) = {HF_TABLES("gemma"), .net = {HF_LLAMA_NET, .norm_plus_one = true, .no_mlp_bias = true},
                          .rope_keys = " ", .theta = 10000.0, .finish = gemma_finish};
