/* Growing byte buffers. */
#include "megalith/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool mega_buffer_reserve(mega_buffer *b, size_t more)
{
    if (b->failed) return false;
    if (more < b->capacity - b->size) return true; /* one byte is reserved for the NUL */
    size_t need, capacity = b->capacity < 64 ? 64 : b->capacity;
    if (__builtin_add_overflow(b->size, more, &need) || __builtin_add_overflow(need, 1, &need)) {
        b->failed = true;
        return false;
    }
    while (capacity < need) capacity = capacity > SIZE_MAX / 2 ? need : capacity * 2;
    char *data = mega_realloc(b->data, capacity);
    if (data == NULL) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->capacity = capacity;
    b->data[b->size] = '\0';
    return true;
}

bool mega_buffer_append(mega_buffer *b, const void *bytes, size_t n)
{
    if (!mega_buffer_reserve(b, n)) return false;
    if (n != 0) memcpy(b->data + b->size, bytes, n);
    b->size += n;
    b->data[b->size] = '\0';
    return true;
}

bool mega_buffer_puts(mega_buffer *b, const char *text)
{
    return mega_buffer_append(b, text, strlen(text));
}

bool mega_buffer_printf(mega_buffer *b, const char *fmt, ...)
{
    if (b->failed) return false;
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    bool ok = false;
    if (n < 0) {
        b->failed = true;
    } else if (mega_buffer_reserve(b, (size_t)n)) {
        vsnprintf(b->data + b->size, (size_t)n + 1, fmt, again);
        b->size += (size_t)n;
        ok = true;
    }
    va_end(again);
    return ok;
}

mega_status mega_buffer_check(const mega_buffer *b, const char *what)
{
    if (!b->failed) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory to grow a buffer of %zu bytes", what, b->size);
}

void mega_buffer_fini(mega_buffer *b)
{
    mega_free(b->data);
    *b = (mega_buffer){0};
}
