/* Reads and writes config.json of a Hugging Face folder by the table of its family: accepts settings that we can run,
 * and reports all others together. A model that is not a Hugging Face family has model_type "megalith" and nothing else
 * to read: only its program knows its shape. */
#include "hf_impl.h"

#include "megalith/encoding.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "megalith/json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL_TYPE_OF_OWN "megalith"

static const mega_family *find_by_architecture(const char *name)
{
    for (int i = 0; name != NULL && mega_families[i] != NULL; i++)
        for (int k = 0; mega_families[i]->architecture[k] != NULL; k++)
            if (strcmp(mega_families[i]->architecture[k], name) == 0) return mega_families[i];
    return NULL;
}

static void put_families(mega_buffer *b)
{
    for (int i = 0; mega_families[i] != NULL; i++)
        mega_buffer_printf(b, "%s\"%s\"", i > 0 ? ", " : "", mega_families[i]->model_type);
}

/* A folder without model_type is recognised by its architecture, and one of an early GPT-2 by a key. */
static const mega_family *find_family(const json_t *json)
{
    const char *type = json_string_value(json_object_get(json, "model_type"));
    if (type != NULL) return mega_family_find(type);
    const json_t *first = json_array_get(json_object_get(json, "architectures"), 0);
    if (json_is_string(first)) return find_by_architecture(json_string_value(first));
    return json_object_get(json, "n_embd") != NULL ? &mega_family_gpt2 : NULL;
}

/* Names what is accepted; Falcon looks like ours and is not. */
static void refuse_family(hf_reader *r)
{
    const json_t *type = json_object_get(r->json, "model_type");
    mega_buffer expected = {0};
    put_families(&expected);
    if (json_is_string(type) && strcmp(json_string_value(type), "falcon") == 0)
        mega_buffer_puts(&expected, "; the layers of Falcon (three forms under one name) are not implemented");
    hf_refuse(r, "model_type", type, expected.data != NULL ? expected.data : "another family");
    mega_buffer_fini(&expected);
}

static void take_architecture(hf_reader *r, mega_model_shape *s)
{
    const json_t *list = hf_take(r, "architectures"), *first = json_array_get(list, 0);
    if (first == NULL || json_is_null(first)) return;
    for (int k = 0; r->family->architecture[k] != NULL; k++) {
        const char *name = r->family->architecture[k], *end = strstr(name, "Model");
        if (!json_is_string(first) || strcmp(json_string_value(first), name) != 0) continue;
        s->net.no_head = s->net.is_encoder && end != NULL && end[strlen("Model")] == '\0';
        return;
    }
    mega_buffer accepted = {0};
    for (int k = 0; r->family->architecture[k] != NULL; k++)
        mega_buffer_printf(&accepted, "%s%s",
                           k == 0                                   ? ""
                           : r->family->architecture[k + 1] == NULL ? " or "
                                                                    : ", ",
                           r->family->architecture[k]);
    hf_refuse(r, "architectures", first, accepted.data != NULL ? accepted.data : r->family->architecture[0]);
    mega_buffer_fini(&accepted);
}

/* "linear" is what gates a product, and no activation of its own. */
static void check_activation(hf_reader *r, const mega_model_shape *s)
{
    if (s->net.gated || s->net.activation != MEGA_ACT_IDENTITY) return;
    for (int t = 0; r->family->keys[t] != NULL; t++)
        for (const mega_family_key *k = r->family->keys[t]; k->key != NULL; k++)
            if (k->kind == MEGA_KEY_ACTIVATION)
                hf_refuse(r, k->key, json_object_get(r->json, k->key), "an activation that is not linear");
}

/* Ids that an encoder or a T5 reads: a decoder that is none of these ignores padding, and old ones name a wrong one. */
static void hf_config_check_ids(hf_reader *r, const mega_model_shape *s)
{
    static const char *const keys[] = {"pad_token_id", "decoder_start_token_id"};
    if (!s->net.is_encoder && s->net.t5 == MEGA_T5_NONE) return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *v = json_object_get(r->json, keys[i]);
        if (!json_is_integer(v) || s->vocab < 1) continue;
        if (json_integer_value(v) < 0 || json_integer_value(v) >= s->vocab)
            hf_refuse(r, keys[i], v, "an id of the vocabulary (below vocab_size), or null");
    }
}

/* Folders of MXFP4, as gpt_oss is published, hold four bits a number; transformers can write 16 of them. */
static void refuse_quantized(hf_reader *r)
{
    const json_t *found = hf_take(r, "quantization_config");
    const char *method = json_string_value(json_object_get(found, "quant_method"));
    if (found == NULL || json_is_null(found)) return;
    hf_refuse(r, "quantization_config", found,
              method != NULL && strcmp(method, "mxfp4") == 0
                  ? "none: weights in F64, F32, BF16 or F16, which transformers makes of MXFP4: AutoModelForCausalLM."
                    "from_pretrained(FOLDER, quantization_config=Mxfp4Config(dequantize=True)).save_pretrained(NEW)"
              : method != NULL && strcmp(method, "fp8") == 0
                  ? "none: weights in F64, F32, BF16 or F16; of a DeepSeek in FP8, fp8_cast_bf16.py of its repository "
                    "makes a folder of BF16 (then take quantization_config out of its config.json)"
                  : "none: weights in F64, F32, BF16 or F16");
}

static void take_rest(hf_reader *r, mega_model_shape *s)
{
    check_activation(r, s);
    hf_config_check_ids(r, s);
    refuse_quantized(r);
    if (s->heads < 1) return; /* reported already */
    if (s->net.head_dim == 0 && s->hidden % s->heads != 0) {
        const char *key = json_object_get(r->json, "n_head") != NULL ? "n_head" : "num_attention_heads";
        hf_refuse(r, key, json_object_get(r->json, key),
                  r->family == &mega_family_gpt2 ? "a divisor of n_embd" : "a divisor of hidden_size");
    }
    if (s->net.kv_heads > 0 && s->heads % s->net.kv_heads != 0)
        hf_refuse(r, "num_key_value_heads", json_object_get(r->json, "num_key_value_heads"),
                  "a divisor of num_attention_heads");
}

static void hf_config_take_all(hf_reader *r, mega_model_shape *s)
{
    r->family = find_family(r->json);
    if (r->family == NULL) {
        refuse_family(r);
        return;
    }
    s->net = r->family->net;
    s->net.family = r->family == &mega_family_gpt2 ? NULL : r->family;
    take_architecture(r, s);
    hf_take_keys(r, s);
    hf_take_ids(r, s);
    if (s->net.positions == MEGA_POSITIONS_ROPE && r->count == 0) hf_take_rope(r, s);
    if (r->family->finish != NULL) r->family->finish(r, s);
    take_rest(r, s);
    if (r->count == 0 || s->net.positions != MEGA_POSITIONS_ROPE) hf_refuse_unknown(r);
}

static bool is_of_own(const json_t *json)
{
    const char *type = json_string_value(json_object_get(json, "model_type"));
    return type != NULL && strcmp(type, MODEL_TYPE_OF_OWN) == 0;
}

static mega_status read_json(const char *path, const json_t *json, mega_model_shape *out)
{
    mega_model_shape shape = {0};
    hf_reader r = {.json = json};
    if (json_is_object(json) && !is_of_own(json)) hf_config_take_all(&r, &shape);
    else if (!json_is_object(json))
        hf_refuse(&r, "the file", json, "one JSON object");
    mega_status st = r.no_memory ? MEGA_NO_MEMORY(path, "reading it") : mega_buffer_check(&r.wrong, path);
    if (st == MEGA_OK && r.count > 0)
        st = MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "%s: %d %s that cannot be used:%s", path, r.count,
                       r.count == 1 ? "setting" : "settings", r.wrong.data);
    mega_buffer_fini(&r.wrong);
    if (st == MEGA_OK) *out = shape;
    return st;
}

mega_status mega_hf_config_parse(const char *path, const char *text, size_t size, mega_model_shape *out)
{
    json_error_t error;
    MEGA_TRY(mega_encoding_refuse_mark(path, text, size));
    json_t *json = mega_json_load(text, size, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL)
        return MEGA_FAIL(mega_json_status(&error), "%s: line %d: %s; expected a configuration as a JSON object", path,
                         error.line, error.text);
    const mega_status st = read_json(path, json, out);
    json_decref(json);
    return st;
}

mega_status mega_hf_config_read(const char *path, mega_model_shape *out)
{
    char *text = NULL;
    size_t size = 0;
    MEGA_TRY(mega_file_read_kind(path, "a configuration in JSON", 0, &text, &size));
    const mega_status st = mega_hf_config_parse(path, text, size, out);
    mega_free(text);
    return st;
}

static void hf_config_add_end(const mega_model_shape *shape, int64_t id, int32_t *out, int *count)
{
    for (int i = 0; i < *count; i++)
        if (out[i] == id) return;
    if (id >= 0 && id < shape->vocab && *count < MEGA_SHAPE_EOS) out[(*count)++] = (int32_t)id;
}

static bool is_id(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= INT32_MAX;
}

/* null or nothing: config.json says it. */
static mega_status take_ends(const char *path, const json_t *eos, const mega_model_shape *shape, int32_t *out,
                             int *count)
{
    const bool is_list = json_is_array(eos);
    const size_t n = is_list ? json_array_size(eos) : 1;
    bool is_right = n > 0;
    if (eos == NULL || json_is_null(eos)) return MEGA_OK;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = is_list ? json_array_get(eos, i) : eos;
        is_right = is_right && is_id(id);
        if (is_right) hf_config_add_end(shape, (int64_t)json_integer_value(id), out, count);
    }
    if (is_right) return MEGA_OK;
    mega_buffer found = {0};
    hf_put_found(&found, eos);
    const mega_status st =
        MEGA_FAIL(MEGA_ERR_FORMAT, "%s: eos_token_id: found %s, expected a token id, a list of one or more, or null",
                  path, found.data != NULL ? found.data : "another value");
    mega_buffer_fini(&found);
    return st;
}

static mega_status read_generation_ends(const char *path, const mega_model_shape *shape, int32_t *out, int *count)
{
    char *text = NULL;
    size_t size = 0;
    json_error_t error = {0};
    if (!mega_file_exists(path)) return MEGA_OK;
    MEGA_TRY(mega_file_read_kind(path, "a configuration in JSON", 0, &text, &size));
    mega_status st = mega_encoding_refuse_mark(path, text, size);
    json_t *json = st == MEGA_OK ? mega_json_load(text, size, JSON_REJECT_DUPLICATES, &error) : NULL;
    mega_free(text);
    MEGA_TRY(st);
    if (json == NULL)
        return MEGA_FAIL(mega_json_status(&error), "%s: line %d: %s; expected a JSON object", path, error.line,
                         error.text);
    st = json_is_object(json) ? take_ends(path, json_object_get(json, "eos_token_id"), shape, out, count)
                              : MEGA_FAIL(MEGA_ERR_FORMAT, "%s: expected one JSON object", path);
    json_decref(json);
    return st;
}

mega_status mega_hf_ends_read(const char *folder, const mega_model_shape *shape, int32_t out[MEGA_SHAPE_EOS],
                              int *count)
{
    char *path = mega_path_join(folder, "generation_config.json");
    *count = 0;
    if (path == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory", folder);
    const mega_status st = read_generation_ends(path, shape, out, count);
    mega_free(path);
    const bool is_said = *count > 0;
    for (int i = 0; i < shape->net.num_eos && !is_said; i++) hf_config_add_end(shape, shape->net.eos[i], out, count);
    if (*count == 0) hf_config_add_end(shape, shape->eos, out, count);
    return st;
}

/* ---- writing ---- */

static const char *hf_dtype_text(mega_dtype t)
{
    return t == MEGA_BF16 ? "bfloat16" : t == MEGA_F16 ? "float16" : t == MEGA_F64 ? "float64" : "float32";
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

/* The lines of the file, each a key and its JSON, until they are sorted. */
enum { HF_LINES = 64 };
typedef struct hf_lines {
    char *line[HF_LINES];
    int count;
    bool is_full;
} hf_lines;

static void hf_config_add_line(void *user, const char *key, const char *json)
{
    hf_lines *l = user;
    mega_buffer b = {0};
    if (json != NULL) mega_buffer_printf(&b, "\"%s\": %s", key, json);
    if (json != NULL && l->count < HF_LINES && mega_buffer_check(&b, "config.json") == MEGA_OK) {
        l->line[l->count++] = b.data;
        return;
    }
    l->is_full = true;
    mega_buffer_fini(&b);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void hf_config_put_id(hf_lines *l, const char *key, int64_t id)
{
    if (id >= 0) hf_put_int(l, hf_config_add_line, key, id);
    else
        hf_config_add_line(l, key, "null");
}

/* One id, or a list of several. */
static void eos_text(mega_buffer *b, const mega_model_shape *s)
{
    const mega_network_shape *n = &s->net;
    if (!n->has_ids || n->num_eos < 2) {
        const int64_t id = n->has_ids && n->num_eos == 1 ? n->eos[0] : s->eos;
        if (id < 0) mega_buffer_puts(b, "null");
        else
            mega_buffer_printf(b, "%lld", (long long)id);
        return;
    }
    for (int i = 0; i < n->num_eos; i++) mega_buffer_printf(b, "%s%lld", i > 0 ? ", " : "[", (long long)n->eos[i]);
    mega_buffer_puts(b, "]");
}

static void put_ids(hf_lines *l, const mega_model_shape *s)
{
    mega_buffer eos = {0};
    eos_text(&eos, s);
    hf_config_put_id(l, "bos_token_id", s->net.has_ids ? s->net.bos : s->eos);
    hf_put_text(l, hf_config_add_line, "eos_token_id", &eos);
    /* said where there is none, too: some classes have a default, and GPT-2's has none */
    if (s->net.has_ids || s->net.family != NULL) hf_config_put_id(l, "pad_token_id", s->net.has_ids ? s->net.pad : -1);
}

static void put_lines(hf_lines *l, const mega_model_shape *s, mega_dtype weights)
{
    const mega_family *f = mega_family_of(&s->net);
    char text[128];
    snprintf(text, sizeof text, "[\n    \"%s\"\n  ]", f->architecture[f->form != NULL ? f->form(s) : 0]);
    hf_config_add_line(l, "architectures", text);
    snprintf(text, sizeof text, "\"%s\"", f->model_type);
    hf_config_add_line(l, "model_type", text);
    snprintf(text, sizeof text, "\"%s\"", hf_dtype_text(weights));
    hf_config_add_line(l, "torch_dtype", text);
    hf_config_add_line(l, "transformers_version", "\"4.57.0\"");
    hf_config_add_line(l, "use_cache", "true");
    put_ids(l, s);
    hf_put_keys(s, l, hf_config_add_line);
    if (s->net.positions == MEGA_POSITIONS_ROPE) hf_put_rope(s, l, hf_config_add_line);
    if (f->write != NULL) f->write(s, l, hf_config_add_line);
}

/* Sorted keys and two blanks, as transformers writes it. Version 5 of transformers checks types, so floats keep their
 * decimal point. Both versions 4 and 5 read the key torch_dtype. */
mega_status mega_hf_config_text(mega_buffer *out, const mega_model_shape *s, mega_dtype weights)
{
    if (s == NULL) return put_own(out, weights);
    hf_lines l = {.count = 0};
    put_lines(&l, s, weights);
    qsort(l.line, (size_t)l.count, sizeof *l.line, by_key);
    mega_buffer_puts(out, "{\n");
    for (int i = 0; i < l.count; i++) {
        mega_buffer_printf(out, "  %s%s\n", l.line[i], i + 1 < l.count ? "," : "");
        mega_free(l.line[i]);
    }
    mega_buffer_puts(out, "}\n");
    if (l.is_full) return MEGA_NO_MEMORY("config.json", "its lines");
    return mega_buffer_check(out, "config.json");
}

mega_status mega_hf_generation_text(mega_buffer *out, const mega_model_shape *s)
{
    mega_buffer eos = {0};
    const int64_t bos = s->net.has_ids ? s->net.bos : s->eos;
    eos_text(&eos, s);
    mega_buffer_puts(out, "{\n  \"_from_model_config\": true,\n");
    if (bos >= 0) mega_buffer_printf(out, "  \"bos_token_id\": %lld,\n", (long long)bos);
    if (eos.data != NULL && strcmp(eos.data, "null") != 0)
        mega_buffer_printf(out, "  \"eos_token_id\": %s,\n", eos.data);
    if (s->net.t5 != MEGA_T5_NONE && s->net.decoder_start >= 0)
        mega_buffer_printf(out, "  \"decoder_start_token_id\": %lld,\n", (long long)s->net.decoder_start);
    if (s->net.has_ids && s->net.pad >= 0)
        mega_buffer_printf(out, "  \"pad_token_id\": %lld,\n", (long long)s->net.pad);
    mega_buffer_puts(out, "  \"transformers_version\": \"4.57.0\"\n}\n");
    const mega_status st = mega_buffer_check(&eos, "generation_config.json");
    mega_buffer_fini(&eos);
    return st == MEGA_OK ? mega_buffer_check(out, "generation_config.json") : st;
}
