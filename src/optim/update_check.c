/* The check of a step: whether its loss and gradients are finite, and the factor that clips the gradients. */
#include "update_impl.h"

#include <float.h>
#include <math.h>

static void judge(mega_update_step *s)
{
    s->verdict = !isfinite(s->loss) ? MEGA_UPDATE_LOSS_IS_NOT_FINITE
                 : !s->norm.finite  ? MEGA_UPDATE_GRADIENT_IS_NOT_FINITE
                                    : MEGA_UPDATE_IS_FINITE;
}

/* The update computes in 32 bits, where a larger number is infinite and makes every weight so. */
static bool is_held(double x)
{
    return fabs(x) <= FLT_MAX;
}

mega_status update_check(mega_update *u)
{
    mega_update_step *s = &u->step;
    s->norm = optimizer_norm_result(u->partial);
    judge(s);
    if (s->verdict != MEGA_UPDATE_IS_FINITE) return MEGA_OK;
    s->grad_norm = s->norm.norm * s->correction;
    s->clip_factor = mega_clip_factor(s->grad_norm, s->clip);
    s->grad_factor = s->clip_factor * s->correction;
    if (!(s->lr >= 0) || !is_held(s->lr) || !is_held(s->weight_decay) || !is_held(s->grad_factor))
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "update: learning rate %g, weight decay %g, factor of gradients %g; expected finite numbers "
                         "that a float holds, and a learning rate of at least 0",
                         s->lr, s->weight_decay, s->grad_factor);
    s->update = ++u->optimizer->updates;
    optimizer_advance(u->optimizer, s->lr);
    return MEGA_OK;
}
