/* A file that grows by appending while other processes may append to it, rewrite it, remove it, rename it or fill its
 * disk. A failed write leaves no partial record, and the next one reopens the path if it leads to another file by then.
 * Processes that append share an flock(2); a process that rewrites the file holds it exclusively. On file systems
 * without flock there is no such protection. */
#ifndef MEGALITH_APPEND_H
#define MEGALITH_APPEND_H

#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct mega_append mega_append;

/* Does not open the file yet. Returns MEGA_ERR_MEMORY. */
mega_status mega_append_create(const char *path, mega_append **out);
/* The state of the file at mega_append_open; filled even if opening failed. */
typedef struct mega_append_found {
    bool is_empty; /* the file is empty */
    bool was_left; /* the path no longer leads to the file that was open before */
    bool was_lost; /* that earlier file was removed, with everything written to it */
} mega_append_found;
/* Opens the file unless it is open and its path still leads to it, and keeps other processes from rewriting it until
 * mega_append_pause. Creates a missing file but not its folder. Returns MEGA_ERR_IO for a pipe without a reader and
 * MEGA_ERR_BUSY if another process keeps rewriting the file. */
mega_status mega_append_open(mega_append *a, mega_append_found *out);
void mega_append_pause(mega_append *a); /* to be called even after an open that failed */
/* Writes all bytes or, in a regular file, none of them. The file must be open. */
mega_status mega_append_write(mega_append *a, const void *bytes, size_t n);
mega_status mega_append_sync(mega_append *a);       /* returns when all is on the disk */
const char *mega_append_path(const mega_append *a); /* borrowed */
mega_status mega_append_close(mega_append *a);      /* frees `a` even if it fails; NULL is allowed */

/* Until mega_append_admit no process can append to the regular file at `path`: the caller reads it and replaces it as a
 * whole. Returns MEGA_ERR_BUSY if other processes keep appending or rewriting. */
mega_status mega_append_exclude(int *out_held, const char *path);
void mega_append_admit(int held);

#endif
