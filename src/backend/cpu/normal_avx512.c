/* Normal random numbers with AVX-512. */
#if defined(__x86_64__)
#define VECTOR_BYTES 64
#define NORMAL_PAIRS mega_normal_pairs_avx512
#include "cpu/normal_body.c"
#else
extern const int mega_cpu_no_normal_avx512;
const int mega_cpu_no_normal_avx512 = 1;
#endif
