/* Sizes that a kernel of this folder and the code that launches it agree on. */
#ifndef MEGA_CUDA_SHAPES_H
#define MEGA_CUDA_SHAPES_H

#ifndef CUDA_MOST_BLOCKS /* device_test_kernels has few, so that blocks go on after their first row */
#define CUDA_MOST_BLOCKS 4096
#endif
enum {
    MOST_BLOCKS = CUDA_MOST_BLOCKS, /* a launch has no more: the blocks go on with what is left */
    EIGHT_THREADS = 128,            /* of a kernel of elements; a thread takes eight that are consecutive */
    EIGHT_COUNT = EIGHT_THREADS * 8,
    ROW_THREADS = 128,    /* of a kernel whose block has a row */
    COLUMN_THREADS = 128, /* of a kernel whose block has a part of some columns: eight of them by each thread */
    COLUMN_WIDTH = 64,
    COLUMN_LANES = COLUMN_THREADS * 8 / COLUMN_WIDTH,
    SORT_THREADS = 512,
    SORT_DIGITS = 16,
    NORM_CHUNK = 65536 /* elements whose squares a block sums (kernels.h) */
};

/* Sums over rows: the rows of a chunk, of which there are at most 64, and the number of chunks. They depend on the
 * shape alone, and so do the bits of the sum. */
#define COLUMN_ROWS(rows)   ((rows) <= 4096 ? (int64_t)64 : ((rows) + 1023) / 1024 * 16)
#define COLUMN_CHUNKS(rows) (((rows) + COLUMN_ROWS(rows) - 1) / COLUMN_ROWS(rows))

/* Two lists of positions, in scratch; what comes after them is aligned to 16 bytes. */
#define SORT_BYTES(rows) (((size_t)(rows)*2 * sizeof(int32_t) + 15) / 16 * 16)

/* Groups whose sums a launch does at a time; the blocks go on with what is left. */
#define MOST_GROUPS (MOST_BLOCKS / 4)

/* Convolutions: a block has a tile of CONV_TILE x CONV_TILE of the result, and adds up CONV_DEPTH products at a time.
 * The gradient of the weights is a sum over the rows of all images. The shape alone divides the rows into chunks, so
 * that there are a few hundred blocks. */
enum { CONV_TILE = 64, CONV_DEPTH = 16, CONV_THREADS = 256 };
#define CONV_TILES(n)                ((n) / CONV_TILE + ((n) % CONV_TILE != 0))
#define CONV_MOST_CHUNKS(tiles)      ((tiles) < 512 ? 512 / (tiles) : 1)
#define CONV_CHUNK_ROWS(rows, tiles) CONV_CHUNK_ROWS_OF(rows, CONV_MOST_CHUNKS(tiles))
#define CONV_CHUNK_ROWS_OF(rows, most) \
    ((rows) <= 256 * (most) ? (int64_t)256 : ((rows) / (most) + 1 + CONV_DEPTH - 1) / CONV_DEPTH * CONV_DEPTH)

/* Matrix products: the part of c that a block has, and how many numbers along k it holds at a time. */
enum {
    GEMM_TILE = 128,
    GEMM_16_THREADS = 128, /* a warp has 64 x 64 */
    GEMM_16_DEPTH = 32,
    GEMM_F32_THREADS = 256, /* a thread has 8 x 8 */
    GEMM_F32_DEPTH = 8
};

/* Attention: a block has ATTENTION_OWN queries (or keys) of F32, or ATTENTION_16_OWN of 16 bits, and goes over tiles of
 * the others. */
enum {
    ATTENTION_THREADS = 128,
    ATTENTION_TILE = 32,
    ATTENTION_WARP_OWN = 4,
    ATTENTION_OWN = ATTENTION_THREADS / 32 * ATTENTION_WARP_OWN,
    ATTENTION_BIASES = ATTENTION_OWN + ATTENTION_TILE - 1, /* distances of keys of a tile from queries of a block */
    ATTENTION_16_OWN = ATTENTION_THREADS / 32 * 16,
    ATTENTION_16_MOST_TILE = 64,
    ATTENTION_MOST_DIM = 256
};
/* Of 16 bits, by the number of channels that a kernel has: rows of a tile, and bytes of shared memory for `owns` times
 * the rows of a block and two tiles, all with eight numbers more; biases; bits of dropout; and 16 bytes for each row of
 * a tile. */
#define ATTENTION_16_TILE(dim)      ((dim) <= 128 ? 64 : 32)
#define ATTENTION_16_GRAD_TILE(dim) ((dim) <= 128 ? 32 : 16) /* of dq */
#define ATTENTION_16_KEY_TILE(dim)  ((dim) <= 64 ? 32 : 16)  /* of dk and dv */
#define ATTENTION_16_SHARED(dim, owns, tile)                                                        \
    ((ATTENTION_16_OWN * (owns) + 2 * (tile)) * ((dim) + 8) * 2 + (ATTENTION_16_OWN + (tile)) * 4 + \
     ATTENTION_16_OWN * (tile) / 8 + (tile)*16)

#endif
