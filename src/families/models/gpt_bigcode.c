/* GPT-BigCode: SantaCoder and StarCoder (Li et al. 2023), GPT-2 with one head of keys and values. */
#include "hf_impl.h"

static const mega_family_key rows[] = {
    {HF_INT("n_layer", num_layers, "12"), .alias = "num_hidden_layers"},
    {HF_INT("n_embd", hidden, "768"), .alias = "hidden_size"},
    {HF_INT("n_head", heads, "12"), .alias = "num_attention_heads"},
    {HF_INT("n_positions", positions, "1024"), .alias = "max_position_embeddings"},
    {HF_INT("vocab_size", vocab, "50257")},
    {HF_INT("n_inner", ffn_hidden, "null"), .derive = hf_derive_ffn},
    {HF_FLOAT("layer_norm_epsilon", norm_epsilon, "1e-05"), .high = 1.0, .positive = true},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("attn_pdrop", attention_dropout, "0.1"), .high = 1.0},
    {HF_FLOAT("resid_pdrop", hidden_dropout, "0.1"), .high = 1.0},
    {HF_ACTIVATION("activation_function", net.activation, "\"gelu_pytorch_tanh\"")},
    {HF_FIXED("scale_attn_weights", "true"), .is_written = true},
    {HF_FIXED("add_cross_attention", "false"), .is_written = true},
    {HF_BOOL("tie_word_embeddings", net.untied, "true"), .negated = true},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"GPTBigCodeForCausalLM", "GPTBigCodeModel", NULL};
static const char *const ignored[] = {"*.attn.bias", "*.attn.masked_bias", NULL};

static const mega_family_names names = {.root = "transformer",
                                        .block = "transformer.h.%d",
                                        .end = "",
                                        .tokens = "wte",
                                        .positions = "wpe",
                                        .final_norm = "transformer.ln_f",
                                        .head = "lm_head",
                                        .tied = "transformer.wte",
                                        .norm_1 = "ln_1",
                                        .norm_2 = "ln_2",
                                        .attention = "attn",
                                        .qkv = "c_attn",
                                        .qkv_order = MEGA_QKV_EITHER,
                                        .out = "c_proj",
                                        .up = "mlp.c_fc",
                                        .down = "mlp.c_proj"};

static void gpt_bigcode_finish(hf_reader *r, mega_model_shape *s)
{
    static const char *const unused[] = {"n_ctx",
                                         "num_key_value_heads",
                                         "summary_type",
                                         "summary_use_proj",
                                         "summary_activation",
                                         "summary_proj_to_labels",
                                         "summary_first_dropout",
                                         "scale_attn_by_inverse_layer_idx",
                                         "reorder_and_upcast_attn",
                                         "attention_softmax_in_fp32",
                                         "inference_runner",
                                         "pre_allocate_kv_cache",
                                         "max_sequence_length",
                                         "max_batch_size",
                                         "pad_key_length",
                                         "validate_runner_input"};
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++) hf_take(r, unused[i]);
    hf_take_float(r, "embd_pdrop", 0.1); /* ours is that of the branches */
    if (hf_take_bool(r, "multi_query", true)) s->net.kv_heads = 1;
}

static void gpt_bigcode_write_rest(const mega_model_shape *s, void *user, hf_put *put)
{
    mega_buffer b = {0};
    mega_buffer_json_double(&b, s->hidden_dropout);
    hf_put_text(user, put, "embd_pdrop", &b);
    put(user, "multi_query", s->net.kv_heads == 1 ? "true" : "false");
}

MEGA_FAMILY(170, gpt_bigcode) = {HF_TABLES("gpt_bigcode"), .net = {.positions = MEGA_POSITIONS_TABLE}, .rope_keys = " ",
                                 .finish = gpt_bigcode_finish, .write = gpt_bigcode_write_rest};
