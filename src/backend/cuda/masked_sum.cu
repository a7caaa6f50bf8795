/* Masked sum, by one block in double, and its gradient (ops_loss.h). */
#include "kernel.h"

KERNEL(masked_sum, mega_masked_sum_args, ROW_THREADS)
{
    SHARED(double, part);
    double sum = 0.0;
    for (int64_t i = thread_x(); i < a.count; i += ROW_THREADS) {
        const double x = a.x != NULL ? ((const float *)a.x)[i] : 1.0f;
        sum += a.mask != NULL ? x * a.mask[i] : x;
    }
    sum = block_sum_double(sum, part);
    if (thread_x() == 0) *(float *)a.out = (float)sum;
}

KERNEL(masked_sum_grad, mega_masked_sum_grad_args, EIGHT_THREADS)
{
    const float dout = *(const float *)a.dout;
    for (place p = place_first(1, a.count); place_goes_on(&p); place_next(&p)) {
        eight dx;
        if (a.mask != NULL) dx = load_eight(a.mask, MEGA_F32, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) dx.v[k] = a.mask != NULL ? dx.v[k] * dout : dout;
        store_eight(a.dx, MEGA_F32, p.at, p.left, dx);
    }
}
