/* Writes the configuration: Megatron's dump of arguments, and JSON that records the options in a checkpoint. */
#include "config_impl.h"
#include "megalith/json.h"
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DOT_COLUMNS 48

typedef struct dump_line {
    char name[80];
    char *value;
    /* if two lines have the same name (--x and --no-x share a destination), the line with the lower rank is shown */
    int rank;
} dump_line;

static int by_option_name(const void *a, const void *b)
{
    const dump_line *x = a, *y = b;
    const int order = strcasecmp(x->name, y->name);
    if (order == 0) return strcmp(x->name, y->name) != 0 ? strcmp(x->name, y->name) : x->rank - y->rank;
    return order;
}

/* Returns the text of a value. Lists are formatted as Python prints them, for parsers that expect this form. */
static char *dump_value(const mega_options *o, size_t index)
{
    const mega_option_row *row = row_at(o, index);
    mega_buffer b = {0};
    if (row->field != MEGA_NO_FIELD && (row->kind == MEGA_OPTION_LIST || row->kind == MEGA_OPTION_APPEND)) {
        mega_list list;
        memcpy(&list, mega_value_at(o, index), sizeof list);
        if (list.count > 0) {
            for (size_t i = 0; i < list.count; i++) mega_buffer_printf(&b, "%s'%s'", i == 0 ? "[" : ", ", list.item[i]);
            mega_buffer_puts(&b, "]");
            return b.data;
        }
    }
    if (row->kind == MEGA_OPTION_CHOICE && strncmp(row->choices, "none|", 5) == 0) {
        mega_value_print(o, index, &b);
        if (b.data != NULL && strcmp(b.data, "none") == 0) {
            mega_buffer_fini(&b);
            mega_buffer_puts(&b, "None");
        }
        return b.data;
    }
    mega_value_print(o, index, &b);
    return b.data;
}

/* Collects the lines of the dump: the command's destinations (those of models that are not implemented only if given),
 * then derived values. */
static size_t collect_lines(const mega_options *o, dump_line *line, size_t most)
{
    size_t n = 0;
    const mega_composition *composition = o->table.composition;
    const size_t count = o->table.count;
    for (size_t i = 0; i < count && n < most; i++) {
        const mega_option_row *row = row_at(o, i);
        if ((o->table.line[i].commands & mega_options_command_bit(o)) == 0 || row->answer == MEGA_ANSWER_RENAMED)
            continue;
        const bool said = o->entry[i].source != MEGA_SET_BY_DEFAULT;
        const bool is_of_many = strchr(row->name, '*') != NULL; /* a row of all names that begin so */
        if (!said && (o->table.line[i].is_foreign || is_of_many)) continue;
        mega_option_dest(row, line[n].name);
        line[n].value = dump_value(o, i);
        line[n].rank = said ? 0 : row->answer == MEGA_ANSWER_WORKS ? 1 : row->kind == MEGA_OPTION_OFF ? 3 : 2;
        n++;
    }
    const char *name = NULL;
    char text[32];
    for (size_t i = 0; n < most && composition->derived_line != NULL && composition->derived_line(o, i, &name, text);
         i++) {
        snprintf(line[n].name, sizeof line[n].name, "%s", name);
        line[n].value = mega_strdup(text);
        line[n].rank = 0;
        n++;
    }
    return n;
}

static bool is_alike(const option_line *line, uint32_t bit)
{
    return line->row->answer == MEGA_ANSWER_WORKS && line->row->alike == MEGA_ALIKE_REQUIRED &&
           (line->commands & bit) != 0;
}

mega_status mega_options_alike(mega_options *o, const char *command, mega_list *out)
{
    const mega_command *of = command != NULL ? mega_command_find(o->table.composition, command) : NULL;
    const uint32_t bit = command == NULL ? ALL_COMMANDS : of != NULL ? of->bit : 0;
    const size_t rows = o->table.count;
    const char **text = mega_arena_alloc(&o->arena, rows * sizeof *text);
    size_t count = 0;
    bool is_whole = text != NULL;
    for (size_t i = 0; is_whole && i < rows; i++) {
        if (!is_alike(&o->table.line[i], bit)) continue;
        mega_buffer line = {0};
        is_whole = mega_buffer_printf(&line, "--%s ", row_at(o, i)->name) && mega_value_print(o, i, &line);
        text[count] = is_whole ? mega_arena_strdup(&o->arena, line.data) : NULL;
        is_whole = text[count++] != NULL;
        mega_buffer_fini(&line);
    }
    if (!is_whole) return MEGA_FAIL(MEGA_ERR_MEMORY, "options: no memory to compare them over ranks");
    *out = (mega_list){text, count};
    return MEGA_OK;
}

/* Lists the options that a JSON or a YAML has set, with its keys, in its order. */
static void dump_file(const mega_options *o, const char *name, mega_option_source source, mega_buffer *out)
{
    int shown = 0; /* the last line of the file whose keys have been listed */
    mega_buffer_printf(out, "------------------------ set by %s ------------------------\n", name);
    for (int line = 0; line < INT_MAX; shown = line) {
        line = INT_MAX;
        for (size_t i = 0; i < o->table.count; i++) {
            const option_entry *entry = &o->entry[i];
            if (entry->source == source && entry->position > shown && entry->position < line) line = entry->position;
        }
        for (size_t i = 0; i < o->table.count && line < INT_MAX; i++) {
            const option_entry *entry = &o->entry[i];
            char dest[80];
            if (entry->source != source || entry->position != line) continue;
            mega_buffer_printf(out, "  %s ", mega_option_dest(row_at(o, i), dest));
            for (size_t dot = strlen(dest); dot < DOT_COLUMNS; dot++) mega_buffer_puts(out, ".");
            mega_buffer_printf(out, " %s %s (line %d)\n", entry->typed, entry->text, line);
        }
    }
}

mega_status mega_options_dump_arguments(const mega_options *o, mega_buffer *out)
{
    const size_t most = o->table.count + 16;
    dump_line *line = mega_calloc(most, sizeof *line);
    if (line == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "arguments: no memory to list them");
    const size_t n = collect_lines(o, line, most);
    qsort(line, n, sizeof *line, by_option_name);
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
    if (o->yaml_name != NULL) dump_file(o, o->yaml_name, MEGA_SET_BY_YAML, out);
    if (o->json_name != NULL) dump_file(o, o->json_name, MEGA_SET_BY_JSON, out);
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

static json_t *json_of(const mega_options *o, size_t index)
{
    const mega_option_row *row = row_at(o, index);
    const char *field = mega_value_at(o, index);
    int64_t n[3];
    double x;
    bool on;
    const char *text;
    mega_list list;
    mega_buffer b = {0};
    json_t *value = NULL;
    switch (row->kind) {
    case MEGA_OPTION_FLAG:
    case MEGA_OPTION_OFF: memcpy(&on, field, sizeof on); return json_boolean(on);
    case MEGA_OPTION_INT:
    case MEGA_OPTION_BYTES: memcpy(n, field, sizeof n[0]); return json_integer(n[0]);
    case MEGA_OPTION_FLOAT: memcpy(&x, field, sizeof x); return isnan(x) ? json_null() : json_real(x);
    case MEGA_OPTION_STRING: memcpy(&text, field, sizeof text); return text != NULL ? json_string(text) : json_null();
    case MEGA_OPTION_INT3: memcpy(n, field, sizeof n); return json_pack("[I,I,I]", n[0], n[1], n[2]);
    case MEGA_OPTION_LIST:
    case MEGA_OPTION_APPEND: memcpy(&list, field, sizeof list); return json_of_list(&list);
    case MEGA_OPTION_CHOICE:
        mega_value_print(o, index, &b);
        value = json_string(b.data != NULL ? b.data : "");
        mega_buffer_fini(&b);
        return value;
    case MEGA_OPTION_ANY:
    case MEGA_OPTION_BOOL: break;
    }
    return json_null();
}

mega_status mega_options_to_json(const mega_options *o, mega_buffer *out)
{
    json_t *all = json_object();
    const size_t count = o->table.count;
    const uint32_t bit = mega_options_command_bit(o);
    bool whole = all != NULL;
    for (size_t i = 0; whole && i < count; i++) {
        const mega_option_row *row = row_at(o, i);
        char dest[80];
        if ((o->table.line[i].commands & bit) == 0 || row->answer != MEGA_ANSWER_WORKS) continue;
        whole = json_object_set_new(all, mega_option_dest(row, dest), json_of(o, i)) == 0;
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

static mega_status set_from_list(mega_options *o, size_t index, const json_t *array)
{
    const mega_option_row *row = row_at(o, index);
    const size_t count = json_array_size(array);
    char number[3][24];
    const char **texts = mega_arena_alloc(&o->arena, (count + 1) * sizeof *texts);
    if (texts == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "--%s: no memory for its values", row->name);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, i);
        texts[i] = json_string_value(item);
        if (row->kind == MEGA_OPTION_INT3 && i < 3 && json_is_integer(item)) {
            snprintf(number[i], sizeof number[i], "%lld", (long long)json_integer_value(item));
            texts[i] = number[i];
        }
        if (texts[i] == NULL)
            return MEGA_FAIL(MEGA_ERR_FORMAT, "options: \"%s\" holds a value of another kind", row->name);
    }
    const mega_list empty = {0};
    if (row->kind == MEGA_OPTION_APPEND) memcpy(mega_value_at(o, index), &empty, sizeof empty);
    return mega_value_set_list(o, index, texts, count);
}

static mega_status set_from_json(mega_options *o, size_t index, const json_t *value)
{
    const mega_option_row *row = row_at(o, index);
    char text[40];
    const char *typed = NULL;
    if (row->kind == MEGA_OPTION_LIST || row->kind == MEGA_OPTION_APPEND || row->kind == MEGA_OPTION_INT3) {
        if (json_is_array(value)) return set_from_list(o, index, value);
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
    if (reason == NULL && !(row->range != MEGA_RANGE_ANY && strcmp(typed, "0") == 0 && row->fallback == NULL)) {
        reason = mega_value_check(o, row, typed); /* 0 may mean "not given", which mega_value_check would reject */
    }
    if (reason != NULL) return MEGA_FAIL(MEGA_ERR_FORMAT, "options: \"%s\": %s", row->name, reason);
    return mega_value_set(o, index, typed);
}

mega_status mega_options_from_json(mega_options *o, const char *json, mega_option_source source)
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
    const size_t count = o->table.count;
    const uint32_t bit = mega_options_command_bit(o);
    for (size_t i = 0; st == MEGA_OK && i < count; i++) {
        const mega_option_row *row = row_at(o, i);
        char dest[80];
        if ((o->table.line[i].commands & bit) == 0 || row->answer != MEGA_ANSWER_WORKS) continue;
        const json_t *value = json_object_get(all, mega_option_dest(row, dest));
        if (value == NULL || json_is_null(value) || o->entry[i].source >= MEGA_SET_BY_YAML) continue;
        st = set_from_json(o, i, value);
        if (st == MEGA_OK) o->entry[i].source = source;
    }
    json_decref(all);
    return st;
}

/* ---- who set each option ---- */

static const char *set_by_name(mega_option_source source)
{
    static const char *const name[] = {[MEGA_SET_BY_DEFAULT] = "default",
                                       [MEGA_SET_BY_PRESET] = "preset",
                                       [MEGA_SET_BY_CHECKPOINT] = "checkpoint",
                                       [MEGA_SET_BY_DERIVATION] = "derived",
                                       [MEGA_SET_BY_DEEPSPEED] = "DeepSpeed's default",
                                       [MEGA_SET_BY_YAML] = "YAML",
                                       [MEGA_SET_BY_JSON] = "JSON",
                                       [MEGA_SET_BY_COMMAND_LINE] = "command line"};
    return name[source];
}

mega_status mega_options_origins(mega_options *o, mega_buffer *out)
{
    const char *before = "[";
    for (size_t i = 0; i < o->table.count; i++) {
        const mega_option_row *row = row_at(o, i);
        char dest[80];
        if ((o->table.line[i].commands & mega_options_command_bit(o)) == 0 || row->answer != MEGA_ANSWER_WORKS)
            continue;
        char *value = dump_value(o, i);
        mega_option_dest(row, dest);
        mega_buffer_printf(out, "%s\n  {\"option\": ", before);
        mega_buffer_json_string(out, dest);
        mega_buffer_puts(out, ", \"value\": ");
        mega_buffer_json_string(out, value != NULL ? value : "");
        mega_buffer_printf(out, ", \"set_by\": \"%s\", \"origin\": ", set_by_name(o->entry[i].source));
        mega_buffer_json_string(out, mega_options_origin(o, dest));
        mega_buffer_puts(out, "}");
        mega_free(value);
        before = ",";
    }
    mega_buffer_puts(out, *before == '[' ? "[]" : "\n]");
    return mega_buffer_check(out, "the list of options");
}
