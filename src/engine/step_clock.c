/* Measures the parts of a step, for its result and the monitors (step_clock.h). */
#include "engine_watch.h"
#include "megalith/device_memory.h"
#include "megalith/threads.h"
#include <math.h>

step_clock clock_start(mega_engine *e, mega_step_result *result)
{
    const double now = mega_time_now();
    return (step_clock){.e = e, .result = result, .began = now, .mark = now};
}

void clock_restart(step_clock *c, const char *memory)
{
    if (memory != NULL) engine_monitor_memory(c->e, memory);
    c->mark = mega_time_now();
}

void clock_begin_passes(step_clock *c, int64_t micro_batches, const char *memory)
{
    engine_monitor_begin(c->e, micro_batches);
    clock_restart(c, memory);
}

/* A device is given its work ahead, so that times of the host are those of queueing. */
static bool is_measured(const step_clock *c)
{
    return c->e->memory.device == NULL || c->e->watch.monitor != NULL;
}

/* Ends the part that runs, and returns its seconds; NAN: nobody knows them. A device that is monitored has then done
 * its work, as with the timers of DeepSpeed and Megatron. */
static double part(step_clock *c)
{
    const double began = c->mark;
    const mega_status waited = is_measured(c) ? mega_device_finish(c->e->memory.device) : MEGA_OK;
    (void)waited; /* its failure stays, and the end of the step returns it */
    c->mark = mega_time_now();
    return is_measured(c) ? c->mark - began : NAN;
}

void clock_add_wait(step_clock *c)
{
    const double began = c->mark;
    c->result->waiting_s += part(c);
    if (c->e->watch.profile != NULL && stage_has_neighbours(&c->e->programs.stage))
        mega_profile_idle(c->e->watch.profile, "pipeline wait", began, c->mark);
}

void clock_mark_pass_end(step_clock *c)
{
    c->ended = mega_time_now();
}

/* Sums of gradients within a backward (ZeRO 2 and 3, sums that overlap it) are not counted as backward. */
void clock_add_pass(step_clock *c, const mega_schedule_pass *pass, bool is_last_micro_batch)
{
    const double began = c->mark, whole = part(c);
    const double computed = c->ended > 0 && is_measured(c) ? c->ended - began : whole;
    const double within = mega_program_reduce_seconds(c->e->programs.chunk[pass->chunk].train);
    const mega_step_times t =
        pass->forward ? (mega_step_times){.forward_s = computed}
                      : (mega_step_times){.backward_s = computed - within, .reduce_s = within + (whole - computed)};
    c->ended = 0;
    c->result->forward_s += t.forward_s;
    c->result->backward_s += t.backward_s;
    c->result->reduce_s += t.reduce_s;
    engine_monitor_pass(c->e, pass->forward, is_last_micro_batch, &t);
}

void clock_add_sum(step_clock *c)
{
    c->result->reduce_s += part(c);
}

void clock_add_update(step_clock *c)
{
    c->result->optimizer_s = part(c);
}

void clock_end(step_clock *c, double seconds)
{
    engine_monitor_step(c->e, c->result, seconds);
    engine_monitor_memory(c->e, CLOCK_AFTER_STEP);
}
