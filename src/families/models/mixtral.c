/* Mixtral (Jiang et al. 2024): Mistral with experts. */
#include "hf_impl.h"

static const mega_family_key rows[] = {{HF_INT("vocab_size", vocab, "32000")},
                                       {HF_INT("hidden_size", hidden, "4096")},
                                       {HF_INT("intermediate_size", ffn_hidden, "14336")},
                                       {HF_INT("num_hidden_layers", num_layers, "32")},
                                       {HF_INT("num_attention_heads", heads, "32")},
                                       {HF_INT("max_position_embeddings", positions, "131072")},
                                       {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
                                       {HF_FLOAT("rms_norm_eps", norm_epsilon, "1e-05"), .high = 1.0, .positive = true},
                                       {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
                                       {HF_INT("num_key_value_heads", net.kv_heads, "8"), .derive = hf_derive_kv_heads},
                                       {HF_INT("head_dim", net.head_dim, "null"), .derive = hf_derive_head_dim},
                                       {HF_ACTIVATION("hidden_act", net.activation, "\"silu\"")},
                                       {HF_BOOL("tie_word_embeddings", net.untied, "false"), .negated = true},
                                       {HF_INT("num_local_experts", net.experts.count, "8"), .alias = "num_experts"},
                                       {HF_INT("num_experts_per_tok", net.experts.choices, "2")},
                                       {HF_FLOAT("router_aux_loss_coef", net.experts.balance, "0.001"), .high = 1e6},
                                       {HF_FIXED("output_router_logits", "false")},
                                       {HF_FLOAT("router_jitter_noise", net.experts.jitter, "0.0"), .high = 0.999},
                                       {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"MixtralForCausalLM", "MixtralModel", NULL};
static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {HF_LLAMA_PATHS,
                                        HF_LLAMA_NORMS,
                                        HF_LLAMA_ATTENTION,
                                        .router = "block_sparse_moe.gate",
                                        .expert_up = "block_sparse_moe.experts.#.w13",
                                        .expert_down = "block_sparse_moe.experts.#.w2",
                                        .expert_gate_file = "block_sparse_moe.experts.#.w1",
                                        .expert_up_file = "block_sparse_moe.experts.#.w3"};

static void mixtral_finish(hf_reader *r, mega_model_shape *s)
{
    hf_take_window(r, s, 0);
    s->net.experts.hidden = s->ffn_hidden;
    hf_check_choices(r, s, "num_experts_per_tok");
}

MEGA_FAMILY(32, mixtral) = {HF_TABLES("mixtral"),
                            .net = {HF_LLAMA_NET, .no_qkv_bias = true, .no_out_bias = true, .no_mlp_bias = true,
                                    .experts = {.normalized = true}},
                            .rope_keys = " ",
                            .theta = 1000000.0,
                            .finish = mixtral_finish,
                            .write = hf_put_window};
