/* Appends JSON strings and numbers to a buffer. */
#include "megalith/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool mega_buffer_json_string(mega_buffer *b, const char *text)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    mega_buffer_puts(b, "\"");
    while (*text != '\0') {
        size_t plain = 0;
        while ((unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\') plain++;
        mega_buffer_append(b, text, plain);
        text += plain;
        if (*text == '\0') break;
        const char *found = strchr(from, *text);
        if (found != NULL) mega_buffer_printf(b, "\\%c", to[found - from]);
        else
            mega_buffer_printf(b, "\\u%04x", (unsigned)*text);
        text++;
    }
    return mega_buffer_puts(b, "\"");
}

/* `digits` are enough for any value: 17 for double, 9 for float. Fewer are tried first. */
static bool put_shortest(mega_buffer *b, double x, int digits, bool is_float)
{
    char text[40];
    if (!isfinite(x)) return mega_buffer_puts(b, "null");
    if (x == rint(x) && fabs(x) < 1e9) return mega_buffer_printf(b, "%.1f", x);
    for (int n = 1; n <= digits; n++) {
        snprintf(text, sizeof text, "%.*g", n, x);
        if (is_float ? strtof(text, NULL) == (float)x : strtod(text, NULL) == x) break;
    }
    mega_buffer_puts(b, text);
    return strpbrk(text, ".e") != NULL ? !b->failed : mega_buffer_puts(b, ".0");
}

bool mega_buffer_json_double(mega_buffer *b, double x)
{
    return put_shortest(b, x, 17, false);
}

bool mega_buffer_json_float(mega_buffer *b, float x)
{
    return put_shortest(b, x, 9, true);
}
