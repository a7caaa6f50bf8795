/* Gemma 2 (Riviere et al. 2024): norms on both sides, capped scores and logits, a window in every other layer. */
#include "hf_impl.h"
#include <math.h>

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "256000")},
    {HF_INT("hidden_size", hidden, "2304")},
    {HF_INT("intermediate_size", ffn_hidden, "9216")},
    {HF_INT("num_hidden_layers", num_layers, "26")},
    {HF_INT("num_attention_heads", heads, "8")},
    {HF_INT("max_position_embeddings", positions, "8192")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("rms_norm_eps", norm_epsilon, "1e-06"), .high = 1.0, .positive = true},
    {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
    {HF_INT("num_key_value_heads", net.kv_heads, "4"), .derive = hf_derive_kv_heads},
    {HF_INT("head_dim", net.head_dim, "256"), .derive = hf_derive_head_dim},
    {HF_ACTIVATION("hidden_activation", net.activation, "\"gelu_pytorch_tanh\"")},
    {HF_BOOL("attention_bias", net.no_qkv_bias, "false"), .negated = true},
    {HF_BOOL("tie_word_embeddings", net.untied, "true"), .negated = true},
    {HF_FLOAT("final_logit_softcapping", net.logit_softcap, "30.0"), .high = 1e6, .is_zero = true, .positive = true},
    {HF_FLOAT("attn_logit_softcapping", net.attention_softcap, "50.0"), .high = 1e6, .is_zero = true, .positive = true},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"Gemma2ForCausalLM", "Gemma2Model", NULL};
static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {
    HF_LLAMA_PATHS, HF_LLAMA_ATTENTION,          HF_LLAMA_MLP,
    HF_AFTER_NORMS, .norm_1 = "input_layernorm", .norm_2 = "pre_feedforward_layernorm"};

static bool gemma2_has_window(const mega_model_shape *s, int64_t layer)
{
    return s->net.has_window && layer % 2 == 0;
}

static void gemma2_finish(hf_reader *r, mega_model_shape *s)
{
    const json_t *both = hf_take(r, "use_bidirectional_attention");
    if (json_is_true(both)) hf_refuse(r, "use_bidirectional_attention", both, "false");
    s->net.embedding_scale = (double)sqrtf((float)s->hidden); /* a float32 there */
    s->net.no_out_bias = s->net.no_qkv_bias;
    s->net.attention_scale = 1.0 / sqrt(hf_take_positive(r, "query_pre_attn_scalar", 256.0));
    hf_take_window(r, s, 4096);
    hf_take(r, "sliding_window_size"); /* sliding_window counts */
    hf_take(r, "hidden_act");          /* of early folders; hidden_activation counts */
    hf_take_layer_types(r, s, gemma2_has_window);
    if (!s->net.has_window) hf_clear_windows(r, s);
}

static void gemma2_write_rest(const mega_model_shape *s, void *user, hf_put *put)
{
    const double scalar =
        s->net.attention_scale > 0.0 ? 1.0 / (s->net.attention_scale * s->net.attention_scale) : 256.0;
    hf_put_whole_or_float(user, put, "query_pre_attn_scalar", scalar);
    hf_put_window(s, user, put);
    hf_put_layer_types(s, user, put);
}

MEGA_FAMILY(80, gemma2) = {
    HF_TABLES("gemma2"),
    .net = {HF_LLAMA_NET, .norm_plus_one = true, .no_mlp_bias = true, .norm_place = MEGA_NORM_BOTH},
    .rope_keys = " ",
    .theta = 10000.0,
    .finish = gemma2_finish,
    .write = gemma2_write_rest,
};
