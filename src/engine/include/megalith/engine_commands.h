/* What the commands of megalith use of an engine beside engine.h: settings as numbers, its programs and parameters,
 * evaluation by the batch, profiles, saving and loading with everything that a command may ask for. Not installed. */
#ifndef MEGALITH_ENGINE_COMMANDS_H
#define MEGALITH_ENGINE_COMMANDS_H

#include "megalith/checkpoint.h"
#include "megalith/engine.h"
#include "megalith/engine_settings.h"
#include "megalith/graph.h"
#include "megalith/model_parts.h"
#include "megalith/optim.h"
#include "megalith/parameter.h"
#include "megalith/profile.h"
#include "megalith/program.h"
#include "megalith/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mega_engine_options {
    mega_dtype compute;       /* F32, BF16, F64 (plain kernels only) */
    bool plain;               /* plain kernels */
    mega_team *team;          /* borrowed; NULL: one thread */
    mega_world *world;        /* borrowed; NULL: one rank */
    mega_layout_sizes layout; /* how its ranks divide; zeros: all of them are data parallel */
    int stage_programs;       /* programs per pipeline stage, which the schedule interleaves; 0: 1 */
    int64_t micro_batch, seq;
    mega_batch_ramp batch;      /* micro_step: micro_batch x data-parallel ranks */
    bool no_train, no_evaluate; /* leave that program out */
    /* The two programs of generation in place of those (mode MEGA_GENERATE): micro_batch samples side by side, of up to
     * seq positions each, the new ones included. prefill: rows of each sample that a prompt is read by; 0: 64, or seq
     * where that is less. */
    bool generate;
    int64_t prefill;
    bool no_pack_weights; /* products pack them anew each time, which takes less memory */
    bool per_token_loss;  /* mean over the tokens of a step, not over micro-batches; for one trained loss */
    double clip_grad;     /* 0: no clipping */
    uint32_t dropout_seed;
    mega_optimizer_options optimizer;
    mega_lr_schedule schedule;
    int64_t bucket_elements; /* 0: 40,000,000 */
    /* Gradients that ranks of tp add up under sequence parallelism go together, as many elements at a time; a larger
     * one goes alone. 0: 262,144. */
    int64_t tp_sum_elements;
    int zero_stage;           /* mega_params_shard */
    int64_t zero_persistence; /* mega_params_persist */
    mega_place_options place;
};

/* Everything but `team` and `world`, which stay NULL, `seq`, `no_train`, `no_evaluate` and the planned ranks of
 * `layout`, which are 0. */
mega_status mega_engine_options_from_settings(mega_engine_options *out, const mega_engine_settings *s);

/* What mega_engine_create is given is compared: ranks with another option get MEGA_ERR_COMM, with what each of them
 * has. A number that is out of its range is MEGA_ERR_USAGE. */

/* ---- what an engine consists of ---- */

const mega_program *mega_engine_program(const mega_engine *e, bool train); /* NULL where left out; of chunk 0 */
/* Of the other chunks of an interleaved pipeline stage, which has so many. */
const mega_program *mega_engine_chunk_program(const mega_engine *e, int chunk, bool train);
int mega_engine_chunks(const mega_engine *e);
mega_params *mega_engine_params(const mega_engine *e);
const mega_params *mega_engine_whole(const mega_engine *e);      /* the records of all pipeline stages, in every rank */
const mega_model_parts *mega_engine_parts(const mega_engine *e); /* what the walk over the whole model found */
mega_optimizer *mega_engine_optimizer(const mega_engine *e);

/* Collective: whether the ranks of each group have programs that make the same calls, before they wait for each other.
 */
mega_status mega_engine_compare_ranks(const mega_engine *e);

/* ---- evaluation by the batch ---- */

/* For an evaluation: `rows` samples of this rank, a multiple of the micro-batch, at most the largest global batch.
 * first: what mega_sample_index is for the first sample of all ranks. Same memory; NULL for another number. */
mega_batch *mega_engine_evaluation_batch(mega_engine *e, int64_t rows, int64_t first);
/* Adds the rows of the evaluation batch to sums: total of micro-batch means (or of token losses) and how many. Returns
 * MEGA_ERR_NUMERIC if the loss is not finite; on all ranks MEGA_ERR_INTERRUPTED, and adds nothing, once the team of one
 * is asked to stop (mega_team_stop_on): after the instruction under way on the ranks of its host. */
typedef struct mega_loss_sums {
    double loss, count;                                /* loss / count: of the sum of coefficient * loss */
    double metric[MEGA_METRICS], weight[MEGA_METRICS]; /* metric / weight: of each loss and metric */
} mega_loss_sums;
mega_status mega_engine_evaluate_batch(mega_engine *e, mega_loss_sums *sums);
/* Collective over the world. The same for `rows` samples of each rank that the engine reads: those of
 * mega_engine_evaluation_batch(e, rows, first), in the order that the data set and the seed of the engine give. Returns
 * also the status of a callback of the data set that failed. */
mega_status mega_engine_evaluate_part(mega_engine *e, const mega_dataset *dataset, int64_t first, int64_t rows,
                                      mega_loss_sums *sums);

typedef struct mega_engine_progress {
    int64_t iteration;              /* steps done */
    int64_t consumed_samples;       /* of training */
    int64_t consumed_valid_samples; /* kept for the caller: saved and loaded with the rest */
    int64_t schedule_samples;       /* the n of the learning rate */
} mega_engine_progress;
mega_engine_progress *mega_engine_progress_get(mega_engine *e);
/* As created with, or as a load took it from a checkpoint. */
const mega_lr_schedule *mega_engine_schedule(const mega_engine *e);

/* ---- looking on ---- */

/* The coming steps write their instructions and their optimizer into the profile (borrowed); NULL: no more. */
void mega_engine_profile(mega_engine *e, mega_profile *profile);
/* The coming steps hand what their instructions make to this function (mega_program_observe); NULL: no more. */
void mega_engine_observe(mega_engine *e, mega_observer *observer, void *user);

/* ---- checkpoints ---- */

/* As mega_engine_save_checkpoint, with more to say. */
typedef struct mega_engine_save_options {
    const char *folder;
    const char *tag;                 /* the checkpoint is folder/tag; NULL: folder/iter_N */
    const mega_model_shape *shape;   /* NULL: the model is no Hugging Face family (checkpoint.h) */
    const mega_tokenizer *tokenizer; /* or NULL */
    mega_dtype save_dtype;           /* of the weights; the exact masters are then kept in state/ */
    bool no_optim, no_rng;
    const char *extra_json; /* an object whose members join run.json under names of their own, or NULL */
    const mega_client_array *client_array;
    int num_client_arrays;
    const char *model_card; /* or NULL */
    int keep;               /* newest checkpoints kept; 0: all */
    mega_lock *lock;        /* of the folder, in the first rank, or NULL */
} mega_engine_save_options;
/* Collective: every rank writes what it holds. The folder is the same whatever the layout; the text, tokenizer, card
 * and extra_json are the first rank's. */
mega_status mega_engine_save(mega_engine *e, const mega_engine_save_options *o);
/* Bytes of its tensors, which are nearly all of it; `o` needs only save_dtype and no_optim. Before anything is
 * allocated as well. */
int64_t mega_engine_save_bytes(const mega_engine *e, const mega_engine_save_options *o);

typedef struct mega_engine_load_options {
    bool finetune;                /* weights only, iteration 0 */
    bool no_optim, no_rng;        /* no_optim: neither optimizer states nor the schedule and its position */
    bool no_states;               /* no optimizer states */
    bool no_schedule;             /* neither the schedule nor its position: those of the engine stay */
    bool override_schedule;       /* the options win over the stored schedule */
    bool use_checkpoint_schedule; /* the stored schedule wins; with finetune it begins at its first sample */
} mega_engine_load_options;
typedef struct mega_engine_loaded {
    bool optimizer; /* moments and schedule came with it */
    bool resumed;   /* iteration and samples came with it */
} mega_engine_loaded;
/* Whether mega_engine_load will take the state of an opened folder: optimizer and schedule are looked at, tensors are
 * not. Before there is an engine; MEGA_ERR_USAGE where options contradict the folder. */
mega_status mega_engine_check_load(const mega_engine_options *e, const mega_checkpoint *c,
                                   const mega_engine_load_options *o);
/* Whether the folder holds every weight of the engine's model with its shape. Before mega_engine_allocate. */
mega_status mega_engine_check_tensors(const mega_engine *e, mega_checkpoint *c);
/* Weights from an opened folder, and, where it has them, moments and progress: of each tensor what this rank holds.
 * Collective. What is refused (options, names, shapes) leaves the engine as it was; after a failure to read it has no
 * values, until mega_engine_initialize or another load. */
mega_status mega_engine_load(mega_engine *e, mega_checkpoint *c, const mega_engine_load_options *o,
                             mega_engine_loaded *out);

#ifdef __cplusplus
}
#endif

#endif
