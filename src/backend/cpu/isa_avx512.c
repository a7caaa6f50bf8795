/* The bodies for AVX-512 (F, BW, VL, DQ; flags.cmake sets the options of this file). Nothing here is written for
 * AVX-512 alone: it is the source of the other instruction sets with vectors of 64 bytes, so that a machine without it
 * has run the same lines. */
#if defined(__x86_64__)
#define VECTOR_BYTES 64
#include "cpu/all_body.c"

const cpu_bodies mega_cpu_bodies_avx512 = BODIES;
#else
extern const int mega_cpu_no_avx512;
const int mega_cpu_no_avx512 = 1;
#endif
