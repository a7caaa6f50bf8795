/* Buffered file writers. A large writer gives the system whole aligned blocks that bypass the page cache, if the file
 * system can do that: half the copying, no memory taken from other processes, and the disk does not idle until fsync.
 * While a background thread writes one block (background_writer.h), the caller fills the other. The end of the file,
 * less than a block, is written through the page cache. */
#include "background_writer.h"
#include "file_impl.h"
#include "megalith/file.h"
#include "megalith/hash.h"
#include "megalith/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)256 << 10)
#define BLOCK_BYTES  ((size_t)8 << 20) /* for a large writer */
/* no disk needs a coarser alignment; if one does, its EINVAL is handled below */
#define BLOCK_GRAIN ((size_t)4096)

struct mega_writer {
    int fd;
    mega_status status;
    mega_error_record error;             /* the first error; code MEGA_OK while there is none */
    int64_t position, expected, written; /* offset of the next byte; announced final size; bytes passed to the system */
    uint32_t crc;
    size_t used, capacity;
    bool direct; /* the file is open with O_DIRECT */
    char *path;
    uint8_t *buffer;                    /* the buffer being filled; a large writer alternates between two */
    uint8_t *pages;                     /* the first of the two */
    mega_background_writer *background; /* NULL before the first whole block, and if its thread could not be started */
};

enum { APPEND = 1, LARGE = 2 };

static mega_status make_buffer(mega_writer *w, bool large)
{
    void *pages = NULL;
    w->capacity = large ? BLOCK_BYTES : BUFFER_BYTES;
    if (large) MEGA_TRY(mega_pages_alloc(&pages, 2 * BLOCK_BYTES, "a writer's blocks"));
    w->pages = pages;
    w->buffer = large ? pages : mega_malloc(BUFFER_BYTES);
    return w->buffer != NULL ? MEGA_OK : MEGA_ERR_MEMORY;
}

/* Pages are taken as they are written to, perhaps by huge ones; the thread that writes blocks has a stack. */
size_t mega_writer_large_memory(size_t file_bytes)
{
    enum { PIECE = 2 << 20, THREAD = 300 << 10 };
    const size_t blocks = 2 * BLOCK_BYTES;
    const size_t used = file_bytes < blocks ? (file_bytes + PIECE - 1) / PIECE * PIECE : blocks;
    return used + THREAD;
}

static void writer_free(mega_writer *w)
{
    mega_background_writer_destroy(w->background);
    if (w->pages != NULL) mega_pages_free(w->pages, 2 * BLOCK_BYTES);
    else
        mega_free(w->buffer);
    MEGA_FREE(w->path, w);
}

static int writer_open_file(mega_writer *w, int how)
{
    const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | ((how & APPEND) != 0 ? O_APPEND : O_TRUNC);
    if ((how & LARGE) != 0) {
        const int fd = open(w->path, flags | O_DIRECT, 0666);
        w->direct = fd >= 0;
        if (fd >= 0 || errno != EINVAL) return fd;
    }
    return open(w->path, flags, 0666);
}

static mega_status open_writer(const char *path, int how, mega_writer **out)
{
    const bool append = (how & APPEND) != 0;
    mega_writer *w = mega_calloc(1, sizeof *w);
    if (w == NULL) return MEGA_NO_MEMORY(path, "a writer");
    mega_status st = MEGA_OK;
    w->path = mega_strdup(path);
    if (w->path == NULL || make_buffer(w, (how & LARGE) != 0) != MEGA_OK) {
        st = MEGA_NO_MEMORY(path, "a writer");
        goto err_free;
    }
    const bool is_new = !append || !mega_file_exists(path);
    w->fd = writer_open_file(w, how);
    if (w->fd < 0) {
        st = mega_file_refused(path, "open for writing");
        goto err_free;
    }
    if (append) {
        const off_t end = lseek(w->fd, 0, SEEK_END);
        w->position = w->written = end > 0 ? (int64_t)end : 0; /* a pipe has no end to seek to */
    }
    if (is_new) mega_file_report("create", path, NULL, NULL, 0);
    *out = w;
    return MEGA_OK;

err_free:
    writer_free(w);
    return st;
}

mega_status mega_writer_create(const char *path, mega_writer **out)
{
    return open_writer(path, 0, out);
}

mega_status mega_writer_create_large(const char *path, mega_writer **out)
{
    return open_writer(path, LARGE, out);
}

mega_status mega_writer_append_to(const char *path, mega_writer **out)
{
    return open_writer(path, APPEND, out);
}

void mega_writer_expect(mega_writer *w, int64_t bytes)
{
    w->expected = bytes;
}

static mega_status writer_fail(mega_writer *w, const char *verb)
{
    const bool known = w->expected >= w->position;
    w->status = mega_file_too_large(w->path, verb, w->written, known ? w->expected : w->position, !known);
    mega_error_get(&w->error);
    return w->status;
}

/* Writes through the page cache from now on. */
static void leave_direct(mega_writer *w)
{
    const int flags = fcntl(w->fd, F_GETFL);
    if (flags >= 0) fcntl(w->fd, F_SETFL, flags & ~O_DIRECT); /* if this fails, the write fails too */
    w->direct = false;
}

static mega_status writer_put(mega_writer *w, const uint8_t *bytes, size_t n)
{
    if (w->direct && n % BLOCK_GRAIN != 0) leave_direct(w);
    while (n > 0) {
        const ssize_t done = write(w->fd, bytes, n < (size_t)1 << 30 ? n : (size_t)1 << 30);
        if (done < 0 && errno == EINTR) continue;
        /* the disk needs a coarser alignment, or was full in the middle of a block */
        if (done < 0 && errno == EINVAL && w->direct) {
            leave_direct(w);
            continue;
        }
        if (done < 0) return writer_fail(w, "write");
        mega_file_report("write", w->path, NULL, bytes, (size_t)done);
        bytes += done;
        n -= (size_t)done;
        w->written += done;
    }
    return MEGA_OK;
}

/* Waits for the block that is being written, if there is one. Retries here what the thread could not write, because
 * errors are reported here. */
static mega_status writer_land(mega_writer *w)
{
    const uint8_t *bytes = NULL;
    size_t n = 0, done = 0;
    const int error = w->background != NULL ? mega_background_writer_wait(w->background, &bytes, &n, &done) : 0;
    if (done > 0) mega_file_report("write", w->path, NULL, bytes, done);
    w->written += (int64_t)done;
    if (done == n) return MEGA_OK;
    errno = error;
    return error == EINVAL && w->direct ? writer_put(w, bytes + done, n - done) : writer_fail(w, "write");
}

/* Starts to write the full block; the other one is free now. */
static mega_status writer_launch(mega_writer *w)
{
    MEGA_TRY(writer_land(w));
    if (w->background == NULL) w->background = mega_background_writer_create(w->fd);
    if (w->background == NULL) return mega_writer_flush(w);
    mega_background_writer_start(w->background, w->buffer, w->used);
    w->buffer = w->buffer == w->pages ? w->pages + BLOCK_BYTES : w->pages;
    w->used = 0;
    return MEGA_OK;
}

mega_status mega_writer_flush(mega_writer *w)
{
    if (w->status != MEGA_OK) return mega_error_restore(&w->error);
    MEGA_TRY(writer_land(w));
    const size_t n = w->used;
    w->used = 0;
    return writer_put(w, w->buffer, n);
}

/* Accepts whole blocks only, so that offset and length stay aligned. */
static mega_status fill_blocks(mega_writer *w, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        const size_t room = BLOCK_BYTES - w->used, m = n < room ? n : room;
        memcpy(w->buffer + w->used, bytes, m);
        w->used += m;
        bytes += m;
        n -= m;
        if (w->used == BLOCK_BYTES) MEGA_TRY(writer_launch(w));
    }
    return MEGA_OK;
}

mega_status mega_writer_write(mega_writer *w, const void *bytes, size_t n)
{
    if (w->status != MEGA_OK) return mega_error_restore(&w->error);
    if (n == 0) return MEGA_OK;
    w->crc = mega_crc32c(w->crc, bytes, n);
    w->position += (int64_t)n;
    if (w->capacity == BLOCK_BYTES) return fill_blocks(w, bytes, n);
    if (n > BUFFER_BYTES - w->used) MEGA_TRY(mega_writer_flush(w));
    if (n >= BUFFER_BYTES) return writer_put(w, bytes, n);
    memcpy(w->buffer + w->used, bytes, n);
    w->used += n;
    return MEGA_OK;
}

int64_t mega_writer_position(const mega_writer *w)
{
    return w->position;
}

uint32_t mega_writer_crc32c(const mega_writer *w)
{
    return w->crc;
}

/* On network file systems close may be the first call to report a full disk, so its result counts. */
mega_status mega_writer_close(mega_writer *w, bool sync)
{
    MEGA_IGNORE(mega_writer_flush(w)); /* w->status keeps its error */
    mega_background_writer_destroy(w->background);
    w->background = NULL;
    if (w->status == MEGA_OK && sync) {
        if (fsync(w->fd) == 0) {
            mega_file_report("fsync", w->path, NULL, NULL, 0);
        } else if (errno != EINVAL && errno != ENOTSUP) { /* pipes and devices cannot be synced */
            writer_fail(w, "sync");
        }
    }
    if (close(w->fd) != 0 && errno != EINTR && w->status == MEGA_OK) writer_fail(w, "close");
    const mega_status st = w->status;
    if (st != MEGA_OK) mega_error_restore(&w->error);
    writer_free(w);
    return st;
}

void mega_writer_abandon(mega_writer *w)
{
    if (w == NULL) return;
    mega_background_writer_destroy(w->background);
    w->background = NULL;
    close(w->fd);
    mega_file_discard(w->path);
    writer_free(w);
}
