/* Reads a file or standard input and decompresses gzip and zstd, which it recognises by the first bytes. */
#include "documents_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { IN_BYTES = 256 * 1024, POLL_MS = 200 };
typedef enum packing { PACKING_NONE, PACKING_GZIP, PACKING_ZSTD } packing;

struct mega_document_stream {
    const char *name;
    int fd;
    const volatile sig_atomic_t *stop;
    packing packing;
    uint64_t position;
    bool end;    /* the end of the file is reached */
    bool inside; /* inside a gzip member or zstd frame */
    size_t at, have;
    z_stream gzip;
    ZSTD_DStream *zstd;
    uint8_t in[IN_BYTES];
};

/* Returns whether a read would return data or an error without blocking; a signal ends the wait. */
static bool is_readable(const mega_document_stream *s)
{
    struct pollfd ready = {.fd = s->fd, .events = POLLIN};
    if (s->stop == NULL) return true;
    const int n = poll(&ready, 1, POLL_MS);
    return n > 0 || (n < 0 && errno != EINTR);
}

/* One read of up to n bytes; 0 at the end. Waiting for a pipe or a terminal ends when the caller asks to stop. */
static mega_status read_once(mega_document_stream *s, void *to, size_t n, size_t *got)
{
    for (;;) {
        if (s->stop != NULL && *s->stop != 0)
            return MEGA_FAIL(MEGA_ERR_INTERRUPTED, "%s: reading was interrupted", s->name);
        if (!is_readable(s)) continue;
        const ssize_t done = read(s->fd, to, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return MEGA_FAIL(MEGA_ERR_IO, "%s: cannot read: %s", s->name, strerror(errno));
        s->end = done == 0;
        s->position += (uint64_t)done;
        *got = (size_t)done;
        return MEGA_OK;
    }
}

/* One read, appended to the input buffer. */
static mega_status read_more(mega_document_stream *s)
{
    size_t got = 0;
    MEGA_TRY(read_once(s, s->in + s->have, IN_BYTES - s->have, &got));
    s->have += got;
    return MEGA_OK;
}

/* Fills the input buffer when it is empty. */
static mega_status stream_refill(mega_document_stream *s)
{
    if (s->at < s->have || s->end) return MEGA_OK;
    s->at = s->have = 0;
    return read_more(s);
}

/* A pipe may deliver its first bytes in small pieces, but four are needed to recognise the compression. */
static mega_status fill_first(mega_document_stream *s)
{
    while (s->have < 4 && !s->end) MEGA_TRY(read_more(s));
    return MEGA_OK;
}

static mega_status begin_unpacking(mega_document_stream *s)
{
    static const uint8_t zstd_magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
    if (s->have >= 2 && s->in[0] == 0x1f && s->in[1] == 0x8b) {
        if (inflateInit2(&s->gzip, 15 + 16) != Z_OK)
            return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory to unpack gzip", s->name);
        s->packing = PACKING_GZIP;
    } else if (s->have >= 4 && (memcmp(s->in, zstd_magic, 4) == 0 ||
                                ((s->in[0] & 0xf0) == 0x50 && memcmp(s->in + 1, "\x2a\x4d\x18", 3) == 0))) {
        s->zstd = ZSTD_createDStream();
        if (s->zstd == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory to unpack zstd", s->name);
        s->packing = PACKING_ZSTD;
    }
    return MEGA_OK;
}

mega_status mega_document_stream_open(const char *path, const volatile sig_atomic_t *stop, mega_document_stream **out)
{
    mega_document_stream *s = mega_calloc(1, sizeof *s);
    if (s == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory to read it", path);
    s->stop = stop;
    const bool standard_input = strcmp(path, "-") == 0;
    s->name = standard_input ? "standard input" : path;
    s->fd = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    mega_status st;
    if (s->fd < 0) {
        st =
            MEGA_FAIL(errno == ENOENT ? MEGA_ERR_NOT_FOUND : MEGA_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    } else {
        st = fill_first(s);
        if (st == MEGA_OK) st = begin_unpacking(s);
    }
    if (st != MEGA_OK) {
        mega_document_stream_close(s);
        return st;
    }
    *out = s;
    return MEGA_OK;
}

void mega_document_stream_close(mega_document_stream *s)
{
    if (s == NULL) return;
    if (s->packing == PACKING_GZIP) inflateEnd(&s->gzip);
    ZSTD_freeDStream(s->zstd);
    if (s->fd > STDIN_FILENO) close(s->fd);
    mega_free(s);
}

static mega_status stream_damaged(const mega_document_stream *s, const char *kind, const char *why)
{
    return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: %s data damaged near byte %llu of the file: %s; copy the file again",
                     s->name, kind, (unsigned long long)(s->position - (s->have - s->at)), why);
}

static mega_status stream_cut(const mega_document_stream *s, const char *kind)
{
    return MEGA_FAIL(MEGA_ERR_FORMAT,
                     "%s: the %s data end prematurely at byte %llu; the file was cut short: copy it again", s->name,
                     kind, (unsigned long long)s->position);
}

/* Returns at least one byte unless the end is reached. Consecutive members form one text, as with gunzip. */
static mega_status read_gzip(mega_document_stream *s, char *out, size_t n, size_t *got)
{
    *got = 0;
    while (*got == 0) {
        MEGA_TRY(stream_refill(s));
        if (s->at == s->have) return s->inside ? stream_cut(s, "gzip") : MEGA_OK;
        s->inside = true;
        s->gzip.next_in = s->in + s->at;
        s->gzip.avail_in = (uInt)(s->have - s->at);
        s->gzip.next_out = (Bytef *)out;
        s->gzip.avail_out = (uInt)(n < 1u << 30 ? n : 1u << 30);
        const uInt room = s->gzip.avail_out;
        const int rc = inflate(&s->gzip, Z_NO_FLUSH);
        s->at = s->have - s->gzip.avail_in;
        *got = room - s->gzip.avail_out;
        if (rc == Z_STREAM_END) {
            s->inside = false;
            inflateReset(&s->gzip);
        } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
            return stream_damaged(s, "gzip", s->gzip.msg != NULL ? s->gzip.msg : "not unpackable");
        }
    }
    return MEGA_OK;
}

static mega_status read_zstd(mega_document_stream *s, char *out, size_t n, size_t *got)
{
    ZSTD_outBuffer to = {out, n, 0};
    while (to.pos == 0) {
        MEGA_TRY(stream_refill(s));
        const bool at_end = s->at == s->have;
        if (at_end && !s->inside) break;
        ZSTD_inBuffer from = {s->in, s->have, s->at};
        const size_t rc = ZSTD_decompressStream(s->zstd, &to, &from);
        if (ZSTD_isError(rc)) return stream_damaged(s, "zstd", ZSTD_getErrorName(rc));
        s->at = from.pos;
        s->inside = rc != 0;
        if (at_end && s->inside && to.pos == 0) return stream_cut(s, "zstd");
    }
    *got = to.pos;
    return MEGA_OK;
}

static mega_status stream_read_plain(mega_document_stream *s, char *out, size_t n, size_t *got)
{
    *got = 0;
    if (s->at == s->have && s->end) return MEGA_OK;
    /* read directly, without a copy */
    if (s->at == s->have && n >= IN_BYTES) return read_once(s, out, n < 1u << 30 ? n : 1u << 30, got);
    MEGA_TRY(stream_refill(s));
    const size_t have = s->have - s->at;
    *got = have < n ? have : n;
    memcpy(out, s->in + s->at, *got);
    s->at += *got;
    return MEGA_OK;
}

mega_status mega_document_stream_read(mega_document_stream *s, char *out, size_t n, size_t *out_got)
{
    size_t total = 0;
    for (size_t got = 1; total < n && got > 0; total += got) {
        switch (s->packing) {
        case PACKING_GZIP: MEGA_TRY(read_gzip(s, out + total, n - total, &got)); break;
        case PACKING_ZSTD: MEGA_TRY(read_zstd(s, out + total, n - total, &got)); break;
        case PACKING_NONE: MEGA_TRY(stream_read_plain(s, out + total, n - total, &got)); break;
        }
    }
    *out_got = total;
    return MEGA_OK;
}

uint64_t mega_document_stream_position(const mega_document_stream *s)
{
    return s->position - (s->have - s->at);
}
