/* Granite 3 with experts (Granite team 2024): factors of the embedding, scores, branches and logits; the weights of all
 * experts of a layer are one tensor. */
#include "hf_impl.h"

const mega_family_key hf_granitemoe_rows[] = {
    {HF_INT("vocab_size", vocab, "32000")},
    {HF_INT("hidden_size", hidden, "4096")},
    {HF_INT("intermediate_size", ffn_hidden, "11008")},
    {HF_INT("num_hidden_layers", num_layers, "32")},
    {HF_INT("num_attention_heads", heads, "32")},
    {HF_INT("max_position_embeddings", positions, "2048")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("rms_norm_eps", norm_epsilon, "1e-06"), .high = 1.0, .positive = true},
    {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
    {HF_FLOAT("embedding_multiplier", net.embedding_scale, "1.0"), .high = 1e6, .positive = true},
    {HF_FLOAT("residual_multiplier", net.residual_scale, "1.0"), .high = 1e6, .positive = true},
    {HF_FLOAT("attention_multiplier", net.attention_scale, "1.0"), .high = 1e6, .positive = true},
    {HF_INT("num_key_value_heads", net.kv_heads, "null"), .derive = hf_derive_kv_heads},
    {HF_INT("head_dim", net.head_dim, "null"), .derive = hf_derive_head_dim},
    {HF_ACTIVATION("hidden_act", net.activation, "\"silu\"")},
    {HF_BOOL("attention_bias", net.no_qkv_bias, "false"), .negated = true},
    {HF_BOOL("tie_word_embeddings", net.untied, "false"), .negated = true},
    {HF_INT("num_local_experts", net.experts.count, "8"), .alias = "num_experts"},
    {HF_INT("num_experts_per_tok", net.experts.choices, "2")},
    {HF_FLOAT("router_aux_loss_coef", net.experts.balance, "0.001"), .high = 1e6},
    {HF_FIXED("output_router_logits", "false")},
    {.key = NULL}};
static const mega_family_key *const keys[] = {hf_granitemoe_rows, NULL};
static const char *const architecture[] = {"GraniteMoeForCausalLM", "GraniteMoeModel", NULL};
static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {HF_GRANITEMOE_NAMES};

void hf_granitemoe_finish(hf_reader *r, mega_model_shape *s)
{
    const double divisor = hf_take_positive(r, "logits_scaling", 1.0);
    s->net.logit_scale = divisor == 1.0 ? 0.0 : 1.0 / divisor;
    s->net.no_out_bias = s->net.no_qkv_bias;
    s->net.experts.hidden = s->ffn_hidden;
    hf_check_choices(r, s, "num_experts_per_tok");
}

void hf_granitemoe_write(const mega_model_shape *s, void *user, hf_put *put)
{
    const double factor = s->net.logit_scale;
    hf_put_whole_or_float(user, put, "logits_scaling", factor == 0.0 ? 1.0 : 1.0 / factor);
}

MEGA_FAMILY(56, granitemoe) = {HF_TABLES("granitemoe"), .net = {HF_GRANITEMOE_NET},     .rope_keys = " ",
                               .theta = 10000.0,        .finish = hf_granitemoe_finish, .write = hf_granitemoe_write};
