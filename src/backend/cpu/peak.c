/* Measures the peak arithmetic rate of a team. */
#include "megalith/peak.h"
#include "cpu/gemm/gemm_pairs.h"
#include "cpu/share.h"
#include "megalith/kernels.h"

#include <time.h>

/* The best of TRIES runs of some TRY_SECONDS each: another process may take a core in one of them. */
enum { TRIES = 3, PILOT_ROUNDS = 20000 };
#define TRY_SECONDS 0.005

typedef struct spin {
    double (*loop)(int64_t rounds, float *sink);
    int64_t rounds;
    double operations; /* of one thread */
} spin;

static void cpu_peak_work(void *user, int thread, int size)
{
    spin *s = user;
    float sink[16] = {0};
    const double operations = s->loop(s->rounds, sink);
    (void)size;
    if (thread == 0) s->operations = operations;
}

static double cpu_seconds(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0 ? (double)t.tv_sec + (double)t.tv_nsec * 1e-9 : 0;
}

/* Returns the operations per second of the whole team in this loop: the best of several tries. */
static mega_peak peak_rate_of(mega_team *team, double (*loop)(int64_t rounds, float *sink))
{
    spin s = {.loop = loop, .rounds = PILOT_ROUNDS};
    mega_peak best = {0, 0};
    mega_team_run(team, cpu_peak_work, &s); /* wakes the threads and raises their clocks */
    for (int i = 0; i < TRIES + 1; i++) {
        const double begin = mega_time_now(), cpu = cpu_seconds();
        mega_team_run(team, cpu_peak_work, &s);
        const double seconds = mega_time_now() - begin, threads = mega_team_size(team);
        const mega_peak tried = {s.operations * threads / seconds, (cpu_seconds() - cpu) / (seconds * threads)};
        if (i == 0) s.rounds = (int64_t)((double)s.rounds * TRY_SECONDS / seconds) + 1;
        else if (tried.flops > best.flops)
            best = tried;
    }
    return best;
}

/* On some processors bf16 dot products are slower than fp32 multiply-adds, so every kind of instruction is measured. */
mega_peak mega_cpu_peak_measure(mega_team *team, mega_dtype dtype)
{
    mega_peak best = peak_rate_of(team, mega_cpu_bodies_get()->spin_fma);
    if (dtype == MEGA_F64) best.flops /= 2;
    if (dtype != MEGA_BF16) return best;
    for (mega_isa isa = mega_cpu_isa(); mega_cpu_pairs_of(isa) != NULL; isa--) {
        const mega_peak peak = peak_rate_of(team, mega_cpu_pairs_of(isa)->spin);
        if (peak.flops > best.flops) best = peak;
    }
    return best;
}

double mega_cpu_peak_flops(mega_team *team, mega_dtype dtype)
{
    return mega_cpu_peak_measure(team, dtype).flops;
}
