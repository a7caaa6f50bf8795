/* Reads batches of a data set ahead of their use, on a background thread. The owner states which samples it needs now,
 * and announces those that it will need next. The result does not depend on what was announced: a batch that was read
 * ahead is returned only for exactly its samples. */
#ifndef MEGALITH_READER_H
#define MEGALITH_READER_H

#include "megalith/batch.h"

enum { MEGA_READER_AHEAD = 2 }; /* most batches that are read ahead */

typedef struct mega_reader mega_reader;

/* Creates a reader of batches with the capacity and the columns of `like`. The data set is copied and must be
 * is_thread_safe. Does not start the thread. Returns MEGA_ERR_MEMORY. */
mega_status mega_reader_create(const mega_dataset *dataset, const mega_batch *like, mega_reader **out);
/* Waits for the read in progress; nothing is read afterwards. NULL is allowed. */
void mega_reader_destroy(mega_reader *r);

bool mega_reader_is_this_thread(const mega_reader *r); /* whether the caller runs on its thread; NULL: false */

/* The bytes of its batches. mega_reader_start allocates them and starts the thread, once. Returns MEGA_ERR_MEMORY. */
size_t mega_reader_bytes(const mega_reader *r); /* 0 for NULL */
mega_status mega_reader_start(mega_reader *r);

/* *batch describes the samples that are needed (mega_batch_begin, mega_batch_set_index). Replaces it by a batch that
 * holds them, and keeps the given one in exchange. Waits until the samples are read; discards what was announced if it
 * is other samples.
 * Returns the status of the callback that failed while they were read, with its message; a later call for these samples
 * reads them again. */
mega_status mega_reader_take(mega_reader *r, uint32_t seed, mega_batch **batch);

/* Announce the batches after those already announced: mega_reader_vacant returns a batch in which to describe further
 * samples (mega_batch_begin, mega_batch_set_index), or NULL if enough are announced; mega_reader_announce lets the
 * thread read that batch. */
int mega_reader_announced(const mega_reader *r); /* announced batches that have not been taken yet */
mega_batch *mega_reader_vacant(mega_reader *r);
void mega_reader_announce(mega_reader *r, uint32_t seed);

#endif
