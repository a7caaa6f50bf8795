/* Arrays that a program stores in its checkpoints: one safetensors file in state/. */
#include "ckpt_impl.h"

static mega_status client_entries(const mega_checkpoint_save *v, mega_st_entry *entry)
{
    for (int i = 0; i < v->num_client_arrays; i++) {
        const mega_client_array *a = &v->client_array[i];
        entry[i] = (mega_st_entry){.name = a->name,
                                   .dtype = mega_st_dtype_from_mega(a->dtype),
                                   .num_dims = a->columns > 0 ? 2 : 1,
                                   .shape = {(uint64_t)a->rows, (uint64_t)a->columns}};
    }
    return MEGA_OK;
}

static mega_status client_write(const mega_checkpoint_save *v, const char *path, const mega_st_entry *entry,
                                uint32_t *crc, int64_t *size)
{
    mega_st_writer *w = NULL;
    MEGA_TRY(mega_st_writer_create(path, entry, v->num_client_arrays, NULL, 0, &w));
    for (int i; (i = mega_st_writer_next(w)) >= 0;) {
        const mega_client_array *a = &v->client_array[i];
        const int64_t count = a->rows * (a->columns > 0 ? a->columns : 1);
        const mega_status st = mega_st_writer_write(w, a->data, (size_t)count * mega_dtype_size(a->dtype));
        if (st == MEGA_OK) continue;
        mega_st_writer_abandon(w);
        return st;
    }
    return mega_st_writer_close(w, true, crc, size);
}

mega_status mega_client_arrays_write(const mega_checkpoint_save *v, const char *folder, mega_checksums *sums)
{
    uint32_t crc = 0;
    int64_t size = 0;
    if (v->num_client_arrays <= 0) return MEGA_OK;
    char *path = mega_path_join(folder, CHECKPOINT_CLIENT_FILE);
    mega_st_entry *entry = mega_calloc((size_t)v->num_client_arrays, sizeof *entry);
    mega_status st =
        path != NULL && entry != NULL
            ? client_entries(v, entry)
            : MEGA_FAIL(MEGA_ERR_MEMORY, "checkpoint %s: no memory for %d arrays", folder, v->num_client_arrays);
    if (st == MEGA_OK) st = client_write(v, path, entry, &crc, &size);
    MEGA_FREE(entry, path);
    return st == MEGA_OK ? mega_checksums_add(sums, CHECKPOINT_CLIENT_FILE, size, crc) : st;
}
