/* SHA-256 (FIPS 180-4): blocks of 64 bytes, of which the last ends with a 1 bit, zeros and the length in bits. */
#include "megalith/hash.h"

#include <stdio.h>
#include <string.h>

static uint32_t rotate_right(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static uint32_t load_big(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

/* First 32 bits of the fractions of the cube roots of the first 64 primes, FIPS 180-4 section 4.2.2. */
static const uint32_t sha256_root[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static void sha256_block(uint32_t *state, const uint8_t *block)
{
    uint32_t w[64], v[8];
    for (unsigned i = 0; i < 16; i++) w[i] = load_big(block + (size_t)4 * i);
    for (unsigned i = 16; i < 64; i++) {
        const uint32_t s0 = rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3;
        const uint32_t s1 = rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    memcpy(v, state, sizeof v);
    for (unsigned i = 0; i < 64; i++) {
        const uint32_t s1 = rotate_right(v[4], 6) ^ rotate_right(v[4], 11) ^ rotate_right(v[4], 25);
        const uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        const uint32_t t1 = v[7] + s1 + choice + sha256_root[i] + w[i];
        const uint32_t s0 = rotate_right(v[0], 2) ^ rotate_right(v[0], 13) ^ rotate_right(v[0], 22);
        const uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += t1;
        v[0] = t1 + s0 + majority;
    }
    for (unsigned i = 0; i < 8; i++) state[i] += v[i];
}

void mega_sha256_hex(const void *bytes, size_t n, char out[65])
{
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint8_t *p = bytes;
    size_t at = 0;
    for (; n - at >= 64; at += 64) sha256_block(state, p + at);
    uint8_t tail[128] = {0};
    const size_t rest = n - at, end = rest < 56 ? 64 : 128;
    if (rest != 0) memcpy(tail, p + at, rest);
    tail[rest] = 0x80;
    const uint64_t bits = (uint64_t)n * 8;
    for (unsigned i = 0; i < 8; i++) tail[end - 8 + i] = (uint8_t)(bits >> (56 - 8 * i));
    for (size_t i = 0; i < end; i += 64) sha256_block(state, tail + i);
    for (unsigned i = 0; i < 8; i++) snprintf(out + (size_t)8 * i, 9, "%08x", state[i]);
}
