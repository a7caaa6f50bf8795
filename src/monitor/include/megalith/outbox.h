/* Pieces on their way to a file that cannot be written for a while: a full disk, a folder that is gone. They wait in
 * memory, up to a bound; what is lost in the end is counted. */
#ifndef MEGALITH_OUTBOX_H
#define MEGALITH_OUTBOX_H

#include "megalith/status.h"
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is missing in the file. */
typedef struct mega_missing {
    int64_t pieces;      /* 0: nothing */
    int64_t first, last; /* iterations that they belong to; between these, others may be there */
} mega_missing;

typedef struct mega_outbox mega_outbox;
#define MEGA_OUTBOX_BYTES ((size_t)1 << 20) /* that wait at most; the oldest are given up for more */

/* `head` of `head_bytes` begins a file that is empty; copied. Opens nothing yet. */
mega_status mega_outbox_create(mega_outbox **out, const char *path, const void *head, size_t head_bytes);
/* One piece, which belongs to these iterations. It may wait for a flush. */
mega_status mega_outbox_put(mega_outbox *o, int64_t first, int64_t last, const void *piece, size_t bytes);
/* Writes what waits, whole pieces only; what does not go waits on. */
mega_status mega_outbox_flush(mega_outbox *o);
mega_status mega_outbox_sync(mega_outbox *o); /* flushes; returns when all is on the disk */
const char *mega_outbox_path(const mega_outbox *o);
/* What is lost, and what would be lost if the box were closed now. */
mega_missing mega_outbox_missing(const mega_outbox *o);
mega_status mega_outbox_close(mega_outbox *o); /* writes nothing; frees also when it fails; NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
