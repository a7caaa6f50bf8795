/* The bodies for AVX-512 (F, BW, VL, DQ; flags.cmake sets the compiler options of this file). The source is the same as
 * for the other instruction sets, only with vectors of 64 bytes, so tests on a machine without AVX-512 cover it too. */
#if defined(__x86_64__)
#define VECTOR_BYTES 64
#include "cpu/all_body.c"

const cpu_bodies mega_cpu_bodies_avx512 = BODIES(OWN);
#else
extern const int mega_cpu_no_avx512;
const int mega_cpu_no_avx512 = 1;
#endif
