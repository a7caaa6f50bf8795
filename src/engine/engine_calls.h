/* What every call of the engine begins and ends with: one at a time, checked, agreed on by all ranks. */
#ifndef MEGALITH_ENGINE_CALLS_H
#define MEGALITH_ENGINE_CALLS_H

#include "engine_impl.h"

/* busy.c. A call that changes the engine, or reads what another call may be writing, is made between engine_enter,
 * which refuses it while another is running, and engine_leave, which returns `st`. engine_check_free is for calls that
 * call nothing of the caller's, and end at once. All take the call's name; engine_enter also refuses NULL, and finds
 * the engine with no step awaited (late.c), for which engine_enter_ahead does not wait.
 * engine_take_failure is local: waits for the device, and returns its failure, which comes before what followed from
 * it, else st. */
mega_status engine_enter(mega_engine *e, const char *call);
mega_status engine_enter_ahead(mega_engine *e, const char *call);
mega_status engine_leave(mega_engine *e, mega_status st);
mega_status engine_check_free(const mega_engine *e, const char *call);
mega_status engine_take_failure(const mega_engine *e, mega_status st);
/* Count this engine as a user of its world, team and training data, which cannot be destroyed then; and no longer. The
 * first comes before any callback. */
void engine_use_borrowed(mega_engine *e);
void engine_return_borrowed(mega_engine *e);
/* late.c. Waits for the step that is awaited, if there is one. Returns its error; the engine is then as before it. */
mega_status engine_settle(mega_engine *e);
/* What the calls of these names do, for calls that have entered the engine. */
mega_batch *engine_evaluation_batch(mega_engine *e, int64_t rows, int64_t first);
void engine_profile(mega_engine *e, mega_profile *profile);
mega_status engine_evaluate_batch(mega_engine *e, mega_loss_sums *sums);
mega_status engine_save(mega_engine *e, const mega_engine_save_options *o);
mega_status engine_load(mega_engine *e, mega_checkpoint *c, const mega_engine_load_options *o, mega_engine_loaded *out);
/* call_checks.c. The checks return MEGA_ERR_USAGE for a wrong call. engine_agree is collective: if one rank fails, or
 * its device, all return its error. (In a world of one rank it does not wait for the device.) It then returns that
 * error at once, without communication, until the failure is forgotten, so that nested calls return on all ranks.
 * engine_agree_read does so only where there are devices, after all ranks have read from them. Every public call
 * begins with engine_begin_call, which forgets an earlier failure, agrees, and waits until the weights of the last
 * update have arrived. A device that has failed stays so: the call then ends on all ranks. */
mega_status engine_agree(const mega_engine *e, mega_status st);
mega_status engine_agree_read(const mega_engine *e);
mega_status engine_begin_call(const mega_engine *e, mega_status st);
/* The same for a call whose forward itself waits for the weights that it reads. */
mega_status engine_begin_pass(const mega_engine *e, mega_status st);
mega_status engine_check_given(const mega_engine *e, const char *call, const char *argument, const void *value);
mega_status engine_check_allocated(const mega_engine *e, const char *call);
mega_status engine_check_weights(const mega_engine *e, const char *call);
mega_status engine_check_forward_pass(const mega_engine *e, const char *call);
mega_status engine_check_trains(const mega_engine *e, const char *call);
mega_status engine_check_has_loss(const mega_engine *e, const char *call);
mega_status engine_check_step(const mega_engine *e, const mega_step_result *out);
mega_status engine_check_can_evaluate(const mega_engine *e, const char *call);
mega_status engine_check_evaluate(const mega_engine *e, const mega_loss_sums *sums);
mega_status engine_check_save(const mega_engine *e, const mega_engine_save_options *o);
mega_status engine_check_load(const mega_engine *e, const mega_checkpoint *c, const mega_engine_load_options *o,
                              const mega_engine_loaded *out);
mega_status engine_check_allocate(const mega_engine *e);
mega_status engine_check_options(const mega_model *model, const mega_engine_options *o);
mega_status engine_check_ramp(const mega_engine *e); /* called after the layout is created */
/* options.c. engine_check_ranges checks that each number is in range. engine_compare_options is collective: checks that
 * all ranks have the same options. */
mega_status engine_check_ranges(const mega_engine_options *o);
mega_status engine_compare_options(const mega_engine_options *o);

#endif
