/* Calls the kernel that checks a step (backend/plain/check.c), and reads what became of it. */
#include "megalith/device_memory.h"
#include "update_impl.h"

void mega_update_clear(mega_update *u)
{
    mega_update_block *const b = u->optimizer->block;
    const double none = MEGA_UPDATE_IS_FINITE;
    if (b != NULL) mega_device_write(&b->verdict, &none, sizeof none);
}

bool update_defers_check(const mega_update *u)
{
    return u->step.losses.sums != NULL;
}

mega_status update_check(mega_update *u)
{
    const mega_update_step *s = &u->step;
    const mega_check_args a = {.head = {.dtype = mega_params_acc_dtype(u->params)},
                               .block = u->optimizer->block,
                               .loss = s->loss,
                               .correction = s->correction,
                               .clip = s->clip,
                               .lr = s->lr,
                               .weight_decay = s->weight_decay,
                               .losses = s->losses};
    optimizer_run(u->optimizer, MEGA_KERNEL_check, &a);
    optimizer_make_numbers(u->optimizer, s->lr, s->weight_decay);
    return update_defers_check(u) ? MEGA_OK : update_read_verdict(u);
}

/* What the host reads of an update: the block, and the losses where the check was given them by their address. */
static int parts_of_update(mega_update *u, mega_update_block *b, mega_device_part part[2])
{
    mega_update_step *s = &u->step;
    part[0] = (mega_device_part){b, u->optimizer->block, sizeof *b};
    part[1] = (mega_device_part){s->sum, s->losses.sums, (size_t)s->losses.count * 2 * sizeof *s->sum};
    return update_defers_check(u) ? 2 : 1;
}

static void take_block(mega_update *u, const mega_update_block *b)
{
    mega_update_step *s = &u->step;
    const double sums[] = {b->squares, b->zeros, b->not_finite};
    s->norm = optimizer_norm_result(sums);
    s->verdict = (mega_update_verdict)b->verdict;
    if (s->verdict == MEGA_UPDATE_LOSS_IS_NOT_FINITE || s->verdict == MEGA_UPDATE_GRADIENT_IS_NOT_FINITE) return;
    s->grad_norm = b->grad_norm;
    s->clip_factor = b->clip_factor;
    s->grad_factor = b->grad_factor;
    if (s->verdict != MEGA_UPDATE_IS_FINITE) return;
    s->update = u->optimizer->updates = (int64_t)b->updates;
    memcpy(u->optimizer->carried, b->carried, sizeof b->carried);
}

mega_status update_read_verdict(mega_update *u)
{
    const mega_update_step *s = &u->step;
    mega_update_block b;
    mega_device_part part[2];
    mega_device_read_all(part, parts_of_update(u, &b, part));
    MEGA_TRY(optimizer_agree_read(u->optimizer)); /* else what was read is no verdict, and no rank is to update */
    take_block(u, &b);
    if (s->verdict != MEGA_UPDATE_NUMBERS_ARE_WRONG) return MEGA_OK;
    return MEGA_MISTAKE("update: learning rate %g, weight decay %g, factor of gradients %g; expected finite numbers "
                        "that a float holds, and a learning rate of at least 0",
                        s->lr, s->weight_decay, s->grad_factor);
}

void mega_update_ask(mega_update *u)
{
    mega_device_part part[2];
    mega_device_ask(part, parts_of_update(u, &u->asked, part));
}

mega_status mega_update_answer(mega_update *u)
{
    mega_device_part part[2];
    mega_device_answer(part, parts_of_update(u, &u->asked, part));
    MEGA_TRY(mega_device_failure(mega_device_of(u->optimizer->block)));
    take_block(u, &u->asked);
    return MEGA_OK;
}
