/* A data set: the order of its samples, and how a batch reads them. */
#include "kit.h"
#include "megalith/batch.h"

#include <string.h>

enum { MOST = 1000, BATCH = 4 };

static int64_t moved(const mega_dataset *d, uint32_t seed, int64_t epoch)
{
    int64_t count = 0;
    for (int64_t i = 0; i < d->count; i++) count += mega_dataset_index(d, seed, epoch * d->count + i) != d->first + i;
    return count;
}

static void every_epoch_is_a_permutation(void **state)
{
    (void)state;
    static const int64_t counts[] = {1, 2, 3, 4, 5, 15, 16, 17, 64, 65, 999, MOST};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            const mega_dataset d = {.first = 70, .count = counts[c]};
            bool seen[MOST] = {false};
            for (int64_t i = 0; i < d.count; i++) {
                const int64_t index = mega_dataset_index(&d, 5, epoch * d.count + i);
                assert_in_range(index, 70, 70 + d.count - 1);
                assert_false(seen[index - 70]);
                seen[index - 70] = true;
            }
        }
}

static void epochs_and_seeds_have_orders_of_their_own(void **state)
{
    (void)state;
    const mega_dataset d = {.count = MOST}, in_order = {.first = 3, .count = 10, .in_order = true};
    int64_t by_epoch = 0, by_seed = 0, neighbours = 0;
    for (int64_t i = 0; i < MOST; i++) {
        const int64_t here = mega_dataset_index(&d, 1, i);
        by_epoch += here == mega_dataset_index(&d, 1, MOST + i);
        by_seed += here == mega_dataset_index(&d, 2, i);
        if (i > 0) neighbours += here == mega_dataset_index(&d, 1, i - 1) + 1;
    }
    assert_in_range(by_epoch, 0, 8); /* one on average */
    assert_in_range(by_seed, 0, 8);
    assert_in_range(neighbours, 0, 8);
    assert_true(moved(&d, 1, 0) > MOST - 8 && moved(&d, 1, 7) > MOST - 8);
    assert_int_equal(moved(&in_order, 1, 4), 0);
    assert_int_equal(mega_dataset_index(&in_order, 1, 25), 8);
}

/* Of each permutation only the first samples are read; which ones are dropped changes from epoch to epoch. */
static void the_end_of_an_epoch_is_dropped(void **state)
{
    (void)state;
    const mega_dataset whole = {.first = 2, .count = 11}, cut = {.first = 2, .count = 11, .epoch = 8};
    bool was_dropped[11] = {false};
    for (int64_t epoch = 0; epoch < 6; epoch++) {
        bool seen[11] = {false};
        for (int64_t i = 0; i < 8; i++) {
            const int64_t index = mega_dataset_index(&cut, 5, epoch * 8 + i);
            assert_int_equal(index, mega_dataset_index(&whole, 5, epoch * 11 + i));
            assert_false(seen[index - 2]);
            seen[index - 2] = true;
        }
        for (int i = 0; i < 11; i++) was_dropped[i] = was_dropped[i] || !seen[i];
    }
    int dropped = 0;
    for (int i = 0; i < 11; i++) dropped += was_dropped[i];
    assert_true(dropped > 3);
    const mega_dataset in_order = {.count = 11, .epoch = 8, .in_order = true};
    assert_int_equal(mega_dataset_index(&in_order, 5, 9), 1);
}

/* The first sample is at each position about equally often. */
static void orders_are_spread_evenly(void **state)
{
    (void)state;
    enum { PLACES = 5, SEEDS = 2000 };
    const mega_dataset d = {.count = PLACES};
    int times[PLACES] = {0};
    for (uint32_t seed = 0; seed < SEEDS; seed++) times[mega_dataset_index(&d, seed, 0)]++;
    for (int i = 0; i < PLACES; i++) assert_in_range(times[i], SEEDS / PLACES - 90, SEEDS / PLACES + 90); /* 5 sigma */
}

typedef struct source {
    int64_t read[BATCH], fails_at;
    int reads, collated;
} source;

static mega_status read_one(void *user, int64_t index, mega_sample *sample)
{
    source *s = user;
    const int32_t id = (int32_t)index;
    if (index == s->fails_at) return MEGA_FAIL(MEGA_ERR_IO, "page %lld is torn", (long long)index);
    assert_int_equal(mega_sample_seed(sample), 9);
    s->read[s->reads++] = index;
    return mega_sample_set_i32(sample, "id", &id, 1);
}

static mega_status count_samples(void *user, mega_batch *batch)
{
    ((source *)user)->collated += (int)mega_batch_num_samples(batch);
    return MEGA_OK;
}

static mega_batch *batch_of(int64_t from)
{
    static const mega_batch_input id = {.name = "id", .dtype = MEGA_I32, .per_sample = 1};
    mega_batch *b;
    need(mega_batch_create(BATCH, &b));
    need(mega_batch_add(b, &id, true));
    need(mega_batch_allocate(b));
    mega_batch_begin(b, BATCH);
    for (int64_t i = 0; i < BATCH; i++) mega_batch_set_index(b, i, from + 2 * i); /* the samples of one of two ranks */
    return b;
}

static void a_batch_reads_its_samples(void **state)
{
    (void)state;
    source s = {.fails_at = -1};
    const mega_dataset d = {.first = 20, .count = 5, .read = read_one, .collate = count_samples, .user = &s};
    mega_batch *b = batch_of(3); /* 3, 5, 7, 9: continues into the second epoch without a gap */
    need(mega_dataset_fill(&d, 9, b));
    need(mega_batch_check(b));
    assert_int_equal(s.reads, BATCH);
    assert_int_equal(s.collated, BATCH);
    for (int64_t i = 0; i < BATCH; i++) {
        assert_int_equal(s.read[i], mega_dataset_index(&d, 9, 3 + 2 * i));
        assert_int_equal(*mega_sample_i32(mega_batch_sample(b, i), "id", 1), s.read[i]);
    }
    mega_batch_destroy(b);
}

static void a_failed_read_names_its_sample(void **state)
{
    (void)state;
    source s = {.fails_at = 22};
    mega_dataset d = {
        .first = 20, .count = 5, .read = read_one, .collate = count_samples, .user = &s, .in_order = true};
    mega_batch *b = batch_of(3);
    assert_int_equal(mega_dataset_fill(&d, 9, b), MEGA_ERR_IO);
    assert_non_null(strstr(mega_error_message(), "sample 7 of the run, index 22 of the data set"));
    assert_non_null(strstr(mega_error_message(), "page 22 is torn"));
    assert_int_equal(s.collated, 0);
    d.count = 0;
    assert_int_equal(mega_dataset_fill(&d, 9, b), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "found count 0 and first 20; expected a count of at least 1"));
    d.read = NULL;
    assert_int_equal(mega_dataset_fill(&d, 9, b), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "its function read is NULL"));
    assert_int_equal(mega_dataset_fill(NULL, 9, b), MEGA_ERR_USAGE);
    mega_batch_destroy(b);
}

static void wrong_calls_have_messages(void **state)
{
    (void)state;
    const mega_dataset none = {.count = 0}, five = {.count = 5};
    assert_int_equal(mega_dataset_index(&none, 1, 0), -1);
    assert_non_null(strstr(mega_error_message(), "found sample 0 and a data set of 0 samples"));
    assert_int_equal(mega_dataset_index(&five, 1, -1), -1);
    assert_int_equal(mega_dataset_index(NULL, 1, 0), -1);
    assert_int_equal(mega_sample_index(NULL), -1);
    assert_non_null(strstr(mega_error_message(), "mega_sample_index: sample is NULL"));
    assert_int_equal(mega_sample_seed(NULL), 0);
}

static mega_status read_nothing(void *user, int64_t index, mega_sample *sample)
{
    (void)user, (void)index, (void)sample;
    return MEGA_ERR_IO;
}

static void a_read_without_a_message_is_given_no_older_one(void **state)
{
    (void)state;
    const mega_dataset d = {.count = 5, .read = read_nothing};
    mega_batch *b = batch_of(0);
    (void)MEGA_FAIL(MEGA_ERR_IO, "an older failure");
    assert_int_equal(mega_dataset_fill(&d, 9, b), MEGA_ERR_IO);
    mega_error_record r;
    mega_error_get_of(MEGA_ERR_IO, &r);
    assert_null(strstr(r.text, "an older failure"));
    mega_batch_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_epoch_is_a_permutation),
        cmocka_unit_test(epochs_and_seeds_have_orders_of_their_own),
        cmocka_unit_test(the_end_of_an_epoch_is_dropped),
        cmocka_unit_test(orders_are_spread_evenly),
        cmocka_unit_test(a_batch_reads_its_samples),
        cmocka_unit_test(a_failed_read_names_its_sample),
        cmocka_unit_test(wrong_calls_have_messages),
        cmocka_unit_test(a_read_without_a_message_is_given_no_older_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
