/* The watch: every mistake planted in kernels is reported with every order of threads, under the name of its rule, and
 * nothing else is. */
#include "kernels.h"
#include "kit.h"
#include "runner.h"
#include "watch.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern const device_kernel device_kernel_test_scale, device_kernel_test_row_sum, device_kernel_test_transpose,
    device_kernel_test_product_bf16;

enum { SEEDS = 12 };

/* Memory between parts that belong to nobody. */
typedef struct memory {
    float x[4096], gap1[16], y[4096], gap2[16];
} memory;

static memory *memory_begin(size_t bytes_x, size_t bytes_y)
{
    memory *m = aligned_alloc(64, sizeof *m);
    assert_non_null(m);
    for (unsigned i = 0; i < 4096; i++) m->x[i] = (float)(i * 7919u % 2003u) / 1001.0f - 1.0f;
    watch_forget(true);
    watch_begin();
    watch_memory_add(m->x, bytes_x, true);
    watch_memory_add(m->y, bytes_y, false);
    return m;
}

static void work(const char *name, int lane, uint32_t number, const watch_clock *after, const watch_operand *operands,
                 int count)
{
    const watch_work w = {name, lane, number, after != NULL ? *after : (watch_clock){{0}}, operands, count};
    watch_work_begin(&w);
}

/* Runs the kernel with SEEDS orders: each has a report with this text, or none if it is NULL. */
static void check(const device_kernel *kernel, unsigned x, unsigned y, const void *args, size_t shared, memory *m,
                  size_t bytes_x, size_t bytes_y, const char *expected)
{
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        watch_forget(true);
        watch_memory_add(m->x, bytes_x, true);
        watch_memory_add(m->y, bytes_y, false);
        device_seed(seed);
        const watch_operand operands[2] = {{(const char *)m->x, bytes_x, WATCH_READS},
                                           {(const char *)m->y, bytes_y, WATCH_WRITES}};
        work(kernel->name, -1, 1, NULL, operands, 2);
        const char *error = device_run(&(device_launch){kernel, args, {x, y, 1}, shared});
        if (error != NULL) fail_msg("%s", error);
        if (expected == NULL && watch_reports() > 0) fail_msg("seed %u: %s", seed, watch_first_report());
        if (expected != NULL && strstr(watch_first_report(), expected) == NULL)
            fail_msg("seed %u, %s: expected \"%s\" in: \"%s\"", seed, kernel->name, expected, watch_first_report());
        assert_true(watch_accesses() > 100);
    }
}

static void bounds_and_operands(void **state)
{
    (void)state;
    memory *m = memory_begin(4096, 4096);
    scale_args a = {m->y, m->x, 2, 1, 1024, 0};
    const device_kernel *k = &device_kernel_test_scale;
    check(k, 4, 1, &a, 0, m, 4096, 4096, NULL);
    a.mistake = SCALE_PAST_END;
    check(k, 4, 1, &a, 0, m, 4096, 4096, "outside of device memory");
    check(k, 4, 1, &a, 0, m, 4112, 4096, "outside of device memory");
    a.mistake = SCALE_TWICE;
    check(k, 2, 1, &a, 0, m, 4096, 4096, "race with a write");
    a.mistake = SCALE_UNALIGNED;
    check(k, 4, 1, &a, 0, m, 4096, 4096, "no multiple of the size");
    a.mistake = SCALE_OTHER_OPERAND;
    check(k, 4, 1, &a, 0, m, 4096, 4096, "outside of the operands that the launch declares");
    free(m);
}

static void barriers(void **state)
{
    (void)state;
    memory *m = memory_begin(0, 0);
    row_sum_args a = {m->y, m->x, 6, 200, 0};
    const device_kernel *k = &device_kernel_test_row_sum;
    check(k, 2, 1, &a, 0, m, 4800, 24, NULL);
    a.mistake = ROW_SUM_NO_BARRIER;
    check(k, 2, 1, &a, 0, m, 4800, 24, "shared memory 0");
    a.mistake = ROW_SUM_LATE_BARRIER;
    check(k, 2, 1, &a, 0, m, 4800, 24, "race with a ");
    a.mistake = ROW_SUM_FIFTH_WARP;
    check(k, 2, 1, &a, 0, m, 4800, 24, "outside of device memory");
    a.mistake = 0;
    a.cols = 201; /* one column too many */
    check(k, 2, 1, &a, 0, m, 4800, 24, "outside of device memory");
    free(m);
}

static void warp_barriers(void **state)
{
    (void)state;
    memory *m = memory_begin(0, 0);
    transpose_args a = {m->y, m->x, 0};
    const device_kernel *k = &device_kernel_test_transpose;
    check(k, 1, 1, &a, 32 * 33 * 4, m, 4096, 4096, NULL);
    a.mistake = TRANSPOSE_NO_BARRIER;
    check(k, 1, 1, &a, 32 * 33 * 4, m, 4096, 4096, "shared memory 0");
    a.mistake = TRANSPOSE_BY_EXCHANGE;
    check(k, 1, 1, &a, 32 * 33 * 4, m, 4096, 4096, "race with a write");
    a.mistake = TRANSPOSE_FIRST_BARRIER;
    check(k, 1, 1, &a, 32 * 33 * 4, m, 4096, 4096, "race with a ");
    free(m);
}

static void asynchronous_copies(void **state)
{
    (void)state;
    memory *m = memory_begin(0, 0);
    product_args a = {m->y, (uint16_t *)m->x, (uint16_t *)m->x, 64, 64, 96, 0};
    const device_kernel *k = &device_kernel_test_product_bf16;
    check(k, 1, 1, &a, 0, m, 64 * 96 * 2, 64 * 64 * 4, NULL);
    a.mistake = PRODUCT_NO_WAIT;
    check(k, 1, 1, &a, 0, m, 64 * 96 * 2, 64 * 64 * 4, "shared memory 0");
    a.mistake = PRODUCT_NO_COMMIT;
    check(k, 1, 1, &a, 0, m, 64 * 96 * 2, 64 * 64 * 4, "shared memory 0");
    a.mistake = PRODUCT_NO_BARRIER;
    check(k, 1, 1, &a, 0, m, 64 * 96 * 2, 64 * 64 * 4, "shared memory 0");
    a.mistake = PRODUCT_LATE_BARRIER;
    check(k, 1, 1, &a, 0, m, 64 * 96 * 2, 64 * 64 * 4, NULL);
    free(m);
}

static void never_written(void **state)
{
    (void)state;
    memory *m = memory_begin(4096, 4096);
    const scale_args a = {m->x, m->y, 2, 1, 1024, 0};
    work("test_scale", -1, 1, NULL, NULL, 0);
    assert_null(device_run(&(device_launch){&device_kernel_test_scale, &a, {1, 1, 1}, 0}));
    assert_has(watch_first_report(), "never written is read: test_scale, block 0, thread");
    free(m);
}

/* Copies in three lanes: what clocks do not order is reported, with the names of both. */
static void order(void **state)
{
    (void)state;
    memory *m = memory_begin(4096, 4096);
    watch_clock clock = {{0}};
    work("first", 0, 1, NULL, NULL, 0);
    watch_range(m->y, 4096, true);
    clock.at[0] = 1;
    work("second", 1, 1, &clock, NULL, 0);
    watch_range(m->y, 4096, false);
    clock.at[0] = 1;
    work("third", 2, 1, &clock, NULL, 0);
    watch_range(m->y, 4096, false);
    assert_int_equal(watch_reports(), 0);
    clock.at[2] = 1; /* after the third, but not after the second */
    work("fourth", 3, 1, &clock, NULL, 0);
    watch_range(m->y, 2, true);
    assert_int_equal(watch_reports(), 1);
    assert_has(watch_first_report(),
               "no event orders it after a read: fourth, write of 2 bytes at byte 0 of allocation 1");
    assert_has(watch_first_report(), "the other: second, work 2");
    clock.at[1] = 1;
    work("fifth", 3, 2, &clock, NULL, 0);
    watch_range((char *)m->y + 2, 100, true);
    assert_int_equal(watch_reports(), 1);
    work("sixth", 0, 2, NULL, NULL, 0);
    watch_range((char *)m->y + 2, 4, false);
    assert_int_equal(watch_reports(), 2);
    free(m);
}

/* Three reports are printed, one of each access. */
static void shown(void **state)
{
    (void)state;
    char text[4000] = "";
    int lines = 0;
    memory *m = memory_begin(4096, 4096);
    FILE *said = tmpfile();
    const int old = dup(2);
    assert_true(said != NULL && old >= 0 && dup2(fileno(said), 2) == 2);
    watch_forget(false);
    watch_memory_add(m->y, 4096, false);
    work("copy", 0, 1, NULL, NULL, 0);
    for (int i = 0; i < 5; i++) watch_range((char *)m->y + 100 * i, 100, false);
    dup2(old, 2);
    close(old);
    rewind(said);
    while (fgets(text, sizeof text, said) != NULL) lines++;
    fclose(said);
    assert_int_equal(lines, 3);
    assert_has(text, "byte 200 of allocation 0");
    assert_int_equal(watch_reports(), 5);
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_and_operands),
        cmocka_unit_test(barriers),
        cmocka_unit_test(warp_barriers),
        cmocka_unit_test(asynchronous_copies),
        cmocka_unit_test(never_written),
        cmocka_unit_test(order),
        cmocka_unit_test(shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
