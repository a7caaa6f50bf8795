/* Lists options whose values differ between a resumed run and the run that wrote its checkpoint, and which change
 * results. */
#include "config_impl.h"
#include "megalith/json.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Returns whether a change of option i is reported. A schedule option that is derived from others (--lr-decay-iters
 * from --train-iters) is not: it only follows their change. */
static bool is_reported(const mega_options *o, size_t i, bool is_schedule_kept)
{
    const mega_option_row *row = row_at(o, i);
    if (row->answer != MEGA_ANSWER_WORKS || (o->table.line[i].commands & mega_options_command_bit(o)) == 0)
        return false;
    if (row->resume != MEGA_RESUME_SCHEDULE) return row->resume == MEGA_RESUME_REPORTED;
    return !is_schedule_kept && o->entry[i].source != MEGA_SET_BY_DERIVATION;
}

/* Prints a stored value as a user would type it. For --no-x the field is the opposite of the option. */
static bool print_stored(const mega_option_row *row, const json_t *value, mega_buffer *out)
{
    if (json_is_boolean(value))
        return mega_buffer_puts(out, json_is_true(value) == (row->kind != MEGA_OPTION_OFF) ? "on" : "off");
    if (json_is_string(value)) return mega_buffer_puts(out, json_string_value(value));
    if (json_is_real(value)) return mega_value_print_double(json_real_value(value), out);
    const bool is_absent = json_is_integer(value) && json_integer_value(value) == 0 && row->fallback == NULL;
    if (json_is_integer(value) && !is_absent)
        return mega_buffer_printf(out, "%lld", (long long)json_integer_value(value));
    if (!json_is_array(value) || json_integer_value(json_array_get(value, 0)) == 0)
        return mega_buffer_puts(out, "not given");
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!mega_buffer_printf(out, "%s%lld", i > 0 ? " " : "",
                                (long long)json_integer_value(json_array_get(value, i))))
            return false;
    return true;
}

/* The value of an option that was not given changes with those that it follows from, which are the user's. */
static const char *describe_change(mega_options *o, size_t i, const json_t *there, const json_t *here)
{
    const mega_option_row *row = row_at(o, i);
    const char *why = o->entry[i].source == MEGA_SET_BY_DERIVATION ? " (follows from other options)" : "";
    mega_buffer line = {0};
    const bool whole = mega_buffer_printf(&line, "--%s%s was ", row->name, why) && print_stored(row, there, &line) &&
                       mega_buffer_puts(&line, ", is ") && print_stored(row, here, &line);
    const char *text = whole ? mega_arena_strdup(&o->arena, line.data) : NULL;
    mega_buffer_fini(&line);
    return text;
}

static bool list_changes(mega_options *o, bool is_schedule_kept, const json_t *there, const json_t *here,
                         mega_list *out)
{
    const size_t rows = o->table.count;
    const char **text = mega_arena_alloc(&o->arena, rows * sizeof *text);
    size_t count = 0;
    if (text == NULL) return false;
    for (size_t i = 0; i < rows; i++) {
        const mega_option_row *row = row_at(o, i);
        char dest[80];
        if (!is_reported(o, i, is_schedule_kept)) continue;
        mega_option_dest(row, dest);
        const json_t *before = json_object_get(there, dest), *now = json_object_get(here, dest);
        if (before == NULL || now == NULL || json_equal(before, now)) continue;
        text[count] = describe_change(o, i, before, now);
        if (text[count++] == NULL) return false;
    }
    *out = (mega_list){text, count};
    return true;
}

mega_status mega_options_changes(mega_options *o, const char *stored, bool is_schedule_kept, mega_list *out)
{
    json_error_t error;
    mega_buffer b = {0};
    json_t *there = mega_json_load(stored, strlen(stored), 0, &error), *here = NULL;
    mega_status st = mega_options_to_json(o, &b);
    if (st == MEGA_OK) here = mega_json_load(b.data, b.size, 0, &error);
    if (st == MEGA_OK && (there == NULL || here == NULL || !list_changes(o, is_schedule_kept, there, here, out)))
        st = MEGA_FAIL(MEGA_ERR_MEMORY, "options: no memory to compare them with those of the checkpoint");
    mega_buffer_fini(&b);
    json_decref(there);
    json_decref(here);
    return st;
}
