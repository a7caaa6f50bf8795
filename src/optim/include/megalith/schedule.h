/* What changes over a training as a pure function of the position: learning rate, weight decay, batch size.
 *
 * Megatron's schedules count samples, so that a change of batch size moves no curve; DeepSpeed's count updates. */
#ifndef MEGALITH_SCHEDULE_H
#define MEGALITH_SCHEDULE_H

#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mega_weight_decay_style { MEGA_WD_CONSTANT, MEGA_WD_LINEAR, MEGA_WD_COSINE } mega_weight_decay_style;
typedef enum mega_lr_style {
    MEGA_LR_CONSTANT,
    MEGA_LR_LINEAR,
    MEGA_LR_COSINE,
    MEGA_LR_INVERSE_SQUARE_ROOT,
    MEGA_LR_WSD,
    MEGA_LR_EXPONENTIAL,
    MEGA_LR_STYLE_COUNT
} mega_lr_style;
typedef enum mega_lr_wsd_style {
    MEGA_LR_WSD_EXPONENTIAL,
    MEGA_LR_WSD_LINEAR,
    MEGA_LR_WSD_COSINE,
    MEGA_LR_WSD_MINUS_SQRT,
    MEGA_LR_WSD_STYLE_COUNT
} mega_lr_wsd_style;

/* Learning rate and weight decay after n samples. warmup and decay are real numbers because a warm-up given as a
 * fraction of the decay need not be a whole number of samples. */
typedef struct mega_lr_schedule {
    mega_lr_style style;
    double max_lr, min_lr, warmup_init;
    double warmup, decay; /* samples; warmup < decay */
    mega_lr_wsd_style wsd_style;
    double wsd_decay; /* WSD: samples of the last part of the decay, in which the rate falls */
    /* Where lengths of samples change and the curve is counted in tokens (mega_lr_schedule_lr_at); 0: in samples.
     * warmup_tokens: the tokens after which the decay begins. With warmup 0 it is the length of the warm-up, too. */
    double warmup_tokens, decay_tokens;
    mega_weight_decay_style decay_style;
    double start_weight_decay, end_weight_decay;
    int64_t weight_decay_samples; /* over which it grows from start to end */
} mega_lr_schedule;

/* MEGA_ERR_USAGE for a schedule whose rate or weight decay could be no finite number of at least 0. */
mega_status mega_lr_schedule_check(const mega_lr_schedule *s);
double mega_lr_schedule_lr(const mega_lr_schedule *s, int64_t samples);
/* The same of a schedule that may count tokens, after this number of samples and of their tokens. */
double mega_lr_schedule_lr_at(const mega_lr_schedule *s, int64_t samples, int64_t tokens);
double mega_lr_schedule_weight_decay(const mega_lr_schedule *s, int64_t samples);
/* "cosine", as typed; "unknown" for a number that is no style. */
const char *mega_lr_style_name(mega_lr_style style);
const char *mega_lr_wsd_style_name(mega_lr_wsd_style style);
const char *mega_weight_decay_style_name(mega_weight_decay_style style);

/* ---- DeepSpeed's schedules, which count updates and replace the curve of mega_lr_schedule ---- */

typedef enum mega_scheduler_kind {
    MEGA_SCHEDULER_NONE, /* mega_lr_schedule gives the learning rate */
    MEGA_SCHEDULER_WARMUP,
    MEGA_SCHEDULER_WARMUP_DECAY,
    MEGA_SCHEDULER_WARMUP_COSINE,
    MEGA_SCHEDULER_ONE_CYCLE,
    MEGA_SCHEDULER_RANGE_TEST,
    MEGA_SCHEDULER_COUNT
} mega_scheduler_kind;

typedef enum mega_warmup_type { MEGA_WARMUP_LOG, MEGA_WARMUP_LINEAR, MEGA_WARMUP_TYPE_COUNT } mega_warmup_type;

/* The members have the names of DeepSpeed's parameters; a schedule reads only its own. */
typedef struct mega_step_schedule {
    mega_scheduler_kind kind;
    double lr; /* of the optimizer: WarmupCosineLR multiplies it */
    /* WarmupLR, WarmupDecayLR, WarmupCosineLR */
    double warmup_min_lr, warmup_max_lr, warmup_min_ratio, cos_min_ratio;
    int64_t warmup_num_steps, total_num_steps;
    mega_warmup_type warmup_type;
    /* OneCycle */
    double cycle_min_lr, cycle_max_lr, decay_lr_rate, cycle_min_mom, cycle_max_mom, decay_mom_rate;
    int64_t cycle_first_step_size, cycle_second_step_size, decay_step_size; /* second: -1: as the first */
    int64_t cycle_first_stair_count, cycle_second_stair_count;              /* second: -1: as the first */
    bool cycle_momentum;
    /* LRRangeTest */
    double lr_range_test_min_lr, lr_range_test_step_rate;
    int64_t lr_range_test_step_size;
    bool lr_range_test_staircase;
} mega_step_schedule;

/* MEGA_ERR_USAGE for a number outside of its range; the message names it as "schedule.NAME". */
mega_status mega_step_schedule_check(const mega_step_schedule *s);
/* The learning rate of the next update after `updates` have been made. */
double mega_step_schedule_lr(const mega_step_schedule *s, int64_t updates);
/* Adam's betas of that update, where the schedule changes them (OneCycle with cycle_momentum); otherwise returns false
 * and writes nothing. DeepSpeed sets the second beta to 0.99 throughout. */
bool mega_step_schedule_betas(const mega_step_schedule *s, int64_t updates, double *out_beta1, double *out_beta2);
/* "WarmupLR", "log", as typed; "unknown" for a number that has no name. */
const char *mega_scheduler_name(mega_scheduler_kind kind);
const char *mega_warmup_type_name(mega_warmup_type type);

/* The parameters of a schedule, for checkpoints and rules: name, place in the struct, and the schedules that read
 * it. */
typedef enum mega_scheduler_param_kind {
    MEGA_SCHEDULER_REAL,   /* double */
    MEGA_SCHEDULER_COUNTS, /* int64_t */
    MEGA_SCHEDULER_SWITCH, /* bool */
    MEGA_SCHEDULER_WARMUP_KIND
} mega_scheduler_param_kind;
typedef struct mega_scheduler_param {
    const char *name;
    size_t offset;
    mega_scheduler_param_kind kind;
    unsigned read_by; /* bit 1 << mega_scheduler_kind */
} mega_scheduler_param;
/* Returns parameter i, or NULL after the last. */
const mega_scheduler_param *mega_scheduler_param_at(size_t i);
/* Returns the value as a number, whatever its type; sets it from one. */
double mega_scheduler_param_get(const mega_step_schedule *s, const mega_scheduler_param *p);
void mega_scheduler_param_set(mega_step_schedule *s, const mega_scheduler_param *p, double value);

/* The global batch size after n samples (--rampup-batch-size start increment samples). */
typedef struct mega_batch_ramp {
    int64_t start, increment, samples; /* samples 0: constant */
    int64_t global_batch;              /* reached at the end of the ramp */
    int64_t micro_step;                /* micro-batch size times data-parallel size: every batch is a multiple of it */
} mega_batch_ramp;

/* MEGA_ERR_USAGE for a ramp whose batches are not all multiples of micro_step that end with global_batch. */
mega_status mega_batch_ramp_check(const mega_batch_ramp *r);
int64_t mega_batch_ramp_at(const mega_batch_ramp *r, int64_t consumed_samples);
/* Iterations that a training of `train_samples` samples has left after the first `consumed`: those of the ramp, then
 * whole batches of what is left. */
int64_t mega_batch_ramp_iterations(const mega_batch_ramp *r, int64_t consumed, int64_t train_samples);

/* ---- the length of samples over a training: DeepSpeed's curriculum ---- */

typedef enum mega_curriculum_kind {
    MEGA_CURRICULUM_LINEAR,
    MEGA_CURRICULUM_ROOT,
    MEGA_CURRICULUM_DISCRETE,
    MEGA_CURRICULUM_COUNT
} mega_curriculum_kind;

enum { MEGA_CURRICULUM_MOST = 1 << 24 }; /* the largest of its numbers */

/* A step reads the first positions of each of its samples; how many follows from the number of the step alone. They
 * never become fewer. The members have DeepSpeed's meanings; a kind reads only its own. */
typedef struct mega_curriculum {
    bool is_on; /* false: every sample is read whole, and nothing else is read */
    mega_curriculum_kind kind;
    int64_t least, most; /* min_difficulty, max_difficulty; most 0: a whole sample */
    /* linear, root: total_curriculum_step, difficulty_step, root_degree */
    int64_t steps, unit, degree;
    /* discrete: difficulty [stairs], max_step [stairs - 1], as typed; borrowed */
    const char **difficulty, **max_step;
    int64_t stairs;
} mega_curriculum;

/* "fixed_linear", as typed; "unknown" for a number that has no name. */
const char *mega_curriculum_name(mega_curriculum_kind kind);
/* MEGA_ERR_USAGE for a curriculum whose lengths fall, are below 1 in samples of `positions`, or whose numbers are out
 * of range; positions 0: not known. The message names the number as "curriculum.NAME". */
mega_status mega_curriculum_check(const mega_curriculum *c, int64_t positions);
/* DeepSpeed's difficulty in step `step`, from 1; c->most is not 0. */
int64_t mega_curriculum_difficulty(const mega_curriculum *c, int64_t step);
/* How many of a sample's `positions` the step reads. */
int64_t mega_curriculum_length(const mega_curriculum *c, int64_t positions, int64_t step);
/* The last step that reads as many positions as `step` and those between; INT64_MAX: all later ones do. */
int64_t mega_curriculum_same_until(const mega_curriculum *c, int64_t positions, int64_t step);

/* What the steps of a training have read. */
typedef struct mega_consumed {
    int64_t steps, samples, tokens;
} mega_consumed;
/* After the first step with which it is at least so many samples and so many tokens; 0: any number. */
mega_consumed mega_consumed_after(const mega_curriculum *c, const mega_batch_ramp *r, int64_t positions,
                                  int64_t samples, int64_t tokens);

#endif
