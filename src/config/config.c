/* Life of a configuration: defaults, who set what, and setting an option by the name of its destination. */
#include "config_impl.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static mega_status set_default(mega_config *cfg, size_t index)
{
    const mega_option_row *row = row_at(cfg, index);
    const double not_given = NAN;
    const bool on = true;
    if (row->field == MEGA_NO_FIELD || row->answer != MEGA_ANSWER_WORKS) return MEGA_OK;
    if (row->kind == MEGA_OPTION_OFF) memcpy(mega_value_at(cfg, index), &on, sizeof on);
    if (row->kind == MEGA_OPTION_FLOAT && row->fallback == NULL)
        memcpy(mega_value_at(cfg, index), &not_given, sizeof not_given);
    if (row->fallback == NULL || row->kind == MEGA_OPTION_FLAG || row->kind == MEGA_OPTION_OFF) return MEGA_OK;
    const char *const one[1] = {row->fallback};
    if (row->kind == MEGA_OPTION_LIST || row->kind == MEGA_OPTION_APPEND)
        return mega_value_set_list(cfg, index, one, 1);
    return mega_value_set(cfg, index, row->fallback);
}

mega_status mega_config_begin(mega_config *cfg, const mega_composition *of, void *values)
{
    cfg->state = mega_arena_alloc(&cfg->arena, sizeof *cfg->state);
    if (cfg->state == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "options: no memory for the configuration");
    cfg->state->values = values;
    MEGA_TRY(mega_option_table_make(&cfg->state->table, of, &cfg->arena));
    const size_t count = cfg->state->table.count;
    cfg->state->entry = mega_arena_alloc(&cfg->arena, count * sizeof *cfg->state->entry);
    if (cfg->state->entry == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "options: no memory for the configuration");
    for (size_t i = 0; i < count; i++) MEGA_TRY(set_default(cfg, i));
    return MEGA_OK;
}

void mega_config_fini(mega_config *cfg)
{
    if (cfg->state != NULL) mega_free(cfg->state->problem);
    mega_arena_fini(&cfg->arena);
    *cfg = (mega_config){0};
}

mega_config_source mega_config_set_by(const mega_config *cfg, const char *dest)
{
    const size_t i = mega_option_find_dest(&cfg->state->table, dest, command_bit(cfg));
    return i == SIZE_MAX ? MEGA_SET_BY_DEFAULT : cfg->state->entry[i].source;
}

bool mega_config_was_set(const mega_config *cfg, const char *dest)
{
    const mega_config_source source = mega_config_set_by(cfg, dest);
    return source != MEGA_SET_BY_DEFAULT && source != MEGA_SET_BY_DERIVATION;
}

const char *mega_config_origin(mega_config *cfg, const char *dest)
{
    const size_t i = mega_option_find_dest(&cfg->state->table, dest, command_bit(cfg));
    if (i == SIZE_MAX) return dest;
    const mega_option_row *row = row_at(cfg, i);
    const option_entry *entry = &cfg->state->entry[i];
    mega_buffer value = {0};
    if (!mega_value_print(cfg, i, &value)) cfg->state->out_of_memory = true;
    const char *shown = value.data != NULL ? value.data : "";
    const char *text = NULL;
    switch (entry->source) {
    case MEGA_SET_BY_COMMAND_LINE:
        text = mega_config_text(cfg, "%s %s (argument %d)", entry->typed, shown, entry->position);
        break;
    case MEGA_SET_BY_JSON:
        text = mega_config_text(cfg, "%s %s (%s, line %d)", entry->typed, entry->text, cfg->state->json_name,
                                entry->position);
        break;
    case MEGA_SET_BY_PRESET:
        text = mega_config_text(cfg, "--%s %s (from --preset %s)", row->name, shown, cfg->preset);
        break;
    case MEGA_SET_BY_CHECKPOINT: text = mega_config_text(cfg, "--%s %s (from the checkpoint)", row->name, shown); break;
    case MEGA_SET_BY_DERIVATION:
        text = mega_config_text(cfg, "--%s %s (follows from other options)", row->name, shown);
        break;
    case MEGA_SET_BY_DEFAULT: text = mega_config_text(cfg, "--%s %s (default)", row->name, shown); break;
    }
    mega_buffer_fini(&value);
    return text != NULL ? text : row->name;
}

const char *mega_config_spelling(mega_config *cfg, const char *dest)
{
    const size_t i = mega_option_find_dest(&cfg->state->table, dest, command_bit(cfg));
    if (i == SIZE_MAX) return dest;
    const mega_option_row *row = row_at(cfg, i);
    const option_entry *entry = &cfg->state->entry[i];
    if (entry->typed != NULL) return entry->typed;
    if (cfg->state->json_name == NULL) return mega_config_text(cfg, "--%s", row->name);
    if (row->json == NULL) return mega_config_text(cfg, "\"" JSON_OWN ".%s\"", dest);
    return mega_config_text(cfg, "\"%.*s\"", (int)strcspn(row->json, "|"), row->json);
}

mega_status mega_config_set(mega_config *cfg, const char *dest, const char *text, mega_config_source source)
{
    const size_t i = mega_option_find_dest(&cfg->state->table, dest, command_bit(cfg));
    const mega_option_row *row = i != SIZE_MAX ? row_at(cfg, i) : NULL;
    if (row == NULL || row->answer != MEGA_ANSWER_WORKS) {
        return MEGA_FAIL(MEGA_ERR_NOT_FOUND, "option \"%s\": no such option of %s with a value that can be set", dest,
                         cfg->command != NULL ? cfg->command : "megalith");
    }
    if (row->kind == MEGA_OPTION_LIST || row->kind == MEGA_OPTION_APPEND) {
        MEGA_TRY(mega_value_set_list(cfg, i, &text, 1));
    } else {
        const char *reason = mega_value_check(cfg, row, text);
        if (reason != NULL) return MEGA_FAIL(MEGA_ERR_USAGE, "--%s: %s", row->name, reason);
        MEGA_TRY(mega_value_set(cfg, i, text));
    }
    cfg->state->entry[i].source = source;
    return MEGA_OK;
}

mega_status mega_config_set_int(mega_config *cfg, const char *dest, int64_t value, mega_config_source source)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return mega_config_set(cfg, dest, text, source);
}
