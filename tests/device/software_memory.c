/* Memory of the software device: pages that nobody can touch except while work runs. */
#include "software.h"
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct sigaction old_action;

/* A list of all, by which a sanitizer knows them as wanted. */
typedef struct handle_block {
    struct handle_block *before;
    max_align_t handle[];
} handle_block;

void *software_handle(size_t bytes)
{
    static _Atomic(handle_block *) last;
    handle_block *const b = calloc(1, sizeof *b + bytes);
    if (b == NULL) return NULL;
    b->before = atomic_exchange(&last, b);
    return b->handle;
}

static size_t whole_pages(size_t bytes)
{
    return (bytes + SOFTWARE_PAGE - 1) / SOFTWARE_PAGE * SOFTWARE_PAGE;
}

/* Prints which byte was touched and ends the process. A fault elsewhere goes to the handler that was there before. */
static void touched(int number, siginfo_t *info, void *user)
{
    const char *p = info->si_addr;
    (void)user;
    if (p < software.base || p >= software.base + software.span) {
        sigaction(number, &old_action, NULL);
        return;
    }
    const device_place *place = device_place_now();
    char text[300], where[100] = "memory that is not allocated";
    for (int i = 0; i < software.num_memory; i++) {
        const software_memory *m = &software.memory[i];
        if (p >= m->at && p < m->at + m->bytes)
            snprintf(where, sizeof where, "byte %zu of allocation %d (%zu bytes)", (size_t)(p - m->at), i, m->bytes);
    }
    const int n = snprintf(text, sizeof text, "software device: %s touches device memory: %s\n",
                           place != NULL      ? place->kernel
                           : software.is_open ? "work"
                                              : "the host",
                           where);
    if (write(2, text, (size_t)n) < 0) _exit(86);
    _exit(86);
}

void software_guard(void)
{
    const struct sigaction action = {.sa_sigaction = touched, .sa_flags = SA_SIGINFO | SA_NODEFER};
    struct sigaction before;
    sigaction(SIGSEGV, &action, &before);
    if (before.sa_sigaction != touched) old_action = before;
}

void software_memory_begin(void)
{
    software.span =
        whole_pages(software.limit) * 2 + MOST_MEMORY * SOFTWARE_PAGE; /* freed ranges are not used at once */
    software.base = mmap(NULL, software.span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (software.base == MAP_FAILED) abort();
    software_guard();
}

static void protect(const software_memory *m, int protection)
{
    if (mprotect(m->at, whole_pages(m->bytes), protection) != 0) abort();
}

void software_open(void)
{
    if (software.is_open) return;
    for (int i = 0; i < software.num_memory; i++) protect(&software.memory[i], PROT_READ | PROT_WRITE);
    software.is_open = true;
}

void software_close(void)
{
    for (int i = 0; i < software.num_memory; i++) protect(&software.memory[i], PROT_NONE);
    software.is_open = false;
}

void software_memory_reset(void)
{
    for (int i = 0; i < software.num_memory; i++) {
        protect(&software.memory[i], PROT_NONE);
        madvise(software.memory[i].at, whole_pages(software.memory[i].bytes), MADV_DONTNEED);
        watch_memory_remove(software.memory[i].at);
    }
    software.num_memory = 0;
    software.used = 0;
    for (int i = 0; i < software.num_pinned; i++) free(software.pinned[i].at);
    software.num_pinned = 0;
}

static bool memory_has(const software_memory *m, const char *p, size_t bytes)
{
    return p >= m->at && bytes <= m->bytes && (size_t)(p - m->at) <= m->bytes - bytes;
}

bool software_is_device(const void *at, size_t bytes)
{
    const char *p = at;
    for (int i = 0; i < software.num_memory; i++)
        if (memory_has(&software.memory[i], p, bytes)) return true;
    return false;
}

bool software_is_pinned(const void *at, size_t bytes)
{
    const char *p = at;
    for (int i = 0; i < software.num_pinned; i++)
        if (memory_has(&software.pinned[i], p, bytes)) return true;
    return false;
}

/* Returns the index before which an allocation of these pages goes, and its address: after the last one, or in the
 * first gap that is large enough. A page that nobody can touch follows each. */
static int find_gap(size_t pages, char **at)
{
    const char *end = software.base + software.span;
    const software_memory *m = software.memory;
    const int n = software.num_memory;
    char *after = n > 0 ? m[n - 1].at + whole_pages(m[n - 1].bytes) + SOFTWARE_PAGE : software.base;
    if ((size_t)(end - after) >= pages + SOFTWARE_PAGE) {
        *at = after;
        return n;
    }
    char *from = software.base;
    for (int i = 0; i < n; i++) {
        if ((size_t)(m[i].at - from) >= pages + SOFTWARE_PAGE) {
            *at = from;
            return i;
        }
        from = m[i].at + whole_pages(m[i].bytes) + SOFTWARE_PAGE;
    }
    return -1;
}

static size_t software_memory_left(void)
{
    const size_t held = software.used + software.taken;
    return held < software.limit ? software.limit - held : 0;
}

static cu_result memory_alloc(cu_address *out, size_t bytes)
{
    char *at;
    if (bytes == 0) return CU_INVALID_VALUE;
    if (software.num_memory == MOST_MEMORY || bytes > software_memory_left()) return CU_OUT_OF_MEMORY;
    const int place = find_gap(whole_pages(bytes), &at);
    if (place < 0) return CU_OUT_OF_MEMORY;
    memmove(&software.memory[place + 1], &software.memory[place],
            (size_t)(software.num_memory - place) * sizeof *software.memory);
    software.num_memory++;
    const software_memory m = software.memory[place] = (software_memory){at, bytes};
    protect(&m, PROT_READ | PROT_WRITE);
    memset(at, 0xFF, bytes); /* NaN */
    protect(&m, PROT_NONE);
    watch_memory_add(at, bytes, false);
    software.used += bytes;
    if (software.used > software.counts.most_allocated) software.counts.most_allocated = software.used;
    *out = (cu_address)(uintptr_t)at;
    return CU_OK;
}

static cu_result memory_free(cu_address address)
{
    char *at = (char *)(uintptr_t)address;
    if (address == 0) return CU_OK;
    for (int i = 0; i < software.num_memory; i++) {
        if (software.memory[i].at != at) continue;
        const cu_result r = software_finish_all(); /* as the real one does */
        const software_memory m = software.memory[i];
        protect(&m, PROT_NONE);
        madvise(m.at, whole_pages(m.bytes), MADV_DONTNEED);
        watch_memory_remove(at);
        software.used -= m.bytes;
        software.num_memory--;
        memmove(&software.memory[i], &software.memory[i + 1],
                (size_t)(software.num_memory - i) * sizeof *software.memory);
        return r;
    }
    return CU_INVALID_VALUE;
}

cu_result cuMemAlloc_v2(cu_address *out, size_t bytes)
{
    const cu_result r = software_enter_context("cuMemAlloc_v2", CU_OUT_OF_MEMORY);
    return software_leave(r == CU_OK ? memory_alloc(out, bytes) : r);
}

cu_result cuMemFree_v2(cu_address at)
{
    const cu_result r = software_enter_context("cuMemFree_v2", CU_INVALID_VALUE);
    return software_leave(r == CU_OK ? memory_free(at) : r);
}

cu_result cuMemGetInfo_v2(size_t *free_bytes, size_t *all_bytes)
{
    const cu_result r = software_enter_context("cuMemGetInfo_v2", CU_INVALID_CONTEXT);
    *free_bytes = software_memory_left();
    *all_bytes = software.limit;
    return software_leave(r);
}

cu_result cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    cu_result r = software_enter_context("cuMemHostAlloc", CU_OUT_OF_MEMORY);
    (void)flags;
    if (r == CU_OK && (bytes == 0 || software.num_pinned == MOST_MEMORY)) r = CU_INVALID_VALUE;
    if (r == CU_OK && bytes > PTRDIFF_MAX - SOFTWARE_PAGE) r = CU_OUT_OF_MEMORY;
    if (r == CU_OK && (*out = aligned_alloc(SOFTWARE_PAGE, whole_pages(bytes))) == NULL) r = CU_OUT_OF_MEMORY;
    if (r == CU_OK) software.pinned[software.num_pinned++] = (software_memory){*out, bytes};
    return software_leave(r);
}

static cu_result pinned_free(void *at)
{
    for (int i = 0; i < software.num_pinned; i++) {
        if (software.pinned[i].at != at) continue;
        const cu_result r = software_finish_all();
        free(at);
        software.pinned[i] = software.pinned[--software.num_pinned];
        return r;
    }
    return CU_INVALID_VALUE;
}

cu_result cuMemFreeHost(void *at)
{
    const cu_result r = software_enter_context("cuMemFreeHost", CU_INVALID_VALUE);
    return software_leave(r == CU_OK ? pinned_free(at) : r);
}
