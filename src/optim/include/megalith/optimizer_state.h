/* What the engine keeps of an optimizer besides its moments: numbers, and which weights are in place. */
#ifndef MEGALITH_OPTIMIZER_STATE_H
#define MEGALITH_OPTIMIZER_STATE_H

#include "megalith/optim.h"

/* Numbers that continue from update to update, by name; a checkpoint keeps them. */
int mega_optimizer_num_numbers(const mega_optimizer *o);
const char *mega_optimizer_number_name(const mega_optimizer *o, int number);
double mega_optimizer_number(const mega_optimizer *o, int number);
void mega_optimizer_set_number(mega_optimizer *o, int number, double value);

/* 1-bit Adam: the last states are what compression has lost on this rank so far: num_errors of them, the first for the
 * whole parameter, the second for this rank's chunk of it (comm/compressed.h). has_errors: there are any that count. */
int mega_optimizer_num_errors(const mega_optimizer *o);
bool mega_optimizer_has_errors(const mega_optimizer *o);

/* Schedule-free optimizers train with weights y, and evaluate, save and generate with weights x, an average. The
 * masters hold one of the two, state 0 the other; whichever it is, mega_optimizer_moment 0 is y, and
 * mega_optimizer_weight is x. Before the first update, and with any other optimizer, there is one set of weights, that
 * of the masters. */
bool mega_optimizer_averages(const mega_optimizer *o);
/* Returns the address of what this rank owns of the weights of the evaluation: what a checkpoint keeps. */
void *mega_optimizer_weight(const mega_optimizer *o, int param);
/* Puts x (average) or y into the masters; returns whether they changed, and so have to be published. Local. */
bool mega_optimizer_show(mega_optimizer *o, bool average);
/* A load follows, which writes x to the masters, and y to the moments or mega_optimizer_set_updates(o, 0). */
void mega_optimizer_begin_load(mega_optimizer *o);

#endif
