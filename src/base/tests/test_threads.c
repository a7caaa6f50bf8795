/* Teams of threads, and the cores and instruction sets of the machine. */
#include "base_impl.h"
#include "kit.h"
#include "megalith/memory.h"
#include "megalith/threads.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct tally {
    atomic_int runs[16];
    atomic_int wrong_size;
    int size;
} tally;

static void count_run(void *user, int thread, int size)
{
    tally *t = user;
    atomic_fetch_add(&t->runs[thread], 1);
    if (size != t->size) atomic_fetch_add(&t->wrong_size, 1);
}

static void wait_for_sleep(const mega_team *team)
{
    while (mega_team_sleepers(team) < mega_team_size(team) - 1) sched_yield();
}

static void every_thread_runs_once_per_run(void **state)
{
    (void)state;
    for (int size = 1; size <= 5; size++) {
        mega_team *team = NULL;
        assert_int_equal(mega_team_create(size, &team), MEGA_OK);
        assert_int_equal(mega_team_size(team), size);
        tally t = {.size = size};
        enum { RUNS = 300 };
        for (int i = 0; i < RUNS; i++) {
            if (i % 100 == 99) wait_for_sleep(team);
            mega_team_run(team, count_run, &t);
            for (int k = 0; k < size; k++) assert_int_equal(atomic_load(&t.runs[k]), i + 1);
        }
        assert_int_equal(atomic_load(&t.wrong_size), 0);
        mega_team_destroy(team);
    }
}

static void no_team_runs_on_the_caller(void **state)
{
    (void)state;
    tally t = {.size = 1};
    mega_team_run(NULL, count_run, &t);
    assert_int_equal(atomic_load(&t.runs[0]), 1);
    assert_int_equal(mega_team_size(NULL), 1);
    mega_team_destroy(NULL);
}

/* Runs that begin while workers still spin, are about to sleep, or sleep. */
static void a_run_meets_workers_at_any_moment(void **state)
{
    (void)state;
    enum { RUNS = 200 };
    mega_team *team = NULL;
    assert_int_equal(mega_team_create(3, &team), MEGA_OK);
    tally t = {.size = 3};
    for (int i = 0; i < RUNS; i++) {
        for (volatile int spin = 0; spin < i * 500; spin++) continue;
        mega_team_run(team, count_run, &t);
    }
    for (int k = 0; k < 3; k++) assert_int_equal(atomic_load(&t.runs[k]), RUNS);
    mega_team_destroy(team);
}

typedef struct late_sum {
    const mega_team *team;
    double part[4];
} late_sum;

/* The last thread finishes after the caller has gone to sleep. */
static void sum_late(void *user, int thread, int size)
{
    late_sum *s = user;
    while (thread == size - 1 && !mega_team_caller_sleeps(s->team)) sched_yield();
    s->part[thread] += 1;
}

static void results_of_all_threads_are_visible(void **state)
{
    (void)state;
    mega_team *team = NULL;
    assert_int_equal(mega_team_create(4, &team), MEGA_OK);
    late_sum s = {.team = team};
    for (int i = 1; i <= 10; i++) {
        mega_team_run(team, sum_late, &s);
        for (int k = 0; k < 4; k++) assert_true(s.part[k] == i);
    }
    mega_team_destroy(team);
}

enum { ITEMS = 1000 };

typedef struct claims {
    atomic_int done[ITEMS], all, wrong;
    int64_t n, grain;
    int held; /* the thread that holds its first piece until all others are done; -1: none */
    atomic_bool holds;
} claims;

static void count_items(void *user, int thread, int64_t begin, int64_t end)
{
    claims *c = user;
    const double late = mega_time_now() + 20;
    if (begin % c->grain != 0 || begin >= end || end > c->n) atomic_fetch_add(&c->wrong, 1);
    if (thread == c->held && !atomic_exchange(&c->holds, true))
        while (atomic_load(&c->all) < c->n - (end - begin) && mega_time_now() < late) sched_yield();
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&c->done[i], 1);
    atomic_fetch_add(&c->all, (int)(end - begin));
    if (mega_time_now() >= late) atomic_fetch_add(&c->wrong, 1);
}

static void claim_all(mega_team *team, int64_t n, int64_t grain, int held)
{
    claims c = {.n = n, .grain = grain, .held = held};
    mega_team_for(team, n, grain, count_items, &c);
    assert_int_equal(atomic_load(&c.wrong), 0);
    for (int64_t i = 0; i < ITEMS; i++) assert_int_equal(atomic_load(&c.done[i]), i < n);
}

static void every_item_is_claimed_once(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 2, 7, 16, 63, 64, 65, 999, 1000}, grains[] = {1, 3, 16, 64, 2000};
    claim_all(NULL, ITEMS, 3, -1);
    for (int size = 1; size <= 8; size++) {
        mega_team *team = NULL;
        tally t = {.size = size};
        assert_int_equal(mega_team_create(size, &team), MEGA_OK);
        for (int i = 0; i < 5; i++)
            for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++) {
                claim_all(team, counts[n], grains[i], -1);
                mega_team_run(team, count_run, &t); /* runs of both kinds alternate */
            }
        for (int k = 0; k < size; k++) assert_int_equal(atomic_load(&t.runs[k]), 50);
        mega_team_destroy(team);
    }
}

/* A thread that is delayed in a piece delays nobody: the others do everything else, including the rest of its share. */
static void a_thread_that_is_held_up(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++) {
        mega_team *team = NULL;
        assert_int_equal(mega_team_create(size, &team), MEGA_OK);
        for (int i = 0; i < 20; i++) claim_all(team, ITEMS, 1, i % size);
        mega_team_destroy(team);
    }
}

/* True in the programs that make check-shuffle links: there every thread of a team claims. */
static bool is_shuffled(void)
{
    return getenv("MEGA_TEST_SHUFFLED") != NULL;
}

static void note_thread(void *user, int thread, int64_t begin, int64_t end)
{
    atomic_int *pieces = user;
    (void)begin;
    (void)end;
    atomic_fetch_add(&pieces[thread], 1);
}

/* More threads than cores would only take turns, so the extra ones do not claim. */
static void no_more_threads_claim_than_there_are_cores(void **state)
{
    (void)state;
    if (is_shuffled()) return;
    const int cores = mega_cpu_count(), size = 2 * cores;
    atomic_int *pieces = mega_calloc((size_t)size, sizeof *pieces);
    mega_team *team = NULL;
    assert_non_null(pieces);
    assert_int_equal(mega_team_create(size, &team), MEGA_OK);
    for (int i = 0; i < 200; i++) {
        if (i % 20 == 0) wait_for_sleep(team);
        mega_team_for(team, ITEMS, 1, note_thread, pieces);
    }
    assert_true(atomic_load(&pieces[0]) > 0);
    for (int k = cores; k < size; k++) assert_int_equal(atomic_load(&pieces[k]), 0);
    mega_team_destroy(team);
    mega_free(pieces);
}

static void note_order(void *user, int thread, int64_t begin, int64_t end)
{
    int64_t *next = user;
    (void)thread;
    *next = begin == *next ? end : -1; /* -1: not in order */
}

/* In builds with shuffled claims (cmake/shuffled.cmake) claims are really shuffled; otherwise a single thread takes its
 * pieces in order. */
static void claims_are_shuffled_where_they_should_be(void **state)
{
    (void)state;
    mega_team *team = NULL;
    int64_t next = 0;
    assert_int_equal(mega_team_create(1, &team), MEGA_OK);
    mega_team_for(team, ITEMS, 1, note_order, &next);
    mega_team_destroy(team);
    assert_int_equal(next, is_shuffled() ? -1 : ITEMS);
}

static void zeros(void **state)
{
    (void)state;
    enum { BYTES = 300001 };
    mega_team *team = NULL;
    char *x = mega_malloc(BYTES + 1);
    assert_int_equal(mega_team_create(3, &team), MEGA_OK);
    memset(x, 7, BYTES + 1);
    mega_team_zero(team, x, BYTES);
    for (int i = 0; i < BYTES; i++)
        if (x[i] != 0) fail_msg("byte %d", i);
    assert_int_equal(x[BYTES], 7);
    mega_team_destroy(team);
    mega_free(x);
}

static int make_team(void *user)
{
    (void)user;
    mega_team *team = NULL;
    const mega_status st = mega_team_create(2, &team);
    mega_team_destroy(team);
    return st;
}

static void teams_that_cannot_be_made(void **state)
{
    (void)state;
    mega_team *team = NULL;
    assert_int_equal(mega_team_create(0, &team), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "found 0"));
    assert_null(team);
    assert_in_range(mega_kit_fail_each_allocation(make_team, NULL), 1, 4);
}

static void shares_cover_everything_once(void **state)
{
    (void)state;
    static const int64_t grains[] = {1, 3, 16, 64};
    for (int64_t n = 0; n < 200; n += n < 70 ? 1 : 13) {
        for (int g = 0; g < 4; g++) {
            for (int size = 1; size <= 9; size++) {
                int64_t last = 0, least = INT64_MAX, most = 0;
                for (int thread = 0; thread < size; thread++) {
                    int64_t begin, end;
                    mega_team_share(n, grains[g], thread, size, &begin, &end);
                    assert_int_equal(begin, last);
                    assert_true(end >= begin);
                    assert_true(begin % grains[g] == 0 || begin == n);
                    assert_true(end % grains[g] == 0 || end == n);
                    const int64_t chunks = (end - begin + grains[g] - 1) / grains[g];
                    if (chunks < least) least = chunks;
                    if (chunks > most) most = chunks;
                    last = end;
                }
                assert_int_equal(last, n);
                assert_true(most - least <= 1);
            }
        }
    }
}

static void affinity_is_respected(void **state)
{
    (void)state;
    cpu_set_t before, one;
    if (sched_getaffinity(0, sizeof before, &before) != 0) mega_kit_skip("more processors than a plain mask holds");
    assert_in_range(mega_cpu_count(), 1, CPU_COUNT(&before));
    assert_int_equal(mega_cpu_affinity(), CPU_COUNT(&before));
    assert_true(mega_cpu_quota() == 0 || mega_cpu_count() < mega_cpu_quota() + 1);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &before)) continue;
        CPU_SET(i, &one);
        break;
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    const int count = mega_cpu_count();
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(count, 1);
}

static void default_threads_follow_the_environment(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int threads; /* 0 = the number of cores */
    } rows[] = {{"3", 3},    {"4,2", 4}, {"0", 0},  {"-2", 0},
                {"many", 0}, {"", 0},    {"3x", 0}, {"99999999999999999999", 0}};
    const char *old = getenv("OMP_NUM_THREADS");
    char *kept = old != NULL ? mega_strdup(old) : NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setenv("OMP_NUM_THREADS", rows[i].text, 1);
        assert_int_equal(mega_default_threads(), rows[i].threads != 0 ? rows[i].threads : mega_cpu_count());
        assert_int_equal(mega_threads_from_environment(), rows[i].threads);
    }
    unsetenv("OMP_NUM_THREADS");
    assert_int_equal(mega_default_threads(), mega_cpu_count());
    if (kept != NULL) setenv("OMP_NUM_THREADS", kept, 1);
    mega_free(kept);
}

static void isa_can_be_lowered_only(void **state)
{
    (void)state;
    const char *old = getenv("MEGA_ISA");
    char *kept = old != NULL ? mega_strdup(old) : NULL;
    unsetenv("MEGA_ISA");
    const mega_isa found = mega_cpu_isa();
    for (int i = MEGA_ISA_PORTABLE; i <= MEGA_ISA_AMX; i++) {
        setenv("MEGA_ISA", mega_isa_name((mega_isa)i), 1);
        assert_int_equal(mega_cpu_isa(), i < (int)found ? i : (int)found);
    }
    setenv("MEGA_ISA", "nonsense", 1);
    assert_int_equal(mega_cpu_isa(), found);
    unsetenv("MEGA_ISA");
    if (kept != NULL) setenv("MEGA_ISA", kept, 1);
    mega_free(kept);
    if (getenv("MEGA_UNDER_VALGRIND") != NULL) return; /* valgrind presents its own processor, without AVX-512 */
    char text[8192], model[128];                       /* the result must agree with the system's list of flags */
    if (!mega_system_read(text, sizeof text, "/proc/cpuinfo") || strstr(text, "flags") == NULL) return;
    assert_int_equal(found >= MEGA_ISA_AVX2, strstr(text, " avx2 ") != NULL && strstr(text, " fma ") != NULL);
    assert_int_equal(found >= MEGA_ISA_AVX512,
                     strstr(text, " avx512vl ") != NULL && strstr(text, " avx512bw ") != NULL);
    assert_int_equal(found >= MEGA_ISA_AVX512_BF16, strstr(text, "avx512_bf16") != NULL);
    assert_string_not_equal(mega_cpu_model(model, sizeof model), "");
    char tiny[4];
    assert_int_equal(strlen(mega_cpu_model(tiny, sizeof tiny)), 3);
}

static double monotonic(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &t), 0);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void time_is_the_monotonic_clock(void **state)
{
    (void)state;
    const double before = monotonic(), now = mega_time_now(), after = monotonic();
    assert_true(before <= now + 1e-6 && now <= after + 1e-6);
}

/* Must be the last test: the limit holds for the whole process. */
static void isa_of_other_ranks_is_taken(void **state)
{
    (void)state;
    const char *old = getenv("MEGA_ISA");
    if (old != NULL) mega_kit_skip("MEGA_ISA is set");
    const mega_isa found = mega_cpu_isa();
    mega_cpu_isa_lower(MEGA_ISA_AMX); /* never raises it */
    assert_int_equal(mega_cpu_isa(), found);
    mega_cpu_isa_lower(MEGA_ISA_PORTABLE);
    assert_int_equal(mega_cpu_isa(), MEGA_ISA_PORTABLE);
    mega_cpu_isa_lower(found);
    assert_int_equal(mega_cpu_isa(), MEGA_ISA_PORTABLE);
}

/* 40 hexadecimal digits, the same at each call: cmake/settings.cmake asks the linker for them. */
static void builds_have_an_id(void **state)
{
    (void)state;
    char id[MEGA_BUILD_ID_TEXT], again[MEGA_BUILD_ID_TEXT];
    mega_build_id(id);
    mega_build_id(again);
    assert_string_equal(id, again);
    assert_int_equal(strlen(id), 40);
    assert_int_equal(strspn(id, "0123456789abcdef"), 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_thread_runs_once_per_run),
        cmocka_unit_test(no_team_runs_on_the_caller),
        cmocka_unit_test(a_run_meets_workers_at_any_moment),
        cmocka_unit_test(results_of_all_threads_are_visible),
        cmocka_unit_test(every_item_is_claimed_once),
        cmocka_unit_test(a_thread_that_is_held_up),
        cmocka_unit_test(no_more_threads_claim_than_there_are_cores),
        cmocka_unit_test(claims_are_shuffled_where_they_should_be),
        cmocka_unit_test(zeros),
        cmocka_unit_test(teams_that_cannot_be_made),
        cmocka_unit_test(shares_cover_everything_once),
        cmocka_unit_test(affinity_is_respected),
        cmocka_unit_test(default_threads_follow_the_environment),
        cmocka_unit_test(isa_can_be_lowered_only),
        cmocka_unit_test(builds_have_an_id),
        cmocka_unit_test(time_is_the_monotonic_clock),
        cmocka_unit_test(isa_of_other_ranks_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
