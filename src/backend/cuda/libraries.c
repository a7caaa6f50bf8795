/* Where NVIDIA's libraries are that the program can do without: cuBLASLt, NCCL. */
#include "gpu.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

/* After the loader's own folders: the toolkit, and where pip leaves NVIDIA's wheels. A place begins with a variable of
 * the environment, without which it is none; "$" alone stands for nothing. */
static const char *const places[] = {"$CUDA_HOME/lib64",
                                     "$/usr/local/cuda/lib64",
                                     "$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/*/lib",
                                     "$CONDA_PREFIX/lib/python3*/site-packages/nvidia/*/lib",
                                     "$HOME/.local/lib/python3*/site-packages/nvidia/*/lib",
                                     "$/usr/local/lib/python3*/dist-packages/nvidia/*/lib",
                                     "$/usr/local/lib/python3*/site-packages/nvidia/*/lib",
                                     "$/usr/lib/python3*/site-packages/nvidia/*/lib"};

static void *library_open_at(const char *path, char found[MEGA_CUDA_PATH])
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) snprintf(found, MEGA_CUDA_PATH, "%s", path);
    return library;
}

/* Opens the library in a place. */
static void *library_open_in(const char *place, const char *name, char found[MEGA_CUDA_PATH])
{
    char variable[64], pattern[2 * MEGA_CUDA_PATH];
    const size_t n = strcspn(place + 1, "/");
    void *library = NULL;
    glob_t files;
    snprintf(variable, sizeof variable, "%.*s", (int)n, place + 1);
    const char *folder = n > 0 ? getenv(variable) : "";
    if (folder == NULL || (n > 0 && folder[0] == '\0')) return NULL;
    const int length = snprintf(pattern, sizeof pattern, "%s%s/%s", folder, place + 1 + n, name);
    if (length >= (int)sizeof pattern || glob(pattern, 0, NULL, &files) != 0) return NULL;
    for (size_t i = 0; i < files.gl_pathc && library == NULL; i++) library = library_open_at(files.gl_pathv[i], found);
    globfree(&files);
    return library;
}

void *mega_cuda_library_find(const char *const *names, int count, char found[MEGA_CUDA_PATH])
{
    void *library = NULL;
    for (int i = 0; i < count && library == NULL; i++) library = library_open_at(names[i], found);
    for (size_t p = 0; p < sizeof places / sizeof *places && library == NULL; p++)
        for (int i = 0; i < count && library == NULL; i++) library = library_open_in(places[p], names[i], found);
    return library;
}
