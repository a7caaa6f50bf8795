/* A block on its way to the disk while the next one is filled: a thread that does nothing but write. */
#ifndef MEGALITH_FLIGHT_H
#define MEGALITH_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mega_flight mega_flight;

/* NULL where no thread or no memory is to be had: then the caller writes himself. */
mega_flight *mega_flight_create(int fd);
/* Begins to write n bytes, which stay as they are until they have landed. None may be under way. */
void mega_flight_launch(mega_flight *f, const uint8_t *bytes, size_t n);
/* Waits. `done` bytes are written; where that is not all of them, the result is the error number of what failed,
 * else 0. With nothing under way: done 0, result 0. */
int mega_flight_land(mega_flight *f, const uint8_t **bytes, size_t *n, size_t *done);
/* Lands and forgets what is under way. NULL is fine. */
void mega_flight_destroy(mega_flight *f);

#endif
