/* The keys of config.json, by the table of the family. */
#include "hf_impl.h"

#include "megalith/log.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Keys that change neither the model nor its training: where it came from, how text is generated, tasks and reports of
 * transformers, and hints for its implementation. */
static const char *const harmless[] = {"_attn_implementation",
                                       "_attn_implementation_autoset",
                                       "_commit_hash",
                                       "_name_or_path",
                                       "_num_labels",
                                       "architectures",
                                       "attention_softmax_in_fp32",
                                       "auto_map",
                                       "bad_words_ids",
                                       "begin_suppress_tokens",
                                       "cache_implementation",
                                       "chunk_size_feed_forward",
                                       "classifier_dropout",
                                       "cross_attention_hidden_size",
                                       "custom_pipelines",
                                       "decoder_start_token_id",
                                       "diversity_penalty",
                                       "do_sample",
                                       "dtype",
                                       "early_stopping",
                                       "encoder_no_repeat_ngram_size",
                                       "exponential_decay_length_penalty",
                                       "finetuning_task",
                                       "forced_bos_token_id",
                                       "forced_eos_token_id",
                                       "gradient_checkpointing",
                                       "id2label",
                                       "is_decoder",
                                       "is_encoder_decoder",
                                       "is_llama_config",
                                       "label2id",
                                       "length_penalty",
                                       "max_length",
                                       "min_length",
                                       "model_type",
                                       "neftune_noise_alpha",
                                       "no_repeat_ngram_size",
                                       "num_beam_groups",
                                       "num_beams",
                                       "num_labels",
                                       "num_return_sequences",
                                       "output_attentions",
                                       "output_hidden_states",
                                       "output_past",
                                       "output_scores",
                                       "prefix",
                                       "pretraining_tp",
                                       "problem_type",
                                       "remove_invalid_values",
                                       "repetition_penalty",
                                       "return_dict",
                                       "return_dict_in_generate",
                                       "scale_attention_softmax_in_fp32",
                                       "sep_token_id",
                                       "slow_but_exact",
                                       "suppress_tokens",
                                       "task_specific_params",
                                       "temperature",
                                       "tf_legacy_loss",
                                       "tie_encoder_decoder",
                                       "tokenizer_class",
                                       "top_k",
                                       "top_p",
                                       "torch_dtype",
                                       "torchscript",
                                       "transformers.js_config",
                                       "transformers_version",
                                       "typical_p",
                                       "unsloth_fixed",
                                       "unsloth_version",
                                       "use_bfloat16",
                                       "use_cache"};

const json_t *hf_take(hf_reader *r, const char *key)
{
    assert(r->num_taken < HF_TAKEN); /* a family has fewer keys */
    r->taken[r->num_taken++] = key;
    return json_object_get(r->json, key);
}

static bool hf_is_taken(const hf_reader *r, const char *key)
{
    for (int i = 0; i < r->num_taken; i++)
        if (strcmp(r->taken[i], key) == 0) return true;
    return false;
}

void hf_put_found(mega_buffer *b, const json_t *value)
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

void hf_refuse(hf_reader *r, const char *key, const json_t *found, const char *expected)
{
    mega_buffer_printf(&r->wrong, "\n  %s: found ", key);
    hf_put_found(&r->wrong, found);
    mega_buffer_printf(&r->wrong, ", expected %s", expected);
    r->count++;
}

/* ---- single values ---- */

static bool hf_is_int(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) > 0 && json_integer_value(v) <= INT32_MAX;
}

int64_t hf_take_int(hf_reader *r, const char *key, int64_t fallback)
{
    const json_t *v = hf_take(r, key);
    if (v == NULL || json_is_null(v)) return fallback;
    if (hf_is_int(v)) return (int64_t)json_integer_value(v);
    hf_refuse(r, key, v, "a whole number from 1 to 2147483647");
    return fallback;
}

int64_t hf_take_whole(hf_reader *r, const char *key, int64_t fallback)
{
    const json_t *v = hf_take(r, key);
    if (v == NULL || json_is_null(v)) return fallback;
    if (json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= INT32_MAX)
        return (int64_t)json_integer_value(v);
    hf_refuse(r, key, v, "a whole number from 0 to 2147483647");
    return fallback;
}

bool hf_take_bool(hf_reader *r, const char *key, bool fallback)
{
    const json_t *v = hf_take(r, key);
    if (v == NULL || json_is_null(v)) return fallback;
    if (!json_is_boolean(v)) hf_refuse(r, key, v, "true or false");
    return json_is_boolean(v) ? json_is_true(v) : fallback;
}

double hf_take_float(hf_reader *r, const char *key, double fallback)
{
    const json_t *v = hf_take(r, key);
    if (v == NULL || json_is_null(v)) return fallback;
    if (json_is_number(v) && isfinite(json_number_value(v))) return json_number_value(v);
    hf_refuse(r, key, v, "a number");
    return fallback;
}

double hf_take_positive(hf_reader *r, const char *key, double fallback)
{
    const double x = hf_take_float(r, key, fallback);
    if (x > 0.0) return x;
    hf_refuse(r, key, hf_take(r, key), "a number above 0");
    return fallback;
}

static const struct activation_name {
    const char *name;
    mega_activation_kind kind;
} activation_names[] = {{"gelu_new", MEGA_ACT_GELU_TANH},  {"gelu_pytorch_tanh", MEGA_ACT_GELU_TANH},
                        {"gelu_fast", MEGA_ACT_GELU_TANH}, {"gelu_accurate", MEGA_ACT_GELU_TANH},
                        {"gelu", MEGA_ACT_GELU},           {"gelu_python", MEGA_ACT_GELU},
                        {"relu", MEGA_ACT_RELU},           {"relu2", MEGA_ACT_RELU_SQUARED},
                        {"silu", MEGA_ACT_SILU},           {"swish", MEGA_ACT_SILU},
                        {"tanh", MEGA_ACT_TANH},           {"sigmoid", MEGA_ACT_SIGMOID},
                        {"linear", MEGA_ACT_IDENTITY}};
#define NUM_ACTIVATIONS (sizeof activation_names / sizeof *activation_names)

bool hf_find_activation(const char *name, mega_activation_kind *out)
{
    for (size_t i = 0; name != NULL && i < NUM_ACTIVATIONS; i++) {
        if (strcmp(activation_names[i].name, name) != 0) continue;
        *out = activation_names[i].kind;
        return true;
    }
    return false;
}

const char *hf_architecture(const hf_reader *r)
{
    return json_string_value(json_array_get(json_object_get(r->json, "architectures"), 0));
}

/* ---- rows ---- */

static void *hf_field(const mega_family_key *k, mega_model_shape *s)
{
    return (char *)s + k->field;
}

static void hf_read_float(hf_reader *r, const mega_family_key *k, const json_t *v, double *out)
{
    const bool is_open = k->low == 0.0 && k->high == 0.0;
    const double x = json_number_value(v);
    char expected[64];
    if (json_is_number(v) && isfinite(x) && (is_open || (x >= k->low && x <= k->high)) && (!k->positive || x > 0.0))
        *out = x;
    else {
        if (is_open) snprintf(expected, sizeof expected, "a number%s", k->positive ? " above 0" : "");
        else
            snprintf(expected, sizeof expected, "a number %s %g to %g", k->positive ? "above 0, from" : "from", k->low,
                     k->high);
        hf_refuse(r, k->key, v, expected);
    }
}

/* Returns the name of choice `index`, which has `*size` bytes, or NULL if there are fewer choices. */
static const char *hf_choice(const char *choices, unsigned index, size_t *size)
{
    for (; index > 0 && choices != NULL; index--) {
        choices = strchr(choices, '|');
        if (choices != NULL) choices++;
    }
    *size = choices != NULL ? strcspn(choices, "|") : 0;
    return choices;
}

static void hf_read_choice(hf_reader *r, const mega_family_key *k, const json_t *v, void *field)
{
    const char *text = json_string_value(v), *name;
    size_t size;
    for (unsigned i = 0; text != NULL && (name = hf_choice(k->choices, i, &size)) != NULL; i++) {
        if (strlen(text) != size || strncmp(name, text, size) != 0) continue;
        memcpy(field, &i, sizeof i); /* an enumeration is an unsigned int */
        return;
    }
    hf_refuse(r, k->key, v, k->choices);
}

static void hf_read_value(hf_reader *r, const mega_family_key *k, const json_t *v, mega_model_shape *s)
{
    void *field = hf_field(k, s);
    switch (k->kind) {
    case MEGA_KEY_INT:
        if (hf_is_int(v)) *(int64_t *)field = (int64_t)json_integer_value(v);
        else
            hf_refuse(r, k->key, v, "a whole number from 1 to 2147483647");
        break;
    case MEGA_KEY_FLOAT: hf_read_float(r, k, v, field); break;
    case MEGA_KEY_BOOL:
        if (json_is_boolean(v)) *(bool *)field = json_is_true(v) != k->negated;
        else
            hf_refuse(r, k->key, v, "true or false");
        break;
    case MEGA_KEY_ACTIVATION:
        if (!hf_find_activation(json_string_value(v), field))
            hf_refuse(r, k->key, v, "gelu_new, gelu_pytorch_tanh, gelu_fast, gelu, relu, relu2, silu, tanh or sigmoid");
        break;
    case MEGA_KEY_CHOICE: hf_read_choice(r, k, v, field); break;
    case MEGA_KEY_FIXED: break;
    }
}

static json_t *hf_constant(const char *text)
{
    return json_loads(text, JSON_DECODE_ANY, NULL);
}

/* A number is the same with and without a decimal point. */
static bool hf_is_same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal(a, b) != 0;
}

/* transformers takes the value of the alias, other programs that of the key. */
static void hf_refuse_two_names(hf_reader *r, const mega_family_key *k, const json_t *other)
{
    char expected[96];
    snprintf(expected, sizeof expected, "the value of %s, which names the same setting", k->key);
    hf_refuse(r, k->alias, other, expected);
}

static void hf_take_key(hf_reader *r, const mega_family_key *k, mega_model_shape *s)
{
    const json_t *v = hf_take(r, k->key);
    const json_t *other = k->alias != NULL ? hf_take(r, k->alias) : NULL;
    if (v != NULL && other != NULL && !json_is_null(v) && !json_is_null(other) && !hf_is_same(v, other))
        hf_refuse_two_names(r, k, other);
    if (v == NULL || (json_is_null(v) && other != NULL && !json_is_null(other))) v = other;
    const bool is_needed = k->kind == MEGA_KEY_FIXED ? v != NULL && !json_is_null(v) : v == NULL || json_is_null(v);
    json_t *constant = is_needed ? hf_constant(k->fallback) : NULL;
    if (is_needed && constant == NULL) {
        r->no_memory = true;
        return;
    }
    if (k->kind == MEGA_KEY_FIXED) {
        if (is_needed && !hf_is_same(v, constant)) hf_refuse(r, k->key, v, k->fallback);
        json_decref(constant);
        return;
    }
    if (v == NULL) v = constant;
    const bool is_null = json_is_null(v);
    if (is_null && k->derive != NULL) *(int64_t *)hf_field(k, s) = k->derive(s);
    else if (is_null && k->is_zero)
        *(double *)hf_field(k, s) = 0.0;
    else
        hf_read_value(r, k, is_null ? constant : v, s);
    json_decref(constant);
}

/* Values that are derived come last, so that those which they depend on are known. */
void hf_take_keys(hf_reader *r, mega_model_shape *shape)
{
    for (int pass = 0; pass < 2; pass++)
        for (int t = 0; r->family->keys[t] != NULL; t++)
            for (const mega_family_key *k = r->family->keys[t]; k->key != NULL; k++)
                if ((k->derive != NULL) == (pass == 1)) hf_take_key(r, k, shape);
}

/* ---- ids ---- */

/* Old folders of Llama have a pad_token_id of -1 (least). */
static int64_t hf_read_id(hf_reader *r, const char *key, const json_t *v, int least)
{
    if (v == NULL || json_is_null(v)) return -1;
    if (json_is_integer(v) && json_integer_value(v) >= least && json_integer_value(v) <= INT32_MAX)
        return (int64_t)json_integer_value(v);
    hf_refuse(r, key, v, "a token id, or null");
    return -1;
}

/* Some configurations list several end tokens; the first one ends a document. */
void hf_take_ids(hf_reader *r, mega_model_shape *s)
{
    mega_network_shape *n = &s->net;
    const json_t *eos = hf_take(r, "eos_token_id");
    n->has_ids = true;
    n->bos = hf_read_id(r, "bos_token_id", hf_take(r, "bos_token_id"), 0);
    n->pad = hf_read_id(r, "pad_token_id", hf_take(r, "pad_token_id"), -1);
    n->num_eos = 0;
    if (json_is_array(eos) && json_array_size(eos) > MEGA_SHAPE_EOS) hf_refuse(r, "eos_token_id", eos, "at most 8 ids");
    if (json_is_array(eos) && json_array_size(eos) == 0) hf_refuse(r, "eos_token_id", eos, "one or more ids, or null");
    const size_t count = json_is_array(eos) ? json_array_size(eos) : 1;
    for (size_t i = 0; i < count && i < MEGA_SHAPE_EOS; i++) {
        const json_t *one = json_is_array(eos) ? json_array_get(eos, i) : eos;
        const int64_t id = hf_read_id(r, "eos_token_id", one, 0);
        if (json_is_array(eos) && json_is_null(one)) hf_refuse(r, "eos_token_id", eos, "ids alone in a list");
        if (id >= 0) n->eos[n->num_eos++] = id;
    }
    s->eos = n->num_eos > 0 ? n->eos[0] : -1;
    if (s->eos >= s->vocab) {
        mega_warn("config.json: eos_token_id %lld is outside of the vocabulary of %lld and is ignored",
                  (long long)s->eos, (long long)s->vocab);
        s->eos = -1;
    }
}

/* ---- unknown keys ---- */

static bool hf_is_harmless(const char *key)
{
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(harmless[i], key) == 0) return true;
    return false;
}

void hf_refuse_unknown(hf_reader *r)
{
    for (void *it = json_object_iter((json_t *)(uintptr_t)r->json); it != NULL;
         it = json_object_iter_next((json_t *)(uintptr_t)r->json, it)) {
        const char *key = json_object_iter_key(it);
        const json_t *value = json_object_iter_value(it);
        const bool is_empty = json_is_null(value) || (json_is_object(value) && json_object_size(value) == 0) ||
                              (json_is_false(value) && strcmp(key, "add_cross_attention") == 0);
        if (is_empty || hf_is_taken(r, key) || hf_is_harmless(key)) continue;
        char expected[160];
        snprintf(expected, sizeof expected,
                 "no such key in a folder of model_type %s; remove it if it does not change the model",
                 r->family->model_type);
        hf_refuse(r, key, value, expected);
    }
}

/* ---- writing ---- */

static void hf_write_activation(mega_buffer *b, const mega_family_key *k, mega_activation_kind kind)
{
    mega_activation_kind usual = MEGA_ACT_IDENTITY;
    json_t *constant = k->fallback != NULL ? hf_constant(k->fallback) : NULL;
    const char *name = json_string_value(constant);
    if (!hf_find_activation(name, &usual) || usual != kind) {
        name = "gelu_new";
        for (size_t i = NUM_ACTIVATIONS; i-- > 0;)
            if (activation_names[i].kind == kind) name = activation_names[i].name;
        if (kind == MEGA_ACT_SILU) name = "silu";
    }
    mega_buffer_printf(b, "\"%s\"", name);
    json_decref(constant);
}

static void hf_write_choice(mega_buffer *b, const mega_family_key *k, const void *field)
{
    unsigned index;
    size_t size;
    memcpy(&index, field, sizeof index);
    const char *name = hf_choice(k->choices, index, &size);
    mega_buffer_printf(b, "\"%.*s\"", (int)size, name != NULL ? name : "");
}

static void hf_write_value(mega_buffer *b, const mega_family_key *k, const mega_model_shape *s)
{
    const void *field = (const char *)s + k->field;
    switch (k->kind) {
    case MEGA_KEY_INT: {
        const int64_t value = *(const int64_t *)field;
        if (k->null_if_derived && k->derive != NULL && value == k->derive(s)) mega_buffer_puts(b, "null");
        else
            mega_buffer_printf(b, "%lld", (long long)(value == 0 && k->derive != NULL ? k->derive(s) : value));
        break;
    }
    case MEGA_KEY_FLOAT:
        if (k->is_zero && *(const double *)field == 0.0) mega_buffer_puts(b, "null");
        else
            mega_buffer_json_double(b, *(const double *)field);
        break;
    case MEGA_KEY_BOOL: mega_buffer_puts(b, *(const bool *)field != k->negated ? "true" : "false"); break;
    case MEGA_KEY_ACTIVATION: hf_write_activation(b, k, *(const mega_activation_kind *)field); break;
    case MEGA_KEY_CHOICE: hf_write_choice(b, k, field); break;
    case MEGA_KEY_FIXED: mega_buffer_puts(b, k->fallback); break;
    }
}

void hf_put_text(void *user, hf_put *put, const char *key, mega_buffer *text)
{
    put(user, key, mega_buffer_check(text, "config.json") == MEGA_OK ? text->data : NULL);
    mega_buffer_fini(text);
}

void hf_put_int(void *user, hf_put *put, const char *key, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    put(user, key, text);
}

void hf_put_whole_or_float(void *user, hf_put *put, const char *key, double value)
{
    mega_buffer b = {0};
    if (fabs(value - round(value)) < 1e-9 * value) mega_buffer_printf(&b, "%lld", (long long)llround(value));
    else
        mega_buffer_json_double(&b, value);
    hf_put_text(user, put, key, &b);
}

void hf_put_keys(const mega_model_shape *shape, void *user, hf_put *put)
{
    const mega_family *f = mega_family_of(&shape->net);
    for (int t = 0; f->keys[t] != NULL; t++)
        for (const mega_family_key *k = f->keys[t]; k->key != NULL; k++) {
            mega_buffer b = {0};
            if (k->kind == MEGA_KEY_FIXED && !k->is_written) continue;
            hf_write_value(&b, k, shape);
            hf_put_text(user, put, k->key, &b);
        }
}
