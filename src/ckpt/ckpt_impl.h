/* Shared by the files of this room: Hugging Face folders, moving tensors, checksums, names of folders. */
#ifndef MEGALITH_CKPT_IMPL_H
#define MEGALITH_CKPT_IMPL_H

#include "megalith/checkpoint.h"
#include "megalith/family.h"
#include "megalith/file.h"
#include "megalith/hash.h"
#include "megalith/hf_config.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include "megalith/safetensors.h"
#include "megalith/threads.h"
#include <limits.h>

/* hf_weights.c: the weight files of a folder, one or several. */
typedef struct mega_hf_weights {
    mega_safetensors **file;
    char **path;
    size_t count;
} mega_hf_weights; /* zero-initialised is valid and empty */
mega_status mega_hf_weights_open(const char *folder, mega_hf_weights *out);
void mega_hf_weights_close(mega_hf_weights *w);
/* Finds a tensor by its exact name or, failing that, with a prefix such as "transformer." added or removed, under an
 * older name, or a copy of it (hf_copies.c). NULL: none. */
const mega_safetensor *mega_hf_weights_find(const mega_hf_weights *w, const mega_model_shape *shape, const char *name);
/* by the exact name only */
const mega_safetensor *mega_hf_weights_find_exact(const mega_hf_weights *w, const char *name);
/* Returns whether folders of the family may contain this tensor although no parameter needs it. */
bool mega_hf_may_ignore(const mega_family *f, const char *name);

/* state_tensor.c: moves a tensor between memory (acc type, [out, in], padded) and file (any float type, file
 * orientation, true size). What is read in acc (mega_param.in_acc) is F32 in a file of 16 bits. */
mega_status mega_state_tensor_check(const mega_state_tensor *t);
void mega_state_tensor_entry(const mega_state_tensor *t, mega_dtype file, mega_st_entry *out);
bool mega_state_tensor_fits(const mega_state_tensor *t, const mega_safetensor *from);
/* Where a block of numbers goes within the tensor's bytes in the file: `rows` runs of `run` bytes, contiguous in
 * memory, `pitch` bytes apart in the file. */
typedef struct mega_state_runs {
    int64_t offset, rows, run, pitch;
} mega_state_runs;
typedef mega_status mega_state_sink(void *user, const mega_state_runs *runs, const void *bytes);
/* Passes everything that this rank holds of the tensor to the sink; a complete tensor that is in order arrives in the
 * order of the file without gaps. */
mega_status mega_state_tensor_write(const mega_state_tensor *t, mega_dtype acc, mega_dtype file, mega_state_sink *sink,
                                    void *user);
bool mega_state_is_in_order(const mega_state_tensor *t); /* rows have the same order in memory and in the file */
/* The number of shares of the memory, including padding, that threads fill in parallel. */
int64_t mega_state_tensor_shares(const mega_state_tensor *t, mega_dtype acc);
void mega_state_tensor_read(const mega_state_tensor *t, mega_dtype acc, const mega_safetensor *from, int64_t share,
                            void *window);
/* The bytes of that window, which host memory has for a share on its way to a device; 0 on CPUs. */
size_t mega_state_tensor_window(const mega_state_tensor *t, mega_dtype acc);
/* Everything that this rank reads is in bytes [*begin, *end) of the tensor in the file; file_size: bytes per
 * element. */
void mega_state_tensor_span(const mega_state_tensor *t, size_t file_size, size_t *begin, size_t *end);
/* "[768, 2304] F32" */
void mega_state_tensor_describe(mega_buffer *out, const mega_st_entry *e);

/* checkpoint_tensors.c: a tensor file of an iteration folder. */
typedef struct mega_tensor_file {
    const char *name; /* relative to the folder */
    const mega_state_tensor *tensor;
    int count;
    mega_dtype acc, type; /* type in memory, type in the file */
} mega_tensor_file;
/* Returns whether the file can be streamed: all tensors are complete and in order. The next function writes and syncs
 * it. */
bool mega_tensor_file_can_stream(const mega_tensor_file *f);
mega_status mega_tensor_file_stream(const mega_tensor_file *f, const char *folder, uint32_t *crc, int64_t *size);
/* Creates the file with its final size, for ranks to write into. */
mega_status mega_tensor_file_lay_out(const mega_tensor_file *f, const char *folder, int64_t *size);
/* Writes and syncs this rank's part. *sum: its contribution to the checksum, as from mega_crc32c_part. */
mega_status mega_tensor_file_write_part(const mega_tensor_file *f, const char *folder, bool with_header, uint32_t *sum);

/* shards.c: how weights are divided into files: in their order, a file is closed before it would exceed the limit. */
typedef struct mega_shards {
    int count;
    int *first;       /* [count + 1]: the first tensor of each */
    char (*name)[48]; /* "model.safetensors", or "model-00001-of-00003.safetensors" */
    int64_t bytes;    /* of all tensors */
} mega_shards;        /* zero-initialised is valid and empty */
mega_status mega_shards_make(const mega_state_tensor *t, int count, mega_dtype file, int64_t limit, mega_shards *out);
/* The text of model.safetensors.index.json. */
mega_status mega_shards_index(const mega_shards *s, const mega_state_tensor *t, mega_buffer *out);
void mega_shards_fini(mega_shards *s);

/* checkpoint_commit.c: renames the temporary folder to SAVE/iter_N or SAVE/TAG, and updates the tracker. */
mega_status mega_checkpoint_commit(const mega_checkpoint_save *save, const char *final, const char *temporary);
mega_status mega_checkpoint_prune(const mega_checkpoint_save *save); /* --keep-checkpoints */

/* checksums.c: state/checksums.json lists every file of the folder with its size and CRC-32C. */
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
/* Reads folder/state/checksums.json. Returns MEGA_ERR_FORMAT if it is damaged. */
mega_status mega_checksums_read(const char *folder, mega_checksums *out);
uint64_t mega_checksums_hash(const mega_checksums *c); /* hash of the list without README.md, which may differ */
/* Which files are checksummed: none, those below 1 MiB, or all. */
typedef enum mega_sums { MEGA_SUMS_NONE, MEGA_SUMS_SMALL, MEGA_SUMS_ALL } mega_sums;
/* Compares all files with the list, by size and by content. One message lists all differences. */
mega_status mega_checksums_verify(const mega_checksums *c, const char *folder, mega_sums sums, mega_team *team);
/* All files form one sequence of pieces; sums pieces [first, end). part[i] receives their contribution to the checksum
 * of file i, as from mega_crc32c_part. */
int64_t mega_checksums_pieces(const mega_checksums *c);
mega_status mega_checksums_part(const mega_checksums *c, const char *folder, int64_t first, int64_t end,
                                mega_team *team, uint32_t *part);
/* Compares all files, given the sums of the parts of all pieces. */
mega_status mega_checksums_conclude(const mega_checksums *c, const char *folder, const uint32_t *part);
void mega_checksums_fini(mega_checksums *c);
/* checksums_sum.c: of bytes [first, end). */
#define MEGA_READING_STOPPED "reading the checkpoint was interrupted by a signal"
mega_status mega_sum_of(const mega_map *map, size_t first, size_t end, mega_team *team, uint32_t *out);

/* folders.c: the content of SAVE. */
#define MEGA_RUN_ID "run_id.txt"
typedef struct mega_iterations { /* ascending */
    int64_t *iteration;
    size_t count;
} mega_iterations;
/* Lists the iteration folders that this program wrote (they contain state/checksums.json), complete or not. */
mega_status mega_iterations_list(const char *save, mega_iterations *out);
void mega_iterations_fini(mega_iterations *list);
bool mega_iteration_parse(const char *name, int64_t *iteration); /* "iter_0000100" */
/* *out: whether something exists that this program did not write; its folders contain state/checksums.json, intact or
 * damaged. Only such a folder, or an empty one, may be replaced. */
mega_status mega_iteration_is_foreign(bool *out, const char *path);
mega_status mega_checkpoint_refuse(const char *save, const char *name); /* returns the error for a foreign one */
char *mega_iteration_path(const char *save, int64_t iteration); /* SAVE/iter_0000100, new block; NULL: no memory */
/* Creates a folder and its missing parents such that they survive a crash. */
mega_status mega_folder_create_durably(const char *path);
/* Removes what dead runs left, except what may be the only copy of the checkpoint `keep` ("iter_0000100" or a tag;
 * NULL: none). is_locked: removes what any run left, because the caller holds the lock of SAVE and did not take it from
 * a living run. */
void mega_leftovers_remove(const char *save, const char *keep, bool is_locked);
/* Returns a left-over folder that holds the complete checkpoint `name`, or NULL. It results from a crash between the
 * two renames that replace a folder on file systems that cannot exchange. New block. */
char *mega_leftover_find(const char *save, const char *name);
bool mega_leftover_is(const char *name); /* whether a dead or a running save of this program has left it */
/* checkpoint_used.c: removes the folder of a checkpoint in SAVE. */
mega_status mega_checkpoint_remove(const char *save, const char *path);
/* *out: a file in the checkpoint's folder that its checksums do not list, so somebody else's; NULL: none. To be
 * freed. */
mega_status mega_checkpoint_foreign(const char *path, char **out);

/* The same in what a dead run left, whose checksums may not have been written. */
mega_status mega_leftover_foreign(const char *path, char **out);
/* checkpoint_commit.c: renames `old` to FINAL.END-1, or the next number that is free. */
mega_status mega_checkpoint_keep(const char *final, const char *old, const char *end, char kept[PATH_MAX]);

/* tracker.c: the file in SAVE that names the checkpoint for --load SAVE, and the names it may contain. */
#define MEGA_TRACKER "latest_checkpointed_iteration.txt"
/* The name of a folder in SAVE: "iter_0000100", or a tag. */
typedef struct mega_checkpoint_name {
    char text[MEGA_CHECKPOINT_TAG + 1];
} mega_checkpoint_name;
mega_checkpoint_name mega_checkpoint_name_of(int64_t iteration);
mega_status mega_tracker_read(const char *save, mega_checkpoint_name *out);
mega_status mega_tracker_write(const char *save, const char *name); /* atomic */

/* checkpoint_remedy.c: what a user can do when a checkpoint cannot be opened. */
/* Adds to this thread's error record which iteration of SAVE other than `damaged` is complete, or that none is.
 * `tried`: all have been opened in vain. */
void mega_remedy_add(const char *save, int64_t damaged, bool tried);
/* The same for a damaged iteration folder given directly; does nothing for other folders. */
void mega_remedy_add_beside(const char *folder);
/* Returns the error for a folder that is not a checkpoint although its files (`names`) look like one. */
mega_status mega_remedy_refuse_parts(const char *folder, const mega_names *names);

/* checkpoint_client.c: writes and syncs the caller's arrays. */
#define CHECKPOINT_CLIENT_FILE "state/client.safetensors"
mega_status mega_client_arrays_write(const mega_checkpoint_save *save, const char *folder, mega_checksums *sums);

#endif
