/* --profile-trace and --profile-table: records each instruction of the iterations after --profile-step-start (counted
 * as in Megatron) up to --profile-step-end. When profiling is off, a step costs one extra branch. */
#include "megalith/profile.h"
#include "megalith/threads.h"
#include "train_impl.h"

#include <string.h>

enum { PROBE_TRIES = 3 };
#define PROBE_BYTES ((size_t)64 << 20)

static bool profile_is_wanted(const mega_train_options *cfg)
{
    return cfg->profile_trace != NULL || cfg->profile_table;
}

mega_status train_profile_check(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    if (!profile_is_wanted(cfg) || cfg->skip_train || t->plan.is_plan || cfg->profile_step_start < t->train_iters)
        return MEGA_OK;
    return MEGA_MISTAKE("--profile-step-start %lld: the run ends after %lld iterations and none would be profiled; "
                        "give a smaller number",
                        (long long)cfg->profile_step_start, (long long)t->train_iters);
}

mega_status train_profile_open(trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    if (!profile_is_wanted(cfg) || cfg->skip_train) return MEGA_OK;
    MEGA_TRY(train_profile_check(t)); /* check again: a checkpoint may have changed the number of iterations */
    if (cfg->profile_trace == NULL && !train_is_first(t)) return MEGA_OK; /* only the first rank writes the table */
    const mega_program *p = mega_engine_program(t->engine, true);
    const int64_t instructions = mega_program_num_instructions(p, false) + mega_program_num_instructions(p, true);
    const int64_t micro_batches =
        cfg->engine.optim.global_batch_size / (cfg->engine.optim.micro_batch_size * cfg->engine.data_parallel_size);
    const int64_t steps = cfg->profile_step_end - cfg->profile_step_start;
    /* An upper bound of the number of events: no chunk of a stage has more instructions than the first one, and each
     * forward, each backward and each collective may add an event for its wait. */
    const int64_t waits = mega_engine_layout(t->engine)->tp.size > 1 ? instructions : 0;
    const int64_t chunks = mega_engine_chunks(t->engine);
    const int64_t updates =
        2 * (int64_t)mega_update_num_instructions(mega_engine_update_program(t->engine)); /* each, and a wait */
    return mega_profile_create(steps * ((instructions + waits + 2) * micro_batches * chunks + updates + 3),
                               &t->profile.events);
}

bool train_profile_begin(trainer *t)
{
    const int64_t done = mega_engine_progress_get(t->engine)->iteration;
    const bool is_inside = t->profile.events != NULL && !t->profile.is_written && done >= t->cfg->profile_step_start &&
                           done < t->cfg->profile_step_end;
    if (is_inside && done == t->cfg->profile_step_start) t->profile.staged = mega_comm_staged_get(t->world);
    if (is_inside) mega_engine_profile(t->engine, t->profile.events);
    return is_inside;
}

static void copy_part(void *user, int thread, int64_t begin, int64_t end)
{
    char *memory = user;
    (void)thread;
    memcpy(memory + PROBE_BYTES / 2 + begin, memory + begin, (size_t)(end - begin));
}

/* Measures the bytes read and written per second by a copy too large for any cache; the best of several tries. */
static mega_status memory_rate(mega_team *team, double *out)
{
    void *memory;
    MEGA_TRY(mega_pages_alloc(&memory, PROBE_BYTES, "the memory probe of the profile"));
    memset(memory, 1, PROBE_BYTES);
    *out = 0;
    for (int i = 0; i < PROBE_TRIES; i++) {
        const double began = mega_time_now();
        mega_team_for(team, (int64_t)(PROBE_BYTES / 2), 4096, copy_part, memory);
        const double rate = (double)PROBE_BYTES / (mega_time_now() - began);
        if (rate > *out) *out = rate;
    }
    mega_pages_free(memory, PROBE_BYTES);
    return MEGA_OK;
}

static void put_staged(const trainer *t, mega_buffer *out)
{
    const mega_comm_staged all = mega_comm_staged_get(t->world), *before = &t->profile.staged;
    const double steps = (double)(t->cfg->profile_step_end - t->cfg->profile_step_start);
    if (all.copies == before->copies) return;
    mega_buffer_printf(out,
                       " exchanges through memory of the host: %.1f copies of %.6g MB in all a step, %.6g MB held\n",
                       (double)(all.copies - before->copies) / steps,
                       (double)(all.bytes - before->bytes) / steps * 1e-6, (double)all.held * 1e-6);
}

static mega_status write_profile(trainer *t)
{
    mega_buffer text = {0};
    mega_status st = MEGA_OK;
    t->profile.is_written = true;
    mega_engine_profile(t->engine, NULL);
    if (t->cfg->profile_table && train_is_first(t)) {
        mega_profile_bound bound = {.flops = t->peak.flops};
        MEGA_TRY(memory_rate(t->team, &bound.bytes));
        mega_profile_table(t->profile.events, &bound, &text);
        put_staged(t, &text);
        if (!text.failed) train_line_always(t, text.data);
    }
    if (text.failed) st = MEGA_NO_MEMORY("profile", "its text; profile fewer steps");
    mega_buffer_fini(&text);
    return st == MEGA_OK && t->cfg->profile_trace != NULL ? train_trace_write(t) : st;
}

mega_status train_profile_end(trainer *t, mega_profile_moment began, mega_profile_moment ended)
{
    const int64_t iteration = mega_engine_progress_get(t->engine)->iteration;
    mega_engine_profile(t->engine, NULL);
    mega_profile_step(t->profile.events, iteration, began, ended);
    return iteration >= t->cfg->profile_step_end ? write_profile(t) : MEGA_OK;
}

mega_status train_profile_close(trainer *t)
{
    const bool began =
        t->profile.events != NULL && mega_engine_progress_get(t->engine)->iteration > t->cfg->profile_step_start;
    return began && !t->profile.is_written ? write_profile(t) : MEGA_OK;
}
