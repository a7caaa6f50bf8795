/* ModernBERT (Warner et al. 2024): an encoder with rotation, gates, norms before the branches, and windows in most
 * layers. */
#include "hf_impl.h"

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "50368")},
    {HF_INT("hidden_size", hidden, "768")},
    {HF_INT("intermediate_size", ffn_hidden, "1152")},
    {HF_INT("num_hidden_layers", num_layers, "22")},
    {HF_INT("num_attention_heads", heads, "12")},
    {HF_INT("max_position_embeddings", positions, "8192")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("norm_eps", norm_epsilon, "1e-05"), .high = 1.0, .positive = true},
    {HF_ACTIVATION("hidden_activation", net.activation, "\"gelu\"")},
    {HF_BOOL("norm_bias", net.norm_no_bias, "false"), .negated = true},
    {HF_BOOL("attention_bias", net.no_qkv_bias, "false"), .negated = true},
    {HF_BOOL("mlp_bias", net.no_mlp_bias, "false"), .negated = true},
    {HF_BOOL("decoder_bias", net.head_bias, "true")},
    {HF_BOOL("classifier_bias", net.transform_no_bias, "false"), .negated = true},
    {HF_ACTIVATION("classifier_activation", net.transform_activation, "\"gelu\"")},
    {HF_FIXED("attention_dropout", "0.0"), .is_written = true},
    {HF_FIXED("mlp_dropout", "0.0"), .is_written = true},
    {HF_FIXED("embedding_dropout", "0.0"), .is_written = true},
    {HF_FIXED("position_embedding_type", "\"absolute\"")}, /* older folders say so, and mean the rotation */
    {HF_FIXED("tie_word_embeddings", "true"), .is_written = true},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"ModernBertForMaskedLM", "ModernBertModel", NULL};
static const char *const ignored[] = {NULL};

static const mega_family_names names = {.root = "model.embeddings",
                                        .block = "model.layers.%d",
                                        .end = "",
                                        .tokens = "tok_embeddings",
                                        .embedding_norm = "norm",
                                        .final_norm = "model.final_norm",
                                        .tied = "model.embeddings.tok_embeddings",
                                        .head = "decoder",
                                        .head_bias = "decoder.bias",
                                        .transform = "head.dense",
                                        .transform_norm = "head.norm",
                                        .norm_1 = "attn_norm",
                                        .norm_2 = "mlp_norm",
                                        .attention = "attn",
                                        .qkv = "Wqkv",
                                        .out = "Wo",
                                        .up = "mlp.Wi",
                                        .down = "mlp.Wo"};

static bool modernbert_has_window(const mega_model_shape *s, int64_t layer)
{
    return layer % s->net.first_full != 0;
}

static void modernbert_finish(hf_reader *r, mega_model_shape *s)
{
    static const char *const unused[] = {
        "classifier_pooling", "cls_token_id",      "deterministic_flash_attn", "initializer_cutoff_factor",
        "layer_norm_eps",     "reference_compile", "repad_logits_with_grad",   "sparse_pred_ignore_index",
        "sparse_prediction"};
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++) hf_take(r, unused[i]);
    mega_network_shape *n = &s->net;
    n->no_out_bias = n->no_qkv_bias;
    n->has_window = true;
    n->window_left = n->window_right = hf_take_int(r, "local_attention", 128) / 2;
    n->first_full = hf_take_int(r, "global_attn_every_n_layers", 3);
    hf_take_layer_types(r, s, modernbert_has_window);
}

static void modernbert_write_rest(const mega_model_shape *s, void *user, hf_put *put)
{
    hf_put_int(user, put, "local_attention", 2 * s->net.window_left);
    hf_put_layer_types(s, user, put);
}

MEGA_FAMILY(230, modernbert) = {HF_TABLES("modernbert"),
                                .net = {.is_encoder = true,
                                        .transform = true,
                                        .positions = MEGA_POSITIONS_ROPE,
                                        .embedding_norm = true,
                                        .first_unnormed = true,
                                        .gated = true},
                                .rope_keys = " global_rope_theta local_rope_theta ",
                                .theta = 160000.0,
                                .finish = modernbert_finish,
                                .write = modernbert_write_rest};
