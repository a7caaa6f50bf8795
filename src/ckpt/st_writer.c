/* Writer of safetensors files. Its bytes are those of the reference writer for the same tensors and metadata. */
#include "megalith/file.h"
#include "safetensors_impl.h"

#include <stdlib.h>
#include <string.h>

struct mega_st_writer {
    mega_writer *file;
    const mega_st_entry *entry;
    int count, at;   /* `at` tensors of the order have been begun */
    int *order;      /* indices into entry, as they lie in the file */
    uint64_t *bytes; /* of each entry, by its own index */
    uint64_t left;   /* bytes that the tensor begun last still wants */
    mega_status status;
    mega_error_record error;
    char *path;
};

static int by_layout(const void *a, const void *b, void *entries)
{
    const mega_st_entry *x = &((const mega_st_entry *)entries)[*(const int *)a];
    const mega_st_entry *y = &((const mega_st_entry *)entries)[*(const int *)b];
    return x->dtype != y->dtype ? (int)x->dtype - (int)y->dtype : strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b, void *entries)
{
    const mega_st_entry *e = entries;
    return strcmp(e[*(const int *)a].name, e[*(const int *)b].name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const mega_st_pair *)a)->key, ((const mega_st_pair *)b)->key);
}

/* Sizes, and the order in the file; a name that stands there twice cannot be read back. */
static mega_status arrange(mega_st_writer *w)
{
    const char *fault = NULL;
    for (int i = 0; i < w->count; i++) {
        const mega_st_entry *e = &w->entry[i];
        w->order[i] = i;
        if (!mega_st_tensor_bytes(e->dtype, e->num_dims, e->shape, &w->bytes[i], &fault))
            return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: %s: the size of tensor %s is no number of bytes", w->path, fault,
                             e->name);
    }
    /* qsort_r's context is not const, though the comparisons only read it. */
    void *entries = (void *)(uintptr_t)w->entry;
    if (w->count > 1) qsort_r(w->order, (size_t)w->count, sizeof *w->order, by_name, entries);
    for (int i = 1; i < w->count; i++) {
        const char *name = w->entry[w->order[i]].name;
        if (strcmp(w->entry[w->order[i - 1]].name, name) == 0)
            return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: two tensors are named %s; names in a file are unique", w->path,
                             name);
    }
    if (w->count > 1) qsort_r(w->order, (size_t)w->count, sizeof *w->order, by_layout, entries);
    return MEGA_OK;
}

static void put_metadata(mega_buffer *b, const mega_st_pair *pairs, int count)
{
    mega_buffer_puts(b, "\"__metadata__\":{");
    for (int i = 0; i < count; i++) {
        if (i > 0) mega_buffer_puts(b, ",");
        mega_buffer_json_string(b, pairs[i].key);
        mega_buffer_puts(b, ":");
        mega_buffer_json_string(b, pairs[i].value);
    }
    mega_buffer_puts(b, "}");
}

static void put_tensors(const mega_st_writer *w, mega_buffer *b, bool comma)
{
    uint64_t at = 0;
    for (int i = 0; i < w->count; i++) {
        const mega_st_entry *e = &w->entry[w->order[i]];
        if (comma || i > 0) mega_buffer_puts(b, ",");
        mega_buffer_json_string(b, e->name);
        mega_buffer_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", mega_st_dtype_name(e->dtype));
        for (int d = 0; d < e->num_dims; d++)
            mega_buffer_printf(b, "%s%llu", d > 0 ? "," : "", (unsigned long long)e->shape[d]);
        const uint64_t end = at + w->bytes[w->order[i]];
        mega_buffer_printf(b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at, (unsigned long long)end);
        at = end;
    }
}

static mega_status write_header(mega_st_writer *w, const mega_st_pair *metadata, int num_metadata)
{
    mega_buffer text = {0};
    mega_st_pair *sorted = mega_malloc((size_t)(num_metadata + 1) * sizeof *sorted);
    mega_status st = MEGA_OK;
    if (sorted == NULL) {
        st = MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory for its header", w->path);
        goto end;
    }
    if (num_metadata > 0) {
        memcpy(sorted, metadata, (size_t)num_metadata * sizeof *sorted);
        qsort(sorted, (size_t)num_metadata, sizeof *sorted, by_key);
    }
    mega_buffer_puts(&text, "{");
    if (num_metadata > 0) put_metadata(&text, sorted, num_metadata);
    put_tensors(w, &text, num_metadata > 0);
    mega_buffer_puts(&text, "}");
    while (text.size % 8 != 0 && mega_buffer_puts(&text, " ")) continue;
    st = mega_buffer_check(&text, w->path);
    if (st == MEGA_OK && text.size > ST_MAX_HEADER)
        st = MEGA_FAIL(MEGA_ERR_FORMAT, "%s: HeaderTooLarge: a header of %zu bytes, at most %u are allowed", w->path,
                       text.size, ST_MAX_HEADER);
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)text.size >> (8 * i));
    if (st == MEGA_OK) {
        uint64_t all = sizeof length + text.size;
        for (int i = 0; i < w->count; i++) all += w->bytes[i];
        mega_writer_expect(w->file, (int64_t)all);
        st = mega_writer_write(w->file, length, sizeof length);
    }
    if (st == MEGA_OK) st = mega_writer_write(w->file, text.data, text.size);
end:
    mega_buffer_fini(&text);
    mega_free(sorted);
    return st;
}

static void free_writer(mega_st_writer *w)
{
    mega_free(w->order);
    mega_free(w->bytes);
    mega_free(w->path);
    mega_free(w);
}

mega_status mega_st_writer_create(mega_st_writer **out, const char *path, const mega_st_entry *entries, int count,
                                  const mega_st_pair *metadata, int num_metadata)
{
    mega_st_writer *w = mega_calloc(1, sizeof *w);
    if (w == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory for a writer", path);
    mega_status st = MEGA_OK;
    w->entry = entries;
    w->count = count;
    w->path = mega_strdup(path);
    w->order = mega_malloc((size_t)(count + 1) * sizeof *w->order);
    w->bytes = mega_malloc((size_t)(count + 1) * sizeof *w->bytes);
    if (w->path == NULL || w->order == NULL || w->bytes == NULL) {
        st = MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory for a writer", path);
        goto err_free;
    }
    st = arrange(w);
    if (st != MEGA_OK) goto err_free;
    st = mega_writer_create_large(&w->file, path);
    if (st != MEGA_OK) goto err_free;
    st = write_header(w, metadata, num_metadata);
    if (st != MEGA_OK) goto err_abandon;
    *out = w;
    return MEGA_OK;

err_abandon:
    mega_writer_abandon(w->file);
err_free:
    free_writer(w);
    return st;
}

/* The first error stays; every later call returns it. */
static mega_status fail(mega_st_writer *w, mega_status st)
{
    if (w->status == MEGA_OK && st != MEGA_OK) {
        w->status = st;
        mega_error_get(&w->error);
    }
    return st;
}

int mega_st_writer_next(mega_st_writer *w)
{
    if (w->left > 0 && w->status == MEGA_OK) {
        const char *name = w->entry[w->order[w->at - 1]].name;
        fail(w,
             MEGA_FAIL(MEGA_ERR_FORMAT, "%s: tensor %s lacks %llu bytes", w->path, name, (unsigned long long)w->left));
    }
    if (w->at == w->count) {
        w->left = 0;
        return -1;
    }
    const int index = w->order[w->at++];
    w->left = w->bytes[index];
    return index;
}

mega_status mega_st_writer_write(mega_st_writer *w, const void *bytes, size_t n)
{
    if (w->status != MEGA_OK) return mega_error_restore(&w->error);
    if (n > w->left) {
        const char *name = w->at > 0 ? w->entry[w->order[w->at - 1]].name : "(none)";
        return fail(w, MEGA_FAIL(MEGA_ERR_FORMAT, "%s: tensor %s gets %llu bytes more than its shape says", w->path,
                                 name, (unsigned long long)(n - w->left)));
    }
    w->left -= n;
    return fail(w, mega_writer_write(w->file, bytes, n));
}

mega_status mega_st_writer_close(mega_st_writer *w, bool sync, uint32_t *crc, int64_t *size)
{
    if (mega_st_writer_next(w) >= 0 && w->status == MEGA_OK)
        fail(w, MEGA_FAIL(MEGA_ERR_FORMAT, "%s: %d of %d tensors were written", w->path, w->at - 1, w->count));
    if (w->status != MEGA_OK) {
        const mega_status st = mega_error_restore(&w->error);
        mega_st_writer_abandon(w);
        return st;
    }
    if (crc != NULL) *crc = mega_writer_crc32c(w->file);
    if (size != NULL) *size = mega_writer_position(w->file);
    const mega_status st = mega_writer_close(w->file, sync);
    free_writer(w);
    return st;
}

void mega_st_writer_abandon(mega_st_writer *w)
{
    if (w == NULL) return;
    mega_writer_abandon(w->file);
    free_writer(w);
}
