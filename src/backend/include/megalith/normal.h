/* Normal numbers in bulk, the same bits on every machine. */
#ifndef MEGALITH_NORMAL_H
#define MEGALITH_NORMAL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out[0 … 2 count): elements 2 first, 2 first + 1, … of mega_philox_normal's addressing rule (megalith/philox.h), which
 * they follow to a few units in the last place of a double. Unlike its library calls, they are made of single
 * additions, multiplications, divisions and square roots in a fixed order, so that neither instruction set nor C
 * library shows. */
void mega_normal_pairs(double *out, uint32_t seed, uint32_t name_hash, uint64_t first, int64_t count);

#ifdef __cplusplus
}
#endif

#endif
