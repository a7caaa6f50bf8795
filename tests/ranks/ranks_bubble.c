/* Measures how long pipeline stages wait: idle time / ideal time, from the recorded trace of the first stage. That
 * stage begins first and ends last, so all time in which it does not work is part of the bubble. Stages are slowed to a
 * fixed duration, so that the number of cores does not matter: the linker redirects the engine's calls of
 * mega_program_forward and mega_program_backward to the wrappers below (--wrap in cmake/tests.cmake). A disturbed step
 * has longer waits, so the best of several steps counts. But if the first stage itself was delayed, the others caught
 * up meanwhile and its waits are too short: such a step does not count.
 *
 *   ranks_bubble MICRO_BATCHES CHUNKS */
#include "engine_run.h"
#include "megalith/memory.h"
#include "megalith/profile.h"
#include "megalith/threads.h"
#include "rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STEPS = 15 };
static const double forward_s = 0.1, backward_s = 0.2, tolerance = 0.02;

/* Duration in seconds to which the wrappers stretch a pass of one chunk. */
static mega_world *slowed_world;
static double slow_forward_s, slow_backward_s;

/* Sleeps until `seconds` have passed since `began`, and keeps polling communication, as a program does between its
 * instructions. */
static mega_status last_at_least(double began, double seconds)
{
    const double nap = 1e-3;
    for (double left; (left = began + seconds - mega_time_now()) > 0;) {
        nanosleep(&(struct timespec){.tv_nsec = (long)((left < nap ? left : nap) * 1e9)}, NULL);
        MEGA_TRY(mega_comm_poll(slowed_world));
    }
    return MEGA_OK;
}

/* The linker option --wrap gives these names to the original functions and to their replacements. */
mega_status __real_mega_program_forward(mega_program *p, int slot);
mega_status __real_mega_program_backward(mega_program *p, int slot);
mega_status __wrap_mega_program_forward(mega_program *p, int slot);
mega_status __wrap_mega_program_backward(mega_program *p, int slot);

mega_status __wrap_mega_program_forward(mega_program *p, int slot)
{
    const double began = mega_time_now();
    MEGA_TRY(__real_mega_program_forward(p, slot));
    return last_at_least(began, slow_forward_s);
}

mega_status __wrap_mega_program_backward(mega_program *p, int slot)
{
    const double began = mega_time_now();
    MEGA_TRY(__real_mega_program_backward(p, slot));
    return last_at_least(began, slow_backward_s);
}

/* Returns the total seconds of the events "pipeline wait" in a trace. */
static double waits(const char *trace)
{
    double sum = 0;
    for (const char *at = trace; (at = strstr(at, "\"name\":\"pipeline wait\"")) != NULL; at++) {
        const char *duration = strstr(at, "\"dur\":");
        if (duration != NULL) sum += atof(duration + strlen("\"dur\":")) * 1e-6;
    }
    return sum;
}

/* Runs a step and returns its idle time / ideal time; INFINITY: the step does not count. */
static double step(mega_engine *e)
{
    mega_profile *profile;
    mega_buffer trace = {0};
    mega_step_result r;
    mega_batch *b = mega_engine_batch(e);
    for (int64_t i = 0; i < mega_batch_num_samples(b); i++) engine_run_fill(b, i, i);
    need(mega_profile_create(100000, &profile));
    mega_engine_profile(e, profile);
    need(mega_comm_barrier(mega_engine_layout(e)->world.comm, "begin"));
    need(mega_engine_train_batch(e, &r));
    mega_engine_profile(e, NULL);
    mega_profile_trace_events(profile, &(mega_profile_rank){0, 1, mega_profile_begin(profile)}, &trace);
    need(mega_buffer_check(&trace, "trace"));
    const double ideal = (double)r.micro_batches * (forward_s + backward_s);
    double idle = waits(trace.data);
    if (fabs(idle - r.waiting_s) > 1e-3) idle = INFINITY;                      /* trace and result must agree */
    if (r.forward_s + r.backward_s > (1 + tolerance) * ideal) idle = INFINITY; /* the stage was delayed */
    mega_buffer_fini(&trace);
    mega_profile_destroy(profile);
    return idle / ideal;
}

int main(int argc, char **argv)
{
    mega_world *world;
    mega_engine *engine;
    need(mega_world_create(NULL, &world));
    const int micro_batches = argc > 1 ? atoi(argv[1]) : 8, chunks = argc > 2 ? atoi(argv[2]) : 1;
    const int stages = mega_world_size(world);
    mega_transformer gpt = engine_run_gpt();
    gpt.num_layers = (int64_t)stages * chunks;
    gpt.stage_chunks = chunks;
    mega_engine_options o = engine_run_options(micro_batches, 1, 1e-3);
    o.compute = MEGA_F32;
    o.no_evaluate = true;
    o.world = world;
    o.layout.pp = stages;
    slowed_world = world;
    slow_forward_s = forward_s / chunks;
    slow_backward_s = backward_s / chunks;
    need(gpt_engine_create(&engine, &gpt, &o));
    need(mega_engine_allocate(engine));
    need(mega_engine_initialize(engine, 1234));
    const double theory = (stages - 1) / (double)(chunks * micro_batches);
    double best = INFINITY;
    int32_t near = 0;
    for (int i = 0; i < STEPS && !near; i++) {
        best = fmin(best, step(engine));
        near = mega_world_rank(world) == 0 && fabs(best - theory) <= tolerance;
        need(mega_comm_broadcast(mega_world_comm(world), "enough", &near, sizeof near, 0));
    }
    if (mega_world_rank(world) == 0)
        printf("%d stages of %d, %d micro-batches: idle / ideal %.4f, in theory %.4f\n", stages, chunks, micro_batches,
               best, theory);
    mega_engine_destroy(engine);
    mega_world_destroy(world);
    return near ? 0 : 1;
}
