/* Builds one list of all rows of a composition, in the order of --help, and searches it by name. */
#include "config_impl.h"
#include <string.h>
#include <strings.h>

bool mega_option_next(option_walk *w)
{
    if (w->row != NULL) w->index++;
    if (w->index >= w->table->count) return false;
    const option_line *line = &w->table->line[w->index];
    w->row = line->row;
    w->commands = line->commands;
    w->is_foreign = line->is_foreign;
    return true;
}

static bool has_title(const mega_composition *composition, size_t part, const char *title)
{
    return strcmp(composition->part[part].section->title, title) == 0;
}

/* Returns whether an earlier part has the same title: this part is then listed there. */
static bool is_listed(const mega_composition *composition, size_t part)
{
    for (size_t p = 0; p < part; p++)
        if (has_title(composition, p, composition->part[part].section->title)) return true;
    return false;
}

static void table_add_part(option_table *t, const mega_option_part *part, uint32_t of_title, bool is_foreign)
{
    for (size_t r = 0; r < part->section->count; r++) {
        const mega_option_row *row = &part->section->rows[r];
        t->line[t->count++] = (option_line){.row = row,
                                            .title = part->section->title,
                                            .commands = row->commands != 0 ? row->commands : part->commands,
                                            .of_title = of_title,
                                            .at = row->field != MEGA_NO_FIELD ? part->at + row->field : MEGA_NO_FIELD,
                                            .is_foreign = is_foreign};
    }
}

mega_status mega_option_table_make(option_table *out, const mega_composition *composition, mega_arena *arena)
{
    size_t rows = 0;
    for (size_t p = 0; p < composition->parts; p++) rows += composition->part[p].section->count;
    bool is_foreign = false;
    *out = (option_table){.composition = composition, .line = mega_arena_alloc(arena, rows * sizeof *out->line)};
    if (out->line == NULL) return MEGA_NO_MEMORY("options", "the table of them");
    for (size_t p = 0; p < composition->parts; p++) {
        const mega_option_part *first = &composition->part[p];
        is_foreign = is_foreign || first->section == composition->foreign;
        if (is_listed(composition, p)) continue;
        for (size_t q = p; q < composition->parts; q++)
            if (has_title(composition, q, first->section->title))
                table_add_part(out, &composition->part[q], first->commands, is_foreign);
    }
    return MEGA_OK;
}

/* Returns the name of the row's field without its path: the last word of the destination. */
static const char *own_name(const mega_option_row *row)
{
    const char *from = row->dest != NULL ? row->dest : row->name;
    const char *dot = strrchr(from, '.');
    return dot != NULL ? dot + 1 : from;
}

const char *mega_option_dest(const mega_option_row *row, char out[80])
{
    const char *from = own_name(row);
    size_t n = 0;
    for (; from[n] != '\0' && n < 79; n++) out[n] = from[n] == '-' ? '_' : from[n];
    out[n] = '\0';
    return out;
}

static char table_folded(char c)
{
    return c == '_' ? '-' : c;
}

static bool begin_alike(const char *a, const char *b, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (table_folded(a[i]) != table_folded(b[i])) return false;
    }
    return true;
}

bool mega_option_name_equal(const char *a, const char *b, size_t b_length)
{
    return table_folded(a[0]) == table_folded(b[0]) && strlen(a) == b_length && begin_alike(a, b, b_length);
}

bool mega_option_is_of_family(const char *family, const char *name, size_t length)
{
    const size_t n = strlen(family);
    return n > 0 && family[n - 1] == '*' && length >= n && begin_alike(family, name, n - 1);
}

size_t mega_option_find(const option_table *t, const char *name, size_t length, uint32_t command)
{
    size_t family = SIZE_MAX;
    for (option_walk w = {.table = t}; mega_option_next(&w);) {
        if ((w.commands & command) == 0) continue;
        if (mega_option_name_equal(w.row->name, name, length)) return w.index;
        if (mega_option_is_of_family(w.row->name, name, length)) family = w.index;
    }
    return family;
}

size_t mega_option_find_dest(const option_table *t, const char *dest, uint32_t command)
{
    const size_t length = strlen(dest);
    size_t negative = SIZE_MAX;
    for (option_walk w = {.table = t}; mega_option_next(&w) && !w.is_foreign;) { /* foreign rows have no field */
        if ((w.commands & command) == 0 || !mega_option_name_equal(own_name(w.row), dest, length)) continue;
        if (w.row->answer == MEGA_ANSWER_WORKS) return w.index;
        if (negative == SIZE_MAX) negative = w.index;
    }
    return negative;
}

bool mega_option_word_in(const char *words, const char *text, int *out_index)
{
    return option_word_in_as(words, text, false, out_index);
}

bool option_word_in_as(const char *words, const char *text, bool folds, int *out_index)
{
    const size_t length = strlen(text);
    int index = 0;
    while (words != NULL && length > 0) {
        const char *bar = strchr(words, '|');
        const size_t n = bar != NULL ? (size_t)(bar - words) : strlen(words);
        if (n == length && (folds ? strncasecmp(words, text, n) : strncmp(words, text, n)) == 0) {
            if (out_index != NULL) *out_index = index;
            return true;
        }
        words = bar != NULL ? bar + 1 : NULL;
        index++;
    }
    return false;
}
