/* Writes a tree of JSON as YAML, in the form of PyYAML's safe_dump: libyaml's emitter has the same rules. */
#include "yaml_impl.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

static int yaml_append(void *user, unsigned char *bytes, size_t count)
{
    return mega_buffer_append(user, bytes, count) ? 1 : 0;
}

static bool yaml_emit(yaml_emitter_t *emitter, yaml_event_t *event, int is_made)
{
    return is_made && yaml_emitter_emit(emitter, event); /* frees the event */
}

static bool emit_word(yaml_emitter_t *emitter, const char *word, bool is_text)
{
    yaml_event_t e;
    const bool may_be_plain = !is_text || yaml_kind_of(word) == YAML_TEXT;
    return yaml_emit(emitter, &e,
                     yaml_scalar_event_initialize(&e, NULL, NULL, (const yaml_char_t *)word, (int)strlen(word),
                                                  may_be_plain, is_text, YAML_ANY_SCALAR_STYLE));
}

/* As Python prints it: 1.0, 0.25, 1e-05 (with the dot that YAML 1.1 asks for: 1.0e-05). */
static bool emit_double(yaml_emitter_t *emitter, double x)
{
    char text[48], shown[64];
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, x);
        if (strtod(text, NULL) == x) break;
    }
    const size_t mantissa = strcspn(text, "e");
    snprintf(shown, sizeof shown, "%.*s%s%s", (int)mantissa, text, memchr(text, '.', mantissa) == NULL ? ".0" : "",
             text + mantissa);
    return emit_word(emitter, shown, false);
}

static bool emit_node(yaml_emitter_t *emitter, const json_t *node);

static int by_yaml_key(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool emit_mapping(yaml_emitter_t *emitter, json_t *object)
{
    yaml_event_t e;
    const char *name;
    json_t *value;
    size_t count = 0;
    const char **names = mega_calloc(json_object_size(object) + 1, sizeof *names);
    bool is_well =
        names != NULL &&
        yaml_emit(emitter, &e, yaml_mapping_start_event_initialize(&e, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE));
    json_object_foreach(object, name, value)
    {
        if (is_well) names[count++] = name;
    }
    if (is_well) qsort(names, count, sizeof *names, by_yaml_key);
    for (size_t i = 0; is_well && i < count; i++)
        is_well = emit_word(emitter, names[i], true) && emit_node(emitter, json_object_get(object, names[i]));
    mega_free(names);
    return is_well && yaml_emit(emitter, &e, yaml_mapping_end_event_initialize(&e));
}

static bool emit_sequence(yaml_emitter_t *emitter, const json_t *array)
{
    yaml_event_t e;
    bool is_well =
        yaml_emit(emitter, &e, yaml_sequence_start_event_initialize(&e, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE));
    for (size_t i = 0; is_well && i < json_array_size(array); i++)
        is_well = emit_node(emitter, json_array_get(array, i));
    return is_well && yaml_emit(emitter, &e, yaml_sequence_end_event_initialize(&e));
}

static bool emit_node(yaml_emitter_t *emitter, const json_t *node)
{
    char number[32];
    switch (json_typeof(node)) {
    case JSON_OBJECT: return emit_mapping(emitter, (json_t *)node);
    case JSON_ARRAY: return emit_sequence(emitter, node);
    case JSON_STRING: return emit_word(emitter, json_string_value(node), true);
    case JSON_INTEGER:
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(node));
        return emit_word(emitter, number, false);
    case JSON_REAL: return emit_double(emitter, json_real_value(node));
    case JSON_TRUE: return emit_word(emitter, "true", false);
    case JSON_FALSE: return emit_word(emitter, "false", false);
    case JSON_NULL: break;
    }
    return emit_word(emitter, "null", false);
}

mega_status mega_yaml_write(const json_t *tree, mega_buffer *out)
{
    yaml_emitter_t emitter;
    yaml_event_t e;
    if (!yaml_emitter_initialize(&emitter)) return MEGA_NO_MEMORY("YAML", "writing it");
    yaml_emitter_set_output(&emitter, yaml_append, out);
    const bool is_whole = yaml_emit(&emitter, &e, yaml_stream_start_event_initialize(&e, YAML_UTF8_ENCODING)) &&
                          yaml_emit(&emitter, &e, yaml_document_start_event_initialize(&e, NULL, NULL, NULL, 1)) &&
                          emit_node(&emitter, tree) &&
                          yaml_emit(&emitter, &e, yaml_document_end_event_initialize(&e, 1)) &&
                          yaml_emit(&emitter, &e, yaml_stream_end_event_initialize(&e)) && yaml_emitter_flush(&emitter);
    const char *problem = emitter.problem;
    const mega_status st = is_whole ? MEGA_OK
                           : emitter.error == YAML_EMITTER_ERROR && problem != NULL
                               ? MEGA_FAIL(MEGA_ERR_FORMAT, "YAML: %s", problem)
                               : MEGA_NO_MEMORY("YAML", "writing it");
    yaml_emitter_delete(&emitter);
    return st;
}
