/* The peak that the log compares a run with. */
#include "kit.h"
#include "train_impl.h"

static void best_measurement_counts(void **state)
{
    (void)state;
    train_peak p = {0};
    train_peak_add(&p, (mega_peak){100, 1});
    assert_true(p.flops == 100 && !p.is_doubtful);
    train_peak_add(&p, (mega_peak){60, 0.5}); /* a busy machine takes nothing back */
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
    train_peak_add(&p, (mega_peak){100, 1}); /* contradicts it */
    assert_true(p.flops == 200 && p.is_doubtful);
    train_peak_add(&p, (mega_peak){195, 1}); /* agrees with it */
    assert_true(p.flops == 200 && !p.is_doubtful);
}

/* Measured at a moment when others had the cores, the run would do 130 % of its peak. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_measurement_counts),
        cmocka_unit_test(busy_machine_is_doubtful),
        cmocka_unit_test(run_is_never_above_its_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
