/* Internal types and functions that the files of the engine share. */
#ifndef MEGALITH_ENGINE_IMPL_H
#define MEGALITH_ENGINE_IMPL_H

#include "megalith/batch.h"
#include "megalith/engine_commands.h"
#include "megalith/pipeline.h"
#include "megalith/reader.h"
#include "megalith/step_monitor.h"
#include "megalith/update.h"
#include "stage.h"
#include "step_clock.h"
#include <jansson.h>
#include <stdatomic.h>

typedef struct engine_chunk engine_chunk;
typedef struct engine_search engine_search;
typedef struct engine_monitor engine_monitor;

/* A loss or a metric of the model. All ranks have the same list in the same order. */
typedef struct engine_loss {
    char name[MEGA_LOSS_NAME];
    double coefficient;
    bool is_trained, is_evaluated; /* a training (evaluation) program of some rank computes it */
} engine_loss;

/* Sums over the micro-batches of a step or of an evaluation. For each loss: the sum of micro-batch means and their
 * number or, with per_token_loss, the sum of micro-batch sums and the sum of weights. */
enum { LOSS_SUM, LOSS_WEIGHT };
typedef struct engine_sums {
    double of[MEGA_METRICS][2];
    double stops;             /* evaluation: number of ranks that a signal has asked to stop */
    mega_error_record failed; /* first error of this rank, which still sends its messages */
} engine_sums;

/* Where one slot of a program writes a loss; sum and weight are [1] in the accumulation type. */
typedef struct program_loss {
    int number; /* index in the engine's list of losses */
    const void *sum, *weight;
} program_loss;

/* The losses of one slot of a program. */
typedef struct program_io {
    program_loss loss[MEGA_METRICS];
    int num_losses;
} program_io;

/* One chunk of the model that this rank runs, with its programs. */
struct engine_chunk {
    mega_graph *graph[ENGINE_KINDS]; /* description of a program that is not built yet */
    mega_program *train, *evaluate;
    mega_program *prefill, *decode; /* the programs of generation; decode uses the caches of prefill */
    int slots;                      /* slots of train: micro-batches in flight */
    program_io *train_io;           /* [slots] */
    /* The training program of whole samples and its losses. They are the two above, unless a curriculum has put those
     * of shorter samples in place (lengths.c). */
    mega_program *whole;
    program_io *whole_io;
    program_io evaluate_io;
    const mega_program *ran; /* program of the last forward; NULL: no forward yet */
    int ran_slot;
};

/* The purpose for which the rows of the batch were last requested. */
typedef enum engine_batch_of {
    ENGINE_BATCH_NONE,
    ENGINE_BATCH_OF_STEP,
    ENGINE_BATCH_OF_MICRO_BATCH,
    ENGINE_BATCH_OF_EVALUATION
} engine_batch_of;

/* The last of the three calls for a micro-batch: step, forward or backward. */
typedef enum engine_phase { ENGINE_STEPPED, ENGINE_FORWARDED, ENGINE_BACKWARDED } engine_phase;

/* State of the micro-batches that the caller runs one at a time (micro_batch.c). */
typedef struct engine_micro {
    engine_phase phase;
    int64_t done; /* micro-batches since the last update */
    bool is_boundary_set, is_boundary;
    bool was_applied; /* the last step updated the weights */
    engine_sums sums;
    mega_step_result result; /* seconds of the passes so far */
    step_clock clock;        /* of the step */
} engine_micro;

/* State of the gradients that mega_engine_get_param reads. */
typedef struct engine_gradients {
    bool are_summed;   /* summed over micro-batches and ranks */
    double correction; /* factor from the numbers in memory to the gradients */
} engine_gradients;

/* The lengths of samples under a curriculum (lengths.c). */
typedef struct engine_lengths {
    int64_t now;                  /* positions of a sample in the training programs that are in place */
    mega_engine_cost cost;        /* of a sample of so many positions, if they are fewer than those of a whole one */
    mega_program_regions most;    /* what the programs of the shortest samples need, together */
    mega_region keep, work, turn; /* memory of the training programs, whichever are in place */
    engine_stage whole_stage;     /* messages of the programs of whole samples, while others are in place */
    void *more;                   /* memory of programs that need more than that; NULL: none */
    size_t more_bytes;
    mega_observer *observer; /* of the steps, and what it is called with */
    void *user;
} engine_lengths;

/* Position of an evaluation in its part of the data set, in micro-batches over all ranks. */
typedef struct engine_evaluated {
    int64_t first, count; /* micro-batches before the batch; in the part (the rest is padding), 0: no data set */
    double times;         /* weight of each micro-batch in the sums */
} engine_evaluated;

/* State of the programs that mega_engine_run runs one at a time, forward only (run.c). */
typedef struct engine_runs {
    engine_stage stage[ENGINE_KINDS]; /* for ENGINE_PREFILL and ENGINE_DECODE */
    mega_batch *batch[ENGINE_KINDS];  /* for ENGINE_PREFILL and ENGINE_DECODE */
    int32_t *filled;                  /* [samples of a run] filled positions of each one's cache; NULL: no cache */
    char *space;                      /* one position of a cache of all samples, while caches are moved */
    mega_error_record failed;         /* first error of this rank since the last wait */
} engine_runs;

/* The parameters of this rank that other stages hold too, in model order (update.c). */
typedef struct engine_ties {
    mega_update_tie *of;
    int count;
    int *stages; /* the stages of all ties, concatenated */
} engine_ties;

/* What the model consists of, on all ranks alike. */
typedef struct engine_model {
    mega_param_groups *groups; /* NULL: none */
    mega_model_parts *parts;   /* the parts of the whole model */
    engine_loss loss[MEGA_METRICS];
    int num_losses;
} engine_model;

/* What this rank runs (chunks.c). */
typedef struct engine_programs {
    engine_chunk *chunk; /* [chunks] one, or several if pipeline stages are interleaved */
    int chunks;
    mega_program *train, *evaluate;     /* programs of the first chunk; NULL: not built */
    engine_stage stage, evaluate_stage; /* messages of train and of evaluate to and from other pipeline stages */
    mega_schedule_step *schedule;       /* buffer, long enough for the largest batch */
    bool *begun;                        /* [parameters] the first micro-batch of a step overwrites the gradient */
    bool is_level_set;                  /* a plan of recompute.c: recompute at this level (model_parts.h) */
    int level;
} engine_programs;

/* Memory, and what it holds. */
typedef struct engine_arena {
    void *arena; /* all large buffers, in one memory mapping */
    size_t bytes;
    bool is_allocated; /* all ranks have allocated their memory */
    bool initializes;  /* mega_engine_allocate initializes the weights */
    bool has_weights;  /* initialized or loaded */
    bool has_moments;  /* initialized, or a load has started: optimizer states may be nonzero */
} engine_arena;

/* Where samples come from (batches.c, data.c, evaluate.c). */
typedef struct engine_data {
    mega_batch *batch;
    engine_batch_of of;
    int64_t capacity; /* of the batch, in rows */
    mega_dataset set; /* training data of mega_setup */
    bool has_set;
    uint64_t hash;       /* 0 without set.hash */
    mega_reader *reader; /* reads training data ahead; NULL: the caller's thread reads them */
    engine_evaluated evaluated;
} engine_data;

/* Numbers of the step. */
typedef struct engine_step {
    int64_t expected;            /* micro-batches that the loss factor of the current step assumes */
    double grad_norm;            /* gradient norm of the last step; NAN: it was skipped */
    mega_loss_scale scale;       /* of the next step, with fp16 */
    mega_lr_scheduler scheduler; /* lr NULL: options.schedule */
} engine_step;

/* Checkpoints. */
typedef struct engine_saving {
    int64_t max_shard_size;       /* bytes of a file of weights; 0: no limit */
    mega_dtype dtype;             /* dtype of the weights that mega_engine_save_checkpoint writes */
    int keep;                     /* checkpoints */
    struct engine_client *client; /* the caller's state from the last load (client_state.c) */
} engine_saving;

/* What the engine created from mega_setup (setup.c). */
typedef struct engine_own {
    mega_world *world; /* NULL, as team: the caller's */
    mega_team *team;
    struct setup_values *said; /* options as given in argv and a JSON, for messages; NULL: given as numbers */
} engine_own;

/* What looks on while a step runs. */
typedef struct engine_watch {
    mega_profile *profile;   /* borrowed; NULL: steps are not profiled */
    engine_search *search;   /* borrowed; NULL: no search for non-finite values */
    engine_monitor *monitor; /* NULL: none, or no step yet */
} engine_watch;

/* Calls that have not returned (busy.c). */
typedef struct engine_calls {
    atomic_int lr_depth;           /* of step.scheduler.lr */
    _Atomic(const char *) running; /* NULL: none */
} engine_calls;

/* A file reaches the members of another subject by the subject's name only. */
struct mega_engine {
    mega_engine_options options;
    mega_layout *layout;
    mega_params *params;
    mega_optimizer *optimizer;
    mega_update *update; /* the end of a step; NULL without an optimizer */
    mega_engine_progress progress;
    engine_model model;
    engine_ties ties;
    engine_programs programs;
    engine_arena memory;
    engine_data data;
    engine_step step;
    engine_gradients gradients;
    engine_lengths lengths;
    engine_micro micro;
    engine_runs runs;
    engine_saving saving;
    engine_own own;
    engine_watch watch;
    engine_calls calls;
};

/* busy.c. A call that changes the engine, or reads what another call may be writing, is made between engine_enter,
 * which refuses it while another is running, and engine_leave, which returns `st`. engine_check_free is for calls that
 * call nothing of the caller's, and end at once. All three take the call's name; engine_enter also refuses NULL. */
mega_status engine_enter(mega_engine *e, const char *call);
mega_status engine_leave(mega_engine *e, mega_status st);
mega_status engine_check_free(const mega_engine *e, const char *call);
/* What the calls of these names do, for calls that have entered the engine. */
mega_batch *engine_evaluation_batch(mega_engine *e, int64_t rows, int64_t first);
void engine_profile(mega_engine *e, mega_profile *profile);
mega_status engine_evaluate_batch(mega_engine *e, mega_loss_sums *sums);
mega_status engine_save(mega_engine *e, const mega_engine_save_options *o);
mega_status engine_load(mega_engine *e, mega_checkpoint *c, const mega_engine_load_options *o, mega_engine_loaded *out);
/* inputs.c. engine_collect_inputs is collective over pp: creates the batches, with a column for each named input of the
 * model. engine_compare_inputs is collective over the world: returns an error unless all ranks have the same inputs. */
mega_status engine_collect_inputs(mega_engine *e);
mega_status engine_compare_inputs(const mega_engine *e);
int64_t engine_micro_batches(const mega_engine *e); /* returns how many the batch has */
/* step.c. A step consists of engine_step_begin, forwards and backwards, sums of gradients over the ranks, and the
 * update. engine_run_schedule runs the passes of all micro-batches of this stage; micro_batch.c runs one at a time.
 * engine_run_schedule writes only the times and micro_batches of the clock's result. */
void engine_step_begin(mega_engine *e, int64_t expected);
/* The factor from the sums of gradients in memory to the gradients of the step, whose samples r has (see
 * train_batch). */
double engine_correction(const mega_engine *e, const engine_sums *sums, const mega_step_result *r);
mega_status engine_run_schedule(mega_engine *e, engine_sums *sums, step_clock *clock);
mega_status engine_run_pass(mega_engine *e, const mega_schedule_step *s, bool is_first, bool is_last,
                            engine_sums *sums);
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
mega_status engine_overflow(mega_engine *e, mega_step_result *r);
void engine_scale_good_step(mega_engine *e);
void engine_scale_reset(mega_engine *e); /* the scale of the options */
/* Returns what a message about a gradient adds about the scale: "" without fp16. */
const char *engine_scale_text(const mega_engine *e, char out[64]);
mega_status engine_scale_save(const mega_engine *e, json_t *root);
mega_status engine_scale_load(mega_engine *e, const json_t *root);
void engine_scale_load_skipped(mega_engine *e, const json_t *root);             /* the number of skipped steps alone */
void engine_note(const mega_engine *e, const char *phase, int64_t micro_batch); /* publishes what this rank is doing */
/* micro_batch.c. Discards the micro-batches since the last update. */
void engine_micro_discard(mega_engine *e);
/* data.c. With drop_last, cuts the epochs of the training data to whole global batches. */
mega_status engine_cut_epochs(mega_engine *e);
/* batches.c. Reads the samples of the next micro-batch or step from the training data into the batch. */
mega_status engine_read_training_data(mega_engine *e, engine_batch_of of);
/* setup.c. Converts mega_setup to e->options, and creates the world and the team unless mega_setup has them. */
mega_status engine_read_setup(mega_engine *e, const mega_setup *setup);
/* Rewrites the message of failure st so that options are named as the caller wrote them (argv or JSON). Returns st. */
mega_status engine_spell(const mega_engine *e, mega_status st);
void engine_forget_setup(mega_engine *e);
/* evaluate.c. Returns the weight of a micro-batch in the sums of an evaluation; 0: it is padding. */
double engine_evaluated_times(const mega_engine *e, int64_t micro_batch);
/* client_state.c. engine_start_again resets the engine to step 0 and zeroes the optimizer states. */
void engine_client_free(mega_engine *e);
void engine_start_again(mega_engine *e);
/* compare_links.c. Collective over pp. Checks that both ends of each link expect the same messages in these steps. */
mega_status engine_compare_links(const mega_engine *e, const mega_schedule_step *step, int64_t steps, engine_kind kind);
/* update.c. engine_find_ties lists the parameters that other stages hold too. engine_make_update makes the update
 * program from them, the optimizer and the losses. */
mega_status engine_find_ties(mega_engine *e);
mega_status engine_make_update(mega_engine *e);
bool engine_reduces(const mega_engine *e, int bucket); /* some program sums the bucket over dp (mega_program_reduces) */
void engine_await_weights(const mega_engine *e,
                          mega_program *p);         /* its forward waits for the weights of the last update */
mega_status engine_wait_reductions(mega_engine *e); /* waits for the sums that backward programs started */
/* Both are collective over the world. They run the two parts of the update program. */
mega_status engine_finish_gradients(mega_engine *e, engine_sums *sums, mega_step_result *r);
mega_status engine_update(mega_engine *e, mega_step_result *r);
/* weights.c. Collective over the world where the optimizer has other weights for evaluations (optimizer_state.h): puts
 * these, or those of the training, in place. */
mega_status engine_show_average(mega_engine *e);
mega_status engine_show_trained(mega_engine *e);
/* What the compression of 1-bit Adam has lost, in a checkpoint: on how many ranks of dp (0: it has nothing of this),
 * and whether these are the ranks of this layout, which then goes on with it. Otherwise it starts at 0. */
typedef struct engine_errors {
    int ranks;
    bool is_own;
} engine_errors;
engine_errors engine_errors_here(const mega_engine *e);
engine_errors engine_errors_there(const mega_engine *e, const json_t *root);
mega_status engine_errors_save(const mega_engine *e, json_t *root);
void engine_errors_clear(mega_engine *e);
/* The optimizer's numbers in run.json. */
mega_status engine_numbers_save(const mega_engine *e, json_t *root);
mega_status engine_numbers_load(mega_engine *e, const json_t *root);
/* monitor.c: monitors and profilers. begin: before the first pass of a step, with its number of micro-batches. pass:
 * after each pass, is_last: of the last micro-batch. step: after the update; `seconds`: of the whole step. memory: logs
 * the memory. event: gives a value to the monitors. None of them fails. */
void engine_monitor_begin(mega_engine *e, int64_t micro_batches);
void engine_monitor_pass(mega_engine *e, bool is_forward, bool is_last, const mega_step_times *pass);
void engine_monitor_step(mega_engine *e, const mega_step_result *r, double seconds);
void engine_monitor_memory(const mega_engine *e, const char *where);
void engine_monitor_event(mega_engine *e, const char *tag, double value);
void engine_monitor_close(mega_engine *e);
/* compare.c. Collective over the world. Checks that all ranks have the same model. */
mega_status engine_compare_models(const mega_engine *e);
/* data.c. engine_compare_data is collective over the world: checks that all ranks read the same training data.
 * engine_data_json returns the description of the training data that a checkpoint keeps in run.json, under
 * ENGINE_DATA_MEMBER; NULL: out of memory.
 * engine_check_data returns an error if the checkpoint was made with other training data. */
#define ENGINE_DATA_MEMBER "training_data"
mega_status engine_compare_data(const mega_engine *e);
json_t *engine_data_json(const mega_engine *e);
mega_status engine_check_data(const mega_engine *e, const mega_checkpoint *c);
/* step.c. Like engine_run_schedule, for one evaluation of all micro-batches. */
mega_status engine_run_evaluation(mega_engine *e, engine_sums *sums);
/* losses.c. engine_collect_losses is collective over pp: makes the list of the model's losses, and returns an error if
 * one cannot be trained. engine_compare_losses is collective over the world: checks that all ranks have the same
 * list. */
mega_status engine_collect_losses(mega_engine *e);
mega_status engine_compare_losses(const mega_engine *e);
int engine_loss_find(const mega_engine *e, const char *name); /* returns its index; -1: not found */
void engine_losses_bind(const mega_engine *e, mega_program *p, int slot, program_io *io);
/* Adds the losses of one micro-batch, multiplied by `times`, to *sums. */
void engine_losses_add(const mega_engine *e, const program_io *io, double times, engine_sums *sums);
/* Sums *sums over the ranks of comm, in one collective for all losses. */
mega_status engine_losses_reduce(const mega_engine *e, mega_comm *comm, const char *what, engine_sums *sums);
/* For a step: writes the value of each loss and metric, NAN if only evaluation computes it. Returns the sum of
 * coefficient * loss. */
double engine_losses_total(const mega_engine *e, const engine_sums *sums, double metric[MEGA_METRICS]);
void engine_losses_evaluated(const mega_engine *e, const engine_sums *sums, mega_loss_sums *out);
/* outputs.c. From now on mega_engine_read_output reads this slot of program p of the chunk. */
void engine_outputs_note(engine_chunk *c, const mega_program *p, int slot);
/* nonfinite.c. Collective over the world. Called when all ranks know that the loss, or a gradient, of this step is not
 * finite. Returns MEGA_ERR_NUMERIC, and the message names the first op on any rank whose output was not finite. */
mega_status engine_nonfinite_loss(mega_engine *e, double loss);
mega_status engine_nonfinite_gradient(mega_engine *e);
mega_status engine_nonfinite_evaluation(mega_engine *e, double loss);
void engine_search_before(engine_search *s);
void engine_search_after(const mega_engine *e, const mega_schedule_step *x);
double engine_scalar(const mega_engine *e, const void *acc); /* reads [1] of the accumulation type */

/* call_checks.c. The checks return MEGA_ERR_USAGE for a wrong call. engine_agree is collective: if one rank fails, all
 * return its error. It then returns that error at once, without communication, until the failure is forgotten, so that
 * nested calls return on all ranks. Every public call begins with engine_begin_call, which forgets an earlier failure,
 * agrees, and waits until the weights of the last update have arrived. */
mega_status engine_agree(const mega_engine *e, mega_status st);
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

/* recompute.c. engine_override_recompute writes what the options say into the model. engine_choose_regions is
 * collective over the world, if ranks run: it meets a budget. */
void engine_override_recompute(const mega_engine_options *o, mega_model *m);
mega_status engine_choose_regions(mega_engine *e, const mega_model *model);
/* engine.c. Creates layout, parameters, programs and optimizer from the options; allocates nothing large. */
mega_status engine_build(mega_engine *e, const mega_model *model);

/* chunks.c. Building and memory of the programs. Sizes are totals over all programs of this rank. */
mega_pipeline engine_pipeline(const mega_engine *e, int64_t micro_batches);
mega_program *engine_program_of(const engine_chunk *c, engine_kind kind);        /* NULL: not built */
int64_t engine_micro_batches_of(const mega_engine_options *o, engine_kind kind); /* of a run forward; each has a slot */
/* engine_describe_chunks describes the programs as graphs, which declares the parameters. Once these have their memory
 * layout, engine_build_chunks builds the programs. */
mega_status engine_describe_chunks(mega_engine *e, const mega_model *model);
mega_status engine_build_chunks(mega_engine *e);
/* Builds the training program of a chunk for the samples of `parts`, which may be shorter. */
mega_status engine_build_train(mega_engine *e, const mega_model_parts *parts, int chunk, mega_program **out);
/* Gives a training program its memory, and writes where each slot writes its losses to *out_io. */
mega_status engine_allocate_train(const mega_engine *e, mega_program *p, int slots, mega_region *keep,
                                  mega_region *work, mega_region turn, program_io **out_io);
mega_engine_cost engine_cost_of(const mega_engine *e, const mega_model_parts *parts); /* of a sample (engine.c) */
void engine_find_begun(mega_engine *e); /* engine.c: of the training programs that are in place */
void engine_destroy_chunks(mega_engine *e);
void engine_chunks_memory(const mega_engine *e, mega_engine_memory *m);
void engine_chunks_region(const mega_engine *e, size_t *stays, size_t *shared);
mega_status engine_allocate_chunks(mega_engine *e, mega_region *keep, const mega_region *work);
/* run.c. Prepares the programs that mega_engine_run runs, once the programs are allocated. */
mega_status engine_open_runs(mega_engine *e);
void engine_close_runs(mega_engine *e);
/* Returns the samples of a run of generation. */
static inline int64_t engine_run_samples(const mega_engine *e)
{
    return e->options.micro_batch * e->options.micro_batches;
}
mega_status engine_open_caches(mega_engine *e); /* caches.c; run.c closes them */

#endif
