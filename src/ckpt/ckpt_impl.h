/* What the files of this room share: reading a folder of Hugging Face, moving tensors, checksums, names of folders. */
#ifndef MEGALITH_CKPT_IMPL_H
#define MEGALITH_CKPT_IMPL_H

#include "megalith/checkpoint.h"
#include "megalith/file.h"
#include "megalith/hash.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include "megalith/safetensors.h"
#include "megalith/threads.h"

/* hf_config.c: config.json and generation_config.json of GPT-2, and config.json of a model that is no Hugging Face
 * family: its shape is NULL when it is written and has num_layers 0 when it was read. */
mega_status mega_hf_config_read(mega_model_shape *out, const char *path);
mega_status mega_hf_config_text(mega_buffer *out, const mega_model_shape *shape, mega_dtype weights);
mega_status mega_hf_generation_text(mega_buffer *out, const mega_model_shape *shape);

/* hf_weights.c: the weight files of a folder, one or several. */
typedef struct mega_hf_weights {
    mega_safetensors **file;
    char **path;
    size_t count;
} mega_hf_weights; /* zero-initialised is valid and empty */
mega_status mega_hf_weights_open(mega_hf_weights *out, const char *folder);
void mega_hf_weights_close(mega_hf_weights *w);
/* By the name as written or, failing that, with "transformer." added or removed, and lm_head for wte. NULL: none. */
const mega_safetensor *mega_hf_weights_find(const mega_hf_weights *w, const char *name);
const mega_safetensor *mega_hf_weights_find_exact(const mega_hf_weights *w, const char *name); /* as written alone */
/* Whether a tensor that no parameter asked for is one that GPT-2 folders may hold all the same. */
bool mega_hf_gpt2_may_ignore(const char *name);

/* state_tensor.c: between memory (acc type, [out, in], padded) and file (any float type, file orientation, true size).
 */
mega_status mega_state_tensor_check(const mega_state_tensor *t);
void mega_state_tensor_entry(const mega_state_tensor *t, mega_dtype file, mega_st_entry *out);
bool mega_state_tensor_fits(const mega_state_tensor *t, const mega_safetensor *from);
/* Where a block of numbers goes within the tensor's bytes in the file: `rows` runs of `run` bytes, tight in memory,
 * `pitch` bytes apart in the file. */
typedef struct mega_state_runs {
    int64_t offset, rows, run, pitch;
} mega_state_runs;
typedef mega_status mega_state_sink(void *user, const mega_state_runs *runs, const void *bytes);
/* Hands all that this rank holds of the tensor to the sink; a whole tensor that is in order, without gaps in the order
 * of the file. */
mega_status mega_state_tensor_write(const mega_state_tensor *t, mega_dtype acc, mega_dtype file, mega_state_sink *sink,
                                    void *user);
bool mega_state_is_in_order(const mega_state_tensor *t); /* rows follow one another in memory as in the file */
/* Shares of the memory, padding included, that threads fill side by side. */
int64_t mega_state_tensor_shares(const mega_state_tensor *t, mega_dtype acc);
void mega_state_tensor_read(const mega_state_tensor *t, mega_dtype acc, const mega_safetensor *from, int64_t share);
/* Bytes [*begin, *end) of the tensor in the file hold all that this rank reads; file_size of one element. */
void mega_state_tensor_span(const mega_state_tensor *t, size_t file_size, size_t *begin, size_t *end);
/* "[768, 2304] F32" */
void mega_state_tensor_describe(mega_buffer *out, const mega_st_entry *e);

/* checkpoint_tensors.c: a file of tensors of an iteration folder. */
typedef struct mega_tensor_file {
    const char *name; /* relative to the folder */
    const mega_state_tensor *tensor;
    int count;
    mega_dtype acc, type; /* in memory, in the file */
} mega_tensor_file;
/* Writes whole tensors that are in order, synced. */
bool mega_tensor_file_can_stream(const mega_tensor_file *f);
mega_status mega_tensor_file_stream(const mega_tensor_file *f, const char *folder, uint32_t *crc, int64_t *size);
/* Makes the file with its size, for ranks to write into. */
mega_status mega_tensor_file_lay_out(const mega_tensor_file *f, const char *folder, int64_t *size);
/* Writes what this rank holds, synced. *sum is what it adds to the checksum, as mega_crc32c_part. */
mega_status mega_tensor_file_write_part(const mega_tensor_file *f, const char *folder, bool with_header, uint32_t *sum);

/* checkpoint_commit.c: the temporary folder becomes SAVE/iter_N or SAVE/TAG, and the one that is found. */
mega_status mega_checkpoint_commit(const mega_checkpoint_save *save, const char *final, const char *temporary);
mega_status mega_checkpoint_prune(const mega_checkpoint_save *save); /* --keep-checkpoints */

/* checksums.c: state/checksums.json names every file of the folder with its size and CRC-32C. */
typedef struct mega_checksum {
    char *name; /* relative to the iteration folder */
    int64_t bytes;
    uint32_t crc;
} mega_checksum;
typedef struct mega_checksums {
    int64_t iteration;
    mega_checksum *file;
    size_t count;
    int64_t capacity;
} mega_checksums; /* zero-initialised is valid and empty */
#define MEGA_CHECKSUMS_FILE "state/checksums.json"
mega_status mega_checksums_add(mega_checksums *c, const char *name, int64_t bytes, uint32_t crc);
mega_checksum *mega_checksums_find(const mega_checksums *c, const char *name); /* NULL: none */
mega_status mega_checksums_text(mega_buffer *out, const mega_checksums *c);
/* Reads folder/state/checksums.json; a damaged one is an error. */
mega_status mega_checksums_read(mega_checksums *out, const char *folder);
uint64_t mega_checksums_hash(const mega_checksums *c); /* without README.md, which may differ */
/* Whose contents are summed: nobody's, those of files below 1 MiB, or all. */
typedef enum mega_sums { MEGA_SUMS_NONE, MEGA_SUMS_SMALL, MEGA_SUMS_ALL } mega_sums;
/* Compares all files with the list, by size, and by content. All differences are in the one message. */
mega_status mega_checksums_verify(const mega_checksums *c, const char *folder, mega_sums sums, mega_team *team);
/* The files as one row of pieces: sums those from `first` on, below `end`; part[i] is what that adds to the checksum of
 * file i, as mega_crc32c_part. */
int64_t mega_checksums_pieces(const mega_checksums *c);
mega_status mega_checksums_part(const mega_checksums *c, const char *folder, int64_t first, int64_t end,
                                mega_team *team, uint32_t *part);
/* Compares all files by the sum of the parts of all pieces. */
mega_status mega_checksums_conclude(const mega_checksums *c, const char *folder, const uint32_t *part);
void mega_checksums_fini(mega_checksums *c);
/* checksums_sum.c: of bytes from `first` on, below `end`. */
#define MEGA_READING_STOPPED "reading the checkpoint was interrupted by a signal"
mega_status mega_sum_of(const mega_map *map, size_t first, size_t end, mega_team *team, uint32_t *out);

/* folders.c: what lies in SAVE. */
#define MEGA_RUN_ID "run_id.txt"
typedef struct mega_iterations { /* ascending */
    int64_t *iteration;
    size_t count;
} mega_iterations;
/* Iteration folders that this program wrote (they hold state/checksums.json), whole or not. */
mega_status mega_iterations_list(mega_iterations *out, const char *save);
void mega_iterations_fini(mega_iterations *list);
bool mega_iteration_parse(const char *name, int64_t *iteration); /* "iter_0000100" */
/* Whether something is there that this program did not write: its mark is state/checksums.json, whole or damaged. Only
 * an empty folder and one with the mark may be replaced. */
mega_status mega_iteration_is_foreign(bool *out, const char *path);
mega_status mega_checkpoint_refuse(const char *save, const char *name); /* the error for one that is */
char *mega_iteration_path(const char *save, int64_t iteration); /* SAVE/iter_0000100, new block; NULL: no memory */
/* Makes a folder and everything above it such that it outlives a crash. */
mega_status mega_folder_create_durably(const char *path);
/* Removes what dead runs left, except what may be the only copy of the checkpoint `keep` ("iter_0000100" or a tag;
 * NULL: none). is_locked: what any run left, because the caller has the lock of SAVE and took it from no run that
 * lives. */
void mega_leftovers_remove(const char *save, const char *keep, bool is_locked);
/* A left-over that holds the checkpoint `name` whole, or NULL: after a crash between the two renames with which file
 * systems that cannot exchange replace a folder. New block. */
char *mega_leftover_find(const char *save, const char *name);

/* tracker.c: the file in SAVE that names the checkpoint that --load SAVE takes, and the names it may hold. */
#define MEGA_TRACKER "latest_checkpointed_iteration.txt"
/* The name of a folder in SAVE: "iter_0000100", or a tag. */
typedef struct mega_checkpoint_name {
    char text[MEGA_CHECKPOINT_TAG + 1];
} mega_checkpoint_name;
mega_checkpoint_name mega_checkpoint_name_of(int64_t iteration);
mega_status mega_tracker_read(mega_checkpoint_name *out, const char *save);
mega_status mega_tracker_write(const char *save, const char *name); /* atomic */

/* checkpoint_remedy.c: what to do where a checkpoint cannot be opened. */
/* Adds to this thread's error record which iteration of SAVE but `damaged` is whole, or that none is. `tried`: they
 * have all been opened in vain. */
void mega_remedy_add(const char *save, int64_t damaged, bool tried);
/* The same for a damaged iteration folder that was named itself; does nothing for other folders. */
void mega_remedy_add_beside(const char *folder);
/* A folder that is no checkpoint although what lies in it (`names`) looks like one. */
mega_status mega_remedy_refuse_parts(const char *folder, const mega_names *names);

/* checkpoint_client.c: writes the arrays of the caller, synced. */
#define CHECKPOINT_CLIENT_FILE "state/client.safetensors"
mega_status mega_client_arrays_write(const mega_checkpoint_save *save, const char *folder, mega_checksums *sums);

#endif
