/* Measures the basic services: memory, checksum, one round of the team. Run by `make bench only=base`. */
#include "megalith/hash.h"
#include "megalith/memory.h"
#include "megalith/threads.h"

#include <stdio.h>
#include <string.h>

#define BYTES  ((size_t)256 << 20)
#define ROUNDS 20000
#define TRIES  5

typedef struct copy_job {
    char *to;
    const char *from;
} copy_job;

static void copy_share(void *user, int thread, int size)
{
    const copy_job *job = user;
    int64_t begin, end;
    mega_team_share((int64_t)BYTES, 4096, thread, size, &begin, &end);
    memcpy(job->to + begin, job->from + begin, (size_t)(end - begin));
}

static void nothing(void *user, int thread, int size)
{
    (void)user;
    (void)thread;
    (void)size;
}

/* Returns the smaller time: every disturbance only makes a measurement longer. */
static double least(double best, double seconds)
{
    return best == 0 || seconds < best ? seconds : best;
}

int main(void)
{
    const int threads = mega_default_threads();
    mega_team *team = NULL;
    void *from = NULL, *to = NULL;
    if (mega_team_create(threads, &team) != MEGA_OK || mega_pages_alloc(&from, BYTES, "source") != MEGA_OK ||
        mega_pages_alloc(&to, BYTES, "destination") != MEGA_OK) {
        fprintf(stderr, "%s\n", mega_error_message());
        return 1;
    }
    memset(from, 1, BYTES);
    double copy = 0, crc = 0, round = 0;
    uint32_t sum = 0;
    for (int i = 0; i < TRIES; i++) {
        copy_job job = {to, from};
        double begin = mega_time_now();
        mega_team_run(team, copy_share, &job);
        copy = least(copy, mega_time_now() - begin);
        begin = mega_time_now();
        sum ^= mega_crc32c(0, to, BYTES);
        crc = least(crc, mega_time_now() - begin);
        begin = mega_time_now();
        for (int k = 0; k < ROUNDS; k++) mega_team_run(team, nothing, NULL);
        round = least(round, mega_time_now() - begin);
    }
    printf("copy, read and write   %8.2f GB/s  (%d threads)\n", 2e-9 * (double)BYTES / copy, threads);
    printf("crc32c                 %8.2f GB/s  (1 thread, sum %08x)\n", 1e-9 * (double)BYTES / crc, sum);
    printf("one round of the team  %8.2f us    (%d threads)\n", 1e6 * round / ROUNDS, threads);
    mega_pages_free(to, BYTES);
    mega_pages_free(from, BYTES);
    mega_team_destroy(team);
    return 0;
}
