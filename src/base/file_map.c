/* Mapped files, and the handler for files that are truncated while they are mapped.
 *
 * Reading a mapped page that its file no longer has raises SIGBUS, which kills a process without a message. A program
 * that calls mega_map_guard installs a handler: it maps a page of zeros in place of the missing one, so that the
 * reading thread continues, and records the path; mega_map_check then fails. The handler uses nothing but the list of
 * maps in this file. It takes no lock: maps are added and removed by one store each, and a removed map is freed only
 * when no handler is walking the list.
 *
 * A file that is truncated within its last page raises nothing: the rest of the page reads as zeros. mega_map_check
 * therefore also compares the lengths of all mapped files. Replacing a file by rename is safe: the mapped one stays
 * whole. */
#include "file_impl.h"
#include "megalith/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct map_record {
    const uint8_t *data;
    size_t size; /* when it was opened */
    dev_t device;
    ino_t inode;
    _Atomic(struct map_record *) next;
    char path[];
} map_record;

static struct {
    pthread_mutex_t mutex; /* taken to change the list */
    _Atomic(map_record *) first;
    atomic_int walking; /* handlers that are walking the list */
    size_t page_bytes;
    atomic_int lost; /* 0: nothing lost; 1: the fields below are being written; 2: they are complete */
    char lost_path[4096];
    size_t lost_size, lost_at;
} maps = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- the list ---- */

static mega_status record_add(const mega_map *map, const struct stat *info, const char *path)
{
    const size_t length = strlen(path) + 1;
    map_record *r = mega_malloc(sizeof *r + length);
    if (r == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory to map it", path);
    r->data = map->data;
    r->size = map->size;
    r->device = info->st_dev;
    r->inode = info->st_ino;
    memcpy(r->path, path, length);
    pthread_mutex_lock(&maps.mutex);
    atomic_store(&r->next, atomic_load(&maps.first));
    atomic_store(&maps.first, r);
    pthread_mutex_unlock(&maps.mutex);
    return MEGA_OK;
}

static void record_remove(const uint8_t *data)
{
    pthread_mutex_lock(&maps.mutex);
    _Atomic(map_record *) *at = &maps.first;
    map_record *r;
    while ((r = atomic_load(at)) != NULL && r->data != data) at = &r->next;
    if (r != NULL) atomic_store(at, atomic_load(&r->next));
    while (atomic_load(&maps.walking) > 0) continue; /* a handler takes microseconds */
    pthread_mutex_unlock(&maps.mutex);
    mega_free(r);
}

/* ---- the handler ---- */

static void note_loss(const map_record *r, const uint8_t *at)
{
    int nothing = 0;
    if (!atomic_compare_exchange_strong(&maps.lost, &nothing, 1)) return; /* only the first loss is reported */
    const size_t length = strlen(r->path), most = sizeof maps.lost_path - 1;
    memcpy(maps.lost_path, r->path, length < most ? length : most);
    maps.lost_size = r->size;
    maps.lost_at = (size_t)(at - r->data);
    atomic_store(&maps.lost, 2);
}

/* Replaces one page only: after a disk error the next page may be readable. */
static bool replace_page(const uint8_t *at)
{
    const uintptr_t page = (uintptr_t)at / maps.page_bytes * maps.page_bytes;
    return mmap((void *)page, maps.page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    const int saved = errno;
    const uint8_t *at = info->si_addr;
    bool is_mended = false;
    atomic_fetch_add(&maps.walking, 1);
    for (map_record *r = atomic_load(&maps.first); r != NULL && info->si_code > 0; r = atomic_load(&r->next)) {
        if (at < r->data || at >= r->data + r->size) continue;
        note_loss(r, at);
        is_mended = replace_page(at);
        break;
    }
    atomic_fetch_sub(&maps.walking, 1);
    errno = saved;
    if (is_mended) return;
    signal(number, SIG_DFL); /* not one of our maps: let it kill the process as it would have */
    raise(number);
}

void mega_map_guard(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    maps.page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    sigaction(SIGBUS, &action, NULL);
}

/* Finds the first file that is shorter than its mapping. */
static void find_cut(void)
{
    struct stat now;
    pthread_mutex_lock(&maps.mutex);
    for (const map_record *r = atomic_load(&maps.first); r != NULL; r = atomic_load(&r->next)) {
        if (stat(r->path, &now) != 0 || now.st_dev != r->device || now.st_ino != r->inode) continue;
        if ((size_t)now.st_size < r->size) note_loss(r, r->data + now.st_size);
    }
    pthread_mutex_unlock(&maps.mutex);
}

mega_status mega_map_check(void)
{
    find_cut();
    if (atomic_load_explicit(&maps.lost, memory_order_acquire) != 2) return MEGA_OK;
    int64_t now = 0;
    if (mega_file_size(maps.lost_path, &now) != MEGA_OK) now = -1;
    if (now >= 0 && (size_t)now >= maps.lost_size)
        return MEGA_FAIL(
            MEGA_ERR_IO,
            "%s: the page at byte %zu cannot be read: the disk or the network failed, or the file was truncated "
            "for a while; what was read since then may be zeros. Check the disk, then start again",
            maps.lost_path, maps.lost_at);
    return MEGA_FAIL(
        MEGA_ERR_IO,
        "%s: the file was truncated while it was being read: it had %zu bytes when it was opened and has %lld "
        "now. Restore the whole file, then start again; replace a file in use by renaming, never "
        "by writing over it",
        maps.lost_path, maps.lost_size, (long long)(now < 0 ? 0 : now));
}

/* ---- mapping ---- */

mega_status mega_map_open(const char *path, mega_map *out)
{
    int fd = -1;
    struct stat info = {0};
    MEGA_TRY(mega_file_open_to_read(&fd, &info, path));
    mega_map map = {.size = (size_t)info.st_size};
    mega_status st = MEGA_OK;
    if (S_ISFIFO(info.st_mode))
        st = MEGA_FAIL(MEGA_ERR_IO, "%s: this is a pipe, but its content is needed more than once; give a file", path);
    if (map.size > 0) {
        void *data = mmap(NULL, map.size, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) st = mega_file_refused(path, "map into memory");
        else
            map.data = data;
    }
    close(fd);
    if (st == MEGA_OK && map.data != NULL) st = record_add(&map, &info, path);
    if (st == MEGA_OK) *out = map;
    else if (map.data != NULL)
        munmap((void *)(uintptr_t)map.data, map.size);
    return st;
}

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* since Linux 5.14 */
#endif

void mega_map_fetch(const mega_map *map, size_t begin, size_t bytes)
{
    if (begin >= map->size) return;
    const size_t left = map->size - begin, before = (uintptr_t)(map->data + begin) % 4096;
    const size_t n = (bytes < left ? bytes : left) + before;
    void *at = (void *)(uintptr_t)(map->data + begin - before);
    if (madvise(at, n, MADV_POPULATE_READ) == 0) return;
    (void)madvise(at, n, MADV_WILLNEED); /* older systems: at least start reading ahead */
}

bool mega_map_is_cached(const mega_map *map, size_t begin, size_t bytes)
{
    enum { PAGES = 512 };
    unsigned char resident[PAGES];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), most = PAGES * page;
    const size_t stop = begin + bytes < map->size ? begin + bytes : map->size;
    if (begin >= stop) return true;
    const uint8_t *const end = map->data + stop;
    for (const uint8_t *at = map->data + begin - (uintptr_t)(map->data + begin) % page; at < end; at += most) {
        const size_t left = (size_t)(end - at), n = left < most ? left : most;
        if (mincore((void *)(uintptr_t)at, n, resident) != 0) return false;
        for (size_t i = 0; i < (n + page - 1) / page; i++)
            if ((resident[i] & 1) == 0) return false;
    }
    return true;
}

void mega_map_close(mega_map *map)
{
    if (map->data != NULL) {
        record_remove(map->data);
        munmap((void *)(uintptr_t)map->data, map->size);
    }
    *map = (mega_map){0};
}
