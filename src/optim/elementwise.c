/* What the formulas of optimizers that update each element by itself (backend/optimizer_formulas.h) are given. */
#include "elementwise.h"
#include <math.h>

static double schedule_free_lr(const mega_optimizer_call *c)
{
    const double k = (double)c->update, warmup = ARGUMENT(c, warmup_steps);
    return k < warmup ? c->lr * (k / warmup) : c->lr;
}

void elementwise_schedule_free_advance(const mega_optimizer_call *c, double *number)
{
    const double lr = schedule_free_lr(c);
    if (lr > number[SCHEDULE_FREE_LR_MAX]) number[SCHEDULE_FREE_LR_MAX] = lr;
    const double weight =
        pow((double)c->update, ARGUMENT(c, r)) * pow(number[SCHEDULE_FREE_LR_MAX], ARGUMENT(c, weight_lr_power));
    number[SCHEDULE_FREE_WEIGHT_SUM] += weight;
    number[SCHEDULE_FREE_SHARE] = weight > 0 ? weight / number[SCHEDULE_FREE_WEIGHT_SUM] : 0;
}

#define NUMBERS(name) static void elementwise_##name(const mega_optimizer_call *c, double *n)
#include "megalith/optimizer_formulas.h"

#define NUMBERS_OF(name, ...) [MEGA_KERNEL_##name] = elementwise_##name,
static void (*const numbers_of[MEGA_KERNEL_COUNT])(const mega_optimizer_call *c,
                                                   double *n) = {MEGA_FORMULAS(NUMBERS_OF)};

mega_formula_args elementwise_args(const optimizer_work *w, mega_kernel_id formula)
{
    mega_formula_args a = {.head = {.dtype = w->compute},
                           .p = w->call.param,
                           .weight = w->weight,
                           .g = w->call.grad,
                           .count = w->call.count,
                           .grad_factor = w->factor,
                           .block = w->block};
    for (int k = 0; k < MEGA_FORMULA_STATES; k++) a.state[k] = w->state[k];
    numbers_of[formula](&w->call, a.number);
    return a;
}

void elementwise_run(const mega_queue *queue, const optimizer_work *w, mega_kernel_id formula)
{
    const mega_formula_args a = elementwise_args(w, formula);
    mega_kernel_of(w->backend, formula)->run(queue, &a);
}
