/* Masked sum, the definition (kernels.h). A NaN under a mask of 0 is still NaN. */
#include "backend_impl.h"

static void run(mega_team *team, const void *args)
{
    const mega_masked_sum_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    double sum = 0.0;
    (void)team;
    for (int64_t i = 0; i < a->count; i++) sum += a->x != NULL ? get(a->x, acc, i) * a->mask[i] : a->mask[i];
    put(a->out, acc, 0, sum);
}

const mega_kernel mega_plain_masked_sum = {.name = "masked_sum", .run = run};
