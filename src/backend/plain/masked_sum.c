/* Masked sum and its gradient: plain kernel (ops_loss.h). A NaN under a mask of 0 is still NaN. */
#include "backend_impl.h"

static double mask_at(const float *mask, int64_t i)
{
    return mask != NULL ? mask[i] : 1.0;
}

static void plain_masked_sum_run(const mega_queue *queue, const void *args)
{
    const mega_masked_sum_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    double sum = 0.0;
    for (int64_t i = 0; i < a->count; i++)
        sum += a->x != NULL ? get(a->x, acc, i) * mask_at(a->mask, i) : mask_at(a->mask, i);
    put(a->out, acc, 0, sum);
}

static void plain_masked_sum_grad_run(const mega_queue *queue, const void *args)
{
    const mega_masked_sum_grad_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    for (int64_t i = 0; i < a->count; i++) put(a->dx, acc, i, get(a->dout, acc, 0) * mask_at(a->mask, i));
}

const mega_kernel mega_plain_masked_sum = {.name = "masked_sum", .run = plain_masked_sum_run};
const mega_kernel mega_plain_masked_sum_grad = {.name = "masked_sum_grad", .run = plain_masked_sum_grad_run};
