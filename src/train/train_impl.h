/* What the files of the training run share. */
#ifndef MEGALITH_TRAIN_IMPL_H
#define MEGALITH_TRAIN_IMPL_H

#include "megalith/cpu_load.h"
#include "megalith/engine_commands.h"
#include "megalith/peak.h"
#include "megalith/profile.h"
#include "megalith/train.h"
#include "task.h"
#include <time.h>

/* Sums since the last line of the log interval. */
typedef struct train_interval {
    double metric[MEGA_METRICS];
    double loss, seconds; /* seconds of data, forward, backward and update; evaluation and saving are not in them */
    int64_t iterations, tokens;
} train_interval;

typedef struct train_peak {
    double flops;       /* a second, the best measured so far; 0: none */
    bool is_doubtful;   /* the machine can probably do more */
    double measured_at; /* monotonic seconds */
} train_peak;

/* What the run.json of the checkpoint that a run resumes says of the training data; zeros: nothing, or nothing is
 * resumed. */
typedef struct train_stored {
    uint64_t data, content; /* hashes: data_hash, look_at_data */
    int64_t *order;         /* as trainer.order; the trainer takes it */
    int orders;
    int64_t order_samples;                    /* of all parts; 0: it says nothing of the order */
    uint64_t order_hash;                      /* train_order_hash of as many */
    bool is_warned;                           /* of an option that changes the order */
    int64_t cyclic_epoch, cyclic_permutation; /* of --dataloader-type cyclic: samples of an epoch, and drawn from */
} train_stored;

/* Bytes that a rank holds beside its engine. */
typedef struct train_holds {
    size_t order; /* of samples: its part of what the ranks of a host share, and permutations of its own */
    int sharers;  /* ranks of this host */
    size_t tokenizer;
    size_t process; /* code and libraries */
} train_holds;

typedef struct train_monitor train_monitor; /* metrics file, TensorBoard: monitor.c */
typedef struct train_curve train_curve;     /* curve.c */

typedef struct trainer {
    mega_train_options *cfg;
    const mega_task *task; /* what this command trains */
    mega_team *team;
    const mega_train_io *io;
    mega_world *world;           /* NULL: one rank */
    mega_checkpoint *checkpoint; /* open while a run is set up, else NULL */
    mega_tokenizer *tokenizer;   /* NULL only in a plan without tokenizer files */
    int64_t vocab;               /* ids of the tokenizer: those that data may hold */
    int64_t vocab_rows;          /* of the model: as many, or those of a checkpoint that was padded beyond them */
    mega_task_model network;     /* of the task; empty until all options are known */
    mega_engine *engine;
    mega_task_data data[MEGA_SPLIT_COUNT];
    mega_sampled sampled[MEGA_SPLIT_COUNT]; /* the data in the order in which the run reads them */
    mega_dataset training_data;             /* what the engine reads: sampled[MEGA_SPLIT_TRAIN], once it is open */
    uint64_t content[MEGA_SPLIT_COUNT];     /* of each, as look_at_data says */
    int64_t train_iters;
    mega_batch_ramp batch;   /* of the engine */
    int64_t saved_iteration; /* of the last checkpoint written, -1: none */
    int64_t first_iteration; /* done before this process began */
    train_stored stored;
    size_t order_bytes;  /* train_order_bytes of the data that were opened last, to be checked or to be read */
    uint64_t order_hash; /* train_order_hash of all training samples, when the data were opened */
    int64_t *order;      /* samples that each part of the training data was asked for: order.c */
    int orders;
    bool evaluated;     /* a loss was printed */
    bool is_plan;       /* what is not given is not missing, and what does not fit is shown */
    bool assumed_vocab; /* is_plan: no tokenizer was named */
    int stop;           /* signal that some rank was sent, 0: none */
    double began;
    train_peak peak;                        /* of this rank's team */
    mega_cpu_meter *meter;                  /* of the ranks of this host; the first rank's, NULL in the others */
    mega_cpu_load load;                     /* what it showed last; zero: nothing yet */
    bool is_load_new;                       /* since the last row of the metrics file */
    double last_loss, last_validation_loss; /* NAN: none yet */
    train_interval interval;
    double last_line;              /* monotonic seconds */
    mega_buffer line;              /* in which log lines are made */
    mega_lock *lock;               /* of --save; the first rank holds it for all, NULL in the others */
    bool has_begun;                /* to write to --save */
    char run_id[MEGA_TOKEN_BYTES]; /* of this run, also after it was resumed. The first rank's; "" before the weights
                                    * are there */
    train_monitor *monitor;
    train_curve *curve;    /* NULL without a terminal */
    mega_profile *profile; /* NULL without --profile-trace and --profile-table */
    bool profiled;         /* it was written */
    mega_buffer trace;     /* that could not be written yet; the first rank's */
    bool trace_failed;
} trainer;

/* ranks.c */
bool train_is_first(const trainer *t);                     /* rank 0: prints, writes files */
mega_status train_agree(const trainer *t, mega_status st); /* mega_comm_agree over the world */
void train_note(const trainer *t, const char *phase);      /* a long one, for those that wait for this rank */
/* Asks all ranks whether one was sent a signal, and the first whether its time is up: they all do the same. Returns
 * MEGA_ERR_BUSY when another run has taken --save over. */
mega_status train_ask_ranks(trainer *t, double minutes, bool *late);
/* MEGA_ERR_INTERRUPTED on all ranks where one was sent a signal: for work that leaves nothing to save. Collective. */
mega_status train_stop_check(trainer *t, const char *what);
mega_status train_say_parameters(const trainer *t);

/* alike.c. Collective: the world; on failure every rank has the message that names what differs. */
mega_status train_compare_ranks(const trainer *t);      /* builds, options */
mega_status train_compare_processors(const trainer *t); /* takes the least instruction set of all ranks */
mega_status train_compare_tokenizers(const trainer *t);
mega_status train_compare_data(const trainer *t); /* of every split */

/* losses.c */
const char *train_loss_name(const trainer *t); /* of what is trained, in logs */
int train_loss_parts(const trainer *t);        /* losses and metrics that logs show beside it: 0, or all of several */
const char *train_loss_key(char out[MEGA_LOSS_NAME], const char *name); /* "lm_loss", in metrics files */
void train_losses_add(train_interval *sum, const mega_step_result *r);
void train_losses_text(const trainer *t, const train_interval *sum, mega_buffer *out); /* fields of the log line */
void train_evaluation_text(const trainer *t, const char *where, const mega_loss_sums *sums, mega_buffer *out);
double train_evaluation_loss(const mega_loss_sums *sums); /* the mean; 0 of nothing */

/* text.c */
/* Model FLOPs of one token, forward and backward, attention counted causal; palm (may be NULL): by PaLM's convention,
 * which counts all of it. */
double train_token_flops(const trainer *t, double *palm);
double train_perplexity(double loss); /* e^loss; from a loss of 20 on that of 20, as Megatron prints it; NAN of NAN */
void train_line(const trainer *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void train_lines(const trainer *t, const char *text); /* cut at newlines */
void train_datetime(const trainer *t, const char *label);
const char *train_bytes(char *out, size_t size, double bytes); /* "1.25 GB" */
const char *train_grouped(char *out, size_t size, int64_t n);  /* "124,439,808" */

/* check.c: opens checkpoint and tokenizer, builds the engine, and looks at everything else that may be wrong, but
 * writes nothing and builds no index of the data. The error holds all mistakes, those of the command line too.
 * Collective: the world. */
mega_status train_check(trainer *t);

/* setup.c */
mega_status train_open_checkpoint(trainer *t); /* and takes from it what the options leave open */
bool train_takes_shape(const trainer *t);      /* of the network from the checkpoint */
bool train_names_tokenizer(const trainer *t);  /* by options; else it is looked for in the checkpoint */
mega_status train_open_tokenizer(trainer *t);
void train_say_tokenizer(const trainer *t);
void train_plan_iterations(trainer *t); /* of --train-samples, before the engine is built */
/* The model of the task for cfg, t->cfg or a variant of it; the caller frees it. */
mega_status train_make_model(const trainer *t, const mega_train_options *cfg, mega_task_model *out);
mega_status train_build_network(trainer *t); /* t->network */
/* An engine of that network or of a variant, with the stages and programs that it says. */
mega_status train_create_engine(const trainer *t, mega_engine **out, const mega_task_model *m,
                                const mega_engine_options *options);
mega_status train_build_engine(trainer *t);
mega_status train_check_shape(const trainer *t); /* t->network against the open checkpoint, if there is one */
mega_status train_check_state(const trainer *t); /* its optimizer and schedule against the options */
mega_status train_load(trainer *t);

/* resume.c: what differs from the run that wrote the checkpoint */
mega_status train_check_tokenizer(const trainer *t); /* is it the checkpoint's? */
mega_status train_read_stored(trainer *t);           /* and warns of options that change the samples from here on */
void train_warn_of_other_data(const trainer *t);     /* once they are open */

/* order.c: builds the training data in the order of the checkpoint, if it has one, and those of the other splits.
 * o->num_samples says what the whole run reads. */
mega_status train_build_data(trainer *t, const mega_task_data_options *o);
/* Hash of some of the first `samples` training samples, which there must be: their order and their content. */
uint64_t train_order_hash(const trainer *t, int64_t samples);
int64_t train_cyclic_epoch(const trainer *t, int64_t *permutation);

/* owner.c: --save belongs to one run at a time */
/* The first rank takes the lock of --save, unless it holds it or the folder is not there yet. --dry-run only looks. */
mega_status train_lock_save(trainer *t);
/* The same for a folder that was missing when train_lock_save and --load looked, and is there now. Refuses one that
 * another run has filled with checkpoints in between. */
mega_status train_lock_new_save(trainer *t);
/* Whether a folder that the run may come to replace is somebody else's; before the checkpoint is loaded. */
mega_status train_check_foreign(const trainer *t);
/* Gives the run its id, unless the checkpoint brought one, and writes it to --save, where every folder that the run may
 * come to replace is of this program. */
mega_status train_identify(trainer *t);

/* places.c */
mega_status train_check_nothing_loaded(const trainer *t); /* --load led to no checkpoint: is that meant? */
mega_status train_check_places(const trainer *t);         /* files that this rank writes, beyond the rules of options */
mega_status train_warn_of_unwritten(const trainer *t);    /* files named to other ranks alone. Collective */
mega_status train_make_places(trainer *t);                /* --save, one folder for all ranks, locked. Collective */

/* data.c */
mega_status train_check_data(trainer *t);  /* opens all but the order of samples, which train_open_data builds */
void train_close_checked_data(trainer *t); /* closes it again */
mega_status train_open_data(trainer *t);
void train_close_data(trainer *t);
mega_status train_check_ends(const trainer *t); /* of documents: does the tokenizer know one, where options need it? */
const char *train_split_name(int split);        /* "training" */
/* The data of a split, for a message: its file, or the first of several, with what to add to it then. */
const char *train_data_prefix(const mega_train_options *cfg, int split, const char **others);
void train_give_data(trainer *t); /* t->training_data, before the engine is made */

/* plan_schedule.c: --print-schedule, --schedule-svg */
mega_status train_plan_schedule(const trainer *t, mega_buffer *out);

/* memory.c: refuses a run that cannot fit, with the numbers and with what would fit (unless a plan shows both).
 */
mega_status train_check_memory(const trainer *t, bool is_shown);
size_t train_memory_limit(const trainer *t, const char **name); /* and which limit it is */
void train_memory_table(const trainer *t, mega_buffer *out);
train_holds train_holds_get(const trainer *t);
size_t train_held_beside(const trainer *t); /* the sum of these: the same for every layout */
size_t train_memory_total(const trainer *t);

/* plan_ranks.c: what a plan says of many ranks; nothing where there is one. */
mega_status train_plan_count(const trainer *t, int64_t *padded, int64_t *logical); /* of the whole model */
void train_plan_layout(const trainer *t, mega_buffer *out);
mega_status train_plan_ranks(const trainer *t, mega_buffer *out);
/* plan_balance.c: how even the pipeline stages are, and the cut that would be better. */
void train_plan_balance(const trainer *t, mega_buffer *out);

/* remedy.c: the cheapest changes that make the run fit, a line each, or that there are none. */
void train_suggest(const trainer *t, size_t limit, mega_buffer *out);

/* log.c */
void train_log_step(trainer *t, const mega_step_result *r, double params_norm, double step_s);

/* peak.c */
void train_peak_add(train_peak *p, mega_peak measured);
/* What the run does (operations a second) in percent of the peak, which it raises where it is above. */
double train_peak_percent(train_peak *p, double flops);
void train_peak_measure(trainer *t);
void train_peak_repeat(trainer *t); /* measures again where the peak is doubtful, every ten seconds at most */
/* " (doubtful; others took 24 % of the cores)": why the percentage may say little of the program; "" where nothing
 * does. threads: of the ranks of the host. */
const char *train_peak_note(char *out, int size, const train_peak *p, const mega_cpu_load *load, int threads);

/* load.c: what the cores did */
mega_status train_load_open(trainer *t);
void train_load_read(trainer *t, bool is_last_of_interval);
int train_load_threads(const trainer *t); /* of the ranks of this host */

/* evaluate.c: `where` follows "validation loss at" in the log. A signal to any rank ends it after the batch under
 * way, without a loss; t->stop says so. */
mega_status train_evaluate(trainer *t, int split, const char *where, bool is_final);

/* save.c */
mega_status train_check_space(const trainer *t); /* does the first checkpoint fit? The engine is built */
mega_status train_save(trainer *t);
/* Before a run ends for st, a failure of a step or an evaluation that all ranks know of: if it is one of reading data,
 * which leaves the state as the last whole step made it, saves that. The failure remains the error that is reported.
 * Returns st. Collective. */
mega_status train_keep(trainer *t, mega_status st);
void train_warn_of_newer(const trainer *t);

/* monitor.c: only opening may fail; later, what cannot be written is warned of. */
mega_status train_monitor_open(trainer *t);
void train_monitor_step(trainer *t, const mega_step_result *r, double params_norm, double step_s);
void train_monitor_evaluation(trainer *t, int split, double loss, bool is_final);
void train_monitor_saved(trainer *t); /* a checkpoint, for --log-progress */
void train_monitor_flush(trainer *t);
void train_monitor_close(trainer *t);

/* profile.c: --profile-trace, --profile-table */
mega_status train_profile_check(const trainer *t); /* is any of the iterations to come profiled? */
mega_status train_profile_open(trainer *t);
bool train_profile_begin(trainer *t); /* is the coming step profiled? */
/* The step has ended. After the last one, writes what was asked for. */
mega_status train_profile_end(trainer *t, mega_profile_moment began, mega_profile_moment ended);
mega_status train_profile_close(trainer *t); /* at the end of training: what an early end left unwritten */

/* trace.c: writes the profile of all ranks to --profile-trace. Collective: world. */
mega_status train_trace_write(trainer *t);
/* Writes the trace, if it waits. A failure is warned of, not returned; the last one means that it is missing. */
void train_trace_retry(trainer *t, bool is_last);

/* curve.c: the losses so far, drawn at the end on a terminal */
mega_status train_curve_open(trainer *t);
void train_curve_add(trainer *t, double loss);
void train_curve_draw(const trainer *t);
void train_curve_close(trainer *t);

#endif
