/* Partition of weights: the same boundaries as DeepSpeed, and for short lists the best of all possible divisions. */
#include "kit.h"
#include "megalith/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 32 };

static void expect(const double *weight, int count, int parts, const int *boundary)
{
    int out[MOST + 1];
    assert_int_equal(mega_partition_balance(weight, count, parts, out), MEGA_OK);
    for (int p = 0; p <= parts; p++)
        if (out[p] != boundary[p])
            fail_msg("%d weights, %d parts: part %d begins at %d; expected %d", count, parts, p, out[p], boundary[p]);
}

/* shared/reference/deepspeed.md, section 2.6 */
static void boundaries_are_deepspeeds(void **state)
{
    (void)state;
    double ones[MOST], ends[27] = {0}, middle[28] = {0};
    for (int i = 0; i < MOST; i++) ones[i] = 1;
    for (int i = 1; i <= 24; i++) ends[i] = 1;
    for (int i = 2; i <= 24; i++) middle[i] = 1;
    const double rising[] = {0, 1, 2, 3, 3, 3}, uneven[] = {0, 1.1, 30, 3};
    const double heavy_end[] = {1, 1, 1, 1, 1, 1, 1, 10}, heavy_start[] = {10, 1, 1, 1, 1, 1, 1, 1};
    expect(ones, 10, 3, (int[]){0, 4, 7, 10});
    expect(ones, 7, 3, (int[]){0, 3, 5, 7});
    expect(ones, 24, 5, (int[]){0, 5, 10, 15, 20, 24});
    expect(ones, 2, 4, (int[]){0, 1, 2, 2, 2});
    expect(ones, 8, 3, (int[]){0, 3, 6, 8});
    expect(ones, 10, 4, (int[]){0, 3, 6, 8, 10});
    expect(rising, 6, 4, (int[]){0, 3, 4, 5, 6});
    expect(uneven, 4, 3, (int[]){0, 2, 3, 4});
    expect(heavy_end, 8, 4, (int[]){0, 3, 5, 7, 8});
    expect(heavy_start, 8, 2, (int[]){0, 1, 8});
    expect(ends, 27, 4, (int[]){0, 7, 13, 19, 27});
    expect(middle, 28, 4, (int[]){0, 8, 14, 20, 28});
}

static void parts_without_layers_are_the_last(void **state)
{
    (void)state;
    const double one[] = {3, 5};
    expect(NULL, 0, 3, (int[]){0, 0, 0, 0});
    expect(one, 1, 1, (int[]){0, 1});
    expect(one, 2, 2, (int[]){0, 1, 2});
    expect(one, 1, 3, (int[]){0, 1, 1, 1});
}

typedef struct best_cut {
    const double *weight;
    int count, parts;
    int boundary[MOST + 1], best[MOST + 1];
    double difference;
} best_cut;

static double difference_of(const best_cut *b)
{
    double least = INFINITY, most = 0;
    for (int p = 0; p < b->parts; p++) {
        double sum = 0;
        for (int i = b->boundary[p]; i < b->boundary[p + 1]; i++) sum += b->weight[i];
        least = fmin(least, sum);
        most = fmax(most, sum);
    }
    return most - least;
}

/* Tries every boundary before `part`, the latest first, so that the first of equally good divisions is the latest. */
static void try_all(best_cut *b, int part)
{
    if (part > 0) {
        for (int at = b->boundary[part + 1] - 1; at >= part; at--) {
            b->boundary[part] = at;
            try_all(b, part - 1);
        }
        return;
    }
    b->boundary[0] = 0;
    const double difference = difference_of(b);
    if (difference >= b->difference) return;
    b->difference = difference;
    memcpy(b->best, b->boundary, sizeof b->best);
}

static void no_cut_is_better(void **state)
{
    (void)state;
    unsigned random = 1;
    for (int turn = 0; turn < 2000; turn++) {
        double weight[9];
        best_cut b = {.weight = weight, .difference = INFINITY};
        random = random * 1664525u + 1013904223u;
        b.count = 2 + (int)(random >> 16) % 8;
        b.parts = 1 + (int)(random >> 24) % (b.count - 1);
        for (int i = 0; i < b.count; i++) {
            random = random * 1664525u + 1013904223u;
            weight[i] = (double)((random >> 20) % (turn % 2 == 0 ? 4u : 50u));
        }
        b.boundary[b.parts] = b.count;
        try_all(&b, b.parts - 1);
        expect(weight, b.count, b.parts, b.best);
    }
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    int out[3] = {7, 7, 7};
    const double bad[] = {1, NAN, 1}, negative[] = {1, -1, 1}, good[] = {1, 1, 1};
    assert_int_equal(mega_partition_balance(good, 3, 0, out), MEGA_ERR_USAGE);
    assert_int_equal(mega_partition_balance(good, -1, 2, out), MEGA_ERR_USAGE);
    assert_int_equal(mega_partition_balance(NULL, 3, 2, out), MEGA_ERR_USAGE);
    assert_int_equal(mega_partition_balance(good, 3, 2, NULL), MEGA_ERR_USAGE);
    assert_int_equal(mega_partition_balance(bad, 3, 2, out), MEGA_ERR_USAGE);
    assert_int_equal(mega_partition_balance(negative, 3, 2, out), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "weight 1 is -1"));
    assert_int_equal(out[0], 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(boundaries_are_deepspeeds),
                                       cmocka_unit_test(parts_without_layers_are_the_last),
                                       cmocka_unit_test(no_cut_is_better), cmocka_unit_test(wrong_calls_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
