/* What megalith's own commands use of an engine in addition to engine.h: settings as numbers, programs and parameters,
 * evaluation by batches, profiles, and saving and loading with the options of the commands. Not installed. */
#ifndef MEGALITH_ENGINE_COMMANDS_H
#define MEGALITH_ENGINE_COMMANDS_H

#include "megalith/checkpoint.h"
#include "megalith/device_memory.h"
#include "megalith/engine.h"
#include "megalith/engine_settings.h"
#include "megalith/graph.h"
#include "megalith/loss_scale.h"
#include "megalith/model_parts.h"
#include "megalith/parameter.h"
#include "megalith/profile.h"
#include "megalith/program.h"
#include "megalith/schedule.h"
#include "megalith/update.h"

/* Which layers are recomputed in the backward. Zero-initialized: as the model says. */
typedef struct mega_recompute_options {
    bool replaces; /* interval and regions replace those of the model (mega_model.recompute_…) */
    int interval, regions;
    bool distribute; /* as mega_model.distribute_saved */
    /* bytes that a rank may use for saved values and scratch; 0: no limit. As few layers as this allows are recomputed,
     * whatever the model and the members above say. mega_engine_create returns MEGA_ERR_MEMORY if no choice fits */
    int64_t budget;
} mega_recompute_options;

/* How gradients are summed over dp. Zero-initialized: as they are, divided by the number of ranks before the sum. */
typedef struct mega_gradient_sums {
    mega_dtype dtype; /* mega_params_sum_in */
    double
        predivide; /* gradients are divided by it before the sum, and by ranks / predivide after it; 0: by the ranks */
} mega_gradient_sums;

struct mega_engine_options {
    mega_dtype compute;        /* F32, BF16, F16, F64 (plain kernels only) */
    mega_backend_kind backend; /* of the kernels */
    int64_t gpu;               /* with MEGA_BACKEND_CUDA: number of this rank's GPU, from 0 */
    mega_team *team;           /* borrowed; NULL: one thread */
    mega_world *world;         /* borrowed; NULL: one rank */
    mega_layout_sizes layout;  /* sizes of its groups of ranks; zeros: all ranks data parallel */
    int stage_programs;        /* programs per pipeline stage that the schedule interleaves; 0: 1 */
    int64_t micro_batch, seq;
    mega_batch_ramp batch;      /* micro_step: micro_batch x number of data-parallel ranks */
    mega_curriculum curriculum; /* training steps read the first positions of samples; its lists are borrowed */
    bool no_train, no_evaluate; /* do not build that program */
    /* Mode MEGA_GENERATE: build the two programs of generation instead. They run micro_batch samples at a time, each of
     * at most seq positions, prompt and new positions together. prefill: rows of each sample that are read at a time
     * from a prompt; 0: 64, or seq if that is less. micro_batches: of a run, which pipeline stages work on at the same
     * time; 0: 1. */
    bool generate;
    int64_t prefill, micro_batches;
    bool drop_last;             /* of each epoch of training_data, read only whole global batches; not with a ramp */
    bool no_pack_weights;       /* GEMMs pack weights at each call: less memory, more time */
    const char *matmul_library; /* of a GPU: as mega_cuda_use_library takes it; NULL: own kernels */
    bool no_graphs;             /* a GPU is given the launches of a pass one by one, not as a graph */
    bool late_results;          /* mega_engine_await_step */
    /* Ranks with GPUs exchange by NCCL where they can. needs_nccl: it is an error where they cannot; no_nccl: they do
     * not. */
    bool needs_nccl, no_nccl;
    bool per_token_loss; /* mean over tokens of a step, not over micro-batches; needs one trained loss */
    double clip_grad;    /* 0: no clipping */
    /* Only with compute F16. fixed and initial 0: a dynamic scale with Megatron-LM's rules and defaults. */
    mega_loss_scale_options loss_scale;
    uint32_t dropout_seed;
    mega_optimizer_options optimizer;
    const char **group; /* parameter_group.h; borrowed while the engine is created; the same on all ranks */
    size_t num_groups;
    mega_lr_schedule schedule;
    mega_step_schedule step_schedule; /* gives the learning rate, unless its kind is NONE */
    int64_t bucket_elements;          /* 0: 40,000,000 */
    /* Under sequence parallelism, the ranks of tp sum some gradients in buffers of at most this many elements; a larger
     * gradient is summed on its own. 0: 262,144. */
    int64_t tp_sum_elements;
    int zero_stage;           /* see mega_params_shard */
    int64_t zero_persistence; /* see mega_params_persist */
    mega_place_options place;
    const mega_monitor_options *monitor; /* borrowed; NULL: none */
    mega_options *given; /* the options as read, which monitors keep with their values; borrowed; NULL: none */
    mega_recompute_options recompute;
    mega_gradient_sums sums;
    /* mega_params_hold_gradients_in: F32 (which is F64 with compute F64), BF16, or with compute F16 also F16. */
    mega_dtype grad_accum_dtype;
};

/* Sets the members of *out from the settings. Not set: `team` and `world` (NULL), `seq`, `no_train`, `no_evaluate` and
 * the planned ranks of `layout` (0). */
mega_status mega_engine_options_from_settings(const mega_engine_settings *s, mega_engine_options *out);

/* mega_engine_create compares the options of all ranks and returns MEGA_ERR_COMM if one differs, with the value of each
 * rank, or MEGA_ERR_USAGE if a number is out of range. */

/* ---- what an engine consists of ---- */

/* For chunk 0; NULL: not built. Under a curriculum the program of training is valid until a step of another length. */
const mega_program *mega_engine_program(const mega_engine *e, bool train);
/* Returns the program of one chunk of an interleaved pipeline stage; mega_engine_chunks returns the number of
 * chunks. Under a curriculum the program of training is valid until a step of another length. */
const mega_program *mega_engine_chunk_program(const mega_engine *e, int chunk, bool train);
int mega_engine_chunks(const mega_engine *e);
const mega_update *mega_engine_update_program(const mega_engine *e); /* the end of a step; NULL: it does not train */
/* Waits for the weights of the last update; NULL if that fails. */
mega_params *mega_engine_params(const mega_engine *e);
const mega_params *mega_engine_whole(const mega_engine *e);      /* parameter records of all stages, on every rank */
const mega_model_parts *mega_engine_parts(const mega_engine *e); /* the parts of the whole model */
mega_optimizer *mega_engine_optimizer(const mega_engine *e);

/* Collective over the world. Checks that the ranks of each group make the same exchanges, and that there is one order
 * of those of all groups; otherwise they would wait for each other. Call it after mega_engine_allocate: before, the
 * stages of a pipeline are compared with their neighbours only; and before the first run. */
mega_status mega_engine_compare_ranks(mega_engine *e);

/* ---- generation ---- */

enum { MEGA_RUN_MICRO_BATCHES = 64 }; /* the most of a run */
/* Returns the samples of a run, micro_batch * micro_batches: those of the batch of mega_engine_run_batch. */
int64_t mega_engine_run_samples(const mega_engine *e);
/* The same as mega_engine_run_output for one micro-batch of the run, from 0. */
bool mega_engine_run_output_of(const mega_engine *e, mega_run program, const char *output, int64_t micro_batch,
                               mega_run_value *out);
/* Local, between mega_engine_wait and the next mega_engine_run. Replaces the keys and values of each sample b by those
 * that sample source[b] had before the call, source [mega_engine_run_samples], at positions first … end - 1 of the
 * sequences. The keys and values of a source stay where they are: samples that change places must have the same source,
 * as beams of one prompt have. Nothing is allocated. Returns MEGA_ERR_USAGE if the engine does not generate or a number
 * is out of range. */
mega_status mega_engine_select_caches(mega_engine *e, const int32_t *source, int64_t first, int64_t end);

/* ---- evaluation by the batch ---- */

/* Returns the batch for an evaluation: `rows` samples of this rank, a multiple of the micro-batch and at most the
 * largest global batch. first is the mega_sample_index of the first sample over all ranks. The batch uses the same
 * memory as that of training. Returns NULL if rows is not allowed. */
mega_batch *mega_engine_evaluation_batch(mega_engine *e, int64_t rows, int64_t first);
/* Adds the rows of the evaluation batch to *sums: the sum of micro-batch means (or of token losses) and their number.
 * Returns MEGA_ERR_NUMERIC if the loss is not finite. Returns MEGA_ERR_INTERRUPTED on all ranks, and adds nothing, if
 * the team of one rank has been asked to stop (mega_team_stop_on): the ranks of its host stop after their current
 * instruction. */
typedef struct mega_loss_sums {
    double loss, count;                                /* loss / count: mean of the sum of coefficient * loss */
    double metric[MEGA_METRICS], weight[MEGA_METRICS]; /* metric / weight: mean of each loss and metric */
} mega_loss_sums;
mega_status mega_engine_evaluate_batch(mega_engine *e, mega_loss_sums *sums);
/* Collective over the world. Like mega_engine_evaluate_batch, but reads the batch from the data set: the `rows` samples
 * of each rank that mega_engine_evaluation_batch(e, rows, first) would hold, in the order given by the data set and the
 * engine's seed. Also returns the status of a callback of the data set that failed. */
mega_status mega_engine_evaluate_part(mega_engine *e, const mega_dataset *dataset, int64_t first, int64_t rows,
                                      mega_loss_sums *sums);

/* Collective over the world. Like mega_engine_evaluate, but leaves it to the caller to give monitors the loss. */
mega_status mega_engine_evaluate_quietly(mega_engine *e, const mega_dataset *dataset, int64_t max_batches,
                                         mega_step_result *out);

typedef struct mega_engine_progress {
    int64_t iteration;              /* completed steps, with those skipped */
    int64_t skipped;                /* of these, skipped: their gradients overflowed in fp16 */
    int64_t consumed_samples;       /* training samples used */
    int64_t consumed_tokens;        /* positions of them that were read; differs with a curriculum */
    int64_t consumed_valid_samples; /* counted by the caller; saved and loaded with the rest */
    int64_t schedule_samples;       /* the position in the learning-rate schedule, which skipped steps do not advance */
    int64_t schedule_tokens;        /* the same in positions that were read */
    int64_t schedule_steps;         /* the same in updates, for DeepSpeed's schedules */
} mega_engine_progress;
mega_engine_progress *mega_engine_progress_get(mega_engine *e);
/* With late results, as it was after the step whose result was returned last; else the same. Valid until the next
 * step. */
const mega_engine_progress *mega_engine_progress_told(const mega_engine *e);
/* How many positions of each sample the next training step reads: mega_engine_positions, or fewer under a
 * curriculum. */
int64_t mega_engine_step_positions(const mega_engine *e);
/* Returns the schedule that the engine was created with, or that a load has read from a checkpoint. */
const mega_lr_schedule *mega_engine_schedule(const mega_engine *e);
const mega_step_schedule *mega_engine_step_schedule(const mega_engine *e); /* kind NONE: the one above counts */

/* ---- observing steps ---- */

/* The following steps record their instructions and their update in the profile (borrowed). NULL stops recording. Under
 * a curriculum it must be written before a step of another length, whose programs replace those that its rows name. */
void mega_engine_profile(mega_engine *e, mega_profile *profile);
/* The following steps call the observer with the output of each instruction (mega_program_observe). NULL stops that. */
void mega_engine_observe(mega_engine *e, mega_observer *observer, void *user);

/* What a GPU has recorded of the programs so far (graphs of CUDA); zeros of an engine on the host. */
mega_recorded mega_engine_recorded(const mega_engine *e);

/* ---- checkpoints ---- */

/* Arguments of mega_engine_save, which has more options than mega_engine_save_checkpoint. */
typedef struct mega_engine_save_options {
    const char *folder;
    const char *tag;                 /* the checkpoint is folder/tag; NULL: folder/iter_N */
    const mega_model_shape *shape;   /* NULL: the model belongs to no Hugging Face family (checkpoint.h) */
    const mega_tokenizer *tokenizer; /* or NULL */
    const char *generation_config;   /* text of generation_config.json; NULL: made from the shape */
    mega_dtype save_dtype;           /* dtype of the weights; if narrower, state/ holds the exact masters */
    int64_t max_shard_size;          /* bytes of the tensors in one file of weights; 0: one file */
    bool no_optim, no_rng;
    const char *extra_json; /* JSON object whose members are added to run.json, under names not used there, or NULL */
    const mega_client_array *client_array;
    int num_client_arrays;
    const char *model_card; /* or NULL */
    int keep;               /* how many of the newest checkpoints to keep; 0: all */
    mega_lock *lock;        /* lock of the folder, on the first rank, or NULL */
} mega_engine_save_options;
/* Collective over the world. Every rank writes what it holds. The files do not depend on the layout of ranks. The
 * shape, tokenizer, model card and extra_json of the first rank are written. */
mega_status mega_engine_save(mega_engine *e, const mega_engine_save_options *o);
/* Collective over the world. Returns whether the device of any rank has failed, with its message. What it holds can
 * then be neither read nor used: every collective call returns that failure. */
bool mega_engine_has_failed(mega_engine *e);
/* Returns the bytes of the tensors of a checkpoint, which are nearly its whole size. Reads only save_dtype and no_optim
 * of `o`. May be called before mega_engine_allocate. */
int64_t mega_engine_save_bytes(const mega_engine *e, const mega_engine_save_options *o);

typedef struct mega_engine_load_options {
    bool finetune;                /* load only weights; start at iteration 0 */
    bool no_optim, no_rng;        /* no_optim: load no optimizer states, no schedule and no schedule position */
    bool no_states;               /* load no optimizer states */
    bool no_schedule;             /* keep the engine's schedule and its position */
    bool override_schedule;       /* the options win over the stored schedule */
    bool use_checkpoint_schedule; /* the stored schedule wins; with finetune it starts from sample 0 */
} mega_engine_load_options;
typedef struct mega_engine_loaded {
    bool optimizer; /* moments and schedule were loaded */
    bool resumed;   /* iteration and number of samples were loaded */
} mega_engine_loaded;
/* Checks whether mega_engine_load would accept the run state of an opened folder: optimizer and schedule, not the
 * tensors. May be called before an engine is created. Returns MEGA_ERR_USAGE if the options contradict the folder. */
mega_status mega_engine_check_load(const mega_engine_options *e, const mega_checkpoint *c,
                                   const mega_engine_load_options *o);
/* Checks that the folder holds every weight of the engine's model, with the same shape. May be called before
 * mega_engine_allocate. */
mega_status mega_engine_check_tensors(const mega_engine *e, mega_checkpoint *c);
/* Collective over the world. Loads weights from an opened folder and, if it has them, moments and progress; each rank
 * reads the part of each tensor that it holds. If the folder is refused (options, names, shapes), the engine is
 * unchanged; after a failure while reading, its weights have no values until mega_engine_initialize or another load. */
mega_status mega_engine_load(mega_engine *e, mega_checkpoint *c, const mega_engine_load_options *o,
                             mega_engine_loaded *out);

#endif
