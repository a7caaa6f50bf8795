/* The gradient at which the backward pass starts: one number (ops_loss.h). */
#include "kernel.h"

KERNEL(loss_seed, mega_loss_seed_args, 32)
{
    if (thread_x() != 0) return;
    const float weight = a.weight != NULL ? *(const float *)a.weight : 1.0f;
    const float factor = (float)(a.coefficient * a.head.step->loss_factor);
    *(float *)a.seed = weight != 0.0f ? device_divide(factor, weight) : 0.0f;
}
