/* Gradient of GELU; the threads share chunks of rows, and compute the column sums for the bias in the same pass. */
#include "cpu/share.h"

static void cpu_gelu_grad_chunk(const void *args, int64_t begin, int64_t end, float *partial)
{
    mega_cpu_bodies_get()->gelu_grad(args, begin, end, partial);
}

static void cpu_gelu_grad_run(mega_team *team, const void *args)
{
    const mega_gelu_grad_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_gelu_grad.run(team, args);
        return;
    }
    mega_cpu_chunks(team, cpu_gelu_grad_chunk, a, a->rows, a->cols, a->dbias != NULL ? a->head.scratch : NULL, a->cols);
    if (a->dbias != NULL) mega_cpu_fold(team, a->dbias, a->head.scratch, chunk_count(a->rows), a->cols, a->cols);
}

static size_t cpu_gelu_grad_scratch(const void *args, int threads)
{
    const mega_gelu_grad_args *a = args;
    (void)threads;
    return (size_t)(chunk_count(a->rows) * a->cols) * sizeof(float);
}

const mega_kernel mega_cpu_gelu_grad = {
    .name = "gelu_grad", .run = cpu_gelu_grad_run, .scratch = cpu_gelu_grad_scratch};
