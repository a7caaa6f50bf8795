/* A file that grows piece by piece while others may append to it too, rewrite or remove it, rename it or fill its disk.
 * A failed write leaves no half piece, and the next one opens the file again if its path leads elsewhere by now. Those
 * who append share an flock(2), and a process that rewrites the file holds it alone; file systems without flock do
 * without. */
#ifndef MEGALITH_APPEND_H
#define MEGALITH_APPEND_H

#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_append mega_append;

mega_status mega_append_create(mega_append **out, const char *path); /* opens nothing yet */
/* What opening found, also where it failed. */
typedef struct mega_append_found {
    bool is_empty; /* the file holds nothing */
    bool was_left; /* the path no longer leads to the file that was open */
    bool was_lost; /* and that file had been removed, with all that was written to it */
} mega_append_found;
/* Opens the file, unless it is open and its path still leads to it, and keeps others from rewriting it until
 * mega_append_pause. It is made where it is missing, its folder is not. A pipe without a reader fails; so does a file
 * that is being rewritten for longer than a moment (MEGA_ERR_BUSY). */
mega_status mega_append_open(mega_append *a, mega_append_found *out);
void mega_append_pause(mega_append *a); /* also after an open that failed */
/* All of it or, in a regular file, nothing. The file has to be open. */
mega_status mega_append_write(mega_append *a, const void *bytes, size_t n);
mega_status mega_append_sync(mega_append *a);       /* returns when all is on the disk */
const char *mega_append_path(const mega_append *a); /* borrowed */
mega_status mega_append_close(mega_append *a);      /* frees also when it fails; NULL is fine */

/* Until mega_append_admit nobody appends to the regular file that `path` leads to: the caller reads it and replaces it
 * as a whole. MEGA_ERR_BUSY if others append or rewrite for longer than a moment. */
mega_status mega_append_exclude(int *out_held, const char *path);
void mega_append_admit(int held);

#ifdef __cplusplus
}
#endif

#endif
