/* The lock file (lock.h): its text, and the file-system operations that must be atomic. */
#ifndef MEGALITH_LOCK_FILE_H
#define MEGALITH_LOCK_FILE_H

#include "megalith/process.h"
#include "megalith/status.h"
#include <stdbool.h>

enum { LOCK_TEXT_BYTES = 512 };

/* The file found at a lock's path. */
typedef struct lock_found {
    bool is_there, is_ours;     /* the file exists; lock_text_make wrote it */
    char text[LOCK_TEXT_BYTES]; /* its beginning */
    mega_process process;
    mega_process_state state;
    long long since; /* Unix time */
    double age;      /* seconds since the last renewal */
} lock_found;

/* Writes the text of a lock that this process takes now. */
void lock_text_make(char out[LOCK_TEXT_BYTES]);
/* Errors name `shown`: the lock whose temporary file is written. */
mega_status lock_file_write(const char *path, const char *shown, const char *text);
/* Gives the file `beside` the name `path`; *taken false: the name already exists. On file systems without links the
 * file is renamed if that replaces nothing, otherwise created directly with its text; so too if beside is NULL. */
mega_status lock_file_put(const char *path, const char *beside, const char *text, bool *taken);
/* `beside` was just written: its time is the file system's present. NULL: use the system clock. */
mega_status lock_file_look(lock_found *out, const char *path, const char *beside);
/* Returns whether the holder is dead, or cannot be seen and has not renewed for too long, or the file was created and
 * never written. */
bool lock_is_stale(const lock_found *found);
/* Opens the file under flock; close *out to release it. *out is -1 if the file is gone or another file has the name.
 * Returns MEGA_ERR_BUSY if another process keeps it under flock for longer than an output needs to get its name. */
mega_status lock_file_hold(const char *path, int *out);
/* If the file has this text, removes it, or atomically replaces it with the file `successor`; *ended tells whether it
 * did. */
mega_status lock_file_end(const char *path, const char *text, const char *successor, bool *ended);
/* Renews its time. Returns false if the file is another's or gone; true also if that could not be determined. */
bool lock_file_touch(const char *path, const char *text);

#endif
