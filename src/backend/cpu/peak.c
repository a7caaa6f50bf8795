/* The arithmetic peak of a team, measured. */
#include "megalith/peak.h"
#include "cpu/share.h"
#include "megalith/kernels.h"

enum { TRIES = 3, PILOT_ROUNDS = 20000 };
#define TRY_SECONDS 0.015

typedef struct spin {
    const cpu_bodies *bodies;
    int64_t rounds;
    double operations; /* of one thread */
} spin;

static void work(void *user, int thread, int size)
{
    spin *s = user;
    float sink[2] = {0.0f, 0.0f};
    const double operations = s->bodies->spin_fma(s->rounds, sink);
    (void)size;
    if (thread == 0) s->operations = operations;
}

double mega_cpu_peak_flops(mega_team *team, mega_dtype dtype)
{
    spin s = {.bodies = mega_cpu_bodies_get(), .rounds = PILOT_ROUNDS};
    double best = 0.0;
    mega_team_run(team, work, &s); /* wakes the threads and their clocks */
    for (int i = 0; i < TRIES + 1; i++) {
        const double begin = mega_time_now();
        mega_team_run(team, work, &s);
        const double seconds = mega_time_now() - begin, rate = s.operations * mega_team_size(team) / seconds;
        if (i == 0) s.rounds = (int64_t)((double)s.rounds * TRY_SECONDS / seconds) + 1;
        else if (rate > best)
            best = rate;
    }
    if (dtype == MEGA_F64) return best / 2;
    return dtype == MEGA_BF16 && mega_cpu_isa() == MEGA_ISA_AVX512_BF16 ? best * 2 : best;
}
