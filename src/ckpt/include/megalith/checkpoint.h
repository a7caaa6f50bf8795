/* Checkpoints: logical tensors in folders that Hugging Face loads as they are (law 3).
 *
 *   SAVE/latest_checkpointed_iteration.txt   the checkpoint saved last: its iteration, or its tag
 *   SAVE/run_id.txt, SAVE/run.lock (while a run writes here)
 *   SAVE/iter_0000100/   config.json generation_config.json model.safetensors tokenizer.json … README.md
 *   SAVE/iter_0000100/state/   optimizer moments (safetensors), run.json (iteration, samples, options), checksums
 */
#ifndef MEGALITH_CHECKPOINT_H
#define MEGALITH_CHECKPOINT_H

#include "megalith/client_array.h"
#include "megalith/lock.h"
#include "megalith/parameter.h"
#include "megalith/process.h"
#include "megalith/status.h"
#include "megalith/threads.h"
#include "megalith/tokenizer.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor of the file, which is a parameter or some of its parts, of the weights themselves or of an optimizer moment.
 * One rank holds the whole parameter; of several, each a range of its slice, which may be empty. */
typedef struct mega_state_tensor {
    const char *name;        /* in the file: that which the parameter's record gives it, or "exp_avg.<that>" */
    const mega_param *param; /* shape, orientation, true extent, parts */
    int file;                /* which of the tensors of the file that hold the parameter */
    void *data;              /* acc dtype, memory orientation: all of the parameter, or element `first` of the slice */
    bool is_part;
    mega_param_cut cut;   /* is_part: how ranks cut the parameter into slices */
    int64_t first, count; /* is_part: the elements of the slice that `data` holds */
} mega_state_tensor;
/* Tensor `file` of the weights of p, a parameter of the whole model, of which this rank holds parameter `own` of
 * `held`; own -1: nothing, as of those of another pipeline stage. */
mega_state_tensor mega_state_tensor_of(const mega_param *p, int file, mega_params *held, int own);

/* What a GPT-2 folder says of itself (config.json). */
typedef struct mega_model_shape {
    int64_t num_layers, hidden, ffn_hidden, heads, positions, vocab;
    double norm_epsilon, attention_dropout, hidden_dropout, init_std;
    bool tanh_gelu;
    int64_t eos;
} mega_model_shape;

/* Bytes of a tag, without its end, at most. */
enum { MEGA_CHECKPOINT_TAG = 200 };
/* Whether SAVE/TAG may be the folder of a checkpoint: one name in UTF-8 without control characters, that nothing else
 * in SAVE has. An iter_N must be that of `iteration`. Returns MEGA_ERR_USAGE if not. */
mega_status mega_checkpoint_check_tag(const char *tag, int64_t iteration);

typedef struct mega_checkpoint_save {
    const char *folder; /* SAVE */
    int64_t iteration;
    const char *tag;               /* the checkpoint is SAVE/TAG; NULL: SAVE/iter_N, where N is the iteration */
    const mega_model_shape *shape; /* NULL: the model is no Hugging Face family, and config.json says so */
    mega_dtype acc, save_dtype;    /* in memory (F32, F64); weights in model.safetensors: F32, BF16, F16. When the two
                                    * differ and moments are saved, the exact weights go to state/masters.safetensors, so
                                    * that resuming stays bit for bit; reading prefers them. */
    const mega_state_tensor *weights, *moments;
    int num_weights, num_moments;          /* num_moments 0: no optimizer state is written */
    const mega_tokenizer *tokenizer;       /* or NULL */
    const mega_client_array *client_array; /* state/client.safetensors, which the first rank writes */
    int num_client_arrays;                 /* 0: no such file */
    const char *run_json;                  /* state/run.json: everything else that resumes the run, one JSON object */
    const char *model_card;                /* README.md, markdown, or NULL */
    int keep;                              /* --keep-checkpoints: of the folders iter_N; 0: all */
    mega_lock *lock;                       /* of SAVE, in the first rank; NULL: none is held and none is looked at */
    mega_comm *ranks; /* that save together: each tensor is written by those who hold parts of it (is_part), all of it
                       * once between them; NULL or one rank: by this process alone */
} mega_checkpoint_save;
/* Makes the folder SAVE where it is missing, and refuses one that cannot be written to: before a run has computed
 * anything. */
mega_status mega_checkpoint_prepare(const char *save);
/* The same for several ranks, collectively: SAVE must be one folder for all of them. */
mega_status mega_checkpoint_prepare_shared(const char *save, mega_comm *ranks);
#define MEGA_RUN_LOCK "run.lock"
/* One run at a time writes to SAVE: SAVE/run.lock (lock.h). The folder exists. takeover: --save-takeover. Returns
 * MEGA_ERR_BUSY where another run holds it. The caller releases the lock. */
mega_status mega_checkpoint_lock(mega_lock **out, const char *save, bool takeover);
/* Whether mega_checkpoint_lock would be refused now; a folder that is missing is free. Takes and creates nothing. */
mega_status mega_checkpoint_lock_probe(const char *save, bool takeover);
/* Refuses a SAVE with an iteration folder above `after`, up to `until`, that another program wrote:
 * mega_checkpoint_write would refuse to replace it; also one whose tracker names such a folder. */
mega_status mega_checkpoint_check_foreign(const char *save, int64_t after, int64_t until);
/* Writes SAVE/run_id.txt: the run whose checkpoints follow. A run keeps its id when it is resumed. */
mega_status mega_checkpoint_write_run_id(const char *save, const char id[MEGA_TOKEN_BYTES]);
/* Atomic: until it returns MEGA_OK the checkpoint before this one is whole and the one that is found; after it, this
 * one, also when the machine stops. An existing folder of the same name is replaced if
 * it is one of this program's (it has state/checksums.json) or empty; else the error is MEGA_ERR_USAGE. Streams: no
 * second copy of a tensor is made. On failure nothing is left behind. Collective over `ranks`: what fails in one fails
 * in all; the text, tokenizer, card and run_json are the first rank's. Returns MEGA_ERR_BUSY, with nothing changed,
 * when the lock was taken over. */
mega_status mega_checkpoint_write(const mega_checkpoint_save *save);

typedef struct mega_checkpoint mega_checkpoint; /* an opened folder */
/* path: SAVE (the tracker names the checkpoint), the folder of one, or any Hugging Face GPT-2 folder; also one whose
 * model was saved without a shape. A missing
 * folder, and one without checkpoint or weights, gives MEGA_OK with *out NULL: start from random weights. Checksums and
 * completeness are verified here. any_whole: on damage fall back to the last whole iteration, saying so through
 * mega_warn; else the damage is the error. */
mega_status mega_checkpoint_open(mega_checkpoint **out, const char *path, bool any_whole);
/* The same with a team that reads, verifies and fills tensors, borrowed until close; NULL: the caller alone, as above.
 */
mega_status mega_checkpoint_open_team(mega_checkpoint **out, const char *path, bool any_whole, mega_team *team);
/* The same in several ranks, collectively: each sums a share of the files (of those that see the same folder; a host
 * with a copy of its own sums that), and all have one verdict. NULL or one rank: as above. */
mega_status mega_checkpoint_open_ranks(mega_checkpoint **out, const char *path, bool any_whole, mega_team *team,
                                       mega_comm *ranks);
void mega_checkpoint_close(mega_checkpoint *c);
const char *mega_checkpoint_folder(const mega_checkpoint *c); /* the iteration folder itself */
int64_t mega_checkpoint_iteration(const mega_checkpoint *c);  /* 0 for a plain Hugging Face folder */
bool mega_checkpoint_has_state(const mega_checkpoint *c);     /* optimizer moments and run.json are there */
/* NULL where the folder was saved without a shape: only the program that describes the model can load it. */
const mega_model_shape *mega_checkpoint_shape(const mega_checkpoint *c);
/* Returns MEGA_ERR_UNSUPPORTED if the folder has no shape: for callers that build a GPT from it. */
mega_status mega_checkpoint_check_shape(const mega_checkpoint *c);
const char *mega_checkpoint_run_json(const mega_checkpoint *c); /* borrowed; NULL without */
/* What client_array was when it was saved, of the dtypes that this program has; NULL: nothing. Borrowed until close. */
const struct mega_safetensors *mega_checkpoint_client(const mega_checkpoint *c);
/* Whether read_weights would find every tensor with its shape; data is not looked at. MEGA_ERR_FORMAT: no. */
mega_status mega_checkpoint_match_weights(mega_checkpoint *c, const mega_state_tensor *t, int count);
mega_status mega_checkpoint_match_moments(mega_checkpoint *c, const mega_state_tensor *t, int count);
/* Fill data of every tensor named; missing, extra or mismatching tensors are all reported together. Padding is zeroed.
 */
mega_status mega_checkpoint_read_weights(mega_checkpoint *c, const mega_state_tensor *t, int count, mega_dtype acc);
mega_status mega_checkpoint_read_moments(mega_checkpoint *c, const mega_state_tensor *t, int count, mega_dtype acc);
/* The weights of the parameters of a model, of which this rank holds those of `held`: whether they are there, and
 * reading them into its masters. */
mega_status mega_checkpoint_match_params(mega_checkpoint *c, const mega_params *whole);
mega_status mega_checkpoint_read_params(mega_checkpoint *c, const mega_params *whole, mega_params *held);

/* Collective: whether all ranks opened the same checkpoint, or none (c NULL). `load` is for the message. */
mega_status mega_checkpoint_check_shared(const mega_checkpoint *c, const char *load, mega_comm *ranks);

/* The newest iteration under SAVE whose files are all there with their sizes (contents are not read), or -1. */
int64_t mega_checkpoint_latest(const char *save);
/* The iteration that --load SAVE takes: the tracker's, whole or not, or without a tracker the newest. -1: none, or a
 * folder that does not say its iteration. */
int64_t mega_checkpoint_tracked(const char *save);

#ifdef __cplusplus
}
#endif

#endif
