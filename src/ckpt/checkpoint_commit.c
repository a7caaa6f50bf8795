/* The end of a save: the new folder takes its place, the tracker names it, older ones go. */
#include "ckpt_impl.h"

#include <inttypes.h>
#include <stdio.h>

static mega_status write_tracker(const mega_checkpoint_save *v)
{
    char text[32];
    char *path = mega_path_join(v->folder, MEGA_TRACKER);
    if (path == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "checkpoint %s: no memory to write it", v->folder);
    const int n = snprintf(text, sizeof text, "%" PRId64, v->iteration);
    const mega_status st = mega_file_write_atomic(path, text, (size_t)n);
    mega_free(path);
    return st;
}

/* From here on the new folder is the one that counts. An existing iteration folder comes out under the temporary name.
 */
mega_status mega_checkpoint_commit(const mega_checkpoint_save *v, const char *final, const char *temporary)
{
    const bool exists = mega_folder_exists(final);
    MEGA_TRY(exists ? mega_file_exchange(final, temporary) : mega_file_rename(temporary, final));
    MEGA_TRY(mega_folder_sync(v->folder));
    MEGA_TRY(write_tracker(v));
    if (exists && mega_tree_remove(temporary) != MEGA_OK) mega_warn("%s", mega_error_message());
    return MEGA_OK;
}

/* Renamed and synced first: a folder that is half removed must not look like an iteration. */
static mega_status remove_iteration(const char *save, int64_t iteration)
{
    char *path = mega_iteration_path(save, iteration), *aside = mega_iteration_temporary(save, iteration);
    mega_status st = path != NULL && aside != NULL ? MEGA_OK : MEGA_NO_MEMORY(save, "a path");
    if (st == MEGA_OK) st = mega_file_rename(path, aside);
    if (st == MEGA_OK) st = mega_folder_sync(save);
    if (st == MEGA_OK) st = mega_tree_remove(aside);
    mega_free(path);
    mega_free(aside);
    return st;
}

/* Keeps the one just written and the newest of those before it. Later ones, from a run that was taken back, stay. */
mega_status mega_checkpoint_prune(const mega_checkpoint_save *v)
{
    if (v->keep <= 0) return MEGA_OK;
    mega_iterations list = {0};
    MEGA_TRY(mega_iterations_list(&list, v->folder));
    mega_status st = MEGA_OK;
    int kept = 0;
    for (size_t i = list.count; i > 0 && st == MEGA_OK; i--) {
        if (list.iteration[i - 1] > v->iteration) continue;
        if (++kept > v->keep) st = remove_iteration(v->folder, list.iteration[i - 1]);
    }
    mega_iterations_fini(&list);
    return st;
}
