/* UTF-8 and the three classes of characters that GPT-2's pre-tokenizer knows: letters (general category L*), numbers
 * (N*) and White_Space. Marks, punctuation, symbols, controls and unassigned code points are "other". */
#ifndef MEGALITH_TEXT_UNICODE_H
#define MEGALITH_TEXT_UNICODE_H

#include <stddef.h>
#include <stdint.h>

enum { MEGA_CLASS_OTHER = 0, MEGA_CLASS_LETTER = 1, MEGA_CLASS_NUMBER = 2, MEGA_CLASS_SPACE = 3 };

/* unicode_table.c, made by tools/make_unicode_table.sh: code points from the limit on are all "other". */
extern const uint32_t mega_unicode_limit;
extern const uint8_t mega_unicode_block[];       /* code point / 128 -> row */
extern const uint8_t mega_unicode_classes[][32]; /* row: 128 classes of two bits */

static inline int unicode_class(uint32_t cp)
{
    if (cp >= mega_unicode_limit) return MEGA_CLASS_OTHER;
    const uint8_t four = mega_unicode_classes[mega_unicode_block[cp >> 7]][(cp & 127) >> 2];
    return (four >> ((cp & 3) * 2)) & 3;
}

/* Length of the well-formed sequence at p (1..4) and its code point; 0 where p starts none (no overlong forms, no
 * surrogates, nothing above U+10FFFF). n >= 1. */
static inline int utf8_decode(const uint8_t *p, size_t n, uint32_t *cp)
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

/* Writes 1..4 bytes. cp must be a scalar value. */
static inline int utf8_encode(uint32_t cp, char out[4])
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

#endif
