/* Scaling of rows by the root of the mean of squares, and its gradient. The threads share the rows, in the gradient
 * chunks of rows, of which each has its own sums for the gain. */
#include "cpu/share.h"

static void rms_scale_part(mega_rms_scale_args *part, int64_t begin)
{
    const mega_dtype t = part->head.dtype;
    part->y = element_at(part->y, t, begin * part->cols);
    part->x = const_element_at(part->x, t, begin * part->cols);
    part->sum = const_element_at(part->sum, acc_of(t), begin);
}

CPU_ROWS_KERNEL(mega_cpu_rms_scale, rms_scale, rms_scale_part, a, a->rows * a->cols);

static void cpu_rms_scale_grad_chunk(const void *args, int64_t begin, int64_t end, float *partial)
{
    mega_rms_scale_grad_args part = *(const mega_rms_scale_grad_args *)args;
    const mega_dtype t = part.head.dtype;
    part.dx = element_at(part.dx, t, begin * part.cols);
    part.dsum = element_at(part.dsum, acc_of(t), begin);
    part.dy = const_element_at(part.dy, t, begin * part.cols);
    part.x = const_element_at(part.x, t, begin * part.cols);
    part.sum = const_element_at(part.sum, acc_of(t), begin);
    part.rows = end - begin;
    for (int64_t c = 0; c < part.cols && part.dgain != NULL; c++) partial[c] = 0.0f;
    if (part.dgain != NULL) part.dgain = partial;
    mega_plain_rms_scale_grad.run(NULL, &part);
}

static void cpu_rms_scale_grad_run(const mega_queue *queue, const void *args)
{
    const mega_rms_scale_grad_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_rms_scale_grad.run(queue, args);
        return;
    }
    mega_cpu_chunks(mega_queue_team(queue), cpu_rms_scale_grad_chunk, a, a->rows, a->cols, a->head.scratch, a->cols);
    if (a->dgain != NULL)
        mega_cpu_fold(mega_queue_team(queue), a->dgain, a->head.scratch, chunk_count(a->rows), a->cols, a->cols);
}

static size_t cpu_rms_scale_grad_scratch(const void *args, int threads)
{
    const mega_rms_scale_grad_args *a = args;
    return (size_t)(chunk_count(a->rows) * a->cols) * sizeof(float);
}

const mega_kernel mega_cpu_rms_scale_grad = {
    .name = "rms_scale_grad", .run = cpu_rms_scale_grad_run, .scratch = cpu_rms_scale_grad_scratch};
