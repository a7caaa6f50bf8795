/* DeepSpeed's lines about steps: their formats and when they are logged; the report of the flops profiler. */
#include "kit.h"
#include "megalith/flops_report.h"
#include "megalith/memory.h"
#include "megalith/step_monitor.h"
#include "notes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static mega_step_monitor *begin(const mega_monitor_options *o)
{
    mega_step_monitor *m = NULL;
    notes_begin();
    assert_int_equal(mega_step_monitor_create(o, NULL, &m), MEGA_OK);
    return m;
}

static mega_step_seen step(int64_t number)
{
    return (mega_step_seen){.step = number,
                            .skipped = 1,
                            .samples = 8 * number,
                            .batch = 8,
                            .micro_batches = 2,
                            .lr = 1e-5,
                            .momentum = {0.9, 0.999},
                            .momenta = 2,
                            .seconds = 0.5,
                            .times = {0.001, 0.002, 0.0005, 0.0002},
                            .planned_bytes = (int64_t)3 << 29};
}

static void progress_lines(void **state)
{
    (void)state;
    const mega_monitor_options o = {.steps_per_print = 2};
    mega_step_monitor *m = begin(&o);
    mega_step_seen s = step(0);
    mega_step_monitor_begin(m, &s);
    assert_string_equal(notes, "step=0, skipped=1, lr=[1e-05], mom=[(0.9, 0.999)]\n");
    for (int i = 1; i <= 4; i++) {
        notes[0] = '\0';
        s = step(i);
        mega_step_monitor_step(m, &s);
        if (i % 2 != 0) assert_string_equal(notes, "");
    }
    assert_has(notes, "step=4, skipped=1, lr=[1e-05], mom=[(0.9, 0.999)]\n"
                      "epoch=0/micro_step=8/global_step=4, RunningAvgSamplesPerSec=16.0, CurrSamplesPerSec=16.0, "
                      "MemAllocated=1.5GB, MaxMemAllocated=");
    s = step(6);
    s.momenta = 1;
    notes[0] = '\0';
    mega_step_monitor_step(m, &s);
    assert_has(notes, "step=6, skipped=1, lr=[1e-05], mom=[0.9]\n");
    mega_step_monitor_destroy(m);
}

/* "Max" is what a plan plans: a data file that is mapped is no memory of the process. */
static void mapped_files_are_not_held(void **state)
{
    enum { BYTES = 128 << 20 };
    const mega_monitor_options o = {.steps_per_print = 1};
    mega_step_monitor *m = begin(&o);
    mega_step_seen s = step(0);
    FILE *file = tmpfile();
    (void)state;
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), BYTES), 0);
    char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    memset(at, 1, BYTES);
    s.planned_bytes = 0;
    mega_step_monitor_begin(m, &s);
    for (s.step = 1; s.step <= 3; s.step++) mega_step_monitor_step(m, &s);
    const char *most = strstr(notes, "MaxMemAllocated=");
    assert_non_null(most);
    assert_true(fabs(strtod(most + 16, NULL) - (double)mega_memory_peak() / (1 << 30)) < 0.02);
    munmap(at, BYTES);
    fclose(file);
    mega_step_monitor_destroy(m);
}

static void lines_of_times(void **state)
{
    (void)state;
    const mega_monitor_options o = {.wall_clock_breakdown = true};
    mega_step_monitor *m = begin(&o);
    const mega_step_seen s = step(1);
    mega_step_monitor_micro_batch(m, &s.times);
    mega_step_monitor_step(m, &s);
    assert_string_equal(notes,
                        "time (ms) | fwd_microstep: 1.00 | bwd_microstep: 2.50 | bwd_inner_microstep: 2.00 | "
                        "bwd_allreduce_microstep: 0.50 | step_microstep: 0.20\n"
                        "time (ms) | fwd: 1.00 | bwd: 2.50 | bwd_inner: 2.00 | bwd_allreduce: 0.50 | step: 0.20\n");
    mega_step_monitor_destroy(m);
}

static void lines_of_memory(void **state)
{
    (void)state;
    const mega_monitor_options on = {.memory_breakdown = true}, off = {.steps_per_print = 0};
    mega_step_monitor *m = begin(&on);
    mega_step_monitor_memory(m, "Engine before step", (int64_t)3 << 29);
    assert_has(notes, "Engine before step\nMA 1.50 GB  Max_MA 1.50 GB  CA ");
    assert_has(notes, "CPU Virtual Memory: used = ");
    mega_step_monitor_destroy(m);
    m = begin(&off);
    mega_step_monitor_memory(m, "Engine before step", 1);
    const mega_step_seen s = step(1);
    mega_step_monitor_step(m, &s);
    mega_step_monitor_micro_batch(m, &s.times);
    assert_string_equal(notes, "");
    mega_step_monitor_destroy(m);
    mega_step_monitor_step(NULL, &s); /* a rank that logs nothing */
    mega_step_monitor_destroy(NULL);
}

static void flops_report(void **state)
{
    (void)state;
    static const mega_flops_row rows[] = {
        {"wte", 0, 0, 0.001}, {"h.0.mlp", 0, 4e9, 0.002}, {"h.0", 0, 0, 0.001},    {"h.1.mlp", 0, 4e9, 0.003},
        {"wte", 5000, 0, 0},  {"h.0.mlp", 1500, 0, 0},    {"h.1.mlp", 1500, 0, 0}, {"h.1.mlp.bias", 2000, 0, 0},
    };
    const mega_flops_report r = {.step = 2,
                                 .ranks = 4,
                                 .data_parallel = 2,
                                 .model_parallel = 2,
                                 .micro_batch = 3,
                                 .samples = 12,
                                 .params_of_model = 20000,
                                 .forward_s = 0.01,
                                 .backward_s = 0.02,
                                 .update_s = 0.005,
                                 .step_s = 0.1,
                                 .micro_batches = 2,
                                 .row = rows,
                                 .rows = sizeof rows / sizeof *rows};
    mega_monitor_options o = {.flops_profiler_depth = -1, .flops_profiler_top = 1, .flops_profiler_detail = true};
    mega_buffer out = {0};
    assert_int_equal(mega_flops_report_write(&r, &o, &out), MEGA_OK);
    static const char *const parts[] = {
        "Profile Summary at step 2:\n",
        "params per rank:                                                        10.00 K\n",
        "fwd MACs per rank:                                                      4.00 GMACs\n",
        "fwd flops of model = fwd flops per rank * model parallel size:          16.00 G\n",
        "fwd FLOPS per rank = fwd flops per rank / fwd latency:                  800.00 GFLOPS\n",
        "bwd FLOPS per rank = 2 * fwd flops per rank / bwd latency:              800.00 GFLOPS\n",
        "FLOPS per rank = 3 * fwd flops per rank * micro-batches / iter latency:  480.00 GFLOPS\n",
        "samples/second:                                                         120.00\n",
        "depth 1:\n    params      - {'wte': '5.00 K'}\n    MACs        - {'h': '4.00 GMACs'}\n",
        "depth 2:\n    params      - {'layer': '5.00 K'}\n",
        "depth 4:\n    params      - {'bias': '2.00 K'}\n",
        "(model): 10.00 K = 100.00% Params, 4.00 GMACs = 100.00% MACs, 7.00 ms = 100.00% latency, 1.14 TFLOPS\n"
        "  (wte): 5.00 K = 50.00% Params, 0 MACs = 0.00% MACs, 1.00 ms = 14.29% latency, 0 FLOPS\n"
        "  (h): 5.00 K = 50.00% Params, 4.00 GMACs = 100.00% MACs, 6.00 ms = 85.71% latency, 1.33 TFLOPS\n"
        "    (0): 1.50 K",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_has(out.data, parts[i]);
    out.size = 0;
    o = (mega_monitor_options){.flops_profiler_depth = 1, .flops_profiler_top = 2, .flops_profiler_recompute = 1};
    assert_int_equal(mega_flops_report_write(&r, &o, &out), MEGA_OK);
    assert_has(out.data, "bwd FLOPS per rank = 3 * fwd flops per rank / bwd latency:");
    assert_has(out.data, "{'wte': '5.00 K', 'h': '5.00 K'}");
    assert_null(strstr(out.data, "depth 2:"));
    assert_null(strstr(out.data, "(model):"));
    mega_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_lines), cmocka_unit_test(mapped_files_are_not_held),
        cmocka_unit_test(lines_of_times), cmocka_unit_test(lines_of_memory),
        cmocka_unit_test(flops_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
