/* Heap, builder arenas and buffers. All heap traffic goes through these functions, so that tests can count it and fail
 * the n-th call. */
#ifndef MEGALITH_MEMORY_H
#define MEGALITH_MEMORY_H

#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns NULL when memory is short (or a test asked for a failure), but never for size 0. Aligned to 16 bytes. */
void *mega_malloc(size_t bytes);
void *mega_calloc(size_t count, size_t bytes);
void *mega_realloc(void *block, size_t bytes);
void mega_free(void *block);
/* MEGA_FREE(a, b, …): frees each of them. */
#define MEGA_FREE(...) mega_free_all((void *[]){__VA_ARGS__}, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *))
void mega_free_all(void *const *block, size_t count);
/* Gives memory that was freed back to the system where the C library can do that. */
void mega_memory_trim(void);
char *mega_strdup(const char *text);
char *mega_strndup(const char *text, size_t bytes);
/* New string from a format; NULL when memory is short. */
char *mega_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Calls of mega_malloc, mega_calloc, mega_realloc, mega_pages_alloc so far in this process. */
uint64_t mega_alloc_count(void);
/* Tests: the n-th allocation from now fails (1 = next one), once; 0 switches this off. */
void mega_alloc_fail_at(uint64_t n);

/* Makes room for `count` items of `item_bytes` each in an array that grows; when it grows, its capacity at least
 * doubles. `array` is the address of the pointer to the items, which is NULL at first and freed with mega_free;
 * *capacity is 0 at first. Returns false and changes nothing when memory is short. (mega_array_grow is its slow half.)
 */
bool mega_array_grow(void *array, int64_t *capacity, int64_t count, size_t item_bytes);
static inline bool mega_array_reserve(void *array, int64_t *capacity, int64_t count, size_t item_bytes)
{
    return count <= *capacity || mega_array_grow(array, capacity, count, item_bytes);
}

/* Makes room for one more item in an array of `count` items that only this function grows, so that its capacity follows
 * from `count`: the next power of two, at least 16. `array` as above. Returns false and changes nothing when memory is
 * short. */
bool mega_array_add(void *array, int64_t count, size_t item_bytes);

/* Returns false if a * b overflows. */
bool mega_size_mul(size_t a, size_t b, size_t *out);

/* Allocates a large zero-filled block from the system: page aligned, huge pages advised, no page touched yet. Also for
 * 0 bytes. The owner frees it with mega_pages_free and the same size. Counts as one allocation. Returns
 * MEGA_ERR_MEMORY. */
MEGA_CHECK_RESULT mega_status mega_pages_alloc(void **out, size_t bytes, const char *what);
void mega_pages_free(void *block, size_t bytes);

/* A large block that is handed out in consecutive pieces; each piece begins on a page. */
#define MEGA_REGION_ALIGN ((size_t)4096)
typedef struct mega_region {
    char *base;
    size_t bytes, used;
} mega_region;
size_t mega_region_round(size_t bytes); /* the bytes that a piece occupies in its region */
/* Returns the next piece in *out; with region NULL, a separate block from mega_pages_alloc. Returns MEGA_ERR_USAGE if
 * the piece does not fit. */
MEGA_CHECK_RESULT mega_status mega_region_take(mega_region *region, void **out, size_t bytes, const char *what);

/* A builder arena: many small blocks that are freed together. */
typedef struct mega_arena {
    struct mega_arena_block *last;
} mega_arena; /* zero-initialised is valid and empty */
/* Zero-filled, aligned to 16; NULL when memory is short. */
void *mega_arena_alloc(mega_arena *arena, size_t bytes);
char *mega_arena_strdup(mega_arena *arena, const char *text);
char *mega_arena_format(mega_arena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
size_t mega_arena_bytes(const mega_arena *arena); /* total size of its blocks */
void mega_arena_fini(mega_arena *arena);

/* A growing byte buffer. Zero-initialised is valid and empty. A failed append leaves `failed` set and the content as it
 * was; callers may append many times and check once. data is always NUL-terminated once non-empty. */
typedef struct mega_buffer {
    char *data;
    size_t size, capacity;
    bool failed;
} mega_buffer;
bool mega_buffer_reserve(mega_buffer *b, size_t more);
bool mega_buffer_append(mega_buffer *b, const void *bytes, size_t n);
bool mega_buffer_puts(mega_buffer *b, const char *text);
bool mega_buffer_printf(mega_buffer *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Append JSON: a string with its quotes (UTF-8 is kept, control characters are escaped); or the shortest number that
 * reads back as the same double or float. Numbers contain a '.' or an exponent, so that readers take them for floats;
 * null stands for values that are not finite. */
bool mega_buffer_json_string(mega_buffer *b, const char *text);
bool mega_buffer_json_double(mega_buffer *b, double x);
bool mega_buffer_json_float(mega_buffer *b, float x);
/* Returns MEGA_ERR_MEMORY with a message naming `what` if an earlier append failed. */
MEGA_CHECK_RESULT mega_status mega_buffer_check(const mega_buffer *b, const char *what);
void mega_buffer_fini(mega_buffer *b);

/* The resident memory of this process, and the bytes that it can still get: the least of cgroup limit, rlimit and
 * available memory. limit_name receives the name of that limit. */
size_t mega_memory_resident(void);
size_t mega_memory_mapped(void); /* the part of it that is pages of files: code, libraries, mapped data */
/* The most that was resident, as far as it is this process's own: without pages of mapped data files, which the system
 * drops when it needs memory, and with a part of each page that processes share, divided by their number. Both are
 * those of now, so that it is asked before they are unmapped. */
size_t mega_memory_peak(void);
size_t mega_memory_available(const char **limit_name);
/* The limits one by one, in bytes; UINT64_MAX where there is none. */
typedef struct mega_memory_limits {
    uint64_t machine, available; /* of the whole machine: installed, and available now */
    uint64_t cgroup_left, rlimit_left;
    uint64_t address_space_left, data_left; /* RLIMIT_AS, RLIMIT_DATA: rlimit_left is the smaller */
} mega_memory_limits;
void mega_memory_get_limits(mega_memory_limits *out);
/* Returns the limit that a run meets first, and its name. */
uint64_t mega_memory_least(const mega_memory_limits *limits, const char **limit_name);

#ifdef __cplusplus
}
#endif

#endif
