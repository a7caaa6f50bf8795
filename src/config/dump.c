/* The configuration written out: Megatron's dump of arguments, and JSON for the provenance of a checkpoint. */
#include "config_impl.h"
#include "megalith/json.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DOT_COLUMNS 48

typedef struct dump_line {
    char name[80];
    char *value;
    int rank; /* of two lines with one name (--x and --no-x are one destination) the lower is shown */
} dump_line;

static int by_name(const void *a, const void *b)
{
    const dump_line *x = a, *y = b;
    const int order = strcasecmp(x->name, y->name);
    if (order == 0) return strcmp(x->name, y->name) != 0 ? strcmp(x->name, y->name) : x->rank - y->rank;
    return order;
}

/* Lists look as Python prints them, for parsers that read them so. */
static char *dump_value(const mega_config *cfg, size_t index)
{
    const option_row *row = mega_option_row(index);
    mega_buffer b = {0};
    if (row->field != NO_FIELD && (row->kind == KIND_LIST || row->kind == KIND_APPEND)) {
        mega_list list;
        memcpy(&list, (const char *)cfg + row->field, sizeof list);
        if (list.count > 0) {
            for (size_t i = 0; i < list.count; i++) mega_buffer_printf(&b, "%s'%s'", i == 0 ? "[" : ", ", list.item[i]);
            mega_buffer_puts(&b, "]");
            return b.data;
        }
    }
    if (row->kind == KIND_CHOICE && strncmp(row->choices, "none|", 5) == 0) {
        mega_value_print(cfg, index, &b);
        if (b.data != NULL && strcmp(b.data, "none") == 0) {
            mega_buffer_fini(&b);
            mega_buffer_puts(&b, "None");
        }
        return b.data;
    }
    mega_value_print(cfg, index, &b);
    return b.data;
}

static const char *derived_value(const mega_config *cfg, size_t which, const char **out_name, char text[32])
{
    const struct {
        const char *name;
        int64_t value;
    } derived[] = {{"consumed_train_samples", cfg->consumed_train_samples},
                   {"consumed_valid_samples", cfg->consumed_valid_samples},
                   {"data_parallel_size", cfg->data_parallel_size},
                   {"padded_vocab_size", cfg->padded_vocab_size},
                   {"rank", cfg->rank},
                   {"world_size", cfg->world_size}};
    if (which == ROW_COUNT(derived)) {
        *out_name = "params_dtype";
        return mega_dtype_name(cfg->params_dtype);
    }
    if (which > ROW_COUNT(derived)) return NULL;
    *out_name = derived[which].name;
    snprintf(text, 32, "%lld", (long long)derived[which].value);
    return text;
}

/* Lines of the dump: the destinations of the command (of models that are not built: those given), then what is derived.
 */
static size_t collect_lines(const mega_config *cfg, dump_line *line, size_t most)
{
    size_t n = 0;
    const size_t count = mega_option_count();
    for (size_t i = 0; i < count && n < most; i++) {
        const option_row *row = mega_option_row(i);
        if ((mega_option_commands(i) & cfg->state->command->bit) == 0 || row->answer == ANSWER_RENAMED) continue;
        const bool said = cfg->state->entry[i].source != MEGA_SET_BY_DEFAULT;
        if (!said && mega_option_is_foreign(i)) continue;
        mega_option_dest(row, line[n].name);
        line[n].value = dump_value(cfg, i);
        line[n].rank = said ? 0 : row->answer == ANSWER_WORKS ? 1 : row->kind == KIND_OFF ? 3 : 2;
        n++;
    }
    const char *name = NULL;
    char text[32];
    for (size_t i = 0; n < most; i++) {
        const char *value = derived_value(cfg, i, &name, text);
        if (value == NULL) break;
        snprintf(line[n].name, sizeof line[n].name, "%s", name);
        line[n].value = mega_strdup(value);
        line[n].rank = 0;
        n++;
    }
    return n;
}

mega_status mega_config_alike(mega_config *cfg, mega_list *out)
{
    const size_t rows = mega_option_count();
    const char **text = mega_arena_alloc(&cfg->arena, rows * sizeof *text);
    size_t count = 0;
    bool is_whole = text != NULL;
    for (size_t i = 0; is_whole && i < rows; i++) {
        if (!mega_option_is_alike(i)) continue;
        mega_buffer line = {0};
        is_whole = mega_buffer_printf(&line, "--%s ", mega_option_row(i)->name) && mega_value_print(cfg, i, &line);
        text[count] = is_whole ? mega_arena_strdup(&cfg->arena, line.data) : NULL;
        is_whole = text[count++] != NULL;
        mega_buffer_fini(&line);
    }
    if (!is_whole) return MEGA_FAIL(MEGA_ERR_MEMORY, "options: no memory to compare them over ranks");
    *out = (mega_list){text, count};
    return MEGA_OK;
}

mega_status mega_config_dump_arguments(const mega_config *cfg, mega_buffer *out)
{
    const size_t most = mega_option_count() + 16;
    dump_line *line = mega_calloc(most, sizeof *line);
    if (line == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "arguments: no memory to list them");
    const size_t n = collect_lines(cfg, line, most);
    qsort(line, n, sizeof *line, by_name);
    mega_buffer_puts(out, "------------------------ arguments ------------------------\n");
    for (size_t i = 0; i < n; i++) {
        const size_t length = strlen(line[i].name);
        if (i > 0 && strcmp(line[i].name, line[i - 1].name) == 0) {
            mega_free(line[i].value);
            continue;
        }
        mega_buffer_printf(out, "  %s ", line[i].name);
        for (size_t dot = length; dot < DOT_COLUMNS; dot++) mega_buffer_puts(out, ".");
        mega_buffer_printf(out, " %s\n", line[i].value != NULL ? line[i].value : "");
        mega_free(line[i].value);
    }
    mega_free(line);
    mega_buffer_puts(out, "-------------------- end of arguments ---------------------\n");
    return mega_buffer_check(out, "the list of arguments");
}

/* ---- JSON ---- */

static json_t *json_of_list(const mega_list *list)
{
    json_t *array = json_array();
    bool whole = array != NULL;
    for (size_t i = 0; whole && i < list->count; i++)
        whole = json_array_append_new(array, json_string(list->item[i])) == 0;
    if (whole) return array;
    json_decref(array);
    return NULL;
}

static json_t *json_of(const mega_config *cfg, size_t index)
{
    const option_row *row = mega_option_row(index);
    const char *field = (const char *)cfg + row->field;
    int64_t n[3];
    double x;
    bool on;
    const char *text;
    mega_list list;
    mega_buffer b = {0};
    json_t *value = NULL;
    switch (row->kind) {
    case KIND_FLAG:
    case KIND_OFF: memcpy(&on, field, sizeof on); return json_boolean(on);
    case KIND_INT:
    case KIND_BYTES: memcpy(n, field, sizeof n[0]); return json_integer(n[0]);
    case KIND_FLOAT: memcpy(&x, field, sizeof x); return isnan(x) ? json_null() : json_real(x);
    case KIND_STRING: memcpy(&text, field, sizeof text); return text != NULL ? json_string(text) : json_null();
    case KIND_INT3: memcpy(n, field, sizeof n); return json_pack("[I,I,I]", n[0], n[1], n[2]);
    case KIND_LIST:
    case KIND_APPEND: memcpy(&list, field, sizeof list); return json_of_list(&list);
    case KIND_CHOICE:
        mega_value_print(cfg, index, &b);
        value = json_string(b.data != NULL ? b.data : "");
        mega_buffer_fini(&b);
        return value;
    case KIND_ANY:
    case KIND_BOOL: break;
    }
    return json_null();
}

mega_status mega_config_to_json(const mega_config *cfg, mega_buffer *out)
{
    json_t *all = json_object();
    const size_t count = mega_option_count();
    const uint32_t bit = cfg->state->command != NULL ? cfg->state->command->bit : (uint32_t)FOR_ALL;
    bool whole = all != NULL;
    for (size_t i = 0; whole && i < count; i++) {
        const option_row *row = mega_option_row(i);
        char dest[80];
        if ((mega_option_commands(i) & bit) == 0 || row->answer != ANSWER_WORKS) continue;
        whole = json_object_set_new(all, mega_option_dest(row, dest), json_of(cfg, i)) == 0;
    }
    char *text = whole ? mega_json_dump(all, JSON_SORT_KEYS | JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(all);
    if (text == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY,
                         "options: they cannot be written as JSON (a value that is no UTF-8, or no memory)");
    mega_buffer_puts(out, text);
    free(text);
    return mega_buffer_check(out, "the options as JSON");
}

static mega_status set_from_list(mega_config *cfg, size_t index, const json_t *array)
{
    const option_row *row = mega_option_row(index);
    const size_t count = json_array_size(array);
    char number[3][24];
    const char **texts = mega_arena_alloc(&cfg->arena, (count + 1) * sizeof *texts);
    if (texts == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "--%s: no memory for its values", row->name);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, i);
        texts[i] = json_string_value(item);
        if (row->kind == KIND_INT3 && i < 3 && json_is_integer(item)) {
            snprintf(number[i], sizeof number[i], "%lld", (long long)json_integer_value(item));
            texts[i] = number[i];
        }
        if (texts[i] == NULL)
            return MEGA_FAIL(MEGA_ERR_FORMAT, "options: \"%s\" holds a value of another kind", row->name);
    }
    const mega_list empty = {0};
    if (row->kind == KIND_APPEND) memcpy((char *)cfg + row->field, &empty, sizeof empty);
    return mega_value_set_list(cfg, row, texts, count);
}

static mega_status set_from_json(mega_config *cfg, size_t index, const json_t *value)
{
    const option_row *row = mega_option_row(index);
    char text[40];
    const char *typed = NULL;
    if (row->kind == KIND_LIST || row->kind == KIND_APPEND || row->kind == KIND_INT3) {
        if (json_is_array(value)) return set_from_list(cfg, index, value);
    } else if (json_is_boolean(value)) {
        typed = json_is_true(value) ? "true" : "false";
    } else if (json_is_integer(value)) {
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
        typed = text;
    } else if (json_is_real(value)) {
        snprintf(text, sizeof text, "%.17g", json_real_value(value));
        typed = text;
    } else if (json_is_string(value)) {
        typed = json_string_value(value);
    }
    const char *reason = typed == NULL ? "holds a value of another kind" : NULL;
    if (reason == NULL && !(row->range != RANGE_ANY && strcmp(typed, "0") == 0 && row->fallback == NULL)) {
        reason = mega_value_check(cfg, row, typed); /* 0 is how "not given" is written */
    }
    if (reason != NULL) return MEGA_FAIL(MEGA_ERR_FORMAT, "options: \"%s\": %s", row->name, reason);
    return mega_value_set(cfg, row, typed);
}

mega_status mega_config_from_json(mega_config *cfg, const char *json, mega_config_source source)
{
    json_error_t error;
    json_t *all = mega_json_load(json, strlen(json), 0, &error);
    if (!json_is_object(all)) {
        const mega_status st =
            MEGA_FAIL(all == NULL ? mega_json_status(&error) : MEGA_ERR_FORMAT,
                      "options: not a JSON object: line %d, column %d: %s", error.line, error.column, error.text);
        json_decref(all);
        return st;
    }
    mega_status st = MEGA_OK;
    const size_t count = mega_option_count();
    const uint32_t bit = cfg->state->command != NULL ? cfg->state->command->bit : (uint32_t)FOR_ALL;
    for (size_t i = 0; st == MEGA_OK && i < count; i++) {
        const option_row *row = mega_option_row(i);
        char dest[80];
        if ((mega_option_commands(i) & bit) == 0 || row->answer != ANSWER_WORKS) continue;
        const json_t *value = json_object_get(all, mega_option_dest(row, dest));
        if (value == NULL || json_is_null(value) || cfg->state->entry[i].source >= MEGA_SET_BY_JSON) continue;
        st = set_from_json(cfg, i, value);
        if (st == MEGA_OK) cfg->state->entry[i].source = source;
    }
    json_decref(all);
    return st;
}
