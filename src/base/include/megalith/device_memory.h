/* Memory of the device that runs the kernels.
 *
 * On CPUs it is host memory, and the calls here are those of malloc and memcpy. They are nevertheless the only way
 * by which code that is no kernel reaches an engine's memory, because a GPU's memory has no other. A build with
 * MEGA_FAR (MEGA_DEVICE=far make check) holds the tree to that: its device memory has no access except between
 * mega_device_begin and mega_device_end, and inside the calls; any other access ends the process with the name of the
 * block and the callers. */
#ifndef MEGALITH_DEVICE_MEMORY_H
#define MEGALITH_DEVICE_MEMORY_H

#include "megalith/memory.h"
#include <string.h>

#ifdef MEGA_FAR

/* As mega_pages_alloc and mega_pages_free. */
MEGA_CHECK_RESULT mega_status mega_device_alloc(void **out, size_t bytes, const char *what);
void mega_device_free(void *block, size_t bytes);

/* Around work that the device does: kernels and exchanges between ranks. The two may be nested, and called by several
 * threads. */
void mega_device_begin(void);
void mega_device_end(void);

/* Between host and device, and within the device. The ranges do not overlap. Host memory may be given as well, for
 * buffers whose owner is not known. */
void mega_device_write(void *device, const void *host, size_t bytes);
void mega_device_read(void *host, const void *device, size_t bytes);
void mega_device_copy(void *to, const void *from, size_t bytes);
void mega_device_fill(void *device, int byte, size_t bytes);

/* Whether the host can read and write device memory in place. Work that only the host can do (a custom op, a row that
 * a file is written from) works in place where this is so and on copies where it is not. */
static inline bool mega_device_is_host(void)
{
    return false;
}

#else

MEGA_CHECK_RESULT static inline mega_status mega_device_alloc(void **out, size_t bytes, const char *what)
{
    return mega_pages_alloc(out, bytes, what);
}

static inline void mega_device_free(void *block, size_t bytes)
{
    mega_pages_free(block, bytes);
}

static inline void mega_device_begin(void)
{
}

static inline void mega_device_end(void)
{
}

static inline void mega_device_write(void *device, const void *host, size_t bytes)
{
    memcpy(device, host, bytes);
}

static inline void mega_device_read(void *host, const void *device, size_t bytes)
{
    memcpy(host, device, bytes);
}

static inline void mega_device_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

static inline void mega_device_fill(void *device, int byte, size_t bytes)
{
    memset(device, byte, bytes);
}

static inline bool mega_device_is_host(void)
{
    return true;
}

#endif

/* Copies `rows` rows of `bytes` bytes each, which follow each other on the host and are `pitch` bytes apart on the
 * device. */
static inline void mega_device_write_rows(void *device, size_t pitch, const void *host, int64_t rows, size_t bytes)
{
    mega_device_begin();
    for (size_t r = 0; r < (size_t)rows; r++) memcpy((char *)device + r * pitch, (const char *)host + r * bytes, bytes);
    mega_device_end();
}

static inline void mega_device_read_rows(void *host, const void *device, size_t pitch, int64_t rows, size_t bytes)
{
    mega_device_begin();
    for (size_t r = 0; r < (size_t)rows; r++) memcpy((char *)host + r * bytes, (const char *)device + r * pitch, bytes);
    mega_device_end();
}

#endif
