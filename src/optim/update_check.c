/* The check of a step: whether its loss and gradients are finite, and the factor that clips the gradients. */
#include "megalith/device_memory.h"
#include "update_impl.h"

mega_status update_check(mega_update *u)
{
    mega_update_step *s = &u->step;
    mega_update_block b;
    const mega_check_args a = {.head = {.dtype = mega_params_acc_dtype(u->params)},
                               .block = u->optimizer->block,
                               .loss = s->loss,
                               .correction = s->correction,
                               .clip = s->clip,
                               .lr = s->lr,
                               .weight_decay = s->weight_decay};
    optimizer_run(u->optimizer, MEGA_KERNEL_check, &a);
    mega_device_read(&b, u->optimizer->block, sizeof b);
    MEGA_TRY(mega_device_finish(mega_device_of(u->optimizer->block))); /* else what was read is no verdict */
    const double sums[] = {b.squares, b.zeros, b.not_finite};
    s->norm = optimizer_norm_result(sums);
    if (b.verdict == MEGA_UPDATE_LOSS_IS_NOT_FINITE || b.verdict == MEGA_UPDATE_GRADIENT_IS_NOT_FINITE) {
        s->verdict = (mega_update_verdict)b.verdict;
        return MEGA_OK;
    }
    s->grad_norm = b.grad_norm;
    s->clip_factor = b.clip_factor;
    s->grad_factor = b.grad_factor;
    if (b.verdict == MEGA_UPDATE_NUMBERS_ARE_WRONG)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "update: learning rate %g, weight decay %g, factor of gradients %g; expected finite numbers "
                         "that a float holds, and a learning rate of at least 0",
                         s->lr, s->weight_decay, s->grad_factor);
    s->update = ++u->optimizer->updates;
    optimizer_advance(u->optimizer, s->lr);
    return MEGA_OK;
}
