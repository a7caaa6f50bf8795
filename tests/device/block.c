/* A block: its threads as fibers, barriers, shared memory, and what a kernel asks of its place. */
#include "runner_impl.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

_Thread_local device_runner *runner;
_Thread_local device_index device_index_now;

/* Its state is never 0. */
uint32_t runner_draw(void)
{
    uint64_t x = runner->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    runner->random = x;
    return (uint32_t)(x >> 32);
}

/* A block has the same order of threads whichever runner it comes to. */
static void random_begin(uint64_t seed, uint64_t order)
{
    uint64_t x = seed + (order + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    runner->random = (x ^ x >> 31) | 1;
}

void runner_note(const void *at, size_t bytes, bool is_write, const void *code)
{
    if (runner->observer != NULL) runner->observer->access(at, bytes, is_write, code);
}

const device_place *device_place_now(void)
{
    return runner != NULL && runner->now != NULL ? &runner->place : NULL;
}

/* ---- changing threads ---- */

/* Of the threads that are ready, in any order. */
static device_thread *take_ready(void)
{
    device_runner *const r = runner;
    if (r->num_ready == 0 || r->error[0] != 0) return NULL;
    const unsigned k = (unsigned)((uint64_t)runner_draw() * r->num_ready >> 32);
    device_thread *t = &r->thread[r->ready[k]];
    r->ready[k] = r->ready[--r->num_ready];
    return t;
}

static void fiber_main(void);

static fiber *fiber_take(void)
{
    if (runner->num_free > 0) return runner->free[--runner->num_free];
    fiber *f = &runner->fibers[runner->num_fibers];
    fiber_begin(f, (unsigned)runner->num_fibers++, fiber_main);
    return f;
}

/* The thread is the one that runs. */
static void become(device_thread *t)
{
    device_runner *const r = runner;
    r->now = t;
    device_index_now.thread = t->x;
    if (r->observer == NULL) return;
    device_place *p = &r->place;
    p->thread = t->x;
    p->warp_barriers = r->warp[t->x / WARP].barriers;
    p->stack = t->f->stack;
    p->stack_end = t->f->stack + FIBER_STACK;
}

/* From one fiber to that of the thread, or to the caller. */
static void switch_to(fiber *from, device_thread *to)
{
    device_runner *const r = runner;
    r->switches++;
    if (to != NULL) {
        if (to->f == NULL) to->f = fiber_take();
        become(to);
    } else {
        r->now = NULL;
    }
    fiber_switch(from, to != NULL ? to->f : &r->caller);
}

void runner_go_on(void)
{
    device_runner *const r = runner;
    device_thread *from = r->now, *to = take_ready();
    if (to != from) switch_to(from != NULL ? from->f : &r->caller, to);
}

/* The thread has ended. One that has not begun goes on with its fiber; if there is another to go on with, the fiber
 * waits here until a thread needs it. */
static void thread_end(void)
{
    device_runner *const r = runner;
    device_thread *t = r->now, *to = take_ready();
    fiber *f = t->f;
    t->f = NULL;
    if (to != NULL && to->f == NULL) {
        to->f = f;
        become(to);
        return;
    }
    r->free[r->num_free++] = f;
    switch_to(f, to);
}

static void fiber_main(void)
{
    fiber_begun();
    for (;;) {
        const device_launch *l = runner->launch;
        l->kernel->call(l->args);
        if (runner->now->num_copies > 0) runner_copies_arrive(0);
        runner->now->state = THREAD_DONE;
        runner->done++;
        thread_end();
    }
}

void runner_wake(device_thread *t)
{
    t->state = THREAD_READY;
    runner->ready[runner->num_ready++] = t->x;
}

/* ---- mistakes ---- */

static void error_write(const char *format, va_list list)
{
    const int n = snprintf(runner->error, sizeof runner->error, "kernel %s, block (%u, %u, %u): ", runner->place.kernel,
                           runner->at[0], runner->at[1], runner->at[2]);
    vsnprintf(runner->error + n, sizeof runner->error - (size_t)n, format, list);
    atomic_store(&runner->team->has_failed, true);
}

void runner_error_note(const char *format, ...)
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
    runner_go_on(); /* to the caller, for there is an error; fibers begin again with the next launch */
    abort();
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
                                                         : runner_op_name(runner->warp[x / WARP].op);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s thread %u %s of line %d", n > 0 ? "," : "", x, what,
                              t->line);
        if (n >= sizeof text) break;
    }
    runner_error_note("threads wait for ever:%s", text);
}

/* ---- a block ---- */

static void shared_begin(const device_shared_part *s)
{
    memset(s->at, 0xFF, s->bytes); /* NaN, whatever the float type */
    if (runner->observer != NULL) runner->observer->shared(s->at, s->bytes);
}

void runner_launch_begin(device_runner *r, device_team *team)
{
    const device_launch *l = team->launch;
    const device_kernel *k = l->kernel;
    runner = r;
    r->team = team;
    r->launch = l;
    r->threads = k->threads;
    r->switches = 0;
    r->num_fibers = r->num_free = 0;
    r->static_shared = 0;
    r->error[0] = 0;
    r->place = (device_place){.kernel = k->name, .args = l->args, .args_end = (const char *)l->args + k->args_bytes};
    device_index_now.threads = k->threads;
    for (int i = 0; i < 3; i++) device_index_now.blocks[i] = l->grid[i];
}

void runner_launch_end(void)
{
    for (int s = 0; s < runner->num_shared; s++) free(runner->shared[s].at);
    runner->num_shared = 0;
}

static void block_begin(uint64_t order)
{
    const unsigned *grid = runner->launch->grid;
    const uint64_t number = (runner->team->start + order) % runner->team->blocks;
    runner->order = order;
    runner->at[0] = (unsigned)(number % grid[0]);
    runner->at[1] = (unsigned)(number / grid[0] % grid[1]);
    runner->at[2] = (unsigned)(number / grid[0] / grid[1]);
    for (int i = 0; i < 3; i++) device_index_now.block[i] = runner->at[i];
    runner->place.block = (unsigned)number;
    runner->place.barriers = 0;
    runner->arrived = runner->done = runner->num_ready = 0;
    random_begin(runner->team->seed, order);
    for (unsigned x = 0; x < runner->threads; x++) {
        device_thread *t = &runner->thread[x];
        t->f = NULL;
        t->x = x;
        t->num_copies = t->groups = t->line = 0;
        runner_wake(t);
    }
    for (unsigned w = 0; w * WARP < runner->threads; w++) runner->warp[w].arrived = runner->warp[w].barriers = 0;
    for (int s = 0; s < runner->num_shared; s++) shared_begin(&runner->shared[s]);
}

void runner_block_run(uint64_t order)
{
    block_begin(order);
    runner_go_on();
    if (runner->error[0] == 0 && runner->done < runner->threads) deadlock_note();
}

/* ---- what a kernel calls ---- */

unsigned device_index_of(int which)
{
    const device_index *i = &device_index_now;
    const unsigned all[] = {i->thread,   i->threads,   i->block[0],  i->block[1],
                            i->block[2], i->blocks[0], i->blocks[1], i->blocks[2]};
    return all[which];
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

/* All threads have come: they go on, if it is the same barrier. */
static void barrier_open(const device_thread *t)
{
    device_runner *const r = runner;
    r->arrived = 0;
    r->place.barriers++;
    for (unsigned x = 0; x < r->threads; x++) {
        device_thread *other = &r->thread[x];
        if (other->line != t->line)
            runner_fail("thread %u is at the barrier of line %d, and thread %u at that of line %d", x, other->line,
                        t->x, t->line);
        runner_wake(other);
    }
}

void device_block_barrier(int line)
{
    device_runner *const r = runner;
    device_thread *t = r->now;
    if (runner_omits("block_barrier", line)) return;
    t->line = line;
    t->state = THREAD_AT_BARRIER;
    if (++r->arrived == r->threads) barrier_open(t);
    runner_go_on();
}
