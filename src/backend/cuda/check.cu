/* The check of a step: what becomes of it, from the sums over its gradients (kernels.h, update_block.h). */
#include "kernel.h"

#define CHECK_FORMULA BODY
#include "megalith/check_formulas.h"

/* Whether a float holds it: neither a NaN, nor infinite, nor larger. */
BODY bool is_held(double x)
{
    return x >= -3.402823466e38 && x <= 3.402823466e38;
}

/* Neither infinite nor a NaN: of these alone the difference with itself is not 0. */
BODY bool is_finite_double(double x)
{
    return x - x == 0.0;
}

BODY double clip_factor(double norm, double clip)
{
    const double factor = clip / (norm + 1e-6);
    return clip > 0.0 && factor < 1.0 ? factor : 1.0;
}

KERNEL(check, mega_check_args, 32)
{
    mega_update_block *const b = a.block;
    if (thread_x() != 0 || b->verdict != 0.0) return;
    const double loss = loss_of_step(&a), correction = correction_of_step(&a);
    if (!is_finite_double(loss) || b->not_finite != 0.0) {
        b->verdict = is_finite_double(loss) ? MEGA_UPDATE_GRADIENT_IS_NOT_FINITE : MEGA_UPDATE_LOSS_IS_NOT_FINITE;
        return;
    }
    b->grad_norm = device_sqrt_double(b->squares) * correction;
    b->clip_factor = clip_factor(b->grad_norm, a.clip);
    b->grad_factor = b->clip_factor * correction;
    if (!(a.lr >= 0.0) || !is_held(a.lr) || !is_held(a.weight_decay) || !is_held(b->grad_factor))
        b->verdict = MEGA_UPDATE_NUMBERS_ARE_WRONG;
    else
        b->updates += 1.0;
}
