/* The check of a step, whether its loss and gradients are finite, and the factor that clips the gradients: plain kernel
 * (kernels.h, update_block.h). */
#include "megalith/kernels.h"

#define CHECK_FORMULA static
#include "megalith/check_formulas.h"

#include <float.h>
#include <math.h>

double mega_clip_factor(double norm, double clip)
{
    if (clip <= 0) return 1;
    const double factor = clip / (norm + 1e-6);
    return factor < 1 ? factor : 1;
}

/* The update computes in 32 bits, where a larger number is infinite and makes every weight so. */
static bool check_is_held(double x)
{
    return fabs(x) <= FLT_MAX;
}

static void plain_check_run(const mega_queue *queue, const void *args)
{
    const mega_check_args *a = args;
    mega_update_block *b = a->block;
    if (MEGA_UPDATE_IS_REFUSED(b)) return;
    const bool is_finite = b->not_finite == 0.0;
    b->verdict = !isfinite(loss_of_step(a)) ? MEGA_UPDATE_LOSS_IS_NOT_FINITE
                 : !is_finite               ? MEGA_UPDATE_GRADIENT_IS_NOT_FINITE
                                            : MEGA_UPDATE_IS_FINITE;
    if (MEGA_UPDATE_IS_REFUSED(b)) return;
    const double correction = correction_of_step(a);
    b->grad_norm = sqrt(b->squares) * correction;
    b->clip_factor = mega_clip_factor(b->grad_norm, a->clip);
    b->grad_factor = b->clip_factor * correction;
    if (!(a->lr >= 0) || !check_is_held(a->lr) || !check_is_held(a->weight_decay) || !check_is_held(b->grad_factor))
        b->verdict = MEGA_UPDATE_NUMBERS_ARE_WRONG;
    else
        b->updates += 1;
}

const mega_kernel mega_plain_check = {.name = "check", .run = plain_check_run};
