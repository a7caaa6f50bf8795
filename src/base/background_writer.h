/* Writes a block to disk on a background thread while the caller fills the next block. */
#ifndef MEGALITH_BACKGROUND_WRITER_H
#define MEGALITH_BACKGROUND_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mega_background_writer mega_background_writer;

/* Returns NULL if the thread or its memory cannot be had; the caller then writes blocks itself. */
mega_background_writer *mega_background_writer_create(int fd);
/* Starts to write n bytes, which must not change until mega_background_writer_wait returns. One block at a
 * time. */
void mega_background_writer_start(mega_background_writer *f, const uint8_t *bytes, size_t n);
/* Waits until the block is written. *done receives the number of bytes written; if that is less than *n, returns the
 * error number of the failed write, otherwise 0. Without a block, *done is 0 and the result 0. */
int mega_background_writer_wait(mega_background_writer *f, const uint8_t **bytes, size_t *n, size_t *done);
/* Waits for the block that is being written, ignores its result and frees f. NULL is allowed. */
void mega_background_writer_destroy(mega_background_writer *f);

#endif
