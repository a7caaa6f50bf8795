/* UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef MEGALITH_UTF8_H
#define MEGALITH_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Returns the length (1 to 4) of the well-formed sequence at p and writes its code point; 0 if there is none. n >=
 * 1. */
static inline int mega_utf8_decode(const uint8_t *p, size_t n, uint32_t *cp)
{
    const uint8_t a = p[0];
    if (a < 0x80) {
        *cp = a;
        return 1;
    }
    if (a < 0xC2 || n < 2 || (p[1] & 0xC0) != 0x80) return 0;
    if (a < 0xE0) {
        *cp = (uint32_t)(a & 0x1F) << 6 | (p[1] & 0x3F);
        return 2;
    }
    if (n < 3 || (p[2] & 0xC0) != 0x80) return 0;
    if (a < 0xF0) {
        *cp = (uint32_t)(a & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
        return *cp < 0x800 || (*cp >= 0xD800 && *cp < 0xE000) ? 0 : 3;
    }
    if (a > 0xF4 || n < 4 || (p[3] & 0xC0) != 0x80) return 0;
    *cp = (uint32_t)(a & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 | (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
    return *cp < 0x10000 || *cp > 0x10FFFF ? 0 : 4;
}

/* Writes the 1 to 4 bytes of a Unicode scalar value and returns their number. */
static inline int mega_utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

/* Returns the number of bytes from the beginning that form whole characters: all of them if the text is UTF-8. */
size_t mega_utf8_valid_bytes(const char *text, size_t bytes);
/* Returns the number of characters of a UTF-8 text. */
int64_t mega_utf8_count(const char *text, size_t bytes);
/* Returns the number of bytes at the end (0 to 3) that begin a character without completing it. Output shown while it
 * is being generated holds these back. */
size_t mega_utf8_incomplete(const char *text, size_t bytes);

#endif
