/* DeepSpeed's lines about steps, in its formats, and the values that it gives to its monitors. */
#include "megalith/step_monitor.h"
#include "megalith/events.h"
#include "megalith/log.h"
#include "megalith/memory.h"

#include <math.h>
#include <sys/resource.h>

/* The first steps warm up: DeepSpeed leaves them out of its mean speed. */
enum { WARM_UP_STEPS = 2 };

struct mega_step_monitor {
    const mega_monitor_options *options;
    mega_events *events; /* NULL: none */
    int64_t steps, micro_steps;
    double seconds;     /* of the steps after the warm-up */
    mega_buffer line;   /* kept, so that a step allocates nothing */
    long most_resident; /* of the process in KB, when `held` was measured */
    double held;
};

mega_status mega_step_monitor_create(const mega_monitor_options *o, const char *config, mega_step_monitor **out)
{
    mega_step_monitor *m = mega_calloc(1, sizeof *m);
    if (m == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "monitors: no memory");
    m->options = o;
    m->events = mega_events_open(o, config);
    *out = m;
    return MEGA_OK;
}

static mega_buffer *begin_line(mega_step_monitor *m)
{
    m->line.size = 0;
    m->line.failed = false;
    return &m->line;
}

static void end_line(mega_step_monitor *m)
{
    if (!m->line.failed) mega_info("%s", m->line.data);
}

static void step_line(mega_step_monitor *m, const mega_step_seen *s)
{
    mega_buffer *b = begin_line(m);
    mega_buffer_printf(b, "step=%lld, skipped=%lld, lr=[", (long long)s->step, (long long)s->skipped);
    mega_buffer_json_double(b, s->lr);
    mega_buffer_puts(b, s->momenta == 2 ? "], mom=[(" : "], mom=[");
    for (int i = 0; i < s->momenta; i++) {
        if (i > 0) mega_buffer_puts(b, ", ");
        mega_buffer_json_double(b, s->momentum[i]);
    }
    mega_buffer_puts(b, s->momenta == 2 ? ")]" : "]");
    end_line(m);
}

/* The memory that `megalith plan` plans and compare_configurations calls held: without mapped files, and a share of
 * what the ranks of a host share. To read the list of mappings takes milliseconds, so that a peak is measured once. */
static double peak_bytes(mega_step_monitor *m)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (usage.ru_maxrss != m->most_resident) m->held = (double)mega_memory_peak();
    m->most_resident = usage.ru_maxrss;
    return m->held;
}

/* In units of 2^30 bytes, with two digits after the point. */
static double gigabytes(double bytes)
{
    return round(bytes / 1073741824.0 * 100) / 100;
}

static void speed_line(mega_step_monitor *m, const mega_step_seen *s)
{
    mega_buffer *b = begin_line(m);
    const double mean = m->seconds / (double)(m->steps - WARM_UP_STEPS);
    mega_buffer_printf(b,
                       "epoch=0/micro_step=%lld/global_step=%lld, RunningAvgSamplesPerSec=", (long long)m->micro_steps,
                       (long long)m->steps);
    mega_buffer_json_double(b, mean > 0 ? (double)s->batch / mean : 0);
    mega_buffer_puts(b, ", CurrSamplesPerSec=");
    mega_buffer_json_double(b, s->seconds > 0 ? (double)s->batch / s->seconds : 0);
    mega_buffer_puts(b, ", MemAllocated=");
    mega_buffer_json_double(b, gigabytes((double)s->planned_bytes));
    mega_buffer_puts(b, "GB, MaxMemAllocated=");
    mega_buffer_json_double(b, gigabytes(fmax(peak_bytes(m), (double)s->planned_bytes)));
    mega_buffer_puts(b, "GB");
    end_line(m);
}

static void times_line(mega_step_monitor *m, const mega_step_times *t, const char *suffix)
{
    const double bwd = t->backward_s + t->reduce_s;
    mega_buffer_printf(
        begin_line(m),
        "time (ms) | fwd%s: %.2f | bwd%s: %.2f | bwd_inner%s: %.2f | bwd_allreduce%s: %.2f | step%s: %.2f", suffix,
        t->forward_s * 1e3, suffix, bwd * 1e3, suffix, t->backward_s * 1e3, suffix, t->reduce_s * 1e3, suffix,
        t->update_s * 1e3);
    end_line(m);
}

static void put_events(mega_step_monitor *m, const mega_step_seen *s)
{
    mega_events *e = m->events;
    const mega_step_times *t = &s->times;
    if (s->has_loss) mega_events_put(e, "Train/Samples/train_loss", s->loss, s->samples);
    mega_events_put(e, "Train/Samples/lr", s->lr, s->samples);
    if (s->is_scaled) mega_events_put(e, "Train/Samples/loss_scale", s->loss_scale, s->samples);
    const mega_monitor_options *o = m->options;
    if (!o->wall_clock_breakdown) return;
    const struct {
        const char *tag;
        double seconds;
    } times[] = {{"Train/Samples/elapsed_time_ms_forward", t->forward_s},
                 {"Train/Samples/elapsed_time_ms_backward", t->backward_s + t->reduce_s},
                 {"Train/Samples/elapsed_time_ms_backward_inner", t->backward_s},
                 {"Train/Samples/elapsed_time_ms_backward_allreduce", t->reduce_s},
                 {"Train/Samples/elapsed_time_ms_step", t->update_s}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        mega_events_put(e, times[i].tag, times[i].seconds * 1e3, s->samples);
}

void mega_step_monitor_begin(mega_step_monitor *m, const mega_step_seen *s)
{
    if (m == NULL) return;
    if (m->options->steps_per_print > 0 && s->step == 0) step_line(m, s);
}

void mega_step_monitor_micro_batch(mega_step_monitor *m, const mega_step_times *times)
{
    if (m != NULL && m->options->wall_clock_breakdown) times_line(m, times, "_microstep");
}

void mega_step_monitor_step(mega_step_monitor *m, const mega_step_seen *s)
{
    if (m == NULL) return;
    const mega_monitor_options *o = m->options;
    const int64_t every = o->steps_per_print;
    m->micro_steps += s->micro_batches;
    m->steps++;
    if (m->steps > WARM_UP_STEPS) m->seconds += s->seconds;
    if (every > 0 && s->step % every == 0) step_line(m, s);
    if (every > 0 && m->steps % every == 0 && m->steps > WARM_UP_STEPS) speed_line(m, s);
    if (m->events != NULL) {
        put_events(m, s);
        mega_events_flush_if_due(m->events);
    }
    if (o->wall_clock_breakdown) times_line(m, &s->times, "");
}

void mega_step_monitor_event(mega_step_monitor *m, const char *tag, double value, int64_t samples)
{
    if (m != NULL) mega_events_put(m->events, tag, value, samples);
}

void mega_step_monitor_memory(mega_step_monitor *m, const char *where, int64_t planned_bytes)
{
    if (m == NULL || !m->options->memory_breakdown) return;
    mega_memory_limits host;
    const double planned = gigabytes((double)planned_bytes);
    mega_memory_get_limits(&host);
    mega_info("%s", where);
    mega_info("MA %.2f GB  Max_MA %.2f GB  CA %.2f GB  Max_CA %.2f GB", planned, planned,
              gigabytes((double)mega_memory_resident()), gigabytes(peak_bytes(m)));
    if (host.machine == UINT64_MAX || host.available > host.machine) return;
    const double all = (double)host.machine, used = all - (double)host.available;
    mega_info("CPU Virtual Memory: used = %.2f GB, percent = %.1f%%", gigabytes(used), 100 * used / all);
}

void mega_step_monitor_destroy(mega_step_monitor *m)
{
    if (m == NULL) return;
    mega_events_close(m->events);
    mega_buffer_fini(&m->line);
    mega_free(m);
}
