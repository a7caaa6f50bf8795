/* The engine: what a user holds to train a model. Programs, parameters, optimizer and schedule in one object.
 *
 *     mega_engine_create(&e, &model, &options);
 *     mega_engine_allocate(e);
 *     mega_engine_initialize(e, seed);                        or mega_engine_load
 *     for (…) {
 *         mega_batch *b = mega_engine_batch(e);                the samples of the coming step
 *         mega_sample_set_i32(mega_batch_sample(b, 0), …);     every input of every sample, by name (dataset.h)
 *         mega_engine_step(e, &result);                        forward, backward, update
 *     }
 *     mega_engine_save(e, &save);
 *
 * One thread at a time. Results are functions of the seed, the batches and the options: not of time, nor of threads. */
#ifndef MEGALITH_ENGINE_H
#define MEGALITH_ENGINE_H

#include "megalith/checkpoint.h"
#include "megalith/config.h"
#include "megalith/dataset.h"
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

typedef struct mega_engine mega_engine;

typedef struct mega_engine_options {
    mega_dtype compute;       /* F32, BF16, F64 (plain kernels only) */
    bool plain;               /* plain kernels */
    mega_team *team;          /* borrowed; NULL: one thread */
    mega_world *world;        /* borrowed; NULL: one rank */
    mega_layout_sizes layout; /* how its ranks divide; zeros: all of them are data parallel */
    int stage_programs;       /* programs per pipeline stage, which the schedule interleaves; 0: 1 */
    int64_t micro_batch, seq;
    mega_batch_ramp batch;      /* micro_step: micro_batch x data-parallel ranks */
    bool no_train, no_evaluate; /* leave that program out */
    bool no_pack_weights;       /* products pack them anew each time, which takes less memory */
    bool per_token_loss;        /* mean over the tokens of a step, not over micro-batches; for one trained loss */
    double clip_grad;           /* 0: no clipping */
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
} mega_engine_options;

/* Everything but `team` and `world`, which stay NULL. */
mega_status mega_engine_options_from_config(mega_engine_options *out, const mega_config *cfg);

/* A call that is wrong (NULL, before mega_engine_allocate, twice, without what the engine was created with) is
 * MEGA_ERR_USAGE with a message, of collective functions on all ranks where one is called wrongly; the engine is as
 * before. Functions that return a pointer return NULL then (a number: -1, of things 0), and leave the message.
 *
 * A collective call that fails on one rank fails on all with its status and message, and the next call begins anew: the
 * engine may be used on. Where ranks have lost each other instead, mega_world_failed is false after the failure: nothing
 * more can be called, and mega_world_abort ends them.
 *
 * What mega_engine_create is given is compared: ranks with another option get MEGA_ERR_COMM, with what each
 * of them has. A number that is out of its range is MEGA_ERR_USAGE. */

/* Builds programs and memory plan of a model: a list of layers, which the stages of a pipeline share out. Any layer may
 * name inputs (mega_input), losses and metrics (mega_loss_add). Nothing large is allocated: a plan or a dry run ends
 * here. The model is borrowed for the call. Collective over the world, where one is given and planned_ranks is not: a
 * mistake in the model (a parameter that is requested in two shapes, a shape that does not fit, no loss, a stage
 * without layers, another model on another rank) is the same error on all ranks. */
mega_status mega_engine_create(mega_engine **out, const mega_model *model, const mega_engine_options *options);
void mega_engine_destroy(mega_engine *e);

/* Bytes by what they are for. */
typedef struct mega_engine_memory {
    size_t weights;   /* 16-bit weights; 0 where the masters are the weights */
    size_t masters;   /* parameters in acc */
    size_t gradients; /* acc */
    size_t moments;   /* of the optimizer */
    size_t saved;     /* activations kept for the backward, all micro-batches in flight */
    size_t scratch;   /* everything else that programs compute */
    size_t inputs;    /* of programs */
    size_t packed;    /* weights as products take them, kept through a step where several products do */
    size_t data;      /* the rows of one step */
    size_t records;   /* of the programs' instructions and tensors, of layers and parameters */
    size_t total;
    size_t libraries; /* oneDNN's code and objects, threads, records: a measured constant, and what ranks exchange
                         through; part of total */
    size_t live;      /* the most that saved and scratch hold at one instruction: no plan does with less */
    size_t gathered;  /* the most that weights gathered for a while hold (ZeRO 3): part of scratch */
    size_t buckets;   /* the most that buckets of gradients on their way to slices hold (ZeRO 2, 3): part of scratch */
    int zero_stage, shards; /* parts that ranks of dp share out; 1: each holds all */
    size_t head;            /* the largest chunk of logits with what is made of it: part of scratch */
} mega_engine_memory;
void mega_engine_memory_get(const mega_engine *e, mega_engine_memory *out);
/* Floating-point operations of one sample through the whole model, forward and backward, the same on all ranks: three
 * times those of the forward by the cost column of its ops, of which the backward takes twice as many. Causal attention
 * counts half of its products; masked_flops is the other half. */
typedef struct mega_engine_cost {
    double flops, masked_flops;
} mega_engine_cost;
void mega_engine_cost_get(const mega_engine *e, mega_engine_cost *out);
const mega_program *mega_engine_program(const mega_engine *e, bool train); /* NULL where left out; of chunk 0 */
/* Of the other chunks of an interleaved pipeline stage, which has so many. */
const mega_program *mega_engine_chunk_program(const mega_engine *e, int chunk, bool train);
int mega_engine_chunks(const mega_engine *e);
mega_params *mega_engine_params(const mega_engine *e);
const mega_params *mega_engine_whole(const mega_engine *e);      /* the records of all pipeline stages, in every rank */
const mega_model_parts *mega_engine_parts(const mega_engine *e); /* what the walk over the whole model found */
mega_optimizer *mega_engine_optimizer(const mega_engine *e);
const mega_layout *mega_engine_layout(const mega_engine *e);

mega_status mega_engine_allocate(mega_engine *e); /* Collective: world. Once. */
/* Collective: whether the ranks of each group have programs that make the same calls, before they wait for each other.
 */
mega_status mega_engine_compare_ranks(const mega_engine *e);
/* Collective: world. Random weights, zero moments, step 0. */
mega_status mega_engine_initialize(mega_engine *e, uint32_t seed);

/* For the coming step: this rank's share of the samples that the batch ramp says, of which nothing is filled yet. The
 * caller fills every input of every sample by name (dataset.h; mega_ltor_sample fills those of a GPT). Of the samples
 * of a step, micro-batch m of data-parallel rank r of d holds (m * d + r) * micro_batch and the following (Megatron's
 * order): mega_engine_sample returns which sample of the step sample i of the batch is. */
mega_batch *mega_engine_batch(mega_engine *e);
int64_t mega_engine_sample(const mega_engine *e, int64_t row);
/* Collective: world. Fills the batch of the coming step from a data set: its samples follow those that are consumed,
 * also after mega_engine_load. A callback that fails on one rank is the error of all. */
mega_status mega_engine_read(mega_engine *e, const mega_dataset *dataset, uint32_t seed);
/* For an evaluation: `rows` samples of this rank, a multiple of the micro-batch, at most the largest global batch.
 * first: what mega_sample_index is for the first sample of all ranks. Same memory; NULL for another number. */
mega_batch *mega_engine_evaluation_batch(mega_engine *e, int64_t rows, int64_t first);

typedef struct mega_step_result {
    double loss;      /* sum of coefficient * loss over the losses of the model */
    double grad_norm; /* before clipping */
    /* Each loss and metric, in the order of mega_engine_metric_name: the mean over all micro-batches of sum / weight
     * or, with per_token_loss, total of the sums / total of the weights. NAN for one that evaluation alone computes. */
    double metric[MEGA_METRICS];
    double clip_factor;
    int64_t grad_zeros;
    double lr, weight_decay; /* that this update used */
    int64_t samples, tokens, micro_batches;
    double forward_s, backward_s, optimizer_s; /* seconds, summed over micro-batches */
    double waiting_s;                          /* for other pipeline stages, between forwards and backwards */
} mega_step_result;
/* Collective: world. A loss or gradient that is not finite is MEGA_ERR_NUMERIC: the message names the step, the samples
 * and the first op whose output was not finite; parameters and moments are as before the step. An input that is not
 * filled, or an id, label or position out of its range, is MEGA_ERR_USAGE with the name of the input and the sample. */
mega_status mega_engine_step(mega_engine *e, mega_step_result *out);

/* The coming steps write their instructions and their optimizer into the profile (borrowed); NULL: no more. */
void mega_engine_profile(mega_engine *e, mega_profile *profile);
/* The coming steps hand what their instructions make to this function (mega_program_observe); NULL: no more. */
void mega_engine_observe(mega_engine *e, mega_observer *observer, void *user);

/* The losses and metrics of the whole model, the same on all ranks: by part of the pipeline, in each in the order in
 * which it declares them, then those of evaluation alone. */
int mega_engine_num_metrics(const mega_engine *e);
const char *mega_engine_metric_name(const mega_engine *e, int metric); /* borrowed; NULL after the last one */

/* Outputs that the model names (mega_output), of the last micro-batch that this rank ran forward, in training or in
 * evaluation. mega_engine_output_count: elements of an output on this rank; 0 if there is no such output here (with a
 * pipeline, that of another stage). Local.
 * mega_engine_read_output copies one, [rows, channels], as F32. MEGA_ERR_NOT_FOUND: this rank has no such output;
 * MEGA_ERR_USAGE: count is not mega_engine_output_count, or nothing has run yet. Local. */
int64_t mega_engine_output_count(const mega_engine *e, const char *output);
mega_status mega_engine_read_output(mega_engine *e, const char *output, int64_t count, float *out);

/* Adds the rows of the evaluation batch to sums: total of micro-batch means (or of token losses) and how many. Returns
 * MEGA_ERR_NUMERIC if the loss is not finite; on all ranks MEGA_ERR_INTERRUPTED, and adds nothing, once the team of one
 * is asked to stop (mega_team_stop_on): after the instruction under way on the ranks of its host. */
typedef struct mega_loss_sums {
    double loss, count;                                /* loss / count: of the sum of coefficient * loss */
    double metric[MEGA_METRICS], weight[MEGA_METRICS]; /* metric / weight: of each loss and metric */
} mega_loss_sums;
mega_status mega_engine_evaluate(mega_engine *e, mega_loss_sums *sums);

typedef struct mega_engine_progress {
    int64_t iteration;              /* steps done */
    int64_t consumed_samples;       /* of training */
    int64_t consumed_valid_samples; /* kept for the caller: saved and loaded with the rest */
    int64_t schedule_samples;       /* the n of the learning rate */
} mega_engine_progress;
mega_engine_progress *mega_engine_progress_get(mega_engine *e);
/* As created with, or as a load took it from a checkpoint. */
const mega_lr_schedule *mega_engine_schedule(const mega_engine *e);

typedef struct mega_engine_save_options {
    const char *folder;
    const mega_model_shape *shape;   /* NULL: the model is no Hugging Face family (checkpoint.h) */
    const mega_tokenizer *tokenizer; /* or NULL */
    mega_dtype save_dtype;           /* of the weights; the exact masters are then kept in state/ */
    bool no_optim, no_rng;
    const char *extra_json; /* an object whose members join run.json under names of their own, or NULL */
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
    bool finetune; /* weights only, iteration 0 */
    bool no_optim, no_rng;
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
