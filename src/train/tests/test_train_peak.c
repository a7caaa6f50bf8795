/* Tests the peak with which the log compares a run. */
#include "kit.h"
#include "train_impl.h"

static void best_measurement_counts(void **state)
{
    (void)state;
    train_peak p = {0};
    train_peak_add(&p, (mega_peak){100, 1});
    assert_true(p.flops == 100 && !p.is_doubtful);
    train_peak_add(&p, (mega_peak){60, 0.5}); /* a measurement on a busy machine does not lower the peak */
    assert_true(p.flops == 100 && !p.is_doubtful);
    assert_true(train_peak_percent(&p, 40) == 40 && !p.is_doubtful);
}

static void busy_machine_is_doubtful(void **state)
{
    (void)state;
    train_peak p = {0};
    train_peak_add(&p, (mega_peak){100, 0.6});
    assert_true(p.is_doubtful);
    train_peak_add(&p, (mega_peak){150, 0.8});
    assert_true(p.flops == 150 && p.is_doubtful);
    train_peak_add(&p, (mega_peak){200, 0.99});
    assert_true(p.flops == 200 && !p.is_doubtful);
    p.is_doubtful = true;
    train_peak_add(&p, (mega_peak){100, 1}); /* contradicts the doubtful peak */
    assert_true(p.flops == 200 && p.is_doubtful);
    train_peak_add(&p, (mega_peak){195, 1}); /* confirms the doubtful peak */
    assert_true(p.flops == 200 && !p.is_doubtful);
}

/* If the peak was measured while other processes were busy, the run would reach 130 % of it: the peak is raised
 * instead. */
static void run_is_never_above_its_peak(void **state)
{
    (void)state;
    train_peak p = {0};
    train_peak_add(&p, (mega_peak){100, 1});
    assert_true(train_peak_percent(&p, 130) == 100);
    assert_true(p.flops == 130 && p.is_doubtful);
    assert_true(train_peak_percent(&p, 65) == 50);
    train_peak_add(&p, (mega_peak){200, 1});
    assert_true(train_peak_percent(&p, 130) == 65 && !p.is_doubtful);
}

/* The last argument is the run's number of threads, on four cores. */
static void notes(void **state)
{
    (void)state;
    char out[128];
    const train_peak sure = {.flops = 1}, doubtful = {.flops = 1, .is_doubtful = true};
    const mega_cpu_load unknown = {0}, quiet = {.cores = 4, .own = 0.9, .others = 0.04, .stolen = 0.009};
    const mega_cpu_load busy = {.cores = 4, .own = 0.7, .others = 0.24, .stolen = 0.03};
    assert_string_equal(train_peak_note(out, sizeof out, &sure, &unknown, 4), "");
    assert_string_equal(train_peak_note(out, sizeof out, &sure, &quiet, 4), "");
    assert_string_equal(train_peak_note(out, sizeof out, &doubtful, &quiet, 4), " (doubtful)");
    assert_string_equal(train_peak_note(out, sizeof out, &sure, &busy, 4),
                        " (others took 24 %, the hypervisor 3 % of the cores)");
    /* the others may have used the fourth core */
    assert_string_equal(train_peak_note(out, sizeof out, &sure, &busy, 3), "");
    assert_string_equal(train_peak_note(out, sizeof out, &doubtful, &busy, 4),
                        " (doubtful; others took 24 %, the hypervisor 3 % of the cores)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_measurement_counts),
        cmocka_unit_test(busy_machine_is_doubtful),
        cmocka_unit_test(run_is_never_above_its_peak),
        cmocka_unit_test(notes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
