#include "base64.h"
#include <stdint.h>

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool mega_base64_read(const char *text, size_t n, mega_buffer *out)
{
    uint32_t bits = 0;
    int held = 0;
    out->size = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '=') return i + 2 >= n;
        const int value = base64_value(text[i]);
        if (value < 0) return false;
        bits = bits << 6 | (uint32_t)value;
        held += 6;
        if (held < 8) continue;
        held -= 8;
        mega_buffer_append(out, &(char){(char)(bits >> held)}, 1);
    }
    return true;
}

void mega_base64_write(const uint8_t *bytes, size_t n, mega_buffer *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t bits = (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) |
                              (i + 2 < n ? (uint32_t)bytes[i + 2] : 0);
        const char four[] = {digits[bits >> 18], digits[bits >> 12 & 63], i + 1 < n ? digits[bits >> 6 & 63] : '=',
                             i + 2 < n ? digits[bits & 63] : '='};
        mega_buffer_append(out, four, 4);
    }
}
