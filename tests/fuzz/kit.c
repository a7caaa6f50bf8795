/* A limit on the heap, and temporary files for readers that need a path. */
#include "fuzz.h"

#include <sanitizer/allocator_interface.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MAX_PATHS = 16 };

static atomic_llong live, limit;
static atomic_int watching;
static char folder[64];

static void grown(const volatile void *block, size_t bytes)
{
    (void)block;
    const long long now = atomic_fetch_add(&live, (long long)bytes) + (long long)bytes;
    if (atomic_load(&watching) != 0 && now > atomic_load(&limit)) {
        atomic_store(&watching, 0);
        fuzz_require(0, "heap beyond 2 * input + 64 MiB");
    }
}

static void shrunk(const volatile void *block)
{
    atomic_fetch_sub(&live, (long long)__sanitizer_get_allocated_size((const void *)(uintptr_t)block));
}

void fuzz_watch(size_t size)
{
    static int installed;
    if (!installed) installed = __sanitizer_install_malloc_and_free_hooks(grown, shrunk) != 0;
    fuzz_require(installed, "the sanitizer takes hooks");
    atomic_store(&limit, atomic_load(&live) + 2 * (long long)size + (64LL << 20));
    atomic_store(&watching, 1);
}

static void remove_folder(void)
{
    MEGA_IGNORE(mega_tree_remove(folder));
}

const char *fuzz_path(const char *name)
{
    static char path[MAX_PATHS][128];
    static int next;
    if (folder[0] == '\0') {
        snprintf(folder, sizeof folder, "%s/fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        fuzz_require(mkdtemp(folder) != NULL, "a folder can be made");
        atexit(remove_folder);
    }
    char *out = path[next++ % MAX_PATHS];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

void fuzz_write(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    fuzz_require(f != NULL, "a file can be written");
    fuzz_require(n == 0 || fwrite(bytes, 1, n, f) == n, "a file takes its bytes");
    fclose(f);
}

void fuzz_require(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "does not hold: %s; last error: %s\n", what, mega_error_message());
    abort();
}

void fuzz_answer(mega_status st)
{
    fuzz_require(st == MEGA_OK || mega_error_message()[0] != '\0', "an error has a message");
    mega_error_clear();
}
