/* The end of a save: renames the new folder, updates the tracker, and removes older checkpoints. */
#include "ckpt_impl.h"
#include "megalith/log.h"

#include <stdio.h>

mega_status mega_checkpoint_keep(const char *final, const char *old, const char *end, char kept[PATH_MAX])
{
    for (int i = 1; i == 1 || mega_folder_exists(kept); i++) snprintf(kept, PATH_MAX, "%.3900s.%s-%d", final, end, i);
    return mega_file_rename(old, kept);
}

/* Removes what a save has replaced, at `old`, unless it holds something that no save wrote: that keeps another name. */
static mega_status remove_replaced(const char *final, const char *old)
{
    char mark[PATH_MAX], kept[PATH_MAX], *foreign = NULL;
    snprintf(mark, sizeof mark, "%s/" MEGA_CHECKSUMS_FILE, old);
    if (!mega_file_exists(mark)) return mega_tree_remove(old);
    const bool is_known = mega_checkpoint_foreign(old, &foreign) == MEGA_OK;
    if (!is_known) mega_error_clear();
    if (is_known && foreign == NULL) return mega_tree_remove(old);
    const mega_status st = mega_checkpoint_keep(final, old, "replaced", kept);
    if (st == MEGA_OK)
        mega_warn("%s is replaced; the older one stays as %s, because %s%s", final, kept,
                  is_known ? "no save wrote what it holds: " : "its checksums cannot be read", is_known ? foreign : "");
    mega_free(foreign);
    return st;
}

/* After this rename the new folder is the valid one. An existing folder of its name gets the temporary name. */
mega_status mega_checkpoint_commit(const mega_checkpoint_save *v, const char *final, const char *temporary)
{
    const bool exists = mega_folder_exists(final);
    MEGA_TRY(exists ? mega_file_exchange(final, temporary) : mega_file_rename(temporary, final));
    MEGA_TRY(mega_folder_sync(v->folder));
    MEGA_TRY(mega_tracker_write(v->folder, mega_path_base(final)));
    if (exists && remove_replaced(final, temporary) != MEGA_OK) mega_warn("%s", mega_error_message());
    return MEGA_OK;
}

static mega_status remove_iteration(const char *save, int64_t iteration)
{
    char *path = mega_iteration_path(save, iteration);
    const mega_status st = path != NULL ? mega_checkpoint_remove(save, path) : MEGA_NO_MEMORY(save, "a path");
    mega_free(path);
    return st;
}

/* Keeps the newest iterations up to this one. Later ones, from a run that went back to an earlier checkpoint, stay, and
 * so do tagged ones: somebody named them to find them again. */
mega_status mega_checkpoint_prune(const mega_checkpoint_save *v)
{
    if (v->keep <= 0) return MEGA_OK;
    mega_iterations list = {0};
    MEGA_TRY(mega_iterations_list(v->folder, &list));
    int kept = 0;
    for (size_t i = list.count; i > 0; i--) {
        if (list.iteration[i - 1] > v->iteration) continue;
        if (++kept <= v->keep || remove_iteration(v->folder, list.iteration[i - 1]) == MEGA_OK) continue;
        mega_warn("%s", mega_error_message()); /* one that stays keeps no other */
    }
    mega_iterations_fini(&list);
    return MEGA_OK;
}
