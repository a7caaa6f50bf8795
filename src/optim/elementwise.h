/* Updates of elementwise.c, for the rows of optimizer_table.c; elementwise.c has the formulas. */
#ifndef MEGALITH_ELEMENTWISE_H
#define MEGALITH_ELEMENTWISE_H

#include "optimizer_row.h"

enum { SCHEDULE_FREE_LR_MAX, SCHEDULE_FREE_WEIGHT_SUM, SCHEDULE_FREE_SHARE }; /* its numbers */

void elementwise_amsgrad(const mega_queue *queue, const optimizer_work *w);
/* 1-bit Adam after its freeze: the momentum of this rank, and the update with that of all. */
void elementwise_one_bit_momentum(const mega_queue *queue, const optimizer_work *w);
void elementwise_one_bit(const mega_queue *queue, const optimizer_work *w);
void elementwise_sgd(const mega_queue *queue, const optimizer_work *w); /* with Nesterov's momentum or dampening */
void elementwise_adagrad(const mega_queue *queue, const optimizer_work *w);
void elementwise_lion(const mega_queue *queue, const optimizer_work *w);
void elementwise_ademamix(const mega_queue *queue, const optimizer_work *w);
void elementwise_schedule_free(const mega_queue *queue, const optimizer_work *w);
void elementwise_schedule_free_advance(const mega_optimizer_call *call, double *number);

#endif
