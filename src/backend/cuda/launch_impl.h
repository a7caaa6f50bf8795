/* How calls of ops become launches: the parts that launch.c is made of. */
#ifndef MEGA_CUDA_LAUNCH_IMPL_H
#define MEGA_CUDA_LAUNCH_IMPL_H

#include "launch.h"
#include "megalith/kernels.h"
#include "shapes.h"
#include <assert.h>

/* The kernel of this name for numbers of a type, which is one of has_kernels; TYPED: that of the call `a`. */
#define FOR_TYPE(name, type) FOR_TYPE_END(name, , type)
#define FOR_TYPE_END(name, end, type) \
    ((type) == MEGA_BF16 ? #name "_bf16" #end : (type) == MEGA_F16 ? #name "_f16" #end : #name "_f32" #end)
#define TYPED_END(name, end) FOR_TYPE_END(name, end, a->head.dtype)
#define TYPED(name)          FOR_TYPE(name, a->head.dtype)

/* Whether there are kernels for numbers of this type. */
static inline bool has_kernels(mega_dtype t)
{
    return t == MEGA_F32 || t == MEGA_BF16 || t == MEGA_F16;
}

static inline void add_launch(mega_cuda_call *c, const char *kernel, unsigned threads, int64_t x, int64_t y)
{
    if (x <= 0 || y <= 0) return;
    assert(c->count < MEGA_CUDA_LAUNCHES);
    c->launch[c->count++] = (mega_cuda_launch){kernel, threads, (unsigned)x, (unsigned)y, 1, 0};
}

/* Of a kernel whose threads have eight elements each. */
static inline mega_cuda_call elements(const char *kernel, int64_t rows, int64_t cols)
{
    mega_cuda_call c = {.count = 0};
    const int64_t pieces = rows * ((cols + EIGHT_COUNT - 1) / EIGHT_COUNT);
    add_launch(&c, kernel, EIGHT_THREADS, pieces < MOST_BLOCKS ? pieces : MOST_BLOCKS, 1);
    return c;
}

/* Of a kernel whose blocks have a row each. */
static inline mega_cuda_call by_rows(const char *kernel, int64_t rows)
{
    mega_cuda_call c = {.count = 0};
    add_launch(&c, kernel, ROW_THREADS, rows < MOST_BLOCKS ? rows : MOST_BLOCKS, 1);
    return c;
}

/* Of a kernel whose threads have eight columns of a row each, where rows may be short. */
static inline mega_cuda_call by_tiles(const char *kernel, int64_t rows, int64_t cols)
{
    mega_cuda_call c = {.count = 0};
    const int64_t tiles = (rows + COLUMN_LANES - 1) / COLUMN_LANES * ((cols + COLUMN_WIDTH - 1) / COLUMN_WIDTH);
    add_launch(&c, kernel, COLUMN_THREADS, tiles < MOST_BLOCKS ? tiles : MOST_BLOCKS, 1);
    return c;
}

/* Adds the launches of a part of a call to those before it. */
static inline void add_launches(mega_cuda_call *c, mega_cuda_call part)
{
    for (int i = 0; i < part.count; i++) {
        assert(c->count < MEGA_CUDA_LAUNCHES);
        c->launch[c->count++] = part.launch[i];
    }
}

/* Of a kernel of columns, and one that adds up `sums` sums of chunks. */
static inline mega_cuda_call by_columns(const char *kernel, const char *total, int sums, int64_t rows, int64_t cols)
{
    mega_cuda_call c = {.scratch = (size_t)(sums * COLUMN_CHUNKS(rows) * cols) * sizeof(float)};
    if (rows == 0) return c;
    add_launch(&c, kernel, COLUMN_THREADS, (cols + COLUMN_WIDTH - 1) / COLUMN_WIDTH, COLUMN_CHUNKS(rows));
    if (sums > 0) add_launch(&c, total, COLUMN_THREADS, (cols + COLUMN_THREADS - 1) / COLUMN_THREADS, 1);
    return c;
}

/* Of a kernel whose blocks have chunks of elements, and one that adds up `sums` sums of chunks. */
static inline mega_cuda_call by_chunks(const char *kernel, const char *total, int sums, int64_t count)
{
    const int64_t chunks = (count + NORM_CHUNK - 1) / NORM_CHUNK;
    mega_cuda_call c = {.scratch = (size_t)(chunks * sums) * sizeof(double)};
    add_launch(&c, kernel, ROW_THREADS, chunks, 1);
    add_launch(&c, total, 32, 1, 1);
    return c;
}

/* One kernel, once. */
static inline mega_cuda_call alone(const char *kernel, unsigned threads)
{
    mega_cuda_call c = {.count = 0};
    add_launch(&c, kernel, threads, 1, 1);
    return c;
}

/* There are no kernels for the arguments. */
static const mega_cuda_call no_kernels = {.count = -1};

/* The function that gives the launches of a kernel of this name for its arguments `a`, whose type has kernels. */
#define CALL(name, type)                                                 \
    enum { name##_bytes = sizeof(type) };                                \
    static mega_cuda_call name##_call(const type *a);                    \
    static mega_cuda_call call_##name(const void *args)                  \
    {                                                                    \
        const type *const a = args;                                      \
        return has_kernels(a->head.dtype) ? name##_call(a) : no_kernels; \
    }                                                                    \
    static mega_cuda_call name##_call(const type *a)
/* The same where it is one expression of `a`. */
#define ONE(name, type, launches) \
    CALL(name, type)              \
    {                             \
        (void)a;                  \
        return launches;          \
    }

#endif
