/* A SAVE that holds checkpoints already: which, and the removal of those that a run which begins anew leaves behind. */
#include "ckpt_impl.h"
#include "megalith/json.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Damaged checksums count too: what they belong to may be all that is left of a run. */
static mega_status is_ours(const char *save, const char *name, bool *out)
{
    char *mark = mega_format("%s/%s/" MEGA_CHECKSUMS_FILE, save, name);
    if (mark == NULL) return MEGA_NO_MEMORY(save, "a path");
    *out = !mega_leftover_is(name) && mega_file_exists(mark);
    mega_free(mark);
    return MEGA_OK;
}

/* Returns whether `name` is to be preferred to `found` in a message: a higher iteration, and any iteration to a tag. */
static bool is_newer(const char *name, const char *found)
{
    int64_t a = -1, b = -1;
    if (!mega_iteration_parse(name, &a)) a = -1;
    if (found != NULL && !mega_iteration_parse(found, &b)) b = -1;
    return found == NULL || a > b;
}

static mega_status find_in(const char *save, const mega_names *names, char **out)
{
    const char *found = NULL;
    for (size_t i = 0; i < names->count; i++) {
        bool ours = false;
        MEGA_TRY(is_ours(save, names->name[i], &ours));
        if (ours && is_newer(names->name[i], found)) found = names->name[i];
    }
    if (found == NULL) return MEGA_OK;
    *out = mega_strdup(found);
    return *out != NULL ? MEGA_OK : MEGA_NO_MEMORY(save, "a name");
}

mega_status mega_checkpoint_used(const char *save, char **out)
{
    mega_names names = {0};
    mega_checkpoint_name tracked;
    *out = NULL;
    if (!mega_folder_exists(save)) return MEGA_OK;
    MEGA_TRY(mega_folder_list(save, &names));
    mega_status st = find_in(save, &names, out);
    mega_names_fini(&names);
    if (st != MEGA_OK || *out != NULL) return st;
    /* a save that was interrupted while it was renaming */
    if (mega_tracker_read(save, &tracked) == MEGA_OK) *out = mega_leftover_find(save, tracked.text);
    mega_error_clear();
    return MEGA_OK;
}

mega_status mega_checkpoint_count_used(const char *save, mega_buffer *out)
{
    enum { SHOWN = 8 };
    mega_names names = {0};
    size_t count = 0, shown = 0;
    MEGA_TRY(mega_folder_list(save, &names));
    mega_status st = MEGA_OK;
    for (int round = 0; round < 2 && st == MEGA_OK; round++) {
        for (size_t i = 0; i < names.count && st == MEGA_OK; i++) {
            bool ours = false;
            st = is_ours(save, names.name[i], &ours);
            if (!ours || (round == 1 && shown == SHOWN)) continue;
            if (round == 0) count++;
            else
                mega_buffer_printf(out, "%s%s", shown++ == 0 ? " (" : ", ", names.name[i]);
        }
        if (round == 0) mega_buffer_printf(out, "%zu checkpoint%s", count, count == 1 ? "" : "s");
    }
    if (count > shown) mega_buffer_printf(out, " and %zu others", count - shown);
    if (shown > 0) mega_buffer_puts(out, ")");
    mega_names_fini(&names);
    return st != MEGA_OK ? st : mega_buffer_check(out, save);
}

/* Returns whether a checkpoint was written by another run than that of this id. One that cannot be read may be its
 * own. */
static bool is_of_another(const char *folder, const char *run_id)
{
    json_error_t error;
    char *path = mega_path_join(folder, "state/run.json"), *text = NULL;
    bool differs = path != NULL && !mega_file_exists(path); /* weights alone */
    if (path != NULL && !differs && mega_file_read(path, &text, NULL) == MEGA_OK) {
        json_t *root = mega_json_load(text, strlen(text), 0, &error);
        const char *id = json_string_value(json_object_get(root, "run_id"));
        differs = root != NULL && (id == NULL || strcmp(id, run_id) != 0);
        json_decref(root);
    }
    mega_error_clear();
    MEGA_FREE(text, path);
    return differs;
}

/* Returns whether a save writes files of this name. An unfinished save has no checksums yet, so the name decides. The
 * copy of a folder may have files of other names, and is then kept, too. */
static bool is_of_saves(const char *name)
{
    static const char *const names[] = {"config.json",
                                        "generation_config.json",
                                        "README.md",
                                        "model.safetensors",
                                        "model.safetensors.index.json",
                                        "state/run.json",
                                        "state/optimizer.safetensors",
                                        "state/masters.safetensors",
                                        CHECKPOINT_CLIENT_FILE};
    char stem[256];
    const char *temporary = strstr(name, ".tmp-");
    const bool is_written = temporary != NULL && mega_owner_is_known(temporary + 5);
    const int n = is_written ? (int)(temporary - name) : (int)strlen(name);
    if ((size_t)n >= sizeof stem) return false;
    snprintf(stem, sizeof stem, "%.*s", n, name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(stem, names[i]) == 0) return true;
    int shard, shards, end = 0;
    const bool is_shard = sscanf(stem, "model-%5d-of-%5d.safetensors%n", &shard, &shards, &end) == 2;
    return (is_shard && end > 0 && stem[end] == '\0') || strcmp(stem, MEGA_CHECKSUMS_FILE) == 0 ||
           mega_tokenizer_names(stem);
}

/* Looks below folder/under for a file that the checksums do not list; sums NULL: that no save can have written. */
static mega_status find_foreign(const char *folder, const char *under, const mega_checksums *sums, char **out)
{
    mega_names names = {0};
    char *path = mega_path_join(folder, under);
    mega_status st = path != NULL ? mega_folder_list(path, &names) : MEGA_NO_MEMORY(folder, "a path");
    mega_free(path);
    for (size_t i = 0; i < names.count && st == MEGA_OK && *out == NULL; i++) {
        char *name = under[0] != '\0' ? mega_path_join(under, names.name[i]) : mega_strdup(names.name[i]);
        char *whole = name != NULL ? mega_path_join(folder, name) : NULL;
        if (whole == NULL) st = MEGA_NO_MEMORY(folder, "a path");
        else if (mega_folder_exists(whole))
            st = find_foreign(folder, name, sums, out);
        else if (sums == NULL ? !is_of_saves(name)
                              : strcmp(name, MEGA_CHECKSUMS_FILE) != 0 && mega_checksums_find(sums, name) == NULL) {
            *out = name;
            name = NULL;
        }
        MEGA_FREE(whole, name);
    }
    mega_names_fini(&names);
    return st;
}

mega_status mega_checkpoint_foreign(const char *path, char **out)
{
    mega_checksums sums = {0};
    *out = NULL;
    mega_status st = mega_checksums_read(path, &sums);
    if (st == MEGA_OK) st = find_foreign(path, "", &sums, out);
    mega_checksums_fini(&sums);
    return st;
}

mega_status mega_leftover_foreign(const char *path, char **out)
{
    mega_checksums sums = {0};
    *out = NULL;
    const bool is_whole = mega_checksums_read(path, &sums) == MEGA_OK;
    if (!is_whole) mega_error_clear();
    const mega_status st = find_foreign(path, "", is_whole ? &sums : NULL, out);
    mega_checksums_fini(&sums);
    return st;
}

/* Renames and syncs first, because a partly removed folder must not look like a checkpoint. */
mega_status mega_checkpoint_remove(const char *save, const char *path)
{
    char *foreign;
    MEGA_TRY(mega_checkpoint_foreign(path, &foreign));
    if (foreign != NULL) {
        const mega_status st = MEGA_MISTAKE("%s is not removed: it holds %s, which no save wrote there", path, foreign);
        mega_free(foreign);
        return st;
    }
    char *aside = mega_temporary_path(path);
    mega_status st = aside != NULL ? MEGA_OK : MEGA_NO_MEMORY(save, "a path");
    if (st == MEGA_OK) st = mega_file_rename(path, aside);
    if (st == MEGA_OK) st = mega_folder_sync(save);
    if (st == MEGA_OK) st = mega_tree_remove(aside);
    mega_free(aside);
    return st;
}

static mega_status remove_other(const char *save, const char *name, const char *run_id)
{
    bool ours = false;
    MEGA_TRY(is_ours(save, name, &ours));
    if (!ours) return MEGA_OK;
    char *path = mega_path_join(save, name);
    mega_status st = path != NULL ? MEGA_OK : MEGA_NO_MEMORY(save, "a path");
    if (st == MEGA_OK && is_of_another(path, run_id)) {
        st = mega_checkpoint_remove(save, path);
        if (st == MEGA_OK) mega_info("removed %s, of the run before", path);
    }
    mega_free(path);
    return st;
}

mega_status mega_checkpoint_remove_others(const char *save, const char *run_id)
{
    mega_names names = {0};
    MEGA_TRY(mega_folder_list(save, &names));
    mega_error_record first = {0};
    mega_status st = MEGA_OK;
    for (size_t i = 0; i < names.count; i++) {
        const mega_status now = remove_other(save, names.name[i], run_id);
        if (now == MEGA_OK || st != MEGA_OK) continue; /* one that stays keeps no other */
        st = now;
        mega_error_get(&first);
    }
    mega_names_fini(&names);
    return st != MEGA_OK ? mega_error_restore(&first) : MEGA_OK;
}
