/* Parses one line of JSON: checks all of it (RFC 8259, including UTF-8) and extracts the strings of the wanted keys.
 * Like Python's json module it accepts NaN and Infinity, and the last of several equal keys counts. */
#include "documents_impl.h"
#include "json_scan.h"
#include "megalith/json_cursor.h"
#include "megalith/utf8.h"
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 512 };

typedef struct scanner {
    const uint8_t *begin, *p, *end;
    mega_json_run *run;
    const char *why; /* first error, NULL while there is none */
    const uint8_t *where;
} scanner;

/* The text between the quotes of a string, with its escapes. */
typedef struct raw_string {
    const uint8_t *p;
    size_t size;
    bool escaped;
} raw_string;

static bool line_wrong(scanner *s, const uint8_t *where, const char *why)
{
    if (s->why == NULL) {
        s->why = why;
        s->where = where;
    }
    return false;
}

static void skip_space(scanner *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\r' || *s->p == '\n')) s->p++;
}

/* ---- checking ---- */

/* s->p points to the backslash. */
static bool scan_escape(scanner *s)
{
    uint32_t character;
    size_t length = 0;
    switch (mega_json_escape((const char *)s->p, (size_t)(s->end - s->p), &character, &length)) {
    case MEGA_ESCAPE_GOOD: s->p += length; return true;
    case MEGA_ESCAPE_CUT: return line_wrong(s, s->p, "the line ends inside a string");
    case MEGA_ESCAPE_NO_HEX: return line_wrong(s, s->p, "\\u without four hexadecimal digits");
    case MEGA_ESCAPE_HALF: return line_wrong(s, s->p, "half of a surrogate pair, which is not a character");
    case MEGA_ESCAPE_UNKNOWN: break;
    }
    return line_wrong(s, s->p, "unknown escape: expected one of \" \\ / b f n r t u after a backslash");
}

/* s->p points after the opening quote. */
static bool scan_string(scanner *s, raw_string *out)
{
    *out = (raw_string){.p = s->p};
    for (;;) {
        s->p += s->run(s->p, (size_t)(s->end - s->p));
        if (s->p == s->end) return line_wrong(s, s->p, "the line ends inside a string");
        if (*s->p == '"') break;
        if (*s->p == '\\') {
            out->escaped = true;
            if (!scan_escape(s)) return false;
        } else if (*s->p < 0x20) {
            return line_wrong(
                s, s->p, "a control character inside a string; it must be written as an escape (\\n, \\t, \\u0001)");
        } else {
            uint32_t character;
            const int n = mega_utf8_decode(s->p, (size_t)(s->end - s->p), &character);
            if (n == 0) return line_wrong(s, s->p, "bytes that are not UTF-8");
            s->p += n;
        }
    }
    out->size = (size_t)(s->p - out->p);
    s->p++;
    return true;
}

static void skip_digits(scanner *s)
{
    while (s->p < s->end && *s->p >= '0' && *s->p <= '9') s->p++;
}

static bool is_digit(const scanner *s)
{
    return s->p < s->end && *s->p >= '0' && *s->p <= '9';
}

static bool scan_number(scanner *s)
{
    const uint8_t *at = s->p;
    if (*s->p == '-') s->p++;
    if (!is_digit(s)) return line_wrong(s, at, "expected a value");
    if (*s->p == '0') {
        s->p++;
    } else {
        skip_digits(s);
    }
    if (s->p < s->end && *s->p == '.') {
        s->p++;
        if (!is_digit(s)) return line_wrong(s, at, "a number with nothing after its point");
        skip_digits(s);
    }
    if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
        s->p++;
        if (s->p < s->end && (*s->p == '+' || *s->p == '-')) s->p++;
        if (!is_digit(s)) return line_wrong(s, at, "a number with nothing after its exponent sign");
        skip_digits(s);
    }
    return true;
}

static bool scan_word(scanner *s)
{
    static const char *const word[] = {"true", "false", "null", "NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < sizeof word / sizeof word[0]; i++) {
        const size_t n = strlen(word[i]);
        if ((size_t)(s->end - s->p) >= n && memcmp(s->p, word[i], n) == 0) {
            s->p += n;
            return true;
        }
    }
    return *s->p == '-' || (*s->p >= '0' && *s->p <= '9') ? scan_number(s) : line_wrong(s, s->p, "expected a value");
}

static bool scan_value(scanner *s, int depth);

static bool scan_key(scanner *s, raw_string *out)
{
    skip_space(s);
    if (s->p == s->end) return line_wrong(s, s->p, "the line ends inside an object");
    if (*s->p != '"') return line_wrong(s, s->p, "expected a key in double quotes");
    s->p++;
    if (!scan_string(s, out)) return false;
    skip_space(s);
    if (s->p == s->end || *s->p != ':') return line_wrong(s, s->p, "expected ':' after the key");
    s->p++;
    skip_space(s);
    return true;
}

/* After a member or element: returns true if another one follows; *done if the closing bracket came instead. */
static bool scan_next(scanner *s, uint8_t close, bool *done)
{
    skip_space(s);
    if (s->p == s->end)
        return line_wrong(s, s->p, close == '}' ? "the line ends inside an object" : "the line ends inside an array");
    *done = *s->p == close;
    if (!*done && *s->p != ',')
        return line_wrong(s, s->p,
                          close == '}' ? "expected ',' or '}' after a value" : "expected ',' or ']' after a value");
    s->p++;
    return true;
}

static bool scan_container(scanner *s, int depth)
{
    const bool object = *s->p == '{';
    const uint8_t close = object ? '}' : ']';
    if (depth >= DEPTH_MAX) return line_wrong(s, s->p, "nested more than 512 deep");
    s->p++;
    skip_space(s);
    if (s->p < s->end && *s->p == close) {
        s->p++;
        return true;
    }
    for (bool done = false; !done;) {
        raw_string key;
        if (object && !scan_key(s, &key)) return false;
        if (!object) skip_space(s);
        if (!scan_value(s, depth + 1) || !scan_next(s, close, &done)) return false;
    }
    return true;
}

static bool scan_value(scanner *s, int depth)
{
    if (s->p == s->end) return line_wrong(s, s->p, "the line ends where a value should be");
    if (*s->p == '{' || *s->p == '[') return scan_container(s, depth);
    if (*s->p != '"') return scan_word(s);
    s->p++;
    raw_string ignored;
    return scan_string(s, &ignored);
}

/* ---- decoding; the escapes have been checked ---- */

/* Writes the character of the escape at *p, which is never longer than the escape, and moves *p past it. */
static char *put_escape(char *to, const uint8_t **p, const uint8_t *end)
{
    uint32_t character = 0;
    size_t length = 0;
    (void)mega_json_escape((const char *)*p, (size_t)(end - *p), &character, &length);
    *p += length;
    return to + mega_utf8_encode(character, to);
}

static void string_decode(mega_buffer *out, raw_string s)
{
    const uint8_t *p = s.p, *end = s.p + s.size;
    if (!mega_buffer_reserve(out, s.size + 1)) return;
    char *to = out->data + out->size;
    while (p < end) {
        const uint8_t *escape = s.escaped ? memchr(p, '\\', (size_t)(end - p)) : NULL;
        const size_t run = (size_t)((escape != NULL ? escape : end) - p);
        memcpy(to, p, run);
        to += run;
        p += run;
        if (escape != NULL) to = put_escape(to, &p, end);
    }
    *to = '\0';
    out->size = (size_t)(to - out->data);
}

/* scratch: any buffer; it is overwritten if the key contains escapes. */
static bool key_equals(raw_string key, const char *wanted, mega_buffer *scratch)
{
    const size_t n = strlen(wanted);
    if (!key.escaped) return key.size == n && memcmp(key.p, wanted, n) == 0;
    scratch->size = 0;
    string_decode(scratch, key);
    return scratch->size == n && (n == 0 || memcmp(scratch->data, wanted, n) == 0);
}

/* ---- the object of a line ---- */

typedef struct wanted {
    const char *const *keys;
    int num_keys;
    mega_buffer *space;      /* [keys] for strings that have to be unescaped */
    mega_document_text *out; /* [keys] */
    uint64_t found;
    mega_buffer scratch;
    char names[160]; /* keys that were found, for the message when one is missing */
} wanted;

static void note_name(wanted *w, raw_string key)
{
    static const char more[] = ", …";
    const size_t used = strlen(w->names), room = sizeof w->names - used;
    if (strstr(w->names, more) != NULL) return;
    if (key.size + 16 < room) {
        snprintf(w->names + used, room, "%s\"%.*s\"", used > 0 ? ", " : "", (int)key.size, (const char *)key.p);
    } else {
        strcpy(w->names + used, more);
    }
}

static const char *value_kind_of(uint8_t c)
{
    switch (c) {
    case '{': return "an object";
    case '[': return "an array";
    case 't':
    case 'f': return "a truth value";
    case 'n': return "null";
    default: return "a number";
    }
}

static bool scan_member(scanner *s, wanted *w, mega_document_fault *fault)
{
    raw_string key;
    if (!scan_key(s, &key)) return false;
    note_name(w, key);
    int k = 0;
    while (k < w->num_keys && !key_equals(key, w->keys[k], &w->scratch)) k++;
    if (w->scratch.failed) return false;
    if (k == w->num_keys) return scan_value(s, 1);
    if (s->p < s->end && *s->p != '"') {
        const uint8_t *at = s->p;
        if (!scan_value(s, 1)) return false;
        snprintf(fault->what, sizeof fault->what, "the value of \"%s\" is %s, expected a string", w->keys[k],
                 value_kind_of(*at));
        return line_wrong(s, at, fault->what);
    }
    if (s->p == s->end) return scan_value(s, 1);
    s->p++;
    raw_string value;
    if (!scan_string(s, &value)) return false;
    fault->is_repeated = fault->is_repeated || (w->found >> k & 1) != 0;
    w->out[k] = (mega_document_text){(const char *)value.p, value.size};
    w->found |= 1ull << k;
    if (!value.escaped) return true;
    w->space[k].size = 0;
    string_decode(&w->space[k], value);
    w->out[k] = (mega_document_text){w->space[k].data, w->space[k].size};
    return !w->space[k].failed;
}

static bool scan_object(scanner *s, wanted *w, mega_document_fault *fault)
{
    skip_space(s);
    if (s->p == s->end || *s->p != '{') return line_wrong(s, s->p, "expected a JSON object, which begins with '{'");
    s->p++;
    skip_space(s);
    bool done = s->p < s->end && *s->p == '}';
    s->p += done;
    while (!done) {
        if (!scan_member(s, w, fault) || !scan_next(s, '}', &done)) return false;
    }
    skip_space(s);
    if (s->p != s->end) return line_wrong(s, s->p, "found something after the object; expected one object per line");
    for (int k = 0; k < w->num_keys; k++) {
        if ((w->found >> k & 1) != 0) continue;
        snprintf(fault->what, sizeof fault->what, "no key \"%.40s\", found %s", w->keys[k],
                 w->names[0] != '\0' ? w->names : "none");
        return line_wrong(s, s->begin, fault->what);
    }
    return true;
}

bool mega_json_line_views(const char *line, size_t bytes, const char *const *keys, int num_keys, mega_buffer *space,
                          mega_document_text *out, mega_document_fault *fault)
{
    scanner s = {.begin = (const uint8_t *)line,
                 .p = (const uint8_t *)line,
                 .end = (const uint8_t *)line + bytes,
                 .run = mega_json_run_for(mega_cpu_isa())};
    wanted w = {.keys = keys, .num_keys = num_keys, .space = space, .out = out};
    *fault = (mega_document_fault){.column = 1};
    const bool ok = scan_object(&s, &w, fault);
    if (w.scratch.failed) space[0].failed = true;
    mega_buffer_fini(&w.scratch);
    if (ok || s.why == NULL) return ok; /* false without a reason means out of memory */
    if (s.why != fault->what) snprintf(fault->what, sizeof fault->what, "%s", s.why);
    fault->column = mega_utf8_count(line, (size_t)(s.where - s.begin)) + 1;
    return false;
}

bool mega_json_line_strings(const char *line, size_t bytes, const char *const *keys, int num_keys, mega_buffer *out,
                            mega_document_fault *fault)
{
    mega_document_text view[MEGA_JSON_KEYS_MAX];
    for (int k = 0; k < num_keys; k++) out[k].size = 0;
    if (!mega_json_line_views(line, bytes, keys, num_keys, out, view, fault)) return false;
    for (int k = 0; k < num_keys; k++) {
        if (view[k].bytes > 0 && view[k].text == out[k].data) continue; /* it was unescaped into this buffer */
        /* an earlier value of the same key may have filled it */
        out[k].size = 0;
        if (!mega_buffer_append(&out[k], view[k].text, view[k].bytes)) return false;
    }
    return true;
}
