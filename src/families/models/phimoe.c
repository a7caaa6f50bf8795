/* Phi-3.5-MoE (Abdin et al. 2024): layer norms with biases, and experts whose weights are shares of softmaxes over the
 * logits near the chosen one (SparseMixer, Liu et al. 2024). Training makes the choices that evaluation makes:
 * transformers draws them, and we do not. */
#include "hf_impl.h"

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "32064")},
    {HF_INT("hidden_size", hidden, "4096")},
    {HF_INT("intermediate_size", ffn_hidden, "6400")},
    {HF_INT("num_hidden_layers", num_layers, "32")},
    {HF_INT("num_attention_heads", heads, "32")},
    {HF_INT("max_position_embeddings", positions, "131072")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("rms_norm_eps", norm_epsilon, "1e-05"), .high = 1.0, .positive = true}, /* of layer norms */
    {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
    {HF_FIXED("hidden_dropout", "0.0")},
    {HF_INT("num_key_value_heads", net.kv_heads, "8"), .derive = hf_derive_kv_heads},
    {HF_INT("head_dim", net.head_dim, "null"), .derive = hf_derive_head_dim},
    {HF_ACTIVATION("hidden_act", net.activation, "\"silu\"")},
    {HF_BOOL("attention_bias", net.no_qkv_bias, "false"), .negated = true},
    {HF_BOOL("lm_head_bias", net.head_bias, "false")},
    {HF_BOOL("tie_word_embeddings", net.untied, "false"), .negated = true},
    {HF_INT("num_local_experts", net.experts.count, "16"), .alias = "num_experts"},
    {HF_FIXED("num_experts_per_tok", "2"), .is_written = true},
    {HF_FLOAT("router_aux_loss_coef", net.experts.balance, "0.001"), .high = 1e6},
    {HF_FIXED("output_router_logits", "false")},
    {HF_FLOAT("router_jitter_noise", net.experts.margin, "0.01"), .high = 1e6},
    {HF_FLOAT("input_jitter_noise", net.experts.jitter, "0.0"), .high = 0.999},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"PhimoeForCausalLM", "PhiMoEForCausalLM", "PhimoeModel", NULL};
static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {HF_LLAMA_PATHS,
                                        HF_LLAMA_NORMS,
                                        HF_LLAMA_ATTENTION,
                                        .router = "block_sparse_moe.gate",
                                        .expert_up = "block_sparse_moe.experts.#.w13",
                                        .expert_down = "block_sparse_moe.experts.#.w2",
                                        .expert_gate_file = "block_sparse_moe.experts.#.w1",
                                        .expert_up_file = "block_sparse_moe.experts.#.w3"};

static void phimoe_finish(hf_reader *r, mega_model_shape *s)
{
    const char *key = json_object_get(r->json, "rope_parameters") != NULL ? "rope_parameters" : "rope_scaling";
    const mega_rope_scaling scaling = s->net.rope.scaling;
    hf_take_window(r, s, 0);
    s->net.no_out_bias = s->net.no_qkv_bias;
    s->net.experts.hidden = s->ffn_hidden;
    hf_check_choices(r, s, "num_experts_per_tok");
    if (scaling != MEGA_ROPE_NONE && scaling != MEGA_ROPE_LONGROPE)
        hf_refuse(r, key, json_object_get(r->json, key), "rope_type default or longrope with model_type phimoe");
}

MEGA_FAMILY(115, phimoe) = {HF_TABLES("phimoe"),
                            .net = {.positions = MEGA_POSITIONS_ROPE,
                                    .gated = true,
                                    .no_mlp_bias = true,
                                    .experts = {.score = MEGA_ROUTE_SOFTMAX_OF_NEAR, .choices = 2}},
                            .rope_keys = " original_max_position_embeddings ",
                            .theta = 1000000.0,
                            .has_mscales = true,
                            .finish = phimoe_finish,
                            .write = hf_put_window};
