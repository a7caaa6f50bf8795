/* The rotation of queries and keys in config.json: rope_theta and rope_scaling beside the other keys, or the object
 * rope_parameters of version 5 of transformers, which may hold one object for each kind of layer. */
#include "hf_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The members of the object, as far as they are numbers. */
static const struct rope_member {
    const char *name;
    size_t field;
} members[] = {{"factor", offsetof(mega_rope_settings, factor)},
               {"beta_fast", offsetof(mega_rope_settings, beta_fast)},
               {"beta_slow", offsetof(mega_rope_settings, beta_slow)},
               {"attention_factor", offsetof(mega_rope_settings, attention_factor)},
               {"mscale", offsetof(mega_rope_settings, mscale)},
               {"mscale_all_dim", offsetof(mega_rope_settings, mscale_all_dim)},
               {"low_freq_factor", offsetof(mega_rope_settings, low_freq_factor)},
               {"high_freq_factor", offsetof(mega_rope_settings, high_freq_factor)},
               {"rope_theta", offsetof(mega_rope_settings, theta)},
               {"partial_rotary_factor", offsetof(mega_rope_settings, fraction)}};
#define NUM_MEMBERS (sizeof members / sizeof *members)

static const struct rope_kind {
    const char *name;
    mega_rope_scaling scaling;
    const char *members; /* in blanks: those that count */
    bool needs_factor;
} kinds[] = {
    {"default", MEGA_ROPE_NONE, " ", false},
    {"linear", MEGA_ROPE_LINEAR, " factor ", true},
    {"dynamic", MEGA_ROPE_DYNAMIC, " factor original_max_position_embeddings ", true},
    {"yarn", MEGA_ROPE_YARN,
     " factor beta_fast beta_slow attention_factor mscale mscale_all_dim truncate original_max_position_embeddings ",
     true},
    {"llama3", MEGA_ROPE_LLAMA3, " factor low_freq_factor high_freq_factor original_max_position_embeddings ", true},
    {"longrope", MEGA_ROPE_LONGROPE,
     " factor attention_factor short_factor long_factor original_max_position_embeddings ", false}};
#define NUM_KINDS (sizeof kinds / sizeof *kinds)

static bool rope_has(const char *words, const char *word)
{
    char spaced[64];
    snprintf(spaced, sizeof spaced, " %s ", word);
    return strstr(words, spaced) != NULL;
}

static const struct rope_kind *rope_find(const char *name)
{
    if (name != NULL && strcmp(name, "su") == 0) name = "longrope"; /* its first name, in folders of Phi-3 */
    for (size_t i = 0; name != NULL && i < NUM_KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
    return NULL;
}

/* The path of a member for messages: "rope_scaling.factor". */
static void rope_refuse(hf_reader *r, const char *object, const char *member, const json_t *found, const char *expected)
{
    char path[128];
    snprintf(path, sizeof path, "%s.%s", object, member);
    hf_refuse(r, path, found, expected);
}

static void rope_take_factors(hf_reader *r, const char *object, const char *member, const json_t *list,
                              mega_rope_settings *out, double *factor)
{
    const size_t n = json_array_size(list);
    bool is_right = json_is_array(list) && n >= 1 && n <= MEGA_SHAPE_FACTORS;
    for (size_t i = 0; i < n && is_right; i++) {
        const json_t *v = json_array_get(list, i);
        is_right = json_is_number(v) && json_number_value(v) > 0.0;
        factor[i] = json_number_value(v);
    }
    if (!is_right || (out->num_factors != 0 && out->num_factors != (int)n))
        rope_refuse(r, object, member, list, "a list of numbers above 0, one for each pair of rotated channels");
    else
        out->num_factors = (int)n;
}

/* Families that rotate a part of each head. In all others transformers does not read the key, or cannot compute with
 * it. */
static bool rotates_part(const mega_family *f)
{
    return rope_has(f->rope_keys, "partial_rotary_factor") || rope_has(f->rope_keys, "rotary_pct");
}

static bool hf_rope_is_number(const json_t *v, double value)
{
    return v == NULL || json_is_null(v) || (json_is_number(v) && json_number_value(v) == value);
}

/* path: of the key, for messages. */
static void rope_refuse_part(hf_reader *r, const char *path, const json_t *v)
{
    char expected[128];
    snprintf(expected, sizeof expected, "1.0, or no such key: model_type %s rotates whole heads",
             r->family->model_type);
    hf_refuse(r, path, v, expected);
}

/* short_mscale and long_mscale, which count for short and for long texts: one number for both, the attention_factor. */
static void rope_take_mscale(hf_reader *r, const char *object, const char *member, const json_t *v,
                             mega_rope_settings *out)
{
    const double scale = json_number_value(v);
    if (!json_is_number(v) || !isfinite(scale) || !(scale > 0.0)) rope_refuse(r, object, member, v, "a number above 0");
    else if (out->attention_factor != 0.0 && out->attention_factor != scale)
        rope_refuse(r, object, member, v,
                    "the same number in short_mscale and long_mscale (two are not implemented yet)");
    else
        out->attention_factor = scale;
}

/* Takes one member; false: this kind does not know it. */
static bool rope_take_member(hf_reader *r, const char *object, const struct rope_kind *kind, const char *name,
                             const json_t *v, mega_rope_settings *out)
{
    const bool is_general = strcmp(name, "rope_theta") == 0 || strcmp(name, "partial_rotary_factor") == 0;
    if (strcmp(name, "rope_type") == 0 || strcmp(name, "type") == 0) return true;
    if (r->family->has_mscales && rope_has(" attention_factor mscale mscale_all_dim ", name)) return json_is_null(v);
    if (r->family->has_mscales && rope_has(" short_mscale long_mscale ", name)) {
        rope_take_mscale(r, object, name, v, out);
        return kind->scaling == MEGA_ROPE_LONGROPE;
    }
    if (!is_general && !rope_has(kind->members, name)) return json_is_null(v);
    if (strcmp(name, "partial_rotary_factor") == 0 && !rotates_part(r->family)) {
        char path[128];
        snprintf(path, sizeof path, "%s.%s", object, name);
        if (!hf_rope_is_number(v, 1.0)) rope_refuse_part(r, path, v);
        return true;
    }
    for (size_t i = 0; i < NUM_MEMBERS; i++) {
        if (strcmp(members[i].name, name) != 0) continue;
        double *field = (double *)(void *)((char *)out + members[i].field);
        if (json_is_null(v)) return true;
        if (json_is_number(v) && isfinite(json_number_value(v)) && json_number_value(v) > 0.0)
            *field = json_number_value(v);
        else
            rope_refuse(r, object, name, v, "a number above 0");
        return true;
    }
    if (strcmp(name, "truncate") == 0) {
        if (!json_is_boolean(v)) rope_refuse(r, object, name, v, "true or false");
        out->no_truncate = json_is_false(v);
    } else if (strcmp(name, "short_factor") == 0) {
        rope_take_factors(r, object, name, v, out, out->short_factor);
    } else if (strcmp(name, "long_factor") == 0) {
        rope_take_factors(r, object, name, v, out, out->long_factor);
    } else if (json_is_integer(v) && json_integer_value(v) > 0) {
        out->original_positions = (int64_t)json_integer_value(v);
    } else if (!json_is_null(v)) {
        rope_refuse(r, object, name, v, "a whole number above 0");
    }
    return true;
}

/* Reads one object of the rotation. */
static void rope_take_object(hf_reader *r, const char *name, const json_t *object, mega_rope_settings *out)
{
    if (!json_is_object(object)) {
        hf_refuse(r, name, object, "an object");
        return;
    }
    const json_t *type = json_object_get(object, "rope_type");
    if (type == NULL || json_is_null(type)) type = json_object_get(object, "type");
    const struct rope_kind *kind = type == NULL || json_is_null(type) ? &kinds[0] : rope_find(json_string_value(type));
    if (kind == NULL) {
        rope_refuse(r, name, "rope_type", type, "default, linear, dynamic, yarn, llama3 or longrope");
        return;
    }
    out->scaling = kind->scaling;
    for (void *it = json_object_iter((json_t *)(uintptr_t)object); it != NULL;
         it = json_object_iter_next((json_t *)(uintptr_t)object, it)) {
        const char *member = json_object_iter_key(it);
        const json_t *v = json_object_iter_value(it);
        char expected[128];
        if (rope_take_member(r, name, kind, member, v, out)) continue;
        snprintf(expected, sizeof expected, "no such member with rope_type %s", kind->name);
        rope_refuse(r, name, member, v, expected);
    }
    if (kind->needs_factor && out->factor == 0.0) rope_refuse(r, name, "factor", NULL, "a number above 0");
    if (kind->scaling == MEGA_ROPE_LLAMA3 && (out->low_freq_factor == 0.0 || out->high_freq_factor == 0.0))
        rope_refuse(r, name, "low_freq_factor", NULL, "low_freq_factor and high_freq_factor");
    if (kind->scaling == MEGA_ROPE_LONGROPE && out->num_factors == 0)
        rope_refuse(r, name, "long_factor", NULL, "long_factor and short_factor");
    if (kind->scaling == MEGA_ROPE_LONGROPE && r->family->has_mscales &&
        (json_object_get(object, "short_mscale") == NULL || json_object_get(object, "long_mscale") == NULL))
        rope_refuse(r, name, "short_mscale", json_object_get(object, "short_mscale"), "short_mscale and long_mscale");
}

/* One object for each kind of layer; that of layers with a window may only differ in theta. */
static void rope_take_by_layer(hf_reader *r, const json_t *object, mega_model_shape *s)
{
    mega_rope_settings window = {.theta = s->net.window_theta > 0.0 ? s->net.window_theta : s->net.rope.theta};
    const json_t *full = json_object_get(object, "full_attention"),
                 *sliding = json_object_get(object, "sliding_attention");
    for (void *it = json_object_iter((json_t *)(uintptr_t)object); it != NULL;
         it = json_object_iter_next((json_t *)(uintptr_t)object, it)) {
        const char *name = json_object_iter_key(it);
        if (strcmp(name, "full_attention") != 0 && strcmp(name, "sliding_attention") != 0)
            rope_refuse(r, "rope_parameters", name, json_object_iter_value(it), "full_attention and sliding_attention");
    }
    if (full != NULL && !json_is_null(full)) rope_take_object(r, "rope_parameters.full_attention", full, &s->net.rope);
    if (sliding != NULL && !json_is_null(sliding)) {
        rope_take_object(r, "rope_parameters.sliding_attention", sliding, &window);
        if (window.scaling != MEGA_ROPE_NONE || window.fraction != 0.0)
            rope_refuse(r, "rope_parameters.sliding_attention", "rope_type", json_object_get(sliding, "rope_type"),
                        "default (a scaled rotation of layers with a window is not implemented yet)");
    }
    s->net.window_theta = window.theta;
}

static void rope_take_fraction(hf_reader *r, const char *key, mega_rope_settings *rope)
{
    if (!rope_has(r->family->rope_keys, key)) return;
    rope->fraction = hf_take_float(r, key, rope->fraction);
}

static void hf_rope_check(hf_reader *r, mega_model_shape *s)
{
    mega_rope_settings *rope = &s->net.rope;
    const int64_t of_latent = s->net.latent.rope_dim; /* of a head whose last channels alone are rotated */
    const int64_t head_dim = of_latent > 0         ? of_latent
                             : s->net.head_dim > 0 ? s->net.head_dim
                             : s->heads > 0        ? s->hidden / s->heads
                                                   : 0;
    const double share = rope->fraction > 0.0 ? rope->fraction : 1.0;
    const int64_t rotated = (int64_t)((double)head_dim * share);
    char expected[128];
    if (!(rope->theta > 0.0)) hf_refuse(r, "rope_theta", NULL, "a number above 0");
    if (share == 1.0 && head_dim > 0 && head_dim % 2 != 0) {
        const char *key = of_latent > 0 ? "qk_rope_head_dim" : "head_dim";
        const bool is_said = of_latent > 0 || json_object_get(r->json, "head_dim") != NULL;
        snprintf(expected, sizeof expected, "heads of an even number of channels, which the rotation turns in pairs%s",
                 is_said ? "" : " (hidden_size divided by num_attention_heads)");
        if (!is_said) key = "num_attention_heads";
        hf_refuse(r, key, json_object_get(r->json, key), expected);
    } else if (share > 1.0 || rotated < 2 || rotated % 2 != 0) {
        snprintf(expected, sizeof expected, "a share of the %lld channels of a head that is an even number of them",
                 (long long)head_dim);
        hf_refuse(r, "partial_rotary_factor", json_object_get(r->json, "partial_rotary_factor"), expected);
    }
    if (rope->scaling == MEGA_ROPE_LONGROPE && rope->num_factors != 0 && rope->num_factors != rotated / 2) {
        snprintf(expected, sizeof expected, "lists of %lld numbers, half the rotated channels",
                 (long long)(rotated / 2));
        hf_refuse(r, "rope_scaling.long_factor", NULL, expected);
    }
    if (rope->fraction == 1.0) rope->fraction = 0.0;
    if (rope->scaling == MEGA_ROPE_NONE || rope->scaling == MEGA_ROPE_LINEAR) rope->original_positions = 0;
    else if (rope->original_positions == 0)
        rope->original_positions = s->positions;
    if (rope->scaling == MEGA_ROPE_LONGROPE && rope->factor == 0.0)
        rope->factor = (double)s->positions / (double)rope->original_positions;
}

/* The key of theta, and that of layers with a window, if it has one. */
static const char *theta_key(const mega_family *f)
{
    return rope_has(f->rope_keys, "rotary_emb_base")     ? "rotary_emb_base"
           : rope_has(f->rope_keys, "global_rope_theta") ? "global_rope_theta"
                                                         : "rope_theta";
}

static const char *window_theta_key(const mega_family *f)
{
    return rope_has(f->rope_keys, "rope_local_base_freq") ? "rope_local_base_freq"
           : rope_has(f->rope_keys, "local_rope_theta")   ? "local_rope_theta"
                                                          : NULL;
}

/* Keys beside the rotation that transformers does not read: they say the same, or are refused. */
static void rope_check_ignored(hf_reader *r, const mega_rope_settings *rope)
{
    static const char part[] = "partial_rotary_factor", theta[] = "rope_theta";
    const char *own = theta_key(r->family);
    const double fraction = rope->fraction > 0.0 ? rope->fraction : 1.0;
    char expected[96];
    if (!rope_has(r->family->rope_keys, part) && !hf_rope_is_number(hf_take(r, part), fraction)) {
        snprintf(expected, sizeof expected, "%g, or no such key: rotary_pct counts", fraction);
        if (rotates_part(r->family)) hf_refuse(r, part, json_object_get(r->json, part), expected);
        else
            rope_refuse_part(r, part, json_object_get(r->json, part));
    }
    if (strcmp(own, theta) != 0 && !hf_rope_is_number(hf_take(r, theta), rope->theta)) {
        snprintf(expected, sizeof expected, "%g, or no such key: %s counts", rope->theta, own);
        hf_refuse(r, theta, json_object_get(r->json, theta), expected);
    }
}

/* Models with two thetas have an object for each kind of layer. */
static void rope_take_objects(hf_reader *r, mega_model_shape *s)
{
    const json_t *old = hf_take(r, "rope_scaling"), *parameters = hf_take(r, "rope_parameters");
    const bool by_layer = window_theta_key(r->family) != NULL, is_old = old != NULL && !json_is_null(old);
    if (parameters != NULL && !json_is_null(parameters)) {
        const bool is_by_layer = json_object_get(parameters, "full_attention") != NULL ||
                                 json_object_get(parameters, "sliding_attention") != NULL;
        if (by_layer && is_by_layer) rope_take_by_layer(r, parameters, s);
        else if (by_layer)
            hf_refuse(r, "rope_parameters", parameters, "the members full_attention and sliding_attention");
        else
            rope_take_object(r, "rope_parameters", parameters, &s->net.rope);
    }
    if (is_old && s->net.is_encoder) hf_refuse(r, "rope_scaling", old, "null, as of all encoders");
    else if (is_old && by_layer && json_object_get(old, "rope_type") == NULL)
        hf_refuse(r, "rope_scaling", old, "a rope_type, which transformers reads here instead of type");
    else if (is_old)
        rope_take_object(r, "rope_scaling", old, &s->net.rope);
}

void hf_take_rope(hf_reader *r, mega_model_shape *s)
{
    mega_rope_settings *rope = &s->net.rope;
    rope->theta = r->family->theta;
    rope->fraction = r->family->fraction;
    const char *own = theta_key(r->family), *of_windows = window_theta_key(r->family);
    rope->theta = hf_take_float(r, own, rope->theta);
    if (of_windows != NULL) s->net.window_theta = hf_take_float(r, of_windows, 10000.0);
    rope_take_fraction(r, "partial_rotary_factor", rope);
    rope_take_fraction(r, "rotary_pct", rope);
    if (r->family->is_yarn && !json_is_object(json_object_get(r->json, "rope_scaling")) &&
        !json_is_object(json_object_get(r->json, "rope_parameters"))) {
        rope->scaling = MEGA_ROPE_YARN, rope->no_truncate = true;
        rope->factor = rope->beta_fast = 32.0, rope->beta_slow = 1.0, rope->original_positions = 4096;
    }
    rope_take_objects(r, s);
    if (rope_has(r->family->rope_keys, "original_max_position_embeddings")) {
        const int64_t original = hf_take_int(r, "original_max_position_embeddings", rope->original_positions);
        if (rope->scaling == MEGA_ROPE_LONGROPE) rope->original_positions = original;
    }
    rope_check_ignored(r, rope);
    hf_rope_check(r, s);
}

/* ---- writing ---- */

static void rope_put_factors(mega_buffer *b, const char *name, const double *factor, int count)
{
    mega_buffer_printf(b, ", \"%s\": [", name);
    for (int i = 0; i < count; i++) {
        if (i > 0) mega_buffer_puts(b, ", ");
        mega_buffer_json_double(b, factor[i]);
    }
    mega_buffer_puts(b, "]");
}

static const char *rope_name(mega_rope_scaling scaling)
{
    for (size_t i = 0; i < NUM_KINDS; i++)
        if (kinds[i].scaling == scaling) return kinds[i].name;
    return "default";
}

/* Both have the number of the attention_factor; without one, that which follows from the lengths. */
static void rope_put_mscales(mega_buffer *b, const mega_rope_settings *rope)
{
    const double factor = rope->factor, length = (double)rope->original_positions;
    const double own = factor <= 1.0 ? 1.0 : sqrt(1.0 + log(factor) / log(length));
    for (int i = 0; i < 2; i++) {
        mega_buffer_puts(b, i == 0 ? ", \"short_mscale\": " : ", \"long_mscale\": ");
        mega_buffer_json_double(b, rope->attention_factor > 0.0 ? rope->attention_factor : own);
    }
}

static void rope_put_object(mega_buffer *b, const mega_family *f, const mega_rope_settings *rope, bool with_theta)
{
    const struct rope_kind *kind = rope_find(rope_name(rope->scaling));
    mega_buffer_printf(b, "{\"rope_type\": \"%s\"", kind->name);
    const bool has_mscales = f->has_mscales && rope->scaling == MEGA_ROPE_LONGROPE;
    for (size_t i = 0; i < NUM_MEMBERS; i++) {
        const double value = *(const double *)(const void *)((const char *)rope + members[i].field);
        const bool is_theta = strcmp(members[i].name, "rope_theta") == 0;
        if (has_mscales && strcmp(members[i].name, "attention_factor") == 0) continue;
        if (value == 0.0 || (is_theta ? !with_theta : !rope_has(kind->members, members[i].name))) continue;
        mega_buffer_printf(b, ", \"%s\": ", members[i].name);
        mega_buffer_json_double(b, value);
    }
    if (has_mscales) rope_put_mscales(b, rope);
    if (rope->no_truncate && rope->scaling == MEGA_ROPE_YARN) mega_buffer_puts(b, ", \"truncate\": false");
    if (rope_has(kind->members, "original_max_position_embeddings") && rope->original_positions > 0)
        mega_buffer_printf(b, ", \"original_max_position_embeddings\": %lld", (long long)rope->original_positions);
    if (rope->scaling == MEGA_ROPE_LONGROPE) {
        rope_put_factors(b, "short_factor", rope->short_factor, rope->num_factors);
        rope_put_factors(b, "long_factor", rope->long_factor, rope->num_factors);
    }
    mega_buffer_puts(b, "}");
}

static void rope_put_number(void *user, hf_put *put, const char *key, double value)
{
    mega_buffer b = {0};
    mega_buffer_json_double(&b, value);
    hf_put_text(user, put, key, &b);
}

/* Version 4 of transformers reads the keys that we write; version 5 reads them too. */
void hf_put_rope(const mega_model_shape *s, void *user, hf_put *put)
{
    const mega_family *f = mega_family_of(&s->net);
    const mega_rope_settings *rope = &s->net.rope;
    const double fraction = rope->fraction > 0.0 ? rope->fraction : 1.0;
    mega_buffer b = {0};
    const char *of_windows = window_theta_key(f);
    rope_put_number(user, put, theta_key(f), rope->theta);
    if (rope_has(f->rope_keys, "rotary_pct")) rope_put_number(user, put, "rotary_pct", fraction);
    else if (rope_has(f->rope_keys, "partial_rotary_factor") && (f->fraction > 0.0 || fraction != 1.0))
        rope_put_number(user, put, "partial_rotary_factor", fraction);
    if (of_windows != NULL)
        rope_put_number(user, put, of_windows, s->net.window_theta > 0.0 ? s->net.window_theta : rope->theta);
    if (rope_has(f->rope_keys, "original_max_position_embeddings") && rope->original_positions > 0)
        hf_put_int(user, put, "original_max_position_embeddings", rope->original_positions);
    if (rope->scaling != MEGA_ROPE_NONE || f->is_yarn) rope_put_object(&b, f, rope, false);
    else
        mega_buffer_puts(&b, "null");
    hf_put_text(user, put, "rope_scaling", &b);
}
