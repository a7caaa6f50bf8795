/* Bloom (Scao et al. 2022): ALiBi, a norm of the embedding. */
#include "hf_impl.h"

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "250880")},
    {HF_INT("hidden_size", hidden, "64"), .alias = "n_embed"},
    {HF_INT("n_layer", num_layers, "2"), .alias = "num_hidden_layers"},
    {HF_INT("n_head", heads, "8"), .alias = "num_attention_heads"},
    {HF_INT("seq_length", positions, "2048")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("layer_norm_epsilon", norm_epsilon, "1e-05"), .high = 1.0, .positive = true},
    {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
    {HF_FLOAT("hidden_dropout", hidden_dropout, "0.0"), .high = 1.0},
    {HF_FIXED("apply_residual_connection_post_layernorm", "false"), .is_written = true},
    {HF_BOOL("tie_word_embeddings", net.untied, "true"), .negated = true},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"BloomForCausalLM", "BloomModel", NULL};
static const char *const ignored[] = {NULL};

static const mega_family_names names = {.root = "transformer",
                                        .block = "transformer.h.%d",
                                        .end = "",
                                        .tokens = "word_embeddings",
                                        .embedding_norm = "word_embeddings_layernorm",
                                        .final_norm = "transformer.ln_f",
                                        .head = "lm_head",
                                        .tied = "transformer.word_embeddings",
                                        .norm_1 = "input_layernorm",
                                        .norm_2 = "post_attention_layernorm",
                                        .attention = "self_attention",
                                        .qkv = "query_key_value",
                                        .out = "dense",
                                        .qkv_order = MEGA_QKV_BY_HEAD,
                                        .up = "mlp.dense_h_to_4h",
                                        .down = "mlp.dense_4h_to_h"};

static void bloom_finish(hf_reader *r, mega_model_shape *s)
{
    static const char *const unused[] = {
        "bias_dropout_fusion", "masked_softmax_fusion", "offset_alibi", "skip_bias_add",
        "skip_bias_add_qkv",   "unk_token_id",          "n_inner"};
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++) hf_take(r, unused[i]);
    s->ffn_hidden = 4 * s->hidden;
}

MEGA_FAMILY(150, bloom) = {HF_TABLES("bloom"), .net = {.positions = MEGA_POSITIONS_ALIBI, .embedding_norm = true},
                           .rope_keys = " ", .finish = bloom_finish};
