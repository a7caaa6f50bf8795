/* The engine: programs, parameters, optimizer, schedule and data of a training, made from a model and settings.
 *
 *     mega_initialize(&(mega_setup){.model = &model, .training_data = &data, .argc = argc, .argv = argv}, &engine);
 *     while (mega_engine_global_steps(engine) < 1000)
 *         mega_engine_train_batch(engine, &result);      forward and backward passes, then the update
 *     mega_engine_save_checkpoint(engine, "checkpoints", NULL, NULL);
 *
 * or, without a pipeline, one micro-batch at a time:
 *
 *     mega_engine_forward(engine, &loss);
 *     mega_engine_backward(engine);
 *     mega_engine_step(engine, &result);
 *
 * Results depend on the seed, the data and the settings. They do not depend on time or on the number of threads, and
 * depend on the layout of ranks only within rounding.
 *
 * Collective. A function whose comment begins with "Collective" is called by every rank of the named group in the same
 * order and with the same arguments, unless its comment says otherwise. All ranks return the same status: if one rank
 * fails, the others return its status and message, and no rank waits for another forever. The other functions are
 * local and do not communicate.
 *
 * Errors. A function that returns mega_status leaves a message for this thread (status.h). Outputs are written only on
 * success. A wrong call (NULL, before mega_engine_allocate, twice, out of order) is MEGA_ERR_USAGE. After an error the
 * weights, the optimizer state and the counters are those of the last completed step, gradients accumulated since then
 * are discarded, and the engine can be saved or used again. Any collective function may return MEGA_ERR_COMM; if
 * mega_world_failed is then false, ranks have lost each other, and mega_world_abort ends them. Functions that return a
 * pointer return NULL after a wrong call (a number: -1 or 0), and leave the message.
 *
 * Threads. One thread at a time uses an engine. The callbacks of a data set run on that thread or, if it is
 * is_thread_safe, on a thread of the engine, up to two batches ahead; a read that fails there is kept, and the step
 * that needs it returns its status and message. */
#ifndef MEGALITH_ENGINE_H
#define MEGALITH_ENGINE_H

#include "megalith/client_array.h"
#include "megalith/comm.h"
#include "megalith/custom_optimizer.h"
#include "megalith/dataset.h"
#include "megalith/memory.h"
#include "megalith/model.h"
#include "megalith/threads.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_engine mega_engine;

/* Every setting as a number, for the commands of megalith, whose sources define it (engine_commands.h). */
typedef struct mega_engine_options mega_engine_options;

/* ---- a custom learning-rate schedule ---- */

/* lr must be a pure function; step and samples count completed updates and their samples. */
typedef struct mega_lr_scheduler {
    const char *name;
    double (*lr)(const void *user, int64_t step, int64_t samples);
    const void *user; /* borrowed until mega_engine_destroy */
} mega_lr_scheduler;

/* ---- create and destroy ---- */

/* Arguments of mega_initialize. A zero-initialized member means "not given". */
typedef struct mega_setup {
    const mega_model *model;           /* required; borrowed with all that it points to until destroy */
    const mega_dataset *training_data; /* copied, the same on all ranks; NULL: the caller fills batches */
    const char *config;                /* DeepSpeed JSON: a path, or the text itself if it begins with '{' */
    int argc;                          /* command-line options: mega_engine_options_help. argv[0] is skipped */
    char **argv;                       /* read during the call */
    mega_mode mode; /* MEGA_TRAIN; MEGA_EVAL: without gradients and optimizer; MEGA_GENERATE: for mega_engine_run */
    mega_layout_sizes layout;              /* tp and pp: zeros: from the options, else data parallel */
    const mega_optimizer_row *optimizer;   /* custom_optimizer.h; borrowed; NULL: from the options */
    const mega_lr_scheduler *lr_scheduler; /* copied; NULL: from the options */
    mega_world *world;                     /* borrowed; NULL: created and owned by the engine */
    mega_team *team;                       /* borrowed; NULL: created and owned by the engine */
    /* For the commands of megalith: every setting as a number, instead of config, argv, layout, world, team. NULL
     * elsewhere. mode MEGA_EVAL sets no_train, MEGA_GENERATE sets generate. The weights are then those of
     * mega_engine_initialize or mega_engine_load_checkpoint. */
    const mega_engine_options *options;
} mega_setup;

/* Collective over the world. Creates an engine: reads the options, builds the programs and the memory plan, allocates,
 * and initializes the weights from --seed. The caller owns *out and frees it with mega_engine_destroy.
 *
 * Returns MEGA_ERR_USAGE with every mistake of the options in one message, one per line, or with the first mistake of
 * the model; MEGA_ERR_UNSUPPORTED for what is understood but not built; MEGA_ERR_MEMORY. Nothing large is allocated
 * before all of these checks. */
MEGA_CHECK_RESULT mega_status mega_initialize(const mega_setup *setup, mega_engine **out);

/* Collective over the world. The two halves of mega_initialize: create ends after the memory plan (for a plan or a dry
 * run), and allocate does the rest. Between them only queries may be called; other functions return MEGA_ERR_USAGE.
 *
 * A mistake in the model (a parameter that is requested in two shapes, a shape that does not fit, no loss, a stage
 * without layers, another model on another rank) is the same error on all ranks. With options->layout.planned_ranks
 * this one rank is planned, and nothing is collective. */
MEGA_CHECK_RESULT mega_status mega_engine_create(const mega_setup *setup, mega_engine **out);
MEGA_CHECK_RESULT mega_status mega_engine_allocate(mega_engine *e); /* once */
/* Frees the engine. NULL is allowed. Collective over the world if the engine owns the world. A rank that leaves because
 * of an error that the others do not know ends all ranks with mega_world_abort(mega_engine_world(e), 1) instead. */
void mega_engine_destroy(mega_engine *e);
/* Appends the help text of the options that mega_setup.argv accepts. Returns MEGA_ERR_MEMORY. */
MEGA_CHECK_RESULT mega_status mega_engine_options_help(mega_buffer *out);

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
    size_t data;      /* the rows of one step, and those that are read ahead */
    size_t records;   /* of the programs' instructions and tensors, of layers and parameters */
    size_t total;
    size_t libraries; /* threads, records: a measured constant, and what ranks exchange through; part of total */
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
/* Collective: world. Random weights, zero moments, step 0; micro-batches since the last update are discarded. Returns
 * MEGA_ERR_USAGE between a forward and its backward. */
MEGA_CHECK_RESULT mega_status mega_engine_initialize(mega_engine *e, uint32_t seed);

/* ---- batches of the caller, for an engine without training_data ---- */

/* Return the batch of the coming micro-batch (for mega_engine_forward) or of the coming step (for
 * mega_engine_train_batch): this rank's samples, of which nothing is filled yet. The caller fills every input of every
 * sample by name (dataset.h; mega_ltor_sample fills those of a GPT). Borrowed; valid until the call that uses it
 * returns. NULL if the engine has training_data.
 *
 * Which samples these are. Sample i of the batch is number n of the run:
 *
 *     n = mega_engine_global_samples(e) + mega_engine_sample(e, i)
 *       = mega_sample_index(mega_batch_sample(batch, i))
 *
 * mega_engine_global_samples counts the samples of completed updates. mega_engine_sample counts those since the last
 * update, over all ranks, in Megatron's order: with d data-parallel ranks, of which this is number r, and b samples in
 * a micro-batch, it is
 *
 *     (m * d + r) * b + i % b
 *
 * where m is i / b in the batch of a step, and in the batch of a micro-batch the number of micro-batches that this rank
 * has completed since the last update. So a step reads the same samples whatever the number of ranks, as long as
 * micro-batches * d * b is the same. */
mega_batch *mega_engine_micro_batch(mega_engine *e);
mega_batch *mega_engine_batch(mega_engine *e);
int64_t mega_engine_sample(const mega_engine *e, int64_t i); /* of the batch that was asked for last; -1: e is NULL */
typedef struct mega_step_result {
    double loss;      /* sum of coefficient * loss over the losses of the model, 0 where it has none; the loss of
                         mega_engine_backward_from is the caller's and not in it */
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
/* Collective over the world. Runs one step: the forward and backward passes of all micro-batches in the order of the
 * pipeline schedule, then the update.
 *
 * Returns MEGA_ERR_NUMERIC if the loss or a gradient is not finite: the message names the step, the samples and the
 * first op whose output was not. Returns MEGA_ERR_USAGE if the engine does not train, if an input of the batch is not
 * filled, or if an id, label or position is out of its range, with the name of the input and the sample; any status
 * that a callback of the data set returns. */
MEGA_CHECK_RESULT mega_status mega_engine_train_batch(mega_engine *e, mega_step_result *out);

/* ---- one micro-batch at a time ----
 *
 * With a pipeline these functions return MEGA_ERR_USAGE, as those of DeepSpeed's pipeline engine raise an error. Calls
 * alternate: forward, backward, step; a call out of order returns MEGA_ERR_USAGE and changes nothing. Every rank makes
 * the same number of calls. */

/* Collective over the world. Runs the forward pass on the micro-batch that the caller filled (mega_engine_micro_batch),
 * or on the next samples of the training data, which advance with mega_engine_step. Stores the loss of this micro-batch
 * on this rank; out_loss may be NULL. An engine in MEGA_EVAL evaluates, forward may follow forward, and each takes the
 * next samples of the training data. While it trains, a backward must follow: the LM head adds to the gradients in the
 * forward pass.
 * Returns the errors of mega_engine_train_batch. Where reading its samples fails nothing changes: it may be called
 * again. */
MEGA_CHECK_RESULT mega_status mega_engine_forward(mega_engine *e, double *out_loss);
/* Collective over the world. Runs the backward pass of the last forward and adds to the gradients; at an accumulation
 * boundary it also sums them over the ranks. Returns MEGA_ERR_USAGE without a forward, or if the model has no loss. */
MEGA_CHECK_RESULT mega_status mega_engine_backward(mega_engine *e);
/* Collective over the world. As mega_engine_backward, with a loss that the caller computed from an output of the model
 * (mega_output, mega_engine_read_output); the losses of the model join it. gradient [count], in the shape of the
 * output, is the derivative of a sum over the rows of this micro-batch on this rank; weight is the total weight of
 * those rows. The library divides by the weight and by the number of micro-batches, as for a mega_loss. Ranks of one
 * tensor-parallel group pass the same gradient and weight. Returns MEGA_ERR_NOT_FOUND if there is no such output;
 * MEGA_ERR_USAGE if count is not its size, if it depends on no parameter, or if weight is negative or not finite;
 * MEGA_ERR_UNSUPPORTED with --calculate-per-token-loss. These errors change nothing. */
MEGA_CHECK_RESULT mega_status mega_engine_backward_from(mega_engine *e, const char *output, const float *gradient,
                                                        int64_t count, double weight);
/* Collective over the world. Completes a micro-batch; at an accumulation boundary it also updates the weights with the
 * mean over the micro-batches since the last update, and writes *out, which is unchanged otherwise and may be NULL.
 * Returns MEGA_ERR_NUMERIC. */
MEGA_CHECK_RESULT mega_status mega_engine_step(mega_engine *e, mega_step_result *out);
/* Return whether the coming mega_engine_step updates the weights, and whether the last step did. */
bool mega_engine_is_accumulation_boundary(const mega_engine *e);
bool mega_engine_was_step_applied(const mega_engine *e);
/* Sets whether the coming mega_engine_step updates the weights. The same on every rank. Returns MEGA_ERR_USAGE between
 * a forward and its step: the sums over the ranks leave with the backward pass of the boundary. */
MEGA_CHECK_RESULT mega_status mega_engine_set_accumulation_boundary(mega_engine *e, bool is_boundary);

/* ---- queries: local ---- */

int64_t mega_engine_global_steps(const mega_engine *e);  /* updates, including skipped ones */
int64_t mega_engine_skipped_steps(const mega_engine *e); /* 0 until there is fp16 */
int64_t mega_engine_micro_steps(const mega_engine *e);
int64_t mega_engine_global_samples(const mega_engine *e);
double mega_engine_lr(const mega_engine *e);               /* of the coming update */
double mega_engine_loss_scale(const mega_engine *e);       /* 1 until there is fp16 */
double mega_engine_global_grad_norm(const mega_engine *e); /* of the last update; NAN before the first */
int64_t mega_engine_train_batch_size(const mega_engine *e);
int64_t mega_engine_train_micro_batch_size(const mega_engine *e); /* per rank of dp */
int64_t mega_engine_gradient_accumulation_steps(const mega_engine *e);
mega_dtype mega_engine_dtype(const mega_engine *e);
int mega_engine_zero_stage(const mega_engine *e);
const mega_layout *mega_engine_layout(const mega_engine *e); /* borrowed */
mega_world *mega_engine_world(const mega_engine *e);         /* borrowed; NULL: one rank */
bool mega_engine_is_main_process(const mega_engine *e);      /* true on exactly one rank: the one that prints */
/* Whether this rank's stage of the pipeline begins the model; whether it ends it. Without a pipeline both are true. */
bool mega_engine_is_first_stage(const mega_engine *e);
bool mega_engine_is_last_stage(const mega_engine *e);
int64_t mega_engine_positions(const mega_engine *e); /* of a sample: seq of the options */

/* ---- parameters ---- */

/* Parameter number `index` of the whole model, in the order of declaration: name (borrowed) and shape ([rows] if
 * *out_columns is 0). Returns MEGA_ERR_NOT_FOUND after the last one. Local. */
MEGA_CHECK_RESULT mega_status mega_engine_param_info(const mega_engine *e, int index, const char **out_name,
                                                     int64_t *out_rows, int64_t *out_columns);
/* Collective over the world. Copy the whole tensor of a parameter, in F32, to every rank, or from every rank, where all
 * pass the same values. name is that of a parameter, or of a tensor of the checkpoint that holds parts of one
 * (mega_param_options.part), whose rows then have the order of the file. A name that is both means the parameter, in
 * the order of the memory: give parts whose rows are in another order a `file` of another name. `what` is NULL for the
 * master weight, "grad" for the gradient, or the name of an optimizer state such as "exp_avg". The gradient is the mean
 * over micro-batches, summed over the ranks and not clipped: it is there from the backward pass of an accumulation
 * boundary to the next forward, and setting it before mega_engine_step changes the update. count must be the number of
 * elements of the whole tensor. Return MEGA_ERR_NOT_FOUND for an unknown name, with the nearest one; MEGA_ERR_USAGE for
 * a wrong count, or where there is no gradient. */
MEGA_CHECK_RESULT mega_status mega_engine_get_param(mega_engine *e, const char *name, const char *what, int64_t count,
                                                    float *out);
MEGA_CHECK_RESULT mega_status mega_engine_set_param(mega_engine *e, const char *name, const char *what, int64_t count,
                                                    const float *values);

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
MEGA_CHECK_RESULT mega_status mega_engine_read_output(mega_engine *e, const char *output, int64_t count, float *out);

/* Collective over the world. Evaluates the first max_batches batches of `dataset`, in its order, or all of it if
 * max_batches is 0. Every sample counts once: those at the end that do not fill a micro-batch are evaluated one by one,
 * each in all rows of a micro-batch (a loss over pairs of rows sees copies there). `dataset` is the same on all ranks.
 * Writes loss and metric of *out, and samples; the rest is 0. Nothing that is trained changes.
 * Returns the errors of mega_engine_train_batch. */
MEGA_CHECK_RESULT mega_status mega_engine_evaluate(mega_engine *e, const mega_dataset *dataset, int64_t max_batches,
                                                   mega_step_result *out);

/* ---- one program at a time, forward only: generation, and evaluation by a rule of the caller's ----
 *
 * An engine in MEGA_GENERATE has two programs that share a key-value cache: PREFILL, which reads mega_engine_run_rows
 * rows of each prompt, and DECODE, which reads one row of each sample. Engines that evaluate have EVALUATE. For each
 * run the caller fills a batch and reads what the program made:
 *
 *     int32_t filled[SAMPLES] = {0};                             positions of each sample that the cache holds
 *     batch = mega_engine_run_batch(e, MEGA_RUN_DECODE);         inputs by name
 *     ...                                                        mega_sample_set_i32(mega_batch_sample(batch, i), ...)
 *     mega_engine_run(e, MEGA_RUN_DECODE, filled);               adds a row to each cache
 *     mega_engine_wait(e);
 *     if (mega_engine_run_output(e, MEGA_RUN_DECODE, "logits", &logits))   on the ranks of the last stage
 *         ...
 *     filled[i]++;                                               for each sample whose row was a real one
 *
 * The ranks that share a model (those of tp and of pp) make the same calls in the same order. Data-parallel ranks have
 * samples of their own, and may make other calls, unless weights are cut over them (ZeRO 3): then each run gathers
 * weights over dp, and all ranks make the same runs. */
typedef enum mega_run { MEGA_RUN_EVALUATE, MEGA_RUN_PREFILL, MEGA_RUN_DECODE } mega_run;

/* Rows of each sample in one run: 1 in DECODE; the positions of a sample in EVALUATE. -1: there is no such program. */
int64_t mega_engine_run_rows(const mega_engine *e, mega_run program);
/* The batch of the coming run, with micro_batch samples of which nothing is filled: the caller fills every input by
 * name, with as many numbers per sample as it has rows. Borrowed, until the run. For samples that are not real any
 * numbers in range will do. NULL if there is no such program. Local. */
mega_batch *mega_engine_run_batch(mega_engine *e, mega_run program);
/* Collective over tp and pp. Runs a program on its batch, forward. filled [micro_batch]: how many positions of each
 * sample's cache are filled, which the first row of the batch follows (0 begins a new sample; NULL for EVALUATE). The
 * program writes all its rows into the cache: rows of padding are overwritten by the next run, where `filled` does not
 * count them.
 *
 * A run does not wait for other stages to be through, so runs that do not need each other's results (the chunks of a
 * prompt, windows of a text) go through a pipeline side by side. Therefore MEGA_OK says nothing of the results yet:
 * mega_engine_wait does. Returns MEGA_ERR_USAGE at once, and runs nothing, if there is no such program, memory or
 * weights, or if a backward pass is due. */
MEGA_CHECK_RESULT mega_status mega_engine_run(mega_engine *e, mega_run program, const int32_t *filled);
/* Collective over tp and pp. Waits until all that the runs sent has arrived, and returns what all ranks of the model
 * return alike: MEGA_OK if the runs since the last wait were right; MEGA_ERR_USAGE with the name of an input that was
 * not filled, or of a number that was out of its range, on any rank; MEGA_ERR_INTERRUPTED once the team of one is asked
 * to stop (mega_team_stop_on). After an error what the runs since the last wait made means nothing, in the cache
 * either. */
MEGA_CHECK_RESULT mega_status mega_engine_wait(mega_engine *e);

/* What the last run of a program made under this name (mega_output), in its own memory: valid until the next run,
 * and right once mega_engine_wait has said so. Returns false, and leaves *out, if no program of this rank has such an
 * output (with a pipeline, that of another stage). Those that a model names with mega_output are read with
 * mega_engine_read_output. Local. */
typedef struct mega_run_value {
    const void *data; /* borrowed */
    mega_dtype dtype;
    int64_t count;
} mega_run_value;
bool mega_engine_run_output(const mega_engine *e, mega_run program, const char *output, mega_run_value *out);

/* ---- checkpoints ----
 *
 * A checkpoint is a folder that is committed atomically and does not depend on the layout of ranks. */

/* The caller's own state: one JSON object and named arrays (client_array.h). Every rank passes the same; one rank
 * writes it. */
typedef struct mega_client_state {
    const char *json; /* NULL: {} */
    const mega_client_array *array;
    int num_arrays;
} mega_client_state;

/* Collective over the world. Writes FOLDER/TAG or, if tag is NULL, FOLDER/iter_N, where N is the number of the step in
 * seven digits. A checkpoint of the same name is replaced; one with a tag is never removed to keep a number of
 * checkpoints (--keep-checkpoints). folder and tag are the same on all ranks. client may be NULL. A failure leaves the
 * previous checkpoint whole. Returns MEGA_ERR_IO, or MEGA_ERR_USAGE if the tag cannot be the name of a folder, is
 * iter_N for another step, or if client->json is no JSON object. */
MEGA_CHECK_RESULT mega_status mega_engine_save_checkpoint(mega_engine *e, const char *folder, const char *tag,
                                                          const mega_client_state *client);

/* Zero-initialized, everything is loaded. The words are DeepSpeed's. */
typedef struct mega_load_options {
    bool module_only;            /* weights only: the run starts at step 0 with fresh optimizer states (fine-tuning) */
    bool no_optimizer_states;    /* moments and their count stay as they are in the engine; the schedule is loaded */
    bool no_lr_scheduler_states; /* the schedule and its position stay as they are in the engine */
    bool other_training_data;    /* continue with other training data, after as many samples as are consumed */
} mega_load_options;

/* Collective over the world. Loads FOLDER/TAG or, if tag is NULL, the checkpoint that was saved last. If the folder
 * holds no checkpoint and tag is NULL, it returns MEGA_OK and *out_found is false. options and out_client may be NULL.
 * *out_client is borrowed until the next load or mega_engine_destroy. Micro-batches since the last update are
 * discarded.
 * Returns MEGA_ERR_NOT_FOUND, MEGA_ERR_IO, MEGA_ERR_FORMAT (damaged), or MEGA_ERR_USAGE if the checkpoint does not fit
 * the model, or if the training data are not those that mega_engine_save_checkpoint was called with (first, count,
 * in_order, hash), as far as both have them; an engine that only evaluates takes any. The engine is unchanged if the
 * checkpoint is refused before its first tensor is read; after a later failure it must be loaded again or destroyed. */
MEGA_CHECK_RESULT mega_status mega_engine_load_checkpoint(mega_engine *e, const char *folder, const char *tag,
                                                          const mega_load_options *options, bool *out_found,
                                                          const mega_client_state **out_client);

#ifdef __cplusplus
}
#endif

#endif
