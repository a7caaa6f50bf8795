/* Writes a block to disk on a background thread while the caller fills the next block. */
#ifndef MEGALITH_FLIGHT_H
#define MEGALITH_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mega_flight mega_flight;

/* Returns NULL if the thread or its memory cannot be had; the caller then writes blocks itself. */
mega_flight *mega_flight_create(int fd);
/* Starts to write n bytes, which must not change until mega_flight_land returns. Only one block may be in flight. */
void mega_flight_launch(mega_flight *f, const uint8_t *bytes, size_t n);
/* Waits until the block is written. *done receives the number of bytes written; if that is less than *n, returns the
 * error number of the failed write, otherwise 0. With no block in flight, *done is 0 and the result 0. */
int mega_flight_land(mega_flight *f, const uint8_t **bytes, size_t *n, size_t *done);
/* Waits for the block in flight, ignores its result and frees f. NULL is allowed. */
void mega_flight_destroy(mega_flight *f);

#endif
