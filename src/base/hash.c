/* CRC-32C and FNV-1a. */
#include "megalith/hash.h"
#include "base_impl.h"

#include <string.h>

#define POLYNOMIAL 0x82F63B78u /* Castagnoli, bits reversed */

/* table[i] = crc of byte i; built by the compiler from the polynomial, one bit at a time. */
#define B1(c)  (((c) >> 1) ^ (((c)&1u) ? POLYNOMIAL : 0u))
#define B4(c)  B1(B1(B1(B1(c))))
#define ROW(n) B4((n)&15u)

/* Four bits at a time: a table of 16 words is in cache at once and this path is only for machines without SSE4.2. */
static const uint32_t nibble[16] = {ROW(0u), ROW(1u), ROW(2u),  ROW(3u),  ROW(4u),  ROW(5u),  ROW(6u),  ROW(7u),
                                    ROW(8u), ROW(9u), ROW(10u), ROW(11u), ROW(12u), ROW(13u), ROW(14u), ROW(15u)};

static uint32_t crc_portable(uint32_t crc, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        crc = (crc >> 4) ^ nibble[crc & 15u];
        crc = (crc >> 4) ^ nibble[crc & 15u];
    }
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_sse42(uint32_t crc, const uint8_t *p, size_t n)
{
    uint64_t c = crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        c = __builtin_ia32_crc32di(c, word);
    }
    crc = (uint32_t)c;
    for (; n > 0; n--, p++) crc = __builtin_ia32_crc32qi(crc, *p);
    return crc;
}
#endif

uint32_t mega_crc32c(uint32_t crc, const void *bytes, size_t n)
{
    crc = ~crc;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) return ~crc_sse42(crc, bytes, n);
#endif
    return ~crc_portable(crc, bytes, n);
}

uint32_t mega_crc32c_portable(uint32_t crc, const void *bytes, size_t n)
{
    return ~crc_portable(~crc, bytes, n);
}

uint64_t mega_hash64(uint64_t hash, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++) hash = (hash ^ p[i]) * 1099511628211ull;
    return hash;
}
