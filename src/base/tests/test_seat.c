/* Cores that threads lend each other. */
#include "kit.h"
#include "megalith/seat.h"
#include "megalith/threads.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* A thread at work on the last core that this process may use, beside two others that take most of it. */
typedef struct rival {
    mega_seat seat;
    int core;
    cpu_set_t allowed, after; /* its mask before, and when it had begun again */
    atomic_int told, did;     /* works; has begun again; leaves */
    pthread_t thread, others[2];
} rival;

static void wait_until(atomic_int *x, int value)
{
    while (atomic_load(x) < value) usleep(100);
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
    rival *s = user;
    go_to(s->core);
    while (atomic_load(&s->told) < 3) continue;
    return NULL;
}

static void *work(void *user)
{
    rival *s = user;
    sched_getaffinity(0, sizeof s->allowed, &s->allowed);
    mega_seat_take(&s->seat);
    go_to(s->core);
    mega_seat_begin(&s->seat);
    s->seat.was_narrowed = true; /* else the system would soon move it to a core of its own */
    sched_getaffinity(0, sizeof s->allowed, &s->allowed);
    atomic_store(&s->did, 1);
    while (atomic_load(&s->told) < 2) continue;
    mega_seat_end(&s->seat);
    mega_seat_begin(&s->seat);
    sched_getaffinity(0, sizeof s->after, &s->after);
    mega_seat_end(&s->seat);
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

/* Of this thread's cores, s->core is the last; -1: there is one. */
static int first_core(rival *s, cpu_set_t *before)
{
    int first = -1;
    sched_getaffinity(0, sizeof *before, before);
    if (CPU_COUNT(before) < 2) return -1;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, before)) continue;
        if (first < 0) first = i;
        s->core = i;
    }
    return first;
}

/* This thread sits on the first of its cores, `s` on the last; false: there is one core. */
static bool begin(rival *s, mega_seat *own, cpu_set_t *before)
{
    const int first = first_core(s, before);
    if (first < 0) return false;
    assert_int_equal(pthread_create(&s->thread, NULL, work, s), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&s->others[i], NULL, take_time, s), 0);
    go_to(first);
    wait_until(&s->did, 1);
    mega_seat_take(own);
    return true;
}

static void end(rival *s, const cpu_set_t *before)
{
    atomic_store(&s->told, 3);
    pthread_join(s->thread, NULL);
    for (int i = 0; i < 2; i++) pthread_join(s->others[i], NULL);
    assert_memory_equal(&s->after, &s->allowed, sizeof s->after);
    sched_setaffinity(0, sizeof *before, before);
}

/* Refused while other processes take much of this core: tried for a while. */
static bool try_for_long(bool (*take)(mega_seat *, mega_seat *), rival *s, mega_seat *own)
{
    for (const double late = mega_time_now() + 100; mega_time_now() < late; usleep(1000))
        if (take(&s->seat, own)) return true;
    return false;
}

static void a_core_is_lent_and_given_back(void **state)
{
    (void)state;
    rival s = {.core = -1};
    mega_seat own = {0};
    cpu_set_t before;
    if (!begin(&s, &own, &before)) return;
    const int tid = atomic_load(&s.seat.tid), here = sched_getcpu();
    assert_true(try_for_long(mega_seat_lend, &s, &own));
    assert_int_equal(core_of(tid), here);
    assert_true(mega_seat_is_confined(&s.seat));
    assert_false(mega_seat_lend(&s.seat, &own)); /* not twice */
    mega_seat_return(&s.seat);                   /* it is at work, and its mask is as before */
    assert_false(mega_seat_is_confined(&s.seat));
    atomic_store(&s.told, 2);
    wait_until(&s.did, 2);
    assert_false(mega_seat_lend(&s.seat, &own)); /* it is not at work */
    end(&s, &before);
}

/* A mask of one core that somebody else gave it is respected. */
static void a_mask_of_one_core_is_kept(void **state)
{
    (void)state;
    rival s = {.core = -1};
    mega_seat own = {0};
    cpu_set_t before;
    if (!begin(&s, &own, &before)) return;
    s.seat.was_narrowed = false;
    for (int i = 0; i < 50; i++, usleep(1000)) assert_false(mega_seat_lend(&s.seat, &own));
    atomic_store(&s.told, 2);
    wait_until(&s.did, 2);
    end(&s, &before);
}

/* A worker that has done its work waits at home for the next. */
static void a_core_is_given_back_after_the_work(void **state)
{
    (void)state;
    rival s = {.core = -1};
    mega_seat own = {0};
    cpu_set_t before;
    if (!begin(&s, &own, &before)) return;
    const int tid = atomic_load(&s.seat.tid);
    assert_true(try_for_long(mega_seat_lend, &s, &own));
    mega_seat_end(&s.seat);
    mega_seat_return(&s.seat);
    assert_int_equal(core_of(tid), s.core);
    assert_true(mega_seat_is_confined(&s.seat));
    atomic_store(&s.told, 2);
    wait_until(&s.did, 2);
    assert_false(mega_seat_is_confined(&s.seat));
    end(&s, &before);
}

/* One that is not sent home goes by itself, when it begins again. */
static void a_core_that_is_not_taken_back(void **state)
{
    (void)state;
    rival s = {.core = -1};
    mega_seat own = {0};
    cpu_set_t before;
    if (!begin(&s, &own, &before)) return;
    assert_true(try_for_long(mega_seat_lend, &s, &own));
    atomic_store(&s.told, 2);
    wait_until(&s.did, 2);
    assert_false(mega_seat_is_confined(&s.seat));
    mega_seat_return(&s.seat);
    end(&s, &before);
}

static void cores_are_exchanged(void **state)
{
    (void)state;
    rival s = {.core = -1};
    mega_seat own = {0};
    cpu_set_t before;
    if (!begin(&s, &own, &before)) return;
    const int tid = atomic_load(&s.seat.tid), here = sched_getcpu();
    sched_setaffinity(0, sizeof before, &before);
    while (sched_getcpu() != here) usleep(100);
    assert_true(try_for_long(mega_seat_swap, &s, &own));
    assert_int_equal(core_of(0), s.core);
    assert_true(core_of(tid) >= 0);
    assert_true(core_of(tid) != s.core);
    mega_seat_begin(&own);
    cpu_set_t now;
    sched_getaffinity(0, sizeof now, &now);
    assert_memory_equal(&now, &before, sizeof now);
    atomic_store(&s.told, 2);
    wait_until(&s.did, 2);
    end(&s, &before);
}

/* A thread that sleeps, until a disk has answered say, needs no core. */
static void *sleep_at_work(void *user)
{
    rival *s = user;
    mega_seat_take(&s->seat);
    sched_setaffinity(0, sizeof s->allowed, &s->allowed);
    mega_seat_begin(&s->seat);
    atomic_store(&s->did, 1);
    while (atomic_load(&s->told) < 1) usleep(50000);
    return NULL;
}

static void one_that_sleeps_gets_no_core(void **state)
{
    (void)state;
    rival s = {.core = -1};
    mega_seat own = {0};
    const int first = first_core(&s, &s.allowed);
    if (first < 0) return;
    go_to(s.core);
    assert_int_equal(pthread_create(&s.thread, NULL, sleep_at_work, &s), 0);
    wait_until(&s.did, 1);
    go_to(first);
    mega_seat_take(&own);
    int lent = 0;
    for (int i = 0; i < 100; i++, usleep(100)) lent += mega_seat_lend(&s.seat, &own);
    assert_int_equal(lent, 0);
    atomic_store(&s.told, 1);
    pthread_join(s.thread, NULL);
    sched_setaffinity(0, sizeof s.allowed, &s.allowed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_core_is_lent_and_given_back),
        cmocka_unit_test(a_mask_of_one_core_is_kept),
        cmocka_unit_test(a_core_is_given_back_after_the_work),
        cmocka_unit_test(a_core_that_is_not_taken_back),
        cmocka_unit_test(cores_are_exchanged),
        cmocka_unit_test(one_that_sleeps_gets_no_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
