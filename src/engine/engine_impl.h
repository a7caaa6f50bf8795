/* What the files of the engine share. */
#ifndef MEGALITH_ENGINE_IMPL_H
#define MEGALITH_ENGINE_IMPL_H

#include "megalith/batch.h"
#include "megalith/engine_commands.h"
#include "megalith/pipeline.h"
#include "megalith/reader.h"
#include "stage.h"
#include <jansson.h>

typedef struct engine_chunk engine_chunk;
typedef struct engine_search engine_search;

/* A loss or a metric of the model, in the order that all ranks share. */
typedef struct engine_loss {
    char name[MEGA_LOSS_NAME];
    double coefficient;
    bool is_trained, is_evaluated; /* a training, an evaluation program of some rank computes it */
} engine_loss;

/* What a run over the schedule of a step adds up. By loss: the means of micro-batches and their number or, with
 * per_token_loss, the sums and the weights of micro-batches. */
enum { LOSS_SUM, LOSS_WEIGHT };
typedef struct engine_sums {
    double of[MEGA_METRICS][2];
    double stops;             /* evaluation: ranks that a signal asks to stop */
    mega_error_record failed; /* of this rank, which goes on sending what others wait for */
} engine_sums;

/* Where one slot of a program leaves a loss, both [1] acc. */
typedef struct program_loss {
    int number; /* in the engine's list */
    const void *sum, *weight;
} program_loss;

/* The losses of one slot of a program. */
typedef struct program_io {
    program_loss loss[MEGA_METRICS];
    int num_losses;
} program_io;

/* A parameter that several pipeline stages hold. */
typedef struct engine_tie {
    int param;
    mega_members stages;
} engine_tie;

/* One part of the model that this rank runs. */
struct engine_chunk {
    mega_graph *graph[ENGINE_KINDS]; /* described, not built yet */
    mega_program *train, *evaluate;
    mega_program *prefill, *decode; /* of generation; decode uses the caches of prefill */
    int slots;                      /* of train: micro-batches in flight */
    program_io *train_io;           /* one a slot */
    program_io evaluate_io;
    const mega_program *ran; /* the last forward was of this program and slot; NULL: there was none */
    int ran_slot;
};

/* Whose rows the batch was last asked for. */
typedef enum engine_batch_of {
    ENGINE_BATCH_NONE,
    ENGINE_BATCH_OF_STEP,
    ENGINE_BATCH_OF_MICRO_BATCH,
    ENGINE_BATCH_OF_EVALUATION
} engine_batch_of;

/* The last call of the three that a micro-batch takes. */
typedef enum engine_phase { ENGINE_STEPPED, ENGINE_FORWARDED, ENGINE_BACKWARDED } engine_phase;

/* Micro-batches that the caller runs one at a time (micro_batch.c). */
typedef struct engine_micro {
    engine_phase phase;
    int64_t done; /* since the last update */
    bool is_boundary_set, is_boundary;
    bool was_applied; /* the last step updated the weights */
    engine_sums sums;
    mega_step_result result; /* times */
} engine_micro;

/* Gradients that mega_engine_get_param can read. */
typedef struct engine_gradients {
    bool are_summed;   /* over micro-batches and ranks */
    double correction; /* by which the numbers in memory are multiplied */
} engine_gradients;

/* Micro-batches over all ranks, of a part of a data set under evaluation. */
typedef struct engine_evaluated {
    int64_t first, count; /* that come before the batch; of the part: later ones are padding; 0: no data set */
    double times;         /* what each counts as */
} engine_evaluated;

/* Programs that only run forward, one at a time (run.c). */
typedef struct engine_runs {
    engine_stage stage[ENGINE_KINDS]; /* of prefill and decode */
    mega_batch *batch[ENGINE_KINDS];  /* of prefill and decode */
    int32_t *filled;                  /* [micro_batch] positions of each sample's cache; NULL: there is none */
    mega_error_record failed;         /* of this rank since the last wait */
} engine_runs;

struct mega_engine {
    mega_engine_options options;
    mega_layout *layout;
    mega_params *params;
    mega_model_parts *parts; /* what the walk over the whole model found */
    engine_tie *tie;         /* parameters of this rank that other stages hold too, in the order of the model */
    int ties;
    int *tied_stages; /* of all ties, one after the other */
    mega_optimizer *optimizer;
    engine_chunk *chunk; /* programs: one, or several where pipeline stages are interleaved */
    int chunks;
    mega_program *train, *evaluate; /* of the first chunk; NULL where left out */
    engine_loss loss[MEGA_METRICS];
    int num_losses;
    bool *begun; /* by parameter: its gradient is overwritten by the first micro-batch of a step */
    engine_stage stage, evaluate_stage; /* what train and evaluate exchange with other pipeline stages */
    mega_schedule_step *schedule;       /* room for the largest batch */
    mega_batch *batch;
    engine_batch_of batch_of;
    bool has_weights;       /* initialized or loaded */
    bool has_moments;       /* initialized, or a load began: optimizer states may be others than 0 */
    int64_t batch_capacity; /* rows */
    bool is_allocated;      /* on all ranks */
    void *arena;            /* everything large, in one mapping */
    size_t arena_bytes;
    void *gradient_scratch; /* that sums of gradients go through */
    mega_engine_progress progress;
    engine_evaluated evaluated;
    int64_t expected; /* micro-batches that the loss factor of the step under way counts on */
    engine_micro micro;
    engine_runs runs;
    engine_gradients gradients;
    double grad_norm; /* of the last update */
    mega_dataset training_data;
    bool has_training_data;
    uint64_t training_data_hash;    /* 0 without training_data.hash */
    mega_reader *reader;            /* reads them ahead; NULL: they are read on the caller's thread */
    mega_lr_scheduler lr_scheduler; /* lr NULL: options.schedule */
    bool initializes;               /* mega_engine_allocate gives the weights their first values */
    mega_dtype save_dtype;          /* of mega_engine_save_checkpoint */
    int keep_checkpoints;
    mega_world *own_world; /* those that the engine created */
    mega_team *own_team;
    struct setup_values *said;    /* what argv and a JSON said, for messages; NULL: the options came as numbers */
    struct engine_client *client; /* of the last load (client.c) */
    mega_profile *profile;        /* borrowed; NULL: steps are not profiled */
    engine_search *search;        /* borrowed; NULL: nobody looks for what is not finite */
};

/* inputs.c. Collective over pp: makes the batches, with a column for each named input of the model.
 * engine_compare_inputs is collective over the world: all ranks have the same inputs. */
mega_status engine_collect_inputs(mega_engine *e);
mega_status engine_compare_inputs(const mega_engine *e);
int64_t engine_micro_batches(const mega_engine *e); /* of the batch */
/* step.c. A step is: begin, forwards and backwards, the sums of gradients over the ranks, the update. A schedule runs
 * those of all micro-batches of this stage; micro_batch.c runs one at a time. What engine_run_schedule leaves in r are times.
 */
void engine_step_begin(mega_engine *e, int64_t expected);
mega_status engine_run_schedule(mega_engine *e, engine_sums *sums, mega_step_result *r);
mega_status engine_run_pass(mega_engine *e, const mega_schedule_step *s, bool is_first, bool is_last,
                            engine_sums *sums);
mega_status engine_finish_gradients(mega_engine *e, engine_sums *sums, mega_step_result *r); /* Collective: world */
mega_status engine_update(mega_engine *e, mega_step_result *r);                              /* Collective: world */
void engine_note(const mega_engine *e, const char *phase, int64_t micro_batch); /* where this rank is, for others */
/* micro_batch.c: forgets the micro-batches since the last update. */
void engine_micro_discard(mega_engine *e);
/* engine.c: the coming micro-batch or step from the training data. */
mega_status engine_read_training_data(mega_engine *e, engine_batch_of of);
/* setup.c: what mega_setup says, into options; the world and the team that it does not give. */
mega_status engine_read_setup(mega_engine *e, const mega_setup *setup);
/* The failure st with its options spelled as the caller wrote them (argv or a JSON). Returns st. */
mega_status engine_spell(const mega_engine *e, mega_status st);
void engine_forget_setup(mega_engine *e);
/* evaluate.c: what a micro-batch of an evaluation counts as; 0: it is padding. */
double engine_evaluated_times(const mega_engine *e, int64_t micro_batch);
/* client.c. engine_start_again: step 0, with optimizer states of 0. */
void engine_client_free(mega_engine *e);
void engine_start_again(mega_engine *e);
/* compare_links.c. Collective over pp: the messages of these steps are the same at both ends of each link. */
mega_status engine_compare_links(const mega_engine *e, const mega_schedule_step *step, int64_t steps, engine_kind kind);
/* gradients.c. Which parameters other stages hold too; the memory that sums of gradients go through. */
mega_status engine_find_ties(mega_engine *e);
size_t engine_gradient_scratch_bytes(const mega_engine *e);
bool engine_reduces(const mega_engine *e, int bucket); /* one of the programs sums it over dp (mega_program_reduces) */
mega_status engine_wait_reductions(mega_engine *e);    /* what programs began is through */
mega_status engine_sum_gradients(mega_engine *e);      /* what they do not sum */
/* compare.c. Collective over the world: all ranks have the same model. */
mega_status engine_compare_models(const mega_engine *e);
/* data.c. engine_compare_data is collective over the world: all ranks read the same training data.
 * engine_data_json: what a checkpoint keeps of them, under ENGINE_DATA_MEMBER in run.json; NULL: no memory.
 * engine_check_data: refuses a checkpoint that was made with others. */
#define ENGINE_DATA_MEMBER "training_data"
mega_status engine_compare_data(const mega_engine *e);
json_t *engine_data_json(const mega_engine *e);
mega_status engine_check_data(const mega_engine *e, const mega_checkpoint *c);
/* The same for one evaluation of all micro-batches. */
mega_status engine_run_evaluation(mega_engine *e, engine_sums *sums);
/* losses.c. Collective over pp: makes the list of the model's losses, and refuses one that cannot be trained.
 * engine_compare_losses is collective over the world: all ranks have the same list. */
mega_status engine_collect_losses(mega_engine *e);
mega_status engine_compare_losses(const mega_engine *e);
int engine_loss_find(const mega_engine *e, const char *name); /* -1: none of that name */
void engine_losses_bind(const mega_engine *e, mega_program *p, int slot, program_io *io);
/* Adds the losses of one micro-batch, multiplied by `times`. */
void engine_losses_add(const mega_engine *e, const program_io *io, double times, engine_sums *sums);
/* Sums over the ranks of comm: one collective, however many losses there are. */
mega_status engine_losses_reduce(const mega_engine *e, mega_comm *comm, const char *what, engine_sums *sums);
/* Of a step: the quotients, NAN for a loss that evaluation alone computes; returns the sum of coefficient * loss. */
double engine_losses_total(const mega_engine *e, const engine_sums *sums, double metric[MEGA_METRICS]);
void engine_losses_evaluated(const mega_engine *e, const engine_sums *sums, mega_loss_sums *out);
/* outputs.c: what mega_engine_read_output reads is from now on of this slot of a program of the chunk. */
void engine_outputs_note(engine_chunk *c, const mega_program *p, int slot);
/* nonfinite.c. Collective over the world, where all ranks know that the loss, or a gradient, of this step is not
 * finite: MEGA_ERR_NUMERIC, with the first op of any rank whose output was not. */
mega_status engine_nonfinite_loss(mega_engine *e, double loss);
mega_status engine_nonfinite_gradient(mega_engine *e);
mega_status engine_nonfinite_evaluation(mega_engine *e, double loss);
void engine_search_before(engine_search *s);
void engine_search_after(const mega_engine *e, const mega_schedule_step *x);
double engine_scalar(const mega_engine *e, const void *acc); /* [1] acc as double */

/* call_checks.c: MEGA_ERR_USAGE for a call that is wrong. engine_agree is collective: one rank's failure is that of all.
 * Until the world forgets that failure it gives st back at once, so that ranks leave nested calls without a word; a
 * call of the user's begins with engine_begin_call, which forgets an earlier one and agrees. */
mega_status engine_agree(const mega_engine *e, mega_status st);
mega_status engine_begin_call(const mega_engine *e, mega_status st);
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
mega_status engine_check_ramp(const mega_engine *e); /* once there is a layout */
/* options.c: each number is in its range. Collective: and ranks have the same. */
mega_status engine_check_ranges(const mega_engine_options *o);
mega_status engine_compare_options(const mega_engine_options *o);

/* chunks.c: building, memory and places of the programs. Regions and memory are of all of them together. */
mega_pipeline engine_pipeline(const mega_engine *e, int64_t micro_batches);
mega_program *engine_program_of(const engine_chunk *c, engine_kind kind); /* NULL where left out */
/* Describes the programs into graphs, which declares the parameters; once these are placed, builds the programs. */
mega_status engine_describe_chunks(mega_engine *e, const mega_model *model);
mega_status engine_build_chunks(mega_engine *e);
void engine_destroy_chunks(mega_engine *e);
void engine_chunks_memory(const mega_engine *e, mega_engine_memory *m);
void engine_chunks_region(const mega_engine *e, size_t *stays, size_t *shared);
mega_status engine_allocate_chunks(mega_engine *e, mega_region *keep, const mega_region *work);
/* run.c: the memory of programs that only run forward, once these are allocated. */
mega_status engine_open_runs(mega_engine *e);
void engine_close_runs(mega_engine *e);

#endif
