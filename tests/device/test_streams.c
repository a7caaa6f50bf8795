/* Mistakes in the use of streams: programs of several streams run right with every seed; and with one wait or one
 * record left out, whichever it is, the watch reports it with every seed. Each program is a table of what is queued,
 * round by round, with no order that is not needed. */
#include "kernels.h"
#include "kit.h"
#include "software.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum { END, FILL, SCALE, IN, OUT, RECORD, WAIT, HOST_WAIT, HOST_SET } step_kind; /* END: no step */
typedef struct step {
    step_kind kind;
    int stream; /* RECORD and WAIT: event a */
    int a, b;   /* SCALE: device buffers, a = 2 b + 1; IN, OUT: device buffer a, host buffer b */
} step;

enum { COUNT = 256, BUFFERS = 8, EVENTS = 12, ROUNDS = 4, MOST_STEPS = 40, NOTHING = -1 };
enum { MAIN, LOAD, SIDE, SAVE, STREAMS };

static const struct program {
    const char *name;
    step steps[MOST_STEPS];
} programs[] = {
    {"input, two stages, output",
     {{HOST_WAIT, 0, 0, 0},
      {HOST_SET, 0, 0, 0},
      {WAIT, LOAD, 1, 0},
      {IN, LOAD, 0, 0},
      {RECORD, LOAD, 0, 0},
      {WAIT, MAIN, 0, 0},
      {SCALE, MAIN, 1, 0},
      {RECORD, MAIN, 1, 0},
      {WAIT, MAIN, 3, 0},
      {SCALE, MAIN, 2, 1},
      {RECORD, MAIN, 2, 0},
      {WAIT, SIDE, 2, 0},
      {WAIT, SIDE, 4, 0},
      {SCALE, SIDE, 3, 2},
      {RECORD, SIDE, 3, 0},
      {WAIT, SAVE, 3, 0},
      {OUT, SAVE, 3, 1},
      {RECORD, SAVE, 4, 0},
      {END, 0, 0, 0}}},
    {"two buckets of gradients, summed beside the backward",
     {{FILL, MAIN, 0, 0},
      {SCALE, MAIN, 1, 0},
      {RECORD, MAIN, 0, 0},
      {SCALE, MAIN, 2, 0},
      {RECORD, MAIN, 1, 0},
      {WAIT, SIDE, 0, 0},
      {SCALE, SIDE, 3, 1},
      {RECORD, SIDE, 2, 0},
      {WAIT, SIDE, 1, 0},
      {SCALE, SIDE, 4, 2},
      {RECORD, SIDE, 3, 0},
      {WAIT, MAIN, 2, 0},
      {SCALE, MAIN, 5, 3},
      {WAIT, MAIN, 3, 0},
      {SCALE, MAIN, 6, 4},
      {OUT, MAIN, 6, 1},
      {END, 0, 0, 0}}},
    {"two buffers of input",
     {{WAIT, LOAD, 1, 0},
      {IN, LOAD, 0, 2},
      {RECORD, LOAD, 0, 0},
      {WAIT, MAIN, 0, 0},
      {SCALE, MAIN, 2, 0},
      {RECORD, MAIN, 1, 0},
      {WAIT, LOAD, 3, 0},
      {IN, LOAD, 1, 3},
      {RECORD, LOAD, 2, 0},
      {WAIT, MAIN, 2, 0},
      {SCALE, MAIN, 3, 1},
      {RECORD, MAIN, 3, 0},
      {OUT, MAIN, 2, 0},
      {OUT, MAIN, 3, 1},
      {END, 0, 0, 0}}},
    {"a save beside the training",
     {{FILL, MAIN, 1, 0},
      {WAIT, MAIN, 1, 0},
      {FILL, MAIN, 0, 0},
      {SCALE, MAIN, 0, 1},
      {RECORD, MAIN, 0, 0},
      {WAIT, SAVE, 0, 0},
      {OUT, SAVE, 0, 1},
      {RECORD, SAVE, 1, 0},
      {END, 0, 0, 0}}},
    {"a ring of three streams",
     {{WAIT, MAIN, 2, 0},
      {FILL, MAIN, 0, 0},
      {SCALE, MAIN, 1, 0},
      {RECORD, MAIN, 0, 0},
      {WAIT, SIDE, 0, 0},
      {SCALE, SIDE, 2, 1},
      {RECORD, SIDE, 1, 0},
      {WAIT, SAVE, 1, 0},
      {SCALE, SAVE, 0, 2},
      {OUT, SAVE, 0, 1},
      {RECORD, SAVE, 2, 0},
      {END, 0, 0, 0}}},
    {"three readers of one buffer",
     {{WAIT, MAIN, 1, 0},
      {WAIT, MAIN, 2, 0},
      {WAIT, MAIN, 3, 0},
      {FILL, MAIN, 0, 0},
      {RECORD, MAIN, 0, 0},
      {WAIT, LOAD, 0, 0},
      {SCALE, LOAD, 1, 0},
      {RECORD, LOAD, 1, 0},
      {WAIT, SIDE, 0, 0},
      {SCALE, SIDE, 2, 0},
      {RECORD, SIDE, 2, 0},
      {WAIT, SAVE, 0, 0},
      {OUT, SAVE, 0, 1},
      {RECORD, SAVE, 3, 0},
      {END, 0, 0, 0}}},
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static cu_context context;
static cu_function scale;

typedef struct machine {
    cu_stream stream[STREAMS];
    cu_event event[EVENTS];
    cu_address buffer[BUFFERS];
    float *host[BUFFERS];
    double value[BUFFERS],
        expected[BUFFERS]; /* of device buffers, in the order of the table; of host buffers, 0: none */
    bool has_event[EVENTS], is_graph;
    cu_result error; /* the first */
} machine;

static void ok_at(cu_result r, int line)
{
    const char *name;
    cuGetErrorName(r, &name);
    if (r != CU_OK) fail_msg("line %d: %s", line, name);
}
#define ok(call) ok_at((call), __LINE__)

static void note(machine *m, cu_result r)
{
    if (m->error == CU_OK) m->error = r;
}

static int begin(void **state)
{
    cu_module module = NULL;
    (void)state;
    setenv("MEGA_SOFTWARE_CUDA_MEMORY", "1000000", 1);
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxSetCurrent(context));
    ok(cuModuleLoadDataEx(&module, "// software device", 0, NULL, NULL));
    ok(cuModuleGetFunction(&scale, module, "test_scale"));
    return 0;
}

static void host_fill(float *at, double value)
{
    for (int i = 0; i < COUNT; i++) at[i] = (float)value;
}

static void machine_begin(machine *m, unsigned seed, bool is_graph)
{
    software_reset(seed);
    watch_forget(true);
    *m = (machine){.is_graph = is_graph};
    for (int i = 0; i < STREAMS; i++) ok(cuStreamCreate(&m->stream[i], CU_NON_BLOCKING));
    for (int i = 0; i < EVENTS; i++) ok(cuEventCreate(&m->event[i], CU_NO_TIMING));
    for (int i = 0; i < BUFFERS; i++) {
        ok(cuMemAlloc_v2(&m->buffer[i], COUNT * sizeof(float)));
        ok(cuMemHostAlloc((void **)&m->host[i], COUNT * sizeof(float), 0));
        host_fill(m->host[i], i + 2);
    }
}

/* Queues one step. Sequential order, as in the table, says which values are right. */
static void queue(machine *m, const step *s, int round)
{
    cu_stream stream = m->stream[s->stream];
    const cu_address a = m->buffer[s->a], b = m->buffer[s->b];
    const scale_args args = {(float *)a, (float *)b, 2, 1, COUNT, 0};
    void *params[] = {(void *)&args};
    switch (s->kind) {
    case FILL:
        note(m, cuMemsetD32Async(a, 0x3f800000, COUNT, stream));
        m->value[s->a] = 1;
        break;
    case SCALE:
        note(m, cuLaunchKernel(scale, 1, 1, 1, 64, 1, 1, 0, stream, params, NULL));
        m->value[s->a] = 2 * m->value[s->b] + 1;
        break;
    case IN:
        note(m, cuMemcpyHtoDAsync_v2(a, m->host[s->b], COUNT * sizeof(float), stream));
        m->value[s->a] = (double)m->host[s->b][0];
        break;
    case OUT:
        note(m, cuMemcpyDtoHAsync_v2(m->host[s->b], a, COUNT * sizeof(float), stream));
        m->expected[s->b] = m->value[s->a];
        break;
    case RECORD:
        note(m, cuEventRecord(m->event[s->a], stream));
        m->has_event[s->a] = true;
        break;
    case WAIT:
        if (m->has_event[s->a]) note(m, cuStreamWaitEvent(stream, m->event[s->a], 0));
        break;
    case HOST_WAIT:
        if (!m->is_graph) note(m, cuEventSynchronize(m->event[s->a]));
        break;
    case HOST_SET:
        if (!m->is_graph) host_fill(m->host[s->a], round + 1);
        break;
    case END: break;
    }
}

/* All rounds, without step `omit` (number: round * MOST_STEPS + its place). */
static void queue_all(machine *m, const struct program *p, int rounds, int omit)
{
    for (int round = 0; round < rounds; round++)
        for (int i = 0; p->steps[i].kind != END; i++)
            if (round * MOST_STEPS + i != omit) queue(m, &p->steps[i], round);
}

/* Other streams join the capture of MAIN, and MAIN waits for all of them at its end. */
static void capture_fork(machine *m, bool is_begin)
{
    for (int s = 1; s < STREAMS; s++) {
        cu_event e = m->event[EVENTS - s];
        note(m, cuEventRecord(e, m->stream[is_begin ? 0 : s]));
        note(m, cuStreamWaitEvent(m->stream[is_begin ? s : 0], e, 0));
    }
}

static void run_graph(machine *m, const struct program *p, int omit)
{
    cu_graph graph = NULL;
    cu_graph_exec exec = NULL;
    note(m, cuStreamBeginCapture_v2(m->stream[MAIN], CU_CAPTURE_THREAD));
    capture_fork(m, true);
    queue_all(m, p, 2, omit);
    capture_fork(m, false);
    note(m, cuStreamEndCapture(m->stream[MAIN], &graph));
    note(m, cuGraphInstantiateWithFlags(&exec, graph, 0));
    note(m, cuGraphDestroy(graph));
    for (int n = 0; n < 2; n++) note(m, cuGraphLaunch(exec, m->stream[MAIN]));
    note(m, cuGraphExecDestroy(exec));
}

/* Runs a program. Returns whether no call failed and all values that came to the host are right. */
static bool run(const struct program *p, unsigned seed, bool is_graph, int omit, bool *is_noticed)
{
    machine m;
    machine_begin(&m, seed, is_graph);
    if (is_graph) run_graph(&m, p, omit);
    else
        queue_all(&m, p, ROUNDS, omit);
    note(&m, cuCtxSynchronize());
    bool is_right = m.error == CU_OK;
    for (int b = 0; b < BUFFERS; b++)
        for (int i = 0; i < COUNT && m.expected[b] != 0; i++)
            is_right = is_right && fabs((double)m.host[b][i] - m.expected[b]) < 1e-3;
    for (int s = 0; s < STREAMS; s++) cuStreamDestroy_v2(m.stream[s]);
    for (int i = 0; i < EVENTS; i++) cuEventDestroy_v2(m.event[i]);
    *is_noticed = watch_reports() > 0 || m.error != CU_OK;
    return is_right;
}

static unsigned seeds(unsigned fallback)
{
    const char *text = getenv("MEGA_DEVICE_SEEDS");
    return text != NULL ? (unsigned)atoi(text) : fallback;
}

static void right_programs(void **state)
{
    (void)state;
    for (int n = 0; n < PROGRAMS * 2; n++)
        for (unsigned seed = 0; seed < 50; seed++) {
            const struct program *p = &programs[n / 2];
            bool is_noticed;
            if (!run(p, seed, n % 2, NOTHING, &is_noticed)) fail_msg("%s: seed %u: wrong values", p->name, seed);
            if (watch_reports() > 0) fail_msg("%s: seed %u: %s", p->name, seed, watch_first_report());
        }
}

/* A wait does nothing before the event is recorded, and a record nothing if nobody waits for it. */
static bool is_needed(const struct program *p, int rounds, int number)
{
    const step *s = &p->steps[number % MOST_STEPS];
    const int direction = s->kind == WAIT ? -1 : 1;
    if (s->kind != WAIT && s->kind != RECORD) return false;
    for (int n = number + direction; n >= 0 && n < rounds * MOST_STEPS; n += direction) {
        const step *other = &p->steps[n % MOST_STEPS];
        if (other->a != s->a) continue;
        if (other->kind == RECORD) return s->kind == WAIT;
        if (other->kind == WAIT && s->kind == RECORD) return true;
    }
    return false;
}

static void omitted(bool is_graph)
{
    const unsigned count = seeds(6);
    const int rounds = is_graph ? 2 : ROUNDS;
    int mistakes = 0;
    uint64_t by_values = 0, runs = 0;
    for (int n = 0; n < PROGRAMS * rounds * MOST_STEPS; n++) {
        const struct program *p = &programs[n / (rounds * MOST_STEPS)];
        const int number = n % (rounds * MOST_STEPS);
        if (!is_needed(p, rounds, number)) continue;
        mistakes++;
        for (unsigned seed = 0; seed < count; seed++, runs++) {
            bool is_noticed;
            by_values += !run(p, seed, is_graph, number, &is_noticed);
            if (!is_noticed)
                fail_msg("%s: round %d without step %d, seed %u: no report", p->name, number / MOST_STEPS,
                         number % MOST_STEPS, seed);
        }
    }
    print_message("%d waits and records left out, each with %u seeds: all are reported, %.0f %% have wrong values\n",
                  mistakes, count, 100.0 * (double)by_values / (double)runs);
    assert_true(mistakes > 40);
}

static void left_out(void **state)
{
    (void)state;
    omitted(false);
}

static void left_out_of_graphs(void **state)
{
    (void)state;
    omitted(true);
}

/* One event in two streams, of which either may come first: each wait is for the record before it. */
static void recorded_twice(void **state)
{
    (void)state;
    static const step scaled = {SCALE, SIDE, 1, 0}, out = {OUT, SIDE, 1, 1}, filled = {FILL, MAIN, 0, 0};
    for (unsigned seed = 0; seed < 50; seed++) {
        machine m;
        machine_begin(&m, seed, false);
        queue(&m, &filled, 0);
        ok(cuEventRecord(m.event[0], m.stream[MAIN]));
        ok(cuStreamWaitEvent(m.stream[SIDE], m.event[0], 0));
        ok(cuEventRecord(m.event[0], m.stream[LOAD]));
        queue(&m, &scaled, 0);
        queue(&m, &out, 0);
        ok(cuEventSynchronize(m.event[0]));
        ok(cuCtxSynchronize());
        ok(cuEventQuery(m.event[0]));
        assert_int_equal((int)m.host[1][COUNT - 1], 3);
        assert_int_equal(watch_reports(), 0);
    }
}

/* Who destroys a stream has not waited for its work. */
static void destroyed(void **state)
{
    (void)state;
    static const step filled = {FILL, LOAD, 0, 0}, scaled = {SCALE, MAIN, 1, 0};
    for (unsigned seed = 0; seed < 20; seed++) {
        machine m;
        machine_begin(&m, seed, false);
        queue(&m, &filled, 0);
        ok(cuStreamDestroy_v2(m.stream[LOAD]));
        queue(&m, &scaled, 0);
        ok(cuCtxSynchronize());
        assert_has(watch_first_report(), "no event orders it after a write");
    }
}

/* A new stream in the place of a destroyed one does not come after it either, unless the host has waited. */
static void place_is_used_again(void **state)
{
    (void)state;
    static const step filled = {FILL, LOAD, 0, 0}, scaled = {SCALE, LOAD, 1, 0};
    for (int waits = 0; waits < 2; waits++) {
        machine m;
        machine_begin(&m, 1, false);
        queue(&m, &filled, 0);
        if (waits) ok(cuStreamSynchronize(m.stream[LOAD]));
        ok(cuStreamDestroy_v2(m.stream[LOAD]));
        ok(cuStreamCreate(&m.stream[LOAD], CU_NON_BLOCKING));
        queue(&m, &scaled, 0);
        ok(cuCtxSynchronize());
        if (waits) assert_int_equal(watch_reports(), 0);
        else
            assert_has(watch_first_report(), "no event orders it after a write");
    }
}

/* ---- captures that are wrong ---- */

static void captures(void **state)
{
    (void)state;
    machine m;
    cu_graph graph;
    machine_begin(&m, 1, false);
    ok(cuStreamBeginCapture_v2(m.stream[0], CU_CAPTURE_THREAD));
    ok(cuEventRecord(m.event[0], m.stream[0]));
    ok(cuStreamWaitEvent(m.stream[1], m.event[0], 0));
    ok(cuMemsetD32Async(m.buffer[0], 0, COUNT, m.stream[1]));
    assert_int_equal(cuStreamEndCapture(m.stream[1], &graph), CU_CAPTURE_UNMATCHED);
    assert_int_equal(cuStreamEndCapture(m.stream[0], &graph), CU_CAPTURE_UNJOINED);
    assert_int_equal(cuEventQuery(m.event[0]), CU_CAPTURED_EVENT);
    assert_int_equal(cuStreamWaitEvent(m.stream[0], m.event[0], 0), CU_CAPTURED_EVENT);
    ok(cuEventRecord(m.event[1], m.stream[1]));
    ok(cuStreamBeginCapture_v2(m.stream[0], CU_CAPTURE_THREAD));
    assert_int_equal(cuStreamWaitEvent(m.stream[0], m.event[1], 0), CU_CAPTURE_ISOLATION);
    assert_int_equal(cuStreamEndCapture(m.stream[0], &graph), CU_CAPTURE_INVALIDATED);
    ok(cuStreamBeginCapture_v2(m.stream[0], CU_CAPTURE_THREAD));
    assert_int_equal(cuStreamSynchronize(m.stream[0]), CU_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(m.stream[0], &graph), CU_CAPTURE_INVALIDATED);
    ok(cuStreamBeginCapture_v2(m.stream[0], CU_CAPTURE_THREAD));
    assert_int_equal(cuMemcpyHtoDAsync_v2(m.buffer[0], &m, 16, m.stream[0]), CU_CAPTURE_UNSUPPORTED); /* not pinned */
    assert_int_equal(cuStreamEndCapture(m.stream[0], &graph), CU_CAPTURE_INVALIDATED);
    ok(cuStreamSynchronize(m.stream[0]));
}

/* Every call of a program fails in turn: the program sees the error and can leave. */
static void failing_calls(void **state)
{
    (void)state;
    char text[20];
    int failed = 0;
    for (int n = 1; n < 400; n++) {
        cu_stream s = NULL;
        cu_address a = 0;
        cu_event e = NULL;
        float *host = NULL;
        snprintf(text, sizeof text, "%d", n);
        setenv("MEGA_SOFTWARE_CUDA_FAIL", text, 1);
        software_reset(1);
        unsetenv("MEGA_SOFTWARE_CUDA_FAIL");
        cu_result r = cuStreamCreate(&s, CU_NON_BLOCKING);
        if (r == CU_OK) r = cuEventCreate(&e, 0);
        if (r == CU_OK) r = cuMemAlloc_v2(&a, COUNT * 4);
        if (r == CU_OK) r = cuMemHostAlloc((void **)&host, COUNT * 4, 0);
        for (int i = 0; i < 10 && r == CU_OK; i++) {
            r = cuMemsetD32Async(a, 0, COUNT, s);
            if (r == CU_OK) r = cuMemcpyDtoHAsync_v2(host, a, COUNT * 4, s);
            if (r == CU_OK) r = cuEventRecord(e, s);
            if (r == CU_OK) r = cuEventSynchronize(e);
            if (r == CU_OK) assert_int_equal(host[COUNT - 1], 0);
        }
        if (r == CU_OK) break;
        failed++;
        if (s != NULL) cuStreamDestroy_v2(s);
        if (e != NULL) cuEventDestroy_v2(e);
        cuMemFree_v2(a);
    }
    assert_int_equal(failed, 4 + 4 * 10);
    software_reset(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(right_programs),     cmocka_unit_test(left_out),
                                       cmocka_unit_test(left_out_of_graphs), cmocka_unit_test(recorded_twice),
                                       cmocka_unit_test(destroyed),          cmocka_unit_test(place_is_used_again),
                                       cmocka_unit_test(captures),           cmocka_unit_test(failing_calls)};
    return cmocka_run_group_tests(tests, begin, NULL);
}
