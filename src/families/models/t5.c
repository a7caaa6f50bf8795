/* T5 (Raffel et al. 2020): T5ForConditionalGeneration, version 1 and 1.1. */
#include "hf_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const mega_family_key sizes[] = {{HF_INT("vocab_size", vocab, "32128")},
                                        {HF_INT("num_layers", num_layers, "6")},
                                        {HF_INT("num_heads", heads, "8")},
                                        {HF_INT("d_ff", ffn_hidden, "2048")},
                                        {.key = NULL}};
const mega_family_key hf_t5_rows[] = {
    {HF_INT("d_model", hidden, "512")},
    {HF_INT("d_kv", net.head_dim, "64")},
    {HF_INT("num_decoder_layers", net.decoder_layers, "null"), .derive = hf_derive_decoder_layers},
    {HF_INT("relative_attention_num_buckets", net.relative_buckets, "32")},
    {HF_INT("relative_attention_max_distance", net.relative_distance, "128")},
    {HF_INT("n_positions", positions, "512")},
    {HF_FLOAT("dropout_rate", hidden_dropout, "0.1"), .high = 1.0},
    {HF_FLOAT("layer_norm_epsilon", norm_epsilon, "1e-06"), .high = 1.0, .positive = true},
    {HF_FIXED("is_encoder_decoder", "true"), .is_written = true},
    {.key = NULL}};
static const mega_family_key *const keys[] = {sizes, hf_t5_rows, NULL};
static const char *const architecture[] = {"T5ForConditionalGeneration", "T5WithLMHeadModel", NULL};
/* Old files have a table of biases that nothing reads. */
const char *const hf_t5_ignored[] = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", NULL};

/* model/t5.c and layers/t5.c name the rest. */
const mega_family_names hf_t5_names = {
    .root = "", .block = "decoder.block.%d", .end = "", .tokens = "shared", .tied = "shared", .head = "lm_head"};

/* ---- the feed-forward layer ---- */

static const struct {
    const char *name;
    mega_activation_kind kind;
} activation[] = {
    {"relu", MEGA_ACT_RELU}, {"gelu_new", MEGA_ACT_GELU_TANH}, {"gelu", MEGA_ACT_GELU}, {"silu", MEGA_ACT_SILU}};
static const char gated_gelu[] = "gated-gelu"; /* which means gelu_new in transformers */

/* Without the key it is that of the family, which the shape begins with. */
static void take_feed_forward(hf_reader *r, mega_model_shape *s)
{
    static const char gate[] = "gated-";
    const char *key = "feed_forward_proj";
    const json_t *v = hf_take(r, key);
    const char *name = json_string_value(v);
    if (v == NULL || json_is_null(v)) return;
    if (name != NULL && strcmp(name, gated_gelu) == 0) name = "gated-gelu_new";
    s->net.gated = name != NULL && strncmp(name, gate, strlen(gate)) == 0;
    if (s->net.gated) name += strlen(gate);
    for (size_t i = 0; name != NULL && i < sizeof activation / sizeof *activation; i++) {
        if (strcmp(activation[i].name, name) != 0) continue;
        s->net.activation = activation[i].kind;
        return;
    }
    hf_refuse(r, key, v, "relu, gelu, gelu_new or silu, alone or after gated-");
}

/* transformers obeys these two where they are there, and writes them as feed_forward_proj says. */
static void check_feed_forward(hf_reader *r, const mega_model_shape *s)
{
    const json_t *name = hf_take(r, "dense_act_fn"), *gated = hf_take(r, "is_gated_act");
    mega_activation_kind kind = MEGA_ACT_IDENTITY;
    if (name != NULL && !json_is_null(name) &&
        (!hf_find_activation(json_string_value(name), &kind) || kind != s->net.activation))
        hf_refuse(r, "dense_act_fn", name, "the activation of feed_forward_proj");
    if (gated != NULL && !json_is_null(gated) && json_is_true(gated) != s->net.gated)
        hf_refuse(r, "is_gated_act", gated,
                  s->net.gated ? "true, as feed_forward_proj says" : "false, as feed_forward_proj says");
}

/* A gate with the exact GELU has no name: gated-gelu is read again as another network, so that nobody saves it so. */
static void put_feed_forward(const mega_model_shape *s, void *user, hf_put *put)
{
    const char *name = "relu";
    char text[40];
    for (size_t i = 0; i < sizeof activation / sizeof *activation; i++)
        if (activation[i].kind == s->net.activation) name = activation[i].name;
    if (s->net.gated && s->net.activation == MEGA_ACT_GELU_TANH) name = "gelu";
    snprintf(text, sizeof text, "\"%s%s\"", s->net.gated ? "gated-" : "", name);
    put(user, "feed_forward_proj", text);
}

/* ---- the rest ---- */

void hf_put_decoder_start(const mega_model_shape *s, void *user, hf_put *put)
{
    if (s->net.decoder_start >= 0) hf_put_int(user, put, "decoder_start_token_id", s->net.decoder_start);
}

/* In the encoder half of the buckets are for keys after the query; the short distances have one each. */
static void check_buckets(hf_reader *r, const mega_model_shape *s)
{
    enum { MOST = 256 };
    const char *count = "relative_attention_num_buckets", *distance = "relative_attention_max_distance";
    if (s->net.relative_buckets < 1 || s->net.relative_distance < 1) return; /* reported already */
    if (s->net.relative_buckets < 4 || s->net.relative_buckets > MOST || s->net.relative_buckets % 2 != 0)
        hf_refuse(r, count, json_object_get(r->json, count), "an even number from 4 to 256");
    else if (s->net.relative_distance <= s->net.relative_buckets / 2)
        hf_refuse(r, distance, json_object_get(r->json, distance), "more than half of relative_attention_num_buckets");
}

void hf_t5_finish(hf_reader *r, mega_model_shape *s)
{
    check_buckets(r, s);
    hf_take(r, "initializer_factor"); /* of weights that are drawn, which --init-method-std says here */
    hf_take(r, "tie_word_embeddings");
    hf_take(r, "scale_decoder_outputs");
    take_feed_forward(r, s);
    check_feed_forward(r, s);
    s->attention_dropout = s->hidden_dropout;
    if (json_object_get(r->json, "pad_token_id") == NULL) s->net.pad = 0; /* the class defaults */
    if (json_object_get(r->json, "eos_token_id") == NULL && s->vocab > 1) {
        s->eos = s->net.eos[0] = 1;
        s->net.num_eos = 1;
    }
    s->net.decoder_start = hf_take_whole(r, "decoder_start_token_id", s->net.pad);
}

void hf_t5_write(const mega_model_shape *s, void *user, hf_put *put)
{
    put_feed_forward(s, user, put);
    put(user, "initializer_factor", "1.0");
    put(user, "tie_word_embeddings", s->net.untied ? "false" : "true");
    hf_put_decoder_start(s, user, put);
}

/* Version 5 of transformers writes tie_word_embeddings true in any case, and says by scale_decoder_outputs which
 * version it is; a head of its own is then in the file. */
static void t5_finish(hf_reader *r, mega_model_shape *s)
{
    hf_t5_finish(r, s);
    s->net.untied = !hf_take_bool(r, "scale_decoder_outputs", hf_take_bool(r, "tie_word_embeddings", true));
    if (!s->net.untied && s->hidden > 0) s->net.logit_scale = 1.0 / sqrt((double)s->hidden);
}

MEGA_FAMILY(240, t5) = {.model_type = "t5",
                        .architecture = architecture,
                        .keys = keys,
                        .net = {.t5 = MEGA_T5_ORIGINAL, .positions = MEGA_POSITIONS_NONE, .activation = MEGA_ACT_RELU},
                        .names = &hf_t5_names,
                        .rope_keys = " ",
                        .ignored = hf_t5_ignored,
                        .finish = t5_finish,
                        .write = hf_t5_write};
