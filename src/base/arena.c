/* Builder arenas: blocks chained from the newest to the oldest, each larger than the one before. */
#include "megalith/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FIRST_BYTES   ((size_t)4096)
#define LARGEST_BYTES ((size_t)1 << 20)
#define ALIGNMENT     ((size_t)16)

typedef struct mega_arena_block {
    struct mega_arena_block *previous;
    size_t used, capacity; /* bytes after this header */
    size_t next_bytes;     /* capacity of the block that follows */
} arena_block;

_Static_assert(sizeof(arena_block) % ALIGNMENT == 0, "what follows the header is aligned");

static void *arena_take(arena_block *block, size_t bytes)
{
    if (block == NULL || block->capacity - block->used < bytes) return NULL;
    char *at = (char *)(block + 1) + block->used;
    block->used += bytes;
    return at;
}

void *mega_arena_alloc(mega_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return NULL;
    const size_t rounded = bytes == 0 ? ALIGNMENT : (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *at = arena_take(arena->last, rounded);
    if (at != NULL) return at;

    const size_t usual = arena->last != NULL ? arena->last->next_bytes : FIRST_BYTES;
    const size_t capacity = rounded > usual ? rounded : usual;
    arena_block *block = mega_calloc(1, sizeof *block + capacity);
    if (block == NULL) return NULL;
    block->capacity = capacity;
    block->next_bytes = usual < LARGEST_BYTES ? usual * 2 : usual;
    block->previous = arena->last;
    arena->last = block;
    return arena_take(block, rounded);
}

char *mega_arena_strdup(mega_arena *arena, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *copy = mega_arena_alloc(arena, n);
    if (copy != NULL) memcpy(copy, text, n);
    return copy;
}

char *mega_arena_format(mega_arena *arena, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = n < 0 ? NULL : mega_arena_alloc(arena, (size_t)n + 1);
    if (text != NULL) vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    return text;
}

size_t mega_arena_bytes(const mega_arena *arena)
{
    size_t bytes = 0;
    for (const arena_block *block = arena->last; block != NULL; block = block->previous)
        bytes += sizeof *block + block->capacity;
    return bytes;
}

void mega_arena_fini(mega_arena *arena)
{
    while (arena->last != NULL) {
        arena_block *previous = arena->last->previous;
        mega_free(arena->last);
        arena->last = previous;
    }
}
