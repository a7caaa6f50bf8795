/* Gradient of layer norm and RMS norm; the threads share chunks of rows, and compute the column sums for gain and bias
 * in the same pass. */
#include "cpu/share.h"

static void cpu_layer_norm_grad_chunk(const void *args, int64_t begin, int64_t end, float *partial)
{
    const mega_layer_norm_grad_args *a = args;
    mega_cpu_bodies_get()->layer_norm_grad(a, begin, end, partial, partial + a->cols);
}

static void cpu_layer_norm_grad_run(const mega_queue *queue, const void *args)
{
    const mega_layer_norm_grad_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_layer_norm_grad.run(queue, args);
        return;
    }
    mega_cpu_chunks(mega_queue_team(queue), cpu_layer_norm_grad_chunk, a, a->rows, a->cols, a->head.scratch,
                    2 * a->cols);
    const int64_t chunks = chunk_count(a->rows);
    const float *sums = a->head.scratch;
    if (a->dgain != NULL) mega_cpu_fold(mega_queue_team(queue), a->dgain, sums, chunks, 2 * a->cols, a->cols);
    if (a->dbias != NULL) mega_cpu_fold(mega_queue_team(queue), a->dbias, sums + a->cols, chunks, 2 * a->cols, a->cols);
}

static size_t cpu_layer_norm_grad_scratch(const void *args, int threads)
{
    const mega_layer_norm_grad_args *a = args;
    return (size_t)(chunk_count(a->rows) * a->cols * 2) * sizeof(float);
}

const mega_kernel mega_cpu_layer_norm_grad = {
    .name = "layer_norm_grad", .run = cpu_layer_norm_grad_run, .scratch = cpu_layer_norm_grad_scratch};
