/* Checks names before they become keys of files, which could otherwise not be read again. */
#include "megalith/name.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Returns the bytes of the character at p and writes its code point; 0 if it is not UTF-8. A NUL ends every sequence.
 */
static int name_character(const unsigned char *p, uint32_t *out)
{
    /* smallest code point for each length: a longer form of it is overlong */
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const int length = p[0] < 0x80 ? 1 : p[0] < 0xc0 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf8 ? 4 : 0;
    if (length < 2) {
        *out = p[0];
        return length;
    }
    uint32_t code = p[0] & (0x7fU >> length);
    for (int i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (p[i] & 0x3f);
    }
    *out = code;
    return code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : length;
}

bool mega_name_is_text(const char *name)
{
    const unsigned char *p = (const unsigned char *)name;
    while (*p != '\0') {
        uint32_t code;
        const int length = name_character(p, &code);
        if (length == 0 || code < 0x20 || (code >= 0x7f && code < 0xa0)) return false;
        p += length;
    }
    return true;
}

const char *mega_name_escape(char *out, size_t size, const char *name)
{
    size_t n = 0;
    out[0] = '\0';
    for (const unsigned char *p = (const unsigned char *)name; *p != '\0'; p++) {
        char text[8];
        const bool is_plain = *p >= 0x20 && *p < 0x7f;
        const int length = snprintf(text, sizeof text, is_plain ? "%c" : "\\x%02x", *p);
        if (n + (size_t)length >= size) break;
        memcpy(out + n, text, (size_t)length + 1);
        n += (size_t)length;
    }
    return out;
}
