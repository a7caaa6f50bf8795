/* First rows of groups of rows, and their gradient. The threads share the groups; rows are copied as bytes. */
#include "cpu/share.h"
#include <string.h>

static void first_rows_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_first_rows_args *a = ((const cpu_job *)user)->args;
    const mega_dtype t = a->head.dtype;
    const size_t bytes = (size_t)a->cols * mega_dtype_size(t);
    for (int64_t r = begin; r < end; r++)
        memcpy(element_at(a->y, t, r * a->cols), const_element_at(a->x, t, r * a->group * a->cols), bytes);
}

static void cpu_first_rows_run(const mega_queue *queue, const void *args)
{
    const mega_first_rows_args *a = args;
    cpu_job_run(mega_queue_team(queue), first_rows_work, args, a->rows, 1, a->rows * a->cols);
}

static void first_rows_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_first_rows_grad_args *a = ((const cpu_job *)user)->args;
    const mega_dtype t = a->head.dtype;
    const size_t bytes = (size_t)a->cols * mega_dtype_size(t);
    for (int64_t r = begin; r < end; r++) {
        char *dx = element_at(a->dx, t, r * a->group * a->cols);
        memcpy(dx, const_element_at(a->dy, t, r * a->cols), bytes);
        memset(dx + bytes, 0, bytes * (size_t)(a->group - 1)); /* zero bytes are 0 in every float type */
    }
}

static void cpu_first_rows_grad_run(const mega_queue *queue, const void *args)
{
    const mega_first_rows_grad_args *a = args;
    cpu_job_run(mega_queue_team(queue), first_rows_grad_work, args, a->rows, 1, a->rows * a->group * a->cols);
}

const mega_kernel mega_cpu_first_rows = {.name = "first_rows", .run = cpu_first_rows_run};
const mega_kernel mega_cpu_first_rows_grad = {.name = "first_rows_grad", .run = cpu_first_rows_grad_run};
