#include "symbols.h"
#include "megalith/utf8.h"

static bool stands_for_itself(uint32_t cp)
{
    return (cp >= 33 && cp <= 126) || (cp >= 161 && cp <= 172) || (cp >= 174 && cp <= 255);
}

/* Bytes 0..32, 127..160 and 173 have symbols other than themselves. */
static uint32_t symbol_of_byte(uint8_t byte)
{
    if (stands_for_itself(byte)) return byte;
    if (byte <= 32) return 256u + byte;
    return byte == 173 ? 323u : 256u + 33u + (byte - 127u);
}

static int symbol_to_byte(uint32_t cp)
{
    if (cp < 256) return stands_for_itself(cp) ? (int)cp : -1;
    if (cp >= MEGA_SYMBOL_LIMIT) return -1;
    const int n = (int)cp - 256;
    if (n <= 32) return n;
    return n == 67 ? 173 : 127 + (n - 33);
}

uint8_t mega_symbol_byte_at(int n)
{
    static const struct {
        uint8_t first, last;
    } range[] = {{33, 126}, {161, 172}, {174, 255}, {0, 32}, {127, 160}, {173, 173}};
    int r = 0;
    while (n > range[r].last - range[r].first) {
        n -= range[r].last - range[r].first + 1;
        r++;
    }
    return (uint8_t)(range[r].first + n);
}

bool mega_symbols_write(mega_buffer *out, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char utf8[4];
        const int length = mega_utf8_encode(symbol_of_byte((uint8_t)bytes[i]), utf8);
        if (!mega_buffer_append(out, utf8, (size_t)length)) return false;
    }
    return true;
}

bool mega_symbols_read(mega_buffer *out, const char *symbols, size_t n)
{
    if (!mega_buffer_reserve(out, n)) return false; /* there are never more bytes than symbols */
    char *to = out->data + out->size;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        const int length = mega_utf8_decode((const uint8_t *)symbols + i, n - i, &cp);
        const int byte = length == 0 ? -1 : symbol_to_byte(cp);
        if (byte < 0) return false;
        *to++ = (char)byte;
        i += (size_t)length;
    }
    *to = '\0';
    out->size = (size_t)(to - out->data);
    return true;
}
