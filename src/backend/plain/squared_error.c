/* Squared error of rows and its gradient: plain kernel (ops_loss.h). */
#include "backend_impl.h"

static void plain_squared_error_run(const mega_queue *queue, const void *args)
{
    const mega_squared_error_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t r = 0; r < a->rows; r++) {
        double sum = 0.0;
        for (int64_t i = r * a->cols; i < (r + 1) * a->cols; i++) {
            const double d = get(a->x, t, i) - get(a->target, t, i);
            sum += d * d;
        }
        put(a->loss, acc_of(t), r, sum);
    }
}

static void plain_squared_error_grad_run(const mega_queue *queue, const void *args)
{
    const mega_squared_error_grad_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t i = r * a->cols; i < (r + 1) * a->cols; i++)
            put(a->dx, t, i, 2.0 * (get(a->x, t, i) - get(a->target, t, i)) * get(a->dloss, acc_of(t), r));
}

const mega_kernel mega_plain_squared_error = {.name = "squared_error", .run = plain_squared_error_run};
const mega_kernel mega_plain_squared_error_grad = {.name = "squared_error_grad", .run = plain_squared_error_grad_run};
