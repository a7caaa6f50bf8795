/* Walks over JSON text: values, strings and their escapes, and where a mistake is. */
#include "megalith/json_cursor.h"
#include "megalith/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 512 };

void mega_cursor_init(mega_cursor *c, const char *name, const char *text, size_t size)
{
    *c = (mega_cursor){.name = name, .text = text, .size = size};
}

void mega_cursor_fini(mega_cursor *c)
{
    mega_buffer_fini(&c->string);
}

mega_status mega_cursor_fail(const mega_cursor *c, size_t at, const char *fmt, ...)
{
    const bool is_part = c->part != NULL && at >= c->part_at && at < c->part_end;
    int64_t line = 1, column = 1;
    for (size_t i = is_part ? c->part_at : 0; i < at && i < c->size; i++) {
        if (c->text[i] == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)c->text[i] & 0xC0) != 0x80) {
            column++;
        }
    }
    char what[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    if (is_part) return MEGA_FAIL(MEGA_ERR_FORMAT, "%s line %lld: %s", c->part, (long long)line, what);
    return MEGA_FAIL(MEGA_ERR_FORMAT, "%s line %lld column %lld: %s", c->name, (long long)line, (long long)column,
                     what);
}

char mega_cursor_peek(mega_cursor *c)
{
    while (c->at < c->size) {
        const char b = c->text[c->at];
        if (b != ' ' && b != '\n' && b != '\r' && b != '\t') return b;
        c->at++;
    }
    return '\0';
}

static const char *cursor_kind(char first)
{
    switch (first) {
    case '\0': return "the end of the file";
    case '{': return "an object";
    case '[': return "a list";
    case '"': return "a string";
    case 't':
    case 'f': return "true or false";
    case 'n': return "null";
    default: return first == '-' || (first >= '0' && first <= '9') ? "a number" : "something that is not JSON";
    }
}

static mega_status cursor_expected(mega_cursor *c, const char *what)
{
    const char found = mega_cursor_peek(c);
    return mega_cursor_fail(c, c->at, "found %s, expected %s", cursor_kind(found), what);
}

mega_status mega_cursor_open(mega_cursor *c, char bracket)
{
    if (mega_cursor_peek(c) != bracket) return cursor_expected(c, cursor_kind(bracket));
    c->at++;
    return MEGA_OK;
}

mega_status mega_cursor_more(mega_cursor *c, char bracket, bool *first, bool *more)
{
    const char close = bracket == '{' ? '}' : ']';
    const char found = mega_cursor_peek(c);
    if (found == close) {
        c->at++;
        *more = false;
        return MEGA_OK;
    }
    if (!*first) {
        if (found != ',') return mega_cursor_fail(c, c->at, "expected ',' or '%c' after a value", close);
        c->at++;
        if (mega_cursor_peek(c) == close) return mega_cursor_fail(c, c->at, "a value must follow ','");
    }
    *first = false;
    *more = true;
    return MEGA_OK;
}

/* Reads four hexadecimal digits; -1 if there are none. */
static int32_t read_hex4(const char *p, size_t n)
{
    if (n < 4) return -1;
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const char b = p[i];
        const int digit = b >= '0' && b <= '9'   ? b - '0'
                          : b >= 'a' && b <= 'f' ? b - 'a' + 10
                          : b >= 'A' && b <= 'F' ? b - 'A' + 10
                                                 : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

mega_escape_fault mega_json_escape(const char *p, size_t n, uint32_t *cp, size_t *length)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (n < 2) return MEGA_ESCAPE_CUT;
    if (p[1] != 'u') {
        const char *place = memchr(from, p[1], sizeof from - 1);
        if (place == NULL) return MEGA_ESCAPE_UNKNOWN;
        *cp = (uint32_t)to[place - from];
        *length = 2;
        return MEGA_ESCAPE_GOOD;
    }
    const int32_t unit = read_hex4(p + 2, n - 2);
    if (unit < 0) return MEGA_ESCAPE_NO_HEX;
    *cp = (uint32_t)unit;
    *length = 6;
    if (unit < 0xD800 || unit > 0xDFFF) return MEGA_ESCAPE_GOOD;
    const bool is_pair = unit < 0xDC00 && n >= 12 && p[6] == '\\' && p[7] == 'u';
    const int32_t low = is_pair ? read_hex4(p + 8, n - 8) : -1;
    if (low < 0xDC00 || low > 0xDFFF) return MEGA_ESCAPE_HALF;
    *cp = 0x10000u + (((uint32_t)unit - 0xD800u) << 10) + ((uint32_t)low - 0xDC00u);
    *length = 12;
    return MEGA_ESCAPE_GOOD;
}

static mega_status read_escape(mega_cursor *c)
{
    const char *const p = c->text + c->at;
    char utf8[4];
    uint32_t cp = 0;
    size_t length = 0;
    switch (mega_json_escape(p, c->size - c->at, &cp, &length)) {
    case MEGA_ESCAPE_GOOD: break;
    case MEGA_ESCAPE_CUT: return mega_cursor_fail(c, c->at, "the file ends inside a string");
    case MEGA_ESCAPE_UNKNOWN: return mega_cursor_fail(c, c->at, "'\\%c' is not a JSON escape", p[1]);
    case MEGA_ESCAPE_NO_HEX: return mega_cursor_fail(c, c->at, "\\u needs four hexadecimal digits");
    case MEGA_ESCAPE_HALF: return mega_cursor_fail(c, c->at, "%.6s is half of a surrogate pair", p);
    }
    c->at += length;
    mega_buffer_append(&c->string, utf8, (size_t)mega_utf8_encode(cp, utf8));
    return MEGA_OK;
}

mega_status mega_cursor_string(mega_cursor *c)
{
    if (mega_cursor_peek(c) != '"') return cursor_expected(c, "a string");
    const size_t start = c->at++;
    c->string.size = 0;
    for (;;) {
        const size_t from = c->at;
        while (c->at < c->size && c->text[c->at] != '"' && c->text[c->at] != '\\') {
            uint32_t cp;
            const int length = mega_utf8_decode((const uint8_t *)c->text + c->at, c->size - c->at, &cp);
            if (length == 0) return mega_cursor_fail(c, c->at, "a byte that is not UTF-8");
            if (cp < 0x20) return mega_cursor_fail(c, c->at, "a control character inside a string; write \\u%04x", cp);
            c->at += (size_t)length;
        }
        if (c->at >= c->size) return mega_cursor_fail(c, start, "this string has no end");
        mega_buffer_append(&c->string, c->text + from, c->at - from);
        if (c->text[c->at] == '"') break;
        MEGA_TRY(read_escape(c));
    }
    c->at++;
    return mega_buffer_check(&c->string, c->name);
}

mega_status mega_cursor_key(mega_cursor *c)
{
    MEGA_TRY(mega_cursor_string(c));
    if (mega_cursor_peek(c) != ':') return mega_cursor_fail(c, c->at, "expected ':' after a key");
    c->at++;
    return MEGA_OK;
}

bool mega_cursor_string_is(const mega_cursor *c, const char *text)
{
    return c->string.size == strlen(text) && (c->string.size == 0 || memcmp(c->string.data, text, c->string.size) == 0);
}

static bool eat_word(mega_cursor *c, const char *word)
{
    mega_cursor_peek(c);
    const size_t n = strlen(word);
    if (c->size - c->at < n || memcmp(c->text + c->at, word, n) != 0) return false;
    c->at += n;
    return true;
}

mega_status mega_cursor_int(mega_cursor *c, int64_t *out)
{
    const char found = mega_cursor_peek(c);
    const size_t start = c->at;
    if (found != '-' && (found < '0' || found > '9')) return cursor_expected(c, "an integer");
    const bool negative = found == '-';
    if (negative) c->at++;
    int64_t value = 0;
    const size_t digits = c->at;
    while (c->at < c->size && c->text[c->at] >= '0' && c->text[c->at] <= '9') {
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, c->text[c->at] - '0', &value))
            return mega_cursor_fail(c, start, "this integer does not fit into 64 bits");
        c->at++;
    }
    const char next = c->at < c->size ? c->text[c->at] : '\0';
    if (c->at == digits || next == '.' || next == 'e' || next == 'E')
        return mega_cursor_fail(c, start, "found a number that is not an integer");
    *out = negative ? -value : value;
    return MEGA_OK;
}

mega_status mega_cursor_bool(mega_cursor *c, bool *out)
{
    if (eat_word(c, "true")) {
        *out = true;
        return MEGA_OK;
    }
    if (!eat_word(c, "false")) return cursor_expected(c, "true or false");
    *out = false;
    return MEGA_OK;
}

bool mega_cursor_null(mega_cursor *c)
{
    return eat_word(c, "null");
}

static mega_status cursor_skip_number(mega_cursor *c)
{
    const size_t start = c->at;
    while (c->at < c->size && c->text[c->at] != '\0' && strchr("+-.0123456789eE", c->text[c->at]) != NULL) c->at++;
    return c->at == start ? cursor_expected(c, "a value") : MEGA_OK;
}

static mega_status cursor_skip_value(mega_cursor *c, int depth)
{
    const char found = mega_cursor_peek(c);
    if (depth > MAX_DEPTH) return mega_cursor_fail(c, c->at, "nested deeper than %d", MAX_DEPTH);
    if (found == '"') return mega_cursor_string(c);
    if (found == '{' || found == '[') {
        MEGA_TRY(mega_cursor_open(c, found));
        for (bool first = true, more;;) {
            MEGA_TRY(mega_cursor_more(c, found, &first, &more));
            if (!more) return MEGA_OK;
            if (found == '{') MEGA_TRY(mega_cursor_key(c));
            MEGA_TRY(cursor_skip_value(c, depth + 1));
        }
    }
    if (eat_word(c, "true") || eat_word(c, "false") || eat_word(c, "null")) return MEGA_OK;
    return cursor_skip_number(c);
}

mega_status mega_cursor_skip(mega_cursor *c)
{
    return cursor_skip_value(c, 0);
}

mega_status mega_cursor_end(mega_cursor *c)
{
    return mega_cursor_peek(c) == '\0' && c->at >= c->size ? MEGA_OK : cursor_expected(c, "the end of the file");
}

bool mega_json_quote(mega_buffer *out, const char *text, size_t n)
{
    mega_buffer_append(out, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        const unsigned char b = (unsigned char)text[i];
        if (b == '"' || b == '\\') mega_buffer_printf(out, "\\%c", b);
        else if (b < 0x20)
            mega_buffer_printf(out, "\\u%04x", b);
        else
            mega_buffer_append(out, &text[i], 1);
    }
    return mega_buffer_append(out, "\"", 1);
}
