/* DistilBERT (Sanh et al. 2019): BERT without types of tokens and pairs of sentences. */
#include "hf_impl.h"

static const mega_family_key rows[] = {{HF_INT("vocab_size", vocab, "30522")},
                                       {HF_INT("dim", hidden, "768"), .alias = "hidden_size"},
                                       {HF_INT("n_layers", num_layers, "6"), .alias = "num_hidden_layers"},
                                       {HF_INT("n_heads", heads, "12"), .alias = "num_attention_heads"},
                                       {HF_INT("hidden_dim", ffn_hidden, "3072")},
                                       {HF_INT("max_position_embeddings", positions, "512")},
                                       {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
                                       {HF_FLOAT("attention_dropout", attention_dropout, "0.1"), .high = 1.0},
                                       {HF_FLOAT("dropout", hidden_dropout, "0.1"), .high = 1.0},
                                       {HF_ACTIVATION("activation", net.activation, "\"gelu\"")},
                                       {HF_FIXED("sinusoidal_pos_embds", "false"), .is_written = true},
                                       {HF_FIXED("tie_weights_", "true"), .is_written = true},
                                       {HF_FIXED("tie_word_embeddings", "true"), .is_written = true},
                                       {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"DistilBertForMaskedLM", "DistilBertModel", NULL};
static const char *const ignored[] = {"*.position_ids", NULL};

static const mega_family_names names = {.root = "distilbert.embeddings",
                                        .block = "distilbert.transformer.layer.%d",
                                        .end = "",
                                        .tokens = "word_embeddings",
                                        .positions = "position_embeddings",
                                        .embedding_norm = "LayerNorm",
                                        .tied = "distilbert.embeddings.word_embeddings",
                                        .head = "vocab_projector",
                                        .head_bias = "vocab_projector.bias",
                                        .transform = "vocab_transform",
                                        .transform_norm = "vocab_layer_norm",
                                        .norm_1 = "sa_layer_norm",
                                        .norm_2 = "output_layer_norm",
                                        .attention = "attention",
                                        .qkv = "qkv_lin",
                                        .out = "out_lin",
                                        .qkv_order = MEGA_QKV_THREE,
                                        .q = "attention.q_lin",
                                        .k = "attention.k_lin",
                                        .v = "attention.v_lin",
                                        .up = "ffn.lin1",
                                        .down = "ffn.lin2"};

static void distilbert_finish(hf_reader *r, mega_model_shape *s)
{
    static const char *const unused[] = {"qa_dropout", "seq_classif_dropout", "output_past"};
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++) hf_take(r, unused[i]);
    s->norm_epsilon = 1e-12; /* there is no key for it */
    s->net.transform_activation = s->net.activation;
    if (json_object_get(r->json, "pad_token_id") == NULL) s->net.pad = 0; /* the class default */
}

MEGA_FAMILY(220, distilbert) = {HF_TABLES("distilbert"), .net = {HF_ENCODER, HF_POST_NORM, .kept_attention = true},
                                .rope_keys = " ", .finish = distilbert_finish};
