/* Checkpoints: logical tensors in folders that Hugging Face loads directly.
 *
 *   SAVE/latest_checkpointed_iteration.txt   the checkpoint saved last: its iteration, or its tag
 *   SAVE/run_id.txt, SAVE/run.lock (while a run writes here)
 *   SAVE/iter_0000100/   config.json generation_config.json model.safetensors tokenizer.json … README.md
 *   SAVE/iter_0000100/state/   optimizer moments (safetensors), run.json (iteration, samples, options), checksums */
#ifndef MEGALITH_CHECKPOINT_H
#define MEGALITH_CHECKPOINT_H

#include "megalith/client_array.h"
#include "megalith/lock.h"
#include "megalith/model_shape.h"
#include "megalith/parameter.h"
#include "megalith/process.h"
#include "megalith/status.h"
#include "megalith/threads.h"
#include "megalith/tokenizer.h"
#include <stdbool.h>

/* A tensor of the file: a parameter, or some of its parts, of the weights or of an optimizer moment. A single rank
 * holds the whole parameter; of several ranks, each holds a range of its slice, which may be empty. */
typedef struct mega_state_tensor {
    const char *name;        /* name in the file: from the parameter's record, or "exp_avg." followed by it */
    const mega_param *param; /* shape, orientation, true extent, parts */
    int file;                /* index among the tensors of the file that store the parameter */
    /* acc dtype, memory orientation: the whole parameter, or from element `first` of the slice */
    void *data;
    bool is_part;
    mega_param_cut cut;   /* is_part: how ranks cut the parameter into slices */
    int64_t first, count; /* is_part: the elements of the slice that `data` holds */
} mega_state_tensor;
/* Returns tensor `file` of the weights of p, a parameter of the whole model, whose data this rank holds as parameter
 * `own` of `held`; own -1: not held, like those of other pipeline stages. */
mega_state_tensor mega_state_tensor_of(const mega_param *p, int file, mega_params *held, int own);

/* longest tag in bytes, without the NUL */
enum { MEGA_CHECKPOINT_TAG = 200 };
/* Checks that SAVE/TAG may be the folder of a checkpoint: a single name in UTF-8 without control characters that no
 * other file of SAVE has. iter_N is only valid for N = `iteration`. Returns MEGA_ERR_USAGE if it is not valid. */
mega_status mega_checkpoint_check_tag(const char *tag, int64_t iteration);

typedef struct mega_checkpoint_save {
    const char *folder; /* the folder of --save, SAVE below */
    int64_t iteration;
    const char *tag;               /* the checkpoint is SAVE/TAG; NULL: SAVE/iter_N, where N is the iteration */
    const mega_model_shape *shape; /* NULL: the model is not a Hugging Face family, and config.json says so */
    const char *generation_config; /* the text of that file; NULL: made from the shape */
    /* type in memory (F32, F64), type of the weights in model.safetensors (F64, F32, BF16, F16). If the latter is
     * narrower and moments are saved, the exact weights go to state/masters.safetensors, so that resuming is bit for
     * bit; reading prefers them. */
    mega_dtype acc, save_dtype;
    int64_t max_shard_bytes; /* of the tensors in one file of weights; 0: no limit */
    const mega_state_tensor *weights, *moments;
    int num_weights, num_moments;          /* num_moments 0: no optimizer state is written */
    const mega_tokenizer *tokenizer;       /* or NULL */
    const mega_client_array *client_array; /* content of state/client.safetensors, which the first rank writes */
    int num_client_arrays;                 /* 0: no such file */
    /* content of state/run.json: everything else that is needed to resume, one JSON object */
    const char *run_json;
    const char *model_card; /* README.md, markdown, or NULL */
    int keep;               /* --keep-checkpoints: number of iter_N folders to keep; 0: all */
    mega_lock *lock;        /* the lock of SAVE, in the first rank; NULL: no lock is held or checked */
    /* the ranks that save together: the ranks that hold parts of a tensor (is_part) write it, all of it exactly
     * once; NULL or one rank: only this process writes */
    mega_comm *ranks;
} mega_checkpoint_save;
/* Creates the folder SAVE if it is missing, and refuses one that is not writable: call it before a run computes
 * anything. Returns MEGA_ERR_IO or MEGA_ERR_USAGE. */
mega_status mega_checkpoint_prepare(const char *save);
/* Collective: the same for several ranks; SAVE must be one folder for all of them. */
mega_status mega_checkpoint_prepare_shared(const char *save, mega_comm *ranks);
#define MEGA_RUN_LOCK "run.lock"
/* Lets only one run at a time write to SAVE, with SAVE/run.lock (lock.h). The folder must exist. takeover:
 * --save-takeover. Returns MEGA_ERR_BUSY if another run holds the lock. The caller releases it. */
mega_status mega_checkpoint_lock(const char *save, bool takeover, mega_lock **out);
/* Returns whether mega_checkpoint_lock would be refused now; a missing folder is free. Takes and creates nothing. */
mega_status mega_checkpoint_lock_probe(const char *save, bool takeover);
/* Refuses a SAVE that contains an iteration folder of another program, above `after` and up to `until`, which
 * mega_checkpoint_write would refuse to replace; also one whose tracker names such a folder. Returns MEGA_ERR_USAGE. */
mega_status mega_checkpoint_check_foreign(const char *save, int64_t after, int64_t until);
/* Returns in a new block the name of the newest checkpoint that this program wrote to SAVE, complete or not; NULL:
 * there is none. */
mega_status mega_checkpoint_used(const char *save, char **out);
/* Appends "3 checkpoints (iter_0000002, …)": all that mega_checkpoint_remove_others would look at for a new run. */
mega_status mega_checkpoint_count_used(const char *save, mega_buffer *out);
/* Removes the checkpoints in SAVE that this program wrote for other runs than `run_id`: folders with checksums, and
 * nothing else. What cannot be removed stays, and the first reason is returned. */
mega_status mega_checkpoint_remove_others(const char *save, const char *run_id);
/* Writes SAVE/run_id.txt: the id of the run that saves here from now on. A resumed run keeps its id. */
mega_status mega_checkpoint_write_run_id(const char *save, const char id[MEGA_TOKEN_BYTES]);
/* Atomic: until it returns MEGA_OK the previous checkpoint is complete and is the one found; afterwards the new one,
 * even if the machine stops. An existing folder of the same name is replaced if this program wrote it (it has
 * state/checksums.json) or if it is empty; otherwise returns MEGA_ERR_USAGE. Streams: makes no second copy of a tensor.
 * A failure leaves nothing behind. Collective over `ranks`: a failure of one rank is a failure of all; text, tokenizer,
 * card and run_json are those of the first rank. Returns MEGA_ERR_BUSY, with nothing changed, if the lock was taken
 * over. */
mega_status mega_checkpoint_write(const mega_checkpoint_save *save);

typedef struct mega_checkpoint mega_checkpoint; /* an opened folder */
/* Opens a checkpoint and verifies its completeness and checksums. path: SAVE (the tracker names the checkpoint), the
 * folder of a checkpoint, or any Hugging Face folder; the model may have been saved without a shape. Returns
 * MEGA_OK with *out NULL for a missing folder, or one without checkpoint or weights: start from random weights.
 * any_whole: if the checkpoint is damaged, fall back to the last complete iteration, with a mega_warn; otherwise the
 * damage is an error. */
mega_status mega_checkpoint_open(const char *path, bool any_whole, mega_checkpoint **out);
/* The same with a team that reads, verifies and fills tensors, borrowed until close; NULL: only the caller, as
 * above. */
mega_status mega_checkpoint_open_team(const char *path, bool any_whole, mega_team *team, mega_checkpoint **out);
/* Collective: the same in several ranks. Ranks that see the same folder divide the checksumming of its files (a host
 * with its own copy checksums that), and all ranks get the same verdict. NULL or one rank: as above. */
mega_status mega_checkpoint_open_ranks(const char *path, bool any_whole, mega_team *team, mega_comm *ranks,
                                       mega_checkpoint **out);
/* Returns whether a folder holds a config.json, but neither weights that can be read nor a checkpoint of this
 * program. */
bool mega_checkpoint_is_config(const char *folder);
/* Opens such a folder for a caller that needs the shape alone: no tensor may be asked for. */
mega_status mega_checkpoint_open_config(const char *folder, mega_checkpoint **out);
void mega_checkpoint_close(mega_checkpoint *c);
const char *mega_checkpoint_folder(const mega_checkpoint *c); /* the iteration folder itself */
int64_t mega_checkpoint_iteration(const mega_checkpoint *c);  /* 0 for a plain Hugging Face folder */
bool mega_checkpoint_has_state(const mega_checkpoint *c);     /* whether it has optimizer moments and run.json */
/* Returns NULL if the folder was saved without a shape: only the program that describes the model can load it. */
const mega_model_shape *mega_checkpoint_shape(const mega_checkpoint *c);
/* Returns MEGA_ERR_UNSUPPORTED if the folder has no shape: for callers that build a GPT from it. */
mega_status mega_checkpoint_check_shape(const mega_checkpoint *c);
const char *mega_checkpoint_run_json(const mega_checkpoint *c); /* borrowed; NULL: none */
/* Reads generation_config.json of the folder into a new block; *out NULL: there is none. */
mega_status mega_checkpoint_generation_config(const mega_checkpoint *c, char **out);
/* Returns the client_array that was saved, with those dtypes that this program has; NULL: none. Borrowed until
 * close. */
const struct mega_safetensors *mega_checkpoint_client(const mega_checkpoint *c);
/* Checks that read_weights would find every tensor with its shape, without reading data. Returns MEGA_ERR_FORMAT if
 * not. */
mega_status mega_checkpoint_match_weights(mega_checkpoint *c, const mega_state_tensor *t, int count);
mega_status mega_checkpoint_match_moments(mega_checkpoint *c, const mega_state_tensor *t, int count);
/* Fill the data of every tensor named; report missing, unexpected and mismatching tensors all together
 * (MEGA_ERR_FORMAT). Zero the padding. */
mega_status mega_checkpoint_read_weights(mega_checkpoint *c, const mega_state_tensor *t, int count, mega_dtype acc);
mega_status mega_checkpoint_read_moments(mega_checkpoint *c, const mega_state_tensor *t, int count, mega_dtype acc);
/* From here on the weights may lack a classifier of samples and its pooler, whose parameters then keep the values that
 * they have, and may have other heads, which are not read; nor is a classifier that the folder has. */
void mega_checkpoint_begin_classifier(mega_checkpoint *c);
/* From here on the folder holds a dense model, and the weights are those of a mixture of experts of the family
 * `mixture`: each expert is read from the MLP of its layer, a router keeps the values that it has, and all else is read
 * as it is. dense: the parameters that the folder's own model declares; the checkpoint owns them from here on. */
struct mega_family;
void mega_checkpoint_begin_mixture(mega_checkpoint *c, const struct mega_family *mixture, mega_params *dense);
/* For the weights of a model's parameters, of which this rank holds those of `held`: check that they exist, and read
 * them into the masters. */
mega_status mega_checkpoint_match_params(mega_checkpoint *c, const mega_params *whole);
mega_status mega_checkpoint_read_params(mega_checkpoint *c, const mega_params *whole, mega_params *held);

/* Collective: checks that all ranks opened the same checkpoint, or none (c NULL). `load` is for the message. */
mega_status mega_checkpoint_check_shared(const mega_checkpoint *c, const char *load, mega_comm *ranks);

/* Returns the newest iteration under SAVE whose files all exist with the right sizes (contents are not read), or -1. */
int64_t mega_checkpoint_latest(const char *save);
/* Returns the iteration that --load SAVE uses: the tracker's, complete or not, or without a tracker the newest. -1:
 * none, or a folder that does not say its iteration. */
int64_t mega_checkpoint_tracked(const char *save);
/* Whether mega_checkpoint_open takes the folder for a checkpoint: a SAVE, an iteration of one, or one of
 * transformers. */
bool mega_checkpoint_is_in(const char *path);

#endif
