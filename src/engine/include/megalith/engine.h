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
 * fails, the others return its status and message, and no rank waits for another forever. The other functions are local
 * and do not communicate.
 *
 * Errors. A function that returns mega_status leaves a message for this thread (status.h). Outputs are written only on
 * success. A wrong call (NULL, before mega_engine_allocate, twice, out of order) is MEGA_ERR_USAGE. After an error the
 * weights, the optimizer state and the counters are those of the last completed step, gradients accumulated since then
 * are discarded, and the engine can be saved or used again. Any collective function may return MEGA_ERR_COMM; if
 * mega_world_failed is then false, the ranks can no longer communicate, and the caller ends them all with
 * mega_world_abort. After a wrong call, functions that return a pointer return NULL, functions that return a number
 * return -1 or 0, and the message is left.
 *
 * A GPU that fails stays so, and what it holds is lost. The call in which it fails returns the driver's message, which
 * names the rank, and so does at once every later collective call, on all ranks, before it changes or writes anything;
 * queries go on. The engine can then only be destroyed; a checkpoint that was complete before stays whole. If the GPU
 * fails when the ranks have agreed on the result of a call, that result holds, and the next call returns the failure.
 *
 * Threads. One thread at a time uses an engine. The callbacks of a data set run on that thread. If the data set sets
 * is_thread_safe, they run on a thread of the engine instead, up to two batches ahead; if a read fails there, the step
 * that needs its samples returns its status and message.
 *
 * Callbacks: the functions of a data set, a custom op, an optimizer, a schedule. While a call of the engine runs, the
 * engine is busy, and for the thread that reads ahead it always is. A busy engine answers the functions under
 * "queries", mega_engine_param_info, the names and sizes of metrics, outputs and memory; every other call returns
 * MEGA_ERR_USAGE (or NULL), changes nothing and does not communicate. mega_engine_destroy does nothing then but warn;
 * so do, until the engine is destroyed, the functions that destroy its world, layout, team and training data. The call
 * that runs is not affected. */
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

/* All settings as numbers. Only megalith's own commands use it; engine_commands.h, which is not installed, defines
 * it. */
typedef struct mega_engine_options mega_engine_options;

/* ---- a custom learning-rate schedule ---- */

/* lr returns the learning rate of the next update and must be a pure function; mega_engine_lr calls it too. step is the
 * number of completed updates, samples the number of training samples that they used. A step whose rate is on any rank
 * no finite number of at least 0 that a float holds makes no update: it is MEGA_ERR_USAGE on all ranks. */
typedef struct mega_lr_scheduler {
    const char *name;
    double (*lr)(const void *user, int64_t step, int64_t samples);
    const void *user; /* borrowed until mega_engine_destroy */
} mega_lr_scheduler;

/* ---- create and destroy ---- */

/* An option, with underscores, and its value: {"micro_batch_size", "4"}. A list of them ends with {NULL, NULL}. */
typedef struct mega_setting {
    const char *name, *value;
} mega_setting;

/* Arguments of mega_initialize. A zero-initialized member means "not given". */
typedef struct mega_setup {
    const mega_model *model;           /* required; borrowed, with all that it points to, until mega_engine_destroy */
    const mega_dataset *training_data; /* copied, the same on all ranks; NULL: the caller fills batches */
    const char *config;                /* DeepSpeed JSON: a path, or the text itself if it begins with '{' */
    int argc;                          /* command-line options: mega_engine_options_help. argv[0] is skipped */
    char **argv;                       /* read during the call */
    const mega_setting *defaults;      /* options that argv leaves open; read during the call; a JSON replaces them */
    mega_mode mode; /* MEGA_TRAIN; MEGA_EVAL: without gradients and optimizer; MEGA_GENERATE: for mega_engine_run */
    mega_layout_sizes layout;              /* tp and pp; zeros: from the options; default: all data parallel */
    const mega_optimizer_row *optimizer;   /* custom_optimizer.h; borrowed; NULL: from the options */
    const mega_lr_scheduler *lr_scheduler; /* copied; NULL: from the options */
    mega_world *world;                     /* borrowed; NULL: created and owned by the engine */
    mega_team *team;                       /* borrowed; NULL: created and owned by the engine */
    /* For megalith's own commands: all settings as numbers. It replaces config, argv, defaults, layout, world and
     * team; other callers pass NULL. mode MEGA_EVAL sets no_train, MEGA_GENERATE sets generate. The weights then have
     * no values until mega_engine_initialize or mega_engine_load_checkpoint. */
    const mega_engine_options *options;
} mega_setup;

/* Collective over the world. Creates an engine: reads the options, builds the programs and the memory plan, allocates,
 * and initializes the weights from --seed. The caller owns *out and frees it with mega_engine_destroy.
 *
 * Returns MEGA_ERR_USAGE with all mistakes in the options in one message, one per line, or with the first mistake in
 * the model; MEGA_ERR_UNSUPPORTED for a request that is valid but not implemented; MEGA_ERR_MEMORY. Nothing large is
 * allocated before all of these checks. */
MEGA_CHECK_RESULT mega_status mega_initialize(const mega_setup *setup, mega_engine **out);

/* Collective over the world. The two halves of mega_initialize: mega_engine_create stops after the memory plan (enough
 * for a plan or a dry run), and mega_engine_allocate does the rest. Between the two only queries may be called; other
 * functions return MEGA_ERR_USAGE.
 *
 * A mistake in the model (a parameter that is requested in two shapes, a shape that does not fit, no loss, a stage
 * without layers, ranks with different models) returns the same error on all ranks. If options->layout.planned_ranks is
 * set, the process plans one rank on its own and does not communicate. */
MEGA_CHECK_RESULT mega_status mega_engine_create(const mega_setup *setup, mega_engine **out);
MEGA_CHECK_RESULT mega_status mega_engine_allocate(mega_engine *e); /* call it once */
/* Frees the engine. NULL is allowed. Collective over the world if the engine owns the world. A rank that must leave
 * because of an error that the other ranks do not know about calls mega_world_abort(mega_engine_world(e), 1) instead,
 * which ends all ranks. */
void mega_engine_destroy(mega_engine *e);
/* Appends the help text of the options that mega_setup.argv accepts. Returns MEGA_ERR_MEMORY. */
MEGA_CHECK_RESULT mega_status mega_engine_options_help(mega_buffer *out);
/* For the first line of main: if --help or -h is among the words of a command line, prints "usage: " with `usage` and
 * that text, and returns true. */
bool mega_show_help(int argc, char **argv, const char *usage);

/* Bytes of memory of this rank, by purpose. */
typedef struct mega_engine_memory {
    size_t weights;   /* 16-bit weights; 0 if programs read the masters directly */
    size_t masters;   /* parameters in the accumulation type (F32, or F64) */
    size_t gradients; /* gradients, in the type in which they are held, and scratch of the update */
    size_t moments;   /* optimizer states */
    size_t saved;     /* activations kept for the backward pass, for all micro-batches in flight */
    size_t scratch;   /* all other tensors that programs compute */
    size_t inputs;    /* input tensors of programs */
    size_t packed;    /* weights packed for GEMMs, kept through a step if several GEMMs read them */
    size_t data;      /* the samples of one step, and those that are read ahead */
    size_t records;   /* descriptions of instructions, tensors, layers and parameters */
    size_t total;
    size_t libraries; /* threads and libraries (a measured estimate), communication buffers; part of total */
    size_t live;      /* peak of live bytes in saved and scratch over all instructions: a lower bound of any plan */
    size_t gathered;  /* peak of temporarily gathered weights (ZeRO 3); part of scratch */
    size_t buckets;   /* part of scratch: peak of gradient buckets that are being reduced to shards (ZeRO 2, 3), or of
                         gradients that are held in 16 bits, while they are computed in fp32 (ZeRO 0, 1) */
    int zero_stage, shards; /* shards: how many ranks of dp share the states; 1: not sharded */
    size_t head;            /* largest chunk of logits with the tensors computed from it; part of scratch */
    size_t device; /* part of total: of the device that computes. data, records and libraries are of the host alone */
} mega_engine_memory;
void mega_engine_memory_get(const mega_engine *e, mega_engine_memory *out);
/* Floating-point operations of one sample in the whole model, forward and backward; the same on all ranks. They are
 * three times the operations of the forward pass (the cost column of its ops), because the backward pass takes twice as
 * many. flops counts only the half of causal attention's GEMMs that the mask leaves; masked_flops is the other half.
 * Under a curriculum, after a step: of a sample as that step read it. */
typedef struct mega_engine_cost {
    double flops, masked_flops;
} mega_engine_cost;
void mega_engine_cost_get(const mega_engine *e, mega_engine_cost *out);
/* Collective over the world. Sets random weights, zero moments and step 0, and discards the micro-batches since the
 * last update. Returns MEGA_ERR_USAGE between a forward and its backward. */
MEGA_CHECK_RESULT mega_status mega_engine_initialize(mega_engine *e, uint32_t seed);

/* ---- batches of the caller, for an engine without training_data ---- */

/* Return the batch of the next micro-batch (for mega_engine_forward) or of the next step (for mega_engine_train_batch):
 * this rank's samples, not filled yet. The caller fills every input of every sample by name (dataset.h;
 * mega_ltor_sample fills those of a GPT). Borrowed; valid until the call that uses it returns. NULL if the engine has
 * training_data.
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
 * has completed since the last update. So a step reads the same samples for any number of ranks, as long as
 * micro-batches * d * b is the same.
 *
 * Each call empties the batch: samples that were filled before are lost. There is one batch, so an evaluation
 * or a step empties it too; a step on a batch that is not filled again is MEGA_ERR_USAGE. */
mega_batch *mega_engine_micro_batch(mega_engine *e);
mega_batch *mega_engine_batch(mega_engine *e);
int64_t mega_engine_sample(const mega_engine *e, int64_t i); /* i: sample of the last batch returned; -1: e is NULL */
typedef struct mega_step_result {
    int64_t iteration; /* number of the step, from 1; 0: the result of none */
    double loss;       /* sum of coefficient * loss over the losses of the model, or 0 if it has none; the caller's loss
                         of mega_engine_backward_from is not included */
    double grad_norm;  /* before clipping; NAN in a skipped step */
    /* Each loss and metric, in the order of mega_engine_metric_name: the mean over all micro-batches of sum / weight
     * or, with per_token_loss, the total of the sums divided by the total of the weights. NAN for one that only
     * evaluation computes. */
    double metric[MEGA_METRICS];
    double clip_factor;
    double loss_scale; /* of this step; 1 unless fp16 */
    bool skipped;      /* fp16: a gradient overflowed; weights, optimizer states and schedule did not change */
    int64_t grad_zeros;
    double lr, weight_decay; /* used by this update */
    int64_t samples, tokens, micro_batches;
    /* Seconds, summed over micro-batches. These three, waiting_s and reduce_s are NAN on a GPU without a monitor: it is
     * given the whole step ahead, and a profile has its times. */
    double forward_s, backward_s, optimizer_s;
    double waiting_s; /* seconds spent waiting for other pipeline stages between passes */
    /* Seconds in which this rank only summed gradients and losses over the ranks, or waited for a rank that was late:
     * after its passes, and within a backward (ZeRO 2 and 3, overlapped sums), whose seconds are without these. */
    double reduce_s;
} mega_step_result;
/* Collective over the world. Runs one step: the forward and backward passes of all micro-batches in the order of the
 * pipeline schedule, then the update.
 *
 * With fp16 a step whose loss or gradients are not finite is skipped, and the loss scale falls. Returns
 * MEGA_ERR_NUMERIC if the loss or a gradient is not finite, with fp16 only at the smallest loss scale: the message
 * names the step, the samples and the first op whose output was not. Returns MEGA_ERR_USAGE if the engine does not
 * train, if an input of the batch is not filled, or if an id, label or position is out of its range: the message names
 * the input and the sample. Also returns any status that a callback of the data set returns. */
MEGA_CHECK_RESULT mega_status mega_engine_train_batch(mega_engine *e, mega_step_result *out);
/* Late results (--late-results, in mega_setup.argv), on a GPU of one rank with an optimizer of the library: then
 * mega_engine_train_batch only asks for its step, and writes to *out the result of the step before; of the first one,
 * out->iteration is 0. All else is as if it had waited: counters and the learning rate are those after the step that
 * was asked for, whose weights every other call sees. An error may be of the step before, too: the message names it, it
 * and the step that was asked for have changed nothing, and counters are those before it. Elsewhere the option changes
 * nothing, and out->iteration says so.
 *
 * Collective over the world. mega_engine_await_step waits for the step that was asked for last, and writes its result
 * to *out, if no call has returned it yet; else out->iteration is 0. Returns the errors of mega_engine_train_batch. */
MEGA_CHECK_RESULT mega_status mega_engine_await_step(mega_engine *e, mega_step_result *out);

/* ---- one micro-batch at a time ----
 *
 * With a pipeline these functions return MEGA_ERR_USAGE (DeepSpeed's pipeline engine raises an error likewise). The
 * order of calls is forward, backward, step; a call out of order returns MEGA_ERR_USAGE and changes nothing. Every rank
 * makes the same number of calls. */

/* Collective over the world. Runs the forward pass on the micro-batch that the caller filled (mega_engine_micro_batch),
 * or on the next samples of the training data; mega_engine_step advances to the following samples. Stores this rank's
 * loss of this micro-batch in *out_loss, which may be NULL. An engine in MEGA_EVAL evaluates: forward may follow
 * forward, and each call reads the next samples of the training data. In MEGA_TRAIN a backward must follow: the LM head
 * adds to the gradients in the forward pass.
 * Returns the errors of mega_engine_train_batch. If reading the samples fails, nothing changes and the call may be
 * repeated. */
MEGA_CHECK_RESULT mega_status mega_engine_forward(mega_engine *e, double *out_loss);
/* Collective over the world. Runs the backward pass of the last forward and adds to the gradients; at an accumulation
 * boundary it also sums them over the ranks. Returns MEGA_ERR_USAGE if no forward came before, or if the model has no
 * loss. */
MEGA_CHECK_RESULT mega_status mega_engine_backward(mega_engine *e);
/* Collective over the world. Like mega_engine_backward, for a loss that the caller computed from an output of the model
 * (mega_output, mega_engine_read_output); the model's own losses are added to it. gradient [count], in the shape of the
 * output, is the derivative of a sum over the rows of this micro-batch on this rank; weight is the total weight of
 * those rows. The library divides by the weight and by the number of micro-batches, as for a mega_loss. Ranks of one
 * tensor-parallel group pass the same gradient and weight. Returns MEGA_ERR_NOT_FOUND if there is no such output;
 * MEGA_ERR_USAGE if count is not the size of the output, if the output depends on no parameter, or if weight is
 * negative or not finite; MEGA_ERR_UNSUPPORTED with --calculate-per-token-loss. These errors change nothing. */
MEGA_CHECK_RESULT mega_status mega_engine_backward_from(mega_engine *e, const char *output, const float *gradient,
                                                        int64_t count, double weight);
/* Collective over the world. Completes a micro-batch; at an accumulation boundary it also updates the weights with the
 * mean over the micro-batches since the last update, and writes *out. *out is unchanged otherwise; out may be NULL.
 * Returns MEGA_ERR_NUMERIC if a gradient is not finite. */
MEGA_CHECK_RESULT mega_status mega_engine_step(mega_engine *e, mega_step_result *out);
/* Return whether the next mega_engine_step will update the weights, and whether the last one did. */
bool mega_engine_is_accumulation_boundary(const mega_engine *e);
bool mega_engine_was_step_applied(const mega_engine *e);
/* Sets whether the next mega_engine_step updates the weights. Every rank passes the same value. Returns MEGA_ERR_USAGE
 * between a forward and its step, because the backward pass of a boundary already sums gradients over the ranks. */
MEGA_CHECK_RESULT mega_status mega_engine_set_accumulation_boundary(mega_engine *e, bool is_boundary);

/* ---- queries: local ---- */

int64_t mega_engine_global_steps(const mega_engine *e);  /* updates, including skipped ones */
int64_t mega_engine_skipped_steps(const mega_engine *e); /* of these, skipped: gradients overflowed in fp16 */
int64_t mega_engine_micro_steps(const mega_engine *e);
int64_t mega_engine_global_samples(const mega_engine *e);
double mega_engine_lr(const mega_engine *e);               /* learning rate of the next update */
double mega_engine_loss_scale(const mega_engine *e);       /* of the next step; 1 unless fp16 */
double mega_engine_global_grad_norm(const mega_engine *e); /* that of the last update; NAN before the first */
int64_t mega_engine_train_batch_size(const mega_engine *e);
int64_t mega_engine_train_micro_batch_size(const mega_engine *e); /* samples per data-parallel rank */
int64_t mega_engine_gradient_accumulation_steps(const mega_engine *e);
mega_dtype mega_engine_dtype(const mega_engine *e);
int mega_engine_zero_stage(const mega_engine *e);
const mega_layout *mega_engine_layout(const mega_engine *e); /* borrowed */
mega_world *mega_engine_world(const mega_engine *e);         /* borrowed; NULL: one rank */
bool mega_engine_is_main_process(const mega_engine *e);      /* true on exactly one rank: the one that prints */
/* Return whether this rank holds the first, or the last, stage of the pipeline. Without a pipeline both are true. */
bool mega_engine_is_first_stage(const mega_engine *e);
bool mega_engine_is_last_stage(const mega_engine *e);
int64_t mega_engine_positions(const mega_engine *e); /* per sample (the sequence length) */
/* Returns whether the engine is busy ("Callbacks" above), so that calls other than queries are refused here. */
bool mega_engine_is_busy(const mega_engine *e);

/* ---- parameters ---- */

/* Returns parameter `index` of the whole model, in the order of declaration: its name (borrowed) and shape ([rows] if
 * *out_columns is 0). Returns MEGA_ERR_NOT_FOUND if index is past the last one. Local. */
MEGA_CHECK_RESULT mega_status mega_engine_param_info(const mega_engine *e, int index, const char **out_name,
                                                     int64_t *out_rows, int64_t *out_columns);
/* Collective over the world. Get or set the whole tensor of a parameter, as F32. Get writes it on every rank; for set,
 * all ranks pass the same values. name is the name of a parameter, or of a checkpoint tensor that holds a part of one
 * (mega_param_options.part), whose rows then have the order of the file. If a name is both, it means the parameter, in
 * memory order; so if the rows of a part have another order, give its `file` another name. `what` is NULL for the
 * master weight, "grad" for the gradient, or the name of an optimizer state such as "exp_avg". The gradient is the mean
 * over micro-batches, summed over the ranks and not clipped. It exists from the backward pass of an accumulation
 * boundary to the next forward, and setting it before mega_engine_step changes the update. count must be the number of
 * elements of the whole tensor. Both return MEGA_ERR_NOT_FOUND for an unknown name, and suggest the nearest one;
 * MEGA_ERR_USAGE for a wrong count, or if there is no gradient. */
MEGA_CHECK_RESULT mega_status mega_engine_get_param(mega_engine *e, const char *name, const char *what, int64_t count,
                                                    float *out);
MEGA_CHECK_RESULT mega_status mega_engine_set_param(mega_engine *e, const char *name, const char *what, int64_t count,
                                                    const float *values);

/* The losses and metrics of the whole model, the same list on all ranks: first those of training, by pipeline part and
 * within a part in order of declaration; then those that only evaluation computes. */
int mega_engine_num_metrics(const mega_engine *e);
const char *mega_engine_metric_name(const mega_engine *e, int metric); /* borrowed; NULL after the last one */

/* Named outputs of the model (mega_output), from the last micro-batch that this rank ran forward, in training or in
 * evaluation. mega_engine_output_count returns the number of elements of an output on this rank, or 0 if this rank has
 * no such output (with a pipeline, another stage may have it). Local.
 * mega_engine_read_output copies one, [rows, channels], as F32. Returns MEGA_ERR_NOT_FOUND if this rank has no such
 * output; MEGA_ERR_USAGE if count is not mega_engine_output_count, or if nothing has run yet. Local. */
int64_t mega_engine_output_count(const mega_engine *e, const char *output);
MEGA_CHECK_RESULT mega_status mega_engine_read_output(mega_engine *e, const char *output, int64_t count, float *out);

/* Collective over the world. Evaluates the first max_batches batches of `dataset`, in its order, or all of it if
 * max_batches is 0. Every sample counts once: samples at the end that do not fill a micro-batch are evaluated one by
 * one, each copied to all rows of a micro-batch (so a loss over pairs of rows compares copies there). `dataset` is the
 * same on all ranks. Writes the members loss, metric and samples of *out and sets the others to 0. Does not change
 * weights, optimizer states or counters of training. Returns the errors of mega_engine_train_batch. */
MEGA_CHECK_RESULT mega_status mega_engine_evaluate(mega_engine *e, const mega_dataset *dataset, int64_t max_batches,
                                                   mega_step_result *out);

/* Gives a value to the monitors that the options enable (TensorBoard, CSV, wandb), at the number of samples so far.
 * Only the first rank writes. Returns MEGA_ERR_USAGE for an empty name or one with commas, quotation marks or line
 * ends; a file that cannot be written is only a warning. Local. */
MEGA_CHECK_RESULT mega_status mega_engine_write_event(mega_engine *e, const char *name, double value);

/* Collective over the world; all ranks give the same `stragglers`. Logs the table of exchanges so far of the option
 * comms_logger, which the engine otherwise logs when it is destroyed: DeepSpeed's log_summary. stragglers: also which
 * part of the time the first rank spent waiting for slower ranks. Returns MEGA_ERR_USAGE without comms_logger. */
MEGA_CHECK_RESULT mega_status mega_engine_log_exchanges(mega_engine *e, bool stragglers);

/* ---- one program at a time, forward only: generation, and evaluation by a rule of the caller's ----
 *
 * An engine in MEGA_GENERATE has two programs that share a key-value cache: PREFILL, which reads mega_engine_run_rows
 * rows of each prompt, and DECODE, which reads one row of each sample. An engine that evaluates has the program
 * EVALUATE. For each run the caller fills a batch and reads the outputs of the program:
 *
 *     int32_t filled[SAMPLES] = {0};                             positions of each sample that the cache holds
 *     batch = mega_engine_run_batch(e, MEGA_RUN_DECODE);         inputs by name
 *     ...                                                        mega_sample_set_i32(mega_batch_sample(batch, i), ...)
 *     mega_engine_run(e, MEGA_RUN_DECODE, filled);               adds a row to each cache
 *     mega_engine_wait(e);
 *     if (mega_engine_run_output(e, MEGA_RUN_DECODE, "logits", &logits))   on the ranks of the last stage
 *         mega_run_value_read(&logits, ...)
 *     filled[i]++;                                               for each sample whose row was a real one
 *
 * The ranks that share a model (those of tp, of pp and of ep) make the same calls in the same order. Those of tp and of
 * pp give the same samples, and so do those of ep in MEGA_GENERATE; elsewhere these have their own. Other
 * data-parallel ranks have their own samples and may make different calls, except with ZeRO 3: there each run gathers
 * weights over dp, so all ranks make the same runs. */
typedef enum mega_run { MEGA_RUN_EVALUATE, MEGA_RUN_PREFILL, MEGA_RUN_DECODE } mega_run;

/* Returns the rows of each sample in one run: 1 for DECODE, all positions of a sample for EVALUATE. Returns -1 if there
 * is no such program. */
int64_t mega_engine_run_rows(const mega_engine *e, mega_run program);
/* Returns the batch of the next run: micro_batch samples, not filled yet. The caller fills every input by name, with
 * the numbers of all rows of each sample. Unused samples may hold any numbers that are in range. Borrowed, until the
 * run. Returns NULL if there is no such program. Local. */
mega_batch *mega_engine_run_batch(mega_engine *e, mega_run program);
/* Collective over tp, pp and ep. Runs the forward pass of a program on its batch. filled [micro_batch]: how many
 * positions of each sample's cache are filled; the first row of the batch is the next position (0 begins a new sample;
 * pass NULL for EVALUATE). The program writes all its rows into the cache. Rows of padding do no harm: the caller does
 * not count them in `filled`, and the next run overwrites them. A caller goes on where the last run of a sample ended,
 * or begins at 0: a layer with a window keeps only the latest keys.
 *
 * A run does not wait until other stages have finished, so independent runs (the chunks of a prompt, windows of a text)
 * overlap in a pipeline. Therefore MEGA_OK does not mean that the results are valid: mega_engine_wait returns that.
 * Returns MEGA_ERR_USAGE at once, and runs nothing, if there is no such program, memory or weights, or if a backward
 * pass is due. */
MEGA_CHECK_RESULT mega_status mega_engine_run(mega_engine *e, mega_run program, const int32_t *filled);
/* Collective over tp, pp and ep. Waits until all messages of the runs have arrived, and returns the same status on all
 * ranks of the model: MEGA_OK if all runs since the last wait succeeded; MEGA_ERR_USAGE with the name of an input that
 * was not filled, or that had a number out of range, on any rank; MEGA_ERR_INTERRUPTED if the team of any rank has been
 * asked to stop (mega_team_stop_on). After an error the results of the runs since the last wait are invalid, also in
 * the cache. */
MEGA_CHECK_RESULT mega_status mega_engine_wait(mega_engine *e);

/* Finds the output of this name (mega_output) of the last run of a program. *out names memory of the program: it is
 * valid until the next run, and complete once mega_engine_wait has returned MEGA_OK. Returns false, and leaves *out
 * unchanged, if no program of this rank has such an output (with a pipeline, another stage may have it). Local. */
typedef struct mega_run_value {
    const void *data; /* borrowed; memory of the device: mega_run_value_read reads it */
    mega_dtype dtype;
    int64_t count;
} mega_run_value;
bool mega_engine_run_output(const mega_engine *e, mega_run program, const char *output, mega_run_value *out);
/* Copies `count` numbers of a value, from number `first` on, to out [count] of its dtype. They must exist. Returns what
 * a GPU failed with, also earlier; `out` has NaNs then. Local. */
MEGA_CHECK_RESULT mega_status mega_run_value_read(const mega_run_value *value, int64_t first, int64_t count, void *out);

/* ---- checkpoints ----
 *
 * A checkpoint is a folder that is committed atomically and does not depend on the layout of ranks. */

/* The caller's own state: one JSON object and named arrays (client_array.h). Every rank passes the same state; one rank
 * writes it. */
typedef struct mega_client_state {
    const char *json; /* NULL: {} */
    const mega_client_array *array;
    int num_arrays;
} mega_client_state;

/* Collective over the world. Writes FOLDER/TAG or, if tag is NULL, FOLDER/iter_N, where N is the number of the step in
 * seven digits. A checkpoint of the same name is replaced; one with a tag is never removed to keep a number of
 * checkpoints (--keep-checkpoints). folder and tag are the same on all ranks. client may be NULL. A failure leaves the
 * previous checkpoint whole. Returns MEGA_ERR_IO, or MEGA_ERR_USAGE if the tag cannot be the name of a folder or is the
 * iter_N of another step, or if client->json is not a JSON object. */
MEGA_CHECK_RESULT mega_status mega_engine_save_checkpoint(mega_engine *e, const char *folder, const char *tag,
                                                          const mega_client_state *client);

/* Which parts of a checkpoint to leave out; zero-initialized: load everything. The terms are DeepSpeed's. */
typedef struct mega_load_options {
    bool module_only; /* load only weights: the run starts at step 0 with fresh optimizer states (fine-tuning) */
    bool no_optimizer_states;    /* keep the engine's moments and update count; load the schedule */
    bool no_lr_scheduler_states; /* keep the engine's schedule and its position */
    bool other_training_data;    /* continue with other training data, at the number of consumed samples */
} mega_load_options;

/* Collective over the world. Loads FOLDER/TAG or, if tag is NULL, the checkpoint that was saved last. If the folder
 * holds no checkpoint and tag is NULL, it returns MEGA_OK and *out_found is false. options and out_client may be NULL.
 * *out_client is borrowed until the next load or mega_engine_destroy. Micro-batches since the last update are
 * discarded.
 * Returns MEGA_ERR_NOT_FOUND, MEGA_ERR_IO, MEGA_ERR_FORMAT (damaged), or MEGA_ERR_USAGE if the checkpoint does not fit
 * the model, or if the training data differ from those of the run that saved it (first, count, in_order, hash, if both
 * have them); an engine that only evaluates accepts any. If the checkpoint is refused before its first tensor is read,
 * the engine is unchanged; after a later failure the caller must load a checkpoint again or destroy the engine. */
MEGA_CHECK_RESULT mega_status mega_engine_load_checkpoint(mega_engine *e, const char *folder, const char *tag,
                                                          const mega_load_options *options, bool *out_found,
                                                          const mega_client_state **out_client);

#ifdef __cplusplus
}
#endif

#endif
