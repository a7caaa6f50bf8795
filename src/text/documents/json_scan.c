#include "json_scan.h"
#include <string.h>

size_t mega_json_run_plain(const uint8_t *p, size_t n)
{
    size_t i = 0;
    while (i < n && p[i] >= 0x20 && p[i] < 0x80 && p[i] != '"' && p[i] != '\\') i++;
    return i;
}

#define EACH(byte) ((byte)*UINT64_C(0x0101010101010101))

/* Checks eight bytes at a time. The subtraction borrows where a byte is below its bound; borrows can make only bytes
 * above the first such one wrong, so the first is then searched byte by byte. */
static size_t run_words(const uint8_t *p, size_t n)
{
    size_t i = 0;
    for (; n - i >= 8; i += 8) {
        uint64_t w;
        memcpy(&w, p + i, 8);
        const uint64_t quote = w ^ EACH('"'), backslash = w ^ EACH('\\');
        const uint64_t bad = w | (w - EACH(0x20)) | (quote - EACH(1)) | (backslash - EACH(1));
        if ((bad & EACH(0x80)) != 0) break;
    }
    return i + mega_json_run_plain(p + i, n - i);
}

#if defined(__x86_64__)
typedef int8_t bytes32 __attribute__((vector_size(32)));
typedef char mask32 __attribute__((vector_size(32)));

/* Compared as signed numbers, bytes above 0x7f are below 0x20 too. */
__attribute__((target("avx2"))) static uint32_t stops_avx2(const uint8_t *p)
{
    bytes32 v;
    memcpy(&v, p, sizeof v);
    const bytes32 bad = (v < 0x20) | (v == '"') | (v == '\\');
    return (uint32_t)__builtin_ia32_pmovmskb256((mask32)bad);
}

__attribute__((target("avx2"))) static size_t run_avx2(const uint8_t *p, size_t n)
{
    size_t i = 0;
    for (; n - i >= 32; i += 32) {
        const uint32_t stops = stops_avx2(p + i);
        if (stops != 0) return i + (size_t)__builtin_ctz(stops);
    }
    return i + run_words(p + i, n - i);
}
#endif

mega_json_run *mega_json_run_for(mega_isa isa)
{
#if defined(__x86_64__)
    if (isa >= MEGA_ISA_AVX2) return run_avx2;
#endif
    (void)isa;
    return run_words;
}
