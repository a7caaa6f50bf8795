/* Writes the options whose values differ from their defaults, as a command line says them, by what has set them. */
#include "config_impl.h"
#include "megalith/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    COLUMNS = 116,
    MOST_LINES = 6,  /* of all sources together */
    MOST_VALUE = 60, /* bytes of a value; of a longer one the end is left out */
    SOURCES_END = MEGA_SET_BY_COMMAND_LINE + 1
};

typedef struct differences {
    mega_buffer *out;
    size_t begin; /* where the current line begins; SIZE_MAX: no line has begun */
    int lines, left_out;
} differences;

static bool is_same_value(const char *value, const char *fallback)
{
    char *end_a, *end_b;
    if (fallback == NULL) return false;
    if (strcmp(value, fallback) == 0) return true;
    const double a = strtod(value, &end_a), b = strtod(fallback, &end_b);
    return *value != '\0' && *fallback != '\0' && *end_a == '\0' && *end_b == '\0' && a == b;
}

/* Appends "--name value". Returns false if the option has its default. */
static bool put_option(const mega_options *o, size_t index, mega_buffer *b)
{
    const mega_option_row *row = row_at(o, index);
    const bool is_switch = row->kind == MEGA_OPTION_FLAG || row->kind == MEGA_OPTION_OFF;
    bool on;
    if (is_switch) {
        memcpy(&on, mega_value_at(o, index), sizeof on);
        return on == (row->kind == MEGA_OPTION_FLAG) && mega_buffer_printf(b, "--%s", row->name);
    }
    mega_buffer value = {0};
    const bool differs = mega_value_print(o, index, &value) && value.size > 0 && strcasecmp(value.data, "none") != 0 &&
                         !is_same_value(value.data, row->fallback);
    if (differs)
        mega_buffer_printf(b, "--%s %.*s%s", row->name,
                           (int)mega_utf8_valid_bytes(value.data, value.size > MOST_VALUE ? MOST_VALUE : value.size),
                           value.data, value.size > MOST_VALUE ? "…" : "");
    mega_buffer_fini(&value);
    return differs;
}

static void put_word(differences *d, const char *label, const char *word)
{
    const size_t n = strlen(word);
    const bool is_first = d->begin == SIZE_MAX;
    if (!is_first && d->out->size - d->begin + n + 1 <= COLUMNS) {
        mega_buffer_printf(d->out, " %s", word);
        return;
    }
    if (d->lines == MOST_LINES) {
        d->left_out++;
        return;
    }
    if (!is_first) mega_buffer_puts(d->out, "\n");
    d->begin = d->out->size;
    d->lines++;
    mega_buffer_printf(d->out, "  %s%s%s", is_first ? label : "  ", is_first && label[0] != '\0' ? ": " : "", word);
}

static const char *difference_label(const mega_options *o, mega_option_source source)
{
    switch (source) {
    case MEGA_SET_BY_PRESET: return o->preset != NULL ? o->preset : "by the preset";
    case MEGA_SET_BY_CHECKPOINT: return "by the checkpoint";
    case MEGA_SET_BY_DEEPSPEED: return "by DeepSpeed's defaults";
    case MEGA_SET_BY_YAML: return o->yaml_name != NULL ? o->yaml_name : "by the YAML";
    case MEGA_SET_BY_JSON: return o->json_name != NULL ? o->json_name : "by the JSON";
    default: return "";
    }
}

static void put_source(const mega_options *o, mega_option_source source, differences *d)
{
    const uint32_t bit = mega_options_command_bit(o);
    d->begin = SIZE_MAX;
    for (size_t i = 0; i < o->table.count; i++) {
        const mega_option_row *row = row_at(o, i);
        mega_buffer word = {0};
        if (o->entry[i].source != source || row->answer != MEGA_ANSWER_WORKS || row->field == MEGA_NO_FIELD) continue;
        if ((o->table.line[i].commands & bit) == 0) continue;
        if (put_option(o, i, &word)) {
            if (word.data != NULL && !word.failed) put_word(d, difference_label(o, source), word.data);
            else
                d->out->failed = true;
        }
        mega_buffer_fini(&word);
    }
    if (d->begin != SIZE_MAX) mega_buffer_puts(d->out, "\n");
}

mega_status mega_options_differences(const mega_options *o, mega_buffer *out)
{
    differences d = {.out = out};
    for (int source = SOURCES_END - 1; source > MEGA_SET_BY_DEFAULT; source--)
        if (source != MEGA_SET_BY_DERIVATION) put_source(o, (mega_option_source)source, &d);
    if (d.lines == 0) mega_buffer_puts(out, "  none\n");
    if (d.left_out > 0) mega_buffer_printf(out, "  and %d more\n", d.left_out);
    return mega_buffer_check(out, "the options that differ from their defaults");
}
