/* Optimizers that update each element by itself (optimizer_formulas.h); the threads share the elements. The loops are
 * bound by memory and are the same for all instruction sets. */
#include "cpu/share.h"
#include <math.h>

#define ALWAYS        static inline __attribute__((always_inline))
#define REAL          float
#define SQRT(x)       sqrtf(x)
#define DIVIDE(x, y)  ((x) / (y))
#define FORMULA(name) ALWAYS void cpu_formula_##name(float *p, float *s, float g, const float *n)
#include "megalith/optimizer_formulas.h"

typedef void cpu_formula(float *p, float *s, float g, const float *n);

/* Elements that a thread claims, updates and rounds at a time: 4 kB of floats (bench_optimizer). */
#define FORMULA_GRAIN 1024

/* All but the last three arguments are constants, so that this is a loop over one formula. */
ALWAYS void formula_range(cpu_formula *f, bool writes, int states, int written, int from, const mega_formula_args *a,
                          int64_t begin, int64_t end)
{
    float n[MEGA_FORMULA_NUMBERS];
    for (int k = 0; k < MEGA_FORMULA_NUMBERS; k++) n[k] = (float)a->number[k];
    n[1] = (float)(a->number[1] * a->times);
    if (a->scale != NULL) n[0] = (float)(a->number[0] * *a->scale);
    const float factor = (float)MEGA_UPDATE_FACTOR(a);
    float *restrict p = a->p, *restrict s0 = a->state[0], *restrict s1 = a->state[1], *restrict s2 = a->state[2];
    const float *restrict g = a->g;
    for (int64_t i = begin; i < end; i++) {
        float x = p[i], s[3] = {states > 0 ? s0[i] : 0, states > 1 ? s1[i] : 0, states > 2 ? s2[i] : 0};
        const float in = from == MEGA_FORMULA_NONE       ? 0
                         : from == MEGA_FORMULA_AS_IS    ? g[i]
                         : from == MEGA_FORMULA_IN_STATE ? s[states - 1] * factor
                                                         : g[i] * factor;
        f(&x, s, in, n);
        if (writes) p[i] = x;
        if (written > 0) s0[i] = s[0];
        if (written > 1) s1[i] = s[1];
        if (written > 2) s2[i] = s[2];
    }
    if (writes && a->weight != NULL) block_put(a->weight, a->head.dtype, begin, end - begin, p + begin);
}

#define KERNEL(name_, writes, states, written, from)                                                          \
    static void cpu_##name_##_work(void *user, int thread, int64_t begin, int64_t end)                        \
    {                                                                                                         \
        const mega_formula_args *a = ((const cpu_job *)user)->args;                                           \
        (void)thread;                                                                                         \
        for (int64_t i = begin; i < end; i += FORMULA_GRAIN) /* rounded while it is still in the cache */     \
            formula_range(cpu_formula_##name_, writes, states, written, from, a, i,                           \
                          end - i < FORMULA_GRAIN ? end : i + FORMULA_GRAIN);                                 \
    }                                                                                                         \
    static void cpu_##name_##_run(const mega_queue *queue, const void *args)                                  \
    {                                                                                                         \
        const mega_formula_args *a = args;                                                                    \
        if (MEGA_UPDATE_IS_REFUSED(a->block)) return;                                                         \
        if (a->head.dtype == MEGA_F64) mega_plain_##name_.run(queue, args);                                   \
        else                                                                                                  \
            cpu_job_run(mega_queue_team(queue), cpu_##name_##_work, args, a->count, FORMULA_GRAIN, a->count); \
    }                                                                                                         \
    const mega_kernel mega_cpu_##name_ = {.name = #name_, .run = cpu_##name_##_run};
MEGA_FORMULAS(KERNEL)
