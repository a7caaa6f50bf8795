/* Files in the idx format (LeCun): two zero bytes, the type, the number of dimensions, each dimension in four bytes
 * (big-endian), then the numbers in row-major order. */
#include "megalith/dataset.h"
#include "megalith/file.h"
#include "megalith/memory.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

enum { IDX_UNSIGNED_BYTES = 8, IDX_HEADER = 4, IDX_MOST_BYTES = 1 << 30 };

/* gzread also reads uncompressed files. */
static mega_status idx_read(gzFile file, const char *path, const char *what, void *out, size_t bytes)
{
    const int n = gzread(file, out, (unsigned)bytes);
    if (n == (int)bytes) return MEGA_OK;
    int code = Z_OK;
    const char *why = gzerror(file, &code);
    if (code == Z_ERRNO) return MEGA_FAIL(MEGA_ERR_IO, "%s: %s", path, strerror(errno));
    return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: the file ends after %d of the %zu bytes of its %s%s%s; is it incomplete?",
                     path, n > 0 ? n : 0, bytes, what, code != Z_OK ? ": " : "", code != Z_OK ? why : "");
}

static mega_status idx_header(gzFile file, const char *path, mega_idx *x, int64_t *out_count)
{
    uint8_t head[IDX_HEADER], dim[4 * MEGA_IDX_DIMS];
    int64_t count = 1;
    MEGA_TRY(idx_read(file, path, "header", head, sizeof head));
    if (head[0] != 0 || head[1] != 0 || head[2] != IDX_UNSIGNED_BYTES || head[3] < 1 || head[3] > MEGA_IDX_DIMS)
        return MEGA_FAIL(MEGA_ERR_FORMAT,
                         "%s: begins with %02x %02x %02x %02x; expected an idx file of bytes, which begins with "
                         "00 00 08 and its number of dimensions, 1 to %d",
                         path, head[0], head[1], head[2], head[3], MEGA_IDX_DIMS);
    x->num_dims = head[3];
    MEGA_TRY(idx_read(file, path, "dimensions", dim, (size_t)x->num_dims * 4));
    for (int i = 0; i < x->num_dims; i++) {
        const uint8_t *d = dim + (size_t)i * 4;
        x->dim[i] = (int64_t)d[0] << 24 | (int64_t)d[1] << 16 | (int64_t)d[2] << 8 | d[3];
        if (x->dim[i] < 1 || x->dim[i] > IDX_MOST_BYTES / count)
            return MEGA_FAIL(MEGA_ERR_FORMAT,
                             "%s: dimension %d is %lld; expected at least 1, and at most %d bytes in all", path, i,
                             (long long)x->dim[i], IDX_MOST_BYTES);
        count *= x->dim[i];
    }
    *out_count = count;
    return MEGA_OK;
}

static mega_status idx_content(gzFile file, const char *path, mega_idx *x)
{
    int64_t count = 0;
    uint8_t more;
    MEGA_TRY(idx_header(file, path, x, &count));
    x->bytes = mega_malloc((size_t)count);
    if (x->bytes == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory for %lld bytes", path, (long long)count);
    MEGA_TRY(idx_read(file, path, "items", x->bytes, (size_t)count));
    if (gzread(file, &more, 1) == 0) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: found more data than the %lld bytes that the header announces", path,
                     (long long)count);
}

mega_status mega_idx_open(const char *path, mega_idx *out)
{
    mega_idx x = {.bytes = NULL};
    if (path == NULL || out == NULL)
        return MEGA_MISTAKE("mega_idx_open: %s is NULL; expected a value", path == NULL ? "path" : "out");
    if (!mega_file_exists(path)) return MEGA_FAIL(MEGA_ERR_NOT_FOUND, "%s: there is no such file", path);
    errno = 0;
    gzFile file = gzopen(path, "rb");
    if (file == NULL)
        return MEGA_FAIL(errno == 0 || errno == ENOMEM ? MEGA_ERR_MEMORY : MEGA_ERR_IO, "%s: %s", path,
                         errno == 0 ? "no memory to read it" : strerror(errno));
    const mega_status st = idx_content(file, path, &x);
    gzclose(file);
    if (st == MEGA_OK) *out = x;
    else
        mega_free(x.bytes);
    return st;
}

void mega_idx_close(mega_idx *idx)
{
    if (idx == NULL) return;
    mega_free(idx->bytes);
    *idx = (mega_idx){.bytes = NULL};
}
