/* Measures the machine: the arithmetic peak of each type in registers, a memory copy, several read loops. Part of `make
 * bench only=machine`; bench/run.py uses the larger of these peaks and the best GEMM of the run. `bench_machine serve`
 * answers input lines `peak f32|bf16` and `read`, so that these figures can be measured alongside others. */
#include "megalith/kernels.h"
#include "megalith/memory.h"
#include "megalith/peak.h"
#include "megalith/threads.h"

#include <stdio.h>
#include <string.h>

#define BYTES ((size_t)256 << 20)
enum { TRIES = 5, MOST_THREADS = 256 };

typedef long long lanes __attribute__((vector_size(32)));

typedef struct machine {
    mega_team *team;
    char *memory;
    long long sums[MOST_THREADS * 8]; /* one cache line per thread */
} machine;

static void copy_share(void *user, int thread, int size)
{
    machine *m = user;
    int64_t begin, end;
    mega_team_share((int64_t)(BYTES / 2), 4096, thread, size, &begin, &end);
    memcpy(m->memory + BYTES / 2 + begin, m->memory + begin, (size_t)(end - begin));
}

/* Sums a thread's share as `streams` streams at once: the fastest number depends on the processor. */
static void read_share(machine *m, int thread, int size, int streams)
{
    int64_t begin, end;
    lanes sum[8] = {{0}};
    mega_team_share((int64_t)BYTES, 65536, thread, size, &begin, &end);
    const int64_t part = (end - begin) / streams / 64 * 64;
    for (int64_t i = 0; i < part; i += 64)
        for (int s = 0; s < streams; s++) {
            const lanes *x = (const lanes *)(const void *)(m->memory + begin + s * part + i);
            sum[2 * (s & 3)] += x[0];
            sum[2 * (s & 3) + 1] += x[1];
        }
    for (int k = 1; k < 8; k++) sum[0] += sum[k];
    if (thread < MOST_THREADS) m->sums[thread * 8] = sum[0][0] + sum[0][1] + sum[0][2] + sum[0][3];
}

static void read_1(void *user, int thread, int size)
{
    read_share(user, thread, size, 1);
}

static void read_4(void *user, int thread, int size)
{
    read_share(user, thread, size, 4);
}

static void read_8(void *user, int thread, int size)
{
    read_share(user, thread, size, 8);
}

/* Returns the best bytes per second of several tries: every disturbance only makes a measurement slower. */
static double rate(machine *m, mega_team_work *work)
{
    double best = 0;
    for (int i = 0; i < TRIES; i++) {
        const double start = mega_time_now();
        mega_team_run(m->team, work, m);
        const double now = (double)BYTES / (mega_time_now() - start);
        best = now > best ? now : best;
    }
    return best;
}

static double read_rate(machine *m)
{
    mega_team_work *const works[] = {read_1, read_4, read_8};
    double best = 0;
    for (int i = 0; i < 3; i++) {
        const double now = rate(m, works[i]);
        best = now > best ? now : best;
    }
    return best;
}

static double best_peak(machine *m, mega_dtype dtype)
{
    double best = 0;
    for (int i = 0; i < TRIES; i++) {
        const double now = mega_cpu_peak_flops(m->team, dtype);
        best = now > best ? now : best;
    }
    return best;
}

static void serve(machine *m)
{
    char line[64];
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL && strcmp(line, "quit\n") != 0) {
        if (strcmp(line, "read\n") == 0) printf("read %.9g\n", read_rate(m));
        else
            printf("peak %.9g\n", best_peak(m, strcmp(line, "peak bf16\n") == 0 ? MEGA_BF16 : MEGA_F32));
        fflush(stdout);
    }
}

static void report(machine *m)
{
    const int threads = mega_team_size(m->team);
    const bool dot = mega_cpu_isa() >= MEGA_ISA_AVX512_BF16;
    printf("RESULT machine_peak_fp32 %.4g GFLOP/s %d threads, %s, multiply-adds in registers\n",
           best_peak(m, MEGA_F32) * 1e-9, threads, mega_isa_name(mega_cpu_isa()));
    printf(
        "RESULT machine_peak_bf16 %.4g GFLOP/s %s\n", best_peak(m, MEGA_BF16) * 1e-9,
        dot ? "the fastest of multiply-adds of fp32, dot products, and tiles where there are some"
            : "this processor has no bf16 dot product: bf16 is widened and computed in fp32, so this is fp32's peak");
    printf("RESULT machine_copy %.4g GB/s read and written, %d threads\n", rate(m, copy_share) * 1e-9, threads);
    printf("RESULT machine_read %.4g GB/s best of three read loops, %d threads\n", read_rate(m) * 1e-9, threads);
}

int main(int argc, char **argv)
{
    static machine m;
    void *memory;
    if (mega_team_create(mega_default_threads(), &m.team) != MEGA_OK ||
        mega_pages_alloc(&memory, BYTES, "memory to read") != MEGA_OK) {
        fprintf(stderr, "%s\n", mega_error_message());
        return 1;
    }
    m.memory = memory;
    memset(m.memory, 1, BYTES);
    if (argc > 1 && strcmp(argv[1], "serve") == 0) serve(&m);
    else
        report(&m);
    mega_pages_free(memory, BYTES);
    mega_team_destroy(m.team);
    return 0;
}
