/* Optimizers whose training and evaluation use different weights, y and x. Both are kept: to compute one from the other
 * would round, and a run that evaluates or resumes would differ from one that does not. */
#include "megalith/optimizer_state.h"
#include "optimizer_impl.h"

bool mega_optimizer_averages(const mega_optimizer *o)
{
    return o != NULL && o->builtin != NULL && o->builtin->averages;
}

bool optimizer_trains_apart(const mega_optimizer *o)
{
    return mega_optimizer_averages(o) && o->updates > 0 && !o->shows_average;
}

void *mega_optimizer_weight(const mega_optimizer *o, int param)
{
    const mega_param *p = mega_params_get(o->params, param);
    if (!optimizer_trains_apart(o) || !mega_param_is_trained(p)) return mega_params_master(o->params, param);
    return optimizer_state_at(o, 0, p->bucket, p->offset + mega_params_owned(o->params, param).first);
}

bool mega_optimizer_show(mega_optimizer *o, bool average)
{
    if (!mega_optimizer_averages(o) || o->updates == 0 || o->shows_average == average) return false;
    for (int i = 0; i < o->num_update; i++) {
        const mega_optimizer_call *c = &o->work[i].call;
        const mega_exchange_args a = {
            .head = {.dtype = mega_params_acc_dtype(o->params)}, .a = c->param, .b = c->state[0], .count = c->count};
        optimizer_run(o, MEGA_KERNEL_exchange, &a);
    }
    o->shows_average = average;
    return true;
}

void mega_optimizer_begin_load(mega_optimizer *o)
{
    o->shows_average = mega_optimizer_averages(o);
}

/* ---- numbers ---- */

int mega_optimizer_num_numbers(const mega_optimizer *o)
{
    int n = 0;
    while (o->builtin != NULL && o->builtin->number != NULL && o->builtin->number[n] != NULL) n++;
    return n;
}

const char *mega_optimizer_number_name(const mega_optimizer *o, int number)
{
    return o->builtin->number[number];
}

double mega_optimizer_number(const mega_optimizer *o, int number)
{
    return o->carried[number];
}

void mega_optimizer_set_number(mega_optimizer *o, int number, double value)
{
    o->carried[number] = value;
    optimizer_write_counts(o);
}
