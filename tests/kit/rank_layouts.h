/* For the programs of tests/ranks that train one small model in several layouts and compare losses, in float64. */
#ifndef MEGALITH_TESTS_RANK_LAYOUTS_H
#define MEGALITH_TESTS_RANK_LAYOUTS_H

#include "engine_run.h"
#include "rank.h"
#include <math.h>

typedef struct layout {
    const char *name;
    int tp, pp, zero;
    bool is_alone; /* each rank trains on its own */
} layout;

typedef struct outcome {
    double loss, norm, value[MEGA_METRICS];
} outcome;

static inline mega_engine *rank_open_engine(mega_world *world, const layout *l, const mega_model *model,
                                            mega_backend_kind backend, int64_t batch, double lr)
{
    mega_engine *e = NULL;
    mega_engine_options o = engine_run_options(batch, 1, lr);
    o.compute = MEGA_F64;
    o.backend = backend;
    o.world = l->is_alone ? NULL : world;
    o.layout = (mega_layout_sizes){.tp = l->tp, .pp = l->pp};
    o.batch.micro_step = l->is_alone ? 1 : mega_world_size(world) / l->tp / l->pp;
    o.zero_stage = l->zero;
    o.clip_grad = 0;
    o.optimizer = (mega_optimizer_options){.kind = MEGA_OPTIMIZER_SGD};
    need(mega_engine_create(&(mega_setup){.model = model, .options = &o}, &e));
    need(mega_engine_allocate(e));
    need(mega_engine_compare_ranks(e));
    need(mega_engine_initialize(e, 11));
    return e;
}

/* Returns 1, and prints both, unless a number is the expected one but for rounding; else 0. */
static inline int rank_number_differs(const layout *l, int step, const char *what, double found, double expected)
{
    if (fabs(found - expected) <= 1e-12 * fabs(expected)) return 0;
    fprintf(stderr, "%s, step %d: %s is %.17g, expected %.17g\n", l->name, step, what, found, expected);
    return 1;
}

#endif
