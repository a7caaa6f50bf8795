/* Pair GEMM for AVX-512 with bf16 dot products (flags.cmake sets the compiler options of this file). */
#if defined(__x86_64__)
#define VECTOR_BYTES 64
#include "cpu/vector.h"

#include "cpu/gemm/gemm_pairs.h"

#include "cpu/gemm/gemm_dots_body.c"

const cpu_pairs mega_cpu_pairs_avx512_bf16 = {.rows_of_panel = PAIRS_ROWS,
                                              .grain = 2,
                                              .depth = 2048,
                                              .block_bytes = 512 << 10,
                                              .enter = dots_nothing,
                                              .leave = dots_nothing,
                                              .pack_b = pairs_pack_b,
                                              .block = pairs_block_run,
                                              .spin = dots_spin};
#else
extern const int mega_cpu_no_avx512_bf16;
const int mega_cpu_no_avx512_bf16 = 1;
#endif
