/* Limits of containers, on made-up folders of both control group versions. */
#include "base_impl.h"
#include "kit.h"
#include "megalith/file.h"

#include <string.h>

static const char *proc, *sys;

/* Starts with an empty pair of folders and this line of /proc/self/cgroup. */
static void begin(const char *own)
{
    const char *folder = mega_kit_temp_folder();
    proc = mega_kit_path(folder, "proc");
    sys = mega_kit_path(folder, "sys");
    assert_int_equal(mega_folder_create(mega_kit_path(proc, "self")), MEGA_OK);
    assert_int_equal(mega_folder_create(sys), MEGA_OK);
    mega_kit_write(mega_kit_path(proc, "self/cgroup"), own);
}

static void put(const char *folder, const char *file, const char *text)
{
    assert_int_equal(mega_folder_create(mega_kit_path(sys, folder)), MEGA_OK);
    mega_kit_write(mega_kit_path(mega_kit_path(sys, folder), file), text);
}

static void no_limit(void **state)
{
    (void)state;
    begin("0::/\n");
    assert_true(mega_cgroup_cpus(proc, sys) == 0);
    assert_true(mega_cgroup_memory_left(proc, sys) == UINT64_MAX);
    put(".", "cpu.max", "max 100000\n");
    put(".", "memory.max", "max\n");
    assert_true(mega_cgroup_cpus(proc, sys) == 0);
    assert_true(mega_cgroup_memory_left(proc, sys) == UINT64_MAX);
    assert_true(mega_cgroup_cpus("/nonexistent", sys) == 0);
}

static void version_2_takes_the_strictest_level(void **state)
{
    (void)state;
    begin("0::/a/b\n");
    put("a/b", "cpu.max", "max 100000\n");
    put("a", "cpu.max", "150000 100000\n");
    put(".", "cpu.max", "400000 100000\n");
    assert_true(mega_cgroup_cpus(proc, sys) == 1.5);
    put("a/b", "memory.max", "5000\n");
    put("a/b", "memory.current", "4000\n");
    put("a/b", "memory.stat", "anon 1000\nfile 3000\ninactive_file 1000\nactive_file 500\n");
    put("a", "memory.max", "9000\n");
    put("a", "memory.current", "6600\n");
    assert_int_equal(mega_cgroup_memory_left(proc, sys), 2400);
    put("a", "memory.current", "6300\n");
    assert_int_equal(mega_cgroup_memory_left(proc, sys), 2500);
    put("a", "memory.current", "9300\n");
    assert_int_equal(mega_cgroup_memory_left(proc, sys), 0);
}

static void version_2_in_a_container_sees_its_own_root(void **state)
{
    (void)state;
    begin("0::/docker/0123\n"); /* the host's path, which is not mounted here */
    put(".", "cpu.max", "50000 100000\n");
    put(".", "memory.max", "1000\n");
    assert_true(mega_cgroup_cpus(proc, sys) == 0.5);
    assert_int_equal(mega_cgroup_memory_left(proc, sys), 1000);
}

static void version_1(void **state)
{
    (void)state;
    begin("12:cpuset:/x\n5:memory:/jobs/7\n4:cpu,cpuacct:/jobs\n1:name=systemd:/y\n");
    put("cpu,cpuacct/jobs", "cpu.cfs_quota_us", "300000\n");
    put("cpu,cpuacct/jobs", "cpu.cfs_period_us", "100000\n");
    put("cpu,cpuacct", "cpu.cfs_quota_us", "-1\n");
    put("cpu,cpuacct", "cpu.cfs_period_us", "100000\n");
    assert_true(mega_cgroup_cpus(proc, sys) == 3);
    put("memory", "memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(mega_cgroup_memory_left(proc, sys) == UINT64_MAX);
    put("memory/jobs/7", "memory.limit_in_bytes", "8000\n");
    put("memory/jobs/7", "memory.usage_in_bytes", "3000\n");
    put("memory/jobs/7", "memory.stat", "cache 9\ntotal_inactive_file 700\ntotal_active_file 300\n");
    assert_int_equal(mega_cgroup_memory_left(proc, sys), 6000);
}

static void broken_files_are_no_limit(void **state)
{
    (void)state;
    begin("nonsense\n0:\n::\n0::relative\n\n0::/\n");
    put(".", "cpu.max", "lots\n");
    put(".", "memory.max", "\n");
    assert_true(mega_cgroup_cpus(proc, sys) == 0);
    assert_true(mega_cgroup_memory_left(proc, sys) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_limit),
        cmocka_unit_test(version_2_takes_the_strictest_level),
        cmocka_unit_test(version_2_in_a_container_sees_its_own_root),
        cmocka_unit_test(version_1),
        cmocka_unit_test(broken_files_are_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
