/* Arrays in NumPy's file format, version 1.0: magic, length of the header, a Python dict as text, then the elements.
 */
#include "data_impl.h"
#include "megalith/memory.h"
#include <stdio.h>

size_t mega_npy_element(mega_npy_type type)
{
    return type == MEGA_NPY_I8 ? 8 : 4;
}

size_t mega_npy_header(char out[MEGA_NPY_HEADER_MAX], mega_npy_type type, int64_t rows, int64_t columns)
{
    static const char *const descr[] = {
        [MEGA_NPY_I4] = "<i4", [MEGA_NPY_U4] = "<u4", [MEGA_NPY_I8] = "<i8", [MEGA_NPY_F4] = "<f4"};
    char shape[64];
    if (columns > 0) {
        snprintf(shape, sizeof shape, "(%lld, %lld)", (long long)rows, (long long)columns);
    } else {
        snprintf(shape, sizeof shape, "(%lld,)", (long long)rows);
    }
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    size_t n = 10 + (size_t)snprintf(out + 10, MEGA_NPY_HEADER_MAX - 10,
                                     "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr[type], shape);
    while ((n + 1) % 64 != 0) out[n++] = ' ';
    out[n++] = '\n';
    const uint16_t text = (uint16_t)(n - 10);
    memcpy(out + 8, &text, 2);
    return n;
}

static mega_status npy_write_all(mega_writer *w, const char *header, size_t header_bytes, const void *data,
                                 size_t bytes)
{
    MEGA_TRY(mega_writer_write(w, header, header_bytes));
    return mega_writer_write(w, data, bytes);
}

mega_status mega_npy_write(const char *path, mega_npy_type type, int64_t rows, int64_t columns, const void *data,
                           uint32_t *out_crc)
{
    char header[MEGA_NPY_HEADER_MAX];
    const size_t header_bytes = mega_npy_header(header, type, rows, columns);
    const size_t bytes = (size_t)rows * (size_t)(columns > 0 ? columns : 1) * mega_npy_element(type);
    char *part = mega_temporary_path(path);
    if (part == NULL) return MEGA_NO_MEMORY(path, "a file name");

    mega_writer *w;
    mega_status st = mega_writer_create(part, &w);
    if (st != MEGA_OK) goto err_free;
    mega_writer_expect(w, (int64_t)(header_bytes + bytes));
    st = npy_write_all(w, header, header_bytes, data, bytes);
    if (st != MEGA_OK) {
        mega_writer_abandon(w);
        goto err_free;
    }
    *out_crc = mega_writer_crc32c(w);
    st = mega_writer_close(w, true);
    if (st == MEGA_OK) st = mega_file_rename(part, path);
    if (st != MEGA_OK) mega_file_discard(part);
err_free:
    mega_free(part);
    return st;
}
