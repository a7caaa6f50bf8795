/* A step: its length, its passes, the loss scale, the update. */
#ifndef MEGALITH_ENGINE_STEP_H
#define MEGALITH_ENGINE_STEP_H

#include "engine_impl.h"

/* step.c. A step consists of engine_step_begin, forwards and backwards, sums of gradients over the ranks, and the
 * update. engine_run_schedule runs the passes of all micro-batches of this stage; micro_batch.c runs one at a time.
 * engine_run_schedule writes only the times and micro_batches of the clock's result. */
void engine_step_begin(mega_engine *e, int64_t micro_batches);
/* Returns the factor from the sums of gradients in memory to the gradients of the step (see make_gradients). r has the
 * samples of the step. sums NULL: the step is taken to have the expected number of positions. */
double engine_correction(const mega_engine *e, const engine_sums *sums, const mega_step_result *r);
mega_status engine_run_schedule(mega_engine *e, engine_sums *sums, step_clock *clock);
mega_status engine_run_pass(mega_engine *e, const mega_schedule_pass *s, bool is_first, bool is_last);
/* lengths.c. engine_length_of returns how many positions of a sample a step reads; the first step is 1.
 * engine_check_lengths checks that each length can be cut over tp. engine_try_lengths is local: builds the programs of
 * the first step and destroys them, so that a model which cannot have them is refused before that. engine_set_length is
 * collective over the world: puts the programs in place that the next step needs. engine_drop_lengths puts those of
 * whole samples in place again. */
int64_t engine_length_of(const mega_engine *e, int64_t step);
mega_status engine_check_lengths(const mega_model *model, const mega_engine_options *o);
mega_status engine_try_lengths(mega_engine *e);
mega_status engine_set_length(mega_engine *e);
void engine_drop_lengths(mega_engine *e);
/* scale.c. The factor of the loss gradient of this step, 1 without fp16. */
double engine_scale(const mega_engine *e);
/* Collective over the world. For a step whose loss or gradients are not finite: with fp16, lowers the scale, marks *r
 * as skipped and returns MEGA_OK; without fp16, or if the scale is at its minimum, returns an error that names the
 * first op whose output was not finite. */
mega_status engine_skip_step(mega_engine *e, mega_step_result *r);
void engine_scale_good_step(mega_engine *e);
void engine_scale_reset(mega_engine *e); /* the scale of the options */
/* Returns what a message about a gradient adds about the scale: "" without fp16. */
const char *engine_scale_text(const mega_engine *e, char out[64]);
mega_status engine_scale_save(const mega_engine *e, json_t *root);
mega_status engine_scale_load(mega_engine *e, const json_t *root);
void engine_scale_load_skipped(mega_engine *e, const json_t *root); /* the number of skipped steps alone */
void engine_record_phase(const mega_engine *e, const char *phase,
                         int64_t micro_batch); /* publishes what this rank is doing */
/* micro_batch.c. Discards the micro-batches since the last update. */
void engine_micro_discard(mega_engine *e);
/* evaluate.c. Returns the weight of a micro-batch in the sums of an evaluation; 0: it is padding. */
double engine_evaluation_weight(const mega_engine *e, int64_t micro_batch);
/* update.c. engine_find_ties lists the parameters that other stages hold too. engine_make_update makes the update
 * program from them, the optimizer and the losses. */
mega_status engine_find_ties(mega_engine *e);
mega_status engine_make_update(mega_engine *e);
bool engine_reduces(const mega_engine *e, int bucket); /* some program sums the bucket over dp (mega_program_reduces) */
void engine_await_weights(const mega_engine *e, mega_program *p); /* its forward waits for the last update's weights */
mega_status engine_wait_reductions(mega_engine *e);               /* waits for the sums that backwards started */
/* Whether a step of all micro-batches on a device waits once, at its end: the losses are read after the update. */
bool engine_defers_losses(const mega_engine *e);
int64_t engine_expected_positions(const mega_engine *e); /* step.c: of the expected micro-batches, over dp */
/* Collective over the world, both. They run the two parts of the update program. */
mega_status engine_finish_gradients(mega_engine *e, engine_sums *sums, mega_step_result *r);
mega_status engine_update(mega_engine *e, mega_step_result *r);
/* The same for a step whose numbers are not waited for: with the counters as if it were good. engine_update_read
 * completes *r when the block of the update program has been written. */
mega_status engine_update_late(mega_engine *e, mega_step_result *r);
void engine_update_read(mega_engine *e, mega_step_result *r);
/* step.c. Like engine_run_schedule, for one evaluation of all micro-batches. */
mega_status engine_run_evaluation(mega_engine *e, engine_sums *sums);
/* Collective over the world. A step, and one that is only asked for (engine_update_late). has_rows: the batch has the
 * rows of this step already. */
mega_status engine_run_step(mega_engine *e, bool has_rows, mega_step_result *out);
mega_status engine_ask_for_step(mega_engine *e, bool has_rows, mega_step_result *out);
/* late.c. Whether mega_engine_train_batch returns the result of the step before; that function. */
bool engine_answers_late(const mega_engine *e);
mega_status engine_train_late(mega_engine *e, mega_step_result *out);

#endif
