/* Reads batches of a data set ahead of their use, on a thread of its own. The owner says which samples it needs, and
 * announces those that it will need next. What it gets does not depend on what was announced: a batch that was read
 * ahead is given out only for exactly its samples. */
#ifndef MEGALITH_READER_H
#define MEGALITH_READER_H

#include "megalith/batch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MEGA_READER_AHEAD = 2 }; /* batches */

typedef struct mega_reader mega_reader;

/* A reader of batches with the capacity and the columns of `like`. The data set is copied, and is_thread_safe. Starts
 * no thread. */
mega_status mega_reader_create(mega_reader **out, const mega_dataset *dataset, const mega_batch *like);
/* Waits for the read that is under way; nothing is read afterwards. NULL is allowed. */
void mega_reader_destroy(mega_reader *r);

/* Memory of its batches: bytes, and where it is (borrowed). mega_reader_start starts the thread, once. Returns
 * MEGA_ERR_MEMORY. */
size_t mega_reader_bytes(const mega_reader *r); /* 0 for NULL */
mega_status mega_reader_start(mega_reader *r, void *memory);

/* *batch says which samples are needed (mega_batch_begin, mega_batch_set_index). Replaces it by a batch that holds
 * them, for which it keeps the one that was given. Waits until they are read; drops what was announced before, if it is
 * not these samples.
 * Returns the status of the callback that failed while they were read, with its message; the samples are read again
 * when they are asked for again. */
mega_status mega_reader_take(mega_reader *r, uint32_t seed, mega_batch **batch);

/* Announce what follows the batches that are announced already: mega_reader_vacant returns a batch to describe further
 * samples in (mega_batch_begin, mega_batch_set_index), or NULL if there are as many as are read ahead;
 * mega_reader_announce lets the thread read that batch, once. */
int mega_reader_announced(const mega_reader *r); /* batches that are not taken yet */
mega_batch *mega_reader_vacant(mega_reader *r);
void mega_reader_announce(mega_reader *r, uint32_t seed);

#ifdef __cplusplus
}
#endif

#endif
