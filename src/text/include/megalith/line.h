/* Goes through the lines of a text in memory:
 *   for (mega_line line = {.rest = text, .left = bytes}; mega_line_next(&line);) … */
#ifndef MEGALITH_LINE_H
#define MEGALITH_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct mega_line {
    const char *text; /* without its end, LF or CR LF */
    size_t bytes;
    int64_t number; /* from 1 */
    bool has_end;   /* false: the last line of a text that ends without LF */
    const char *rest;
    size_t left; /* bytes of the lines that follow */
} mega_line;

/* Returns false after the last line. A final LF does not begin another, empty line. */
static inline bool mega_line_next(mega_line *l)
{
    if (l->left == 0) return false;
    const char *end = (const char *)memchr(l->rest, '\n', l->left);
    l->text = l->rest;
    l->bytes = end != NULL ? (size_t)(end - l->rest) : l->left;
    l->has_end = end != NULL;
    l->number++;
    l->left -= l->bytes + (end != NULL);
    l->rest += l->bytes + (end != NULL);
    if (l->bytes > 0 && l->text[l->bytes - 1] == '\r') l->bytes--;
    return true;
}

#endif
