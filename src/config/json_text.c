/* Where the text of a JSON comes from, and the forms that DeepSpeed accepts besides the plain one: with comments and
 * commas before a closing bracket, and in base64. */
#include "config_impl.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include <ctype.h>
#include <string.h>

/* Overwrites with spaces; line breaks stay, so that lines keep their numbers. */
static void blank(char *from, const char *end)
{
    for (; from < end; from++)
        if (*from != '\n') *from = ' ';
}

/* Returns the end of the comment that begins at `at`; `at` itself where none does. */
static char *end_of_comment(char *at)
{
    if (at[0] == '#' || (at[0] == '/' && at[1] == '/')) return at + strcspn(at, "\n");
    if (at[0] != '/' || at[1] != '*') return at;
    char *end = strstr(at + 2, "*/");
    return end != NULL ? end + 2 : at + strlen(at);
}

/* Replaces comments, and commas before a closing bracket, by spaces. */
static void strip_json_comments(char *text)
{
    char *comma = NULL; /* the last one, if only white space follows it so far */
    for (char *at = text; *at != '\0';) {
        char *end = end_of_comment(at);
        if (end != at) {
            blank(at, end);
            at = end;
            continue;
        }
        if (*at == '"') {
            for (at++; *at != '\0' && *at != '"' && *at != '\n'; at++)
                if (*at == '\\' && at[1] != '\0') at++;
        }
        if ((*at == '}' || *at == ']') && comma != NULL) *comma = ' ';
        if (*at == ',') comma = at;
        else if (!isspace((unsigned char)*at))
            comma = NULL;
        if (*at != '\0') at++;
    }
}

static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const char *found = c != '\0' ? strchr(digits, c) : NULL;
    return found != NULL ? (int)(found - digits) : c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Returns the decoded text, to be freed; NULL if the text is no base64 of an object in braces. */
static char *from_base64(const char *text)
{
    const size_t length = strcspn(text, "=");
    unsigned bits = 0;
    size_t n = 0;
    char *out = length >= 2 ? mega_malloc(length + 1) : NULL;
    if (out == NULL) return NULL;
    bool is_valid = strspn(text + length, "=") == strlen(text + length);
    for (size_t i = 0; is_valid && i < length; i++) {
        const int digit = digit_of(text[i]);
        is_valid = digit >= 0;
        bits = bits << 6 | (unsigned)(digit & 63);
        if (i % 4 > 0) out[n++] = (char)(bits >> (6 - 2 * (i % 4)) & 255);
    }
    out[n] = '\0';
    if (is_valid && strlen(out) == n && out[strspn(out, " \t\r\n")] == '{') return out;
    mega_free(out);
    return NULL;
}

/* Reads a copy, from which comments are removed. */
static void json_read_copy(mega_options *o, const char *text)
{
    char *copy = mega_strdup(text);
    if (copy == NULL) {
        o->out_of_memory = true;
        return;
    }
    strip_json_comments(copy);
    options_read_text(o, o->json_name, false, copy, strlen(copy));
    mega_free(copy);
}

/* Reads a file; a text in base64 if there is no such file. */
static void json_read_file(mega_options *o, const char *name)
{
    char *file = NULL;
    size_t size = 0;
    char *decoded = mega_file_exists(name) ? NULL : from_base64(name);
    if (decoded != NULL) {
        o->json_name = o->table.composition->json_name;
        json_read_copy(o, decoded);
    } else if (mega_file_read_kind(name, "a DeepSpeed JSON", 0, &file, &size) == MEGA_OK) {
        if (strlen(file) == size) strip_json_comments(file);
        options_read_text(o, o->json_name, false, file, size);
    } else {
        o->json_is_unread = true;
        options_problem_from_error(o);
    }
    MEGA_FREE(file, decoded);
}

void options_read_json(mega_options *o, const char *json)
{
    o->json_name = mega_options_text(o, "%s", json);
    if (json[strspn(json, " \t\r\n")] == '{') {
        o->json_name = o->table.composition->json_name;
        json_read_copy(o, json);
    } else {
        json_read_file(o, json);
    }
}

void options_read_yaml(mega_options *o, const char *name, const char *json)
{
    o->yaml_name = mega_options_text(o, "%s", name);
    if (json[0] == '\0') { /* the mistakes are known */
        o->json_is_unread = true;
        return;
    }
    options_read_text(o, o->yaml_name, true, json, strlen(json));
}

bool mega_options_may_be_in_json(const mega_options *o)
{
    return o->json_is_unread;
}

bool mega_options_has_json(const mega_options *o)
{
    return o->json_name != NULL;
}

const char *mega_options_json_value(const mega_options *o, const char *path)
{
    for (size_t i = 0; i < o->num_given; i++)
        if (strcmp(o->given[i].path, path) == 0) return o->given[i].text;
    return NULL;
}
