/* Values of a DeepSpeed JSON, or of Accelerate's YAML, as texts: in the form used in argv, for messages, and compared
 * with the words that a key takes. */
#include "json_values.h"
#include "config_impl.h"
#include "megalith/json.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *json_number_text(mega_options *o, const json_t *value)
{
    if (json_is_integer(value)) return mega_options_text(o, "%lld", (long long)json_integer_value(value));
    mega_buffer b = {0};
    const bool whole = mega_value_print_double(json_real_value(value), &b);
    const char *text = whole ? mega_options_text(o, "%s", b.data) : "";
    mega_buffer_fini(&b);
    return text;
}

const char *json_shown(mega_options *o, const json_t *value)
{
    if (json_is_number(value)) return json_number_text(o, value);
    char *text = mega_json_dump(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    const char *shown = text != NULL ? mega_options_text(o, "%.60s%s", text, strlen(text) > 60 ? "…" : "") : "?";
    free(text);
    return shown;
}

const char *json_expected(mega_option_kind kind)
{
    switch (kind) {
    case MEGA_OPTION_FLAG:
    case MEGA_OPTION_OFF:
    case MEGA_OPTION_BOOL: return "true or false";
    case MEGA_OPTION_INT: return "a whole number";
    case MEGA_OPTION_FLOAT: return "a number";
    case MEGA_OPTION_BYTES: return "a size in bytes";
    case MEGA_OPTION_INT3: return "three whole numbers in brackets";
    case MEGA_OPTION_LIST: return "a list of strings";
    case MEGA_OPTION_APPEND: return "a list of strings, or of objects with \"params\"";
    default: return "a string";
    }
}

bool json_takes_list(mega_option_kind kind)
{
    return kind == MEGA_OPTION_INT3 || kind == MEGA_OPTION_LIST || kind == MEGA_OPTION_APPEND;
}

/* Converts an array to texts and returns their number; returns 0 for anything else. */
static size_t list_texts(mega_options *o, mega_option_kind kind, const json_t *array, const char **out)
{
    const size_t count = json_array_size(array);
    if (!json_is_array(array) || (kind == MEGA_OPTION_INT3 && count != 3)) return 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, i);
        const bool is_group = kind == MEGA_OPTION_APPEND && json_is_object(item);
        if (is_group && (out[i] = json_group_text(o, item)) == NULL) return 0;
        if (is_group) continue;
        if (!json_is_number(item) && (kind == MEGA_OPTION_INT3 || !json_is_string(item))) return 0;
        out[i] = json_is_number(item) ? json_number_text(o, item) : mega_options_text(o, "%s", json_string_value(item));
    }
    return count;
}

/* A YAML may say a switch in words ("true"), and a word without quotation marks may be taken for a switch: no. */
static size_t yaml_texts(mega_options *o, mega_option_kind kind, const json_t *value, const char **out)
{
    static const char *const yes = "y|yes|t|true|on|1", *const no = "n|no|f|false|off|0";
    const bool is_switch = kind == MEGA_OPTION_FLAG || kind == MEGA_OPTION_OFF || kind == MEGA_OPTION_BOOL;
    if (is_switch) {
        const char *word = json_is_integer(value) ? json_number_text(o, value) : json_string_value(value);
        char lower[8] = "";
        for (size_t i = 0; word != NULL && word[i] != '\0' && i < sizeof lower - 1; i++)
            lower[i] = (char)tolower((unsigned char)word[i]);
        if (word == NULL || (!mega_option_word_in(yes, lower, NULL) && !mega_option_word_in(no, lower, NULL))) return 0;
        out[0] = mega_option_word_in(yes, lower, NULL) ? "true" : "false";
        return 1;
    }
    out[0] = json_is_true(value) ? "yes" : "no";
    return 1;
}

size_t json_value_texts(mega_options *o, bool is_yaml, const mega_option_row *row, const json_t *value,
                        const char **out)
{
    const mega_option_kind kind = row->kind;
    const bool is_switch = kind == MEGA_OPTION_FLAG || kind == MEGA_OPTION_OFF || kind == MEGA_OPTION_BOOL;
    if (kind == MEGA_OPTION_INT3 || (json_takes_list(kind) && json_is_array(value)))
        return list_texts(o, kind, value, out);
    const bool is_word = kind == MEGA_OPTION_STRING || kind == MEGA_OPTION_CHOICE;
    if (is_yaml && (json_is_boolean(value) ? is_word : is_switch)) return yaml_texts(o, kind, value, out);
    if (is_switch ? !json_is_boolean(value) : kind != MEGA_OPTION_ANY && json_is_boolean(value)) return 0;
    if (json_is_boolean(value)) out[0] = json_is_true(value) ? "true" : "false";
    else if (json_is_number(value) && (kind == MEGA_OPTION_INT || kind == MEGA_OPTION_FLOAT ||
                                       kind == MEGA_OPTION_BYTES || kind == MEGA_OPTION_ANY))
        out[0] = json_number_text(o, value);
    else if (json_is_string(value) && kind != MEGA_OPTION_INT && kind != MEGA_OPTION_FLOAT)
        out[0] = mega_options_text(o, "%s", json_string_value(value));
    else if (kind == MEGA_OPTION_ANY)
        out[0] = json_shown(o, value);
    else
        return 0;
    return 1;
}

/* Words are compared as the program does it that reads the key: exactly, or in any case if the row folds them; one with
 * '=' before it exactly all the same. */
const char *json_case_of(mega_options *o, const mega_option_row *row, const char *value, bool folds,
                         const char **out_names)
{
    const size_t n = strlen(value);
    *out_names = "";
    for (const char *at = row->cases; at != NULL; at = strchr(at, '|')) {
        if (*at == '|') at++;
        const bool is_exact = *at == '=';
        at += is_exact;
        const bool is_same =
            folds || (row->folds_case && !is_exact) ? strncasecmp(at, value, n) == 0 : strncmp(at, value, n) == 0;
        if (is_same && at[n] == ':') return at + n + 1;
        *out_names = mega_options_text(o, "%s%s%.*s", *out_names, (*out_names)[0] != '\0' ? ", " : "",
                                       (int)strcspn(at, ":"), at);
    }
    return NULL;
}
