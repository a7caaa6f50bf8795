/* The calls by which code that is no kernel reaches device memory: each finds the device that has the address. */
#include "megalith/device_memory.h"
#include "base_impl.h"
#include "megalith/assert.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct device_block {
    const char *begin;
    size_t bytes;
    mega_device *device;
} device_block;

/* The blocks of devices that are not the host. */
static struct {
    pthread_mutex_t lock;
    atomic_int count;
    device_block *block; /* NULL: there are none */
} blocks = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Under the lock. */
static int device_block_of(const void *at)
{
    const char *const address = at;
    for (int i = 0; i < atomic_load(&blocks.count); i++)
        if (address >= blocks.block[i].begin && address < blocks.block[i].begin + blocks.block[i].bytes) return i;
    return -1;
}

mega_device *mega_device_of(const void *at)
{
    if (atomic_load_explicit(&blocks.count, memory_order_relaxed) == 0) return NULL;
    pthread_mutex_lock(&blocks.lock);
    const int i = device_block_of(at);
    mega_device *const device = i < 0 ? NULL : blocks.block[i].device;
    pthread_mutex_unlock(&blocks.lock);
    return device;
}

bool mega_device_is_host(const void *at)
{
#ifdef MEGA_FAR
    return at != NULL && !device_far_has(at);
#else
    return mega_device_of(at) == NULL;
#endif
}

#ifndef MEGA_FAR
void mega_device_begin(void)
{
}

void mega_device_end(void)
{
}
#endif

/* ---- blocks ---- */

static mega_status alloc_host(void **out, size_t bytes, const char *what)
{
    MEGA_TRY(mega_pages_alloc(out, bytes, what));
#ifdef MEGA_FAR
    device_far_add(*out, bytes, what);
#endif
    return MEGA_OK;
}

mega_status mega_device_alloc(mega_device *device, void **out, size_t bytes, const char *what)
{
    if (device == NULL) return alloc_host(out, bytes, what);
    const size_t taken = bytes > 0 ? bytes : 1;
    MEGA_TRY(device->alloc(device, out, taken, what));
    pthread_mutex_lock(&blocks.lock);
    const int count = atomic_load(&blocks.count);
    const bool is_listed = mega_array_add(&blocks.block, count, sizeof *blocks.block);
    if (is_listed) {
        blocks.block[count] = (device_block){*out, taken, device};
        atomic_store(&blocks.count, count + 1);
    }
    pthread_mutex_unlock(&blocks.lock);
    if (is_listed) return MEGA_OK;
    device->free(device, *out);
    *out = NULL;
    return MEGA_NO_MEMORY(what, "the list of blocks of devices");
}

void mega_device_free(void *block, size_t bytes)
{
    mega_device *const device = block != NULL ? mega_device_of(block) : NULL;
    if (device == NULL) {
#ifdef MEGA_FAR
        device_far_remove(block);
#endif
        mega_pages_free(block, bytes);
        return;
    }
    pthread_mutex_lock(&blocks.lock); /* first: once it is free, another thread may be given this address */
    const int i = device_block_of(block), last = atomic_load(&blocks.count) - 1;
    blocks.block[i] = blocks.block[last];
    atomic_store(&blocks.count, last);
    if (last == 0) {
        mega_free(blocks.block);
        blocks.block = NULL;
    }
    pthread_mutex_unlock(&blocks.lock);
    device->free(device, block);
}

/* ---- devices ---- */

mega_status mega_device_finish(mega_device *device)
{
    return device == NULL ? MEGA_OK : device->finish(device);
}

mega_status mega_device_failure(mega_device *device)
{
    return device == NULL ? MEGA_OK : device->failure(device);
}

void mega_device_close(mega_device *device)
{
    if (device != NULL) device->close(device);
}

void mega_device_marks_begin(mega_device *device)
{
    if (device != NULL) device->marks_begin(device);
}

int64_t mega_device_mark(mega_device *device)
{
    return device == NULL ? -1 : device->mark(device);
}

double mega_device_seconds(mega_device *device, int64_t from, int64_t to)
{
    return device == NULL || from < 0 || to < 0 ? 0 : device->seconds(device, from, to);
}

/* ---- copies ---- */

/* Between two devices: by way of the host. */
static void copy_across(mega_device *to_device, char *to, mega_device *from_device, const char *from, size_t bytes)
{
    char piece[16384];
    for (size_t at = 0; at < bytes; at += sizeof piece) {
        const size_t n = bytes - at < sizeof piece ? bytes - at : sizeof piece;
        from_device->read(from_device, piece, from + at, n);
        to_device->write(to_device, to + at, piece, n);
    }
}

void mega_device_copy(void *to, const void *from, size_t bytes)
{
    mega_device *const a = mega_device_of(to), *const b = mega_device_of(from);
    if (bytes == 0) return;
    if (a == NULL && b == NULL) {
        mega_device_begin();
        memcpy(to, from, bytes);
        mega_device_end();
    } else if (a == b) {
        a->copy(a, to, from, bytes);
    } else if (b == NULL) {
        a->write(a, to, from, bytes);
    } else if (a == NULL) {
        b->read(b, to, from, bytes);
    } else {
        copy_across(a, to, b, from, bytes);
    }
}

void mega_device_write(void *device, const void *host, size_t bytes)
{
    mega_device_copy(device, host, bytes);
}

void mega_device_read(void *host, const void *device, size_t bytes)
{
    mega_device_copy(host, device, bytes);
}

void mega_device_read_all(const mega_device_part *part, int count)
{
    mega_device *const d = count > 0 ? mega_device_of(part[0].device) : NULL;
    if (d != NULL) d->read_all(d, part, count);
    for (int i = 0; i < count && d == NULL; i++) mega_device_read(part[i].host, part[i].device, part[i].bytes);
}

/* The host has done its work, so that what it is asked for is read at once. */
void mega_device_ask(const mega_device_part *part, int count)
{
    mega_device *const d = count > 0 ? mega_device_of(part[0].device) : NULL;
    if (d != NULL) d->ask(d, part, count);
    else
        mega_device_read_all(part, count);
}

void mega_device_answer(const mega_device_part *part, int count)
{
    mega_device *const d = count > 0 ? mega_device_of(part[0].device) : NULL;
    if (d != NULL) d->answer(d, part, count);
}

void mega_device_fill(void *device, int byte, size_t bytes)
{
    mega_device *const d = mega_device_of(device);
    if (bytes == 0) return;
    if (d != NULL) {
        d->fill(d, device, byte, bytes);
        return;
    }
    mega_device_begin();
    memset(device, byte, bytes);
    mega_device_end();
}

/* ---- pinned memory ---- */

mega_status mega_device_host_alloc(mega_device *device, void **out, size_t bytes, const char *what)
{
    if (device == NULL) return mega_pages_alloc(out, bytes, what);
    return device->host_alloc(device, out, bytes > 0 ? bytes : 1, what);
}

void mega_device_host_free(mega_device *device, void *block, size_t bytes)
{
    if (device == NULL) mega_pages_free(block, bytes);
    else if (block != NULL)
        device->host_free(device, block);
}

void mega_device_send(mega_device *device, void *to, const void *pinned, size_t bytes)
{
    if (device == NULL) mega_device_write(to, pinned, bytes);
    else if (bytes > 0)
        device->send(device, to, pinned, bytes);
}

void mega_device_receive(mega_device *device, void *pinned, const void *from, size_t bytes)
{
    if (device == NULL) mega_device_read(pinned, from, bytes);
    else if (bytes > 0)
        device->receive(device, pinned, from, bytes);
}

/* ---- rows ---- */

static void copy_rows(char *to, size_t to_pitch, const char *from, size_t from_pitch, size_t rows, size_t bytes)
{
    mega_device_begin();
    for (size_t r = 0; r < rows; r++) memcpy(to + r * to_pitch, from + r * from_pitch, bytes);
    mega_device_end();
}

void mega_device_write_rows(void *device, size_t pitch, const void *host, int64_t rows, size_t bytes)
{
    mega_device *const d = mega_device_of(device);
    if (pitch == bytes) mega_device_write(device, host, (size_t)rows * bytes);
    else if (d == NULL)
        copy_rows(device, pitch, host, bytes, (size_t)rows, bytes);
    else
        d->write_rows(d, device, pitch, host, (size_t)rows, bytes);
}

void mega_device_read_rows(void *host, const void *device, size_t pitch, int64_t rows, size_t bytes)
{
    mega_device *const d = mega_device_of(device);
    if (pitch == bytes) mega_device_read(host, device, (size_t)rows * bytes);
    else if (d == NULL)
        copy_rows(host, bytes, device, pitch, (size_t)rows, bytes);
    else
        d->read_rows(d, host, device, pitch, (size_t)rows, bytes);
}
