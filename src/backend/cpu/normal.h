/* Bodies of mega_normal_pairs, one for each instruction set. They are compiled without contraction into
 * multiply-adds. */
#ifndef MEGA_CPU_NORMAL_H
#define MEGA_CPU_NORMAL_H

#include "megalith/normal.h"

typedef void normal_pairs_body(double *out, uint32_t seed, uint32_t name_hash, uint64_t first, int64_t count);

extern normal_pairs_body mega_normal_pairs_portable, mega_normal_pairs_avx2, mega_normal_pairs_avx512;

#endif
