/* What the formulas of the optimizers take in an update: plain kernel (optimizer_kernels.h, optimizer_formulas.h). */
#include "backend_impl.h"
#include <math.h>

#define POW               pow
#define EXP               exp
#define LOG               log
#define SQRT              sqrt
#define NUMBERS_OF_UPDATE static
#define NUMBERS(name)     static void numbers_##name(const mega_numbers_args *a, const numbers_given *c, double *n)
#include "megalith/optimizer_formulas.h"

static void plain_numbers_run(const mega_queue *queue, const void *args)
{
    const mega_numbers_args *a = args;
    double carried[MEGA_UPDATE_CARRIED], share;
    (void)queue;
    if (MEGA_UPDATE_IS_REFUSED(a->block)) return;
    numbers_carry(a, carried, &share);
    for (int64_t g = 0; g < a->groups; g++) numbers_of_group(a, share, g);
    for (int i = 0; i < MEGA_UPDATE_CARRIED; i++) a->block->carried[i] = carried[i];
}

const mega_kernel mega_plain_numbers = {.name = "numbers", .run = plain_numbers_run};
