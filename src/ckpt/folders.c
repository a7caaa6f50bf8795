/* The folders in SAVE: checkpoints, and what dead runs left. */
#include "ckpt_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEMPORARY ".tmp-"
#define SET_ASIDE ".exchange-" /* the name that mega_file_exchange uses when it needs two renames */

char *mega_iteration_path(const char *save, int64_t iteration)
{
    return mega_format("%s/iter_%07" PRId64, save, iteration);
}

bool mega_iteration_parse(const char *name, int64_t *iteration)
{
    if (strncmp(name, "iter_", 5) != 0) return false;
    const size_t digits = strspn(name + 5, "0123456789");
    if (digits < 7 || digits > 18 || name[5 + digits] != '\0') return false;
    *iteration = strtoll(name + 5, NULL, 10);
    return true;
}

mega_status mega_iteration_is_foreign(bool *out, const char *path)
{
    mega_names names = {0};
    char *mark = mega_path_join(path, MEGA_CHECKSUMS_FILE);
    if (mark == NULL) return MEGA_NO_MEMORY(path, "a path");
    *out = mega_file_exists(path) || (mega_folder_exists(path) && !mega_file_exists(mark));
    mega_free(mark);
    if (!*out || !mega_folder_exists(path)) return MEGA_OK;
    MEGA_TRY(mega_folder_list(path, &names));
    *out = names.count > 0;
    mega_names_fini(&names);
    return MEGA_OK;
}

mega_status mega_checkpoint_refuse(const char *save, const char *name)
{
    return MEGA_MISTAKE("--save %s: %s was not written by megalith (it has no " MEGA_CHECKSUMS_FILE
                        ") and would be replaced by a checkpoint of that name; move it away or choose another --save",
                        save, name);
}

/* A tracker that names another program's folder belongs to that program, and the first save would replace it. */
static mega_status check_tracker(const char *save)
{
    mega_checkpoint_name name;
    bool is_foreign = false;
    if (mega_tracker_read(save, &name) != MEGA_OK) {
        mega_error_clear(); /* no tracker, or one that names nothing */
        return MEGA_OK;
    }
    char *path = mega_path_join(save, name.text);
    mega_status st = path != NULL ? mega_iteration_is_foreign(&is_foreign, path) : MEGA_NO_MEMORY(save, "a path");
    if (is_foreign)
        st = MEGA_MISTAKE("--save %s: its " MEGA_TRACKER
                          " names %s, which was not written by megalith (it has no " MEGA_CHECKSUMS_FILE
                          "), and would be replaced by the first save; move both away or choose "
                          "another --save",
                          save, mega_path_base(path));
    mega_free(path);
    return st;
}

mega_status mega_checkpoint_check_foreign(const char *save, int64_t after, int64_t until)
{
    mega_names names = {0};
    MEGA_TRY(check_tracker(save));
    MEGA_TRY(mega_folder_list(save, &names));
    mega_status st = MEGA_OK;
    for (size_t i = 0; i < names.count && st == MEGA_OK; i++) {
        int64_t iteration = 0;
        bool is_foreign = false;
        if (!mega_iteration_parse(names.name[i], &iteration) || iteration <= after || iteration > until) continue;
        char *path = mega_path_join(save, names.name[i]);
        st = path != NULL ? mega_iteration_is_foreign(&is_foreign, path) : MEGA_NO_MEMORY(save, "a path");
        if (is_foreign) st = mega_checkpoint_refuse(save, names.name[i]);
        mega_free(path);
    }
    mega_names_fini(&names);
    return st;
}

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

mega_status mega_iterations_list(const char *save, mega_iterations *out)
{
    mega_names names = {0};
    MEGA_TRY(mega_folder_list(save, &names));
    mega_iterations list = {mega_malloc((names.count + 1) * sizeof *list.iteration), 0};
    mega_status st = MEGA_OK;
    for (size_t i = 0; i < names.count && st == MEGA_OK; i++) {
        int64_t iteration = 0;
        if (!mega_iteration_parse(names.name[i], &iteration)) continue;
        char *path = mega_format("%s/%s/" MEGA_CHECKSUMS_FILE, save, names.name[i]);
        if (path == NULL || list.iteration == NULL) st = MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory to list it", save);
        else if (mega_file_exists(path))
            list.iteration[list.count++] = iteration;
        mega_free(path);
    }
    mega_names_fini(&names);
    if (st == MEGA_OK && list.iteration == NULL) st = MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory to list it", save);
    if (st != MEGA_OK) {
        mega_iterations_fini(&list);
        return st;
    }
    if (list.count > 1) qsort(list.iteration, list.count, sizeof *list.iteration, by_number);
    *out = list;
    return MEGA_OK;
}

void mega_iterations_fini(mega_iterations *list)
{
    mega_free(list->iteration);
    *list = (mega_iterations){0};
}

/* A new entry survives a crash once its folder is synced, so every folder from the first that existed before is synced
 * after its new entry was created. */
mega_status mega_folder_create_durably(const char *path)
{
    char *above = mega_strdup(path);
    if (above == NULL) return MEGA_NO_MEMORY(path, "a path");
    size_t n = strlen(above);
    while (n > 1 && above[n - 1] == '/') above[--n] = '\0';
    if (mega_folder_exists(above)) {
        mega_free(above);
        return MEGA_OK;
    }
    char *parent = mega_path_folder(above);
    mega_status st = parent != NULL ? MEGA_OK : MEGA_NO_MEMORY(path, "a path");
    if (st == MEGA_OK && strcmp(parent, above) != 0) st = mega_folder_create_durably(parent);
    if (st == MEGA_OK) st = mega_folder_create(above);
    if (st == MEGA_OK) st = mega_folder_sync(parent);
    MEGA_FREE(parent, above);
    return st;
}

mega_status mega_checkpoint_prepare(const char *save)
{
    if (mega_file_exists(save))
        return MEGA_MISTAKE("--save %s: this is a file, expected a folder or an unused name", save);
    const mega_status st = mega_folder_create_durably(save);
    if (st != MEGA_OK) {
        mega_error_prepend("--save %s: cannot write a checkpoint there", save);
        return st;
    }
    if (access(save, W_OK | X_OK) == 0) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_IO,
                     "--save %s: %s; expected a writable folder; choose another one or change its permissions", save,
                     strerror(errno));
}

/* Parses the name of a left-over: the checkpoint it belongs to (*length bytes; 0: the tracker), and its owner. */
static bool parse_leftover(const char *name, size_t *length, const char **owner)
{
    for (const char *at = strchr(name, '.'); at != NULL; at = strchr(at + 1, '.')) {
        const size_t t = sizeof TEMPORARY - 1, a = sizeof SET_ASIDE - 1;
        const bool temporary = strncmp(at, TEMPORARY, t) == 0, aside = strncmp(at, SET_ASIDE, a) == 0;
        *owner = at + (temporary ? t : a);
        if ((!temporary && !aside) || !mega_owner_is_known(*owner)) continue;
        *length = (size_t)(at - name);
        if (*length == sizeof MEGA_TRACKER - 1 && strncmp(name, MEGA_TRACKER, *length) == 0) *length = 0;
        return true;
    }
    return false;
}

bool mega_leftover_is(const char *name)
{
    size_t length;
    const char *owner;
    return parse_leftover(name, &length, &owner);
}

/* What holds a file that no save wrote stays, under a name that no later save looks at. */
static mega_status discard_leftover(const char *path, const char *final)
{
    char kept[PATH_MAX], *foreign = NULL;
    if (mega_folder_exists(path)) MEGA_TRY(mega_leftover_foreign(path, &foreign));
    const mega_status st = foreign == NULL ? mega_tree_remove(path) : mega_checkpoint_keep(final, path, "kept", kept);
    if (st == MEGA_OK && foreign == NULL) mega_info("removed %s, left by an interrupted run", path);
    else if (st == MEGA_OK)
        mega_warn("%s, left by an interrupted run, stays as %s: no save wrote what it holds: %s", path, kept, foreign);
    mega_free(foreign);
    return st;
}

/* Checkpoints are folders; a file may belong to any program that writes beside SAVE's own files. */
static void remove_leftover(const char *save, const char *name, const char *keep, bool is_locked)
{
    size_t length = 0;
    const char *owner = NULL;
    if (!parse_leftover(name, &length, &owner)) return;
    char *path = mega_path_join(save, name), *final = mega_format("%s/%.*s", save, (int)length, name);
    const bool is_kept = keep != NULL && strlen(keep) == length && strncmp(keep, name, length) == 0;
    const bool needed = final != NULL && length > 0 && is_kept && !mega_folder_exists(final);
    const bool is_ours = path != NULL && (length == 0 ? mega_file_exists(path) : mega_folder_exists(path));
    if (is_ours && final != NULL && !needed && (is_locked || mega_owner_is_dead(owner, path))) {
        if (discard_leftover(path, final) != MEGA_OK)
            mega_warn("%s", mega_error_message()); /* it only takes up space */
    }
    MEGA_FREE(path, final);
}

void mega_leftovers_remove(const char *save, const char *keep, bool is_locked)
{
    mega_names names = {0};
    if (mega_folder_list(save, &names) != MEGA_OK) return;
    for (size_t i = 0; i < names.count; i++) remove_leftover(save, names.name[i], keep, is_locked);
    mega_names_fini(&names);
}

char *mega_leftover_find(const char *save, const char *wanted)
{
    mega_names names = {0};
    char *found = NULL;
    int64_t iteration = -1;
    const bool has_iteration = mega_iteration_parse(wanted, &iteration);
    if (mega_folder_list(save, &names) != MEGA_OK) return NULL;
    for (size_t i = 0; i < names.count && found == NULL; i++) {
        size_t length = 0;
        const char *owner = NULL;
        if (!parse_leftover(names.name[i], &length, &owner)) continue;
        if (strlen(wanted) != length || strncmp(wanted, names.name[i], length) != 0) continue;
        char *path = mega_path_join(save, names.name[i]);
        mega_checksums sums = {0};
        if (path != NULL && mega_checksums_read(path, &sums) == MEGA_OK &&
            (!has_iteration || sums.iteration == iteration) &&
            mega_checksums_verify(&sums, path, MEGA_SUMS_ALL, NULL) == MEGA_OK) {
            found = path;
            path = NULL;
        }
        mega_checksums_fini(&sums);
        mega_free(path);
    }
    mega_names_fini(&names);
    return found;
}
