/* Writes the tensor files of a checkpoint: streamed by one process, or written by all ranks at once, each its own part.
 * The list of all tensors, which every rank has, determines the offset of each; the partial checksums combine to that
 * of the file. */
#include "ckpt_impl.h"
#include "safetensors_impl.h"
#include "state_impl.h"

static const mega_st_pair format = {"format", "pt"}; /* several versions of transformers refuse files without it */

/* The tensors of the file; `first` is the record of each in the list, where those of a shared tensor follow each
 * other. */
typedef struct file_entries {
    mega_st_entry *entry;
    int *first, count; /* first[count]: the number of records */
} file_entries;

static void entries_fini(file_entries *e)
{
    MEGA_FREE(e->entry, e->first);
}

static mega_status entries_of(const mega_tensor_file *f, file_entries *out)
{
    file_entries e = {.entry = mega_malloc((size_t)(f->count + 1) * sizeof *e.entry),
                      .first = mega_malloc((size_t)(f->count + 1) * sizeof *e.first)};
    mega_status st = e.entry != NULL && e.first != NULL ? MEGA_OK : MEGA_NO_MEMORY(f->name, "writing it");
    for (int i = 0; i < f->count && st == MEGA_OK; i++) {
        st = mega_state_tensor_check(&f->tensor[i]);
        if (st != MEGA_OK || (i > 0 && mega_state_is_shared(&f->tensor[i - 1], &f->tensor[i]))) continue;
        mega_state_tensor_entry(&f->tensor[i], f->type, &e.entry[e.count]);
        e.first[e.count++] = i;
    }
    if (st != MEGA_OK) {
        entries_fini(&e);
        return st;
    }
    e.first[e.count] = f->count;
    *out = e;
    return MEGA_OK;
}

/* For a complete tensor, whose numbers arrive in the order of the file. */
static mega_status tensors_append(void *writer, const mega_state_runs *runs, const void *bytes)
{
    return mega_st_writer_write(writer, bytes, (size_t)(runs->rows * runs->run));
}

bool mega_tensor_file_can_stream(const mega_tensor_file *f)
{
    for (int i = 0; i < f->count; i++)
        if (!mega_state_is_in_order(&f->tensor[i])) return false;
    return true;
}

mega_status mega_tensor_file_stream(const mega_tensor_file *f, const char *folder, uint32_t *crc, int64_t *size)
{
    char *path = mega_path_join(folder, f->name);
    file_entries e = {.entry = NULL};
    mega_st_writer *w = NULL;
    mega_status st = path != NULL ? entries_of(f, &e) : MEGA_NO_MEMORY(f->name, "writing it");
    if (st == MEGA_OK) st = mega_st_writer_create(path, e.entry, e.count, &format, 1, &w);
    if (st == MEGA_OK) {
        for (int i; st == MEGA_OK && (i = mega_st_writer_next(w)) >= 0;)
            st = mega_state_tensor_write(&f->tensor[i], f->acc, f->type, tensors_append, w);
        if (st == MEGA_OK) st = mega_st_writer_close(w, true, crc, size);
        else
            mega_st_writer_abandon(w);
    }
    entries_fini(&e);
    mega_free(path);
    return st;
}

/* *out_entries receives the tensors, or is NULL. */
static mega_status layout_of(const mega_tensor_file *f, st_layout *out, file_entries *out_entries)
{
    file_entries e = {.entry = NULL};
    MEGA_TRY(entries_of(f, &e));
    const mega_status st = st_layout_make(out, f->name, e.entry, e.count, &format, 1);
    if (st == MEGA_OK && out_entries != NULL) *out_entries = e;
    else
        entries_fini(&e);
    return st;
}

mega_status mega_tensor_file_lay_out(const mega_tensor_file *f, const char *folder, int64_t *size)
{
    st_layout layout = {0};
    mega_patch *file = NULL;
    char *path = mega_path_join(folder, f->name);
    mega_status st = path != NULL ? layout_of(f, &layout, NULL) : MEGA_NO_MEMORY(f->name, "writing it");
    *size = (int64_t)layout.total;
    if (st == MEGA_OK) st = mega_patch_open(path, *size, true, &file);
    if (st == MEGA_OK) st = mega_patch_close(file, false);
    st_layout_fini(&layout);
    mega_free(path);
    return st;
}

typedef struct part {
    mega_patch *file;
    int64_t tensor, total; /* offset of the tensor; size of the file */
    int64_t pitch;         /* the pitch for which `shift` was computed */
    uint32_t shift, sum;
} part;

/* Shifts the checksum from row to row by the distance of their ends, and finally to the end of the file. */
static mega_status tensors_put(void *user, const mega_state_runs *runs, const void *bytes)
{
    part *p = user;
    const uint8_t *at = bytes;
    mega_state_runs r = *runs;
    uint32_t sum = 0;
    if (r.run == r.pitch) { /* rows without gaps are one run */
        r.run *= r.rows;
        r.rows = 1;
    }
    if (r.rows > 1 && p->pitch != r.pitch) {
        p->pitch = r.pitch;
        p->shift = mega_crc32c_shift((uint64_t)r.pitch);
    }
    for (int64_t i = 0; i < r.rows; i++, at += r.run) {
        MEGA_TRY(mega_patch_write(p->file, p->tensor + r.offset + i * r.pitch, at, (size_t)r.run));
        sum = (i > 0 ? mega_crc32c_shifted(sum, p->shift) : 0) ^ mega_crc32c_part(at, (size_t)r.run);
    }
    const int64_t end = p->tensor + r.offset + (r.rows - 1) * r.pitch + r.run;
    p->sum ^= mega_crc32c_shifted(sum, mega_crc32c_shift((uint64_t)(p->total - end)));
    return MEGA_OK;
}

static mega_status put_header(part *p, const st_layout *layout)
{
    const int64_t n = (int64_t)layout->header.size;
    return tensors_put(p, &(mega_state_runs){.offset = 0, .rows = 1, .run = n, .pitch = n}, layout->header.data);
}

mega_status mega_tensor_file_write_part(const mega_tensor_file *f, const char *folder, bool with_header, uint32_t *sum)
{
    st_layout layout = {0};
    file_entries e = {.entry = NULL};
    part p = {0};
    bool any = with_header;
    for (int i = 0; i < f->count; i++) any = any || f->tensor[i].count > 0;
    *sum = 0;
    if (!any) return MEGA_OK;
    char *path = mega_path_join(folder, f->name);
    mega_status st = path != NULL ? layout_of(f, &layout, &e) : MEGA_NO_MEMORY(f->name, "writing it");
    p.total = (int64_t)layout.total;
    if (st == MEGA_OK) st = mega_patch_open(path, p.total, false, &p.file);
    if (st == MEGA_OK && with_header) st = put_header(&p, &layout);
    for (int at = 0; at < e.count && st == MEGA_OK; at++) { /* in the order of the file */
        const int entry = layout.order[at];
        p.tensor = (int64_t)layout.offset[entry];
        for (int i = e.first[entry]; i < e.first[entry + 1] && st == MEGA_OK; i++)
            st = mega_state_tensor_write(&f->tensor[i], f->acc, f->type, tensors_put, &p);
    }
    const mega_status closed = mega_patch_close(p.file, st == MEGA_OK);
    st_layout_fini(&layout);
    entries_fini(&e);
    mega_free(path);
    *sum = p.sum;
    return st != MEGA_OK ? st : closed;
}
