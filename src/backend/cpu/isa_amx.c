/* Pair GEMM for AMX (flags.cmake sets the compiler options of this file). */
#if defined(__x86_64__)
#define VECTOR_BYTES 64
#include "cpu/vector.h"

#include "cpu/gemm/gemm_pairs.h"

#include "cpu/gemm/gemm_tiles_body.c"

/* Panels of b have one layout, and one function packs them. */
static void tiles_pack_b(const pairs_block *b, int64_t begin, int64_t end)
{
    mega_cpu_pairs_avx512_bf16.pack_b(b, begin, end);
}

const cpu_pairs mega_cpu_pairs_amx = {.rows_of_panel = PAIRS_ROWS,
                                      .grain = 32,
                                      .depth = 4096,
                                      .block_bytes = 1 << 20,
                                      .enter = tiles_enter,
                                      .leave = tiles_leave,
                                      .pack_b = tiles_pack_b,
                                      .block = pairs_block_run,
                                      .spin = tiles_spin};
#else
extern const int mega_cpu_no_amx;
const int mega_cpu_no_amx = 1;
#endif
