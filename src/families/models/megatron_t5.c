/* Megatron's T5 (Shoeybi et al. 2019): the blocks of GPT-2 with attention to the encoder. No model of transformers has
 * this form. The names of tensors are those of Megatron-LM's checkpoints from "language_model" on, except that queries,
 * keys and values are three tensors each (query, key, value): model/t5.c. */
#include "hf_impl.h"

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "29184")},
    {HF_INT("hidden_size", hidden, "768")},
    {HF_INT("ffn_hidden_size", ffn_hidden, "3072")},
    {HF_INT("num_layers", num_layers, "12")},
    {HF_INT("num_decoder_layers", net.decoder_layers, "null"), .derive = hf_derive_decoder_layers},
    {HF_INT("num_attention_heads", heads, "12")},
    {HF_INT("kv_channels", net.head_dim, "null"), .derive = hf_derive_head_dim},
    {HF_INT("max_position_embeddings", positions, "512")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("layernorm_epsilon", norm_epsilon, "1e-05"), .high = 1.0, .positive = true},
    {HF_FLOAT("attention_dropout", attention_dropout, "0.1"), .high = 1.0},
    {HF_FLOAT("hidden_dropout", hidden_dropout, "0.1"), .high = 1.0},
    {HF_ACTIVATION("hidden_act", net.activation, "\"gelu_new\"")},
    {HF_FIXED("is_encoder_decoder", "true"), .is_written = true},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"MegatronT5ForConditionalGeneration", NULL};
static const char *const ignored[] = {NULL};

static const mega_family_names names = {.root = "",
                                        .block = "language_model.decoder.layers.%d",
                                        .end = "",
                                        .tokens = "language_model.embedding.word_embeddings",
                                        .positions = "language_model.embedding.position_embeddings",
                                        .tied = "language_model.embedding.word_embeddings",
                                        .head_bias = "lm_head.bias"};

static void megatron_t5_finish(hf_reader *r, mega_model_shape *s)
{
    hf_take(r, "_comment");
    s->net.decoder_start = hf_take_whole(r, "decoder_start_token_id", -1);
}

static void megatron_t5_write_rest(const mega_model_shape *s, void *user, hf_put *put)
{
    put(user, "_comment",
        "\"No model of transformers has this form of T5: transformers cannot load this folder, megalith can. "
        "docs/t5.md says what its tensors are.\"");
    hf_put_decoder_start(s, user, put);
}

MEGA_FAMILY(270, megatron_t5) = {HF_TABLES("megatron-t5"),
                                 .net = {.t5 = MEGA_T5_MEGATRON, .head_bias = true},
                                 .rope_keys = " ",
                                 .is_own = true,
                                 .finish = megatron_t5_finish,
                                 .write = megatron_t5_write_rest};
