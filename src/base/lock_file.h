/* The file of a lock (lock.h): its text, and the operations of the file system that must be atomic. */
#ifndef MEGALITH_LOCK_FILE_H
#define MEGALITH_LOCK_FILE_H

#include "megalith/process.h"
#include "megalith/status.h"
#include <stdbool.h>

enum { LOCK_TEXT_BYTES = 512 };

/* What is at the path of a lock. */
typedef struct lock_found {
    bool is_there, is_ours;     /* a file; one that lock_text_make wrote */
    char text[LOCK_TEXT_BYTES]; /* as far as it fits */
    mega_process process;
    mega_process_state state;
    long long since; /* Unix time */
    double age;      /* seconds since the last renewal */
} lock_found;

/* A lock of this process from now on. */
void lock_text_make(char out[LOCK_TEXT_BYTES]);
/* Errors name `shown`: the lock that a temporary file is written for. */
mega_status lock_file_write(const char *path, const char *shown, const char *text);
/* Gives the file `beside` the name `path`. *taken false: the name is taken. Without links the file is renamed where
 * nothing is replaced, and else created with its text in place; beside NULL asks for that. */
mega_status lock_file_put(const char *path, const char *beside, const char *text, bool *taken);
/* `beside` was just written: its time is the present of the file system. NULL: the clock's. */
mega_status lock_file_look(lock_found *out, const char *path, const char *beside);
/* A dead process, one that cannot be seen and has not renewed for long, or a file that was created and never filled. */
bool lock_is_stale(const lock_found *found);
/* Opens the file under flock. *out -1: it is gone, or the name is another file's by now. MEGA_ERR_BUSY when somebody
 * else has it under flock for longer than an output needs to get its name. Close *out to let it go. */
mega_status lock_file_hold(const char *path, int *out);
/* Removes the file if its text is that one, or gives its name to the file `successor` in the same instant. */
mega_status lock_file_end(const char *path, const char *text, const char *successor, bool *ended);
/* Sets its time. False when it is another's or gone; true also where that could not be found out. */
bool lock_file_touch(const char *path, const char *text);

#endif
