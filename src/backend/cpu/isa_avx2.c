/* The bodies for AVX2 with FMA (flags.cmake sets the compiler options of this file). */
#if defined(__x86_64__)
#define VECTOR_BYTES 32
#include "cpu/all_body.c"

const cpu_bodies mega_cpu_bodies_avx2 = BODIES(OWN);
#else
extern const int mega_cpu_no_avx2;
const int mega_cpu_no_avx2 = 1;
#endif
