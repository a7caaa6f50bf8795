/* Threads that lend each other their cores. */
#include "kit.h"
#include "megalith/core_lending.h"
#include "megalith/threads.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* A worker thread shares the last core of this process with two other threads that take most of its time; the test's
 * own thread runs on the first core. */
typedef struct scene {
    mega_seat held, own;
    int first, last;
    cpu_set_t before;         /* affinity mask of the test's thread */
    cpu_set_t allowed, after; /* mask of the worker, initially, and after it has begun again */
    atomic_int told, did;     /* last command given, and done: 1 work, 2 begin again, 3 leave */
    atomic_long losses;       /* how often the other threads ran on its core instead */
    pthread_t thread, others[2];
    bool runs;
    sem_t wakes;
} scene;

static void wait_until(atomic_int *x, int value)
{
    while (atomic_load(x) < value) sched_yield();
}

static void go_to(int core)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void *take_time(void *user)
{
    scene *s = user;
    go_to(s->last);
    while (atomic_load(&s->told) < 3) continue;
    return NULL;
}

static void *work(void *user)
{
    scene *s = user;
    struct rusage usage;
    sched_getaffinity(0, sizeof s->allowed, &s->allowed);
    mega_seat_take(&s->held);
    go_to(s->last);
    mega_seat_begin(&s->held);
    mega_seat_narrow(&s->held); /* otherwise the system would soon move it to a free core */
    sched_getaffinity(0, sizeof s->allowed, &s->allowed);
    atomic_store(&s->did, 1);
    while (atomic_load(&s->told) < 2)
        if (getrusage(RUSAGE_THREAD, &usage) == 0) atomic_store(&s->losses, usage.ru_nivcsw);
    mega_seat_end(&s->held);
    mega_seat_begin(&s->held);
    sched_getaffinity(0, sizeof s->after, &s->after);
    mega_seat_end(&s->held);
    atomic_store(&s->did, 2);
    wait_until(&s->told, 3);
    return NULL;
}

static int core_of(int tid)
{
    cpu_set_t mask;
    assert_int_equal(sched_getaffinity(tid, sizeof mask, &mask), 0);
    if (CPU_COUNT(&mask) != 1) return -1;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &mask)) return i;
    return -1;
}

static scene *find_cores(void **state)
{
    static scene s;
    *state = memset(&s, 0, sizeof s);
    s.first = s.last = -1;
    sched_getaffinity(0, sizeof s.before, &s.before);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &s.before)) continue;
        if (s.first < 0) s.first = i;
        s.last = i;
    }
    if (s.first == s.last) mega_kit_skip("threads of one core have none to lend");
    /* Tries that need two threads at work at one moment took up to five minutes there. */
    if (getenv("MEGA_UNDER_VALGRIND") != NULL) mega_kit_skip("valgrind runs one thread at a time");
    return &s;
}

static scene *begin_with(void **state, void *(*thread)(void *))
{
    scene *s = find_cores(state);
    assert_int_equal(pthread_create(&s->thread, NULL, thread, s), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&s->others[i], NULL, take_time, s), 0);
    s->runs = true;
    go_to(s->first);
    wait_until(&s->did, 1);
    mega_seat_take(&s->own);
    return s;
}

static scene *begin(void **state)
{
    return begin_with(state, work);
}

static void begin_again(scene *s)
{
    atomic_store(&s->told, 2);
    wait_until(&s->did, 2);
    assert_memory_equal(&s->after, &s->allowed, sizeof s->after);
}

/* Runs after a failed test too. */
static int end(void **state)
{
    scene *s = *state;
    atomic_store(&s->told, 3);
    if (s->runs) {
        pthread_join(s->thread, NULL);
        for (int i = 0; i < 2; i++) pthread_join(s->others[i], NULL);
    }
    sched_setaffinity(0, sizeof s->before, &s->before);
    return 0;
}

/* The worker and the two others take turns: tries until one of the others is running. */
static void must_lend(scene *s)
{
    for (int tries = 0; !mega_seat_lend(&s->held); tries++) assert_true(tries < 1000000);
}

static void must_swap(scene *s)
{
    for (int tries = 0; !mega_seat_swap(&s->held, &s->own); tries++) assert_true(tries < 1000000);
}

static void a_core_is_lent_and_given_back(void **state)
{
    scene *s = begin(state);
    const int tid = atomic_load(&s->held.tid);
    must_lend(s);
    assert_int_equal(core_of(tid), s->first);
    assert_true(mega_seat_is_confined(&s->held));
    assert_false(mega_seat_lend(&s->held)); /* a core can be lent only once */
    mega_seat_return(&s->held);             /* the worker is at work, with its own mask again */
    assert_false(mega_seat_is_confined(&s->held));
    begin_again(s);
    assert_false(mega_seat_lend(&s->held)); /* the worker is not at work */
}

/* A mask of one core that somebody else set is respected, however often the thread has to wait there. */
static void a_mask_of_one_core_is_kept(void **state)
{
    scene *s = begin(state);
    CPU_ZERO(&s->held.narrowed);
    CPU_SET(s->first, &s->held.narrowed);
    for (const long enough = atomic_load(&s->losses) + 20; atomic_load(&s->losses) < enough;)
        assert_false(mega_seat_lend(&s->held));
    begin_again(s);
}

/* A worker that has finished waits on its own core for the next work. */
static void a_core_is_given_back_after_the_work(void **state)
{
    scene *s = begin(state);
    must_lend(s);
    mega_seat_end(&s->held);
    mega_seat_return(&s->held);
    assert_int_equal(core_of(atomic_load(&s->held.tid)), s->last);
    assert_true(mega_seat_is_confined(&s->held));
    begin_again(s);
    assert_false(mega_seat_is_confined(&s->held));
}

/* A worker that is not sent back returns by itself when it begins again. */
static void a_core_that_is_not_taken_back(void **state)
{
    scene *s = begin(state);
    must_lend(s);
    begin_again(s);
    assert_false(mega_seat_is_confined(&s->held));
    mega_seat_return(&s->held);
}

static void cores_are_exchanged(void **state)
{
    scene *s = begin(state);
    const int tid = atomic_load(&s->held.tid);
    cpu_set_t now;
    sched_setaffinity(0, sizeof s->before, &s->before);
    while (sched_getcpu() == s->last) sched_yield();
    must_swap(s);
    assert_int_equal(core_of(0), s->last);
    assert_true(core_of(tid) >= 0);
    assert_true(core_of(tid) != s->last);
    mega_seat_begin(&s->own);
    sched_getaffinity(0, sizeof now, &now);
    assert_memory_equal(&now, &s->before, sizeof now);
    begin_again(s);
}

/* A mask that the user sets while the thread is moved is kept. */
static void a_mask_of_the_user_is_kept(void **state)
{
    scene *s = begin(state);
    cpu_set_t now;
    must_lend(s);
    assert_int_equal(sched_setaffinity(atomic_load(&s->held.tid), sizeof s->before, &s->before), 0);
    mega_seat_return(&s->held);
    atomic_store(&s->told, 2);
    wait_until(&s->did, 2);
    assert_int_equal(sched_getaffinity(atomic_load(&s->held.tid), sizeof now, &now), 0);
    assert_memory_equal(&now, &s->before, sizeof now);
}

/* Ends its work at the very moment at which the other thread exchanges cores with it. */
static void *work_until_moved(void *user)
{
    scene *s = user;
    cpu_set_t now;
    mega_seat_take(&s->held);
    go_to(s->last);
    mega_seat_narrow(&s->held);
    s->allowed = s->held.narrowed;
    mega_seat_begin(&s->held);
    atomic_store(&s->did, 1);
    do sched_getaffinity(0, sizeof now, &now);
    while (CPU_ISSET(s->last, &now) && atomic_load(&s->told) < 3);
    mega_seat_end(&s->held);
    mega_seat_free(&s->held);
    sched_getaffinity(0, sizeof s->after, &s->after);
    atomic_store(&s->did, 2);
    wait_until(&s->told, 3);
    return NULL;
}

static void a_mask_is_whole_when_the_work_ends(void **state)
{
    scene *s = begin_with(state, work_until_moved);
    sched_setaffinity(0, sizeof s->before, &s->before);
    while (sched_getcpu() == s->last) sched_yield();
    must_swap(s);
    wait_until(&s->did, 2);
    assert_memory_equal(&s->after, &s->allowed, sizeof s->after);
}

/* A thread that sleeps, as one waiting for a disk does, needs no core. */
static void *sleep_at_work(void *user)
{
    scene *s = user;
    mega_seat_take(&s->held);
    sched_setaffinity(0, sizeof s->before, &s->before);
    mega_seat_begin(&s->held);
    atomic_store(&s->did, 1);
    while (sem_wait(&s->wakes) != 0) continue;
    return NULL;
}

static void one_that_sleeps_gets_no_core(void **state)
{
    scene *s = find_cores(state);
    go_to(s->last);
    assert_int_equal(sem_init(&s->wakes, 0, 0), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, sleep_at_work, s), 0);
    wait_until(&s->did, 1);
    go_to(s->first);
    mega_seat_take(&s->own);
    mega_kit_until_asleep((int)getpid(), atomic_load(&s->held.tid));
    int lent = 0;
    for (int i = 0; i < 100; i++) lent += mega_seat_lend(&s->held);
    sem_post(&s->wakes);
    pthread_join(s->thread, NULL);
    sem_destroy(&s->wakes);
    assert_int_equal(lent, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_core_is_lent_and_given_back, end),
        cmocka_unit_test_teardown(a_mask_of_one_core_is_kept, end),
        cmocka_unit_test_teardown(a_core_is_given_back_after_the_work, end),
        cmocka_unit_test_teardown(a_core_that_is_not_taken_back, end),
        cmocka_unit_test_teardown(cores_are_exchanged, end),
        cmocka_unit_test_teardown(a_mask_of_the_user_is_kept, end),
        cmocka_unit_test_teardown(a_mask_is_whole_when_the_work_ends, end),
        cmocka_unit_test_teardown(one_that_sleeps_gets_no_core, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
