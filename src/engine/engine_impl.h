/* What an engine is: its members in small structs by subject, and what these consist of. */
#ifndef MEGALITH_ENGINE_IMPL_H
#define MEGALITH_ENGINE_IMPL_H

#include "megalith/batch.h"
#include "megalith/device_memory.h"
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
    bool is_of_layers;             /* several parts of the model may add to it (mega_layer_loss_add) */
    bool is_trained, is_evaluated; /* a training (evaluation) program of some rank computes it */
    int counted_by[2];             /* training, evaluation: the first part of the model that computes it */
} engine_loss;

/* Sums over the micro-batches of a step or of an evaluation. For each loss: the sum of micro-batch means and their
 * number or, with per_token_loss, the sum of micro-batch sums and the sum of weights. */
enum { LOSS_SUM, LOSS_WEIGHT };
typedef struct engine_sums {
    double loss[MEGA_METRICS][2];
    bool are_deferred;        /* they are still in device memory: the end of the update reads them */
    double stops;             /* evaluation: number of ranks that a signal has asked to stop */
    mega_error_record failed; /* first error of this rank, which still sends its messages */
} engine_sums;

/* Where one slot of a program writes a loss; sum and weight are [1] in the accumulation type. */
typedef struct program_loss {
    int number;   /* index in the engine's list of losses */
    bool is_more; /* the program of another part counts the micro-batch */
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
typedef enum engine_batch_purpose {
    ENGINE_BATCH_NONE,
    ENGINE_BATCH_OF_STEP,
    ENGINE_BATCH_OF_MICRO_BATCH,
    ENGINE_BATCH_OF_EVALUATION
} engine_batch_purpose;

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
    int64_t positions;                       /* of a sample in the training programs that are in place */
    mega_engine_cost cost;                   /* of a sample of this length, if it is shorter than a whole one */
    mega_program_regions largest;            /* what the programs of the shortest samples need, together */
    mega_region resident, workspace, shared; /* memory of the training programs, whichever are in place */
    engine_stage whole_stage;                /* messages of the programs of whole samples, while others are in place */
    void *overflow;                          /* memory of programs that need more than that; NULL: none */
    size_t overflow_bytes;
    mega_observer *observer; /* of the steps, and what it is called with */
    void *user;
} engine_lengths;

/* Position of an evaluation in its part of the data set, in micro-batches over all ranks. */
typedef struct engine_evaluation_part {
    int64_t first, count; /* micro-batches before the batch; in the part (the rest is padding), 0: no data set */
    double weight;        /* of each micro-batch in the sums */
} engine_evaluation_part;

/* A copy between the caches of two samples (caches.c). */
typedef struct engine_move {
    int32_t to, from;
} engine_move;

/* State of the programs that mega_engine_run runs one at a time, forward only (run.c). */
typedef struct engine_runs {
    engine_stage stage[ENGINE_KINDS]; /* for ENGINE_PREFILL and ENGINE_DECODE */
    mega_batch *batch[ENGINE_KINDS];  /* for ENGINE_PREFILL and ENGINE_DECODE */
    int32_t *filled;                  /* [samples of a run] filled positions of each one's cache; NULL: no cache */
    engine_move *move;                /* [moves] while caches are moved, in order */
    int64_t moves;
    int32_t *users;  /* [samples] how many others still need this one's cache */
    bool *has_moved; /* [samples] */
    void *space;     /* a cache of one sample */
    size_t space_bytes;
    mega_error_record failed; /* first error of this rank since the last wait */
} engine_runs;

/* The parameters of this rank that other stages hold too, in model order (update.c). */
typedef struct engine_ties {
    mega_update_tie *tie;
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
    mega_schedule_pass *schedule;       /* buffer, long enough for the largest batch */
    bool *overwritten;                  /* [parameters] the first micro-batch of a step overwrites the gradient */
    bool is_level_set;                  /* a plan of recompute.c: recompute at this level (model_parts.h) */
    int level;
} engine_programs;

/* Memory, and what it holds. */
typedef struct engine_arena {
    mega_device *device; /* that computes; NULL: the host */
    void *arena;         /* all large buffers, in one memory mapping */
    size_t bytes;
    double *losses;    /* in it: engine_sums.loss while micro-batches run (losses.c) */
    bool is_allocated; /* all ranks have allocated their memory */
    bool initializes;  /* mega_engine_allocate initializes the weights */
    bool has_weights;  /* initialized or loaded */
    bool has_moments;  /* initialized, or a load has started: optimizer states may be nonzero */
} engine_arena;

/* Where samples come from (batches.c, data.c, evaluate.c). */
typedef struct engine_data {
    mega_batch *batch;
    engine_batch_purpose purpose;
    int64_t capacity; /* of the batch, in rows */
    mega_dataset set; /* training data of mega_setup */
    bool has_set;
    uint64_t hash;       /* 0 without set.hash */
    mega_reader *reader; /* reads training data ahead; NULL: the caller's thread reads them */
    engine_evaluation_part evaluated;
} engine_data;

/* Numbers of the step. */
typedef struct engine_step {
    int64_t expected_micro_batches; /* what the loss factor of the current step assumes */
    bool are_losses_deferred;       /* engine_sums.are_deferred */
    double grad_norm;               /* gradient norm of the last step; NAN: it was skipped */
    mega_loss_scale scale;          /* of the next step, with fp16 */
    mega_lr_scheduler scheduler;    /* lr NULL: options.schedule */
} engine_step;

/* A result, and the counters after its step. iteration 0: none. */
typedef struct engine_answer {
    mega_step_result result;
    mega_engine_progress progress;
} engine_answer;

/* A step whose numbers the device has still to say (late.c). */
typedef struct engine_late {
    mega_batch *rows; /* another batch: the rows of that step, while data.batch is filled for the next; NULL: none */
    bool is_awaited;
    mega_step_result result;     /* of it, without those numbers */
    mega_engine_progress before; /* the counters before it */
    engine_answer next;          /* what the next call of mega_engine_train_batch returns */
    mega_engine_progress told;   /* the counters after the step whose result was returned last */
} engine_late;

/* Checkpoints. */
typedef struct engine_saving {
    int64_t max_shard_size;       /* bytes of a file of weights; 0: no limit */
    mega_dtype dtype;             /* dtype of the weights that mega_engine_save_checkpoint writes */
    int keep;                     /* checkpoints */
    struct engine_client *client; /* the caller's state from the last load (client_state.c) */
} engine_saving;

/* What the engine created from mega_setup (setup.c). */
typedef struct engine_owned {
    mega_world *world; /* NULL, as team: the caller's */
    mega_team *team;
    bool uses; /* the world, team and training data, whoever owns them, count this engine as a user */
    struct setup_values *as_given; /* options as given in argv and a JSON, for messages; NULL: given as numbers */
} engine_owned;

/* What looks on while a step runs. */
typedef struct engine_watch {
    mega_profile *profile;   /* borrowed; NULL: steps are not profiled */
    engine_search *search;   /* borrowed; NULL: no search for non-finite values */
    engine_monitor *monitor; /* NULL: none, or no step yet */
} engine_watch;

/* Calls that have not returned (busy.c). */
typedef struct engine_calls {
    atomic_int lr_depth;           /* of step.scheduler.lr */
    _Atomic(uint64_t) lr_thread;   /* the thread that runs it; 0: none */
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
    engine_late late;
    engine_gradients gradients;
    engine_lengths lengths;
    engine_micro micro;
    engine_runs runs;
    engine_saving saving;
    engine_owned owned;
    engine_watch watch;
    engine_calls calls;
};

#endif
