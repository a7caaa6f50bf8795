/* Means of groups of rows and their gradient: plain kernel (ops_rows.h). */
#include "backend_impl.h"

static void plain_mean_rows_run(const mega_queue *queue, const void *args)
{
    const mega_mean_rows_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < a->cols; c++) {
            double sum = 0.0;
            for (int64_t i = 0; i < a->group; i++) sum += get(a->x, t, (r * a->group + i) * a->cols + c);
            put(a->y, t, r * a->cols + c, sum / (double)a->group);
        }
}

static void plain_mean_rows_grad_run(const mega_queue *queue, const void *args)
{
    const mega_mean_rows_grad_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t r = 0; r < a->rows * a->group; r++)
        for (int64_t c = 0; c < a->cols; c++)
            put(a->dx, t, r * a->cols + c, get(a->dy, t, r / a->group * a->cols + c) / (double)a->group);
}

const mega_kernel mega_plain_mean_rows = {.name = "mean_rows", .run = plain_mean_rows_run};
const mega_kernel mega_plain_mean_rows_grad = {.name = "mean_rows_grad", .run = plain_mean_rows_grad_run};
