/* Translates a regular expression of a tokenizer.json for PCRE2: every class of characters, with its properties and
 * nested classes, becomes a list of code points from our own table. */
#include "char_set.h"
#include "megalith/utf8.h"
#include "regex.h"
#include <string.h>

typedef struct translation {
    const char *text;
    size_t n, at;
    mega_buffer *out;
} translation;

enum { DEEPEST_CLASS = 16 };

static mega_status refused(const translation *t, size_t from, const char *what)
{
    const size_t n = t->at > from ? t->at - from : 0;
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "regular expression: '%.*s' at character %zu: %s", n > 40 ? 40 : (int)n,
                     t->text + from, from + 1, what);
}

static bool next_is(const translation *t, const char *text)
{
    const size_t n = strlen(text);
    return t->n - t->at >= n && memcmp(t->text + t->at, text, n) == 0;
}

/* Reads \xHH, \x{H…} or \uHHHH after its letter. */
static mega_status read_code(translation *t, size_t from, uint32_t *cp)
{
    const bool braces = t->text[t->at - 1] == 'x' && next_is(t, "{");
    size_t most = t->text[t->at - 1] == 'u' ? 4 : 2, digits = 0;
    if (braces) {
        t->at++;
        most = 6;
    }
    *cp = 0;
    for (; digits < most && t->at < t->n; digits++, t->at++) {
        const char c = t->text[t->at];
        const int digit = c >= '0' && c <= '9'                     ? c - '0'
                          : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                   : -1;
        if (digit < 0) break;
        *cp = *cp * 16 + (uint32_t)digit;
    }
    const bool closed = !braces || next_is(t, "}");
    if (braces && closed) t->at++;
    if (digits == 0 || !closed || *cp >= MEGA_CODE_POINTS || (*cp >= 0xD800 && *cp < 0xE000))
        return refused(t, from, "it is not the number of a character");
    return MEGA_OK;
}

/* Reads {Name} or one letter after \p or \P. */
static mega_status read_property(translation *t, size_t from, mega_char_set *set)
{
    const bool outside = t->text[t->at - 1] == 'P';
    bool negated = outside;
    const char *name = t->text + t->at;
    size_t n = 1;
    if (next_is(t, "{")) {
        name++;
        if (next_is(t, "{^")) {
            name++;
            negated = !negated;
        }
        const char *close = memchr(name, '}', t->n - (size_t)(name - t->text));
        if (close == NULL) return refused(t, from, "the name of a property has no end");
        n = (size_t)(close - name);
        t->at = (size_t)(close - t->text) + 1;
    } else if (t->at < t->n) {
        t->at++;
    } else {
        return refused(t, from, "the name of a property is missing");
    }
    mega_char_set own = {0};
    if (!mega_char_set_add_category(&own, name, n)) {
        mega_char_set_fini(&own);
        return refused(t, from, "only general categories, as \\p{L} or \\p{Lu}, are supported");
    }
    if (negated) mega_char_set_negate(&own);
    mega_char_set_join(set, &own);
    mega_char_set_fini(&own);
    return MEGA_OK;
}

static void regex_add_named(mega_char_set *set, char letter)
{
    mega_char_set own = {0};
    const char kind = (char)(letter | 0x20);
    if (kind == 's') mega_char_set_add_space(&own);
    else if (kind == 'd')
        mega_char_set_add_category(&own, "Nd", 2);
    else
        mega_char_set_add_word(&own);
    if (letter != kind) mega_char_set_negate(&own);
    mega_char_set_join(set, &own);
    mega_char_set_fini(&own);
}

/* Reads an escape that stands for characters, after its backslash. *single: whether it is one, which may begin a
 * range. */
static mega_status read_escape_set(translation *t, size_t from, mega_char_set *set, bool *single, uint32_t *cp)
{
    static const char letters[] = "rntfvae", codes[] = "\r\n\t\f\v\a\x1b";
    if (t->at >= t->n) return refused(t, from, "the pattern ends in a backslash");
    const char c = t->text[t->at++];
    const char *known = strchr(letters, c);
    *single = false;
    if (c == 'p' || c == 'P') return read_property(t, from, set);
    if (c != '\0' && strchr("sSdDwW", c) != NULL) {
        regex_add_named(set, c);
        return MEGA_OK;
    }
    *single = true;
    if (c == 'x' || c == 'u') return read_code(t, from, cp);
    if (c != '\0' && known != NULL) {
        *cp = (uint8_t)codes[known - letters];
        return MEGA_OK;
    }
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0)
        return refused(t, from, "this escape is not supported");
    *cp = (uint8_t)c;
    return MEGA_OK;
}

static mega_status read_literal(translation *t, uint32_t *cp)
{
    const int length = mega_utf8_decode((const uint8_t *)t->text + t->at, t->n - t->at, cp);
    if (length == 0) return refused(t, t->at, "a byte that is not UTF-8");
    t->at += (size_t)length;
    return MEGA_OK;
}

static mega_status read_class(translation *t, mega_char_set *set, int depth);

/* Reads one member of a class. *single as above. */
static mega_status read_member(translation *t, mega_char_set *set, int depth, bool *single, uint32_t *cp)
{
    const size_t from = t->at;
    *single = true;
    if (next_is(t, "&&")) {
        t->at += 2;
        return refused(t, from, "the intersection of classes is not supported");
    }
    if (next_is(t, "[:")) {
        t->at += 2;
        return refused(t, from, "classes of POSIX are not supported");
    }
    if (next_is(t, "[")) {
        *single = false;
        t->at++;
        return read_class(t, set, depth + 1);
    }
    if (next_is(t, "\\")) {
        t->at++;
        return read_escape_set(t, from, set, single, cp);
    }
    return read_literal(t, cp);
}

/* Reads a class after its '[', and adds it to the set. */
static mega_status read_class(translation *t, mega_char_set *set, int depth)
{
    const size_t from = t->at;
    mega_char_set own = {0};
    bool negated = false;
    mega_status st = MEGA_OK;
    if (depth > DEEPEST_CLASS) return refused(t, from, "classes are nested too deeply");
    if (next_is(t, "^")) {
        negated = true;
        t->at++;
    }
    for (bool first = true; st == MEGA_OK; first = false) {
        uint32_t low = 0, high = 0;
        bool single = false, range = false;
        if (t->at >= t->n) {
            st = refused(t, from, "a class has no end");
            break;
        }
        if (next_is(t, "]") && !first) break;
        st = read_member(t, &own, depth, &single, &low);
        high = low;
        range = st == MEGA_OK && single && next_is(t, "-") && t->at + 1 < t->n && t->text[t->at + 1] != ']';
        if (range) {
            t->at++;
            st = read_member(t, &own, depth, &single, &high);
            if (st == MEGA_OK && (!single || high < low)) st = refused(t, from, "a range of a class is not in order");
        }
        if (st == MEGA_OK && single) mega_char_set_add(&own, low, high);
    }
    t->at++;
    if (st == MEGA_OK && negated) mega_char_set_negate(&own);
    mega_char_set_join(set, &own);
    mega_char_set_fini(&own);
    return st;
}

/* Writes a set as a class without names. An empty one matches nothing. */
static void write_set(translation *t, mega_char_set *set)
{
    mega_char_set_order(set);
    if (set->count == 0) {
        mega_buffer_puts(t->out, "(?!)");
        return;
    }
    mega_buffer_puts(t->out, "[");
    for (int64_t i = 0; i < set->count; i++) {
        uint32_t first = set->range[i].first, last = set->range[i].last;
        if (first >= 0xD800 && first < 0xE000) first = 0xE000; /* not characters, which PCRE2 insists on */
        if (last >= 0xD800 && last < 0xE000) last = 0xD7FF;
        if (first > last) continue;
        mega_buffer_printf(t->out, first == last ? "\\x{%x}" : "\\x{%x}-\\x{%x}", first, last);
    }
    mega_buffer_puts(t->out, "]");
    if (set->failed) t->out->failed = true;
}

static mega_status translate_escape(translation *t)
{
    const size_t from = t->at++;
    const char c = t->at < t->n ? t->text[t->at] : '\0';
    if (c == 'A' || c == 'z') { /* the begin and the end of the text */
        t->at++;
        mega_buffer_append(t->out, t->text + from, 2);
        return MEGA_OK;
    }
    mega_char_set set = {0};
    bool single = false;
    uint32_t cp = 0;
    const mega_status st = read_escape_set(t, from, &set, &single, &cp);
    if (st == MEGA_OK && single) mega_buffer_printf(t->out, "\\x{%x}", cp);
    else if (st == MEGA_OK)
        write_set(t, &set);
    mega_char_set_fini(&set);
    return st;
}

static mega_status translate_group(translation *t)
{
    static const char *const known[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?i)"};
    const size_t from = t->at;
    const char *kind = "(";
    if (next_is(t, "(?")) {
        kind = NULL;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            if (next_is(t, known[i])) kind = known[i];
        if (kind == NULL) {
            t->at += t->n - t->at < 4 ? t->n - t->at : 4;
            return refused(t, from, "this kind of group is not supported");
        }
    }
    t->at += strlen(kind);
    /* an ordinary group is used for nothing but grouping */
    mega_buffer_puts(t->out, strcmp(kind, "(") == 0 ? "(?:" : kind);
    return MEGA_OK;
}

/* {2}, {1,3}, {2,} and {,3}; any other brace is a character. */
static void translate_brace(translation *t)
{
    const char *from = t->text + t->at + 1, *const end = t->text + t->n, *at = from;
    bool comma = false, digits = false;
    for (; at < end && ((*at >= '0' && *at <= '9') || (*at == ',' && !comma)); at++) {
        comma = comma || *at == ',';
        digits = digits || *at != ',';
    }
    if (at == end || *at != '}' || !digits) {
        mega_buffer_puts(t->out, "\\{");
        t->at++;
        return;
    }
    mega_buffer_puts(t->out, *from == ',' ? "{0" : "{");
    mega_buffer_append(t->out, from, (size_t)(at + 1 - from));
    t->at += (size_t)(at + 1 - from) + 1;
}

mega_status mega_regex_translate(const char *pattern, size_t n, mega_buffer *out)
{
    translation t = {.text = pattern, .n = n, .out = out};
    while (t.at < n) {
        const char c = pattern[t.at];
        if (c == '\\') {
            MEGA_TRY(translate_escape(&t));
        } else if (c == '(') {
            MEGA_TRY(translate_group(&t));
        } else if (c == '[') {
            mega_char_set set = {0};
            t.at++;
            const mega_status st = read_class(&t, &set, 0);
            if (st == MEGA_OK) write_set(&t, &set);
            mega_char_set_fini(&set);
            MEGA_TRY(st);
        } else if (c == '{') {
            translate_brace(&t);
        } else if (c != '\0' && strchr("|)?*+^$.", c) != NULL) {
            mega_buffer_append(out, &c, 1);
            t.at++;
        } else {
            uint32_t cp;
            MEGA_TRY(read_literal(&t, &cp));
            mega_buffer_printf(out, "\\x{%x}", cp);
        }
        if (out->size > (1 << 20)) return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "regular expression: it is too long");
    }
    return mega_buffer_check(out, "a regular expression");
}
