/* Updates of elementwise.c, for the rows of optimizer_table.c; elementwise.c has the formulas. Each enum numbers the
 * options of a row, in the order of its list of names. */
#ifndef MEGALITH_ELEMENTWISE_H
#define MEGALITH_ELEMENTWISE_H

#include "optimizer_row.h"

enum { ADAM_BETA1, ADAM_BETA2, ADAM_EPS, ADAM_L2, ADAM_UNCORRECTED, ADAM_OPTIONS };
enum { ONE_BIT_BETA1, ONE_BIT_BETA2, ONE_BIT_EPS, ONE_BIT_FREEZE };
enum { SGD_MOMENTUM, SGD_DAMPENING, SGD_NESTEROV };
enum { ADAGRAD_EPS, ADAGRAD_LR_DECAY, ADAGRAD_INITIAL };
enum { LION_BETA1, LION_BETA2 };
enum { ADEMAMIX_BETA1, ADEMAMIX_BETA2, ADEMAMIX_EPS, ADEMAMIX_BETA3, ADEMAMIX_ALPHA, ADEMAMIX_STEPS };

enum {
    SCHEDULE_FREE_BETA1,
    SCHEDULE_FREE_BETA2,
    SCHEDULE_FREE_EPS,
    SCHEDULE_FREE_WARMUP,
    SCHEDULE_FREE_R,
    SCHEDULE_FREE_POWER
};
enum { SCHEDULE_FREE_LR_MAX, SCHEDULE_FREE_WEIGHT_SUM, SCHEDULE_FREE_SHARE }; /* its numbers */

void elementwise_amsgrad(mega_team *team, const optimizer_work *w);
/* 1-bit Adam after its freeze: the momentum of this rank, and the update with that of all. */
void elementwise_one_bit_momentum(mega_team *team, const optimizer_work *w);
void elementwise_one_bit(mega_team *team, const optimizer_work *w);
void elementwise_sgd(mega_team *team, const optimizer_work *w); /* with Nesterov's momentum or dampening */
void elementwise_adagrad(mega_team *team, const optimizer_work *w);
void elementwise_lion(mega_team *team, const optimizer_work *w);
void elementwise_ademamix(mega_team *team, const optimizer_work *w);
void elementwise_schedule_free(mega_team *team, const optimizer_work *w);
void elementwise_schedule_free_advance(const mega_optimizer_call *call, double *number);

#endif
