#include "runner_impl.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static device_runner the_runner = {.random = 88172645463325252u};
device_runner *const runner = &the_runner;

void device_seed(uint64_t seed)
{
    runner->random = (seed + 1) * 0x9E3779B97F4A7C15u | 1;
    for (int i = 0; i < 4; i++) runner_draw();
}

uint64_t device_switches(void)
{
    return runner->switches;
}

void device_observe(const device_observer *observer)
{
    runner->observer = observer;
}

uint32_t runner_draw(void)
{
    runner->random ^= runner->random << 13;
    runner->random ^= runner->random >> 7;
    runner->random ^= runner->random << 17;
    return (uint32_t)(runner->random >> 32);
}

void runner_note(const void *at, size_t bytes, bool is_write, const void *code)
{
    if (runner->observer != NULL) runner->observer->access(at, bytes, is_write, code);
}

const device_place *device_place_now(void)
{
    return runner->now != NULL ? &runner->place : NULL;
}

/* ---- sites ---- */

void device_site_omit(const device_site *site)
{
    runner->omitted = site != NULL ? *site : (device_site){.line = 0};
}

void device_sites_note(void)
{
    if (runner->sites == NULL && (runner->sites = calloc(MOST_SITES, sizeof *runner->sites)) == NULL) abort();
}

const device_site *device_sites(int *count)
{
    *count = runner->num_sites;
    return runner->sites;
}

static bool is_site(const device_site *s, const char *op, int line)
{
    return s->line == line && strcmp(s->op, op) == 0 && strcmp(s->kernel, runner->place.kernel) == 0;
}

bool runner_omits(const char *op, int line)
{
    if (runner->omitted.line == line && is_site(&runner->omitted, op, line)) return true;
    if (runner->sites == NULL) return false;
    for (int i = runner->num_sites - 1; i >= 0; i--)
        if (is_site(&runner->sites[i], op, line)) return false;
    if (runner->num_sites == MOST_SITES) return false;
    device_site *s = &runner->sites[runner->num_sites++];
    snprintf(s->kernel, sizeof s->kernel, "%s", runner->place.kernel);
    snprintf(s->op, sizeof s->op, "%s", op);
    s->line = line;
    return false;
}

/* ---- changing threads ---- */

static void place_of(const device_thread *t)
{
    device_place *p = &runner->place;
    p->thread = t->x;
    p->warp_barriers = runner->warp[t->x / WARP].barriers;
    p->stack = t->f.stack;
    p->stack_end = t->f.stack + FIBER_STACK;
}

void runner_go_on(void)
{
    device_thread *from = runner->now, *to = NULL;
    if (runner->num_ready > 0 && runner->error[0] == 0) {
        const unsigned k = runner_draw() % runner->num_ready;
        to = &runner->thread[runner->ready[k]];
        runner->ready[k] = runner->ready[--runner->num_ready];
    }
    if (to == from) return;
    runner->now = to;
    runner->switches++;
    if (to != NULL) place_of(to);
    fiber_switch(from != NULL ? &from->f : &runner->caller, to != NULL ? &to->f : &runner->caller);
}

void runner_wake(device_thread *t)
{
    t->state = THREAD_READY;
    runner->ready[runner->num_ready++] = t->x;
}

static void error_write(const char *format, va_list list)
{
    const int n = snprintf(runner->error, sizeof runner->error, "kernel %s, block (%u, %u, %u): ", runner->place.kernel,
                           runner->at[0], runner->at[1], runner->at[2]);
    vsnprintf(runner->error + n, sizeof runner->error - (size_t)n, format, list);
}

static void error_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void error_note(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    error_write(format, list);
    va_end(list);
}

void runner_fail(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    error_write(format, list);
    va_end(list);
    runner_go_on(); /* to the caller, for there is an error; this fiber begins again another time */
    abort();
}

static void thread_main(void)
{
    for (;;) {
        device_thread *t = runner->now;
        runner->launch->kernel->call(runner->launch->args);
        runner_copies_arrive(0);
        t->state = THREAD_DONE;
        runner->done++;
        runner_go_on();
    }
}

/* ---- a launch ---- */

static void shared_begin(const device_shared_part *s)
{
    memset(s->at, 0xFF, s->bytes); /* NaN, whatever the float type */
    if (runner->observer != NULL) runner->observer->shared(s->at, s->bytes);
}

static void block_begin(void)
{
    runner->arrived = runner->done = runner->num_ready = 0;
    runner->place.barriers = 0;
    for (unsigned x = 0; x < runner->threads; x++) {
        device_thread *t = &runner->thread[x];
        if (!t->has_begun) fiber_begin(&t->f, thread_main);
        if (t->copies == NULL && (t->copies = malloc(MOST_COPIES * sizeof *t->copies)) == NULL) abort();
        t->has_begun = true;
        t->x = x;
        t->num_copies = t->groups = t->line = 0;
        runner_wake(t);
    }
    for (unsigned w = 0; w * WARP < runner->threads; w++) runner->warp[w] = (device_warp){.lanes = WARP};
    for (int s = 0; s < runner->num_shared; s++) shared_begin(&runner->shared[s]);
}

/* Some threads have not ended, and none can go on: says where they are. */
static void deadlock_note(void)
{
    char text[300];
    size_t n = 0;
    text[0] = 0;
    for (unsigned x = 0, shown = 0; x < runner->threads && shown < 4; x++) {
        const device_thread *t = &runner->thread[x], *last = &runner->thread[x > 0 ? x - 1 : 0];
        if (x > 0 && t->state == last->state && t->line == last->line) continue;
        shown++;
        const char *what = t->state == THREAD_AT_BARRIER ? "waits at the barrier"
                           : t->state == THREAD_DONE     ? "has ended, after an operation"
                                                         : runner_op_name(t->op);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s thread %u %s of line %d", n > 0 ? "," : "", x, what,
                              t->line);
        if (n >= sizeof text) break;
    }
    error_note("threads wait for ever:%s", text);
}

static void threads_forget(void)
{
    for (unsigned x = 0; x < DEVICE_MOST_THREADS; x++) runner->thread[x].has_begun = false;
}

static void block_run(uint64_t number)
{
    const unsigned *grid = runner->launch->grid;
    runner->at[0] = (unsigned)(number % grid[0]);
    runner->at[1] = (unsigned)(number / grid[0] % grid[1]);
    runner->at[2] = (unsigned)(number / grid[0] / grid[1]);
    runner->place.block = (unsigned)number;
    block_begin();
    runner_go_on();
    if (runner->error[0] == 0 && runner->done < runner->threads) deadlock_note();
}

const char *device_run(const device_launch *launch)
{
    const device_kernel *k = launch->kernel;
    runner->error[0] = 0;
    runner->launch = launch;
    runner->threads = k->threads;
    runner->static_shared = 0;
    runner->place =
        (device_place){.kernel = k->name, .args = launch->args, .args_end = (const char *)launch->args + k->args_bytes};
    if (k->threads == 0 || k->threads % WARP != 0 || k->threads > DEVICE_MOST_THREADS)
        error_note("%u threads, expected a multiple of %d up to %d", k->threads, WARP, DEVICE_MOST_THREADS);
    const uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    const uint64_t first = blocks > 0 ? runner_draw() % blocks : 0; /* blocks have no order: any may be the first */
    for (uint64_t n = 0; n < blocks && runner->error[0] == 0; n++) block_run((n + first) % blocks);
    for (int s = 0; s < runner->num_shared; s++) free(runner->shared[s].at);
    runner->num_shared = 0;
    if (runner->observer != NULL) runner->observer->shared_end();
    if (runner->error[0] == 0) return NULL;
    threads_forget();
    return runner->error;
}

/* ---- what a kernel calls ---- */

unsigned thread_x(void)
{
    return runner->now->x;
}
unsigned threads_x(void)
{
    return runner->threads;
}
unsigned block_x(void)
{
    return runner->at[0];
}
unsigned block_y(void)
{
    return runner->at[1];
}
unsigned block_z(void)
{
    return runner->at[2];
}
unsigned blocks_x(void)
{
    return runner->launch->grid[0];
}
unsigned blocks_y(void)
{
    return runner->launch->grid[1];
}
unsigned blocks_z(void)
{
    return runner->launch->grid[2];
}

static void *shared_find(const void *which, size_t bytes)
{
    for (int s = 0; s < runner->num_shared; s++)
        if (runner->shared[s].which == which) return runner->shared[s].at;
    if (runner->num_shared == MOST_SHARED) runner_fail("more than %d shared variables", MOST_SHARED);
    device_shared_part *part = &runner->shared[runner->num_shared++];
    *part = (device_shared_part){which, aligned_alloc(128, (bytes + 127) / 128 * 128), bytes};
    if (part->at == NULL) abort();
    shared_begin(part);
    return part->at;
}

void *device_shared(const void *which, size_t bytes)
{
    const int before = runner->num_shared;
    void *at = shared_find(which, bytes);
    if (runner->num_shared > before) runner->static_shared += (bytes + 127) / 128 * 128;
    if (runner->static_shared > DEVICE_STATIC_SHARED)
        runner_fail("%zu bytes of shared memory by SHARED, at most %d: use SHARED_DYNAMIC", runner->static_shared,
                    DEVICE_STATIC_SHARED);
    return at;
}

void *device_shared_dynamic(size_t bytes)
{
    if (bytes > runner->launch->shared_bytes)
        runner_fail("SHARED_DYNAMIC of %zu bytes, and the launch gives %zu", bytes, runner->launch->shared_bytes);
    return shared_find(NULL, runner->launch->shared_bytes);
}

void device_block_barrier(int line)
{
    device_thread *t = runner->now;
    if (runner_omits("block_barrier", line)) return;
    t->line = line;
    t->state = THREAD_AT_BARRIER;
    if (++runner->arrived == runner->threads) {
        runner->arrived = 0;
        runner->place.barriers++;
        for (unsigned x = 0; x < runner->threads; x++) {
            device_thread *other = &runner->thread[x];
            if (other->line != line)
                runner_fail("thread %u is at the barrier of line %d, and thread %u at that of line %d", x, other->line,
                            t->x, line);
            runner_wake(other);
        }
    }
    runner_go_on();
}
