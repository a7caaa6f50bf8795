/* Rules for DeepSpeed's schedules: which parameters each takes, needs and allows. */
#include "megalith/engine_settings.h"
#include <float.h>
#include <math.h>
#include <string.h>

static bool is_param_given(const mega_engine_settings *s, const mega_scheduler_param *p)
{
    return strcmp(p->name, "lr") != 0 && mega_options_is_given(s->options, p->name);
}

/* DeepSpeed refuses a parameter that the schedule does not have; without a schedule it would do nothing. */
static void check_params_belong(mega_engine_settings *s)
{
    const mega_scheduler_kind kind = s->optim.scheduler.kind;
    const mega_scheduler_param *p;
    for (size_t i = 0; (p = mega_scheduler_param_at(i)) != NULL; i++) {
        if (!is_param_given(s, p) || (p->read_by & 1U << kind) != 0) continue;
        if (kind == MEGA_SCHEDULER_NONE)
            mega_options_mistake(s->options, "%s: it belongs to a schedule of DeepSpeed; give %s too",
                                 mega_options_origin(s->options, p->name),
                                 mega_options_spelling(s->options, "deepspeed_schedule"));
        else
            mega_options_mistake(s->options, "%s: %s has no such parameter; leave it out",
                                 mega_options_origin(s->options, p->name),
                                 mega_options_origin(s->options, "deepspeed_schedule"));
    }
}

static void check_is_there(mega_engine_settings *s, const char *dest, bool is_there)
{
    if (!is_there && !mega_options_is_given(s->options, dest) && !mega_options_may_be_in_json(s->options))
        mega_options_mistake(s->options, "missing: %s, which %s needs", mega_options_spelling(s->options, dest),
                             mega_options_origin(s->options, "deepspeed_schedule"));
}

static void check_not_below(mega_engine_settings *s, const char *dest, int64_t value)
{
    if (value < -1) mega_options_mistake(s->options, "%s: expected at least -1", mega_options_origin(s->options, dest));
}

/* The first beta of OneCycle may grow after the cycle; Adam needs it below 1 in every step. */
static void check_momentum(mega_engine_settings *s, const mega_step_schedule *c)
{
    double beta1 = 0, beta2;
    const int64_t last = s->optim.train_iters - 1;
    if (c->cycle_momentum && !mega_optimizer_kind_has_betas(s->optim.optimizer)) {
        if (mega_options_says(s->options, "cycle_momentum", MEGA_SET_BY_JSON))
            mega_options_warn(s->options, "%s has no effect with %s, which has no betas",
                              mega_options_origin(s->options, "cycle_momentum"),
                              mega_options_origin(s->options, "optimizer"));
        return;
    }
    if (last < 0 || !mega_step_schedule_betas(c, last, &beta1, &beta2) || beta1 < 1) return;
    mega_options_mistake(s->options,
                         "%s: the momentum grows after the cycle to %g at the last step; it must stay below 1",
                         mega_options_origin(s->options, "decay_mom_rate"), beta1);
}

static void check_one_cycle(mega_engine_settings *s, const mega_step_schedule *c)
{
    check_is_there(s, "cycle_min_lr", !isnan(c->cycle_min_lr));
    check_is_there(s, "cycle_max_lr", !isnan(c->cycle_max_lr));
    check_not_below(s, "cycle_second_step_size", c->cycle_second_step_size);
    check_not_below(s, "cycle_first_stair_count", c->cycle_first_stair_count);
    check_not_below(s, "cycle_second_stair_count", c->cycle_second_stair_count);
    if (c->cycle_first_step_size > 0) check_momentum(s, c);
}

static void check_total(mega_engine_settings *s, const mega_step_schedule *c)
{
    check_is_there(s, "total_num_steps", c->total_num_steps > 0 || s->length_follows);
    if (c->total_num_steps > 0 && c->total_num_steps < c->warmup_num_steps)
        mega_options_warn(s->options, "%s is less than %s: the rate never reaches the end of its warm-up",
                          mega_options_origin(s->options, "total_num_steps"),
                          mega_options_origin(s->options, "warmup_num_steps"));
}

/* Megatron's options of the curve, which the schedule replaces. */
static void warn_of_replaced(mega_engine_settings *s)
{
    static const char *const replaced[] = {"lr_decay_style",     "lr_decay_iters",     "lr_decay_samples",
                                           "lr_wsd_decay_style", "lr_wsd_decay_iters", "lr_wsd_decay_samples",
                                           "lr_warmup_samples",  "lr_warmup_init",     "min_lr",
                                           "lr_warmup_iters",    "lr_warmup_fraction"};
    const size_t read = mega_options_is_auto(s->options, "warmup_num_steps") ? 2 : 0; /* the last two give its value */
    for (size_t i = 0; i + read < MEGA_COUNT(replaced); i++)
        if (mega_options_is_given(s->options, replaced[i]))
            mega_options_warn(s->options, "%s counts; %s does not",
                              mega_options_origin(s->options, "deepspeed_schedule"),
                              mega_options_origin(s->options, replaced[i]));
}

/* The rate of a range test has no end. */
static void check_range_test(mega_engine_settings *s, const mega_step_schedule *c)
{
    const int64_t last = s->optim.train_iters - 1;
    if (last < 0 || c->lr_range_test_step_size <= 0 || mega_step_schedule_lr(c, last) <= FLT_MAX) return;
    mega_options_mistake(
        s->options, "%s: the rate grows to %g at the last step; expected at most %g, which a 32-bit float holds",
        mega_options_origin(s->options, "lr_range_test_step_rate"), mega_step_schedule_lr(c, last), (double)FLT_MAX);
}

void mega_engine_rule_scheduler(mega_engine_settings *s)
{
    const mega_step_schedule *c = &s->optim.scheduler;
    check_params_belong(s);
    if (c->kind == MEGA_SCHEDULER_NONE) return;
    warn_of_replaced(s);
    if (c->kind == MEGA_SCHEDULER_ONE_CYCLE) check_one_cycle(s, c);
    if (c->kind == MEGA_SCHEDULER_RANGE_TEST) check_range_test(s, c);
    if (c->kind == MEGA_SCHEDULER_WARMUP_DECAY || c->kind == MEGA_SCHEDULER_WARMUP_COSINE) check_total(s, c);
}
