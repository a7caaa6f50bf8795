/* OLMoE (Muennighoff et al. 2024): experts in every layer, and norms of all queries and keys. */
#include "hf_impl.h"

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "50304")},
    {HF_INT("hidden_size", hidden, "2048")},
    {HF_INT("intermediate_size", ffn_hidden, "2048")},
    {HF_INT("num_hidden_layers", num_layers, "16")},
    {HF_INT("num_attention_heads", heads, "16")},
    {HF_INT("max_position_embeddings", positions, "4096")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("rms_norm_eps", norm_epsilon, "1e-05"), .high = 1.0, .positive = true},
    {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
    {HF_INT("num_key_value_heads", net.kv_heads, "null"), .derive = hf_derive_kv_heads},
    {HF_ACTIVATION("hidden_act", net.activation, "\"silu\"")},
    {HF_BOOL("attention_bias", net.no_qkv_bias, "false"), .negated = true},
    {HF_BOOL("tie_word_embeddings", net.untied, "false"), .negated = true},
    {HF_INT("num_experts", net.experts.count, "64"), .alias = "num_local_experts"},
    {HF_INT("num_experts_per_tok", net.experts.choices, "8")},
    {HF_BOOL("norm_topk_prob", net.experts.normalized, "false")},
    {HF_FLOAT("router_aux_loss_coef", net.experts.balance, "0.01"), .high = 1e6},
    {HF_FIXED("output_router_logits", "false")},
    {HF_FIXED("clip_qkv", "null")},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"OlmoeForCausalLM", "OlmoeModel", NULL};
static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {HF_LLAMA_PATHS, HF_LLAMA_NORMS, HF_LLAMA_ATTENTION, HF_HEAD_NORMS,
                                        HF_LLAMA_EXPERTS};

static void olmoe_finish(hf_reader *r, mega_model_shape *s)
{
    s->net.no_out_bias = s->net.no_qkv_bias;
    s->net.experts.hidden = s->ffn_hidden;
    hf_check_choices(r, s, "num_experts_per_tok");
}

MEGA_FAMILY(102, olmoe) = {HF_TABLES("olmoe"),
                           .net = {HF_LLAMA_NET, .no_mlp_bias = true, .query_norm = MEGA_QUERY_NORM_ALL},
                           .rope_keys = " ", .theta = 10000.0, .finish = olmoe_finish};
