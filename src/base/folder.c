/* Folders: create with parents, list in order, sync, remove with their content. */
#include "file_impl.h"
#include "megalith/file.h"
#include "megalith/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Creates one level. An existing folder is fine, even if another process created it just now. */
static mega_status create_level(const char *path)
{
    if (mkdir(path, 0777) == 0) {
        mega_file_report("mkdir", path, NULL, NULL, 0);
        return MEGA_OK;
    }
    const int error = errno;
    if (error == EEXIST && mega_folder_exists(path)) return MEGA_OK;
    if (error == EEXIST) {
        return MEGA_FAIL(MEGA_ERR_IO, "%s: cannot create the folder: a file of this name is there; choose another name",
                         path);
    }
    errno = error;
    return mega_file_refused(path, "create the folder");
}

mega_status mega_folder_create(const char *path)
{
    if (mega_folder_exists(path)) return MEGA_OK;
    char *copy = mega_strdup(path);
    if (copy == NULL) return MEGA_NO_MEMORY(path, "a path");
    mega_status st = MEGA_OK;
    for (char *at = copy; st == MEGA_OK && *at != '\0';) {
        at += strspn(at, "/");
        at += strcspn(at, "/");
        const char kept = *at;
        *at = '\0';
        if (!mega_folder_exists(copy)) st = create_level(copy);
        *at = kept;
        if (at[strspn(at, "/")] == '\0') break;
    }
    mega_free(copy);
    return st;
}

mega_status mega_folder_create_for(const char *path)
{
    char *folder = mega_path_folder(path);
    if (folder == NULL) return MEGA_NO_MEMORY(path, "its folder's name");
    const mega_status st = mega_folder_create(folder);
    mega_free(folder);
    return st;
}

mega_status mega_folder_try(const char *path)
{
    char *stem = mega_path_join(path, "megalith"), *name = stem != NULL ? mega_temporary_path(stem) : NULL;
    mega_temporaries_remove(path, "megalith", "megalith", false); /* test files left by dead processes */
    const int fd = name != NULL ? open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666) : -1;
    mega_status st = MEGA_OK;
    if (name == NULL) st = MEGA_NO_MEMORY(path, "a path");
    else if (fd < 0)
        st = mega_folder_refused(path);
    if (fd >= 0) {
        close(fd);
        (void)unlink(name);
    }
    MEGA_FREE(stem, name);
    return st;
}

mega_status mega_folder_sync(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return mega_file_refused(path, "open the folder");
    const int rc = fsync(fd);
    const int error = errno;
    close(fd);
    if (rc != 0 && error != EINVAL && error != ENOTSUP) { /* some file systems cannot sync folders */
        errno = error;
        return mega_file_refused(path, "sync the folder");
    }
    mega_file_report("syncdir", path, NULL, NULL, 0);
    return MEGA_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static mega_status add_name(mega_names *names, int64_t *capacity, const char *name, const char *path)
{
    char *copy = mega_strdup(name);
    if (copy == NULL || !mega_array_reserve(&names->name, capacity, (int64_t)names->count + 1, sizeof *names->name)) {
        mega_free(copy);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory to list the folder", path);
    }
    names->name[names->count++] = copy;
    return MEGA_OK;
}

mega_status mega_folder_list(const char *path, mega_names *out)
{
    DIR *folder = opendir(path);
    if (folder == NULL) return mega_file_refused(path, "list the folder");
    mega_names names = {0};
    int64_t capacity = 0;
    mega_status st = MEGA_OK;
    while (st == MEGA_OK) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (entry == NULL) {
            if (errno != 0) st = mega_file_refused(path, "list the folder");
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        st = add_name(&names, &capacity, entry->d_name, path);
    }
    closedir(folder);
    if (st != MEGA_OK) {
        mega_names_fini(&names);
        return st;
    }
    if (names.count > 1) qsort(names.name, names.count, sizeof *names.name, by_bytes);
    *out = names;
    return MEGA_OK;
}

void mega_names_fini(mega_names *names)
{
    for (size_t i = 0; i < names->count; i++) mega_free(names->name[i]);
    mega_free(names->name);
    *names = (mega_names){0};
}

mega_status mega_path_complete(char **out, const char *prefix, const char *ending)
{
    const char *base = mega_path_base(prefix);
    const size_t begin = strlen(base), end = strlen(ending);
    mega_names names = {0};
    *out = NULL;
    if (begin == 0) return MEGA_OK;
    char *folder = mega_path_folder(prefix);
    mega_status st = folder != NULL ? mega_folder_list(folder, &names) : MEGA_NO_MEMORY(prefix, "a path");
    mega_free(folder);
    for (size_t i = 0; i < names.count && st == MEGA_OK && *out == NULL; i++) {
        const char *name = names.name[i];
        const size_t n = strlen(name);
        const bool begins = strncmp(name, base, begin) == 0 && name[begin] == '_';
        if (!begins || n <= begin + end || strcmp(name + n - end, ending) != 0) continue;
        *out = mega_format("%.*s%.*s", (int)(base - prefix), prefix, (int)(n - end), name);
        if (*out == NULL) st = MEGA_NO_MEMORY(prefix, "a path");
    }
    mega_names_fini(&names);
    if (st == MEGA_OK || st == MEGA_ERR_MEMORY) return st;
    mega_error_clear(); /* the caller reports a missing folder */
    return MEGA_OK;
}

/* Removes a symbolic link itself, never its target. */
mega_status mega_tree_remove(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0) return errno == ENOENT ? MEGA_OK : mega_file_refused(path, "remove");
    if (!S_ISDIR(info.st_mode)) return mega_file_remove(path);
    mega_names names = {0};
    MEGA_TRY(mega_folder_list(path, &names));
    mega_status st = MEGA_OK;
    for (size_t i = 0; i < names.count && st == MEGA_OK; i++) {
        char *inner = mega_path_join(path, names.name[i]);
        st = inner != NULL ? mega_tree_remove(inner) : MEGA_NO_MEMORY(path, "a path");
        mega_free(inner);
    }
    mega_names_fini(&names);
    if (st != MEGA_OK) return st;
    if (rmdir(path) != 0) return errno == ENOENT ? MEGA_OK : mega_file_refused(path, "remove the folder");
    mega_file_report("rmdir", path, NULL, NULL, 0);
    return MEGA_OK;
}
