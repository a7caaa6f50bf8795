/* A queue of pieces for a file that cannot be written for a while: a full disk, a missing folder. They wait in memory
 * up to a limit; pieces that are finally lost are counted. */
#ifndef MEGALITH_OUTBOX_H
#define MEGALITH_OUTBOX_H

#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pieces that are missing in the file. */
typedef struct mega_missing {
    int64_t pieces; /* 0: none */
    int64_t first,
        last; /* the first and last iteration (or sample) they belong to; some in between may be in the file */
} mega_missing;

typedef struct mega_outbox mega_outbox;
#define MEGA_OUTBOX_BYTES ((size_t)1 << 20) /* most bytes that wait; beyond that the oldest pieces are dropped */

/* `head`, of `head_bytes`, is written first to an empty file; it is copied. Does not open the file yet. */
mega_status mega_outbox_create(const char *path, const void *head, size_t head_bytes, mega_outbox **out);
/* Adds one piece, which belongs to these iterations. It may stay queued until a flush. */
mega_status mega_outbox_put(mega_outbox *o, int64_t first, int64_t last, const void *piece, size_t bytes);
/* Writes queued pieces, each whole; pieces that cannot be written stay queued. */
mega_status mega_outbox_flush(mega_outbox *o);
mega_status mega_outbox_sync(mega_outbox *o); /* flushes, and returns when all is on disk */
const char *mega_outbox_path(const mega_outbox *o);
/* Returns the pieces that are lost, or would be if the outbox were closed now. */
mega_missing mega_outbox_missing(const mega_outbox *o);
/* does not write queued pieces; frees o even if it fails; NULL is allowed */
mega_status mega_outbox_close(mega_outbox *o);

/* What is logged about a file that a training writes beside its work: only changes, so that a full disk gives one
 * warning. */
typedef struct mega_outbox_report {
    const char *option, *path, *what; /* "--metrics-file", its value, "rows" */
    const char *counted;              /* what mega_missing counts: "samples"; NULL: iterations */
    bool is_failing;
    int64_t lost; /* number of records reported as lost */
} mega_outbox_report;
/* Called after each attempt to write. If data is missing although no write fails, the file was removed. */
void mega_outbox_hear(mega_outbox_report *r, mega_status st, mega_missing missing);
void mega_outbox_hear_end(const mega_outbox_report *r, mega_status st, mega_missing missing); /* after the close */

#endif
