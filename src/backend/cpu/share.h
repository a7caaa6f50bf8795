/* How the kernels of this folder share their work among the threads of a team. */
#ifndef MEGA_CPU_SHARE_H
#define MEGA_CPU_SHARE_H

#include "backend_impl.h"
#include "cpu/bodies.h"

/* One kernel run. */
typedef struct cpu_job {
    const cpu_bodies *bodies;
    const void *args;
} cpu_job;

/* Elements below which waking the team costs more than it saves (about a microsecond). */
#define CPU_SMALL_JOB 8192

/* Runs `part` on ranges of [0, n) that begin at multiples of grain, with a cpu_job as its user pointer; `elements` is
 * the size of the whole job. */
static inline void cpu_job_run(mega_team *team, mega_team_part *part, const void *args, int64_t n, int64_t grain,
                               int64_t elements)
{
    cpu_job job = {mega_cpu_bodies_get(), args};
    mega_team_for(elements < CPU_SMALL_JOB ? NULL : team, n, grain, part, &job);
}

/* Element i of an array of type t. */
static inline void *element_at(void *x, mega_dtype t, int64_t i)
{
    return (char *)x + (size_t)i * mega_dtype_size(t);
}

static inline const void *const_element_at(const void *x, mega_dtype t, int64_t i)
{
    return (const char *)x + (size_t)i * mega_dtype_size(t);
}

/* Channels that a loop takes at a time, as floats on the stack. */
#define CPU_BLOCK 64

/* dst[i] = x[at + i], of F32 or BF16, for n <= CPU_BLOCK; and x[at + i] = src[i]. */
static inline void block_get(float *restrict dst, const void *x, mega_dtype t, int64_t at, int64_t n)
{
    if (t == MEGA_BF16)
        for (int64_t i = 0; i < n; i++) dst[i] = mega_bf16_to_f32(((const uint16_t *)x)[at + i]);
    else
        for (int64_t i = 0; i < n; i++) dst[i] = ((const float *)x)[at + i];
}

static inline void block_put(void *x, mega_dtype t, int64_t at, int64_t n, const float *restrict src)
{
    if (t == MEGA_BF16)
        for (int64_t i = 0; i < n; i++) ((uint16_t *)x)[at + i] = mega_f32_to_bf16(src[i]);
    else
        for (int64_t i = 0; i < n; i++) ((float *)x)[at + i] = src[i];
}

/* Sums over rows: rows are cut into at most 64 chunks by a rule that knows the number of rows alone, each chunk has its
 * own partial sums in scratch, and they are added in order. So the bits do not depend on the number of threads. */
static inline int64_t chunk_rows(int64_t rows)
{
    const int64_t even = (rows + 63) / 64;
    return even < 16 ? 16 : even;
}

static inline int64_t chunk_count(int64_t rows)
{
    return (rows + chunk_rows(rows) - 1) / chunk_rows(rows);
}

/* One chunk of such a kernel: rows [begin, end), their column sums to partial (NULL: not wanted). */
typedef void cpu_chunk(const void *args, int64_t begin, int64_t end, float *partial);
/* All rows, the chunks shared among the team; the sums of chunk i go to partial + i*ld (partial NULL: none). */
void mega_cpu_chunks(mega_team *team, cpu_chunk *chunk, const void *args, int64_t rows, int64_t cols, float *partial,
                     int64_t ld);

/* sum[c] += the sum of `chunks` rows of partial sums [chunks, ld], columns shared among the team. */
void mega_cpu_fold(mega_team *team, float *sum, const float *partial, int64_t chunks, int64_t ld, int64_t cols);

#endif
