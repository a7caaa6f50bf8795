/* Creates and destroys a configuration: defaults, the source of each option, and setting an option by its destination
 * name. */
#include "config_impl.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static mega_status config_set_default(mega_options *o, size_t index)
{
    const mega_option_row *row = row_at(o, index);
    const double not_given = NAN;
    const bool on = true;
    if (row->field == MEGA_NO_FIELD || row->answer != MEGA_ANSWER_WORKS) return MEGA_OK;
    if (row->kind == MEGA_OPTION_OFF) memcpy(mega_value_at(o, index), &on, sizeof on);
    if (row->kind == MEGA_OPTION_FLOAT && row->fallback == NULL)
        memcpy(mega_value_at(o, index), &not_given, sizeof not_given);
    if (row->fallback == NULL || row->kind == MEGA_OPTION_FLAG || row->kind == MEGA_OPTION_OFF) return MEGA_OK;
    const char *const one[1] = {row->fallback};
    if (row->kind == MEGA_OPTION_LIST || row->kind == MEGA_OPTION_APPEND) return mega_value_set_list(o, index, one, 1);
    return mega_value_set(o, index, row->fallback);
}

mega_status mega_options_create(const mega_composition *composition, void *values, mega_options **out)
{
    mega_options *o = mega_calloc(1, sizeof *o);
    *out = o;
    if (o == NULL) return MEGA_NO_MEMORY("options", "the configuration");
    o->values = values;
    MEGA_TRY(mega_option_table_make(&o->table, composition, &o->arena));
    const size_t count = o->table.count;
    o->entry = mega_arena_alloc(&o->arena, count * sizeof *o->entry);
    if (o->entry == NULL) return MEGA_NO_MEMORY("options", "the configuration");
    for (size_t i = 0; i < count; i++) MEGA_TRY(config_set_default(o, i));
    return MEGA_OK;
}

void mega_options_destroy(mega_options *o)
{
    if (o == NULL) return;
    MEGA_FREE(o->problem, o->warned, o->given);
    mega_arena_fini(&o->arena);
    mega_free(o);
}

void *mega_options_values(const mega_options *o)
{
    return o->values;
}

const char *mega_options_command(const mega_options *o)
{
    return o->command != NULL ? o->command->name : "";
}

uint32_t mega_options_command_bit(const mega_options *o)
{
    return o->command != NULL ? o->command->bit : ALL_COMMANDS;
}

const mega_list *mega_options_positional(const mega_options *o)
{
    return &o->positional;
}

void mega_options_name_preset(mega_options *o, const char *text)
{
    o->preset = text;
}

bool mega_options_derives(mega_options *o, const char *dest)
{
    const size_t i = mega_option_find_dest(&o->table, dest, mega_options_command_bit(o));
    if (i == SIZE_MAX || row_at(o, i)->answer != MEGA_ANSWER_WORKS) return false;
    option_entry *entry = &o->entry[i];
    if (entry->source != MEGA_SET_BY_DEFAULT && entry->source != MEGA_SET_BY_DERIVATION) return false;
    entry->source = MEGA_SET_BY_DERIVATION;
    return true;
}

bool mega_options_is_given(const mega_options *o, const char *dest)
{
    const mega_option_source source = mega_options_set_by(o, dest);
    return source == MEGA_SET_BY_COMMAND_LINE || source == MEGA_SET_BY_JSON || source == MEGA_SET_BY_YAML;
}

bool mega_options_is_wrong(const mega_options *o, const char *dest)
{
    const size_t i = mega_option_find_dest(&o->table, dest, mega_options_command_bit(o));
    return i != SIZE_MAX && o->entry[i].is_wrong;
}

bool mega_options_is_auto(const mega_options *o, const char *dest)
{
    const size_t i = mega_option_find_dest(&o->table, dest, mega_options_command_bit(o));
    return i != SIZE_MAX && o->entry[i].is_auto && !mega_options_is_given(o, dest);
}

const char *mega_options_typed(const mega_options *o, const char *name)
{
    const size_t i = mega_option_find(&o->table, name, strlen(name), mega_options_command_bit(o));
    return i != SIZE_MAX && o->entry[i].source == MEGA_SET_BY_COMMAND_LINE ? o->entry[i].typed : NULL;
}

mega_option_source mega_options_set_by(const mega_options *o, const char *dest)
{
    const size_t i = mega_option_find_dest(&o->table, dest, mega_options_command_bit(o));
    return i == SIZE_MAX ? MEGA_SET_BY_DEFAULT : o->entry[i].source;
}

bool mega_options_says(const mega_options *o, const char *dest, mega_option_source source)
{
    const size_t i = mega_option_find_dest(&o->table, dest, mega_options_command_bit(o));
    if (i == SIZE_MAX) return false;
    const option_entry *entry = &o->entry[i];
    return entry->source == source || (entry->agreeing & 1U << source) != 0 ||
           (entry->is_auto && source == MEGA_SET_BY_JSON);
}

const char *mega_options_not_on_gpu(const mega_options *o)
{
    return o->not_on_gpu;
}

bool mega_options_was_set(const mega_options *o, const char *dest)
{
    const mega_option_source source = mega_options_set_by(o, dest);
    return source != MEGA_SET_BY_DEFAULT && source != MEGA_SET_BY_DERIVATION && source != MEGA_SET_BY_DEEPSPEED;
}

/* A switch is typed without a value, or followed by "false". */
static const char *as_typed(const mega_option_row *row, const char *shown)
{
    if (row->kind != MEGA_OPTION_FLAG && row->kind != MEGA_OPTION_OFF) return shown;
    return strcmp(shown, row->kind == MEGA_OPTION_FLAG ? "True" : "False") == 0 ? "" : "False";
}

const char *mega_options_origin(mega_options *o, const char *dest)
{
    const size_t i = mega_option_find_dest(&o->table, dest, mega_options_command_bit(o));
    if (i == SIZE_MAX) return dest;
    const mega_option_row *row = row_at(o, i);
    const option_entry *entry = &o->entry[i];
    mega_buffer value = {0};
    if (!mega_value_print(o, i, &value)) o->out_of_memory = true;
    const char *shown = value.data != NULL ? value.data : "";
    const char *text = NULL;
    switch (entry->source) {
    case MEGA_SET_BY_COMMAND_LINE:
        shown = as_typed(row, shown);
        text = mega_options_text(o, "%s%s%s (argument %d)", entry->typed, *shown != '\0' ? " " : "", shown,
                                 entry->position);
        break;
    case MEGA_SET_BY_JSON:
        text = mega_options_text(o, "%s %s (%s, line %d)", entry->typed, entry->text, o->json_name, entry->position);
        break;
    case MEGA_SET_BY_YAML:
        text = entry->typed != NULL ? mega_options_text(o, "%s %s (%s, line %d)", entry->typed, entry->text,
                                                        o->yaml_name, entry->position)
                                    : mega_options_text(o, "--%s %s (from %s)", row->name, shown, o->yaml_name);
        break;
    case MEGA_SET_BY_PRESET:
        text = mega_options_text(o, "--%s %s (from %s)", row->name, shown, o->preset != NULL ? o->preset : "a preset");
        break;
    case MEGA_SET_BY_CHECKPOINT: text = mega_options_text(o, "--%s %s (from the checkpoint)", row->name, shown); break;
    case MEGA_SET_BY_DERIVATION:
        text = mega_options_text(o, "--%s %s (follows from other options)", row->name, shown);
        break;
    case MEGA_SET_BY_DEEPSPEED:
        text = entry->is_auto
                   ? mega_options_text(o, "--%s %s (for \"auto\" in %s)", row->name, shown, o->json_name)
                   : mega_options_text(o, "--%s %s (default of DeepSpeed " MEGA_DEEPSPEED_VERSION ", as %s gives none)",
                                       row->name, shown, o->json_name);
        break;
    case MEGA_SET_BY_DEFAULT: text = mega_options_text(o, "--%s %s (default)", row->name, shown); break;
    }
    mega_buffer_fini(&value);
    return text != NULL ? text : row->name;
}

const char *mega_options_spelling(mega_options *o, const char *dest)
{
    const size_t i = mega_option_find_dest(&o->table, dest, mega_options_command_bit(o));
    if (i == SIZE_MAX) return dest;
    const mega_option_row *row = row_at(o, i);
    const option_entry *entry = &o->entry[i];
    if (entry->typed != NULL) return entry->typed;
    if (entry->called != NULL) return entry->called;
    if (o->json_name == NULL || o->command != NULL) return mega_options_text(o, "--%s", row->name);
    if (row->json == NULL) return mega_options_text(o, "\"" JSON_OWN ".%s\"", dest);
    return mega_options_text(o, "\"%.*s\"", (int)strcspn(row->json, "|"), row->json);
}

void mega_options_call(mega_options *o, const char *dest, const char *name)
{
    const size_t i = mega_option_find_dest(&o->table, dest, mega_options_command_bit(o));
    if (i != SIZE_MAX) o->entry[i].called = name;
}

mega_status mega_options_set(mega_options *o, const char *dest, const char *text, mega_option_source source)
{
    const size_t i = mega_option_find_dest(&o->table, dest, mega_options_command_bit(o));
    const mega_option_row *row = i != SIZE_MAX ? row_at(o, i) : NULL;
    if (row == NULL || row->answer != MEGA_ANSWER_WORKS) {
        return MEGA_FAIL(MEGA_ERR_NOT_FOUND, "option \"%s\": no such option of %s with a value that can be set", dest,
                         o->command != NULL ? o->command->name : "megalith");
    }
    if (row->kind == MEGA_OPTION_LIST || row->kind == MEGA_OPTION_APPEND) {
        MEGA_TRY(mega_value_set_list(o, i, &text, 1));
    } else {
        const char *reason = mega_value_check(o, row, text);
        if (reason != NULL) return MEGA_MISTAKE("--%s: %s", row->name, reason);
        MEGA_TRY(mega_value_set(o, i, text));
    }
    o->entry[i].source = source;
    return MEGA_OK;
}

bool mega_options_set_deepspeed(mega_options *o, const char *dest, const char *text)
{
    const size_t i = mega_option_find_dest(&o->table, dest, mega_options_command_bit(o));
    if (i == SIZE_MAX || row_at(o, i)->answer != MEGA_ANSWER_WORKS) return false;
    const mega_option_source source = o->entry[i].source;
    if (source != MEGA_SET_BY_DEFAULT && source != MEGA_SET_BY_DERIVATION && source != MEGA_SET_BY_DEEPSPEED)
        return false;
    if (mega_value_set(o, i, text) != MEGA_OK) o->out_of_memory = true;
    o->entry[i].source = MEGA_SET_BY_DEEPSPEED;
    return true;
}

const char *mega_options_deepspeed_defaults(mega_options *o)
{
    const char *list[2] = {"", ""}; /* defaults; what "auto" stands for */
    for (option_walk w = {.table = &o->table}; mega_option_next(&w);) {
        const option_entry *entry = &o->entry[w.index];
        mega_buffer value = {0};
        if (entry->source != MEGA_SET_BY_DEEPSPEED) continue;
        const char **all = &list[entry->is_auto];
        if (!mega_value_print(o, w.index, &value)) o->out_of_memory = true;
        *all = mega_options_text(o, "%s%s--%s %s", *all, (*all)[0] != '\0' ? ", " : "", w.row->name,
                                 value.data != NULL ? value.data : "");
        mega_buffer_fini(&value);
    }
    const bool has_defaults = list[0][0] != '\0', has_auto = list[1][0] != '\0';
    if (!has_defaults && !has_auto) return NULL;
    return mega_options_text(o, "%s%s%s%s%s%s", o->json_name,
                             has_defaults ? " leaves to the defaults of DeepSpeed " MEGA_DEEPSPEED_VERSION ": " : "",
                             list[0], has_defaults && has_auto ? ";" : "", has_auto ? " \"auto\" is " : "", list[1]);
}

mega_status mega_options_set_int(mega_options *o, const char *dest, int64_t value, mega_option_source source)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return mega_options_set(o, dest, text, source);
}
