/* The folders in SAVE: iterations, and what dead runs left behind. */
#include "ckpt_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEMPORARY ".tmp-"
#define SET_ASIDE ".exchange-" /* as mega_file_exchange names it where it needs two renames */

char *mega_iteration_path(const char *save, int64_t iteration)
{
    return mega_format("%s/iter_%07" PRId64, save, iteration);
}

char *mega_iteration_temporary(const char *save, int64_t iteration)
{
    char *final = mega_iteration_path(save, iteration), *path = final != NULL ? mega_temporary_path(final) : NULL;
    mega_free(final);
    return path;
}

/* "iter_0000100" and what follows the digits; false for other names. */
static bool parse_name(const char *name, int64_t *iteration, const char **rest)
{
    if (strncmp(name, "iter_", 5) != 0) return false;
    const size_t digits = strspn(name + 5, "0123456789");
    if (digits < 7 || digits > 18) return false;
    *iteration = strtoll(name + 5, NULL, 10);
    *rest = name + 5 + digits;
    return true;
}

bool mega_iteration_parse(const char *name, int64_t *iteration)
{
    const char *rest = NULL;
    return parse_name(name, iteration, &rest) && *rest == '\0';
}

mega_status mega_iteration_is_foreign(bool *out, const char *path)
{
    mega_names names = {0};
    char *mark = mega_path_join(path, MEGA_CHECKSUMS_FILE);
    if (mark == NULL) return MEGA_NO_MEMORY(path, "a path");
    *out = mega_file_exists(path) || (mega_folder_exists(path) && !mega_file_exists(mark));
    mega_free(mark);
    if (!*out || !mega_folder_exists(path)) return MEGA_OK;
    MEGA_TRY(mega_folder_list(&names, path));
    *out = names.count > 0;
    mega_names_fini(&names);
    return MEGA_OK;
}

mega_status mega_iteration_refuse(const char *save, int64_t iteration)
{
    return MEGA_FAIL(MEGA_ERR_USAGE,
                     "--save %s: iter_%07" PRId64 " was not written by megalith (it has no " MEGA_CHECKSUMS_FILE
                     ") and is not replaced by a checkpoint of that iteration; move it away or choose another --save",
                     save, iteration);
}

/* A tracker that names a folder of another program is that program's: the first save would replace it. */
static mega_status check_tracker(const char *save)
{
    int64_t iteration = 0;
    bool is_foreign = false;
    if (mega_tracker_read(&iteration, save) != MEGA_OK) {
        mega_error_clear(); /* none, or one that names nothing */
        return MEGA_OK;
    }
    char *path = iteration >= 0 ? mega_iteration_path(save, iteration) : mega_path_join(save, "release");
    mega_status st = path != NULL ? mega_iteration_is_foreign(&is_foreign, path) : MEGA_NO_MEMORY(save, "a path");
    if (is_foreign)
        st = MEGA_FAIL(MEGA_ERR_USAGE,
                       "--save %s: its " MEGA_TRACKER
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
    MEGA_TRY(mega_folder_list(&names, save));
    mega_status st = MEGA_OK;
    for (size_t i = 0; i < names.count && st == MEGA_OK; i++) {
        int64_t iteration = 0;
        bool is_foreign = false;
        if (!mega_iteration_parse(names.name[i], &iteration) || iteration <= after || iteration > until) continue;
        char *path = mega_path_join(save, names.name[i]);
        st = path != NULL ? mega_iteration_is_foreign(&is_foreign, path) : MEGA_NO_MEMORY(save, "a path");
        if (is_foreign) st = mega_iteration_refuse(save, iteration);
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

mega_status mega_iterations_list(mega_iterations *out, const char *save)
{
    mega_names names = {0};
    MEGA_TRY(mega_folder_list(&names, save));
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

/* An entry of a folder outlives a crash once the folder is synced; so every folder from the first that was there before
 * is synced after its new entry was made. */
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
    mega_free(parent);
    mega_free(above);
    return st;
}

mega_status mega_checkpoint_prepare(const char *save)
{
    if (mega_file_exists(save))
        return MEGA_FAIL(MEGA_ERR_USAGE, "--save %s: this is a file, expected a folder or a name that is free", save);
    const mega_status st = mega_folder_create_durably(save);
    if (st != MEGA_OK) {
        mega_error_prepend("--save %s: no checkpoint can be written there", save);
        return st;
    }
    if (access(save, W_OK | X_OK) == 0) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_IO,
                     "--save %s: %s; expected a folder that may be written to: choose another one or change its rights",
                     save, strerror(errno));
}

/* What a left-over's name says: of which iteration, and whose. Iteration -1 for the tracker's. */
static bool parse_leftover(const char *name, int64_t *iteration, const char **owner)
{
    const char *rest = NULL;
    *iteration = -1;
    if (strncmp(name, MEGA_TRACKER, sizeof MEGA_TRACKER - 1) == 0) rest = name + sizeof MEGA_TRACKER - 1;
    else if (!parse_name(name, iteration, &rest))
        return false;
    const size_t t = sizeof TEMPORARY - 1, a = sizeof SET_ASIDE - 1;
    const bool temporary = strncmp(rest, TEMPORARY, t) == 0, aside = strncmp(rest, SET_ASIDE, a) == 0;
    *owner = rest + (temporary ? t : a);
    return (temporary || aside) && mega_owner_is_known(*owner);
}

static void remove_leftover(const char *save, const char *name, int64_t keep, bool is_locked)
{
    int64_t iteration = 0;
    const char *owner = NULL;
    if (!parse_leftover(name, &iteration, &owner)) return;
    char *path = mega_path_join(save, name), *final = mega_iteration_path(save, iteration);
    const bool needed = final != NULL && iteration == keep && iteration >= 0 && !mega_folder_exists(final);
    if (path != NULL && final != NULL && !needed && (is_locked || mega_owner_is_dead(owner, path))) {
        if (mega_tree_remove(path) == MEGA_OK) mega_info("removed %s, which an interrupted run left behind", path);
        else
            mega_warn("%s", mega_error_message()); /* it only takes up space */
    }
    mega_free(path);
    mega_free(final);
}

void mega_leftovers_remove(const char *save, int64_t keep, bool is_locked)
{
    mega_names names = {0};
    if (mega_folder_list(&names, save) != MEGA_OK) return;
    for (size_t i = 0; i < names.count; i++) remove_leftover(save, names.name[i], keep, is_locked);
    mega_names_fini(&names);
}

char *mega_leftover_find(const char *save, int64_t wanted)
{
    mega_names names = {0};
    char *found = NULL;
    if (mega_folder_list(&names, save) != MEGA_OK) return NULL;
    for (size_t i = 0; i < names.count && found == NULL; i++) {
        int64_t iteration = 0;
        const char *owner = NULL;
        if (!parse_leftover(names.name[i], &iteration, &owner) || iteration != wanted) continue;
        char *path = mega_path_join(save, names.name[i]);
        mega_checksums sums = {0};
        if (path != NULL && mega_checksums_read(&sums, path) == MEGA_OK && sums.iteration == wanted &&
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

/* How much of a text can be quoted in a line. */
static int printable(const char *text, int most)
{
    int n = 0;
    while (n < most && (unsigned char)text[n] >= ' ' && text[n] != 0x7f) n++;
    while (n > 0 && text[n - 1] == ' ') n--;
    while (n > 0 && n == most && ((unsigned char)text[n] & 0xc0) == 0x80) n--; /* no character of UTF-8 is cut */
    return n;
}

mega_status mega_tracker_read(int64_t *out, const char *save)
{
    char *path = mega_path_join(save, MEGA_TRACKER), *text = NULL;
    if (path == NULL) return MEGA_NO_MEMORY(save, "a path");
    mega_status st = mega_file_read(&text, NULL, path);
    if (st == MEGA_OK) {
        const char *at = text + strspn(text, " \t\r\n");
        const size_t digits = strspn(at, "0123456789");
        const char *rest = at + digits + strspn(at + digits, " \t\r\n");
        if (digits > 0 && digits <= 18 && *rest == '\0') *out = strtoll(at, NULL, 10);
        else if (strncmp(at, "release", 7) == 0)
            *out = -1;
        else
            st = MEGA_FAIL(MEGA_ERR_FORMAT,
                           "%s: \"%.*s\" is no iteration; expected a number, as of the folders iter_… beside it", path,
                           printable(at, 40), at);
    }
    mega_free(text);
    mega_free(path);
    return st;
}
