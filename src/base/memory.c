/* All heap allocation: counted, and able to fail on request. */
#include "megalith/memory.h"

#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)

static atomic_uint_fast64_t allocations;
static atomic_uint_fast64_t fail_at; /* the allocation that must fail, by its number; 0 = none */

/* Counts one allocation; returns false if it is the one that must fail. */
static bool may_allocate(void)
{
    const uint_fast64_t number = atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed) + 1;
    uint_fast64_t expected = number;
    if (atomic_load_explicit(&fail_at, memory_order_relaxed) != number) return true;
    return !atomic_compare_exchange_strong(&fail_at, &expected, 0);
}

uint64_t mega_alloc_count(void)
{
    return atomic_load(&allocations);
}

void mega_alloc_fail_at(uint64_t n)
{
    atomic_store(&fail_at, n == 0 ? 0 : atomic_load(&allocations) + n);
}

/* No object can exceed PTRDIFF_MAX bytes; such a request is a negative size in disguise. */
static bool is_sane(size_t bytes)
{
    return bytes <= PTRDIFF_MAX;
}

void *mega_malloc(size_t bytes)
{
    return may_allocate() && is_sane(bytes) ? malloc(bytes != 0 ? bytes : 1) : NULL;
}

void *mega_calloc(size_t count, size_t bytes)
{
    size_t product;
    const bool fits = mega_size_mul(count, bytes, &product) && is_sane(product);
    return may_allocate() && fits ? calloc(1, product != 0 ? product : 1) : NULL;
}

void *mega_realloc(void *block, size_t bytes)
{
    return may_allocate() && is_sane(bytes) ? realloc(block, bytes != 0 ? bytes : 1) : NULL;
}

bool mega_array_grow(void *array, int64_t *capacity, int64_t count, size_t item_bytes)
{
    const int64_t doubled = *capacity <= INT64_MAX / 2 ? 2 * *capacity : INT64_MAX;
    int64_t room = count > doubled ? count : doubled;
    size_t bytes;
    void *block;
    if (room < 16) room = 16;
    if (!mega_size_mul((size_t)room, item_bytes, &bytes)) return false;
    memcpy(&block, array, sizeof block); /* memcpy works for any pointer type */
    block = mega_realloc(block, bytes);
    if (block == NULL) return false;
    memcpy(array, &block, sizeof block);
    *capacity = room;
    return true;
}

bool mega_array_add(void *array, int64_t count, size_t item_bytes)
{
    int64_t capacity = count;
    const bool is_full = count == 0 || (count >= 16 && (count & (count - 1)) == 0);
    return !is_full || mega_array_grow(array, &capacity, count + 1, item_bytes);
}

void mega_free(void *block)
{
    free(block);
}

void mega_free_all(void *const *block, size_t count)
{
    for (size_t i = 0; i < count; i++) mega_free(block[i]);
}

void mega_memory_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

char *mega_strdup(const char *text)
{
    return mega_strndup(text, strlen(text));
}

char *mega_strndup(const char *text, size_t bytes)
{
    const size_t n = strnlen(text, bytes);
    char *copy = mega_malloc(n + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

char *mega_format(const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = n < 0 ? NULL : mega_malloc((size_t)n + 1);
    if (text != NULL) vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    return text;
}

bool mega_size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Rounds a request up to whole pages, at least one; 0 on overflow. */
static size_t pages_bytes(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX - HUGE_PAGE - page) return 0;
    return bytes == 0 ? page : (bytes + page - 1) / page * page;
}

mega_status mega_pages_alloc(void **out, size_t bytes, const char *what)
{
    const size_t size = pages_bytes(bytes);
    const bool large = size >= HUGE_PAGE;
    const size_t mapped = large ? size + HUGE_PAGE : size; /* extra space, so that the block can start on a huge page */
    void *raw = MAP_FAILED;
    errno = ENOMEM;
    if (size != 0 && may_allocate()) {
        raw = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (raw == MAP_FAILED) {
        const char *reason = strerror(errno), *limit;
        const size_t available = mega_memory_available(&limit);
        return MEGA_FAIL(MEGA_ERR_MEMORY,
                         "%s: %zu bytes (%.2f GiB) refused: %s; %.2f GiB can still be had (limit: %s); use a smaller "
                         "model, micro-batch or sequence, or raise the limit",
                         what, bytes, (double)bytes / 1073741824.0, reason, (double)available / 1073741824.0, limit);
    }
    char *block = raw;
    if (large) {
        const size_t skip = (HUGE_PAGE - (uintptr_t)raw % HUGE_PAGE) % HUGE_PAGE;
        block += skip;
        if (skip != 0) munmap(raw, skip);
        munmap(block + size, HUGE_PAGE - skip);
        madvise(block, size, MADV_HUGEPAGE); /* a hint; small pages work as well */
    }
    *out = block;
    return MEGA_OK;
}

void mega_pages_free(void *block, size_t bytes)
{
    if (block != NULL) munmap(block, pages_bytes(bytes));
}

size_t mega_region_round(size_t bytes)
{
    return (bytes + MEGA_REGION_ALIGN - 1) / MEGA_REGION_ALIGN * MEGA_REGION_ALIGN;
}

mega_status mega_region_take(mega_region *region, void **out, size_t bytes, const char *what)
{
    if (region == NULL) return mega_pages_alloc(out, bytes, what);
    const size_t piece = mega_region_round(bytes);
    if (piece > region->bytes - region->used)
        return MEGA_MISTAKE(
            "%s: %zu bytes do not fit in a region of %zu, of which %zu are taken; make the region as large "
            "as its pieces, each rounded by mega_region_round",
            what, piece, region->bytes, region->used);
    *out = region->base + region->used;
    region->used += piece;
    return MEGA_OK;
}
