/* The table of a profile: the sums in its rows, and the separate column of waits for other threads. */
#include "kit.h"
#include "megalith/profile.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Reads ms/step and waits (ms) of a row. */
static void row_of(const char *table, const char *name, double *ms, double *waits)
{
    char mark[64];
    snprintf(mark, sizeof mark, "\n %s ", name);
    const char *row = strstr(table, mark);
    assert_non_null(row);
    assert_int_equal(sscanf(row + strlen(mark), "%lf %*f %lf", ms, waits), 2);
}

static void expect(const char *table, const char *name, double ms, double waits)
{
    double found_ms, found_waits;
    row_of(table, name, &found_ms, &found_waits);
    if (found_ms != ms || found_waits != waits)
        print_error("%s: %g ms with %g of waits, expected %g with %g\n", name, found_ms, found_waits, ms, waits);
    assert_true(found_ms == ms && found_waits == waits);
}

/* Two steps of 100 ms. In each, no row covers the last 20 ms, of which 2 ms are waits. */
static void waits_have_a_column(void **state)
{
    (void)state;
    mega_profile *p;
    mega_buffer text = {0};
    const mega_profile_bound none = {0, 0};
    assert_int_equal(mega_profile_create(10, &p), MEGA_OK);
    for (int i = 0; i < 2; i++) {
        const double t = 7 + i, w = 3 + 0.012 * i;
        mega_profile_span(p, "data", (mega_profile_moment){t, w, -1}, (mega_profile_moment){t + 0.03, w, -1}, 0);
        mega_profile_span(p, "optimizer", (mega_profile_moment){t + 0.03, w, -1},
                          (mega_profile_moment){t + 0.08, w + 0.01, -1}, 0);
        mega_profile_step(p, i, (mega_profile_moment){t, w, -1}, (mega_profile_moment){t + 0.1, w + 0.012, -1});
    }
    mega_profile_table(p, &none, &text);
    assert_false(text.failed);
    assert_non_null(strstr(text.data, "ms/step      %     waits    calls"));
    expect(text.data, "data", 30, 0);
    expect(text.data, "optimizer", 50, 10);
    expect(text.data, "between", 20, 2);
    expect(text.data, "step", 100, 12);
    mega_buffer_fini(&text);
    mega_profile_destroy(p);
}

/* Whichever thread gets the range: the first thread waits until the worker has a range, and the worker works until the
 * first thread sleeps. */
static void hold(void *user, int thread, int64_t begin, int64_t end)
{
    atomic_bool *held = user;
    (void)begin, (void)end;
    if (thread > 0) {
        atomic_store(held, true);
        mega_kit_until_asleep((int)getpid(), (int)getpid());
    } else
        while (!atomic_load(held)) sched_yield();
}

static void moments_know_the_waits_of_a_team(void **state)
{
    (void)state;
    mega_team *team;
    atomic_bool held = false;
    assert_int_equal(mega_team_create(2, &team), MEGA_OK);
    const mega_profile_moment began = mega_profile_now(team);
    assert_true(began.at > 0 && began.waited == 0);
    mega_team_for(team, 2, 1, hold, &held);
    const mega_profile_moment ended = mega_profile_now(team);
    assert_true(ended.waited > 0);
    assert_true(ended.waited <= ended.at - began.at);
    assert_true(mega_profile_now(NULL).waited == 0);
    mega_team_destroy(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_have_a_column),
        cmocka_unit_test(moments_know_the_waits_of_a_team),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
