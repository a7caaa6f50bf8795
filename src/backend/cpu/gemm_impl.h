/* What gemm.c and gemm_tiles.c share. */
#ifndef MEGA_CPU_GEMM_IMPL_H
#define MEGA_CPU_GEMM_IMPL_H

#include "cpu/share.h"
#include "megalith/assert.h"

typedef enum gemm_way { GEMM_NOTHING, GEMM_PLAIN, GEMM_FEW_ROWS, GEMM_PRIMITIVES, GEMM_TILES } gemm_way;

/* c cut into rows x columns units of m x n; the last of each may be smaller. */
typedef struct gemm_units {
    int64_t m, n, rows, columns;
} gemm_units;

#define MEGA_GEMM_TILE_M 192
#define MEGA_GEMM_TILE_N 192

/* Scratch of one thread. */
size_t mega_gemm_tile_bytes(void);
/* Rows [m, m + rows) and columns [n, n + columns) of the product, at most one tile, by way of float. */
void mega_gemm_tile(const mega_gemm_args *a, const cpu_bodies *bodies, int64_t m, int64_t rows, int64_t n,
                    int64_t columns, void *scratch);

#endif
