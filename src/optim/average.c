/* Optimizers whose training and evaluation use different weights, y and x. Both are kept: to compute one from the other
 * would round, and a run that evaluates or resumes would differ from one that does not. */
#include "megalith/device_memory.h"
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

typedef struct exchange {
    char *a, *b;
} exchange;

static void exchange_part(void *user, int thread, int64_t begin, int64_t end)
{
    const exchange *x = user;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const char kept = x->a[i];
        x->a[i] = x->b[i];
        x->b[i] = kept;
    }
}

bool mega_optimizer_show(mega_optimizer *o, bool average)
{
    const int64_t size = (int64_t)mega_dtype_size(mega_params_acc_dtype(o->params));
    if (!mega_optimizer_averages(o) || o->updates == 0 || o->shows_average == average) return false;
    mega_device_begin();
    for (int i = 0; i < o->num_update; i++) {
        const mega_optimizer_call *c = &o->work[i].call;
        exchange x = {c->param, c->state[0]};
        mega_team_for(o->options.queue.team, c->count * size, 1 << 16, exchange_part, &x);
    }
    mega_device_end();
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

double *mega_optimizer_number(mega_optimizer *o, int number)
{
    return &o->option[OPTIMIZER_ARGUMENTS + number];
}
