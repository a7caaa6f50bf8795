/* What changes over a training as a pure function of the samples consumed: learning rate, weight decay, batch size.
 *
 * Everything is counted in samples, as Megatron does, so that a change of batch size moves no curve. */
#ifndef MEGALITH_SCHEDULE_H
#define MEGALITH_SCHEDULE_H

#include "megalith/status.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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
    mega_weight_decay_style decay_style;
    double start_weight_decay, end_weight_decay;
    int64_t weight_decay_samples; /* over which it grows from start to end */
} mega_lr_schedule;

/* MEGA_ERR_USAGE for a schedule whose rate or weight decay could be no finite number of at least 0. */
mega_status mega_lr_schedule_check(const mega_lr_schedule *s);
double mega_lr_schedule_lr(const mega_lr_schedule *s, int64_t samples);
double mega_lr_schedule_weight_decay(const mega_lr_schedule *s, int64_t samples);
/* "cosine", as typed; "unknown" for a number that is no style. */
const char *mega_lr_style_name(mega_lr_style style);
const char *mega_lr_wsd_style_name(mega_lr_wsd_style style);
const char *mega_weight_decay_style_name(mega_weight_decay_style style);

/* The global batch size after n samples (--rampup-batch-size start increment samples). */
typedef struct mega_batch_ramp {
    int64_t start, increment, samples; /* samples 0: constant */
    int64_t global_batch;              /* reached at the end of the ramp */
    int64_t micro_step;                /* micro-batch size times data-parallel size: every batch is a multiple of it */
} mega_batch_ramp;

/* MEGA_ERR_USAGE for a ramp whose batches are not all multiples of micro_step that end with global_batch. */
mega_status mega_batch_ramp_check(const mega_batch_ramp *r);
int64_t mega_batch_ramp_at(const mega_batch_ramp *r, int64_t consumed_samples);
/* Iterations that a training of `train_samples` samples has left behind the first `consumed`: those of the ramp, then
 * whole batches of what is left. */
int64_t mega_batch_ramp_iterations(const mega_batch_ramp *r, int64_t consumed, int64_t train_samples);

#ifdef __cplusplus
}
#endif

#endif
