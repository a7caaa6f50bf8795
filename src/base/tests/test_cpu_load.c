/* The processor time that other processes take, on made-up /proc and sysfs folders; and the kinds of cores. */
#include "base_impl.h"
#include "kit.h"
#include "megalith/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *proc, *sys;

/* Converts seconds to the system's clock ticks. */
static long tick(double seconds)
{
    return lround(seconds * (double)sysconf(_SC_CLK_TCK));
}

static const char *process_file(int pid, const char *file)
{
    char name[32];
    snprintf(name, sizeof name, "%d", pid);
    const char *folder = mega_kit_path(proc, name);
    assert_int_equal(mega_folder_create(folder), MEGA_OK);
    return mega_kit_path(folder, file);
}

static void put_process(int pid, const char *mask, double user, double system)
{
    char text[512];
    snprintf(text, sizeof text, "Name:\tmega\nCpus_allowed:\tff\nCpus_allowed_list:\t%s\nMems_allowed:\t1\n", mask);
    mega_kit_write(process_file(pid, "status"), text);
    snprintf(text, sizeof text,
             "%d (a ) b) R 1 1 1 0 -1 4194304 100 0 0 0 %ld %ld 7 8 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1\n",
             pid, tick(user), tick(system));
    mega_kit_write(process_file(pid, "stat"), text);
}

/* Seconds of user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user. */
typedef double core_row[8];

static void put_stat(core_row core[], const int *number, int count)
{
    char text[4096];
    int n = snprintf(text, sizeof text, "cpu  9 9 9 9 9 9 9 9 0 0\n");
    for (int i = 0; i < count; i++) {
        n += snprintf(text + n, sizeof text - (size_t)n, "cpu%d", number[i]);
        for (int k = 0; k < 8; k++) n += snprintf(text + n, sizeof text - (size_t)n, " %ld", tick(core[i][k]));
        n += snprintf(text + n, sizeof text - (size_t)n, " 77 0\n");
    }
    snprintf(text + n, sizeof text - (size_t)n, "intr 1 2 3\nctxt 5\n");
    mega_kit_write(mega_kit_path(proc, "stat"), text);
}

static void begin(void)
{
    const char *folder = mega_kit_temp_folder();
    proc = mega_kit_path(folder, "proc");
    sys = mega_kit_path(folder, "sys");
    assert_int_equal(mega_folder_create(proc), MEGA_OK);
    assert_int_equal(mega_folder_create(sys), MEGA_OK);
}

static void near(double found, double expected)
{
    if (fabs(found - expected) > 1e-9) print_error("found %.12g, expected %.12g\n", found, expected);
    assert_true(fabs(found - expected) <= 1e-9);
}

static mega_cpu_meter *meter_of(const int *pids, int count)
{
    mega_cpu_meter *m;
    assert_int_equal(mega_cpu_meter_create_at(proc, sys, pids, count, 100, &m), MEGA_OK);
    assert_non_null(m);
    return m;
}

/* Core 2 is not in the mask, core 5 has no line (offline): ten seconds on cores 1, 3 and 5. */
static void others_are_what_the_run_did_not_use(void **state)
{
    (void)state;
    const int pid = 42, number[] = {1, 2, 3};
    core_row before[3] = {{1, 1, 1, 1, 1, 1, 1, 1}, {0}, {2, 0, 0, 0, 0, 0, 0, 0}};
    core_row after[3] = {{5, 2, 2, 3, 1, 1.5, 1.5, 2}, {9, 9, 9, 9, 9, 9, 9, 9}, {8, 0, 2, 0, 0, 0, 0, 2}};
    mega_cpu_load load;
    begin();
    put_process(pid, "1,3-3,5", 3, 1);
    put_stat(before, number, 3);
    mega_cpu_meter *m = meter_of(&pid, 1);
    assert_int_equal(mega_cpu_meter_cores(m), 3);
    put_process(pid, "1,3-3,5", 9, 2);
    put_stat(after, number, 3);
    assert_true(mega_cpu_meter_read_at(m, 110, 0, &load));
    near(load.seconds, 10);
    assert_int_equal(load.cores, 3);
    near(load.own, 7.0 / 30);
    near(load.others, (7.0 + 8.0 - 7.0) / 30);
    near(load.stolen, (1.0 + 2.0) / 30);
    near(load.throttled, 0);
    const mega_cpu_core_load first = mega_cpu_meter_core(m, 0), last = mega_cpu_meter_core(m, 2);
    assert_int_equal(first.number, 1);
    near(first.busy, 0.7);
    near(first.stolen, 0.1);
    assert_int_equal(last.number, 5);
    near(last.busy, 0);
    mega_cpu_meter_destroy(m);
}

static void readings_begin_where_they_are_asked_to(void **state)
{
    (void)state;
    const int pid = 1, number = 0;
    core_row core[1] = {{0}};
    mega_cpu_load load;
    begin();
    put_process(pid, "0", 0, 0);
    put_stat(core, &number, 1);
    mega_cpu_meter *m = meter_of(&pid, 1);
    core[0][0] = 2;
    put_stat(core, &number, 1);
    assert_true(mega_cpu_meter_read_at(m, 104, 0, &load));
    near(load.others, 0.5);
    assert_true(mega_cpu_meter_read_at(m, 108, 0, &load));
    near(load.others, 0.25);
    assert_false(mega_cpu_meter_read_at(m, 108, 8.5, &load)); /* less than the least interval */
    mega_cpu_meter_begin(m);
    assert_true(mega_cpu_meter_read_at(m, 109, 0, &load));
    near(load.others, 0);
    put_process(pid, "0", 3, 0); /* the process's tick was counted before its core's */
    assert_true(mega_cpu_meter_read_at(m, 110, 0, &load));
    near(load.others, 0);
    near(load.own, 1);
    mega_cpu_meter_destroy(m);
}

/* Two ranks, each on its own core: neither counts as another process for the other. */
static void ranks_of_a_run_are_no_others(void **state)
{
    (void)state;
    const int pids[] = {7, 8}, number[] = {0, 1};
    core_row core[2] = {{0}, {0}};
    mega_cpu_load load;
    begin();
    put_process(7, "0", 0, 0);
    put_process(8, "1", 0, 0);
    put_stat(core, number, 2);
    mega_cpu_meter *m = meter_of(pids, 2);
    assert_int_equal(mega_cpu_meter_cores(m), 2);
    core[0][0] = 1;
    core[1][0] = 1.5;
    put_stat(core, number, 2);
    put_process(7, "0", 1, 0);
    put_process(8, "1", 1, 0);
    assert_true(mega_cpu_meter_read_at(m, 102, 0, &load));
    near(load.own, 2.0 / 4);
    near(load.others, 0.5 / 4);
    mega_cpu_meter_destroy(m);
}

static void put_group(const char *own, const char *folder, const char *file, const char *text)
{
    assert_int_equal(mega_folder_create(mega_kit_path(proc, "self")), MEGA_OK);
    mega_kit_write(mega_kit_path(proc, "self/cgroup"), own);
    assert_int_equal(mega_folder_create(mega_kit_path(sys, folder)), MEGA_OK);
    mega_kit_write(mega_kit_path(mega_kit_path(sys, folder), file), text);
}

static void quota_throttles(void **state)
{
    (void)state;
    const int pid = 1, number[] = {0, 1};
    core_row core[2] = {{0}, {0}};
    mega_cpu_load load;
    begin();
    put_process(pid, "0-1", 0, 0);
    put_stat(core, number, 2);
    put_group("0::/a\n", "a", "cpu.stat", "usage_usec 5\nnr_throttled 3\nthrottled_usec 1000000\n");
    mega_cpu_meter *m = meter_of(&pid, 1);
    put_group("0::/a\n", "a", "cpu.stat", "usage_usec 5\nnr_throttled 3\nthrottled_usec 3000000\n");
    put_group("0::/a\n", ".", "cpu.stat", "usage_usec 5\n");
    assert_true(mega_cpu_meter_read_at(m, 110, 0, &load));
    near(load.throttled, 0.1);
    mega_cpu_meter_destroy(m);
    put_group("4:cpu,cpuacct:/b\n", "cpu,cpuacct/b", "cpu.stat", "nr_throttled 3\nthrottled_time 2500000000\n");
    near(mega_cgroup_throttled(proc, sys), 2.5);
}

static void unknown_is_no_error(void **state)
{
    (void)state;
    const int pid = 1, number = 0;
    core_row core[1] = {{0}};
    mega_cpu_load load = {.others = 1};
    mega_cpu_meter *m;
    begin();
    put_process(pid, "0", 0, 0);
    assert_int_equal(mega_cpu_meter_create_at(proc, sys, &pid, 1, 0, &m), MEGA_OK); /* no /proc/stat */
    assert_null(m);
    mega_kit_write(mega_kit_path(proc, "stat"), "nothing of the kind\n");
    assert_int_equal(mega_cpu_meter_create_at(proc, sys, &pid, 1, 0, &m), MEGA_OK);
    assert_null(m);
    assert_false(mega_cpu_meter_read(m, 0, &load));
    near(load.others, 0);
    assert_int_equal(mega_cpu_meter_cores(m), 0);
    mega_cpu_meter_begin(m);
    mega_cpu_meter_destroy(m);
    put_stat(core, &number, 1);
    m = meter_of(&pid, 1);
    mega_kit_write(process_file(pid, "stat"), "1 (gone"); /* the process has ended meanwhile */
    assert_false(mega_cpu_meter_read_at(m, 110, 0, &load));
    mega_cpu_meter_destroy(m);
}

/* Computes for at least 0.3 s, and until this process has had more than some ticks of a core: under load that takes
 * longer. */
static void compute(void)
{
    volatile double x = 1;
    const clock_t began = clock();
    for (const double until = mega_time_now() + 0.3; mega_time_now() < until || clock() - began < CLOCKS_PER_SEC / 10;)
        x = x * 1.0000001;
}

/* On the real machine, this process must not count as another process. */
static void this_machine_answers(void **state)
{
    (void)state;
    mega_cpu_meter *m;
    mega_cpu_load load;
    assert_int_equal(mega_cpu_meter_create(NULL, 0, &m), MEGA_OK);
    if (m == NULL) mega_kit_skip("this system does not tell what its cores do");
    compute();
    assert_true(mega_cpu_meter_read(m, 0, &load));
    assert_int_equal(load.cores, mega_cpu_affinity());
    assert_true(load.seconds >= 0.3);
    assert_true(load.own > 0);
    assert_true(load.own + load.others + load.stolen < 1.3);
    mega_cpu_meter_destroy(m);
}

/* NULL equals only NULL. */
static void same_text(const char *found, const char *expected)
{
    if (expected == NULL) assert_null(found);
    else {
        assert_non_null(found);
        assert_string_equal(found, expected);
    }
}

static void text_is(const char *expected, mega_cpu_load load)
{
    char text[96];
    same_text(mega_cpu_load_text(text, sizeof text, &load), expected);
}

static void texts(void **state)
{
    (void)state;
    text_is(NULL, (mega_cpu_load){.own = 1, .others = 0.009});
    text_is("others took 24 % of the cores", (mega_cpu_load){.others = 0.24});
    text_is("others took 24 %, the hypervisor 8 %, the quota 3 % of the cores",
            (mega_cpu_load){.others = 0.24, .stolen = 0.08, .throttled = 0.03});
    text_is("the quota took 100 % of the cores", (mega_cpu_load){.throttled = 1});
    text_is("the hypervisor took 2 % of the cores", (mega_cpu_load){.stolen = 0.02});
}

static void idle_cores_are_not_missed(void **state)
{
    (void)state;
    const mega_cpu_load load = {.cores = 4, .others = 0.4, .stolen = 0.2, .throttled = 0.01}, none = {0};
    near(mega_cpu_load_missed(&load, 4), 0.61);
    near(mega_cpu_load_missed(&load, 8), 0.61);
    near(mega_cpu_load_missed(&load, 2), 0.11);
    near(mega_cpu_load_missed(&load, 1), 0.01);
    near(mega_cpu_load_missed(&none, 1), 0);
}

/* ---- kinds of cores ---- */

static void put_core_file(int core, const char *file, const char *text)
{
    char name[64];
    snprintf(name, sizeof name, "system/cpu/cpu%d/cpufreq", core);
    assert_int_equal(mega_folder_create(mega_kit_path(sys, name)), MEGA_OK);
    snprintf(name, sizeof name, "system/cpu/cpu%d/%s", core, file);
    mega_kit_write(mega_kit_path(sys, name), text);
}

static void kinds_are(const char *expected, const int *core, int count)
{
    char text[256];
    same_text(mega_cpu_kinds_at(text, sizeof text, sys, core, count), expected);
}

static void kinds_of_cores(void **state)
{
    (void)state;
    const int all[] = {0, 1, 2, 3, 5}, alike[] = {2, 3};
    begin();
    kinds_are(NULL, all, 5);
    for (int i = 0; i < 5; i++) put_core_file(all[i], "cpufreq/cpuinfo_max_freq", i == 1 ? "5200000\n" : "5000000\n");
    kinds_are(NULL, all, 5); /* favoured cores are of the same kind as the others */
    put_core_file(0, "cpufreq/cpuinfo_max_freq", "2600000\n");
    put_core_file(5, "cpufreq/cpuinfo_max_freq", "2500000\n");
    kinds_are("3 cores (1-3), 2 of 50 % of their clock (0,5)", all, 5);
    for (int i = 0; i < 5; i++) put_core_file(all[i], "cpu_capacity", i < 2 ? "1024\n" : "446\n");
    kinds_are("2 cores (0-1), 3 of 44 % of their capacity (2-3,5)", all, 5);
    kinds_are(NULL, alike, 2);
    put_group("", "cpu_core", "cpus", "0-2\n");
    put_group("", "cpu_atom", "cpus", "3-5\n");
    kinds_are("3 performance cores (0-2), 2 efficiency cores (3,5)", all, 5);
    char small[12];
    assert_non_null(mega_cpu_kinds_at(small, sizeof small, sys, all, 5));
    assert_string_equal(small, "3 performan");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_are_what_the_run_did_not_use),
        cmocka_unit_test(readings_begin_where_they_are_asked_to),
        cmocka_unit_test(ranks_of_a_run_are_no_others),
        cmocka_unit_test(quota_throttles),
        cmocka_unit_test(unknown_is_no_error),
        cmocka_unit_test(this_machine_answers),
        cmocka_unit_test(texts),
        cmocka_unit_test(idle_cores_are_not_missed),
        cmocka_unit_test(kinds_of_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
