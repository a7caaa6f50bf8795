/* What the formulas of optimizers that update each element by itself (backend/optimizer_formulas.h) are given. */
#include "elementwise.h"
#include "megalith/assert.h"

const double *elementwise_numbers(const optimizer_work *w, mega_kernel_id formula)
{
    int i = 0;
    while (i < OPTIMIZER_FORMULAS && w->formula[i] != formula) i++;
    MEGA_ASSERT(i < OPTIMIZER_FORMULAS, "the optimizer has no numbers for kernel %d", (int)formula);
    return w->number[i];
}

mega_formula_args elementwise_args(const optimizer_work *w, mega_kernel_id formula)
{
    mega_formula_args a = {.head = {.dtype = w->compute},
                           .p = w->call.param,
                           .weight = w->weight,
                           .g = w->call.grad,
                           .count = w->call.count,
                           .grad_factor = w->factor,
                           .number = elementwise_numbers(w, formula),
                           .times = 1,
                           .block = w->block};
    for (int k = 0; k < MEGA_FORMULA_STATES; k++) a.state[k] = w->state[k];
    return a;
}

void elementwise_run(const mega_queue *queue, const optimizer_work *w, mega_kernel_id formula)
{
    const mega_formula_args a = elementwise_args(w, formula);
    mega_kernel_of(w->backend, formula)->run(queue, &a);
}
