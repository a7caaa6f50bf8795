/* Memory of the device that runs the kernels.
 *
 * On CPUs it is host memory, and the calls here are those of malloc and memcpy. They are nevertheless the only way
 * by which code that is no kernel reaches an engine's memory, because a GPU's memory has no other. They find the device
 * by the address, so that engines on the host and on devices live in one process. A build with MEGA_FAR
 * (MEGA_DEVICE=far make check) holds the tree to that: its host memory of engines has no access except between
 * mega_device_begin and mega_device_end, and inside the calls; any other access ends the process with the name of the
 * block and the callers. */
#ifndef MEGALITH_DEVICE_MEMORY_H
#define MEGALITH_DEVICE_MEMORY_H

#include "megalith/memory.h"
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A device that is not the host, first member of what its backend keeps of it (mega_cuda_open). Its work runs later, in
 * the order in which it was asked for; `write` takes its source at once, `read` waits. None of them returns a failure
 * but `alloc`: the device keeps the first one, and `finish` returns it. The functions may be called by any thread. */
typedef struct mega_device mega_device;
/* Work that was recorded, to be asked for again as one (record). */
typedef struct mega_recording mega_recording;
/* A few numbers to be read (mega_device_read_all). */
typedef struct mega_device_part {
    void *host;
    const void *device;
    size_t bytes;
} mega_device_part;
typedef struct mega_recorded {
    int64_t recordings, launches; /* launches: of kernels, in all of them */
    /* by so much its free memory fell while they were made: a driver does not say how much of it is this process's, so
     * what other processes took meanwhile is in it */
    size_t bytes;
} mega_recorded;

struct mega_device {
    const char *name;
    const char *identity;                          /* of the hardware on its host: two devices on one have the same */
    const struct mega_device_exchanges *exchanges; /* device_exchange.h; NULL: it makes none */
    mega_status (*alloc)(mega_device *device, void **out, size_t bytes, const char *what);
    void (*free)(mega_device *device, void *block);
    void (*write)(mega_device *device, void *to, const void *host, size_t bytes);
    void (*read)(mega_device *device, void *host, const void *from, size_t bytes);
    void (*read_all)(mega_device *device, const mega_device_part *part, int count);
    void (*ask)(mega_device *device, const mega_device_part *part, int count);    /* mega_device_ask */
    void (*answer)(mega_device *device, const mega_device_part *part, int count); /* mega_device_answer */
    void (*copy)(mega_device *device, void *to, const void *from, size_t bytes);
    /* The same of several rows: those of the host follow each other, those of the device are `pitch` bytes apart. */
    void (*write_rows)(mega_device *device, void *to, size_t pitch, const void *host, size_t rows, size_t bytes);
    void (*read_rows)(mega_device *device, void *host, const void *from, size_t pitch, size_t rows, size_t bytes);
    void (*fill)(mega_device *device, void *to, int byte, size_t bytes);
    /* pinned memory of the host, and copies between it and the device; see mega_device_send */
    mega_status (*host_alloc)(mega_device *device, void **out, size_t bytes, const char *what);
    void (*host_free)(mega_device *device, void *block);
    void (*send)(mega_device *device, void *to, const void *pinned, size_t bytes);
    void (*receive)(mega_device *device, void *pinned, const void *from, size_t bytes);
    mega_status (*finish)(mega_device *device);
    mega_status (*failure)(mega_device *device);
    void (*close)(mega_device *device);
    /* Between `record` and `record_end`, kernels, copies within the device and fills that this thread asks for are not
     * done but recorded, with the arguments that they have now; it writes, reads and waits for nothing meanwhile.
     * `replay` asks for all of it, any number of times. record returns false after a failure; record_end returns NULL
     * then, and where there is no memory for a recording, of which nothing has been done. */
    bool (*record)(mega_device *device);
    mega_recording *(*record_end)(mega_device *device);
    void (*replay)(mega_device *device, const mega_recording *recording);
    void (*forget)(mega_device *device, mega_recording *recording); /* after its replays have ended; NULL is allowed */
    /* Whether kernels are launched by a library that the host tells whether a product adds: then a recording of the
     * first micro-batch of a step (mega_queue.first_micro_batch) is not that of later ones. */
    bool has_library;
    mega_recorded recorded; /* so far, and not forgotten */
    void (*marks_begin)(mega_device *device);
    int64_t (*mark)(mega_device *device);
    double (*seconds)(mega_device *device, int64_t from, int64_t to);
};

/* Times of the device's own clock. A mark is the moment at which all work asked for so far is done; it has a number,
 * and those from before mega_device_marks_begin are forgotten. mega_device_seconds waits for the later of the two;
 * after a failure it returns 0. NULL, the host, has no marks: the number is -1. */
void mega_device_marks_begin(mega_device *device);
int64_t mega_device_mark(mega_device *device);
double mega_device_seconds(mega_device *device, int64_t from, int64_t to);

/* Waits for the work of the device. Returns its first failure, also if an earlier call has returned it. NULL: the
 * host, which has none. */
MEGA_CHECK_RESULT mega_status mega_device_finish(mega_device *device);
/* Returns its first failure as far as the host knows: it waits for nothing. NULL: the host, which has none. */
MEGA_CHECK_RESULT mega_status mega_device_failure(mega_device *device);
/* Gives the device back; its blocks were freed before. NULL is allowed. */
void mega_device_close(mega_device *device);

/* As mega_pages_alloc and mega_pages_free: memory of the device, or of the host if it is NULL. */
MEGA_CHECK_RESULT mega_status mega_device_alloc(mega_device *device, void **out, size_t bytes, const char *what);
void mega_device_free(void *block, size_t bytes);
/* Returns the device that has this address; NULL: the host. */
mega_device *mega_device_of(const void *at);

/* Memory of the host that copies of the device reach without another copy in between (pinned); any, if device is
 * NULL. */
MEGA_CHECK_RESULT mega_status mega_device_host_alloc(mega_device *device, void **out, size_t bytes, const char *what);
void mega_device_host_free(mega_device *device, void *block, size_t bytes);
/* As mega_device_write and mega_device_read, from and to such memory of that device. What was sent must not change
 * before the next mega_device_receive or mega_device_finish has returned: the copy runs later. */
void mega_device_send(mega_device *device, void *to, const void *pinned, size_t bytes);
void mega_device_receive(mega_device *device, void *pinned, const void *from, size_t bytes);

/* Bytes of a window through which more is read or written: each read of a GPU waits. */
enum { MEGA_DEVICE_WINDOW = 1 << 20 };

/* Between host and device, and within the device. The ranges do not overlap. Host memory may be given as well, for
 * buffers whose owner is not known. */
void mega_device_write(void *device, const void *host, size_t bytes);
void mega_device_read(void *host, const void *device, size_t bytes);
/* Reads several small parts, with one wait: up to MEGA_DEVICE_PARTS_BYTES of one device in all. */
enum { MEGA_DEVICE_PARTS_BYTES = 1 << 16 };
void mega_device_read_all(const mega_device_part *part, int count);
/* The same in two halves. mega_device_ask asks for the parts as they are when the work so far is done, and returns at
 * once; mega_device_answer, with the same parts, waits for that and writes them, whatever work was asked for in
 * between. A device has one question at a time. After a failure the answer is NaNs; mega_device_failure says why. */
void mega_device_ask(const mega_device_part *part, int count);
void mega_device_answer(const mega_device_part *part, int count);
void mega_device_copy(void *to, const void *from, size_t bytes);
void mega_device_fill(void *device, int byte, size_t bytes);

/* Copies `rows` rows of `bytes` bytes each, which follow each other on the host and are `pitch` bytes apart on the
 * device. A device does them in one piece of work for some MiB. */
void mega_device_write_rows(void *device, size_t pitch, const void *host, int64_t rows, size_t bytes);
void mega_device_read_rows(void *host, const void *device, size_t pitch, int64_t rows, size_t bytes);

/* Whether the host can read and write what is at this address in place. Work that only the host can do (a custom op, a
 * row that a file is written from) works in place where this is so and on copies where it is not. Of NULL: whether an
 * engine on the host works so. */
bool mega_device_is_host(const void *at);

/* Around work of kernels on the host; nothing but in a build with MEGA_FAR. The two may be nested, and called by
 * several threads. */
void mega_device_begin(void);
void mega_device_end(void);

#endif
