/* The bodies for AVX-512 with the instruction that rounds to bf16 (Zen 4, Sapphire Rapids and later): like isa_avx512.c
 * except for vround. */
#if defined(__x86_64__)
#define VECTOR_BYTES 64
#include "cpu/all_body.c"

const cpu_bodies mega_cpu_bodies_avx512_rounding = BODIES;
#else
extern const int mega_cpu_no_avx512_rounding;
const int mega_cpu_no_avx512_rounding = 1;
#endif
