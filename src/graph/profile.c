/* Records a run as a list of events, ordered by when they ended; the table and the trace are written from it. */
#include "megalith/device_memory.h"
#include "megalith/output.h"
#include "profile_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

mega_status mega_profile_create(int64_t capacity, mega_profile **out)
{
    mega_profile *p = mega_calloc(1, sizeof *p);
    if (p == NULL) return MEGA_NO_MEMORY("profile", "it");
    p->event = mega_calloc((size_t)capacity, sizeof *p->event);
    if (p->event == NULL) {
        mega_free(p);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "profile: no memory for %lld events; profile fewer steps",
                         (long long)capacity);
    }
    p->capacity = capacity;
    *out = p;
    return MEGA_OK;
}

void mega_profile_destroy(mega_profile *p)
{
    if (p == NULL) return;
    mega_free(p->event);
    mega_free(p);
}

static void profile_add(mega_profile *p, const profile_event *e)
{
    if (p->count == p->capacity) p->lost++;
    else
        p->event[p->count++] = *e;
}

static bool profile_is_exchange(const instruction *op)
{
    return mega_op_is_collective(op->kind) || (mega_op_is_bucket(op->kind) && !mega_op_is_local_bucket(op->kind));
}

static const char *phase_of(const instruction *op)
{
    return op->recomputed ? "recompute" : op->backward ? "backward" : "forward";
}

mega_profile_moment mega_profile_now(const mega_team *team)
{
    return (mega_profile_moment){mega_time_now(), mega_team_waited(team), -1};
}

mega_profile_moment mega_profile_queued(mega_profile *p, const mega_queue *queue)
{
    mega_profile_moment now = mega_profile_now(queue->team);
    p->device = queue->device;
    now.mark = mega_device_mark(queue->device);
    return now;
}

/* ---- times of a device ---- */

/* The clock of the device less that of the host. A device cannot start work before the host asks for it, and an idle
 * device starts at once; so this is the smallest difference with which no mark is earlier than its request. */
static double clocks_apart(const mega_profile *p, int64_t first)
{
    double most = 0;
    bool is_first = true;
    for (int64_t i = p->first_of_step; i < p->count; i++) {
        const profile_event *e = &p->event[i];
        if (e->begin_mark < 0) continue;
        const double apart = e->begin - mega_device_seconds(p->device, first, e->begin_mark);
        if (is_first || apart > most) most = apart;
        is_first = false;
    }
    return most;
}

/* Gives the events of a step the device's times. Returns when the last one ended; 0: there is none. */
static double take_times(mega_profile *p)
{
    int64_t first = -1;
    double last = 0;
    for (int64_t i = p->first_of_step; i < p->count && first < 0; i++) first = p->event[i].begin_mark;
    const double apart = first >= 0 ? clocks_apart(p, first) : 0;
    for (int64_t i = p->first_of_step; i < p->count; i++) {
        profile_event *e = &p->event[i];
        if (e->begin_mark < 0 || e->end_mark < 0) continue;
        e->begin = apart + mega_device_seconds(p->device, first, e->begin_mark);
        e->end = e->begin + mega_device_seconds(p->device, e->begin_mark, e->end_mark);
        e->begin_mark = e->end_mark = -1;
        last = e->end > last ? e->end : last;
    }
    return last;
}

void mega_profile_begin_step(mega_profile *p, const mega_queue *queue)
{
    p->first_of_step = p->count;
    mega_device_marks_begin(queue->device);
}

void mega_profile_instruction(mega_profile *p, const mega_graph *g, int instruction_number, mega_profile_moment begin,
                              mega_profile_moment end)
{
    const instruction *op = &g->op[instruction_number];
    const op_cost cost = mega_op_cost(g, op);
    profile_add(p, &(profile_event){.kind = PROFILE_OP,
                                    .name = mega_op_table[op->kind]->name,
                                    .scope = op->scope,
                                    .phase = phase_of(op),
                                    .begin = begin.at,
                                    .end = end.at,
                                    .begin_mark = begin.mark,
                                    .end_mark = end.mark,
                                    .waited = end.waited - begin.waited,
                                    .flops = cost.flops,
                                    .bytes = cost.bytes,
                                    .number = instruction_number,
                                    .is_exchange = profile_is_exchange(op)});
}

void mega_profile_work(mega_profile *p, const mega_profile_event *e, mega_profile_moment begin, mega_profile_moment end)
{
    profile_add(p, &(profile_event){.kind = e->is_wait ? PROFILE_WAIT : PROFILE_OP,
                                    .name = e->name,
                                    .scope = e->scope,
                                    .phase = e->phase,
                                    .begin = begin.at,
                                    .end = end.at,
                                    .begin_mark = begin.mark,
                                    .end_mark = end.mark,
                                    .waited = end.waited - begin.waited,
                                    .bytes = e->bytes,
                                    .number = e->number,
                                    .is_exchange = e->is_exchange});
}

void mega_profile_wait(mega_profile *p, const mega_graph *g, int instruction_number, mega_profile_moment begin,
                       mega_profile_moment end)
{
    const instruction *op = &g->op[instruction_number];
    mega_profile_work(p,
                      &(mega_profile_event){.name = mega_op_table[op->kind]->name,
                                            .scope = op->scope,
                                            .phase = phase_of(op),
                                            .number = instruction_number,
                                            .is_wait = true,
                                            .is_exchange = true},
                      begin, end);
}

void mega_profile_idle(mega_profile *p, const char *name, double begin, double end)
{
    profile_add(p, &(profile_event){.kind = PROFILE_SPAN,
                                    .name = name,
                                    .phase = name,
                                    .begin = begin,
                                    .end = end,
                                    .begin_mark = -1,
                                    .end_mark = -1,
                                    .is_exchange = true});
}

void mega_profile_span(mega_profile *p, const char *name, mega_profile_moment begin, mega_profile_moment end,
                       double bytes)
{
    profile_add(p, &(profile_event){.kind = PROFILE_SPAN,
                                    .name = name,
                                    .phase = name,
                                    .begin = begin.at,
                                    .end = end.at,
                                    .begin_mark = -1,
                                    .end_mark = -1,
                                    .waited = end.waited - begin.waited,
                                    .bytes = bytes});
}

void mega_profile_step(mega_profile *p, int64_t iteration, mega_profile_moment begin, mega_profile_moment end)
{
    const double last = take_times(p);
    profile_add(p, &(profile_event){.kind = PROFILE_STEP,
                                    .name = "step",
                                    .phase = "step",
                                    .begin = begin.at,
                                    .end = last > end.at ? last : end.at,
                                    .begin_mark = -1,
                                    .end_mark = -1,
                                    .waited = end.waited - begin.waited,
                                    .number = iteration});
    p->first_of_step = p->count;
}

void mega_profile_each(mega_profile *p, void (*each)(void *user, const mega_profile_item *item), void *user)
{
    (void)take_times(p);
    for (int64_t i = 0; i < p->count; i++) {
        const profile_event *e = &p->event[i];
        if (e->kind != PROFILE_OP && e->kind != PROFILE_WAIT) continue;
        each(user, &(mega_profile_item){.name = e->name,
                                        .scope = e->scope != NULL ? e->scope : "",
                                        .phase = e->phase,
                                        .seconds = e->end - e->begin,
                                        .flops = e->flops,
                                        .is_wait = e->kind == PROFILE_WAIT});
    }
}

/* ---- the table ---- */

typedef struct table_row {
    const char *name;
    bool is_wait, is_exchange;
    double seconds, waited, flops, bytes;
    int64_t calls;
} table_row;

enum { MOST_ROWS = OP_COUNT + 20 };

static int longest_first(const void *a, const void *b)
{
    const double x = ((const table_row *)a)->seconds, y = ((const table_row *)b)->seconds;
    return (x < y) - (x > y);
}

static int profile_collect(const mega_profile *p, table_row *row, table_row *step)
{
    int count = 0;
    for (int64_t i = 0; i < p->count; i++) {
        const profile_event *e = &p->event[i];
        table_row *r = step;
        if (e->kind != PROFILE_STEP) {
            int k = 0;
            const bool is_wait = e->kind == PROFILE_WAIT;
            while (k < count && (strcmp(row[k].name, e->name) != 0 || row[k].is_wait != is_wait)) k++;
            if (k == MOST_ROWS) continue; /* its time then counts as "between" */
            if (k == count)
                row[count++] = (table_row){.name = e->name, .is_wait = is_wait, .is_exchange = e->is_exchange};
            r = &row[k];
        }
        r->seconds += e->end - e->begin;
        r->waited += e->waited;
        r->flops += e->flops;
        r->bytes += e->bytes;
        r->calls++;
    }
    return count;
}

static void profile_write_row(mega_buffer *out, const table_row *r, double steps, double whole,
                              const mega_profile_bound *bound)
{
    const double arithmetic = bound->flops > 0 ? r->flops / bound->flops : 0;
    const double memory = bound->bytes > 0 ? r->bytes / bound->bytes : 0;
    const double least = arithmetic > memory ? arithmetic : memory;
    char name[32];
    snprintf(name, sizeof name, "%s%s", r->name, r->is_wait ? " wait" : "");
    mega_buffer_printf(out, " %-20s %10.3f %6.1f %9.3f %8.0f", name, r->seconds / steps * 1e3, 100 * r->seconds / whole,
                       r->waited / steps * 1e3, (double)r->calls / steps);
    if (r->seconds <= 0 || least <= 0) {
        mega_buffer_printf(out, " %10s %8s %10s\n", "-", "-", "-");
        return;
    }
    mega_buffer_printf(out, " %10.1f %8.1f %8.1f %% %s\n", r->flops / r->seconds * 1e-9, r->bytes / r->seconds * 1e-9,
                       100 * least / r->seconds, arithmetic > memory ? "arithmetic" : "memory");
}

/* Writes how long this rank did nothing but exchange data: of each kind, the start and the wait together. */
static void write_exposed(mega_buffer *out, const table_row *row, int count, double steps, double whole)
{
    double sum = 0;
    bool has_head = false;
    for (int i = 0; i < count; i++) {
        table_row r = row[i];
        if (!r.is_exchange) continue;
        int k = 0;
        while (k < i && (strcmp(row[k].name, r.name) != 0 || !row[k].is_exchange)) k++;
        if (k < i) continue; /* written with the other row of its name */
        for (k = i + 1; k < count; k++) {
            if (strcmp(row[k].name, r.name) != 0 || !row[k].is_exchange) continue;
            r.seconds += row[k].seconds;
            if (r.calls < row[k].calls) r.calls = row[k].calls;
        }
        if (!has_head) mega_buffer_printf(out, " %-20s %10s %6s %18s\n", "exposed exchanges", "ms/step", "%", "calls");
        has_head = true;
        sum += r.seconds;
        mega_buffer_printf(out, " %-20s %10.3f %6.1f %18.0f\n", r.name, r.seconds / steps * 1e3,
                           100 * r.seconds / whole, (double)r.calls / steps);
    }
    if (has_head)
        mega_buffer_printf(out, " %-20s %10.3f %6.1f\n", "all exchanges", sum / steps * 1e3, 100 * sum / whole);
}

void mega_profile_table(const mega_profile *p, const mega_profile_bound *bound, mega_buffer *out)
{
    table_row row[MOST_ROWS], step = {.name = "step"}, between = {.name = "between"};
    const int count = profile_collect(p, row, &step);
    if (step.calls == 0) return;
    const double steps = (double)step.calls;
    qsort(row, (size_t)count, sizeof *row, longest_first);
    mega_buffer_printf(out, "profile of %lld steps; bounds measured: %.1f GFLOP/s, %.1f GB/s\n", (long long)step.calls,
                       bound->flops * 1e-9, bound->bytes * 1e-9);
    mega_buffer_printf(out, " %-20s %10s %6s %9s %8s %10s %8s %10s\n", "op", "ms/step", "%", "waits", "calls",
                       "GFLOP/s", "GB/s", "of bound");
    between.seconds = step.seconds;
    between.waited = step.waited;
    for (int i = 0; i < count; i++) {
        between.seconds -= row[i].seconds;
        between.waited -= row[i].waited;
        step.flops += row[i].flops;
        step.bytes += row[i].bytes;
        profile_write_row(out, &row[i], steps, step.seconds, bound);
    }
    if (between.waited < 0) between.waited = 0; /* rounded */
    profile_write_row(out, &between, steps, step.seconds, bound);
    profile_write_row(out, &step, steps, step.seconds, bound);
    write_exposed(out, row, count, steps, step.seconds);
    if (p->lost > 0) mega_buffer_printf(out, " %lld events did not fit and are not counted\n", (long long)p->lost);
}

/* ---- the trace ---- */

/* Writes text into a JSON string, with '_' for characters that would need an escape. Scopes need this because users of
 * the library choose them; names of ops do not. */
static void profile_write_text(mega_buffer *out, const char *text)
{
    for (const char *c = text == NULL ? "" : text; *c != '\0'; c++)
        mega_buffer_printf(out, "%c", *c == '"' || *c == '\\' || (unsigned char)*c < 32 ? '_' : *c);
}

static void profile_write_event(mega_buffer *out, const profile_event *e, const mega_profile_rank *rank)
{
    const bool of_program = e->kind == PROFILE_OP || e->kind == PROFILE_WAIT;
    mega_buffer_printf(out, ",\n{\"name\":\"%s%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,", e->name,
                       e->kind == PROFILE_WAIT ? " wait" : "", e->phase, rank->rank, of_program);
    mega_buffer_printf(out, "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"phase\":\"%s\"", (e->begin - rank->start) * 1e6,
                       (e->end - e->begin) * 1e6, e->phase);
    if (e->kind == PROFILE_STEP) mega_buffer_printf(out, ",\"iteration\":%lld", (long long)e->number);
    if (of_program) {
        mega_buffer_printf(out, ",\"instruction\":%lld,\"scope\":\"", (long long)e->number);
        profile_write_text(out, e->scope);
        mega_buffer_printf(out, "\",\"gflop\":%.6g,\"mb\":%.6g,\"waited_us\":%.3f", e->flops * 1e-9, e->bytes * 1e-6,
                           e->waited * 1e6);
    }
    mega_buffer_printf(out, "}}");
}

double mega_profile_begin(const mega_profile *p)
{
    double start = p->count > 0 ? p->event[0].begin : 0;
    for (int64_t i = 0; i < p->count; i++)
        if (p->event[i].begin < start) start = p->event[i].begin;
    return start;
}

void mega_profile_trace_head(mega_buffer *out)
{
    mega_buffer_printf(out,
                       "{\"displayTimeUnit\":\"ms\",%s,\"traceEvents\":[\n"
                       "{\"name\":\"trace\",\"ph\":\"M\",\"pid\":0,\"args\":{}}",
                       MEGA_OUTPUT_TRACE_MARK);
}

static void profile_write_name(mega_buffer *out, const char *what, int pid, int tid, const char *name)
{
    mega_buffer_printf(out, ",\n{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}", what,
                       pid, tid, name);
}

void mega_profile_trace_events(const mega_profile *p, const mega_profile_rank *rank, mega_buffer *out)
{
    char text[64];
    snprintf(text, sizeof text, "rank %d", rank->rank);
    profile_write_name(out, "process_name", rank->rank, 0, text);
    profile_write_name(out, "thread_name", rank->rank, 0, "step");
    snprintf(text, sizeof text, "instructions (each on a team of %d)", rank->threads);
    profile_write_name(out, "thread_name", rank->rank, 1, text);
    for (int64_t i = 0; i < p->count; i++) profile_write_event(out, &p->event[i], rank);
}

void mega_profile_trace_tail(mega_buffer *out)
{
    mega_buffer_printf(out, "\n]}\n");
}
