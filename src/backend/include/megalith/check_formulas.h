/* What the kernel `check` makes of the losses of a step (mega_check_losses), once for all backends. The file that
 * includes this one has kernels.h, and defines CHECK_FORMULA, with which a function of its own begins. */
#include <stddef.h>
#include <stdint.h>

#ifdef CHECK_FORMULA
/* The loss of the step. A loss is its sum divided by its weight; that of no weight is 0. */
CHECK_FORMULA double loss_of_step(const mega_check_args *a)
{
    const mega_check_losses *l = &a->losses;
    double loss = 0.0;
    if (l->sums == NULL) return a->loss;
    for (int64_t i = 0; i < l->count; i++) {
        const double weight = l->sums[2 * i + 1];
        if (l->coefficient[i] != 0.0) loss += l->coefficient[i] * (weight != 0.0 ? l->sums[2 * i] / weight : 0.0);
    }
    return loss;
}

/* The factor from the numbers in memory to the gradients. With a loss per token, the weight of the step divides the
 * positions that were expected. */
CHECK_FORMULA double correction_of_step(const mega_check_args *a)
{
    const mega_check_losses *l = &a->losses;
    int64_t i = 0;
    if (l->sums == NULL || l->positions == 0.0) return a->correction;
    while (i < l->count && l->coefficient[i] == 0.0) i++;
    const double weight = i < l->count ? l->sums[2 * i + 1] : 0.0;
    return weight != 0.0 ? a->correction * (l->positions / weight) : 0.0;
}
#endif
