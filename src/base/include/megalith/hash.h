/* Checksums and content hashes. */
#ifndef MEGALITH_HASH_H
#define MEGALITH_HASH_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32C (Castagnoli): start with crc 0 and pass the pieces in order. Uses the SSE4.2 instruction if there is one. */
uint32_t mega_crc32c(uint32_t crc, const void *bytes, size_t n);
/* Returns the checksum of two consecutive pieces from the checksums of each, so that threads can sum pieces in
 * parallel. */
uint32_t mega_crc32c_join(uint32_t first, uint32_t second, uint64_t second_bytes);
/* CRCs are linear, so each process can sum its part of a message without the rest: the checksum of the whole is
 * mega_crc32c_zeros of its length XOR all partial checksums, each shifted by the number of bytes after that part. */
uint32_t mega_crc32c_part(const void *bytes, size_t n);
uint32_t mega_crc32c_shift(uint64_t bytes);                  /* the factor that shifts by this number of bytes */
uint32_t mega_crc32c_shifted(uint32_t part, uint32_t shift); /* `shift` is mega_crc32c_shift of the bytes that follow */
uint32_t mega_crc32c_zeros(uint64_t bytes);
/* FNV-1a, 64 bits; start with MEGA_HASH_START. */
#define MEGA_HASH_START 14695981039346656037ull
uint64_t mega_hash64(uint64_t hash, const void *bytes, size_t n);
/* SHA-256 (FIPS 180-4). out: 64 hex digits and NUL. */
void mega_sha256_hex(const void *bytes, size_t n, char out[65]);

#endif
