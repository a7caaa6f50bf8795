/* Reading ahead: what is read, how far ahead, and what happens to it when the owner needs something else. */
#include "kit.h"
#include "megalith/reader.h"
#include "megalith/threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 4, COUNT = 1000, SEED = 9 };

typedef struct source {
    atomic_int reads, collated;
    atomic_llong fails_at; /* index whose read fails; -1: none */
    atomic_bool is_held;   /* while true, reads wait */
    atomic_bool is_inside; /* a read has begun and waits */
} source;

typedef struct setting {
    source source;
    mega_dataset data;
    mega_batch *batch; /* of the thread that owns the reader */
    mega_reader *reader;
} setting;

/* Between two looks of a loop that ends by what it sees. */
static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void wait_for(const atomic_int *reads, int expected)
{
    for (int i = 0; i < 5000 && atomic_load(reads) < expected; i++) sleep_ms(1);
    assert_int_equal(atomic_load(reads), expected);
}

/* The values of a sample are its index and its position in the run. */
static mega_status read_one(void *user, int64_t index, mega_sample *sample)
{
    source *s = user;
    const int32_t values[2] = {(int32_t)index, (int32_t)mega_sample_index(sample)};
    while (atomic_load(&s->is_held)) {
        atomic_store(&s->is_inside, true);
        sleep_ms(1);
    }
    atomic_fetch_add(&s->reads, 1);
    if (index == atomic_load(&s->fails_at)) return MEGA_FAIL(MEGA_ERR_IO, "page %lld is torn", (long long)index);
    return mega_sample_set_i32(sample, "id", values, 2);
}

static mega_status count_batches(void *user, mega_batch *batch)
{
    (void)batch;
    atomic_fetch_add(&((source *)user)->collated, 1);
    return MEGA_OK;
}

static void open_setting(setting *s)
{
    static const mega_batch_input id = {.name = "id", .dtype = MEGA_I32, .per_sample = 2};
    *s = (setting){.data = {.first = 20, .count = COUNT, .read = read_one, .collate = count_batches}};
    atomic_store(&s->source.fails_at, -1);
    s->data.user = &s->source;
    need(mega_batch_create(BATCH, &s->batch));
    need(mega_batch_add(s->batch, &id, true));
    need(mega_batch_allocate(s->batch));
    need(mega_reader_create(&s->data, s->batch, &s->reader));
    assert_int_equal(mega_reader_bytes(s->reader), MEGA_READER_AHEAD * mega_batch_bytes(s->batch));
    need(mega_reader_start(s->reader));
}

static void close_setting(setting *s)
{
    mega_reader_destroy(s->reader);
    mega_batch_destroy(s->batch);
}

static void describe(mega_batch *b, int64_t first, int64_t samples)
{
    mega_batch_begin(b, samples);
    for (int64_t i = 0; i < samples; i++) mega_batch_set_index(b, i, first + i);
}

static mega_status take(setting *s, int64_t first, int64_t samples, uint32_t seed)
{
    describe(s->batch, first, samples);
    return mega_reader_take(s->reader, seed, &s->batch);
}

static void announce(setting *s, int64_t first)
{
    mega_batch *b = mega_reader_vacant(s->reader);
    assert_non_null(b);
    describe(b, first, BATCH);
    mega_reader_announce(s->reader, SEED);
}

static void expect(setting *s, int64_t first, int64_t samples, uint32_t seed)
{
    need(mega_batch_check(s->batch));
    assert_int_equal(mega_batch_num_samples(s->batch), samples);
    for (int64_t i = 0; i < samples; i++) {
        mega_sample *sample = mega_batch_sample(s->batch, i);
        const int32_t *values = mega_sample_i32(sample, "id", 2);
        assert_int_equal(mega_sample_seed(sample), seed);
        assert_int_equal(values[0], mega_dataset_index(&s->data, seed, first + i));
        assert_int_equal(values[1], first + i);
    }
}

static void what_is_announced_is_read_before_it_is_taken(void **state)
{
    (void)state;
    setting s;
    open_setting(&s);
    need(take(&s, 0, BATCH, SEED));
    expect(&s, 0, BATCH, SEED);
    for (int64_t at = BATCH; at < 20 * BATCH; at += BATCH) {
        const int announced = mega_reader_announced(s.reader);
        if (announced < 1) announce(&s, at);
        if (announced < 2) announce(&s, at + BATCH);
        assert_null(mega_reader_vacant(s.reader));
        wait_for(&s.source.reads, (int)at + 2 * BATCH);
        need(take(&s, at, BATCH, SEED));
        expect(&s, at, BATCH, SEED);
        assert_int_equal(atomic_load(&s.source.reads), at + 2 * BATCH); /* no sample was read twice */
    }
    assert_int_equal(atomic_load(&s.source.collated), 21);
    close_setting(&s);
}

/* A batch announced with another position, size or seed is not returned for these samples. */
static void other_samples_than_announced_are_read(void **state)
{
    (void)state;
    setting s;
    open_setting(&s);
    for (int i = 0; i < 4; i++) {
        const int64_t first = i == 1 ? 500 : BATCH, samples = i == 2 ? BATCH - 1 : BATCH;
        const uint32_t seed = i == 3 ? SEED + 1 : SEED;
        need(take(&s, 0, BATCH, SEED));
        announce(&s, BATCH);
        announce(&s, 2 * BATCH);
        need(take(&s, first, samples, seed));
        expect(&s, first, samples, seed);
        assert_int_equal(mega_reader_announced(s.reader), i == 0 ? 1 : 0);
        need(take(&s, 2 * BATCH, BATCH, SEED));
        expect(&s, 2 * BATCH, BATCH, SEED);
    }
    close_setting(&s);
}

static void a_failed_read_is_kept_until_it_is_needed(void **state)
{
    (void)state;
    setting s;
    open_setting(&s);
    atomic_store(&s.source.fails_at, mega_dataset_index(&s.data, SEED, 2 * BATCH + 1));
    need(take(&s, 0, BATCH, SEED));
    announce(&s, BATCH);
    announce(&s, 2 * BATCH);
    wait_for(&s.source.reads, 2 * BATCH + 2); /* the read that fails ends its batch */
    need(take(&s, BATCH, BATCH, SEED));
    expect(&s, BATCH, BATCH, SEED);
    mega_error_clear();
    assert_int_equal(take(&s, 2 * BATCH, BATCH, SEED), MEGA_ERR_IO);
    assert_non_null(strstr(mega_error_message(), "sample 9 of the run, index"));
    assert_non_null(strstr(mega_error_message(), "is torn"));
    assert_int_equal(take(&s, 2 * BATCH, BATCH, SEED), MEGA_ERR_IO); /* the samples are read again, and fail again */
    atomic_store(&s.source.fails_at, -1);
    need(take(&s, 2 * BATCH, BATCH, SEED));
    expect(&s, 2 * BATCH, BATCH, SEED);
    close_setting(&s);
}

/* Lets the read end once the thread that owns the reader waits for it. */
static void *let_go(void *user)
{
    mega_kit_until_asleep((int)getpid(), (int)getpid());
    atomic_store(&((source *)user)->is_held, false);
    return NULL;
}

/* Neither call may free memory that a read is still writing to. */
static void destroying_and_dropping_wait_for_a_read(void **state)
{
    (void)state;
    for (int destroys = 0; destroys < 2; destroys++) {
        setting s;
        pthread_t helper;
        open_setting(&s);
        need(take(&s, 0, BATCH, SEED));
        atomic_store(&s.source.is_held, true);
        announce(&s, BATCH);
        announce(&s, 2 * BATCH);
        while (!atomic_load(&s.source.is_inside)) sleep_ms(1);
        assert_int_equal(pthread_create(&helper, NULL, let_go, &s.source), 0);
        if (destroys == 0) {
            need(take(&s, 100, BATCH, SEED));
            expect(&s, 100, BATCH, SEED);
            /* reading of the second announced batch never began */
            assert_int_equal(atomic_load(&s.source.collated), 3);
        }
        close_setting(&s);
        if (destroys == 1) assert_int_equal(atomic_load(&s.source.collated), 2);
        pthread_join(helper, NULL);
    }
}

static void nothing_is_read_before_it_is_asked_for(void **state)
{
    (void)state;
    setting s;
    open_setting(&s);
    sleep_ms(5); /* a reader that read at once would be seen; a slow machine can only hide it, not fail the test */
    close_setting(&s);
    assert_int_equal(atomic_load(&s.source.reads), 0);
    mega_reader_destroy(NULL);
    assert_int_equal(mega_reader_bytes(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_announced_is_read_before_it_is_taken),
        cmocka_unit_test(other_samples_than_announced_are_read),
        cmocka_unit_test(a_failed_read_is_kept_until_it_is_needed),
        cmocka_unit_test(destroying_and_dropping_wait_for_a_read),
        cmocka_unit_test(nothing_is_read_before_it_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
