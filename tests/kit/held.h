/* Measures the memory that a process uses; for tests and benchmarks. */
#ifndef MEGALITH_TESTS_HELD_H
#define MEGALITH_TESTS_HELD_H

#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

/* Returns false under a sanitizer or valgrind, which allocate memory of their own for each byte of the program's. */
static inline bool held_is_exact(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return false;
#else
    const char *preloaded = getenv("LD_PRELOAD");
    return preloaded == NULL || strstr(preloaded, "vgpreload") == NULL;
#endif
}

/* Returns the bytes of the heap that are in use, including the allocator's overhead per block. */
static inline double held_heap_bytes(void)
{
    const struct mallinfo2 m = mallinfo2();
    return (double)m.uordblks + (double)m.hblkhd;
}

/* Returns the bytes of anonymous and shared pages of this process. */
static inline double held_bytes(void)
{
    char line[256];
    unsigned long long kb, sum = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "RssAnon: %llu", &kb) == 1 || sscanf(line, "RssShmem: %llu", &kb) == 1) sum += kb;
    if (f != NULL) fclose(f);
    return (double)sum * 1024;
}

#endif
