/* Loads the text of a JSON. Members that an object has twice are mistakes, but no reason to leave the rest unread. */
#include "config_impl.h"
#include "megalith/json.h"
#include "megalith/memory.h"
#include <ctype.h>
#include <jansson.h>
#include <string.h>

typedef struct member {
    const char *name; /* in the text, without a terminator */
    size_t length;
    int line;
} member;

typedef struct duplicate_finder {
    mega_options *o;
    const char *file; /* its name, for messages */
    char *at;
    int line;
} duplicate_finder;

static void find_in_value(duplicate_finder *f, const char *path);

static void step_over_space(duplicate_finder *f)
{
    for (; isspace((unsigned char)*f->at); f->at++) f->line += *f->at == '\n';
}

static void step_over_string(duplicate_finder *f)
{
    for (f->at++; *f->at != '"'; f->at++) f->at += *f->at == '\\';
    f->at++;
}

static const member *same_name(const member *list, size_t count, const member *m)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].length == m->length && memcmp(list[i].name, m->name, m->length) == 0) return &list[i];
    return NULL;
}

/* Overwrites with spaces; line breaks stay. */
static void wipe(char *from, const char *end)
{
    for (; from < end; from++)
        if (*from != '\n') *from = ' ';
}

/* A member that has been there is never the first one, so that a comma precedes it. */
static void find_in_object(duplicate_finder *f, const char *path)
{
    member *list = NULL;
    int64_t capacity = 0;
    size_t count = 0;
    char *comma = f->at, below[200];
    for (f->at++, step_over_space(f); *f->at != '}'; step_over_space(f)) {
        if (*f->at == ',') {
            comma = f->at++;
            continue;
        }
        member m = {.name = f->at + 1, .line = f->line};
        step_over_string(f);
        m.length = (size_t)(f->at - 1 - m.name);
        snprintf(below, sizeof below, "%.100s%s%.*s", path, path[0] != '\0' ? "." : "",
                 m.length < 80 ? (int)m.length : 80, m.name);
        step_over_space(f);
        f->at++; /* the colon */
        step_over_space(f);
        find_in_value(f, below);
        const member *first = same_name(list, count, &m);
        if (first != NULL) {
            mega_options_problem(f->o, MEGA_ERR_FORMAT,
                                 "\"%s\" (%s, line %d) is given for the second time: line %d has it as well; give one",
                                 below, f->file, m.line, first->line);
            wipe(comma, f->at);
        } else if (mega_array_reserve(&list, &capacity, (int64_t)count + 1, sizeof *list)) {
            list[count++] = m;
        } else {
            f->o->out_of_memory = true;
        }
    }
    f->at++;
    mega_free(list);
}

static void find_in_value(duplicate_finder *f, const char *path)
{
    if (*f->at == '{') {
        find_in_object(f, path);
    } else if (*f->at == '"') {
        step_over_string(f);
    } else if (*f->at == '[') {
        for (f->at++, step_over_space(f); *f->at != ']'; step_over_space(f))
            if (*f->at == ',') f->at++;
            else
                find_in_value(f, path);
        f->at++;
    } else {
        f->at += strcspn(f->at, ",:]} \t\r\n");
    }
}

/* Reports members that stand for the second time, and overwrites them with spaces. */
static void wipe_duplicates(mega_options *o, const char *file, char *text)
{
    duplicate_finder f = {.o = o, .file = file, .at = text, .line = 1};
    step_over_space(&f);
    if (*f.at == '{' || *f.at == '[') find_in_value(&f, "");
}

/* An editor may have put a mark of UTF-8 before the text. */
static void pass_byte_order_mark(const char **text, size_t *size)
{
    if (*size < 3 || memcmp(*text, "\xef\xbb\xbf", 3) != 0) return;
    *text += 3;
    *size -= 3;
}

json_t *options_load_tree(mega_options *o, const char *name, const char **text, size_t *size, char **out_copy,
                          json_error_t *error)
{
    pass_byte_order_mark(text, size);
    json_t *tree = mega_json_load(*text, *size, JSON_REJECT_DUPLICATES, error);
    if (tree != NULL || json_error_code(error) != json_error_duplicate_key) return tree;
    json_t *all = mega_json_load(*text, *size, 0, error);
    if (all == NULL) return NULL; /* there is another mistake of the text */
    json_decref(all);
    *out_copy = mega_malloc(*size + 1);
    if (*out_copy != NULL) {
        memcpy(*out_copy, *text, *size);
        (*out_copy)[*size] = '\0';
        wipe_duplicates(o, name, *out_copy);
        *text = *out_copy;
    } else {
        o->out_of_memory = true;
    }
    return mega_json_load(*text, *size, JSON_REJECT_DUPLICATES, error);
}
