/* Which layers of the model are recomputed in the backward: those of the model, those that the options ask for, or as
 * few as a budget of memory leaves. A budget is met by plans: engines of one rank that are built, measured and
 * destroyed before anything is allocated. */
#include "engine_build.h"
#include "megalith/memory.h"
#include <stdio.h>

void engine_override_recompute(const mega_engine_options *o, mega_model *m)
{
    const mega_recompute_options *r = &o->recompute;
    if (r->replaces) {
        m->recompute_interval = r->interval;
        m->recompute_regions = r->regions;
    }
    m->distribute_saved = m->distribute_saved || r->distribute;
}

/* What a rank needs for the values that its programs compute. */
typedef struct planned {
    size_t saved, scratch;
} planned;

/* Local. Plans this rank's engine with another level of recomputation and other micro-batches. */
static mega_status plan_level(const mega_engine *e, const mega_model *model, int level, int64_t micro_batch,
                              planned *out)
{
    mega_engine_memory m = {0};
    mega_engine *p = mega_calloc(1, sizeof *p);
    if (p == NULL) return MEGA_NO_MEMORY("engine", "its record");
    p->options = e->options;
    p->options.world = NULL;
    p->options.monitor = NULL;
    p->options.layout.planned_ranks = e->layout->world.size;
    p->options.layout.planned_rank = e->layout->world.rank;
    p->options.micro_batch = micro_batch;
    p->options.batch.micro_step = micro_batch * e->layout->dp.size;
    p->programs.is_level_set = true;
    p->programs.level = level;
    const mega_status st = engine_build(p, model);
    if (st == MEGA_OK) engine_chunks_memory(p, &m);
    mega_engine_destroy(p);
    *out = (planned){m.saved, m.scratch};
    return st;
}

/* The search for the lowest level that fits. */
typedef struct budget_search {
    const mega_engine *e;
    const mega_model *model;
    planned first, least; /* without recomputation; the smallest so far */
} budget_search;

static size_t planned_with_recomputation(const planned *p)
{
    return p->saved + p->scratch;
}

static mega_status level_fits(budget_search *s, int level, bool *out)
{
    planned p;
    MEGA_TRY(plan_level(s->e, s->model, level, s->e->options.micro_batch, &p));
    if (level == 0) s->first = s->least = p;
    if (planned_with_recomputation(&p) < planned_with_recomputation(&s->least)) s->least = p;
    *out = planned_with_recomputation(&p) <= (size_t)s->e->options.recompute.budget;
    return MEGA_OK;
}

/* Sets *out to the smallest number of layers, each in a region of its own, that fits; to layers + 1 if none does. */
static mega_status search_layers(budget_search *s, int layers, int *out)
{
    int low = 0;
    for (*out = layers + 1; low + 1 < *out;) {
        const int middle = low + (*out - low) / 2;
        bool fits;
        MEGA_TRY(level_fits(s, middle, &fits));
        *(fits ? out : &low) = middle;
    }
    return MEGA_OK;
}

/* Sets *out to the first level from `from` on that fits; to the number of levels if none does. Levels with as many
 * regions as the one before are left out: they keep as much. */
static mega_status search_groups(budget_search *s, mega_model_parts *parts, int from, int *out)
{
    const int levels = mega_model_parts_levels(parts);
    int layers, regions, before = 0;
    for (*out = from; *out < levels; ++*out) {
        bool fits = false;
        MEGA_TRY(mega_model_parts_set_level(parts, *out));
        mega_model_parts_regions(parts, &layers, &regions);
        if (regions != before) MEGA_TRY(level_fits(s, *out, &fits));
        before = regions;
        if (fits) break;
    }
    return MEGA_OK;
}

/* Returns the largest smaller micro-batch, a half or a quarter …, with which some level fits; 0: none. */
static int64_t smaller_micro_batch(const budget_search *s)
{
    const int64_t now = s->e->options.micro_batch;
    const int last = mega_model_parts_levels(s->e->model.parts) - 1;
    for (int64_t micro = now / 2; micro >= 1 && now % micro == 0; micro /= 2)
        for (int level = last > 0 ? (last + 1) / 2 : 0; level <= last; level++) {
            planned p;
            if (plan_level(s->e, s->model, level, micro, &p) != MEGA_OK) return 0;
            if (planned_with_recomputation(&p) <= (size_t)s->e->options.recompute.budget) return micro;
        }
    return 0;
}

static mega_status refuse_budget(const budget_search *s)
{
    char smaller[64] = "a smaller --micro-batch-size or a shorter sequence";
    const int layers = mega_model_parts_levels(s->e->model.parts) / 2;
    const int64_t micro = smaller_micro_batch(s);
    if (micro > 0) snprintf(smaller, sizeof smaller, "--micro-batch-size %lld", (long long)micro);
    return MEGA_FAIL(MEGA_ERR_MEMORY,
                     "--activation-budget %lld: rank %d needs %.4g MB for what it computes (%.4g MB saved for the "
                     "backward, %.4g MB scratch) even if all of its %d layers that can be are recomputed, and %.4g MB "
                     "without recomputation; give --activation-budget %zu or more, or %s",
                     (long long)s->e->options.recompute.budget, s->e->layout->world.rank,
                     (double)planned_with_recomputation(&s->least) * 1e-6, (double)s->least.saved * 1e-6,
                     (double)s->least.scratch * 1e-6, layers, (double)planned_with_recomputation(&s->first) * 1e-6,
                     planned_with_recomputation(&s->least), smaller);
}

/* Local. */
static mega_status search_budget(const mega_engine *e, const mega_model *model, int32_t *out)
{
    budget_search s = {.e = e, .model = model};
    const int levels = mega_model_parts_levels(e->model.parts), layers = levels / 2;
    int level = 0;
    bool fits;
    MEGA_TRY(level_fits(&s, 0, &fits));
    if (!fits) MEGA_TRY(search_layers(&s, layers, &level));
    if (level > layers) MEGA_TRY(search_groups(&s, e->model.parts, layers + 1, &level));
    if (!fits && level >= levels) return refuse_budget(&s);
    *out = level;
    return MEGA_OK;
}

/* Ranks of one stage issue the same collectives in their backward, so they recompute the same layers: all take the
 * highest level that one of them needs. */
static mega_status agree_on_level(const mega_engine *e, int32_t *level)
{
    const mega_axis *const axis[] = {&e->layout->tp, &e->layout->dp};
    for (int i = 0; i < 2; i++)
        if (mega_axis_has_others(axis[i]))
            MEGA_TRY(mega_comm_all_reduce(axis[i]->comm, "recomputed layers", level, 1, MEGA_I32, MEGA_REDUCE_MAX));
    return MEGA_OK;
}

mega_status engine_choose_regions(mega_engine *e, const mega_model *model)
{
    const bool is_plan = e->options.world == NULL || e->options.layout.planned_ranks > 0;
    int32_t level = 0;
    if (e->programs.is_level_set) return mega_model_parts_set_level(e->model.parts, e->programs.level);
    if (e->options.recompute.budget == 0 || e->options.no_train) return MEGA_OK;
    mega_status st = search_budget(e, model, &level);
    if (!is_plan) st = mega_comm_agree(mega_world_comm(e->options.world), st);
    if (st == MEGA_OK && !is_plan) st = agree_on_level(e, &level);
    return st == MEGA_OK ? mega_model_parts_set_level(e->model.parts, level) : st;
}
