/* A cursor that walks over JSON text in memory, for files of known structure. It builds no tree; strings are decoded
 * one at a time. Every message names the file, line and column. Unlike jansson it accepts NUL in keys, which character
 * vocabularies need. */
#ifndef MEGALITH_JSON_CURSOR_H
#define MEGALITH_JSON_CURSOR_H

#include "megalith/memory.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mega_cursor {
    const char *name; /* name of the file, for messages; borrowed */
    const char *text; /* borrowed */
    size_t size, at;
    mega_buffer string; /* the last string read */
    /* another file, whose lines are those of the text from part_at to part_end; NULL: none */
    const char *part;
    size_t part_at, part_end;
} mega_cursor;

void mega_cursor_init(mega_cursor *c, const char *name, const char *text, size_t size);
void mega_cursor_fini(mega_cursor *c);

/* Records "NAME line L column C: message" for the offset `at`. */
mega_status mega_cursor_fail(const mega_cursor *c, size_t at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns the first character of the next value after white space ('{' '[' '"' 't' 'f' 'n' '-' '0'..'9', or any invalid
 * one); 0 at the end of the text. */
char mega_cursor_peek(mega_cursor *c);

/* To walk over an object or array: open it with '{' or '['; before each member mega_cursor_more returns whether there
 * is one (and consumes the comma), or consumes the closing bracket. *first is true initially. */
mega_status mega_cursor_open(mega_cursor *c, char bracket);
mega_status mega_cursor_more(mega_cursor *c, char bracket, bool *first, bool *more);

/* The decoded string is in c->string until the next one is read. */
mega_status mega_cursor_string(mega_cursor *c);
mega_status mega_cursor_key(mega_cursor *c); /* reads a key and the colon */
bool mega_cursor_string_is(const mega_cursor *c, const char *text);
mega_status mega_cursor_int(mega_cursor *c, int64_t *out);
mega_status mega_cursor_bool(mega_cursor *c, bool *out);
bool mega_cursor_null(mega_cursor *c); /* consumes null if it is next */
mega_status mega_cursor_skip(mega_cursor *c);
mega_status mega_cursor_end(mega_cursor *c); /* checks that only white space is left */

/* What is wrong with an escape in a string. */
typedef enum {
    MEGA_ESCAPE_GOOD,
    MEGA_ESCAPE_CUT,     /* the text ends after the backslash */
    MEGA_ESCAPE_UNKNOWN, /* no escape of JSON */
    MEGA_ESCAPE_NO_HEX,  /* \u without four hexadecimal digits */
    MEGA_ESCAPE_HALF     /* half of a surrogate pair */
} mega_escape_fault;

/* Decodes the escape at p, whose first byte is the backslash; n: bytes from p to the end of the text. Sets *length to
 * the bytes of the escape: 2, 6, or 12 for a character above U+FFFF, which is written as two escapes. */
mega_escape_fault mega_json_escape(const char *p, size_t n, uint32_t *cp, size_t *length);

/* Appends text, which must be valid UTF-8, as a JSON string with its quotes. */
bool mega_json_quote(mega_buffer *out, const char *text, size_t n);

#endif
