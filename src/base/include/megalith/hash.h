/* Checksums and content hashes. */
#ifndef MEGALITH_HASH_H
#define MEGALITH_HASH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* CRC-32C (Castagnoli); start with crc 0, feed pieces in order. Uses the SSE4.2 instruction where there is one. */
uint32_t mega_crc32c(uint32_t crc, const void *bytes, size_t n);
/* The sum of two pieces, one after the other, from the sums of both, so that threads can sum pieces side by side. */
uint32_t mega_crc32c_join(uint32_t first, uint32_t second, uint64_t second_bytes);
/* Sums are linear, so processes can each sum a part of a message, in any pieces, without seeing the rest: the sum of
 * the whole is mega_crc32c_zeros of its length, exclusive-or all parts, each shifted by the bytes that follow it. */
uint32_t mega_crc32c_part(const void *bytes, size_t n);
uint32_t mega_crc32c_shift(uint64_t bytes);                  /* the factor of so many bytes */
uint32_t mega_crc32c_shifted(uint32_t part, uint32_t shift); /* by mega_crc32c_shift of the bytes that follow */
uint32_t mega_crc32c_zeros(uint64_t bytes);
/* FNV-1a, 64 bits; start with MEGA_HASH_START. */
#define MEGA_HASH_START 14695981039346656037ull
uint64_t mega_hash64(uint64_t hash, const void *bytes, size_t n);
/* MD5 (RFC 1321), for cache names that Megatron computes the same way. out: 32 hex digits and NUL. */
void mega_md5_hex(const void *bytes, size_t n, char out[33]);
/* SHA-256 (FIPS 180-4). out: 64 hex digits and NUL. */
void mega_sha256_hex(const void *bytes, size_t n, char out[65]);

#ifdef __cplusplus
}
#endif

#endif
