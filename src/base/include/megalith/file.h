/* Files. Every message names the path and the system's reason. All operations that change the file system go through
 * here, so that a test can record them and replay them up to any point.
 *
 * Functions that return a status return MEGA_ERR_NOT_FOUND if the file or a folder on its path does not exist,
 * MEGA_ERR_IO if the system refuses for another reason, and MEGA_ERR_MEMORY. */
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
MEGA_CHECK_RESULT mega_status mega_map_open(const char *path, mega_map *out);
void mega_map_close(mega_map *map);
/* A program calls this once: afterwards a mapped file that is truncated, or whose disk fails, no longer kills the
 * process (SIGBUS). Lost bytes read as zeros, and mega_map_check fails from then on. */
void mega_map_guard(void);
/* Returns MEGA_ERR_IO, naming the file, if a mapped file has lost bytes since it was opened. Asks the system for the
 * length of each mapped file, so call it once per batch or file. */
MEGA_CHECK_RESULT mega_status mega_map_check(void);
/* Reads these bytes from the disk at once, so that touching them does not fault page by page; returns when they are in
 * memory. A hint: never an error. */
void mega_map_fetch(const mega_map *map, size_t begin, size_t bytes);
/* Returns whether all these bytes are in the page cache; also true if the system does not say. */
bool mega_map_is_cached(const mega_map *map, size_t begin, size_t bytes);

/* Reads the whole file into a new block that ends with a NUL; the caller frees *out with mega_free. Returns
 * MEGA_ERR_NOT_FOUND, MEGA_ERR_IO or MEGA_ERR_MEMORY. */
MEGA_CHECK_RESULT mega_status mega_file_read(const char *path, char **out, size_t *out_size);
/* Returns MEGA_OK if the path does not exist, or exists and is readable (a folder: can be listed and searched).
 * Otherwise an error names the permission or the file system that hides it, because "does not exist" would be a wrong
 * answer. */
MEGA_CHECK_RESULT mega_status mega_path_check_access(const char *path);
bool mega_file_exists(const char *path); /* anything but a folder */
/* Writes the free space of the file system of `path`, or of its nearest existing parent folder, to *out. Returns false
 * if the system does not say. */
bool mega_file_available(const char *path, unsigned long long *out);
bool mega_file_is_regular(const char *path); /* not a folder, pipe or device; follows links */
bool mega_folder_exists(const char *path);
/* Returns whether both paths lead to one regular file, through any names and links, even if it does not exist yet.
 * Returns false for pipes and devices, which may be written twice. */
bool mega_file_same(const char *a, const char *b);
/* Returns whether both paths lead to one folder, or would once it is created. */
bool mega_folder_same(const char *a, const char *b);
MEGA_CHECK_RESULT mega_status mega_file_size(const char *path, int64_t *out);
MEGA_CHECK_RESULT mega_status mega_folder_create(const char *path); /* creates missing parents too */
/* creates the folder that will hold this file */
MEGA_CHECK_RESULT mega_status mega_folder_create_for(const char *path);
/* Checks that files can be created in a folder by creating one and removing it. */
MEGA_CHECK_RESULT mega_status mega_folder_try(const char *path);
MEGA_CHECK_RESULT mega_status mega_folder_sync(const char *path);
MEGA_CHECK_RESULT mega_status mega_file_rename(const char *from, const char *to);
MEGA_CHECK_RESULT mega_status mega_file_exchange(const char *a,
                                                 const char *b);  /* renameat2 RENAME_EXCHANGE, else two renames */
MEGA_CHECK_RESULT mega_status mega_file_remove(const char *path); /* a missing file is fine */
void mega_file_discard(const char *path); /* cleans up after a failure: keeps the error record of that failure */
MEGA_CHECK_RESULT mega_status mega_tree_remove(const char *path); /* a folder with its content; a missing one is fine */
/* Names in a folder, sorted bytewise, without . and ..; free with mega_names_fini. */
typedef struct mega_names {
    char **name;
    size_t count;
} mega_names;
MEGA_CHECK_RESULT mega_status mega_folder_list(const char *path, mega_names *out);
void mega_names_fini(mega_names *names);

/* A buffered writer to a file. With `sync`, close calls fsync before it returns. After an error, further writes do
 * nothing and close returns the first error. mega_writer_abandon closes and removes the file. */
typedef struct mega_writer mega_writer;
MEGA_CHECK_RESULT mega_status mega_writer_create(const char *path, mega_writer **out);
/* For files of many megabytes that are not read soon: writes blocks of 8 MiB that bypass the page cache if possible. */
MEGA_CHECK_RESULT mega_status mega_writer_create_large(const char *path, mega_writer **out);
size_t mega_writer_large_memory(size_t file_bytes); /* bytes of memory that it takes for a file of this size, at most */
/* Announces the final size of the file, for the message when the disk is full. */
void mega_writer_expect(mega_writer *w, int64_t bytes);
/* keeps the existing content */
MEGA_CHECK_RESULT mega_status mega_writer_append_to(const char *path, mega_writer **out);
MEGA_CHECK_RESULT mega_status mega_writer_write(mega_writer *w, const void *bytes, size_t n);
MEGA_CHECK_RESULT mega_status mega_writer_flush(mega_writer *w);
int64_t mega_writer_position(const mega_writer *w);
uint32_t mega_writer_crc32c(const mega_writer *w); /* CRC-32C of all bytes written so far through this writer */
MEGA_CHECK_RESULT mega_status mega_writer_close(mega_writer *w, bool sync);
void mega_writer_abandon(mega_writer *w);

/* A file that several processes write, each at its own offsets: one process creates it with its final size and closes
 * it, then all open it. `size` appears in the message when the disk is full. Observers do not see these writes. */
typedef struct mega_patch mega_patch;
MEGA_CHECK_RESULT mega_status mega_patch_open(const char *path, int64_t size, bool create, mega_patch **out);
MEGA_CHECK_RESULT mega_status mega_patch_write(mega_patch *p, int64_t offset, const void *bytes, size_t n);
/* frees p even if it fails; NULL is allowed */
MEGA_CHECK_RESULT mega_status mega_patch_close(mega_patch *p, bool sync);

/* Writes PATH.tmp-OWNER, calls fsync, renames it over PATH and syncs the folder, so that PATH always has the whole old
 * or the whole new content. Removes temporary files that dead processes left. If PATH is a symbolic link, its target is
 * replaced and the link stays; pipes and devices are written directly. */
MEGA_CHECK_RESULT mega_status mega_file_write_atomic(const char *path, const void *bytes, size_t n);

/* Gives a file a second name `to`, replacing by one rename what had that name; where the file system has no second
 * names, copies it. */
MEGA_CHECK_RESULT mega_status mega_file_link(const char *from, const char *to);

/* Temporary files are named after their owner, so that other processes can see when it is dead. Returns
 * PATH.tmp-HOST-KERNEL-PID of this process in a new block; NULL when memory is short. KERNEL is 8 hex digits of a hash
 * of its boot id and PID namespace: containers on one host may share its name and process ids. */
char *mega_temporary_path(const char *path);
/* The same with another mark instead of ".tmp-". */
char *mega_owned_path(const char *path, const char *mark);
/* Returns whether a text has the form HOST-KERNEL-PID. A name that a user chose, like "iter_0000100.tmp-old", has
 * not. */
bool mega_owner_is_known(const char *owner);
/* Returns whether the process of HOST-KERNEL-PID has ended: it is visible from here and does not run, or it is not
 * visible and PATH has not been touched for a day. Files that carry this process's own id count as left by a dead one.
 * False for other texts. */
bool mega_owner_is_dead(const char *owner, const char *path);
/* Removes files FOLDER/STEM.tmp-OWNER of dead owners whose STEM begins and ends as given. With is_locked it removes
 * those of all owners, because the caller holds a lock that they would need. Never an error. */
void mega_temporaries_remove(const char *folder, const char *begin, const char *end, bool is_locked);

/* For tests: called after each operation of this thread that changed the file system. `op` is "create", "write",
 * "fsync", "rename", "exchange", "mkdir", "unlink", "rmdir", "link" or "syncdir"; b, bytes and size are set as they
 * apply (write: the bytes appended; rename, exchange: b is the other path). NULL removes the observer. */
typedef void mega_file_observer(void *user, const char *op, const char *a, const char *b, const void *bytes,
                                size_t size);
void mega_file_observe(mega_file_observer *observer, void *user);

/* Completes a path prefix that was cut short: for "data/code" and ".idx" it returns "data/code_content_document" if
 * data/ holds a file of that name and ending, the first by name of those that continue with "_". *out is a new block;
 * NULL if there is none. */
MEGA_CHECK_RESULT mega_status mega_path_complete(char **out, const char *prefix, const char *ending);

/* dir + "/" + name, in a new block; NULL when memory is short. */
char *mega_path_join(const char *folder, const char *name);
/* Follows the symbolic links of the last path component, whether or not the target exists. Returns a new block, or NULL
 * with errno set: the links form a circle, or memory is short. */
char *mega_path_follow(const char *path);
bool mega_path_ends_with(const char *path, const char *ending); /* any text will do as a path */
const char *mega_path_base(const char *path);                   /* after the last '/' ; borrowed */
char *mega_path_folder(const char *path);                       /* "." when there is none; a new block */

#ifdef __cplusplus
}
#endif

#endif
