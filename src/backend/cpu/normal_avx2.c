/* Normal random numbers with AVX2. */
#if defined(__x86_64__)
#define VECTOR_BYTES 32
#define NORMAL_PAIRS mega_normal_pairs_avx2
#include "cpu/normal_body.c"
#else
extern const int mega_cpu_no_normal_avx2;
const int mega_cpu_no_normal_avx2 = 1;
#endif
