/* Streams and events of the software driver, and the order in which their work runs. */
#include "software.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EVENT_MAGIC = 0x45564e54, STREAM_MAGIC = 0x53545245 };

void clock_join(watch_clock *a, const watch_clock *b)
{
    for (int i = 0; i < WATCH_LANES; i++)
        if (b->at[i] > a->at[i]) a->at[i] = b->at[i];
}

/* Streams and events are never given back, so that a destroyed one is known for what it is. */
bool stream_is_valid(cu_stream s)
{
    return s != NULL && s->magic == STREAM_MAGIC;
}

bool event_is_valid(cu_event e)
{
    return e != NULL && e->magic == EVENT_MAGIC;
}

int software_lane(void)
{
    const int lane = software.next_lane;
    software.next_lane = lane + 1 < WATCH_LANES ? lane + 1 : MOST_STREAMS;
    return lane;
}

/* ---- pieces of work ---- */

software_op *op_make(op_kind kind)
{
    software_op *op = calloc(1, sizeof *op);
    if (op == NULL) abort();
    op->kind = kind;
    op->rows = 1;
    return op;
}

void op_free(software_op *op)
{
    free(op->staged);
    free(op->memory);
    free(op->operands);
    free(op);
}

queued *queued_make(software_op *op, bool owns_op)
{
    queued *q = calloc(1, sizeof *q);
    if (q == NULL) abort();
    q->op = op;
    q->owns_op = owns_op;
    return q;
}

static void record_release(event_record *r)
{
    if (r != NULL && --r->owners == 0) free(r);
}

void queued_free(queued *q)
{
    record_release(q->record);
    if (q->graph != NULL) graph_run_free(q->graph);
    if (q->owns_op) op_free(q->op);
    free(q->user);
    free(q);
}

static uint64_t sum_of(const void *at, size_t bytes)
{
    const unsigned char *p = at;
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) sum = (sum ^ p[i]) * 0x100000001b3u;
    return sum;
}

static uint64_t sum_of_source(const software_op *op)
{
    uint64_t sum = 0;
    for (size_t r = 0; r < op->rows; r++) sum = sum * 31 + sum_of(op->from + r * op->from_pitch, op->bytes);
    return sum;
}

static void record_make(cu_event e)
{
    record_release(e->last);
    if ((e->last = calloc(1, sizeof *e->last)) == NULL) abort();
    e->last->owners = 1;
}

static bool is_recorded(const struct CUevent_st *e)
{
    return e->last == NULL || e->last->is_done;
}

/* The source of a copy may not change before it has run, and its target has no meaning before the host has waited. */
void queued_begin(queued *q)
{
    const software_op *op = q->op;
    if (op->kind == OP_COPY_IN && op->staged == NULL) q->sum = sum_of_source(op);
    for (size_t r = 0; r < op->rows && op->kind == OP_COPY_OUT; r++) memset(op->to + r * op->to_pitch, 0xFF, op->bytes);
    if (op->kind == OP_RECORD) record_make(op->event);
    if (op->kind == OP_RECORD || op->kind == OP_WAIT) (q->record = op->event->last)->owners++;
    if (op->kind == OP_CALL) {
        if ((q->user = malloc(op->call.user_bytes)) == NULL) abort();
        memcpy(q->user, op->memory, op->call.user_bytes);
        if (op->call.queued != NULL) op->call.queued(q->user);
    }
}

static const char *name_of(const software_op *op)
{
    static const char *const names[] = {[OP_COPY_IN] = "copy to the device",
                                        [OP_COPY_OUT] = "copy to the host",
                                        [OP_COPY] = "copy",
                                        [OP_FILL] = "fill"};
    return op->kind == OP_KERNEL ? op->launch.kernel->name : op->kind == OP_CALL ? op->call.name : names[op->kind];
}

/* The kernel is the last that runs: later copies to the host are counted to it. */
static void sums_turn(const device_kernel *k)
{
    int i = 0;
    while (i < software.num_sums && software.sums[i].kernel != k) i++;
    if (i == MOST_KERNELS) abort();
    if (i == software.num_sums) software.sums[software.num_sums++] = (kernel_sum){k, 0};
    software.last_sum = i;
}

static void sums_add(const void *at, size_t bytes)
{
    kernel_sum *s = &software.sums[software.last_sum];
    if (software.num_sums > 0) s->sum = (s->sum ^ sum_of(at, bytes)) * 0x100000001b3u + bytes;
}

static void kernel_run(const queued *q)
{
    if (software.sums != NULL) sums_turn(q->op->launch.kernel);
    const char *error = device_run(&q->op->launch);
    software.counts.launches++;
    if (error == NULL) return;
    software_say("%s", error);
    software.sticky = CU_LAUNCH_FAILED;
}

static void row_run(const software_op *op, char *to, const char *from)
{
    if (op->kind == OP_COPY || op->kind == OP_COPY_OUT) watch_range(from, op->bytes, false);
    if (op->kind != OP_COPY_OUT) watch_range(to, op->bytes, true);
    if (op->kind != OP_FILL) memmove(to, from, op->bytes);
    else
        for (size_t i = 0; i < op->bytes; i++) to[i] = ((const char *)&op->value)[i % 4];
    if (software.sums != NULL && op->kind == OP_COPY_OUT) sums_add(to, op->bytes);
}

static void copy_run(const queued *q)
{
    const software_op *op = q->op;
    const char *const from = op->staged != NULL ? op->staged : op->from;
    const size_t from_pitch = op->staged != NULL ? op->bytes : op->from_pitch;
    software.counts.copies += op->kind != OP_FILL;
    if (op->kind == OP_COPY_IN && op->staged == NULL && sum_of_source(op) != q->sum) {
        software_say("the host has changed the source of a copy of %zu bytes before it ran", op->rows * op->bytes);
        software.sticky = CU_ILLEGAL_ADDRESS; /* a GPU would say nothing, and compute with half of it */
    }
    for (size_t r = 0; r < op->rows; r++) row_run(op, op->to + r * op->to_pitch, from + r * from_pitch);
}

bool queued_run(const queued *q)
{
    const software_op *op = q->op;
    software_open();
    if (op->kind == OP_CALL && !op->call.run(q->user)) {
        sched_yield(); /* another rank has not come so far */
        return false;
    }
    watch_work work = q->order;
    work.name = name_of(op);
    work.operands = op->operands;
    work.num_operands = op->num_operands;
    watch_work_begin(&work);
    software.counts.work++;
    if (op->kind == OP_KERNEL) kernel_run(q);
    else if (op->kind == OP_CALL)
        op->call.note(q->user);
    else
        copy_run(q);
    if (software.ends_at_report && watch_reports() > 0) {
        fflush(NULL);
        _exit(88);
    }
    return true;
}

/* ---- queues ---- */

cu_result stream_add(cu_stream s, software_op *op)
{
    if (op->kind != OP_RECORD && op->kind != OP_WAIT && op->kind != OP_GRAPH) {
        op->operands = s->operands;
        op->num_operands = s->num_operands;
        s->operands = NULL;
        s->num_operands = 0;
    }
    if (s->capture != NULL) return graph_add(s, op);
    queued *q = queued_make(op, true);
    queued_begin(q);
    if (op->kind == OP_WAIT) clock_join(&s->clock, &op->event->clock);
    clock_join(&s->clock, &software.host);
    q->order.lane = s->lane;
    q->order.after = s->clock;
    if (op->kind != OP_WAIT && op->kind != OP_RECORD)
        q->order.number = s->clock.at[s->lane] = ++software.lane_count[s->lane];
    if (op->kind == OP_RECORD) op->event->clock = s->clock;
    *s->last = q;
    s->last = &q->next;
    return CU_OK;
}

/* How many pieces of the stream could run now. */
static unsigned ready_in(const struct CUstream_st *s)
{
    const queued *q = s != NULL ? s->first : NULL;
    if (q == NULL) return 0;
    if (q->op->kind == OP_WAIT) return q->record->is_done;
    if (q->op->kind == OP_GRAPH) return graph_run_is_done(q->graph) ? 1 : graph_run_ready(q->graph);
    return 1;
}

/* Runs the piece of that number; takes it from the queue if it has ended. */
static void run_one(struct CUstream_st *s, unsigned which)
{
    queued *q = s->first;
    bool has_ended = true;
    if (q->op->kind == OP_RECORD) {
        q->record->is_done = true;
        if (q->record == q->op->event->last) q->op->event->time = software.counts.work;
    } else if (q->op->kind == OP_GRAPH) {
        if (!graph_run_is_done(q->graph)) graph_run_one(q->graph, which);
        has_ended = graph_run_is_done(q->graph);
    } else if (q->op->kind != OP_WAIT) {
        has_ended = queued_run(q);
    }
    if (!has_ended) return;
    s->first = q->next;
    if (s->first == NULL) s->last = &s->first;
    queued_free(q);
}

bool software_pump(void)
{
    unsigned ready[MOST_STREAMS], all = 0;
    for (int i = 0; i < MOST_STREAMS; i++) all += ready[i] = ready_in(software.stream[i]);
    if (all == 0 || software.sticky != CU_OK) return false;
    unsigned which = software_draw() % all;
    for (int i = 0; i < MOST_STREAMS; i++) {
        if (which < ready[i]) {
            run_one(software.stream[i], which);
            return true;
        }
        which -= ready[i];
    }
    return true;
}

/* No piece of work can run although some are queued: streams wait for each other, which cannot be, or work has
 * failed. */
static cu_result stuck(void)
{
    if (software.sticky != CU_OK) return software.sticky;
    software_say("streams wait for events that nobody records");
    return software.sticky = CU_UNKNOWN;
}

static cu_result stream_run(cu_stream s)
{
    while (s->first != NULL)
        if (!software_pump()) return stuck();
    return software.sticky;
}

cu_result software_finish(cu_stream s)
{
    software.counts.waits++;
    const cu_result r = stream_run(s);
    if (s->first != NULL) return r;
    clock_join(&software.host, &s->clock);
    return r;
}

cu_result software_finish_all(void)
{
    software.counts.waits++;
    while (software_pump()) continue;
    for (int i = 0; i < MOST_STREAMS; i++) {
        if (software.stream[i] == NULL) continue;
        if (software.stream[i]->first != NULL) return stuck();
        clock_join(&software.host, &software.stream[i]->clock);
    }
    return software.sticky;
}

cu_result software_call_queue(cu_stream stream, const software_call *call, const void *user)
{
    const cu_result r = software_enter_library(false);
    if (r != CU_OK) return software_leave(r);
    if (!stream_is_valid(stream)) return software_leave(software_refuse(call->name, NO_STREAM));
    software_op *op = op_make(OP_CALL);
    op->call = *call;
    if ((op->memory = malloc(call->user_bytes)) == NULL) abort();
    memcpy(op->memory, user, call->user_bytes);
    return software_leave(stream_add(stream, op));
}

/* ---- streams ---- */

/* The lane of a stream in this place. An earlier stream there may have left work for which the host has not waited:
 * the new one does not come after it, and needs another lane. */
static int stream_lane(int place)
{
    return software.host.at[place] == software.lane_count[place] ? place : software_lane();
}

static cu_result stream_create(cu_stream *out, unsigned flags)
{
    if (flags != CU_NON_BLOCKING) return CU_INVALID_VALUE;
    for (int i = 0; i < MOST_STREAMS; i++) {
        if (software.stream[i] != NULL) continue;
        cu_stream s = software_handle(sizeof *s);
        if (s == NULL) break;
        *s = (struct CUstream_st){.magic = STREAM_MAGIC, .number = i, .lane = stream_lane(i), .last = &s->first};
        *out = software.stream[i] = s;
        return CU_OK;
    }
    return CU_OUT_OF_MEMORY;
}

void stream_end(cu_stream s)
{
    while (s->first != NULL) {
        queued *q = s->first;
        s->first = q->next;
        queued_free(q);
    }
    free(s->operands);
    s->operands = NULL;
    s->magic = 0;
    software.stream[s->number] = NULL;
}

cu_result cuStreamCreate(cu_stream *out, unsigned flags)
{
    const cu_result r = software_enter_context("cuStreamCreate", CU_OUT_OF_MEMORY);
    return software_leave(r == CU_OK ? stream_create(out, flags) : r);
}

/* Enters, and checks the stream; with `waits`, also that nothing is captured there. */
static cu_result enter_stream(const char *name, cu_result error, cu_stream s, bool waits)
{
    const cu_result r = software_enter_context(name, error);
    if (r != CU_OK) return r;
    if (!stream_is_valid(s)) return software_refuse(name, NO_STREAM);
    return waits && s->capture != NULL ? graph_break(s->capture) : CU_OK;
}

cu_result cuStreamDestroy_v2(cu_stream stream)
{
    cu_result r = enter_stream("cuStreamDestroy_v2", CU_INVALID_HANDLE, stream, true);
    if (r != CU_OK) return software_leave(r);
    r = stream_run(stream); /* the real one returns at once: the host has waited for nothing */
    stream_end(stream);
    return software_leave(r);
}

cu_result cuStreamSynchronize(cu_stream stream)
{
    const cu_result r = enter_stream("cuStreamSynchronize", CU_LAUNCH_FAILED, stream, true);
    if (r == CU_OK && software_leaves_out("cuStreamSynchronize")) return software_leave(r);
    return software_leave(r == CU_OK ? software_finish(stream) : r);
}

cu_result cuCtxSynchronize(void)
{
    const cu_result r = software_enter_context("cuCtxSynchronize", CU_LAUNCH_FAILED);
    return software_leave(r == CU_OK ? software_finish_all() : r);
}

/* A question: some work may have run meanwhile. */
static void pump_some(void)
{
    for (unsigned n = software_draw() % 4; n > 0; n--) software_pump();
}

cu_result cuStreamQuery(cu_stream stream)
{
    const cu_result r = enter_stream("cuStreamQuery", CU_LAUNCH_FAILED, stream, true);
    if (r != CU_OK) return software_leave(r);
    pump_some();
    if (software.sticky != CU_OK) return software_leave(software.sticky);
    if (stream->first != NULL) return software_leave(CU_NOT_READY);
    clock_join(&software.host, &stream->clock);
    return software_leave(CU_OK);
}

/* ---- events ---- */

cu_result cuEventCreate(cu_event *out, unsigned flags)
{
    cu_result r = software_enter_context("cuEventCreate", CU_OUT_OF_MEMORY);
    if (r == CU_OK && (*out = software_handle(sizeof **out)) == NULL) r = CU_OUT_OF_MEMORY;
    if (r == CU_OK) **out = (struct CUevent_st){.magic = EVENT_MAGIC, .flags = flags};
    return software_leave(r);
}

static cu_result enter_event(const char *name, cu_result error, cu_event e)
{
    const cu_result r = software_enter_context(name, error);
    return r == CU_OK && !event_is_valid(e) ? software_refuse(name, "no event, or one that is destroyed") : r;
}

cu_result cuEventDestroy_v2(cu_event event)
{
    const cu_result r = enter_event("cuEventDestroy_v2", CU_INVALID_HANDLE, event);
    if (r == CU_OK) event->magic = 0;
    return software_leave(r);
}

cu_result cuEventRecord(cu_event event, cu_stream stream)
{
    cu_result r = enter_event("cuEventRecord", CU_INVALID_HANDLE, event);
    if (r == CU_OK && !stream_is_valid(stream)) r = software_refuse("cuEventRecord", NO_STREAM);
    if (r != CU_OK || software_leaves_out("cuEventRecord")) return software_leave(r);
    event->capture_id = stream->capture != NULL ? stream->capture->id : 0;
    if (stream->capture != NULL) { /* a place in the graph, and no work */
        memcpy(event->need, stream->need, sizeof event->need);
        return software_leave(CU_OK);
    }
    software_op *op = op_make(OP_RECORD);
    op->event = event;
    return software_leave(stream_add(stream, op));
}

/* The stream becomes part of the capture in which the event was recorded. */
static cu_result capture_join(cu_stream s, cu_event e)
{
    cu_graph g = event_capture(e);
    if (s->capture != NULL && g != s->capture) {
        s->capture->is_broken = true;
        return g == NULL ? CU_CAPTURE_ISOLATION : CU_CAPTURE_UNMATCHED;
    }
    if (g == NULL) return CU_CAPTURED_EVENT;
    if (s->capture == NULL) memset(s->need, 0, sizeof s->need);
    s->capture = g;
    for (int b = 0; b < MOST_STREAMS; b++)
        if (e->need[b] > s->need[b]) s->need[b] = e->need[b];
    return CU_OK;
}

cu_result cuStreamWaitEvent(cu_stream stream, cu_event event, unsigned flags)
{
    cu_result r = enter_event("cuStreamWaitEvent", CU_INVALID_HANDLE, event);
    if (r == CU_OK && !stream_is_valid(stream)) r = software_refuse("cuStreamWaitEvent", NO_STREAM);
    if (r == CU_OK && flags != 0) r = CU_INVALID_VALUE;
    if (r != CU_OK || software_leaves_out("cuStreamWaitEvent")) return software_leave(r);
    if (stream->capture != NULL || event->capture_id != 0) return software_leave(capture_join(stream, event));
    if (event->last == NULL) return software_leave(CU_OK);
    software_op *op = op_make(OP_WAIT);
    op->event = event;
    return software_leave(stream_add(stream, op));
}

/* Nobody can wait for a place in a graph. */
static cu_result event_refuse(cu_event e)
{
    cu_graph g = event_capture(e);
    if (g != NULL) g->is_broken = true;
    return CU_CAPTURED_EVENT;
}

cu_result cuEventQuery(cu_event event)
{
    cu_result r = enter_event("cuEventQuery", CU_LAUNCH_FAILED, event);
    if (r == CU_OK && event->capture_id != 0) r = event_refuse(event);
    if (r != CU_OK) return software_leave(r);
    pump_some();
    if (software.sticky != CU_OK) return software_leave(software.sticky);
    if (!is_recorded(event)) return software_leave(CU_NOT_READY);
    clock_join(&software.host, &event->clock);
    return software_leave(CU_OK);
}

cu_result cuEventSynchronize(cu_event event)
{
    cu_result r = enter_event("cuEventSynchronize", CU_LAUNCH_FAILED, event);
    if (r == CU_OK && event->capture_id != 0) r = event_refuse(event);
    if (r != CU_OK || software_leaves_out("cuEventSynchronize")) return software_leave(r);
    software.counts.waits++;
    while (!is_recorded(event))
        if (!software_pump()) return software_leave(stuck());
    clock_join(&software.host, &event->clock);
    return software_leave(software.sticky);
}

cu_result cuEventElapsedTime(float *milliseconds, cu_event from, cu_event to)
{
    cu_result r = enter_event("cuEventElapsedTime", CU_INVALID_HANDLE, from);
    if (r == CU_OK &&
        (!event_is_valid(to) || ((from->flags | to->flags) & CU_NO_TIMING) || from->last == NULL || to->last == NULL))
        r = CU_INVALID_HANDLE;
    if (r == CU_OK && (!is_recorded(from) || !is_recorded(to))) r = CU_NOT_READY;
    if (r == CU_OK) *milliseconds = 0.001f * (float)(to->time - from->time); /* a microsecond for each piece of work */
    return software_leave(r);
}
