/* The stand-in for NCCL: values of every collective over processes, its order in streams and graphs, sends and
 * receives, and ranks that call different things. */
#include "kernels.h"
#include "kit.h"
#include "nccl_calls.h"
#include "software.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define X(name, symbol, params) nccl_result symbol params;
MEGA_NCCL_FUNCTIONS(X)
#undef X

/* A rank is a child process: it ends with the line of the first check that fails. */
#define CHECK(condition)                                                           \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "rank %d: line %d: %s\n", rank, __LINE__, #condition); \
            _exit(1);                                                              \
        }                                                                          \
    } while (0)
#define OK(call) CHECK((call) == 0)

enum { RANKS = 3, MOST = 60000 };

typedef struct rank_device {
    cu_stream a, b;
    cu_event made, summed;
    cu_function scale;
    cu_address in, out;
    char *host;
    nccl_comm comm;
} rank_device;

static rank_device device_begin(int rank, nccl_id id, unsigned seed)
{
    rank_device d = {0};
    cu_context context = NULL;
    cu_module module = NULL;
    OK(cuInit(0));
    software_reset(seed + (unsigned)rank);
    watch_forget(true);
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&d.a, CU_NON_BLOCKING));
    OK(cuStreamCreate(&d.b, CU_NON_BLOCKING));
    OK(cuEventCreate(&d.made, CU_NO_TIMING));
    OK(cuEventCreate(&d.summed, CU_NO_TIMING));
    OK(cuMemAlloc_v2(&d.in, RANKS * MOST * 4));
    OK(cuMemAlloc_v2(&d.out, RANKS * MOST * 4));
    OK(cuMemHostAlloc((void **)&d.host, RANKS * MOST * 4, 0));
    OK(cuModuleLoadDataEx(&module, "// software device", 0, NULL, NULL));
    OK(cuModuleGetFunction(&d.scale, module, "test_scale"));
    OK(ncclCommInitRank(&d.comm, RANKS, id, rank));
    return d;
}

static void ranks_run(void (*body)(int rank, nccl_id id, unsigned seed), unsigned seed)
{
    nccl_id id;
    pid_t child[RANKS];
    assert_int_equal(ncclGetUniqueId(&id), 0);
    fflush(stdout);
    for (int r = 0; r < RANKS; r++)
        if ((child[r] = fork()) == 0) {
            body(r, id, seed);
            _exit(0);
        }
    for (int r = 0; r < RANKS; r++) {
        int status = 0;
        assert_int_equal(waitpid(child[r], &status, 0), child[r]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static float value(int rank, size_t i)
{
    return (float)((i * 7919 + (size_t)rank * 31) % 201) / 8.0f;
}

static void fill(rank_device *d, int rank, size_t count)
{
    for (size_t i = 0; i < count; i++) ((float *)d->host)[i] = value(rank, i);
    OK(cuMemcpyHtoDAsync_v2(d->in, d->host, count * 4, d->a));
    OK(cuMemsetD8Async(d->out, 0, RANKS * MOST * 4, d->a));
    OK(cuStreamSynchronize(d->a));
}

static const float *result(rank_device *d, int rank, size_t count)
{
    OK(cuMemcpyDtoHAsync_v2(d->host, d->out, count * 4, d->a));
    OK(cuStreamSynchronize(d->a));
    CHECK(watch_reports() == 0);
    return (const float *)d->host;
}

static void values_of(rank_device *d, int rank, size_t n)
{
    const void *in = (const void *)(uintptr_t)d->in;
    void *out = (void *)(uintptr_t)d->out;
    fill(d, rank, n);
    OK(ncclAllReduce(in, out, n, NCCL_F32, NCCL_SUM, d->comm, d->a));
    const float *f = result(d, rank, n);
    for (size_t i = 0; i < n; i++) CHECK(f[i] == value(0, i) + value(1, i) + value(2, i));
    fill(d, rank, n);
    OK(ncclAllReduce(in, out, n, NCCL_F32, NCCL_MAX, d->comm, d->a));
    f = result(d, rank, n);
    for (size_t i = 0; i < n; i++) CHECK(f[i] >= value(0, i) && f[i] >= value(1, i) && f[i] >= value(2, i));
    fill(d, rank, n);
    OK(ncclAllGather(in, out, n, NCCL_F32, d->comm, d->a));
    f = result(d, rank, RANKS * n);
    for (size_t i = 0; i < RANKS * n; i++) CHECK(f[i] == value((int)(i / n), i % n));
    fill(d, rank, RANKS * n);
    OK(ncclReduceScatter(in, out, n, NCCL_F32, NCCL_SUM, d->comm, d->a));
    f = result(d, rank, n);
    for (size_t i = 0; i < n; i++) {
        const size_t k = (size_t)rank * n + i;
        CHECK(f[i] == value(0, k) + value(1, k) + value(2, k));
    }
    fill(d, rank, n);
    OK(ncclBroadcast(in, out, n, NCCL_F32, 1, d->comm, d->a));
    f = result(d, rank, n);
    for (size_t i = 0; i < n; i++) CHECK(f[i] == value(1, i));
}

static void values_body(int rank, nccl_id id, unsigned seed)
{
    rank_device d = device_begin(rank, id, seed);
    values_of(&d, rank, 1);
    values_of(&d, rank, 5000);
    values_of(&d, rank, MOST / RANKS); /* in several pieces */
    uint16_t *h = (uint16_t *)d.host;
    for (int i = 0; i < 100; i++) h[i] = (uint16_t)bf16_pair(value(rank, (size_t)i), 0);
    OK(cuMemcpyHtoDAsync_v2(d.in, d.host, 200, d.a));
    OK(cuStreamSynchronize(d.a));
    void *in = (void *)(uintptr_t)d.in;
    OK(ncclAllReduce(in, in, 100, NCCL_BF16, NCCL_SUM, d.comm, d.a)); /* in its place */
    OK(cuMemcpyDtoHAsync_v2(d.host, d.in, 200, d.a));
    OK(cuStreamSynchronize(d.a));
    for (size_t i = 0; i < 100; i++) {
        float sum = 0;
        for (int r = 0; r < RANKS; r++) sum += bf16_low(bf16_pair(value(r, i), 0));
        CHECK(h[i] == bf16_pair(sum, 0));
    }
    CHECK(ncclAllReduce(in, in, 1, 99, NCCL_SUM, d.comm, d.a) == NCCL_INVALID_ARGUMENT);
    OK(ncclCommDestroy(d.comm));
}

static void values(void **state)
{
    (void)state;
    ranks_run(values_body, 1);
}

/* Gradients are made in one stream, summed over ranks in another, and used in the first. */
enum { NO_MISTAKE, EARLY_SUM, EARLY_USE, AS_GRAPH };

static void step(rank_device *d, int rank, int mistake)
{
    const scale_args made = {(float *)d->in, (float *)d->in, 1, 1, 1024, 0};
    const scale_args used = {(float *)d->out + 1024, (float *)d->out, 2, 0, 1024, 0};
    void *params[] = {(void *)&made}, *params_used[] = {(void *)&used};
    OK(cuLaunchKernel(d->scale, 2, 1, 1, 64, 1, 1, 0, d->a, params, NULL));
    OK(cuEventRecord(d->made, d->a));
    if (mistake != EARLY_SUM) OK(cuStreamWaitEvent(d->b, d->made, 0));
    OK(ncclAllReduce((void *)(uintptr_t)d->in, (void *)(uintptr_t)d->out, 1024, NCCL_F32, NCCL_SUM, d->comm, d->b));
    OK(cuEventRecord(d->summed, d->b));
    if (mistake != EARLY_USE) OK(cuStreamWaitEvent(d->a, d->summed, 0));
    OK(cuLaunchKernel(d->scale, 1, 1, 1, 64, 1, 1, 0, d->a, params_used, NULL));
}

static void streams_of(int rank, nccl_id id, unsigned seed, int mistake)
{
    rank_device d = device_begin(rank, id, seed);
    cu_graph graph = NULL;
    cu_graph_exec exec = NULL;
    OK(cuMemsetD32Async(d.in, 0, 1024, d.a));
    if (mistake == AS_GRAPH) OK(cuStreamBeginCapture_v2(d.a, CU_CAPTURE_THREAD));
    for (int k = 0; k < (mistake == AS_GRAPH ? 1 : 3); k++) step(&d, rank, mistake);
    if (mistake == AS_GRAPH) {
        OK(cuStreamEndCapture(d.a, &graph));
        OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        for (int k = 0; k < 3; k++) OK(cuGraphLaunch(exec, d.a));
    }
    if (mistake == EARLY_SUM || mistake == EARLY_USE) {
        OK(cuCtxSynchronize());
        CHECK(watch_reports() > 0);
        return;
    }
    OK(cuMemcpyDtoHAsync_v2(d.host, d.out + 4096, 4096, d.a));
    OK(cuStreamSynchronize(d.a));
    CHECK(watch_reports() == 0);
    for (int i = 0; i < 1024; i++) CHECK(((const float *)d.host)[i] == 18); /* 2 (3 + 3 + 3) */
}

static void right_body(int rank, nccl_id id, unsigned seed)
{
    streams_of(rank, id, seed, NO_MISTAKE);
}
static void graph_body(int rank, nccl_id id, unsigned seed)
{
    streams_of(rank, id, seed, AS_GRAPH);
}
static void early_sum_body(int rank, nccl_id id, unsigned seed)
{
    streams_of(rank, id, seed, EARLY_SUM);
}
static void early_use_body(int rank, nccl_id id, unsigned seed)
{
    streams_of(rank, id, seed, EARLY_USE);
}

static void streams(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 8; seed++) {
        ranks_run(right_body, seed);
        ranks_run(graph_body, seed);
        ranks_run(early_sum_body, seed);
        ranks_run(early_use_body, seed);
    }
}

/* Each rank sends to the next and receives from the one before, as one group. Outside of a group a send ends only
 * when it is received: if every rank sends first, all of them wait until the calls give up. */
static void ring_body(int rank, nccl_id id, unsigned seed)
{
    rank_device d = device_begin(rank, id, seed);
    const int next = (rank + 1) % RANKS, last = (rank + RANKS - 1) % RANKS;
    const void *in = (const void *)(uintptr_t)d.in;
    void *out = (void *)(uintptr_t)d.out;
    fill(&d, rank, 40000);
    OK(ncclGroupStart());
    OK(ncclSend(in, 40000, NCCL_F32, next, d.comm, d.a));
    OK(ncclRecv(out, 40000, NCCL_F32, last, d.comm, d.a));
    OK(ncclGroupEnd());
    const float *f = result(&d, rank, 40000);
    for (size_t i = 0; i < 40000; i++) CHECK(f[i] == value(last, i));
    OK(ncclSend(in, 10, NCCL_F32, next, d.comm, d.a));
    OK(ncclRecv(out, 10, NCCL_F32, last, d.comm, d.a));
    for (int i = 0; i < 1000; i++) CHECK(cuStreamQuery(d.a) == CU_NOT_READY);
    OK(ncclCommAbort(d.comm));
    OK(cuStreamSynchronize(d.a));
}

static void sends(void **state)
{
    (void)state;
    ranks_run(ring_body, 1);
}

static void different_body(int rank, nccl_id id, unsigned seed)
{
    rank_device d = device_begin(rank, id, seed);
    void *in = (void *)(uintptr_t)d.in, *out = (void *)(uintptr_t)d.out;
    nccl_result error = NCCL_OK;
    fill(&d, rank, 100);
    OK(ncclCommGetAsyncError(d.comm, &error));
    OK(error);
    OK(ncclAllReduce(in, out, rank == 1 ? 99 : 100, NCCL_F32, NCCL_SUM, d.comm, d.a));
    OK(cuStreamSynchronize(d.a));
    OK(ncclCommGetAsyncError(d.comm, &error));
    CHECK(error == NCCL_INVALID_USAGE);
    CHECK(ncclAllReduce(in, out, 1, NCCL_F32, NCCL_SUM, d.comm, d.a) == NCCL_INVALID_USAGE);
}

static void different_calls(void **state)
{
    (void)state;
    ranks_run(different_body, 1);
}

/* A rank that has died: the others end with an error. */
static void dead_body(int rank, nccl_id id, unsigned seed)
{
    rank_device d = device_begin(rank, id, seed);
    void *in = (void *)(uintptr_t)d.in, *out = (void *)(uintptr_t)d.out;
    nccl_comm comm = NULL;
    nccl_result error = NCCL_OK;
    fill(&d, rank, 100);
    if (rank == 1) return;
    setenv("MEGA_SOFTWARE_CUDA_PATIENCE", "0", 1);
    OK(ncclAllReduce(in, out, 100, NCCL_F32, NCCL_SUM, d.comm, d.a));
    OK(cuStreamSynchronize(d.a));
    OK(ncclCommGetAsyncError(d.comm, &error));
    CHECK(error == NCCL_REMOTE_ERROR);
    if (rank != 0) return;
    OK(ncclGetUniqueId(&id));
    CHECK(ncclCommInitRank(&comm, 2, id, 0) == NCCL_SYSTEM_ERROR);
}

static void dead_rank(void **state)
{
    (void)state;
    ranks_run(dead_body, 1);
}

/* ---- calls that fail ---- */

/* Two calls as a group, whose end says so too if one of them has failed. */
static bool group_runs(bool sends, void *p, nccl_comm comm, cu_stream s)
{
    if (ncclGroupStart() != NCCL_OK) return false;
    const nccl_result first =
        sends ? ncclSend(p, 50, NCCL_F32, 0, comm, s) : ncclAllReduce(p, p, 100, NCCL_F32, NCCL_SUM, comm, s);
    const nccl_result second =
        sends ? ncclRecv((char *)p + 200, 50, NCCL_F32, 0, comm, s) : ncclBroadcast(p, p, 100, NCCL_F32, 0, comm, s);
    const nccl_result end = ncclGroupEnd();
    return first == NCCL_OK && second == NCCL_OK && end == NCCL_OK;
}

/* A program of one rank. Returns whether all of its calls have succeeded. */
static bool alone_runs(void)
{
    nccl_id id;
    nccl_comm comm = NULL;
    nccl_result error = NCCL_OK;
    cu_context context;
    cu_stream s;
    cu_address a;
    int version;
    if (cuDevicePrimaryCtxRetain(&context, 0) != CU_OK || cuCtxSetCurrent(context) != CU_OK ||
        cuStreamCreate(&s, CU_NON_BLOCKING) != CU_OK || cuMemAlloc_v2(&a, 400) != CU_OK ||
        cuMemsetD8Async(a, 0, 400, s) != CU_OK || ncclGetVersion(&version) != NCCL_OK ||
        ncclGetUniqueId(&id) != NCCL_OK || ncclCommInitRank(&comm, 1, id, 0) != NCCL_OK)
        return false;
    void *p = (void *)(uintptr_t)a;
    const bool is_ok = group_runs(false, p, comm, s) && ncclAllGather(p, p, 100, NCCL_F32, comm, s) == NCCL_OK &&
                       ncclReduceScatter(p, p, 100, NCCL_F32, NCCL_SUM, comm, s) == NCCL_OK &&
                       group_runs(true, p, comm, s) && cuStreamSynchronize(s) == CU_OK &&
                       ncclCommGetAsyncError(comm, &error) == NCCL_OK && error == NCCL_OK;
    if (!is_ok) {
        ncclCommAbort(comm);
        return false;
    }
    return ncclCommDestroy(comm) == NCCL_OK && ncclCommDestroy(comm) == NCCL_INVALID_ARGUMENT &&
           ncclAllGather(p, p, 100, NCCL_F32, comm, s) == NCCL_INVALID_ARGUMENT;
}

/* Every call, of the driver and of NCCL, fails in turn. */
static void alone_body(int rank, nccl_id id, unsigned seed)
{
    char text[20];
    int n = 0;
    bool is_ok = false;
    (void)id;
    if (rank != 0) return;
    OK(cuInit(0));
    while (!is_ok) {
        snprintf(text, sizeof text, "%d", ++n);
        setenv("MEGA_SOFTWARE_CUDA_FAIL", text, 1);
        software_reset(seed);
        is_ok = alone_runs();
    }
    CHECK(n - 1 == 23);
}

static void failing_calls(void **state)
{
    (void)state;
    ranks_run(alone_body, 1);
}

/* One rank's call fails, and so its others end with an error too. */
static void lost_body(int rank, nccl_id id, unsigned seed)
{
    if (rank == 1) setenv("MEGA_SOFTWARE_CUDA_FAIL", "ncclAllReduce:2", 1);
    rank_device d = device_begin(rank, id, seed);
    void *in = (void *)(uintptr_t)d.in, *out = (void *)(uintptr_t)d.out;
    nccl_result error = NCCL_OK;
    fill(&d, rank, 100);
    OK(ncclAllReduce(in, out, 100, NCCL_F32, NCCL_SUM, d.comm, d.a));
    OK(cuStreamSynchronize(d.a));
    setenv("MEGA_SOFTWARE_CUDA_PATIENCE", "0", 1);
    CHECK(ncclAllReduce(in, out, 100, NCCL_F32, NCCL_SUM, d.comm, d.a) == (rank == 1 ? NCCL_SYSTEM_ERROR : NCCL_OK));
    OK(cuStreamSynchronize(d.a));
    OK(ncclCommGetAsyncError(d.comm, &error));
    CHECK(error == (rank == 1 ? NCCL_OK : NCCL_REMOTE_ERROR));
}

static void failing_rank(void **state)
{
    (void)state;
    ranks_run(lost_body, 1);
}

int main(void)
{
    setenv("MEGA_SOFTWARE_CUDA_MEMORY", "4000000", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(values),      cmocka_unit_test(streams),
                                       cmocka_unit_test(sends),       cmocka_unit_test(different_calls),
                                       cmocka_unit_test(dead_rank),   cmocka_unit_test(failing_calls),
                                       cmocka_unit_test(failing_rank)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
