/* Optimizers that update each element by itself: plain kernels (optimizer_kernels.h, optimizer_formulas.h). */
#include "backend_impl.h"
#include <math.h>

#define REAL          double
#define SQRT(x)       sqrt(x)
#define DIVIDE(x, y)  ((x) / (y))
#define FORMULA(name) static void plain_formula_##name(double *p, double *s, double g, const double *n)
#include "megalith/optimizer_formulas.h"

typedef void plain_formula(double *p, double *s, double g, const double *n);

static double formula_gradient(const mega_formula_args *a, int from, const double *s, int states, int64_t i)
{
    const mega_dtype acc = acc_of(a->head.dtype);
    switch (from) {
    case MEGA_FORMULA_NONE: return 0;
    case MEGA_FORMULA_AS_IS: return get(a->g, acc, i);
    case MEGA_FORMULA_IN_STATE: return s[states - 1] * MEGA_UPDATE_FACTOR(a);
    default: return get(a->g, acc, i) * MEGA_UPDATE_FACTOR(a);
    }
}

static void plain_formula_run(plain_formula *f, bool writes, int states, int written, int from,
                              const mega_formula_args *a)
{
    const mega_dtype acc = acc_of(a->head.dtype);
    if (MEGA_UPDATE_IS_REFUSED(a->block)) return;
    double n[MEGA_FORMULA_NUMBERS], s[MEGA_FORMULA_STATES];
    for (int k = 0; k < MEGA_FORMULA_NUMBERS; k++) n[k] = a->number[k];
    n[1] *= a->times;
    if (a->scale != NULL) n[0] *= *a->scale;
    for (int64_t i = 0; i < a->count; i++) {
        double p = get(a->p, acc, i);
        for (int k = 0; k < states; k++) s[k] = get(a->state[k], acc, i);
        f(&p, s, formula_gradient(a, from, s, states, i), n);
        for (int k = 0; k < written; k++) put(a->state[k], acc, i, s[k]);
        if (!writes) continue;
        put(a->p, acc, i, p);
        if (a->weight != NULL) put(a->weight, a->head.dtype, i, p);
    }
}

#define KERNEL(name_, writes, states, written, from)                                   \
    static void plain_##name_##_run(const mega_queue *queue, const void *args)         \
    {                                                                                  \
        (void)queue;                                                                   \
        plain_formula_run(plain_formula_##name_, writes, states, written, from, args); \
    }                                                                                  \
    const mega_kernel mega_plain_##name_ = {.name = #name_, .run = plain_##name_##_run};
MEGA_FORMULAS(KERNEL)
