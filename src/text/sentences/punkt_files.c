/* Punkt's parameters in files: NLTK's folders of text, and a user's list of abbreviations. */
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "megalith/line.h"
#include "punkt_impl.h"
#include <stdlib.h>
#include <string.h>

typedef enum parameter_kind {
    KIND_ABBREVIATION,
    KIND_PAIR,
    KIND_STARTER,
    KIND_ORTHO,
    KIND_NUMERIC,
    KINDS
} parameter_kind;
static const char *const file_name[KINDS] = {"abbrev_types.txt", "collocations.tab", "sent_starters.txt",
                                             "ortho_context.tab", "numeric_abbrev_types.txt"};
static const uint8_t flag_of[KINDS] = {TYPE_ABBREVIATION, 0, TYPE_STARTER, 0, TYPE_NUMERIC};

/* ---- reading ---- */

static mega_status punkt_no_memory(void)
{
    return MEGA_NO_MEMORY("sentences", "their parameters");
}

static mega_status punkt_take_line(mega_punkt *p, parameter_kind kind, const char *line, size_t n, const char *path,
                                   int64_t number)
{
    punkt_table *t = &p->table;
    const char *tab = memchr(line, '\t', n);
    const size_t name = tab != NULL ? (size_t)(tab - line) : n;
    char *end = NULL;
    const long ortho = kind == KIND_ORTHO && tab != NULL ? strtol(tab + 1, &end, 10) : 0;
    if ((kind == KIND_PAIR || kind == KIND_ORTHO) != (tab != NULL) || (name == 0 && kind != KIND_ABBREVIATION) ||
        (kind == KIND_ORTHO && (end != line + n || ortho < 0 || ortho > 255)))
        return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: line %lld: found \"%.*s\", expected %s", path, (long long)number,
                         (int)(n < 80 ? n : 80), line,
                         kind == KIND_PAIR    ? "two words with a tab between them"
                         : kind == KIND_ORTHO ? "a word, a tab, and a number up to 255"
                                              : "one word");
    const int64_t type = punkt_add(t, line, name);
    if (type < 0) return punkt_no_memory();
    if (kind == KIND_PAIR) {
        const int64_t second = punkt_add(t, tab + 1, n - name - 1);
        return punkt_add_pair(t, type, second) < 0 ? punkt_no_memory() : MEGA_OK;
    }
    t->type[type].flags |= flag_of[kind];
    t->type[type].ortho |= (uint8_t)ortho;
    return MEGA_OK;
}

static mega_status take_file(mega_punkt *p, parameter_kind kind, const char *path)
{
    char *text;
    size_t size;
    mega_status st = MEGA_OK;
    if (kind == KIND_NUMERIC && !mega_file_exists(path)) return MEGA_OK;
    MEGA_TRY(mega_file_read_kind(path, "text in UTF-8", MEGA_KIND_TABLE, &text, &size));
    for (mega_line l = {.rest = text, .left = size}; st == MEGA_OK && mega_line_next(&l);)
        /* an empty line of abbreviations is the empty word, as some of NLTK's files have it */
        if (l.bytes > 0 || (kind == KIND_ABBREVIATION && l.has_end))
            st = punkt_take_line(p, kind, l.text, l.bytes, path, l.number);
    mega_free(text);
    return st;
}

mega_status mega_punkt_read(mega_punkt *p, const char *folder)
{
    for (parameter_kind k = 0; k < KINDS; k++) {
        char *path = mega_path_join(folder, file_name[k]);
        if (path == NULL) return punkt_no_memory();
        const mega_status st = take_file(p, k, path);
        mega_free(path);
        if (st == MEGA_ERR_NOT_FOUND)
            MEGA_CONTEXT("%s is not a folder of Punkt's parameters, which has abbrev_types.txt, collocations.tab, "
                         "sent_starters.txt and ortho_context.tab",
                         folder);
        MEGA_TRY(st);
    }
    return MEGA_OK;
}

mega_status mega_punkt_read_abbreviations(mega_punkt *p, const char *path)
{
    char *text;
    size_t size;
    mega_buffer lower = {0};
    MEGA_TRY(mega_file_read_kind(path, "text in UTF-8", MEGA_KIND_TABLE, &text, &size));
    bool ok = true;
    for (mega_line l = {.rest = text, .left = size}; ok && mega_line_next(&l);) {
        while (l.bytes > 0 && strchr(" \t\r", *l.text) != NULL) l.text++, l.bytes--;
        while (l.bytes > 0 && strchr(" \t\r", l.text[l.bytes - 1]) != NULL) l.bytes--;
        if (l.bytes > 0 && l.text[l.bytes - 1] == '.') l.bytes--;
        if (l.bytes == 0 || *l.text == '#') continue;
        lower.size = 0;
        punkt_lower(l.text, l.bytes, &lower);
        const int64_t type = lower.failed ? -1 : punkt_add(&p->table, lower.data, lower.size);
        ok = type >= 0;
        if (ok) p->table.type[type].flags |= TYPE_ABBREVIATION;
    }
    mega_buffer_fini(&lower);
    mega_free(text);
    return ok ? MEGA_OK : punkt_no_memory();
}

/* ---- writing ---- */

static void put_name(const punkt_table *t, int64_t type, mega_buffer *out)
{
    mega_buffer_append(out, t->names.data + t->type[type].name, t->type[type].name_bytes);
}

/* A run of periods with white space in it cannot be a line of these files. */
static bool can_be_written(const punkt_table *t, int64_t type)
{
    const char *name = t->names.data + t->type[type].name;
    for (uint32_t i = 0; i < t->type[type].name_bytes; i++)
        if (name[i] == '\t' || name[i] == '\n' || name[i] == '\r') return false;
    return true;
}

static void put_kind(const punkt_table *t, parameter_kind kind, mega_buffer *out)
{
    for (int64_t i = 0; kind == KIND_PAIR && i < t->pairs; i++) {
        put_name(t, t->pair[i].first, out);
        mega_buffer_puts(out, "\t");
        put_name(t, t->pair[i].second, out);
        mega_buffer_puts(out, "\n");
    }
    for (int64_t i = 0; kind != KIND_PAIR && i < t->types; i++) {
        const bool wanted = kind == KIND_ORTHO ? t->type[i].ortho != 0 : (t->type[i].flags & flag_of[kind]) != 0;
        if (!wanted || !can_be_written(t, i)) continue;
        put_name(t, i, out);
        if (kind == KIND_ORTHO) mega_buffer_printf(out, "\t%d", t->type[i].ortho);
        mega_buffer_puts(out, "\n");
    }
}

mega_status mega_punkt_write(const mega_punkt *p, const char *folder)
{
    MEGA_TRY(mega_folder_create(folder));
    for (parameter_kind k = 0; k < KINDS; k++) {
        mega_buffer text = {0};
        put_kind(&p->table, k, &text);
        char *path = mega_path_join(folder, file_name[k]);
        mega_status st = path == NULL ? punkt_no_memory() : mega_buffer_check(&text, "Punkt's parameters");
        if (st == MEGA_OK) st = mega_file_write_atomic(path, text.data != NULL ? text.data : "", text.size);
        mega_free(path);
        mega_buffer_fini(&text);
        MEGA_TRY(st);
    }
    return MEGA_OK;
}
