/* Adds a loss of a micro-batch to the sums of a step: two numbers (kernels.h). */
#include "kernel.h"

BODY bool is_finite(float x)
{
    return (float_bits(x) & 0x7f800000u) != 0x7f800000u;
}

KERNEL(loss_add, mega_loss_add_args, 32)
{
    if (thread_x() != 0) return;
    const float sum = *(const float *)a.sum, weight = *(const float *)a.weight;
    double loss = 0.0;
    if (a.per_token) loss = sum;
    else if (!is_finite(sum) || !is_finite(weight))
        loss = (double)sum + weight;
    else if (weight != 0.0f)
        loss = (double)sum / weight;
    a.sums[0] += a.times * loss;
    if (a.per_token) a.sums[1] += a.times * weight;
    else if (!a.is_more)
        a.sums[1] += a.times;
}
