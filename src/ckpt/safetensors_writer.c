/* Writes safetensors files: the same bytes as the reference writer for the same tensors and metadata. */
#include "megalith/file.h"
#include "safetensors_impl.h"

struct mega_st_writer {
    mega_writer *file;
    const mega_st_entry *entry;
    int count, at; /* `at`: number of tensors begun, in file order */
    st_layout layout;
    uint64_t left; /* bytes still missing in the current tensor */
    mega_status status;
    mega_error_record error;
    char *path;
};

static void st_writer_free(mega_st_writer *w)
{
    st_layout_fini(&w->layout);
    MEGA_FREE(w->path, w);
}

mega_status mega_st_writer_create(const char *path, const mega_st_entry *entries, int count,
                                  const mega_st_pair *metadata, int num_metadata, mega_st_writer **out)
{
    mega_st_writer *w = mega_calloc(1, sizeof *w);
    if (w == NULL) return MEGA_NO_MEMORY(path, "a writer");
    w->entry = entries;
    w->count = count;
    w->path = mega_strdup(path);
    mega_status st = w->path != NULL ? MEGA_OK : MEGA_NO_MEMORY(path, "a writer");
    if (st == MEGA_OK) st = st_layout_make(&w->layout, path, entries, count, metadata, num_metadata);
    if (st == MEGA_OK) st = mega_writer_create_large(path, &w->file);
    if (st != MEGA_OK) {
        st_writer_free(w);
        return st;
    }
    mega_writer_expect(w->file, (int64_t)w->layout.total);
    st = mega_writer_write(w->file, w->layout.header.data, w->layout.header.size);
    if (st != MEGA_OK) {
        mega_st_writer_abandon(w);
        return st;
    }
    *out = w;
    return MEGA_OK;
}

/* Keeps the first error, which every later call returns. */
static mega_status st_writer_fail(mega_st_writer *w, mega_status st)
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
        const char *name = w->entry[w->layout.order[w->at - 1]].name;
        st_writer_fail(w, MEGA_FAIL(MEGA_ERR_FORMAT, "%s: tensor %s lacks %llu bytes", w->path, name,
                                    (unsigned long long)w->left));
    }
    if (w->at == w->count) {
        w->left = 0;
        return -1;
    }
    const int index = w->layout.order[w->at++];
    w->left = w->layout.bytes[index];
    return index;
}

mega_status mega_st_writer_write(mega_st_writer *w, const void *bytes, size_t n)
{
    if (w->status != MEGA_OK) return mega_error_restore(&w->error);
    if (n > w->left) {
        const char *name = w->at > 0 ? w->entry[w->layout.order[w->at - 1]].name : "(none)";
        return st_writer_fail(w,
                              MEGA_FAIL(MEGA_ERR_FORMAT, "%s: tensor %s gets %llu bytes more than its shape requires",
                                        w->path, name, (unsigned long long)(n - w->left)));
    }
    w->left -= n;
    return st_writer_fail(w, mega_writer_write(w->file, bytes, n));
}

mega_status mega_st_writer_close(mega_st_writer *w, bool sync, uint32_t *crc, int64_t *size)
{
    if (mega_st_writer_next(w) >= 0 && w->status == MEGA_OK)
        st_writer_fail(w,
                       MEGA_FAIL(MEGA_ERR_FORMAT, "%s: %d of %d tensors were written", w->path, w->at - 1, w->count));
    if (w->status != MEGA_OK) {
        const mega_status st = mega_error_restore(&w->error);
        mega_st_writer_abandon(w);
        return st;
    }
    if (crc != NULL) *crc = mega_writer_crc32c(w->file);
    if (size != NULL) *size = mega_writer_position(w->file);
    const mega_status st = mega_writer_close(w->file, sync);
    st_writer_free(w);
    return st;
}

void mega_st_writer_abandon(mega_st_writer *w)
{
    if (w == NULL) return;
    mega_writer_abandon(w->file);
    st_writer_free(w);
}
