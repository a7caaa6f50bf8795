/* Recognises formats that are written as text: HTML and XML, Python pickles, CSV and TSV.
 *
 * A page is recognised by how it begins, after any comments: its type, or an element of a whole page. An
 * element that may stand in any text (<p>, <br />) makes a page of it only if another element follows at once, or
 * after its end: an XML-like prompt, or a text that begins with one such element, is text. */
#include "file_kind_impl.h"
#include "megalith/file_kind.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

/* What is left of a text. */
typedef struct span {
    const char *at;
    size_t size;
} span;

static void span_skip(span *s, size_t n)
{
    n = n < s->size ? n : s->size;
    s->at += n;
    s->size -= n;
}

static void skip_white(span *s)
{
    while (s->size > 0 && isspace((unsigned char)*s->at)) span_skip(s, 1);
}

static bool begins_with(const span *s, const char *text)
{
    return s->size >= strlen(text) && memcmp(s->at, text, strlen(text)) == 0;
}

/* Skips past the next occurrence of the text. Returns false if there is none. */
static bool skip_behind(span *s, const char *text)
{
    const char *found = memmem(s->at, s->size, text, strlen(text));
    if (found == NULL) return false;
    span_skip(s, (size_t)(found - s->at) + strlen(text));
    return true;
}

/* ---- markup ---- */

/* Returns the length of the word of the list with which the text begins, as a whole name in any case; 0: none. */
static size_t text_kind_name(const span *s, const char *const *words)
{
    for (; *words != NULL; words++) {
        const size_t m = strlen(*words);
        if (s->size > m && strncasecmp(s->at, *words, m) == 0 && strchr(" \t\r\n>/", s->at[m]) != NULL) return m;
    }
    return 0;
}

static const char *const pages[] = {"<!doctype html", "<html", "<head", "<body", "<meta", "<script", "<frameset", NULL};
static const char *const elements[] = {
    "<br",     "<p",     "<div",  "<span",  "<h1",   "<h2",       "<h3",     "<h4",    "<h5", "<h6",
    "<a",      "<b",     "<i",    "<em",    "<u",    "<img",      "<table",  "<tr",    "<td", "<ul",
    "<ol",     "<li",    "<hr",   "<pre",   "<font", "<center",   "<nav",    "<small", "<tt", "<big",
    "<strong", "<title", "<link", "<style", "<base", "<noscript", "<iframe", NULL};

/* Returns the text after comments; *has_any: there were some. One without an end within these bytes hides what it
 * is. */
static span behind_comments(const uint8_t *b, size_t n, bool *has_any)
{
    span s = {.size = n};
    s.at = file_kind_text(b, &s.size);
    *has_any = false;
    while (begins_with(&s, "<!--")) {
        *has_any = true;
        if (!skip_behind(&s, "-->")) return (span){s.at, 0};
        skip_white(&s);
    }
    return s;
}

/* Whether an element or the end of one begins here. */
static bool begins_element(span s)
{
    char name[16] = "<";
    if (text_kind_name(&s, elements) > 0 || text_kind_name(&s, pages) > 0) return true;
    if (!begins_with(&s, "</")) return false;
    span_skip(&s, 2);
    const size_t n = s.size < sizeof name - 2 ? s.size : sizeof name - 2;
    memcpy(name + 1, s.at, n);
    const span opened = {name, n + 1};
    return text_kind_name(&opened, elements) > 0 || text_kind_name(&opened, pages) > 0;
}

/* Skips the text of an element and its end, if nothing else comes before that. */
static bool skip_end_of(span *s, const char *name, size_t n)
{
    const char *end = memchr(s->at, '<', s->size);
    if (end == NULL) return false;
    span_skip(s, (size_t)(end - s->at));
    if (s->size < n + 3 || s->at[1] != '/' || strncasecmp(s->at + 2, name, n) != 0 || s->at[2 + n] != '>') return false;
    span_skip(s, n + 3);
    skip_white(s);
    return true;
}

bool file_kind_is_html(const uint8_t *b, size_t n)
{
    bool is_behind;
    span s = behind_comments(b, n, &is_behind);
    if (text_kind_name(&s, pages) > 0) return true;
    const char *first = s.at + 1;
    const size_t name = text_kind_name(&s, elements);
    if (name == 0) return false;
    if (is_behind) return true;
    if (!skip_behind(&s, ">")) return false;
    skip_white(&s);
    return begins_element(s) || (skip_end_of(&s, first, name - 1) && begins_element(s));
}

bool file_kind_is_xml(const uint8_t *b, size_t n)
{
    static const char *const words[] = {"<?xml", "<!doctype", "<error", "<svg", NULL};
    bool is_behind;
    const span s = behind_comments(b, n, &is_behind);
    return text_kind_name(&s, words) > 0;
}

/* ---- pickles ---- */

/* Skips a line that is this letter and a number. */
static bool skip_number(span *s, const char *letters)
{
    span t = *s;
    if (t.size == 0 || strchr(letters, *t.at) == NULL) return false;
    span_skip(&t, 1);
    if (begins_with(&t, "-")) span_skip(&t, 1);
    if (t.size == 0 || !isdigit((unsigned char)*t.at)) return false;
    while (t.size > 0 && (isdigit((unsigned char)*t.at) || strchr(".eE+-L", *t.at) != NULL)) span_skip(&t, 1);
    if (!begins_with(&t, "\n")) return false;
    span_skip(&t, 1);
    *s = t;
    return true;
}

static bool skip_name(span *s)
{
    const size_t before = s->size;
    while (s->size > 0 && (isalnum((unsigned char)*s->at) || strchr("_.", *s->at) != NULL)) span_skip(s, 1);
    const bool is_line = s->size < before && begins_with(s, "\n");
    span_skip(s, 1);
    return is_line;
}

/* Protocol 0 has one instruction after the other, most of them with a line: "(lp0" begins a list, "cMODULE", "NAME" a
 * call, "V…", "p0" is a text that is kept as number 0. */
static bool begins_lines(span s)
{
    bool is_open = false;
    while (begins_with(&s, "(")) {
        is_open = true;
        span_skip(&s, 1);
        while (begins_with(&s, "N")) span_skip(&s, 1);
    }
    if (is_open && (begins_with(&s, "l") || begins_with(&s, "d") || begins_with(&s, "t"))) {
        span_skip(&s, 1);
        return skip_number(&s, "p");
    }
    if (begins_with(&s, "V") || begins_with(&s, "S'") || begins_with(&s, "S\""))
        return skip_behind(&s, "\n") && skip_number(&s, "p");
    if (begins_with(&s, "c")) {
        span_skip(&s, 1);
        if (!skip_name(&s) || !skip_name(&s)) return false;
        if (begins_with(&s, "(S'") || begins_with(&s, "(S\"") || begins_with(&s, "(tR")) return true;
        if (!begins_with(&s, "(c")) return (s.size > 1 && memcmp(s.at, "q\0", 2) == 0) || skip_number(&s, "p");
        span_skip(&s, 2);
        return skip_name(&s) && skip_name(&s);
    }
    if (!skip_number(&s, "ILF")) return false;
    return is_open ? s.size > 0 && strchr("ILFVSNtld(", *s.at) != NULL : s.size == 1 && *s.at == '.';
}

/* Protocols 2 to 5 begin with their number; 1 keeps its first list or dictionary as number 0. */
bool file_kind_is_pickle(const uint8_t *b, size_t n)
{
    if (n > 2 && b[0] == 0x80 && b[1] >= 2 && b[1] <= 5) return true;
    if (n > 3 && (b[0] == ']' || b[0] == '}') && b[1] == 'q' && b[2] == 0) return true;
    return begins_lines((span){(const char *)b, n});
}

/* ---- CSV and TSV under another name ---- */

/* Skips a record with its end of line. Returns the number of its fields; 0: it is not whole, or no record. */
static int skip_record(span *s, char separator)
{
    int fields = 1;
    while (s->size > 0) {
        const char *end = s->at;
        if (*end == '"') { /* a quoted field may hold separators, ends of lines, and quotes, each twice */
            do {
                span_skip(s, 1);
                if (!skip_behind(s, "\"")) return 0;
            } while (begins_with(s, "\""));
        }
        while (s->size > 0 && *s->at != separator && *s->at != '\n') span_skip(s, 1);
        if (s->size == 0) return 0;
        const bool is_last = *s->at == '\n';
        span_skip(s, 1);
        if (is_last) return fields;
        fields++;
    }
    return 0;
}

/* Whether the first line is names, as a program would have them: prose has spaces after its commas. */
static bool begins_with_names(span s, char separator)
{
    bool is_begin = true;
    for (; s.size > 0 && *s.at != '\n' && *s.at != '\r'; span_skip(&s, 1)) {
        const bool is_letter = isalpha((unsigned char)*s.at) || *s.at == '_';
        if (*s.at == separator && is_begin) return false;
        if (*s.at != separator && !is_letter && *s.at != '"' && (is_begin || !isalnum((unsigned char)*s.at)))
            return false;
        is_begin = *s.at == separator || (is_begin && *s.at == '"');
    }
    return !is_begin;
}

int mega_file_table_columns(const void *bytes, size_t size, char *separator)
{
    enum { LEAST_RECORDS = 2, MOST_RECORDS = 100 };
    for (const char *c = ",\t;"; *c != '\0'; c++) {
        span s = {.size = size};
        s.at = file_kind_text(bytes, &s.size);
        if (!begins_with_names(s, *c)) continue;
        const int columns = skip_record(&s, *c);
        int records = 0, fields = columns;
        while (columns > 1 && records < MOST_RECORDS && (fields = skip_record(&s, *c)) == columns) records++;
        if (records < LEAST_RECORDS || (fields != columns && s.size > 0)) continue;
        *separator = *c;
        return columns;
    }
    return 0;
}
