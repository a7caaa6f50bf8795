/* CRC-32C and FNV-1a. */
#include "megalith/hash.h"
#include "base_impl.h"

#include <string.h>

#define POLYNOMIAL 0x82F63B78u /* Castagnoli, bits reversed */

/* table[i] = CRC of byte i; computed at compile time from the polynomial, one bit at a time. */
#define B1(c)  (((c) >> 1) ^ (((c)&1u) ? POLYNOMIAL : 0u))
#define B4(c)  B1(B1(B1(B1(c))))
#define ROW(n) B4((n)&15u)

/* Processes four bits at a time: a table of 16 words is quickly in cache, and only machines without SSE4.2 take this
 * path. */
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

/* a * b modulo the polynomial; bit 31 is x^0, as in the checksums themselves. */
static uint32_t crc_multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
        if ((a & bit) != 0) product ^= b;
        b = B1(b);
    }
    return product;
}

/* x^(8 n): the factor by which a checksum is multiplied when n bytes follow. */
static uint32_t crc_shift_by(uint64_t n)
{
    uint32_t result = 1u << 31, power = 1u << 23;
    for (; n != 0; n >>= 1, power = crc_multiply(power, power)) {
        if ((n & 1) != 0) result = crc_multiply(power, result);
    }
    return result;
}

uint32_t mega_crc32c_join(uint32_t first, uint32_t second, uint64_t second_bytes)
{
    return crc_multiply(crc_shift_by(second_bytes), first) ^ second;
}

#if defined(__x86_64__)
/* The CRC instruction has a latency of three cycles and a throughput of one per cycle, so long messages are summed in
 * three independent lanes. */
#define LANE ((size_t)8192)

__attribute__((target("sse4.2"))) static uint64_t crc_words(uint64_t c, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word;
        memcpy(&word, p + i, sizeof word);
        c = __builtin_ia32_crc32di(c, word);
    }
    return c;
}

__attribute__((target("sse4.2"))) static uint32_t crc_lanes(uint32_t crc, const uint8_t *p, uint32_t by_lane)
{
    uint64_t lane[3] = {crc, 0, 0};
    for (size_t i = 0; i < LANE; i += 8) {
        uint64_t word[3];
        for (size_t k = 0; k < 3; k++) memcpy(&word[k], p + k * LANE + i, sizeof word[k]);
        for (size_t k = 0; k < 3; k++) lane[k] = __builtin_ia32_crc32di(lane[k], word[k]);
    }
    const uint32_t two = crc_multiply(by_lane, (uint32_t)lane[0]) ^ (uint32_t)lane[1];
    return crc_multiply(by_lane, two) ^ (uint32_t)lane[2];
}

__attribute__((target("sse4.2"))) static uint32_t crc_sse42(uint32_t crc, const uint8_t *p, size_t n)
{
    if (n >= 6 * LANE) {
        const uint32_t by_lane = crc_shift_by(LANE);
        for (; n >= 3 * LANE; n -= 3 * LANE, p += 3 * LANE) crc = crc_lanes(crc, p, by_lane);
    }
    const size_t whole = n & ~(size_t)7;
    crc = (uint32_t)crc_words(crc, p, whole);
    for (p += whole, n -= whole; n > 0; n--, p++) crc = __builtin_ia32_crc32qi(crc, *p);
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

uint32_t mega_crc32c_part(const void *bytes, size_t n)
{
    return ~mega_crc32c(~0u, bytes, n);
}

uint32_t mega_crc32c_shift(uint64_t bytes)
{
    return crc_shift_by(bytes);
}

uint32_t mega_crc32c_shifted(uint32_t part, uint32_t shift)
{
    return crc_multiply(shift, part);
}

/* The CRC of a message of zeros contains exactly the initial and final inversion that every checksum has. */
uint32_t mega_crc32c_zeros(uint64_t bytes)
{
    return ~crc_multiply(crc_shift_by(bytes), ~0u);
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
