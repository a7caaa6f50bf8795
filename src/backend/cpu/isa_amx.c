/* Pair GEMM for AMX (flags.cmake sets the compiler options of this file). */
#if defined(__x86_64__)
#define VECTOR_BYTES 64
#include "cpu/vector.h"

#include "cpu/gemm/gemm_pairs.h"

#include "cpu/gemm/gemm_tiles_body.c"

const cpu_pairs mega_cpu_pairs_amx = {.rows_of_panel = PAIRS_ROWS,
                                      .grain = 32,
                                      .depth = 4096,
                                      .block_bytes = 1 << 20,
                                      .enter = tiles_enter,
                                      .leave = tiles_leave,
                                      .pack_b = pairs_pack_b,
                                      .block = pairs_block_run,
                                      .spin = tiles_spin};
#else
extern const int mega_cpu_no_amx;
const int mega_cpu_no_amx = 1;
#endif
