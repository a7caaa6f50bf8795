/* Losses, metrics and outputs of the model, and the search for the first value that is not finite. */
#ifndef MEGALITH_ENGINE_LOSSES_H
#define MEGALITH_ENGINE_LOSSES_H

#include "engine_impl.h"

/* losses.c. engine_collect_losses is collective over pp: makes the list of the model's losses, and returns an error if
 * one cannot be trained. engine_compare_losses is collective over the world: checks that all ranks have the same
 * list. */
mega_status engine_collect_losses(mega_engine *e);
mega_status engine_compare_losses(const mega_engine *e);
int engine_loss_find(const mega_engine *e, const char *name); /* returns its index; -1: not found */
void engine_losses_bind(const mega_engine *e, mega_program *p, int chunk, engine_kind of, int slot, program_io *io);
/* During the passes the sums are in device memory: engine_losses_begin copies *sums there, engine_losses_add adds the
 * losses of one micro-batch, multiplied by `weight`, and engine_losses_end copies the sums back. */
void engine_losses_begin(const mega_engine *e, const engine_sums *sums);
void engine_losses_add(const mega_engine *e, const program_io *io, double times);
mega_status engine_losses_end(const mega_engine *e, engine_sums *sums);
/* Sums *sums over the ranks of comm, in one collective for all losses. */
mega_status engine_losses_reduce(const mega_engine *e, mega_comm *comm, const char *what, engine_sums *sums);
/* For a step: writes the value of each loss and metric, NAN if only evaluation computes it. Returns the sum of
 * coefficient * loss. */
double engine_losses_total(const mega_engine *e, const engine_sums *sums, double metric[MEGA_METRICS]);
void engine_evaluation_losses(const mega_engine *e, const engine_sums *sums, mega_loss_sums *out);
/* outputs.c. From now on mega_engine_read_output reads this slot of program p of the chunk. */
void engine_outputs_note(engine_chunk *c, const mega_program *p, int slot);
/* nonfinite.c. Collective over the world. Called when all ranks know that the loss, or a gradient, of this step is not
 * finite. Returns MEGA_ERR_NUMERIC, and the message names the first op on any rank whose output was not finite. */
mega_status engine_nonfinite_loss(mega_engine *e, double loss);
mega_status engine_nonfinite_gradient(mega_engine *e);
mega_status engine_nonfinite_evaluation(mega_engine *e, double loss);
void engine_search_before(engine_search *s);
void engine_search_after(const mega_engine *e, const mega_schedule_pass *x);

#endif
