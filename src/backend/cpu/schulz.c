/* What Newton-Schulz iterations do besides products. The threads share chunks of elements, whose sums are kept in
 * scratch and added in order, or rows of tiles; F64 is computed the same way. */
#include "cpu/share.h"

/* SQUARES_CHUNK: 64 kB of floats, so that claiming one costs nothing; the bits depend on it. TILE: two tiles of floats
 * fit in the first level of cache. (bench_optimizer) */
enum { SQUARES_CHUNK = 16384, TILE = 32 };

static int64_t smaller_size(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#define REAL    float
#define NAME(x) x##_f32
#include "cpu/schulz_body.c"
#undef REAL
#undef NAME
#define REAL    double
#define NAME(x) x##_f64
#include "cpu/schulz_body.c"

static void schulz_kernel_run(const mega_queue *queue, mega_dtype dtype, mega_team_part *narrow, mega_team_part *wide,
                              const void *args, int64_t items, int64_t grain, int64_t elements)
{
    cpu_job_run(mega_queue_team(queue), dtype == MEGA_F64 ? wide : narrow, args, items, grain, elements);
}

static void cpu_matrix_squares_run(const mega_queue *queue, const void *args)
{
    const mega_matrix_squares_args *a = args;
    const double *const chunk = a->head.scratch;
    schulz_kernel_run(queue, a->head.dtype, squares_f32, squares_f64, args, a->count, SQUARES_CHUNK, a->count);
    a->sum[0] = 0;
    for (int64_t k = 0; k * SQUARES_CHUNK < a->count; k++) a->sum[0] += chunk[k];
}

static size_t cpu_matrix_squares_scratch(const void *args, int threads)
{
    const mega_matrix_squares_args *a = args;
    return (size_t)((a->count + SQUARES_CHUNK - 1) / SQUARES_CHUNK) * sizeof(double);
}

static void cpu_matrix_scale_run(const mega_queue *queue, const void *args)
{
    const mega_matrix_scale_args *a = args;
    schulz_kernel_run(queue, a->head.dtype, scaled_f32, scaled_f64, args, a->count, SQUARES_CHUNK, a->count);
}

static void cpu_mirror_run(const mega_queue *queue, const void *args)
{
    const mega_mirror_args *a = args;
    schulz_kernel_run(queue, a->head.dtype, mirrored_f32, mirrored_f64, args, a->size, TILE, a->size * a->size);
}

static void cpu_polynomial_run(const mega_queue *queue, const void *args)
{
    const mega_polynomial_args *a = args;
    schulz_kernel_run(queue, a->head.dtype, polynomial_f32, polynomial_f64, args, a->size, TILE, a->size * a->size);
}

const mega_kernel mega_cpu_matrix_squares = {
    .name = "matrix_squares", .run = cpu_matrix_squares_run, .scratch = cpu_matrix_squares_scratch};
const mega_kernel mega_cpu_matrix_scale = {.name = "matrix_scale", .run = cpu_matrix_scale_run};
const mega_kernel mega_cpu_mirror = {.name = "mirror", .run = cpu_mirror_run};
const mega_kernel mega_cpu_polynomial = {.name = "polynomial", .run = cpu_polynomial_run};
