/* Parses the JSON header of a safetensors file. It has its own parser, because the header's rules are stricter than
 * JSON's (unsigned 64-bit numbers, no duplicate names) and because a hostile header must not cost more memory than its
 * size. */
#include "megalith/utf8.h"
#include "safetensors_impl.h"

#include <string.h>

#define MAX_DEPTH 100

typedef struct parser {
    const char *at, *end, *start;
    mega_arena *arena;
    const char *file;
} parser;

static mega_status header_wrong(const parser *p, const char *what)
{
    return MEGA_FAIL(MEGA_ERR_FORMAT,
                     "%s: InvalidHeaderDeserialization: %s at byte %zu of the header; the file is damaged or is not "
                     "safetensors",
                     p->file, what, (size_t)(p->at - p->start));
}

static void skip_blanks(parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')) p->at++;
}

/* Consumes the next character after blanks if it is c. */
static bool header_take(parser *p, char c)
{
    skip_blanks(p);
    if (p->at == p->end || *p->at != c) return false;
    p->at++;
    return true;
}

static bool take_hex4(parser *p, uint32_t *out)
{
    if (p->end - p->at < 4) return false;
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        const char c = *p->at++;
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return false;
        v = v * 16 + (uint32_t)digit;
    }
    *out = v;
    return true;
}

/* Reads the code point after "\u", from a surrogate pair if needed. Refuses NUL, because names are C strings here. */
static bool take_code_point(parser *p, uint32_t *out)
{
    uint32_t c = 0, low = 0;
    if (!take_hex4(p, &c) || c == 0 || (c >= 0xdc00 && c <= 0xdfff)) return false;
    if (c >= 0xd800 && c <= 0xdbff) {
        if (p->end - p->at < 2 || p->at[0] != '\\' || p->at[1] != 'u') return false;
        p->at += 2;
        if (!take_hex4(p, &low) || low < 0xdc00 || low > 0xdfff) return false;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    *out = c;
    return true;
}

static bool take_escape(parser *p, char **to)
{
    static const char from[] = "\"\\/bfnrt", is[] = "\"\\/\b\f\n\r\t";
    if (p->at == p->end) return false;
    const char c = *p->at++;
    if (c == 'u') {
        uint32_t point = 0;
        if (!take_code_point(p, &point)) return false;
        *to += mega_utf8_encode(point, *to);
        return true;
    }
    const char *found = c != '\0' ? strchr(from, c) : NULL;
    if (found == NULL) return false;
    *(*to)++ = is[found - from];
    return true;
}

/* Reads and unescapes a string into the arena. */
static mega_status take_string(parser *p, const char **out)
{
    if (!header_take(p, '"')) return header_wrong(p, "a string is expected");
    const char *close = p->at;
    while (close < p->end && *close != '"') close += *close == '\\' ? 2 : 1;
    if (close >= p->end) return header_wrong(p, "a string without an end");
    char *text = mega_arena_alloc(p->arena, (size_t)(close - p->at) + 1);
    if (text == NULL) return MEGA_NO_MEMORY(p->file, "its header");
    char *to = text;
    while (*p->at != '"') {
        if ((unsigned char)*p->at < 0x20) return header_wrong(p, "a control character within a string");
        if (*p->at != '\\') {
            *to++ = *p->at++;
            continue;
        }
        p->at++;
        if (!take_escape(p, &to)) return header_wrong(p, "a broken escape within a string");
    }
    p->at++;
    *out = text;
    return MEGA_OK;
}

static mega_status take_number(parser *p, uint64_t *out)
{
    skip_blanks(p);
    const char *first = p->at;
    uint64_t v = 0;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
        const uint64_t digit = (uint64_t)(*p->at - '0');
        if (v > (UINT64_MAX - digit) / 10) return header_wrong(p, "a number beyond 64 bits");
        v = v * 10 + digit;
    }
    if (p->at == first || (*first == '0' && p->at - first > 1)) return header_wrong(p, "a whole number is expected");
    if (p->at < p->end && (*p->at == '.' || *p->at == 'e' || *p->at == 'E'))
        return header_wrong(p, "a number with a fraction");
    *out = v;
    return MEGA_OK;
}

static mega_status header_skip_value(parser *p, int depth);

/* Skips the members of an object, or the values of a list, after the opening bracket. */
static mega_status skip_members(parser *p, char close, int depth)
{
    if (header_take(p, close)) return MEGA_OK;
    do {
        const char *key;
        if (close == '}') {
            MEGA_TRY(take_string(p, &key));
            if (!header_take(p, ':')) return header_wrong(p, "':' is expected");
        }
        MEGA_TRY(header_skip_value(p, depth + 1));
    } while (header_take(p, ','));
    return header_take(p, close) ? MEGA_OK : header_wrong(p, "',' or a closing bracket is expected");
}

/* Skips the value of an unknown member. */
static mega_status header_skip_value(parser *p, int depth)
{
    static const char *const words[] = {"true", "false", "null"};
    if (depth > MAX_DEPTH) return header_wrong(p, "brackets are nested too deep");
    skip_blanks(p);
    if (p->at == p->end) return header_wrong(p, "a value is expected");
    const char *text;
    if (*p->at == '"') return take_string(p, &text);
    if (header_take(p, '{')) return skip_members(p, '}', depth);
    if (header_take(p, '[')) return skip_members(p, ']', depth);
    for (size_t i = 0; i < 3; i++) {
        const size_t n = strlen(words[i]);
        if ((size_t)(p->end - p->at) >= n && memcmp(p->at, words[i], n) == 0) {
            p->at += n;
            return MEGA_OK;
        }
    }
    const char *first = p->at;
    while (p->at < p->end && strchr("+-.eE0123456789", *p->at) != NULL && *p->at != '\0') p->at++;
    return p->at != first ? MEGA_OK : header_wrong(p, "a value is expected");
}

static mega_status take_dtype(parser *p, mega_safetensor *t)
{
    const char *name;
    MEGA_TRY(take_string(p, &name));
    for (int i = 0; i < MEGA_ST_DTYPE_COUNT; i++) {
        if (strcmp(name, mega_st_dtype_name((mega_st_dtype)i)) != 0) continue;
        t->dtype = (mega_st_dtype)i;
        return MEGA_OK;
    }
    return MEGA_FAIL(MEGA_ERR_FORMAT,
                     "%s: InvalidHeaderDeserialization: tensor %s has the type %s, which the format does not define; "
                     "expected one of F64 F32 BF16 F16 I64 I32 … ",
                     p->file, t->name, name);
}

static mega_status header_take_shape(parser *p, mega_safetensor *t)
{
    uint64_t some[16], *dims = some;
    int n = 0, room = 16;
    if (!header_take(p, '[')) return header_wrong(p, "a list is expected as shape");
    if (!header_take(p, ']')) {
        do {
            if (n == room) { /* a shape this long belongs to no tensor of ours, but it is valid */
                uint64_t *more = mega_arena_alloc(p->arena, 2 * (size_t)room * sizeof *more);
                if (more == NULL) return MEGA_NO_MEMORY(p->file, "its header");
                memcpy(more, dims, (size_t)room * sizeof *more);
                dims = more;
                room *= 2;
            }
            MEGA_TRY(take_number(p, &dims[n++]));
        } while (header_take(p, ','));
        if (!header_take(p, ']')) return header_wrong(p, "',' or ']' is expected in a shape");
    }
    uint64_t *shape = mega_arena_alloc(p->arena, (size_t)(n + 1) * sizeof *shape);
    if (shape == NULL) return MEGA_NO_MEMORY(p->file, "its header");
    if (n > 0) memcpy(shape, dims, (size_t)n * sizeof *shape);
    t->shape = shape;
    t->num_dims = n;
    return MEGA_OK;
}

static mega_status take_offsets(parser *p, mega_safetensor *t)
{
    if (!header_take(p, '[')) return header_wrong(p, "a list of two numbers is expected as data_offsets");
    MEGA_TRY(take_number(p, &t->begin));
    if (!header_take(p, ',')) return header_wrong(p, "data_offsets needs two numbers");
    MEGA_TRY(take_number(p, &t->end));
    return header_take(p, ']') ? MEGA_OK : header_wrong(p, "data_offsets needs two numbers");
}

static mega_status take_tensor(parser *p, mega_safetensor *t)
{
    static const char *const known[] = {"dtype", "shape", "data_offsets"};
    static mega_status (*const read[])(parser *, mega_safetensor *) = {take_dtype, header_take_shape, take_offsets};
    unsigned seen = 0;
    if (!header_take(p, '{')) return header_wrong(p, "an object is expected for a tensor");
    if (!header_take(p, '}')) {
        do {
            const char *key;
            MEGA_TRY(take_string(p, &key));
            if (!header_take(p, ':')) return header_wrong(p, "':' is expected");
            unsigned i = 0;
            while (i < 3 && strcmp(key, known[i]) != 0) i++;
            if (i < 3 && (seen & 1u << i) != 0) return header_wrong(p, "a member of a tensor occurs twice");
            seen |= i < 3 ? 1u << i : 0;
            MEGA_TRY(i < 3 ? read[i](p, t) : header_skip_value(p, 0));
        } while (header_take(p, ','));
        if (!header_take(p, '}')) return header_wrong(p, "',' or '}' is expected in a tensor");
    }
    return seen == 7 ? MEGA_OK : header_wrong(p, "a tensor lacks dtype, shape or data_offsets");
}

static mega_status take_metadata(parser *p, st_header *h)
{
    if (!header_take(p, '{')) return header_wrong(p, "an object is expected as __metadata__");
    if (header_take(p, '}')) return MEGA_OK;
    do {
        if (!mega_array_reserve(&h->pair, &h->pair_capacity, (int64_t)h->num_pairs + 1, sizeof *h->pair))
            return MEGA_NO_MEMORY(p->file, "its header");
        mega_st_pair *pair = &h->pair[h->num_pairs];
        MEGA_TRY(take_string(p, &pair->key));
        if (!header_take(p, ':')) return header_wrong(p, "':' is expected");
        MEGA_TRY(take_string(p, &pair->value));
        h->num_pairs++;
    } while (header_take(p, ','));
    return header_take(p, '}') ? MEGA_OK : header_wrong(p, "',' or '}' is expected in __metadata__");
}

static mega_status take_header(parser *p, st_header *h)
{
    bool metadata_seen = false;
    if (!header_take(p, '{')) return header_wrong(p, "'{' is expected");
    if (!header_take(p, '}')) {
        do {
            const char *name;
            MEGA_TRY(take_string(p, &name));
            if (!header_take(p, ':')) return header_wrong(p, "':' is expected");
            if (strcmp(name, "__metadata__") == 0) {
                if (metadata_seen) return header_wrong(p, "__metadata__ occurs twice");
                metadata_seen = true;
                MEGA_TRY(take_metadata(p, h));
                continue;
            }
            if (!mega_array_reserve(&h->tensor, &h->capacity, (int64_t)h->count + 1, sizeof *h->tensor))
                return MEGA_NO_MEMORY(p->file, "its header");
            h->tensor[h->count] = (mega_safetensor){.name = name};
            MEGA_TRY(take_tensor(p, &h->tensor[h->count]));
            h->count++;
        } while (header_take(p, ','));
        if (!header_take(p, '}')) return header_wrong(p, "',' or '}' is expected");
    }
    skip_blanks(p);
    return p->at == p->end ? MEGA_OK : header_wrong(p, "text after the object");
}

mega_status mega_st_header_parse(st_header *out, mega_arena *arena, const char *text, size_t bytes, const char *file)
{
    *out = (st_header){0};
    parser p = {text, text + bytes, text, arena, file};
    return take_header(&p, out);
}

void mega_st_header_fini(st_header *h)
{
    MEGA_FREE(h->tensor, h->pair);
    *h = (st_header){0};
}
