/* Generates normal random numbers in bulk, with the same bits on every machine. */
#ifndef MEGALITH_NORMAL_H
#define MEGALITH_NORMAL_H

#include <stdint.h>

/* Fills out[0 … 2 count) with elements 2 first, 2 first + 1, … of the sequence that mega_philox_normal
 * (megalith/philox.h) defines, accurate to a few units in the last place of a double. mega_philox_normal calls the C
 * library; this function uses only additions, multiplications, divisions and square roots in a fixed order, so the
 * result does not depend on the instruction set or the C library. */
void mega_normal_pairs(double *out, uint32_t seed, uint32_t name_hash, uint64_t first, int64_t count);

#endif
