/* The world: all ranks, and what each announces at the start. */
#include "megalith/assert.h"
#include "megalith/comm_log.h"
#include "megalith/memory.h"
#include "megalith/threads.h"
#include "watch/record_impl.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define DEFAULT_TIMEOUT_S 600.0
#define HOST_TIMEOUT_S    6.0

/* Code and libraries as mapped by a process that trains, the part of it that is mapped at its start, and data of
 * libraries; MPI adds to each. Kernels map more or less of a library around what a program touches: 20 % more were
 * measured on another kind of machine. */
#define CODE_BYTES       9.0e6
#define CODE_START_BYTES 7.0e6
#define DATA_BYTES       1.2e6
#define MPI_CODE_BYTES   7.9e6
#define MPI_START_BYTES  8.4e6
#define MPI_DATA_BYTES   2.6e6
#define SCALE_NOISE      0.1 /* what differs from start to start */

/* Cores that the ranks of this host share; a rank that its launcher has bound to one core sees only that one. */
static int world_cores(void)
{
    const int own = mega_cpu_affinity(), all = own > 1 ? own : (int)sysconf(_SC_NPROCESSORS_ONLN);
    const double quota = mega_cpu_quota();
    return quota > 0 && quota < all ? (int)quota + 1 : all;
}

mega_status mega_world_create(const mega_world_options *options, mega_world **out)
{
    const mega_world_options o = options != NULL ? *options : (mega_world_options){0};
    mega_world *w = mega_calloc(1, sizeof *w);
    if (w == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "world of ranks: no memory");
    w->size = w->local_size = 1;
    w->timeout_s = DEFAULT_TIMEOUT_S;
    w->awaited = w->last_awaited = -1;
    w->message_bytes = o.message_bytes > 0 ? o.message_bytes : INT_MAX;
    w->scratch_bytes = o.scratch_bytes > 0 ? o.scratch_bytes : COMM_SCRATCH_BYTES;
    mega_status st = transport_open(w, o.communicator);
    w->is_crowded = w->local_size > world_cores();
    if (w->is_crowded) /* makes naps of a few microseconds precise; the default slack is 50 microseconds */
        prctl(PR_SET_TIMERSLACK, 1UL);
    if (st == MEGA_OK && w->size > 1) {
        w->op = mega_calloc(MEGA_COMM_REQUESTS, sizeof *w->op);
        if (w->op == NULL) st = MEGA_FAIL(MEGA_ERR_MEMORY, "world of %d ranks: no memory", w->size);
        w->host_first = w->rank;
        if (st == MEGA_OK) st = transport_host_broadcast(w, &w->host_first, sizeof w->host_first);
        if (st == MEGA_OK) st = record_open(w);
        if (st == MEGA_OK) st = shared_open(w);
    }
    if (st != MEGA_OK) {
        mega_world_destroy(w);
        return st;
    }
    w->all = (mega_comm){.name = "world",
                         .rank = w->rank,
                         .size = w->size,
                         .world = w->size > 1 ? w : NULL,
                         .stride = 1,
                         .tag = MEGA_COMM_WORLD_TAG};
    int32_t check = mega_check_level(); /* some launchers pass the environment to some ranks only */
    st = comm_channel_open(&w->all);
    if (st == MEGA_OK) st = mega_comm_all_reduce(&w->all, "level of checks", &check, 1, MEGA_I32, MEGA_REDUCE_MAX);
    w->checks_calls = check >= 2;
    if (st != MEGA_OK) {
        mega_world_destroy(w);
        return st;
    }
    *out = w;
    return MEGA_OK;
}

void mega_world_destroy(mega_world *world)
{
    if (world == NULL) return;
    if (mega_refuse_destroy(atomic_load(&world->users) > 0, "mega_world_destroy",
                            "an engine, a generator, a layout or a report of a stall"))
        return;
    record_leave(world, RECORD_LEFT);
    transport_close(world); /* returns when all ranks are here; their records must stay readable until then */
    record_close(world);
    shared_close(world);
    comm_operations_close(world);
    comm_staging_close(world);
    mega_comm_log_stop(world);
    mega_free(world);
}

mega_users *mega_world_users(mega_world *world)
{
    return world != NULL ? &world->users : NULL;
}

void mega_world_abort(mega_world *world, int exit_status)
{
    if (world == NULL || world->size == 1) return;
    record_leave(world, RECORD_FAILED);
    transport_abort(world, exit_status);
}

int mega_world_rank(const mega_world *world)
{
    return world == NULL ? 0 : world->rank;
}

int mega_world_size(const mega_world *world)
{
    return world == NULL ? 1 : world->size;
}

const char *mega_world_transport(char *out, size_t size)
{
    return transport_description(out, size);
}

int mega_world_local_size(const mega_world *world)
{
    return world == NULL ? 1 : world->local_size;
}

int mega_world_local_rank(const mega_world *world)
{
    return world == NULL ? 0 : world->local_rank;
}

double mega_world_code_scale(void)
{
#ifdef __SANITIZE_ADDRESS__
    return 1; /* what a sanitizer maps of its own says nothing of the program */
#endif
    const double start = transport_is_open() ? CODE_START_BYTES + MPI_START_BYTES : CODE_START_BYTES;
    const double scale = (double)mega_memory_mapped() / start;
    return fabs(scale - 1) < SCALE_NOISE ? 1 : fmin(fmax(scale, 0.5), 2);
}

size_t mega_world_process_bytes(int64_t ranks, double code_scale)
{
    const bool has_mpi = ranks > 1 || transport_is_open();
    return (size_t)(code_scale * (CODE_BYTES + (has_mpi ? MPI_CODE_BYTES : 0)) + DATA_BYTES +
                    (has_mpi ? MPI_DATA_BYTES : 0));
}

int mega_world_host_first(const mega_world *world)
{
    return world == NULL ? 0 : world->host_first;
}

double mega_world_host_timeout(void)
{
    const char *value = getenv("MEGA_HOST_TIMEOUT");
    const double seconds = value == NULL ? 0 : atof(value);
    return seconds >= 1 ? seconds : HOST_TIMEOUT_S;
}

void mega_world_set_timeout(mega_world *world, double seconds)
{
    world->timeout_s = seconds;
}

void mega_world_set_stall_report(mega_world *world, mega_stall_report *report, void *user)
{
    world->report = report;
    world->report_user = user;
}

mega_comm *mega_world_comm(mega_world *world)
{
    return &world->all;
}

void mega_world_set_shared(mega_world *world, bool shared)
{
    world->transport_choice = shared ? COMM_CHOOSE_SHARED : COMM_CHOOSE_MPI;
}

bool mega_world_can_share(const mega_world *world)
{
    return world != NULL && world->shared != NULL;
}

bool mega_world_lost_host(const mega_world *world)
{
    return world != NULL && world->lost_host;
}

bool mega_world_failed(const mega_world *world)
{
    return world != NULL && world->failed;
}

void mega_world_forget_failure(mega_world *world)
{
    if (world != NULL) world->failed = false;
}
