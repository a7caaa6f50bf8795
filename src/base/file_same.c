/* Whether two paths lead to the same file or folder: an output written under one name would otherwise overwrite an
 * input read under the other. */
#include "megalith/file.h"
#include "megalith/memory.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINKS = 40 }; /* as many as Linux follows */

static bool is_one(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

char *mega_path_follow(const char *path)
{
    char *at = mega_strdup(path), target[PATH_MAX];
    for (int i = 0; at != NULL && i < MOST_LINKS; i++) {
        const ssize_t n = readlink(at, target, sizeof target - 1);
        if (n < 0) return at;
        target[n] = '\0';
        char *folder = mega_path_folder(at);
        char *next = target[0] == '/' ? mega_strdup(target) : folder == NULL ? NULL : mega_path_join(folder, target);
        MEGA_FREE(folder, at);
        at = next;
    }
    errno = at != NULL ? ELOOP : ENOMEM;
    mega_free(at);
    return NULL;
}

static bool is_one_folder(const char *a, const char *b)
{
    char *x = mega_path_folder(a), *y = mega_path_folder(b);
    struct stat of_x, of_y;
    const bool same =
        x != NULL && y != NULL && stat(x, &of_x) == 0 && stat(y, &of_y) == 0 ? is_one(&of_x, &of_y) : false;
    MEGA_FREE(x, y);
    return same;
}

bool mega_file_same(const char *a, const char *b)
{
    struct stat of_a, of_b;
    const bool has_a = stat(a, &of_a) == 0, has_b = stat(b, &of_b) == 0;
    if (has_a || has_b) return has_a && has_b && S_ISREG(of_a.st_mode) && is_one(&of_a, &of_b);
    char *x = mega_path_follow(a), *y = mega_path_follow(b);
    const bool same = x != NULL && y != NULL &&
                      (strcmp(x, y) == 0 || (strcmp(mega_path_base(x), mega_path_base(y)) == 0 && is_one_folder(x, y)));
    MEGA_FREE(x, y);
    return same;
}

/* Appends the components of `rest` to an absolute path and resolves "." and "..". Returns false if the result is too
 * long. */
static bool append_names(char out[PATH_MAX], const char *rest)
{
    size_t used = strlen(out);
    while (*(rest += strspn(rest, "/")) != '\0') {
        const size_t n = strcspn(rest, "/");
        if (n == 2 && rest[0] == '.' && rest[1] == '.') {
            while (used > 0 && out[--used] != '/') continue;
        } else if (n != 1 || rest[0] != '.') {
            if (used + n + 2 > PATH_MAX) return false;
            if (used == 0 || out[used - 1] != '/') out[used++] = '/';
            memcpy(out + used, rest, n);
            used += n;
        }
        out[used] = '\0';
        rest += n;
    }
    return true;
}

/* The absolute path without links of a file or folder that need not exist: resolves links as far as folders exist. */
static bool path_resolve(const char *path, char out[PATH_MAX])
{
    char *at = mega_path_follow(path);
    bool found = false;
    size_t end = at != NULL ? strlen(at) : 0;
    while (at != NULL && !found) {
        const char kept = at[end];
        at[end] = '\0';
        found = realpath(end > 0 ? at : at[0] == '\0' && kept == '/' ? "/" : ".", out) != NULL;
        at[end] = kept;
        if (found || end == 0) break;
        while (end > 0 && at[end - 1] == '/') end--;
        while (end > 0 && at[end - 1] != '/') end--;
    }
    found = found && append_names(out, at + end);
    mega_free(at);
    return found;
}

bool mega_folder_same(const char *a, const char *b)
{
    struct stat of_a, of_b;
    char x[PATH_MAX], y[PATH_MAX];
    const bool has_a = stat(a, &of_a) == 0, has_b = stat(b, &of_b) == 0;
    if (has_a || has_b) return has_a && has_b && is_one(&of_a, &of_b);
    return path_resolve(a, x) && path_resolve(b, y) && strcmp(x, y) == 0;
}
