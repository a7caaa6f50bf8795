/* UTF-8 texts: the length of the valid part, and the number of characters. */
#include "megalith/utf8.h"

#include <string.h>

size_t mega_utf8_valid_bytes(const char *text, size_t bytes)
{
    const uint8_t *begin = (const uint8_t *)text, *p = begin, *end = begin + bytes;
    while (p < end) {
        uint64_t word;
        uint32_t character;
        while (end - p >= 8 && (memcpy(&word, p, 8), (word & 0x8080808080808080ull) == 0)) p += 8;
        if (p == end) break;
        const int n = mega_utf8_decode(p, (size_t)(end - p), &character);
        if (n == 0) break;
        p += n;
    }
    return (size_t)(p - begin);
}

int64_t mega_utf8_count(const char *text, size_t bytes)
{
    int64_t n = 0;
    for (size_t i = 0; i < bytes; i++) n += ((uint8_t)text[i] & 0xc0) != 0x80;
    return n;
}

size_t mega_utf8_incomplete(const char *text, size_t bytes)
{
    for (size_t back = 1; back <= 3 && back <= bytes; back++) {
        const unsigned char b = (unsigned char)text[bytes - back];
        if ((b & 0xC0) == 0x80) continue;
        const size_t need = b >= 0xF0 && b <= 0xF4 ? 4 : b >= 0xE0 && b < 0xF0 ? 3 : b >= 0xC2 && b < 0xE0 ? 2 : 1;
        return need > back ? back : 0;
    }
    return 0;
}
