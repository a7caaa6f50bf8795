/* Shared by the files of the training run. */
#ifndef MEGALITH_TRAIN_IMPL_H
#define MEGALITH_TRAIN_IMPL_H

#include "megalith/comm_log.h"
#include "megalith/cpu_load.h"
#include "megalith/engine_commands.h"
#include "megalith/peak.h"
#include "megalith/pipeline.h"
#include "megalith/profile.h"
#include "megalith/train.h"
#include "tasks/task.h"
#include <time.h>

/* Sums since the last regular log line, which is printed every --log-interval iterations. */
typedef struct train_interval {
    double metric[MEGA_METRICS];
    double loss, seconds; /* seconds: time for data, forward, backward and update; evaluation and saving are excluded */
    double flops, palm;   /* model FLOPs: see train_token_flops */
    int64_t iterations, tokens;
    int64_t skipped, nan; /* iterations whose gradients overflowed; of these, those whose loss was not finite */
} train_interval;

typedef struct train_peak {
    double flops;       /* operations per second, the best measured so far; 0: none */
    bool is_doubtful;   /* the machine can probably do more than `flops` */
    double measured_at; /* monotonic clock, seconds */
} train_peak;

/* What the run.json of the resumed checkpoint contains about the training data; all zero: it contains nothing, or no
 * checkpoint is resumed. */
typedef struct train_stored {
    uint64_t data, content; /* hashes that data_hash and look_at_data computed */
    int64_t *order;         /* like trainer.order.samples; the trainer takes ownership */
    int orders;
    int64_t order_samples; /* sum over all parts; 0: the order was not stored */
    uint64_t order_hash;   /* train_order_hash of the first order_samples samples */
    bool is_warned;        /* a warning was logged about an option that changes the order */
    /* for --dataloader-type cyclic: samples per epoch, and the number of samples the permutation draws from */
    int64_t cyclic_epoch, cyclic_permutation;
} train_stored;

/* Bytes that a rank holds in addition to its engine. */
typedef struct train_host_memory {
    size_t order; /* the order of samples: this rank's share of the host's shared memory, and its own permutations */
    int sharers;  /* number of ranks on this host */
    size_t tokenizer;
    size_t process; /* program code and libraries */
    size_t saving;  /* buffers of the files of a checkpoint */
} train_host_memory;

typedef struct train_monitor train_monitor; /* metrics file, TensorBoard: monitor.c */
typedef struct train_curve train_curve;     /* curve.c */

/* The tokenizer, and the vocabulary that follows from it. */
typedef struct train_text {
    mega_tokenizer *tokenizer; /* NULL only in a plan without tokenizer files */
    void *words;               /* what the task made of it (read_tokenizer) */
    int64_t vocab;             /* number of ids of the tokenizer; the data may contain only these */
    int64_t vocab_rows;        /* rows of the model's vocabulary: `vocab`, or more if a checkpoint was padded */
} train_text;

/* Of a run whose length is given in epochs. */
typedef struct train_epochs {
    mega_task_texts texts;
    int64_t steps; /* of an epoch; 0: the length is given in iterations */
    double loss;   /* sum of the losses of this epoch's steps */
    int64_t losses;
    double finished_loss; /* mean loss of the last epoch that ended; NAN: none */
    bool is_final;        /* the final model is written */
} train_epochs;

/* The order of the training samples. */
typedef struct train_order {
    int64_t *samples; /* number of samples requested from each part of the training data: sample_order.c */
    int parts;
    uint64_t hash; /* train_order_hash of all training samples, when the data were opened */
    size_t bytes;  /* that it takes, for the data opened last, whether to be checked or to be read */
} train_order;

typedef struct train_saves {
    int64_t iteration; /* of the last checkpoint written; -1: none */
    char tag[32];      /* its tag; "": iter_N */
    mega_lock *lock;   /* lock of --save; the first rank holds it for all ranks, NULL in the others */
    bool has_begun;    /* the run has begun to write to --save */
    bool is_failing;   /* what is saved now is the state before a failure */
    bool is_alone;     /* --restart: the next save removes the checkpoints of other runs */
} train_saves;

/* A run that is only planned. */
typedef struct train_planned {
    bool is_plan; /* report no option as missing, and show a run that does not fit in memory; else the rest is 0 */
    bool assumed_vocab;    /* nothing names the vocabulary, so that GPT-2's is assumed */
    bool is_shape_alone;   /* the folder of --load has a config.json and no weights */
    bool is_for_other_isa; /* the plan is for another instruction set than that of this host, `host_isa` */
    mega_isa host_isa;
} train_planned;

/* The CPU use of the ranks on the first rank's host, which measures it. */
typedef struct train_cpu {
    mega_cpu_meter *meter; /* NULL in the other ranks */
    mega_cpu_load load;    /* the meter's last result; zero: none yet */
    bool is_new;           /* there is a new result since the last row of the metrics file */
} train_cpu;

typedef struct train_log {
    train_interval interval;
    double last_loss, last_validation_loss; /* NAN: none yet */
    double step_s;                          /* of steps since the last one whose result was logged */
    double last_line;                       /* monotonic clock, seconds, when the last log line was printed */
    mega_buffer line;                       /* buffer in which log lines are composed */
    time_t described;                       /* when the description of the run was first written */
    bool has_described;                     /* what comes before the first step is printed */
} train_log;

typedef struct train_profile {
    mega_profile *events;    /* NULL without --profile-trace and --profile-table */
    bool is_written;         /* the profile was written */
    mega_comm_staged staged; /* before the first step that is profiled */
    mega_buffer trace;       /* trace that could not be written yet; only on the first rank */
    bool trace_failed;
} train_profile;

typedef struct trainer {
    mega_train_options *cfg;
    const mega_task *task; /* what this command trains */
    const mega_train_io *io;
    mega_team *team;
    mega_world *world; /* NULL: one rank */
    double began;
    int stop; /* signal that some rank received; 0: none */
    /* identifies this run, also after it is resumed. Only on the first rank; "" until the weights are loaded */
    char run_id[MEGA_TOKEN_BYTES];
    train_planned plan;

    /* the model */
    train_text text;
    mega_task_model network; /* the task's model; empty until all options are known */
    mega_engine *engine;
    mega_checkpoint *checkpoint; /* open while the run is being set up, else NULL */
    char *generation_config;     /* of the folder that was loaded, which is saved as it is; NULL: none */
    bool is_loaded;              /* the network is that of a folder */
    train_stored stored;

    /* the data */
    mega_task_data data[MEGA_SPLIT_COUNT];
    mega_sampled sampled[MEGA_SPLIT_COUNT]; /* the data in the order in which the run reads them */
    mega_dataset training_data;             /* what the engine reads: sampled[MEGA_SPLIT_TRAIN], once it is open */
    uint64_t content[MEGA_SPLIT_COUNT];     /* the hash that look_at_data computes for each split */
    train_order order;

    /* how far */
    int64_t train_iters;
    int64_t first_iteration; /* iterations done before this process started */
    mega_batch_ramp batch;   /* the same as the engine's */
    train_epochs epochs;
    train_saves saves;
    bool evaluated; /* an evaluation loss was printed */

    /* what is reported */
    train_log log;
    train_monitor *monitor;
    mega_state_norms states; /* with --log-optimizer-states-to-tensorboard: those of the last logged iteration */
    train_curve *curve;      /* NULL without a terminal */
    train_profile profile;
    train_cpu cpu;
    train_peak peak;      /* peak speed of this rank's team of threads */
    size_t reading_bytes; /* memory that the process held at most when it had read the texts of a run of epochs */
    int64_t most_planned; /* train_memory_total of the rank that has most */
    int64_t most_held;    /* mega_memory_peak of the rank that has most, when the run ended */
} trainer;

/* How the length of a run is given, and what follows from that. */
typedef struct train_course {
    /* Megatron's: evaluates a draw every --eval-interval steps, numbers checkpoints by iterations and saves the last
     * step. Otherwise as transformers' script. */
    bool is_as_megatron;
    bool in_epochs;
    bool shares_texts; /* the ranks of a host map the texts that its first one reads */
    /* For messages, the options that say: where to save, what is in a step, weights to begin with, to continue what was
     * saved, to replace it; and what the number of steps follows from (NULL: it is given itself). */
    const char *save_option, *batch_options, *weights_option, *load_option, *restart_option, *length_options;
    const char *losses_in_log;        /* what the last line calls the evaluations */
    mega_status (*begin)(trainer *t); /* called before the first step, by all ranks; may be NULL */
    mega_status (*after)(trainer *t); /* called after each iteration; may be NULL */
    mega_status (*end)(trainer *t);   /* called after the last one, unless a signal or a limit ended the run */
} train_course;

/* ranks.c */
bool train_is_first(const trainer *t);                     /* whether this is rank 0, which prints and writes files */
mega_status train_agree(const trainer *t, mega_status st); /* calls mega_comm_agree over all ranks */
/* Names a long phase, for messages of ranks that wait for this one */
void train_record_phase(const trainer *t, const char *phase);
/* Collective: the world. Finds out whether any rank received a signal, and whether the first rank's time is up
 * (*late), so that all ranks act alike. Returns MEGA_ERR_BUSY if another run has taken over --save. */
mega_status train_poll_ranks(trainer *t, double minutes, bool *late);
/* Collective: the world. Returns MEGA_ERR_INTERRUPTED on all ranks if one of them received a signal: for work that
 * leaves nothing to save. */
mega_status train_check_stop(trainer *t, const char *what);
mega_status train_log_parameters(const trainer *t);
int64_t train_frozen_count(const trainer *t); /* parameters of the whole model that are not trained */

/* compare_ranks.c. Collective: the world. Compare the ranks; on failure every rank has the message that names
 * the difference. */
mega_status train_compare_ranks(const trainer *t);      /* builds, options */
mega_status train_compare_processors(const trainer *t); /* selects the smallest instruction set of all ranks */
mega_status train_compare_tokenizers(const trainer *t);
mega_status train_compare_data(const trainer *t); /* the data of every split */

/* losses.c */
const char *train_loss_name(const trainer *t); /* name in logs of the loss that is trained */
/* Number of losses and metrics that logs show next to it: all, or 0 if there is only one */
int train_loss_parts(const trainer *t);
const char *train_loss_key(char out[MEGA_LOSS_NAME], const char *name); /* "lm_loss", in metrics files */
void train_losses_add(train_interval *sum, const mega_step_result *r);
/* Writes the fields of the log line */
void train_losses_text(const trainer *t, const train_interval *sum, mega_buffer *out);
void train_evaluation_text(const trainer *t, const char *where, const mega_loss_sums *sums, mega_buffer *out);
double train_evaluation_loss(const mega_loss_sums *sums); /* the mean loss; 0 if nothing was evaluated */

/* text.c */
/* Returns the model FLOPs of one token of the last step, forward and backward, counting causal attention (half of the
 * scores); r NULL: before the first step, of whole samples. *palm (may be NULL) receives the same by PaLM's convention,
 * which counts all scores. */
double train_token_flops(const trainer *t, const mega_step_result *r, double *palm);
double train_perplexity(double loss); /* e^loss; losses above 20 are cut to 20, as in Megatron; NAN for NAN */
bool train_is_deepscale(const mega_train_options *cfg); /* whether DeepSpeed is given by its name of 2019 */
void train_line(const trainer *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void train_lines(const trainer *t, const char *text);       /* one call of train_line per line of text */
void train_line_always(const trainer *t, const char *text); /* what an option asks for, whatever --log-level hides */
void train_datetime(const trainer *t, const char *label);
const char *train_bytes(char *out, size_t size, double bytes); /* "1.25 GB" */
const char *train_grouped(char *out, size_t size, int64_t n);  /* "124,439,808" */

/* start_lines.c. Say what runs, before the first step. train_log_model: once the engine is built */
mega_status train_log_start(const trainer *t);
mega_status train_log_model(const trainer *t);
/* result_lines.c */
void train_log_result(const trainer *t);           /* after the last step: what the run left, and where */
const char *train_why_untrained(const trainer *t); /* the option that left out the training */

/* network_words.c */
/* Writes Megatron's table of options, with the kind of the network that was loaded, not the defaults of its options */
mega_status train_options_table(const trainer *t, mega_buffer *out);

/* check.c. Collective: the world. Opens the checkpoint and the tokenizer, builds the engine, and checks everything
 * else that may be wrong, but writes no file and builds no index of the data. The error contains all mistakes,
 * including those of the command line. */
mega_status train_check(trainer *t);

/* setup.c */
mega_status train_open_checkpoint(trainer *t); /* also sets options from it that the command line leaves open */
/* Derives values and checks all rules again, after options were set; train_check reports what that finds. */
void train_check_options_again(const trainer *t);
/* The option that names the folder to load, for messages. */
const char *train_load_option(const mega_train_options *cfg);
bool train_takes_shape(const trainer *t); /* whether the network's shape comes from the checkpoint */
/* whether options name one; if not, it is looked for in the checkpoint */
bool train_names_tokenizer(const trainer *t);
/* preset.c. Ids of the model that --preset names; 0: none is named, or it is no published model. */
int64_t train_preset_vocabulary(const mega_train_options *cfg);
mega_status train_open_tokenizer(trainer *t);
void train_log_tokenizer(const trainer *t);
void train_plan_iterations(trainer *t); /* converts --train-samples to iterations, before the engine is built */
/* Creates the task's model for cfg, which is t->cfg or a variant of it; the caller frees the model. */
mega_status train_make_model(const trainer *t, const mega_train_options *cfg, mega_task_model *out);
mega_status train_build_network(trainer *t); /* creates t->network */
/* Creates an engine for that network or a variant of it, with the stages and programs that the network specifies. */
mega_status train_create_engine(const trainer *t, mega_engine **out, const mega_task_model *m,
                                const mega_engine_options *options);
mega_status train_build_engine(trainer *t);
mega_status train_check_shape(const trainer *t); /* compares t->network with the open checkpoint, if there is one */
mega_status train_check_state(const trainer *t); /* compares the checkpoint's optimizer and schedule with the options */
mega_status train_load(trainer *t);

/* resume.c: reports differences from the run that wrote the checkpoint */
mega_status train_check_tokenizer(const trainer *t); /* checks that the tokenizer is the checkpoint's */
/* Reads run.json; warns about options that change the samples from here on */
mega_status train_read_stored(trainer *t);
void train_warn_of_other_data(const trainer *t); /* warns if the data differ; call it once the data are open */

/* sample_order.c: builds the training data in the order of the checkpoint, if there is one, and the data of the other
 * splits. o->num_samples is what the whole run reads. */
mega_status train_build_data(trainer *t, const mega_task_data_options *o);
/* Returns a hash of the order and content of some of the first `samples` training samples. There must be that many. */
uint64_t train_order_hash(const trainer *t, int64_t samples);
int64_t train_cyclic_epoch(const trainer *t, int64_t *permutation);

/* save_lock.c: only one run at a time may use --save */
/* The first rank takes the lock of --save, unless it already has it or the folder does not exist yet. --dry-run only
 * checks the lock. */
mega_status train_lock_save(trainer *t);
/* Like train_lock_save, for a folder that did not exist when train_lock_save and --load looked but exists now. Fails
 * if another run has written checkpoints to it in the meantime. */
mega_status train_lock_new_save(trainer *t);
/* Refuses a --save that holds checkpoints unless the run goes on from them, or --restart is given. */
mega_status train_check_save_is_unused(const trainer *t);
/* Checks that no iteration folder which the run may replace was written by another program. Called before the
 * checkpoint is loaded. */
mega_status train_check_other_programs(const trainer *t);
/* Creates the run's id, unless the checkpoint has one, and writes it to --save, after checking that every folder which
 * the run may replace was written by this program. */
mega_status train_identify(trainer *t);

/* run_files.c */
mega_status train_check_nothing_loaded(const trainer *t); /* --load found no checkpoint: checks that this is intended */
/* Checks the files that this rank writes, in addition to the rules for options */
mega_status train_check_output_files(const trainer *t);
/* Collective: the world. Warns about output files that were given only to other ranks than the first. */
mega_status train_warn_of_unwritten(const trainer *t);
/* Collective: the world. Creates and locks --save, one folder for all ranks. */
mega_status train_make_output_folders(trainer *t);

/* data.c */
/* Opens everything except the order of samples, which train_open_data builds */
mega_status train_check_data(trainer *t);
void train_close_checked_data(trainer *t); /* closes what train_check_data opened */
mega_status train_open_data(trainer *t);
void train_close_data(trainer *t);
/* Checks that the tokenizer has an end-of-document token if options need one */
mega_status train_check_ends(const trainer *t);
const char *train_split_name(int split); /* "training" */
/* Returns the data of a split, for a message: its file, or the first of several; *others receives the text to append
 * if there are several. */
const char *train_data_prefix(const mega_train_options *cfg, int split, const char **others);
/* Collective: the world. Opens the shared memory that the first rank of this host offers to its other ranks. */
mega_status train_open_share(const trainer *t, mega_gpt_share **share);
void train_set_training_data(trainer *t); /* sets t->training_data, before the engine is created */

/* plan_schedule.c: --print-schedule, --schedule-svg */
mega_pipeline train_pipeline(const trainer *t);
mega_status train_plan_schedule(const trainer *t, mega_buffer *out);

/* memory.c: rejects a run that cannot fit in memory, with the numbers and with changes that would make it fit
 * (is_shown: the plan shows both instead). */
mega_status train_check_memory(const trainer *t, bool is_shown);
size_t train_memory_limit(const trainer *t, const char **name); /* in bytes; *name receives which limit it is */
/* One class of the memory of this rank, in bytes. */
typedef struct train_memory_class {
    const char *name, *meaning;
    size_t bytes;
    int cut_from;   /* lowest ZeRO stage that shards this class */
    bool is_beside; /* of the host, while a GPU computes: not part of train_memory_total */
} train_memory_class;
enum { TRAIN_MEMORY_CLASSES = 23 };
#define TRAIN_SCRATCH "scratch"
#define TRAIN_ORDER   "order"
int train_memory_classes(const trainer *t, train_memory_class out[TRAIN_MEMORY_CLASSES]); /* returns their number */
void train_memory_table(const trainer *t, mega_buffer *out);
void train_memory_host_table(const trainer *t, mega_buffer *out); /* nothing unless a GPU computes */
train_host_memory train_host_memory_get(const trainer *t);
/* Of a GPU that computes: its context, and a staging area. Else the sum over train_host_memory. In bytes. */
size_t train_bytes_beside_engine(const trainer *t);
/* What a rank whose engine holds this takes at most of a GPU; of the host: that, or what reading the texts took before
 * there was an engine. */
size_t train_memory_with_engine(const trainer *t, const mega_engine_memory *m);
size_t train_memory_total(const trainer *t);
mega_status train_find_most_planned(trainer *t); /* collective: the world */
mega_status train_find_most_held(trainer *t);    /* likewise, with the data still open */

/* gpu.c: the GPU that computes */
bool train_has_gpu(const trainer *t);
size_t train_gpu_bytes(const trainer *t, const char **name); /* of its memory; SIZE_MAX: there is none here */
double train_gpu_peak(const trainer *t);                     /* published, FLOP/s in the run's type; 0: not known */
void train_plan_gpu(const trainer *t, mega_buffer *out);     /* a line, if a GPU computes */
/* Writes the shortest time of an iteration of `flops` operations, if the peak is known. */
size_t train_graph_bytes(const trainer *t); /* assumed, of the graphs that a GPU records */
size_t train_nccl_bytes(const trainer *t);  /* of the communicators of this rank; 0: ranks do not exchange by NCCL */
void train_plan_graphs(const trainer *t, mega_buffer *out); /* their number */
void train_plan_gpu_time(const trainer *t, double flops, mega_buffer *out);

/* plan_ranks.c: what a plan prints about multiple ranks; nothing if there is only one. */
mega_status train_plan_count(const trainer *t, int64_t *padded, int64_t *logical); /* parameters of the whole model */
void train_plan_layout(const trainer *t, mega_buffer *out);
/* The pipeline stage whose ranks need most memory. */
typedef struct train_stage_bytes {
    int stage, rank; /* rank: its first */
    size_t bytes;
} train_stage_bytes;
mega_status train_plan_ranks(const trainer *t, mega_buffer *out, train_stage_bytes *out_most);
/* plan_balance.c: prints how balanced the pipeline stages are, and a better split. */
void train_plan_balance(const trainer *t, mega_buffer *out);

/* remedy_stages.c. Options of a run, planned for a rank of each pipeline stage. */
typedef struct train_whole_run {
    int stage;    /* that which needs most; before the call: the one to begin with */
    size_t bytes; /* of a rank of that stage */
    double cost;  /* of an iteration of the slowest stage, in operations */
} train_whole_run;
/* Ends early where a stage needs more than `enough`: `run` then says what is known. Returns false if there is no such
 * run. */
bool train_plan_all_stages(const trainer *t, const mega_train_options *cfg, size_t enough, train_whole_run *run);
/* remedy.c: lists the cheapest changes that would make the run fit, one line each, or says that there are none. */
void train_suggest(const trainer *t, size_t limit, mega_buffer *out);
/* remedy_ranks.c. Writes ways to divide the run among its ranks that fit; returns how many. */
int train_suggest_ranks(const trainer *t, size_t limit, mega_buffer *out);

/* log.c */
void train_log_step(trainer *t, const mega_step_result *r, double params_norm, double step_s);

/* peak_speed.c */
void train_peak_add(train_peak *p, mega_peak measured);
/* Returns the run's speed (`flops`, operations per second) in percent of the peak; raises the peak if the run is
 * faster. */
double train_peak_percent(train_peak *p, double flops);
void train_peak_measure(trainer *t);
void train_peak_measure_if_doubtful(trainer *t); /* measures again if the peak is doubtful, at most every ten seconds */
/* Writes " (doubtful; others took 24 % of the cores)": why the percentage may be misleading; "" if there is no reason.
 * threads: number of threads of this host's ranks. */
const char *train_peak_note(char *out, int size, const train_peak *p, const mega_cpu_load *load, int threads);

/* busy_cores.c: measures how busy the cores were */
mega_status train_load_open(trainer *t);
void train_load_read(trainer *t, bool is_last_of_interval);
int train_load_threads(const trainer *t); /* number of threads of this host's ranks */

/* evaluate.c: `where` is printed after "validation loss at" in the log. If any rank receives a signal, evaluation ends
 * after the current batch without a loss, and t->stop is set. */
mega_status train_evaluate(trainer *t, int split, const char *where, bool is_final);

/* epochs.c: runs whose length is given in epochs */
/* Whether the last step ended an epoch, if only because the run ends; false in a run of iterations. */
bool train_ends_epoch(const trainer *t);
/* Collective: the world. Reads the texts, and sets the number of iterations. Does nothing where mistakes prevent it. */
mega_status train_read_texts(trainer *t);
/* Refuses a checkpoint whose steps had another number of samples. */
mega_status train_epochs_check_batch(const trainer *t);
/* Sets t->finished_loss to the mean loss of the epoch's steps (NAN: none), and begins to sum those of the next. */
void train_end_epoch(trainer *t);
void train_epochs_bar(const trainer *t, double loss, double tokens_s, mega_buffer *out);

/* save.c */
/* Checks that the first checkpoint fits on the disk; the engine must be built */
mega_status train_check_space(const trainer *t);
mega_status train_save(trainer *t);
/* The same under SAVE/TAG instead of the iteration's name; is_whole: with the optimizer's state. */
mega_status train_save_as(trainer *t, const char *tag, bool is_whole);
/* Collective: the world. Called before a run ends because of st, a failed step or evaluation that all ranks know of.
 * If reading data failed, the state is still that of the last complete step, and is saved; if a GPU has failed, no save
 * is begun, and a warning says which checkpoint stays. The reported error remains the original failure. Returns st. */
mega_status train_save_after_failure(trainer *t, mega_status st);
void train_warn_of_newer(const trainer *t);

/* monitor.c: only opening can fail; later write errors are logged as warnings. */
mega_status train_monitor_open(trainer *t);
bool train_monitor_is_due(const trainer *t); /* whether TensorBoard gets the numbers of this iteration */
void train_monitor_step(trainer *t, const mega_step_result *r, double params_norm, double step_s);
/* of_draw: of as many samples as --eval-iters says, instead of all. */
void train_monitor_evaluation(trainer *t, int split, double loss, bool of_draw, bool is_final);
void train_monitor_epoch(trainer *t, int64_t epoch, double loss, double train_loss);
void train_monitor_saved(trainer *t); /* records that a checkpoint was saved, for --log-progress */
void train_monitor_flush(trainer *t);
void train_monitor_log_address(const trainer *t); /* where the run of wandb is */
void train_monitor_close(trainer *t);

/* describe.c: writes what `megalith report` shows about a run beside --metrics-file; a failure is only a warning. */
void train_describe(trainer *t);

/* profile.c: --profile-trace, --profile-table */
mega_status train_profile_check(const trainer *t); /* checks that at least one of the coming iterations is profiled */
mega_status train_profile_open(trainer *t);
bool train_profile_begin(trainer *t); /* returns whether the coming step is profiled */
/* Called when a step has ended. After the last profiled step, writes the requested outputs. */
mega_status train_profile_end(trainer *t, mega_profile_moment began, mega_profile_moment ended);
mega_status train_profile_close(trainer *t); /* at the end of training: writes the profile if training ended early */

/* trace.c. Collective: the world. Writes the profile of all ranks to --profile-trace. */
mega_status train_trace_write(trainer *t);
/* Writes a trace that could not be written earlier. Failures are only warnings; with is_last, the warning says that
 * the trace is missing. */
void train_trace_retry(trainer *t, bool is_last);

/* curve.c: draws the losses so far on a terminal at the end */
mega_status train_curve_open(trainer *t);
void train_curve_add(trainer *t, double loss);
void train_curve_draw(const trainer *t);
void train_curve_close(trainer *t);

#endif
