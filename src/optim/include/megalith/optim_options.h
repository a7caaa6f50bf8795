/* Options of the optimizer and of what changes from step to step: batch size, learning rate, weight decay. Sizes are
 * samples, intervals iterations unless the name says samples.
 * Its rows are in optim/options.c, optim/lr_schedule.c, optim/step_schedule_options.c, optim/curriculum_schedule.c
 * and optim/loss_scale.c. */
#ifndef MEGALITH_OPTIM_OPTIONS_H
#define MEGALITH_OPTIM_OPTIONS_H

#include "megalith/loss_scale.h"
#include "megalith/optim.h"
#include "megalith/option.h"
#include "megalith/schedule.h"

typedef struct mega_optim_options {
    /* batch and length of the training */
    int64_t micro_batch_size, global_batch_size;
    int64_t gradient_accumulation_steps; /* 0: not given; global_batch_size follows from it */
    int64_t rampup_batch_size[3];        /* start, increment, samples; all 0 without a ramp */
    int64_t train_iters;                 /* 0 where train_samples is given */
    int64_t train_samples;               /* 0 where train_iters is given */

    /* the length of samples over the training */
    bool curriculum_learning;
    mega_curriculum_kind curriculum_schedule;
    int64_t curriculum_min_difficulty, curriculum_max_difficulty; /* 0: not given; of the second: a whole sample */
    int64_t curriculum_total_steps, curriculum_difficulty_step, curriculum_root_degree; /* 0: not given */
    mega_list curriculum_difficulty, curriculum_max_step;

    mega_optimizer_kind optimizer;
    mega_list parameter_group; /* params/parameter_group.h */
#define MEGA_SETTING(kind, type, taken, name, setting, member, ...) type setting;
    MEGA_OPTIMIZER_ARGUMENTS(MEGA_SETTING)
#undef MEGA_SETTING
    double clip_grad;                                          /* 0: no clipping */
    double weight_decay, start_weight_decay, end_weight_decay; /* the last two equal the first in a constant style */
    mega_weight_decay_style weight_decay_incr_style;

    /* the loss scale of fp16 */
    double loss_scale; /* static; 0 or NAN: dynamic */
    double initial_loss_scale, min_loss_scale;
    int64_t initial_scale_power; /* of 2, instead of initial_loss_scale */
    int64_t loss_scale_window, hysteresis;
    bool consecutive_hysteresis;
    mega_loss_scale_rules loss_scale_rules; /* follows from where --fp16 was given */

    double lr, min_lr, lr_warmup_init;
    mega_lr_style lr_decay_style;
    int64_t lr_decay_iters, lr_decay_samples; /* 0: the whole training */
    mega_lr_wsd_style lr_wsd_decay_style;
    int64_t lr_wsd_decay_iters, lr_wsd_decay_samples; /* the last part of the curve of WSD */
    double lr_warmup_fraction;                        /* NAN when not given */
    int64_t lr_warmup_iters, lr_warmup_samples;

    mega_step_schedule scheduler; /* DeepSpeed's; kind NONE: lr_decay_style counts instead; warmup_max_lr NAN: lr */
} mega_optim_options;

/* Their rows, by the titles of --help. */
extern const mega_option_section mega_optim_regularization_section, mega_optim_training_section,
    mega_optim_learning_section, mega_optim_scheduler_section, mega_optim_scale_section, mega_optim_curriculum_section;
/* row, backend and queue are not options: they stay zero. */
mega_optimizer_options mega_optimizer_from_options(const mega_optim_options *o);
mega_loss_scale_options mega_loss_scale_from_options(const mega_optim_options *o);
double mega_loss_scale_of_power(const mega_optim_options *o); /* the value that initial_scale_power stands for */
/* The curves of the learning rate and the weight decay; o->train_iters or o->train_samples must be known. */
mega_status mega_lr_schedule_from_options(const mega_optim_options *o, mega_lr_schedule *out);
/* One of DeepSpeed's schedules, or kind NONE. o->lr must be known where the schedule reads it. */
void mega_step_schedule_from_options(const mega_optim_options *o, mega_step_schedule *out);
/* The lists of *out are borrowed from the options. */
void mega_curriculum_from_options(const mega_optim_options *o, mega_curriculum *out);
/* ranks: data-parallel ones. */
mega_status mega_batch_ramp_from_options(const mega_optim_options *o, int64_t ranks, mega_batch_ramp *out);

#endif
