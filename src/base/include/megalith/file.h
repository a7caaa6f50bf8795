/* Files. Every message names the path and the system's reason. Operations that change a file system go through here, so
 * that a test can record them and replay them cut at any point. */
#ifndef MEGALITH_FILE_H
#define MEGALITH_FILE_H

#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A file mapped read-only. Zero-initialised is valid and empty. An empty file maps to data NULL, size 0. */
typedef struct mega_map {
    const uint8_t *data;
    size_t size;
} mega_map;
MEGA_CHECK_RESULT mega_status mega_map_open(mega_map *out, const char *path);
void mega_map_close(mega_map *map);
/* For programs, once: from then on a mapped file that is cut, or whose disk fails, no longer ends the process (SIGBUS).
 * Bytes that are lost read as zeros, and mega_map_check fails from then on. */
void mega_map_guard(void);
/* MEGA_ERR_IO where a mapped file has lost bytes since it was opened; the message names it. Asks the system for the
 * length of each mapped file: for after a batch or a file was read. */
MEGA_CHECK_RESULT mega_status mega_map_check(void);
/* Reads these bytes from the disk in one go, so that touching them does not stop page by page; returns when they are
 * there. Advice, never an error. */
void mega_map_fetch(const mega_map *map, size_t begin, size_t bytes);
/* Whether the system has all of these bytes in memory; also true where it does not show this process. */
bool mega_map_is_cached(const mega_map *map, size_t begin, size_t bytes);

/* Whole file into a new block with a NUL after it; *out owned by the caller (mega_free). */
MEGA_CHECK_RESULT mega_status mega_file_read(char **out, size_t *out_size, const char *path);
/* MEGA_OK when the path is not there, or is and may be read (a folder: listed and searched). Else the rights, or what
 * the file system says, keep this user from knowing or reading it: "not there" would be the wrong answer. */
MEGA_CHECK_RESULT mega_status mega_path_check_access(const char *path);
bool mega_file_exists(const char *path); /* a regular file or anything but a folder */
/* What the file system of `path` has free, or of the nearest folder above it that exists; false where it does not say.
 */
bool mega_file_available(const char *path, unsigned long long *out);
bool mega_file_is_regular(const char *path); /* no folder, pipe or device; links are followed */
bool mega_folder_exists(const char *path);
/* Both lead to one regular file, by whatever names and links; also to one that is not there yet. Pipes and devices may
 * be written twice: false. */
bool mega_file_same(const char *a, const char *b);
/* Both lead to one folder, or would where neither is there yet. */
bool mega_folder_same(const char *a, const char *b);
MEGA_CHECK_RESULT mega_status mega_file_size(const char *path, int64_t *out);
MEGA_CHECK_RESULT mega_status mega_folder_create(const char *path);     /* with parents */
MEGA_CHECK_RESULT mega_status mega_folder_create_for(const char *path); /* the folder that the file will lie in */
/* Whether a file can be made in a folder: makes one and removes it. */
MEGA_CHECK_RESULT mega_status mega_folder_try(const char *path);
MEGA_CHECK_RESULT mega_status mega_folder_sync(const char *path);
MEGA_CHECK_RESULT mega_status mega_file_rename(const char *from, const char *to);
MEGA_CHECK_RESULT mega_status mega_file_exchange(const char *a,
                                                 const char *b);  /* renameat2 RENAME_EXCHANGE, else two renames */
MEGA_CHECK_RESULT mega_status mega_file_remove(const char *path); /* missing is fine */
void mega_file_discard(const char *path); /* of a failure: the first error stays the one to tell */
MEGA_CHECK_RESULT mega_status mega_tree_remove(const char *path); /* folder and all it holds; missing is fine */
/* Names in a folder, sorted bytewise, without . and ..; free with mega_names_fini. */
typedef struct mega_names {
    char **name;
    size_t count;
} mega_names;
MEGA_CHECK_RESULT mega_status mega_folder_list(mega_names *out, const char *path);
void mega_names_fini(mega_names *names);

/* A buffered writer to PATH. With `sync`, close fsyncs before it returns. After an error further writes do nothing and
 * close returns the first error. mega_writer_abandon closes and removes the file. */
typedef struct mega_writer mega_writer;
MEGA_CHECK_RESULT mega_status mega_writer_create(mega_writer **out, const char *path);
/* For files of many megabytes that are not read soon: in blocks of 8 MiB, past the page cache where that can be done.
 */
MEGA_CHECK_RESULT mega_status mega_writer_create_large(mega_writer **out, const char *path);
/* The size that the file will have, for the message when the disk is full. */
void mega_writer_expect(mega_writer *w, int64_t bytes);
MEGA_CHECK_RESULT mega_status mega_writer_append_to(mega_writer **out, const char *path); /* keeps what is there */
MEGA_CHECK_RESULT mega_status mega_writer_write(mega_writer *w, const void *bytes, size_t n);
MEGA_CHECK_RESULT mega_status mega_writer_flush(mega_writer *w);
int64_t mega_writer_position(const mega_writer *w);
uint32_t mega_writer_crc32c(const mega_writer *w); /* of all bytes written so far through this writer */
MEGA_CHECK_RESULT mega_status mega_writer_close(mega_writer *w, bool sync);
void mega_writer_abandon(mega_writer *w);

/* A file that several processes write, each its own places: one creates it with its size and closes it, then all open
 * it. `size` stands in the message when the disk is full. Observers are not told of these writes. */
typedef struct mega_patch mega_patch;
MEGA_CHECK_RESULT mega_status mega_patch_open(mega_patch **out, const char *path, int64_t size, bool create);
MEGA_CHECK_RESULT mega_status mega_patch_write(mega_patch *p, int64_t offset, const void *bytes, size_t n);
MEGA_CHECK_RESULT mega_status mega_patch_close(mega_patch *p, bool sync); /* frees p also when it fails; NULL is fine */

/* Writes PATH.tmp-OWNER, fsyncs, renames over PATH, fsyncs the folder: PATH is the old content or the new, never
 * between. What dead processes left of their tries is removed. Of a symbolic link the target is replaced and the link
 * stays; pipes and devices are written as they are. */
MEGA_CHECK_RESULT mega_status mega_file_write_atomic(const char *path, const void *bytes, size_t n);

/* Temporary files are named after their owner, so that others can tell when it is dead.
 * PATH.tmp-HOST-KERNEL-PID of this process, in a new block; NULL when memory is short. KERNEL is 8 hex digits of its
 * boot and PID namespace: containers on one host may have its name, and the same process ids. */
char *mega_temporary_path(const char *path);
/* The same with another mark in the place of ".tmp-". */
char *mega_owned_path(const char *path, const char *mark);
/* Whether a text has the form HOST-KERNEL-PID. What users name "iter_0000100.tmp-old" does not. */
bool mega_owner_is_known(const char *owner);
/* Whether the process of HOST-KERNEL-PID is gone: one that can be seen from here and does not run, else when PATH was
 * not touched for a day. A process takes its own left-overs for dead. False for other texts. */
bool mega_owner_is_dead(const char *owner, const char *path);
/* Removes files FOLDER/STEM.tmp-OWNER of dead owners whose STEM begins and ends as given; is_locked: of all owners,
 * because the caller holds a lock that they would need to go on. Never an error. */
void mega_temporaries_remove(const char *folder, const char *begin, const char *end, bool is_locked);

/* Tests: called after each operation that changed the file system, on this thread. op is one of "create", "write",
 * "fsync", "rename", "exchange", "mkdir", "unlink", "rmdir", "syncdir"; b, bytes, size as they apply (write: the bytes
 * appended; rename/exchange: b is the other path). NULL switches it off. */
typedef void mega_file_observer(void *user, const char *op, const char *a, const char *b, const void *bytes,
                                size_t size);
void mega_file_observe(mega_file_observer *observer, void *user);

/* For a name that was cut: "data/code" and ".idx" give "data/code_content_document" where data/ holds a file of this
 * name and ending, the first by name of those that continue with "_". *out is a new block; NULL when there is none. */
MEGA_CHECK_RESULT mega_status mega_path_complete(char **out, const char *prefix, const char *ending);

/* dir + "/" + name, in a new block; NULL when memory is short. */
char *mega_path_join(const char *folder, const char *name);
/* The path that symbolic links of the last name lead to, whether there is a file or not; new block. NULL with errno:
 * links in a circle, or short memory. */
char *mega_path_follow(const char *path);
const char *mega_path_base(const char *path); /* after the last '/' ; borrowed */
char *mega_path_folder(const char *path);     /* "." when there is none; new block */

#ifdef __cplusplus
}
#endif

#endif
