/* Optimizers that update each element by itself (optimizer_formulas.h); a thread has eight elements. */
#include "kernel.h"

#define REAL          float
#define SQRT(x)       device_sqrt(x)
#define DIVIDE(x, y)  device_divide(x, y)
#define FORMULA(name) BODY void formula_##name(float *p, float *s, float g, const float *n)
#include "megalith/optimizer_formulas.h"

/* All but the last two arguments are constants, so that this is a loop over one formula. */
BODY void formula_run(void (*f)(float *p, float *s, float g, const float *n), bool writes, int states, int written,
                      int from, const mega_formula_args *a, mega_dtype t)
{
    if (MEGA_UPDATE_IS_REFUSED(a->block)) return;
    const float factor = (float)MEGA_UPDATE_FACTOR(a);
    float n[MEGA_FORMULA_NUMBERS];
    UNROLL
    for (int k = 0; k < MEGA_FORMULA_NUMBERS; k++) n[k] = (float)a->number[k];
    n[1] = (float)(a->number[1] * a->times);
    if (a->scale != NULL) n[0] = (float)(a->number[0] * *a->scale);
    for (place p = place_first(1, a->count); place_goes_on(&p); place_next(&p)) {
        eight x = load_eight(a->p, MEGA_F32, p.at, p.left), s[MEGA_FORMULA_STATES], g = x;
        UNROLL
        for (int i = 0; i < MEGA_FORMULA_STATES; i++)
            s[i] = i < states ? load_eight(a->state[i], MEGA_F32, p.at, p.left) : x;
        if (from == MEGA_FORMULA_IN_STATE) g = s[states - 1];
        else if (from != MEGA_FORMULA_NONE)
            g = load_eight(a->g, MEGA_F32, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) {
            float e[MEGA_FORMULA_STATES] = {s[0].v[k], s[1].v[k], s[2].v[k]};
            f(&x.v[k], e, from == MEGA_FORMULA_AS_IS ? g.v[k] : g.v[k] * factor, n);
            UNROLL
            for (int i = 0; i < MEGA_FORMULA_STATES; i++) s[i].v[k] = e[i];
        }
        UNROLL
        for (int i = 0; i < MEGA_FORMULA_STATES; i++)
            if (i < written) store_eight(a->state[i], MEGA_F32, p.at, p.left, s[i]);
        if (!writes) continue;
        store_eight(a->p, MEGA_F32, p.at, p.left, x);
        if (a->weight != NULL) store_eight(a->weight, t, p.at, p.left, x);
    }
}

#define FORMULA_KERNELS(name, writes, states, written, from)                      \
    BODY void name##_run(const mega_formula_args *a, mega_dtype t)                \
    {                                                                             \
        formula_run(formula_##name, writes, states, written, from, a, t);         \
    }                                                                             \
    KERNELS_BY_TYPE(name, mega_formula_args, EIGHT_THREADS)
MEGA_FORMULAS(FORMULA_KERNELS)
