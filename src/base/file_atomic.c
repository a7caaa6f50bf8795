/* Writes and links files atomically: readers see the whole new content or the old one. */
#include "file_impl.h"
#include "megalith/memory.h"
#include <unistd.h>

static mega_status write_whole(const char *path, const void *bytes, size_t n)
{
    mega_writer *writer = NULL;
    MEGA_TRY(mega_writer_create(path, &writer));
    mega_writer_expect(writer, (int64_t)n);
    const mega_status st = mega_writer_write(writer, bytes, n);
    if (st == MEGA_OK) return mega_writer_close(writer, true);
    mega_writer_abandon(writer);
    return st;
}

static mega_status replace_file(const char *path, const void *bytes, size_t n)
{
    char *beside = mega_temporary_path(path), *folder = mega_path_folder(path);
    mega_status st = MEGA_OK;
    if (beside == NULL || folder == NULL) {
        st = MEGA_NO_MEMORY(path, "a path");
        goto end;
    }
    mega_temporaries_remove(folder, mega_path_base(path), mega_path_base(path), false);
    st = write_whole(beside, bytes, n);
    if (st == MEGA_OK) st = mega_file_rename(beside, path);
    if (st == MEGA_OK) st = mega_folder_sync(folder);
    else
        mega_file_discard(beside);
end:
    MEGA_FREE(folder, beside);
    return st;
}

mega_status mega_file_write_atomic(const char *path, const void *bytes, size_t n)
{
    if (mega_file_exists(path) && !mega_file_is_regular(path)) return write_whole(path, bytes, n);
    char *target = mega_path_follow(path);
    if (target == NULL) return mega_file_refused(path, "follow the link");
    const mega_status st = replace_file(target, bytes, n);
    mega_free(target);
    return st;
}

static mega_status atomic_copy_file(const char *from, const char *to)
{
    mega_map map;
    MEGA_TRY(mega_map_open(from, &map));
    const mega_status st = write_whole(to, map.data, map.size);
    mega_map_close(&map);
    return st == MEGA_OK ? mega_map_check() : st;
}

mega_status mega_file_link(const char *from, const char *to)
{
    char *beside = mega_temporary_path(to);
    if (beside == NULL) return MEGA_NO_MEMORY(to, "a path");
    mega_status st = mega_file_remove(beside);
    if (st == MEGA_OK && link(from, beside) == 0) mega_file_report("link", from, beside, NULL, 0);
    else if (st == MEGA_OK)
        st = atomic_copy_file(from, beside);
    if (st == MEGA_OK) st = mega_file_rename(beside, to);
    /* rename does nothing where both are names of one file already, and leaves the first */
    mega_file_discard(beside);
    mega_free(beside);
    return st;
}
