/* Gradient of dropout; the threads share chunks of rows, and compute the column sums for the bias in the same pass. */
#include "cpu/share.h"

static void cpu_dropout_grad_chunk(const void *args, int64_t begin, int64_t end, float *partial)
{
    mega_cpu_bodies_get()->dropout_grad(args, begin, end, partial);
}

static void cpu_dropout_grad_run(mega_team *team, const void *args)
{
    const mega_dropout_grad_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_dropout_grad.run(team, args);
        return;
    }
    mega_cpu_chunks(team, cpu_dropout_grad_chunk, a, a->rows, a->cols, a->dbias != NULL ? a->head.scratch : NULL,
                    a->cols);
    if (a->dbias != NULL) mega_cpu_fold(team, a->dbias, a->head.scratch, chunk_count(a->rows), a->cols, a->cols);
}

static size_t cpu_dropout_grad_scratch(const void *args, int threads)
{
    const mega_dropout_grad_args *a = args;
    (void)threads;
    return (size_t)(chunk_count(a->rows) * a->cols) * sizeof(float);
}

const mega_kernel mega_cpu_dropout_grad = {
    .name = "dropout_grad", .run = cpu_dropout_grad_run, .scratch = cpu_dropout_grad_scratch};
