/* How the kernels of this folder divide their work among the threads of a team. */
#ifndef MEGA_CPU_SHARE_H
#define MEGA_CPU_SHARE_H

#include "backend_impl.h"
#include "cpu/bodies.h"

/* One kernel run. */
typedef struct cpu_job {
    const cpu_bodies *bodies;
    const void *args;
} cpu_job;

/* For fewer elements, waking the team (bench_base: "one round of the team", about a microsecond) costs more than it
 * saves. */
#define CPU_SMALL_JOB 8192

/* Runs `part` on ranges of [0, n) that begin at multiples of grain, with a cpu_job as its user pointer. `elements` is
 * the number of elements of the whole job. */
static inline void cpu_job_run(mega_team *team, mega_team_part *part, const void *args, int64_t n, int64_t grain,
                               int64_t elements)
{
    cpu_job job = {mega_cpu_bodies_get(), args};
    mega_team_for(elements < CPU_SMALL_JOB ? NULL : team, n, grain, part, &job);
}

/* The three macros below each define a `kernel`. CPU_BODY_KERNEL runs the body of this name (bodies.h): the threads
 * share [0, units) in multiples of `grain`; `units` and `elements` (see cpu_job_run) are expressions of the arguments,
 * which they call by the name given as `a`. F64 has no bodies: it runs the plain kernel. */
#define CPU_BODY_KERNEL(kernel, name_, a, units, grain, elements)                                  \
    static void cpu_##name_##_work(void *user, int thread, int64_t begin, int64_t end)             \
    {                                                                                              \
        const cpu_job *job = user;                                                                 \
        (void)thread;                                                                              \
        job->bodies->name_(job->args, begin, end);                                                 \
    }                                                                                              \
    static void cpu_##name_##_run(const mega_queue *queue, const void *args)                       \
    {                                                                                              \
        const mega_##name_##_args *a = args;                                                       \
        if (a->head.dtype == MEGA_F64) mega_plain_##name_.run(queue, args);                        \
        else                                                                                       \
            cpu_job_run(mega_queue_team(queue), cpu_##name_##_work, args, units, grain, elements); \
    }                                                                                              \
    const mega_kernel kernel = {.name = #name_, .run = cpu_##name_##_run}

/* Runs the plain kernel on ranges of rows: the threads share the rows, and shift(&part, begin) moves the pointers of a
 * thread's arguments to its first row. */
#define CPU_ROWS_KERNEL(kernel, name_, shift, a, elements)                                      \
    static void cpu_##name_##_work(void *user, int thread, int64_t begin, int64_t end)          \
    {                                                                                           \
        mega_##name_##_args part = *(const mega_##name_##_args *)((const cpu_job *)user)->args; \
        (void)thread;                                                                           \
        shift(&part, begin);                                                                    \
        part.rows = end - begin;                                                                \
        mega_plain_##name_.run(NULL, &part);                                                    \
    }                                                                                           \
    static void cpu_##name_##_run(const mega_queue *queue, const void *args)                    \
    {                                                                                           \
        const mega_##name_##_args *a = args;                                                    \
        cpu_job_run(mega_queue_team(queue), cpu_##name_##_work, args, a->rows, 1, elements);    \
    }                                                                                           \
    const mega_kernel kernel = {.name = #name_, .run = cpu_##name_##_run}

/* Returns a pointer to element i of an array of type t. */
static inline void *element_at(void *x, mega_dtype t, int64_t i)
{
    return (char *)x + (size_t)i * mega_dtype_size(t);
}

static inline const void *const_element_at(const void *x, mega_dtype t, int64_t i)
{
    return (const char *)x + (size_t)i * mega_dtype_size(t);
}

/* Number of channels that a loop processes at a time, as floats on the stack: 256 bytes, four lines of cache. */
#define CPU_BLOCK 64

/* block_get: dst[i] = x[at + i] for n <= CPU_BLOCK elements of F32, BF16 or F16. block_put: x[at + i] = src[i]. */
static inline void block_get(float *restrict dst, const void *x, mega_dtype t, int64_t at, int64_t n)
{
    if (t == MEGA_F32)
        for (int64_t i = 0; i < n; i++) dst[i] = ((const float *)x)[at + i];
    else
        mega_half_widen(dst, (const uint16_t *)x + at, n, t);
}

static inline void block_put(void *x, mega_dtype t, int64_t at, int64_t n, const float *restrict src)
{
    if (t == MEGA_F32)
        for (int64_t i = 0; i < n; i++) ((float *)x)[at + i] = src[i];
    else
        mega_half_narrow((uint16_t *)x + at, src, n, t);
}

/* Sums over rows. The rows are divided into at most 64 chunks, by a rule that depends only on the number of rows. Each
 * chunk has its own partial sums in scratch, and these are added in order, so the bits do not depend on the number of
 * threads. Returns the rows of a chunk. */
static inline int64_t chunk_rows(int64_t rows)
{
    const int64_t even = (rows + 63) / 64;
    return even < 16 ? 16 : even;
}

static inline int64_t chunk_count(int64_t rows)
{
    return (rows + chunk_rows(rows) - 1) / chunk_rows(rows);
}

/* Processes one chunk of such a kernel, rows [begin, end), and writes their column sums to partial (NULL: not
 * wanted). */
typedef void cpu_chunk(const void *args, int64_t begin, int64_t end, float *partial);
/* Processes all rows; the threads of the team share the chunks. The sums of chunk i go to partial + i*ld; partial may
 * be NULL. */
void mega_cpu_chunks(mega_team *team, cpu_chunk *chunk, const void *args, int64_t rows, int64_t cols, float *partial,
                     int64_t ld);

/* sum[c] += the sum of `chunks` rows of partial sums [chunks, ld]; the threads of the team share the columns. */
void mega_cpu_fold(mega_team *team, float *sum, const float *partial, int64_t chunks, int64_t ld, int64_t cols);

/* Runs a body that also sums columns: the argument `sums` += the column sums, unless it is NULL. F64 has no bodies: it
 * runs the plain kernel. */
#define CPU_SUMS_KERNEL(kernel, name_, sums)                                                                 \
    static void cpu_##name_##_chunk(const void *args, int64_t begin, int64_t end, float *partial)            \
    {                                                                                                        \
        mega_cpu_bodies_get()->name_(args, begin, end, partial);                                             \
    }                                                                                                        \
    static void cpu_##name_##_run(const mega_queue *queue, const void *args)                                 \
    {                                                                                                        \
        const mega_##name_##_args *a = args;                                                                 \
        if (a->head.dtype == MEGA_F64) {                                                                     \
            mega_plain_##name_.run(queue, args);                                                             \
            return;                                                                                          \
        }                                                                                                    \
        float *const partial = a->sums != NULL ? a->head.scratch : NULL;                                     \
        mega_cpu_chunks(mega_queue_team(queue), cpu_##name_##_chunk, a, a->rows, a->cols, partial, a->cols); \
        if (partial != NULL)                                                                                 \
            mega_cpu_fold(mega_queue_team(queue), a->sums, partial, chunk_count(a->rows), a->cols, a->cols); \
    }                                                                                                        \
    static size_t cpu_##name_##_scratch(const void *args, int threads)                                       \
    {                                                                                                        \
        const mega_##name_##_args *a = args;                                                                 \
        (void)threads;                                                                                       \
        return (size_t)(chunk_count(a->rows) * a->cols) * sizeof(float);                                     \
    }                                                                                                        \
    const mega_kernel kernel = {.name = #name_, .run = cpu_##name_##_run, .scratch = cpu_##name_##_scratch}

#endif
