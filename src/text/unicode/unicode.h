/* The character classes of GPT-2's pre-tokenizer: letters (general category L*), numbers (N*) and White_Space. Marks,
 * punctuation, symbols, controls and unassigned code points are "other". */
#ifndef MEGALITH_TEXT_UNICODE_H
#define MEGALITH_TEXT_UNICODE_H

#include <stdint.h>

enum { MEGA_CLASS_OTHER = 0, MEGA_CLASS_LETTER = 1, MEGA_CLASS_NUMBER = 2, MEGA_CLASS_SPACE = 3 };

/* Made of categories.txt by cmake/unicode.awk: code points at or above the limit are all "other". */
extern const uint32_t mega_unicode_limit;
extern const uint8_t mega_unicode_block[];       /* code point / 128 -> row */
extern const uint8_t mega_unicode_classes[][32]; /* row: 128 classes of two bits */

/* The general categories of all code points, as ranges: first code point << 5 | category. A range ends where the next
 * begins. A category is its place among these names of two letters; the last is "not assigned". */
#define MEGA_CATEGORY_NAMES "LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCoCn"
extern const uint32_t mega_unicode_ranges[];
extern const int mega_unicode_ranges_count;

static inline int unicode_class(uint32_t cp)
{
    if (cp >= mega_unicode_limit) return MEGA_CLASS_OTHER;
    const uint8_t four = mega_unicode_classes[mega_unicode_block[cp >> 7]][(cp & 127) >> 2];
    return (four >> ((cp & 3) * 2)) & 3;
}

#endif
