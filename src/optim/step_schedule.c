/* DeepSpeed's learning-rate schedules (deepspeed/runtime/lr_schedules.py). They count updates: the first update has the
 * rate that the schedule sets when it is created, every later one that of a step of the schedule after the update
 * before. In the formulas t is DeepSpeed's last_batch_iteration: -1 at the first update. */
#include "megalith/schedule.h"
#include <float.h>
#include <math.h>

#define PI         3.14159265358979323846
#define FIXED_BETA 0.99 /* DeepSpeed's second beta while it cycles the first */

const char *mega_scheduler_name(mega_scheduler_kind kind)
{
    static const char *const name[] = {[MEGA_SCHEDULER_NONE] = "none",
                                       [MEGA_SCHEDULER_WARMUP] = "WarmupLR",
                                       [MEGA_SCHEDULER_WARMUP_DECAY] = "WarmupDecayLR",
                                       [MEGA_SCHEDULER_WARMUP_COSINE] = "WarmupCosineLR",
                                       [MEGA_SCHEDULER_ONE_CYCLE] = "OneCycle",
                                       [MEGA_SCHEDULER_RANGE_TEST] = "LRRangeTest"};
    return (size_t)kind < sizeof name / sizeof *name ? name[kind] : "unknown";
}

const char *mega_warmup_type_name(mega_warmup_type type)
{
    return type == MEGA_WARMUP_LOG ? "log" : type == MEGA_WARMUP_LINEAR ? "linear" : "unknown";
}

/* ---- the parameters ---- */

#define OF(kind) (1U << MEGA_SCHEDULER_##kind)
#define WARMUPS  (OF(WARMUP) | OF(WARMUP_DECAY) | OF(WARMUP_COSINE))
#define PARAM(name, kind, read_by)                                                \
    {                                                                             \
#name, offsetof(mega_step_schedule, name), MEGA_SCHEDULER_##kind, read_by \
    }

static const mega_scheduler_param params[] = {
    PARAM(lr, REAL, OF(WARMUP_COSINE)),
    PARAM(warmup_min_lr, REAL, OF(WARMUP) | OF(WARMUP_DECAY)),
    PARAM(warmup_max_lr, REAL, OF(WARMUP) | OF(WARMUP_DECAY)),
    PARAM(warmup_num_steps, COUNTS, WARMUPS),
    PARAM(warmup_type, WARMUP_KIND, WARMUPS),
    PARAM(total_num_steps, COUNTS, OF(WARMUP_DECAY) | OF(WARMUP_COSINE)),
    PARAM(warmup_min_ratio, REAL, OF(WARMUP_COSINE)),
    PARAM(cos_min_ratio, REAL, OF(WARMUP_COSINE)),
    PARAM(cycle_min_lr, REAL, OF(ONE_CYCLE)),
    PARAM(cycle_max_lr, REAL, OF(ONE_CYCLE)),
    PARAM(decay_lr_rate, REAL, OF(ONE_CYCLE)),
    PARAM(cycle_first_step_size, COUNTS, OF(ONE_CYCLE)),
    PARAM(cycle_second_step_size, COUNTS, OF(ONE_CYCLE)),
    PARAM(cycle_first_stair_count, COUNTS, OF(ONE_CYCLE)),
    PARAM(cycle_second_stair_count, COUNTS, OF(ONE_CYCLE)),
    PARAM(decay_step_size, COUNTS, OF(ONE_CYCLE)),
    PARAM(cycle_momentum, SWITCH, OF(ONE_CYCLE)),
    PARAM(cycle_min_mom, REAL, OF(ONE_CYCLE)),
    PARAM(cycle_max_mom, REAL, OF(ONE_CYCLE)),
    PARAM(decay_mom_rate, REAL, OF(ONE_CYCLE)),
    PARAM(lr_range_test_min_lr, REAL, OF(RANGE_TEST)),
    PARAM(lr_range_test_step_size, COUNTS, OF(RANGE_TEST)),
    PARAM(lr_range_test_step_rate, REAL, OF(RANGE_TEST)),
    PARAM(lr_range_test_staircase, SWITCH, OF(RANGE_TEST)),
};

const mega_scheduler_param *mega_scheduler_param_at(size_t i)
{
    return i < sizeof params / sizeof *params ? &params[i] : NULL;
}

double mega_scheduler_param_get(const mega_step_schedule *s, const mega_scheduler_param *p)
{
    const void *at = (const char *)s + p->offset;
    switch (p->kind) {
    case MEGA_SCHEDULER_COUNTS: return (double)*(const int64_t *)at;
    case MEGA_SCHEDULER_SWITCH: return *(const bool *)at;
    case MEGA_SCHEDULER_WARMUP_KIND: return *(const mega_warmup_type *)at;
    default: return *(const double *)at;
    }
}

void mega_scheduler_param_set(mega_step_schedule *s, const mega_scheduler_param *p, double value)
{
    void *at = (char *)s + p->offset;
    switch (p->kind) {
    case MEGA_SCHEDULER_COUNTS: *(int64_t *)at = (int64_t)value; break;
    case MEGA_SCHEDULER_SWITCH: *(bool *)at = value != 0; break;
    case MEGA_SCHEDULER_WARMUP_KIND: *(mega_warmup_type *)at = (mega_warmup_type)value; break;
    default: *(double *)at = value;
    }
}

/* The least value of a parameter: sizes that divide must be positive, and -1 means "as the first half". */
static double least_of(const mega_step_schedule *s, const mega_scheduler_param *p)
{
    const void *at = (const char *)s + p->offset;
    if (at == &s->warmup_num_steps || at == &s->total_num_steps || at == &s->cycle_first_step_size ||
        at == &s->lr_range_test_step_size)
        return 1;
    return at == &s->cycle_second_step_size || at == &s->cycle_second_stair_count || at == &s->cycle_first_stair_count
               ? -1
               : 0;
}

mega_status mega_step_schedule_check(const mega_step_schedule *s)
{
    if ((unsigned)s->kind >= MEGA_SCHEDULER_COUNT)
        return MEGA_MISTAKE("schedule.kind %d: no schedule; expected 0 to %d", (int)s->kind, MEGA_SCHEDULER_COUNT - 1);
    if ((unsigned)s->warmup_type >= MEGA_WARMUP_TYPE_COUNT)
        return MEGA_MISTAKE("schedule.warmup_type %d: no type of warm-up; expected 0 (log) or 1 (linear)",
                            (int)s->warmup_type);
    for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
        const double value = mega_scheduler_param_get(s, &params[i]), least = least_of(s, &params[i]);
        if ((params[i].read_by & 1U << s->kind) == 0 || (value >= least && value <= FLT_MAX)) continue;
        return MEGA_MISTAKE("schedule.%s %g; %s expects a finite number of at least %g that a float holds",
                            params[i].name, value, mega_scheduler_name(s->kind), least);
    }
    if (s->kind == MEGA_SCHEDULER_ONE_CYCLE && s->cycle_momentum && !(s->cycle_min_mom < 1 && s->cycle_max_mom < 1))
        return MEGA_MISTAKE("schedule.cycle_min_mom %g, cycle_max_mom %g; expected momenta below 1", s->cycle_min_mom,
                            s->cycle_max_mom);
    return MEGA_OK;
}

/* ---- the curves ---- */

/* The part of the warm-up that is done; called for t below the number of its steps, which is at least 2. */
static double warmed(const mega_step_schedule *s, double t, double steps)
{
    return s->warmup_type == MEGA_WARMUP_LINEAR ? t / steps : 1.0 / log(steps) * log(t + 1);
}

static double warmup_lr(const mega_step_schedule *s, double t)
{
    const double steps = fmax(2, (double)s->warmup_num_steps), total = (double)s->total_num_steps;
    double done = 1;
    if (t < 0) return s->warmup_min_lr;
    if (t < steps) done = warmed(s, t, steps);
    else if (s->kind == MEGA_SCHEDULER_WARMUP_DECAY)
        done = fmax(0, (total - t) / fmax(1, total - steps));
    return s->warmup_min_lr + (s->warmup_max_lr - s->warmup_min_lr) * done;
}

static double cosine_lr(const mega_step_schedule *s, double t)
{
    const double steps = fmax(2, (double)s->warmup_num_steps), total = (double)s->total_num_steps;
    double ratio;
    if (t < 0) return 0;
    if (t < steps) {
        ratio = s->warmup_min_ratio + warmed(s, t, steps) * (1 - s->warmup_min_ratio);
    } else {
        const double done = fmin(1, (t - steps + 1) / fmax(1, total - steps));
        ratio = fmax(0, s->cos_min_ratio + (1 - s->cos_min_ratio) * (1 + cos(PI * done)) / 2);
    }
    return s->lr * ratio;
}

static double range_test_lr(const mega_step_schedule *s, double t)
{
    const double x = (t + 1) / (double)s->lr_range_test_step_size;
    return s->lr_range_test_min_lr * (1 + s->lr_range_test_step_rate * (s->lr_range_test_staircase ? floor(x) : x));
}

/* ---- one cycle ---- */

typedef struct cycle_shape {
    double first, second, total; /* updates */
} cycle_shape;

static cycle_shape cycle_of(const mega_step_schedule *s)
{
    const double first = (double)s->cycle_first_step_size;
    const double second = s->cycle_second_step_size < 0 ? first : (double)s->cycle_second_step_size;
    return (cycle_shape){first, second, first + second};
}

/* The height in the cycle: 0 at the least rate, 1 at the greatest. */
static double cycle_height(const mega_step_schedule *s, double t)
{
    const cycle_shape c = cycle_of(s);
    const double b = t + 1, ratio = c.first / c.total, x = 1 + b / c.total - floor(1 + b / c.total);
    const bool rises = x <= ratio;
    const int64_t second = s->cycle_second_stair_count < 0 ? s->cycle_first_stair_count : s->cycle_second_stair_count;
    const double stairs = (double)(rises ? s->cycle_first_stair_count : second);
    if (stairs <= 0) return rises ? x / ratio : (x - 1) / (ratio - 1);
    const double at = fmod(b, c.total); /* whole: x may be a rounding below the stair that it reaches */
    return floor(at <= c.first ? at * stairs / c.first : (c.total - at) * stairs / c.second) / stairs;
}

/* The steps of the decay after the cycle; 0 without a decay. */
static double decay_intervals(const mega_step_schedule *s, double t)
{
    return s->decay_step_size > 0 ? (t - cycle_of(s).total + 1) / (double)s->decay_step_size : 0;
}

static double one_cycle_lr(const mega_step_schedule *s, double t)
{
    if (t < 0) return s->cycle_min_lr;
    if (t < cycle_of(s).total) return s->cycle_min_lr + (s->cycle_max_lr - s->cycle_min_lr) * cycle_height(s, t);
    return s->cycle_min_lr / (1 + s->decay_lr_rate * decay_intervals(s, t));
}

bool mega_step_schedule_betas(const mega_step_schedule *s, int64_t updates, double *out_beta1, double *out_beta2)
{
    const double t = (double)updates - 1;
    if (s->kind != MEGA_SCHEDULER_ONE_CYCLE || !s->cycle_momentum) return false;
    *out_beta2 = FIXED_BETA;
    if (t < 0) *out_beta1 = s->cycle_min_mom;
    else if (t < cycle_of(s).total)
        *out_beta1 = s->cycle_max_mom - (s->cycle_max_mom - s->cycle_min_mom) * cycle_height(s, t);
    else
        *out_beta1 = s->cycle_max_mom * (1 + s->decay_mom_rate * decay_intervals(s, t));
    return true;
}

double mega_step_schedule_lr(const mega_step_schedule *s, int64_t updates)
{
    const double t = (double)updates - 1;
    switch (s->kind) {
    case MEGA_SCHEDULER_WARMUP_COSINE: return cosine_lr(s, t);
    case MEGA_SCHEDULER_ONE_CYCLE: return one_cycle_lr(s, t);
    case MEGA_SCHEDULER_RANGE_TEST: return range_test_lr(s, t);
    default: return warmup_lr(s, t);
    }
}
