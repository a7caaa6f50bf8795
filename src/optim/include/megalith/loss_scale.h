/* The loss scale of fp16. The factor of the loss gradient is multiplied by it, so that small gradients stay above the
 * smallest fp16 number, and the update divides by it. A step whose gradients overflow is skipped. The scale is static
 * (always the same) or dynamic: it falls after overflows and rises after a number of good steps. */
#ifndef MEGALITH_LOSS_SCALE_H
#define MEGALITH_LOSS_SCALE_H

#include "megalith/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Whose rules a dynamic scale follows. With either, an overflow first uses up the hysteresis, and only then halves the
 * scale; the hysteresis is full again when the scale next rises.
 * Megatron-LM: the scale doubles after `window` good steps in a row.
 * DeepSpeed: the scale doubles after `window` + 1 good steps after an overflow (or the start), then after every
 * `window` more. With consecutive_hysteresis (DeepSpeed has it) every good step fills the hysteresis. */
typedef enum mega_loss_scale_rules { MEGA_SCALE_MEGATRON, MEGA_SCALE_DEEPSPEED } mega_loss_scale_rules;

typedef struct mega_loss_scale_options {
    mega_loss_scale_rules rules;
    double fixed;          /* the static scale; 0: a dynamic one */
    double initial, least; /* first value and smallest value of a dynamic scale */
    int64_t window;        /* good steps before the scale doubles */
    int64_t hysteresis;    /* the scale halves with this overflow after it last rose, and with each later one */
    bool consecutive_hysteresis;
} mega_loss_scale_options;

/* The state, which a checkpoint keeps. */
typedef struct mega_loss_scale {
    double scale;
    int64_t good;       /* steps without overflow since the last overflow; Megatron: and since the scale rose */
    int64_t hysteresis; /* overflows until the scale halves, the last one included */
} mega_loss_scale;

typedef enum mega_loss_scale_change {
    MEGA_SCALE_KEPT,
    MEGA_SCALE_RAISED,
    MEGA_SCALE_WAITS,    /* an overflow took one of the hysteresis */
    MEGA_SCALE_LOWERED,  /* an overflow lowered the scale */
    MEGA_SCALE_EXHAUSTED /* an overflow, and the scale is at its minimum; the state did not change */
} mega_loss_scale_change;

/* Numbers out of their range are MEGA_ERR_USAGE. All numbers 0 mean the defaults of Megatron-LM. */
mega_status mega_loss_scale_check(const mega_loss_scale_options *o);
mega_loss_scale mega_loss_scale_begin(const mega_loss_scale_options *o);
/* Advances the state by one step. */
mega_loss_scale_change mega_loss_scale_advance(mega_loss_scale *s, const mega_loss_scale_options *o, bool overflowed);

#endif
