/* What a process holds; for tests and benches. */
#ifndef MEGALITH_TESTS_HELD_H
#define MEGALITH_TESTS_HELD_H

#include <stdio.h>

/* Bytes of anonymous and shared pages of this process. */
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
