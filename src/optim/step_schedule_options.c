/* The options of DeepSpeed's schedules: the block "scheduler" of its JSON, and the options of its tuning arguments. */
#include "megalith/optim_options.h"
#include <math.h>

#define ROW(name_, member_, kind_)                                                                                \
    .name = (name_), .dest = #member_, .field = offsetof(mega_optim_options, scheduler.member_), .kind = (kind_), \
    .answer = MEGA_ANSWER_WORKS, .resume = MEGA_RESUME_SCHEDULE, .json = "scheduler.params." #member_
#define STEPS .most = (int64_t)1 << 40

// clang-format off
static const mega_option_row scheduler_rows[] = {
    {.name = "deepspeed-schedule", .dest = "deepspeed_schedule", .field = offsetof(mega_optim_options, scheduler.kind), .kind = MEGA_OPTION_CHOICE, .answer = MEGA_ANSWER_WORKS, .resume = MEGA_RESUME_SCHEDULE, .json = "scheduler.type", .fallback = "none", .choices = "none|WarmupLR|WarmupDecayLR|WarmupCosineLR|OneCycle|LRRangeTest", .not_implemented = "LambdaLR|StepLR|MultiStepLR|ConstantLR|LinearLR|ExponentialLR|PolynomialLR|CosineAnnealingLR|CosineAnnealingWarmRestarts|CyclicLR|OneCycleLR|ReduceLROnPlateau", .help = "a schedule of DeepSpeed, which counts optimizer steps, instead of the curve of --lr-decay-style"},
    {ROW("warmup-min-lr", warmup_min_lr, MEGA_OPTION_FLOAT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "WarmupLR, WarmupDecayLR: learning rate of the first step"},
    {ROW("warmup-max-lr", warmup_max_lr, MEGA_OPTION_FLOAT), .range = MEGA_RANGE_NOT_NEGATIVE, .help = "WarmupLR, WarmupDecayLR: learning rate after the warm-up; when not given, --lr with WarmupLR and 0.001 with WarmupDecayLR, as in DeepSpeed"},
    {ROW("warmup-num-steps", warmup_num_steps, MEGA_OPTION_INT), .fallback = "1000", .range = MEGA_RANGE_POSITIVE, STEPS, .help = "WarmupLR, WarmupDecayLR, WarmupCosineLR: steps of warm-up; 1 counts as 2"},
    {ROW("warmup-type", warmup_type, MEGA_OPTION_CHOICE), .fallback = "log", .choices = "log|linear", .help = "WarmupLR, WarmupDecayLR, WarmupCosineLR: the curve of the warm-up"},
    {ROW("total-num-steps", total_num_steps, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, STEPS, .help = "WarmupDecayLR, WarmupCosineLR: step at which the curve ends; --train-iters when not given"},
    {ROW("warmup-min-ratio", warmup_min_ratio, MEGA_OPTION_FLOAT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "WarmupCosineLR: start of the warm-up as a part of --lr"},
    {ROW("cos-min-ratio", cos_min_ratio, MEGA_OPTION_FLOAT), .fallback = "1e-4", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "WarmupCosineLR: end of the cosine as a part of --lr"},
    {ROW("cycle-min-lr", cycle_min_lr, MEGA_OPTION_FLOAT), .range = MEGA_RANGE_NOT_NEGATIVE, .help = "OneCycle: learning rate at the start and the end of the cycle"},
    {ROW("cycle-max-lr", cycle_max_lr, MEGA_OPTION_FLOAT), .range = MEGA_RANGE_NOT_NEGATIVE, .help = "OneCycle: learning rate at the top of the cycle"},
    {ROW("cycle-first-step-size", cycle_first_step_size, MEGA_OPTION_INT), .fallback = "2000", .range = MEGA_RANGE_POSITIVE, STEPS, .help = "OneCycle: steps in which the rate rises"},
    {ROW("cycle-second-step-size", cycle_second_step_size, MEGA_OPTION_INT), .fallback = "-1", STEPS, .help = "OneCycle: steps in which the rate falls; -1: as many as it rises"},
    {ROW("cycle-first-stair-count", cycle_first_stair_count, MEGA_OPTION_INT), .fallback = "0", STEPS, .help = "OneCycle: the rate rises in this many stairs; 0: at every step"},
    {ROW("cycle-second-stair-count", cycle_second_stair_count, MEGA_OPTION_INT), .fallback = "-1", STEPS, .help = "OneCycle: the same of the fall; -1: as many as in the rise"},
    {ROW("decay-step-size", decay_step_size, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, STEPS, .help = "OneCycle: steps of one interval of the decay after the cycle; 0: no decay"},
    {ROW("decay-lr-rate", decay_lr_rate, MEGA_OPTION_FLOAT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "OneCycle: after n intervals the rate is --cycle-min-lr / (1 + this x n)"},
    {ROW("no-cycle-momentum", cycle_momentum, MEGA_OPTION_OFF), .help = "OneCycle: leave Adam's betas alone; otherwise the first falls while the rate rises, and the second is 0.99"},
    {ROW("cycle-min-mom", cycle_min_mom, MEGA_OPTION_FLOAT), .fallback = "0.8", .range = MEGA_RANGE_BELOW_ONE, .help = "OneCycle: first beta at the top of the cycle"},
    {ROW("cycle-max-mom", cycle_max_mom, MEGA_OPTION_FLOAT), .fallback = "0.9", .range = MEGA_RANGE_BELOW_ONE, .help = "OneCycle: first beta at the start and the end of the cycle"},
    {ROW("decay-mom-rate", decay_mom_rate, MEGA_OPTION_FLOAT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "OneCycle: after n intervals the first beta is --cycle-max-mom x (1 + this x n)"},
    {ROW("lr-range-test-min-lr", lr_range_test_min_lr, MEGA_OPTION_FLOAT), .fallback = "1e-3", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "LRRangeTest: learning rate of the first step"},
    {ROW("lr-range-test-step-size", lr_range_test_step_size, MEGA_OPTION_INT), .fallback = "2000", .range = MEGA_RANGE_POSITIVE, STEPS, .help = "LRRangeTest: steps in which the rate grows by --lr-range-test-step-rate times its start"},
    {ROW("lr-range-test-step-rate", lr_range_test_step_rate, MEGA_OPTION_FLOAT), .fallback = "1.0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "LRRangeTest: growth, see above"},
    {ROW("lr-range-test-staircase", lr_range_test_staircase, MEGA_OPTION_FLAG), .help = "LRRangeTest: grow once in those steps instead of at every step"},
};
const mega_option_section mega_optim_scheduler_section = MEGA_SECTION("learning rate by DeepSpeed's schedules", scheduler_rows);
// clang-format on

void mega_step_schedule_from_options(const mega_optim_options *o, mega_step_schedule *out)
{
    mega_step_schedule s = {.kind = MEGA_SCHEDULER_NONE};
    if (o->scheduler.kind != MEGA_SCHEDULER_NONE) {
        s = o->scheduler;
        s.lr = o->lr;
        if (isnan(s.warmup_max_lr)) s.warmup_max_lr = o->lr;
        if (!mega_optimizer_kind_has_betas(o->optimizer)) s.cycle_momentum = false; /* as in DeepSpeed */
    }
    *out = s;
}
