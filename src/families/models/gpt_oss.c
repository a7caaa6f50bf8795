/* gpt-oss (OpenAI 2025): attention with sinks and a window in every other layer, experts with biases and cut gates,
 * whose weights are one tensor of a layer. */
#include "hf_impl.h"

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "201088")},
    {HF_INT("hidden_size", hidden, "2880")},
    {HF_INT("intermediate_size", ffn_hidden, "2880")},
    {HF_INT("num_hidden_layers", num_layers, "36")},
    {HF_INT("num_attention_heads", heads, "64")},
    {HF_INT("max_position_embeddings", positions, "131072")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("rms_norm_eps", norm_epsilon, "1e-05"), .high = 1.0, .positive = true},
    {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
    {HF_INT("num_key_value_heads", net.kv_heads, "8"), .derive = hf_derive_kv_heads},
    {HF_INT("head_dim", net.head_dim, "64"), .derive = hf_derive_head_dim},
    {HF_FIXED("hidden_act", "\"silu\""), .is_written = true},
    {HF_BOOL("attention_bias", net.no_qkv_bias, "true"), .negated = true},
    {HF_BOOL("tie_word_embeddings", net.untied, "false"), .negated = true},
    {HF_INT("num_local_experts", net.experts.count, "128"), .alias = "num_experts"},
    {HF_INT("num_experts_per_tok", net.experts.choices, "4")},
    {HF_FLOAT("swiglu_alpha", net.experts.gate_alpha, "1.702"), .high = 1e6, .positive = true},
    {HF_FLOAT("swiglu_limit", net.experts.gate_limit, "7.0"), .high = 1e6, .positive = true},
    {HF_FLOAT("router_aux_loss_coef", net.experts.balance, "0.001"), .high = 1e6},
    {HF_FIXED("output_router_logits", "false")},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"GptOssForCausalLM", "GptOssModel", NULL};
static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {HF_LLAMA_PATHS,
                                        HF_LLAMA_NORMS,
                                        HF_LLAMA_ATTENTION,
                                        .sinks = "self_attn.sinks",
                                        .router = "mlp.router",
                                        .expert_up = "mlp.experts.#.gate_up_proj",
                                        .expert_down = "mlp.experts.#.down_proj",
                                        .expert_up_stack = "mlp.experts.gate_up_proj",
                                        .expert_down_stack = "mlp.experts.down_proj",
                                        .turned_stacks = true};

/* Without a list, every other layer has the window, from the first on. */
static bool gpt_oss_has_window(const mega_model_shape *s, int64_t layer)
{
    return s->net.has_window && layer % 2 == 0;
}

static void gpt_oss_finish(hf_reader *r, mega_model_shape *s)
{
    hf_take_window(r, s, 128);
    hf_take_layer_types(r, s, gpt_oss_has_window);
    if (!s->net.has_window) hf_clear_windows(r, s);
    s->net.no_out_bias = s->net.no_qkv_bias;
    s->net.activation = MEGA_ACT_SILU;
    s->net.experts.hidden = s->ffn_hidden;
    hf_check_choices(r, s, "num_experts_per_tok");
}

static void gpt_oss_write(const mega_model_shape *s, void *user, hf_put *put)
{
    hf_put_window(s, user, put);
    hf_put_layer_types(s, user, put);
}

MEGA_FAMILY(59, gpt_oss) = {HF_TABLES("gpt_oss"),
                            .net = {HF_LLAMA_NET, .sinks = true, .no_mlp_bias = true,
                                    .experts = {.score = MEGA_ROUTE_SOFTMAX_OF_CHOSEN, .has_biases = true}},
                            .rope_keys = " ",
                            .theta = 150000.0,
                            .is_yarn = true,
                            .finish = gpt_oss_finish,
                            .write = gpt_oss_write};
