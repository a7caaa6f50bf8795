/* Reads config.json of a GPT-2 folder: accepts settings that we can run, and reports all others together. A model that
 * is not a Hugging Face family has model_type "megalith" and nothing else to read: only its program knows its shape. */
#include "ckpt_impl.h"

#include "megalith/json.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define MODEL_TYPE_OF_OWN "megalith"

typedef struct reader {
    const json_t *json;
    mega_buffer wrong; /* one line for each setting that cannot be used */
    int count;
} reader;

static void hf_put_found(mega_buffer *b, const json_t *value)
{
    if (value == NULL) {
        mega_buffer_puts(b, "nothing");
        return;
    }
    char text[80];
    const size_t n = json_dumpb(value, text, sizeof text - 1, JSON_ENCODE_ANY | JSON_COMPACT);
    text[n < sizeof text ? n : sizeof text - 1] = '\0';
    mega_buffer_puts(b, n == 0 || n >= sizeof text ? "a long value" : text);
}

static void hf_refuse(reader *r, const char *key, const json_t *found, const char *expected)
{
    mega_buffer_printf(&r->wrong, "\n  %s: found ", key);
    hf_put_found(&r->wrong, found);
    mega_buffer_printf(&r->wrong, ", expected %s", expected);
    r->count++;
}

/* Returns the value under the first of two names that exists and is not null. */
static const json_t *hf_lookup(const reader *r, const char *key, const char *alias)
{
    const json_t *v = json_object_get(r->json, key);
    if ((v == NULL || json_is_null(v)) && alias != NULL) v = json_object_get(r->json, alias);
    return v == NULL || json_is_null(v) ? NULL : v;
}

static int64_t take_int(reader *r, const char *key, const char *alias, int64_t otherwise)
{
    const json_t *v = hf_lookup(r, key, alias);
    if (v == NULL) return otherwise;
    if (json_is_integer(v) && json_integer_value(v) > 0 && json_integer_value(v) <= INT32_MAX)
        return (int64_t)json_integer_value(v);
    hf_refuse(r, key, v, "a whole number from 1 to 2147483647");
    return otherwise;
}

static double take_float(reader *r, const char *key, double otherwise, double low, double high)
{
    const json_t *v = hf_lookup(r, key, NULL);
    if (v == NULL) return otherwise;
    if (json_is_number(v) && json_number_value(v) >= low && json_number_value(v) <= high) return json_number_value(v);
    char expected[64];
    snprintf(expected, sizeof expected, "a number from %g to %g", low, high);
    hf_refuse(r, key, v, expected);
    return otherwise;
}

/* A switch for which only one value is supported. */
static void take_switch(reader *r, const char *key, bool expected)
{
    const json_t *v = hf_lookup(r, key, NULL);
    if (v == NULL || (json_is_boolean(v) && json_is_true(v) == expected)) return;
    hf_refuse(r, key, v, expected ? "true" : "false");
}

static void take_activation(reader *r, bool *tanh_gelu)
{
    static const char *const with_tanh[] = {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate"};
    const json_t *v = hf_lookup(r, "activation_function", NULL);
    const char *name = v == NULL ? "gelu_new" : json_string_value(v);
    for (size_t i = 0; name != NULL && i < sizeof with_tanh / sizeof *with_tanh; i++) {
        if (strcmp(name, with_tanh[i]) != 0) continue;
        *tanh_gelu = true;
        return;
    }
    *tanh_gelu = false;
    if (name == NULL || (strcmp(name, "gelu") != 0 && strcmp(name, "gelu_python") != 0))
        hf_refuse(r, "activation_function", v, "gelu_new, gelu_pytorch_tanh, gelu_fast or gelu");
}

/* Some configurations list several end tokens; the first one ends a document. */
static int64_t take_eos(reader *r)
{
    if (json_object_get(r->json, "eos_token_id") == NULL) return 50256;
    const json_t *v = hf_lookup(r, "eos_token_id", NULL);
    if (json_is_array(v)) v = json_array_get(v, 0);
    if (v == NULL) return -1;
    if (json_is_integer(v) && json_integer_value(v) >= 0) return (int64_t)json_integer_value(v);
    hf_refuse(r, "eos_token_id", v, "a token id");
    return -1;
}

static void take_kind(reader *r)
{
    const json_t *type = hf_lookup(r, "model_type", NULL);
    const char *architecture = json_string_value(json_array_get(hf_lookup(r, "architectures", NULL), 0));
    const bool fits = type != NULL           ? json_is_string(type) && strcmp(json_string_value(type), "gpt2") == 0
                      : architecture != NULL ? strncmp(architecture, "GPT2", 4) == 0
                                             : hf_lookup(r, "n_embd", NULL) != NULL;
    if (!fits) hf_refuse(r, "model_type", type, "\"gpt2\"");
    const json_t *quantized = hf_lookup(r, "quantization_config", NULL);
    if (quantized != NULL) hf_refuse(r, "quantization_config", quantized, "none: weights in F32, BF16 or F16");
    const json_t *pruned = hf_lookup(r, "pruned_heads", NULL);
    if (pruned != NULL && json_object_size(pruned) > 0) hf_refuse(r, "pruned_heads", pruned, "none");
}

static bool is_of_own(const json_t *json)
{
    const char *type = json_string_value(json_object_get(json, "model_type"));
    return type != NULL && strcmp(type, MODEL_TYPE_OF_OWN) == 0;
}

static void take_all(reader *r, mega_model_shape *s)
{
    take_kind(r);
    s->num_layers = take_int(r, "n_layer", "num_hidden_layers", 12);
    s->hidden = take_int(r, "n_embd", "hidden_size", 768);
    s->heads = take_int(r, "n_head", "num_attention_heads", 12);
    s->positions = take_int(r, "n_positions", "max_position_embeddings", 1024);
    s->vocab = take_int(r, "vocab_size", NULL, 50257);
    s->ffn_hidden = take_int(r, "n_inner", NULL, 4 * s->hidden);
    s->norm_epsilon = take_float(r, "layer_norm_epsilon", 1e-5, 0.0, 1.0);
    s->init_std = take_float(r, "initializer_range", 0.02, 0.0, 1.0);
    s->attention_dropout = take_float(r, "attn_pdrop", 0.1, 0.0, 1.0);
    s->hidden_dropout = take_float(r, "resid_pdrop", 0.1, 0.0, 1.0);
    const double embedding = take_float(r, "embd_pdrop", 0.1, 0.0, 1.0);
    if (embedding != s->hidden_dropout)
        mega_warn("config.json: embd_pdrop %g differs from resid_pdrop %g; %g is used for both", embedding,
                  s->hidden_dropout, s->hidden_dropout);
    take_activation(r, &s->tanh_gelu);
    s->eos = take_eos(r);
    take_switch(r, "scale_attn_weights", true);
    take_switch(r, "scale_attn_by_inverse_layer_idx", false);
    take_switch(r, "add_cross_attention", false);
    take_switch(r, "tie_word_embeddings", true);
    if (s->hidden % s->heads != 0)
        hf_refuse(r, "n_head", hf_lookup(r, "n_head", "num_attention_heads"), "a divisor of n_embd");
    if (s->eos >= s->vocab) {
        mega_warn("config.json: eos_token_id %lld is outside of the vocabulary of %lld and is ignored",
                  (long long)s->eos, (long long)s->vocab);
        s->eos = -1;
    }
}

mega_status mega_hf_config_read(const char *path, mega_model_shape *out)
{
    char *text = NULL;
    size_t size = 0;
    MEGA_TRY(mega_file_read(path, &text, &size));
    json_error_t error;
    json_t *json = mega_json_load(text, size, 0, &error);
    mega_free(text);
    if (json == NULL)
        return MEGA_FAIL(mega_json_status(&error), "%s: line %d: %s; expected a GPT-2 configuration as a JSON object",
                         path, error.line, error.text);
    mega_model_shape shape = {0};
    reader r = {.json = json};
    if (json_is_object(json) && !is_of_own(json)) take_all(&r, &shape);
    else if (!json_is_object(json))
        hf_refuse(&r, "the file", json, "one JSON object");
    mega_status st = mega_buffer_check(&r.wrong, path);
    if (st == MEGA_OK && r.count > 0)
        st = MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "%s: %d %s that cannot be used:%s", path, r.count,
                       r.count == 1 ? "setting" : "settings", r.wrong.data);
    mega_buffer_fini(&r.wrong);
    json_decref(json);
    if (st == MEGA_OK) *out = shape;
    return st;
}

static const char *hf_dtype_text(mega_dtype t)
{
    return t == MEGA_BF16 ? "bfloat16" : t == MEGA_F16 ? "float16" : t == MEGA_F64 ? "float64" : "float32";
}

static void hf_put_int(mega_buffer *b, const char *key, int64_t value)
{
    mega_buffer_printf(b, "  \"%s\": %lld,\n", key, (long long)value);
}

static void put_id(mega_buffer *b, const char *key, int64_t id)
{
    if (id >= 0) hf_put_int(b, key, id);
    else
        mega_buffer_printf(b, "  \"%s\": null,\n", key);
}

static void hf_put_float(mega_buffer *b, const char *key, double value)
{
    mega_buffer_printf(b, "  \"%s\": ", key);
    mega_buffer_json_double(b, value);
    mega_buffer_puts(b, ",\n");
}

/* transformers refuses this model_type by name, and a human reader finds the reason in the file. */
static mega_status put_own(mega_buffer *out, mega_dtype weights)
{
    mega_buffer_puts(out, "{\n  \"_comment\": \"This is not a Hugging Face model: transformers cannot load it. "
                          "model.safetensors contains its tensors under the names that its program declares.\",\n");
    mega_buffer_printf(out, "  \"model_type\": \"" MODEL_TYPE_OF_OWN "\",\n  \"torch_dtype\": \"%s\"\n}\n",
                       hf_dtype_text(weights));
    return mega_buffer_check(out, "config.json");
}

/* Sorted keys and two blanks, as transformers writes it. Version 5 of transformers checks types, so floats keep their
 * decimal point. Both versions 4 and 5 read the key torch_dtype. */
mega_status mega_hf_config_text(mega_buffer *out, const mega_model_shape *s, mega_dtype weights)
{
    if (s == NULL) return put_own(out, weights);
    mega_buffer_printf(out, "{\n  \"activation_function\": \"%s\",\n", s->tanh_gelu ? "gelu_new" : "gelu");
    mega_buffer_puts(out, "  \"add_cross_attention\": false,\n  \"architectures\": [\n    \"GPT2LMHeadModel\"\n  ],\n");
    hf_put_float(out, "attn_pdrop", s->attention_dropout);
    put_id(out, "bos_token_id", s->eos);
    hf_put_float(out, "embd_pdrop", s->hidden_dropout);
    put_id(out, "eos_token_id", s->eos);
    hf_put_float(out, "initializer_range", s->init_std);
    hf_put_float(out, "layer_norm_epsilon", s->norm_epsilon);
    mega_buffer_puts(out, "  \"model_type\": \"gpt2\",\n");
    hf_put_int(out, "n_embd", s->hidden);
    hf_put_int(out, "n_head", s->heads);
    if (s->ffn_hidden == 4 * s->hidden) mega_buffer_puts(out, "  \"n_inner\": null,\n");
    else
        hf_put_int(out, "n_inner", s->ffn_hidden);
    hf_put_int(out, "n_layer", s->num_layers);
    hf_put_int(out, "n_positions", s->positions);
    mega_buffer_puts(out, "  \"reorder_and_upcast_attn\": false,\n");
    hf_put_float(out, "resid_pdrop", s->hidden_dropout);
    mega_buffer_puts(out, "  \"scale_attn_by_inverse_layer_idx\": false,\n  \"scale_attn_weights\": true,\n");
    mega_buffer_puts(out, "  \"tie_word_embeddings\": true,\n");
    mega_buffer_printf(out, "  \"torch_dtype\": \"%s\",\n  \"transformers_version\": \"4.57.0\",\n",
                       hf_dtype_text(weights));
    mega_buffer_printf(out, "  \"use_cache\": true,\n  \"vocab_size\": %lld\n}\n", (long long)s->vocab);
    return mega_buffer_check(out, "config.json");
}

mega_status mega_hf_generation_text(mega_buffer *out, const mega_model_shape *s)
{
    mega_buffer_puts(out, "{\n  \"_from_model_config\": true,\n");
    if (s->eos >= 0) {
        hf_put_int(out, "bos_token_id", s->eos);
        hf_put_int(out, "eos_token_id", s->eos);
    }
    mega_buffer_puts(out, "  \"transformers_version\": \"4.57.0\"\n}\n");
    return mega_buffer_check(out, "generation_config.json");
}
