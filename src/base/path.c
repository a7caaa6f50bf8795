/* Paths as strings. */
#include "megalith/file.h"
#include "megalith/memory.h"

#include <string.h>

char *mega_path_join(const char *folder, const char *name)
{
    const size_t n = strlen(folder);
    const bool bare = n == 0 || folder[n - 1] == '/';
    return mega_format("%s%s%s", folder, bare ? "" : "/", name);
}

bool mega_path_ends_with(const char *path, const char *ending)
{
    const size_t n = strlen(path), m = strlen(ending);
    return n >= m && strcmp(path + n - m, ending) == 0;
}

const char *mega_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

char *mega_path_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) return mega_strdup(".");
    while (slash > path && slash[-1] == '/') slash--;
    return slash == path ? mega_strdup("/") : mega_strndup(path, (size_t)(slash - path));
}
