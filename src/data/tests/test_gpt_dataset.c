/* Indexed files as a data set: the rows that training reads, on any thread, and errors. */
#include "kit.h"
#include "megalith/batch.h"
#include "megalith/file.h"
#include "megalith/gpt_data.h"
#include "megalith/indexed.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { L = 8, DOCUMENTS = 30, LENGTH = 40, EOD = 5 };

/* Tokens from `low` to low + 49. */
static const char *make_data(const char *name, int low)
{
    const char *prefix = mega_kit_path(mega_kit_temp_folder(), name);
    mega_indexed_writer *w;
    need(mega_indexed_writer_create(prefix, MEGA_I32, &w));
    for (int d = 0; d < DOCUMENTS; d++) {
        int32_t tokens[LENGTH];
        for (int i = 0; i < LENGTH; i++) tokens[i] = low + (d * 7 + i * 3) % 50;
        need(mega_indexed_writer_add(w, tokens, LENGTH));
    }
    need(mega_indexed_writer_finish(w));
    return prefix;
}

static mega_gpt_data *open_data(const char *prefix, uint32_t seed, int64_t vocab)
{
    mega_gpt_data *d[MEGA_SPLIT_COUNT] = {NULL};
    const mega_gpt_data_options o = {.separate = {&prefix},
                                     .num_separate = {1},
                                     .seq_length = L,
                                     .seed = seed,
                                     .num_samples = {100},
                                     .in_memory = true,
                                     .ltor = {.eod = EOD, .reset_position_ids = true, .eod_mask_loss = true},
                                     .vocab = vocab};
    need(mega_gpt_data_build(&o, d));
    return d[MEGA_SPLIT_TRAIN];
}

static mega_batch *make_batch(int64_t samples)
{
    static const mega_batch_input inputs[] = {{.name = "tokens", .dtype = MEGA_I32, .per_sample = L},
                                              {.name = "labels", .dtype = MEGA_I32, .per_sample = L},
                                              {.name = "loss_mask", .dtype = MEGA_F32, .per_sample = L},
                                              {.name = "position_ids", .dtype = MEGA_I32, .per_sample = L}};
    mega_batch *b;
    need(mega_batch_create(samples, &b));
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) need(mega_batch_add(b, &inputs[i], true));
    need(mega_batch_allocate(b));
    mega_batch_begin(b, samples);
    for (int64_t i = 0; i < samples; i++) mega_batch_set_index(b, i, i);
    return b;
}

typedef struct row {
    int32_t tokens[L], labels[L], positions[L];
    float mask[L];
} row;

/* Computes the row by hand. */
static row row_of(const mega_gpt_data *d, int64_t index)
{
    const mega_ltor_options o = {.eod = EOD, .reset_position_ids = true, .eod_mask_loss = true};
    int32_t tokens[L + 1];
    row r;
    need(mega_gpt_data_sample(d, index, tokens));
    mega_ltor_row(tokens, L, &o, r.tokens, r.labels, r.mask, r.positions, NULL);
    return r;
}

static void expect_row(mega_batch *b, int64_t i, const row *r)
{
    mega_sample *s = mega_batch_sample(b, i);
    assert_memory_equal(mega_sample_i32(s, "tokens", L), r->tokens, sizeof r->tokens);
    assert_memory_equal(mega_sample_i32(s, "labels", L), r->labels, sizeof r->labels);
    assert_memory_equal(mega_sample_i32(s, "position_ids", L), r->positions, sizeof r->positions);
    assert_memory_equal(mega_sample_f32(s, "loss_mask", L), r->mask, sizeof r->mask);
}

static void rows_are_those_of_megatron(void **state)
{
    (void)state;
    mega_gpt_data *d = open_data(make_data("a", 0), 1, 50);
    const mega_dataset set = mega_dataset_gpt(d);
    mega_batch *b = make_batch(100);
    assert_int_equal(set.first, 0);
    assert_int_equal(set.count, mega_gpt_data_samples(d));
    assert_true(set.count >= 100 && set.in_order && set.is_thread_safe);
    need(mega_dataset_fill(&set, 7, b));
    need(mega_batch_check(b));
    bool has_end = false;
    for (int64_t i = 0; i < 100; i++) {
        const row r = row_of(d, i);
        expect_row(b, i, &r);
        for (int k = 0; k < L; k++) has_end = has_end || r.mask[k] == 0;
    }
    assert_true(has_end); /* shows that the option in ltor is used */
    mega_batch_destroy(b);
    mega_gpt_data_destroy(d);
}

/* What an engine says of the data set that it reads. */
static void data_in_use_are_not_destroyed(void **state)
{
    (void)state;
    mega_gpt_data *d = open_data(make_data("a", 0), 1, 50);
    mega_sampled order = {.dataset = mega_dataset_gpt(d)};
    need(mega_sampler_create(MEGA_SAMPLER_SINGLE, 100, 1, 1, &order.sampler));
    const mega_dataset set = mega_dataset_sampled(&order);
    mega_batch *b = make_batch(4);
    set.use(set.user, 1);
    mega_gpt_data_destroy(d);
    assert_non_null(strstr(mega_error_message(), "mega_gpt_data_destroy: still used by an engine"));
    mega_sampler_destroy(order.sampler);
    assert_non_null(strstr(mega_error_message(), "mega_sampler_destroy: still used by an engine"));
    need(mega_dataset_fill(&set, 7, b));
    set.use(set.user, -1);
    mega_batch_destroy(b);
    mega_sampler_destroy(order.sampler);
    mega_gpt_data_destroy(d);
}

enum { ROWS = 100, THREADS = 4, FILLS = 300 };

typedef struct reading {
    const mega_dataset *set;
    mega_batch *batch;
    const row *expected;
    int first; /* row i is sample (first + i) % ROWS */
    int wrong; /* rows with the tokens or labels of another row */
} reading;

static void *read_all(void *user)
{
    reading *r = user;
    for (int n = 0; n < FILLS; n++) {
        if (mega_dataset_fill(r->set, 7, r->batch) != MEGA_OK) r->wrong++;
        for (int i = 0; i < ROWS; i++) {
            const row *e = &r->expected[(r->first + i) % ROWS];
            mega_sample *s = mega_batch_sample(r->batch, i);
            r->wrong += memcmp(mega_sample_i32(s, "tokens", L), e->tokens, sizeof e->tokens) != 0 ||
                        memcmp(mega_sample_i32(s, "labels", L), e->labels, sizeof e->labels) != 0;
        }
    }
    return NULL;
}

static void threads_read_at_the_same_time(void **state)
{
    (void)state;
    mega_gpt_data *d = open_data(make_data("a", 0), 1, 50);
    const mega_dataset set = mega_dataset_gpt(d);
    row expected[ROWS];
    reading r[THREADS];
    pthread_t thread[THREADS];
    for (int i = 0; i < ROWS; i++) expected[i] = row_of(d, i);
    for (int t = 0; t < THREADS; t++) {
        r[t] = (reading){&set, make_batch(ROWS), expected, 25 * t, 0};
        for (int64_t i = 0; i < ROWS; i++) mega_batch_set_index(r[t].batch, i, (r[t].first + i) % ROWS);
    }
    for (int t = 0; t < THREADS; t++) assert_int_equal(pthread_create(&thread[t], NULL, read_all, &r[t]), 0);
    for (int t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
        assert_int_equal(r[t].wrong, 0);
        mega_batch_destroy(r[t].batch);
    }
    mega_gpt_data_destroy(d);
}

static uint64_t hash_of(const char *prefix, uint32_t seed)
{
    mega_gpt_data *d = open_data(prefix, seed, 0);
    const mega_dataset set = mega_dataset_gpt(d);
    const uint64_t hash = set.hash(set.user);
    mega_gpt_data_destroy(d);
    return hash;
}

static void the_hash_is_of_content_and_order(void **state)
{
    (void)state;
    const char *a = make_data("a", 0), *same = make_data("moved", 0), *other = make_data("b", 1);
    assert_true(hash_of(a, 1) == hash_of(same, 1));
    assert_true(hash_of(a, 1) != hash_of(other, 1));
    assert_true(hash_of(a, 1) != hash_of(a, 2));
}

static void what_cannot_be_read_is_refused(void **state)
{
    (void)state;
    mega_batch *b = make_batch(4);
    mega_gpt_data *d = open_data(make_data("a", 0), 1, 20);
    mega_dataset set = mega_dataset_gpt(d);
    assert_int_equal(mega_dataset_fill(&set, 7, b), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "/a.bin: training sample "));
    assert_non_null(strstr(mega_error_message(), "but the vocabulary has 20 ids"));
    assert_int_equal(set.read(set.user, set.count, mega_batch_sample(b, 0)), MEGA_ERR_USAGE);
    mega_gpt_data_destroy(d);
    assert_int_equal(mega_dataset_gpt(NULL).count, 0);
    assert_non_null(strstr(mega_error_message(), "the split is empty"));
    mega_batch_destroy(b);
}

static void data_without_their_order_have_no_samples(void **state)
{
    (void)state;
    const char *prefix = make_data("a", 0);
    mega_gpt_data *d[MEGA_SPLIT_COUNT] = {NULL};
    need(mega_gpt_data_build(
        &(mega_gpt_data_options){
            .separate = {&prefix}, .num_separate = {1}, .seq_length = L, .num_samples = {10}, .check_only = true},
        d));
    assert_int_equal(mega_dataset_gpt(d[0]).count, 0);
    assert_non_null(strstr(mega_error_message(), "check_only"));
    mega_gpt_data_destroy(d[0]);
}

/* The order of a run: permutations of successive epochs, or each sample once. */
static void a_sampler_gives_the_order_of_a_run(void **state)
{
    (void)state;
    enum { EPOCHS = 3 };
    mega_gpt_data *d = open_data(make_data("a", 0), 1, 50);
    mega_batch *b = make_batch(1);
    for (int type = MEGA_SAMPLER_SINGLE; type <= MEGA_SAMPLER_CYCLIC; type++) {
        mega_sampled s = {.dataset = mega_dataset_gpt(d)};
        need(mega_sampler_create((mega_sampler_type)type, s.dataset.count, 2, 1, &s.sampler));
        const mega_dataset run = mega_dataset_sampled(&s);
        assert_true(run.in_order && run.is_thread_safe && run.collate != NULL);
        const int64_t samples = type == MEGA_SAMPLER_SINGLE ? s.dataset.count : EPOCHS * s.dataset.count;
        for (int64_t n = 0; n < samples; n += 7) {
            int64_t index;
            mega_batch_set_index(b, 0, n);
            need(mega_dataset_fill(&run, 7, b));
            need(mega_sampler_index(s.sampler, n, &index));
            const row expected = row_of(d, index);
            expect_row(b, 0, &expected);
        }
        mega_batch_set_index(b, 0, s.dataset.count);
        assert_int_equal(mega_dataset_fill(&run, 7, b), type == MEGA_SAMPLER_SINGLE ? MEGA_ERR_USAGE : MEGA_OK);
        mega_sampler_destroy(s.sampler);
    }
    mega_batch_destroy(b);
    mega_gpt_data_destroy(d);
}

/* Must be the last test: lost bytes stay lost for this process. */
static void a_file_that_is_cut_fails_its_batch(void **state)
{
    (void)state;
    const char *prefix = make_data("a", 0);
    mega_gpt_data *d = open_data(prefix, 1, 0);
    const mega_dataset set = mega_dataset_gpt(d);
    mega_batch *b = make_batch(4);
    char path[4096];
    mega_map_guard();
    need(mega_dataset_fill(&set, 7, b));
    snprintf(path, sizeof path, "%s.bin", prefix);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(mega_dataset_fill(&set, 7, b), MEGA_ERR_IO);
    assert_non_null(strstr(mega_error_message(), "was truncated while it was being read"));
    mega_batch_destroy(b);
    mega_gpt_data_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_megatron),
        cmocka_unit_test(data_in_use_are_not_destroyed),
        cmocka_unit_test(threads_read_at_the_same_time),
        cmocka_unit_test(the_hash_is_of_content_and_order),
        cmocka_unit_test(what_cannot_be_read_is_refused),
        cmocka_unit_test(data_without_their_order_have_no_samples),
        cmocka_unit_test(a_sampler_gives_the_order_of_a_run),
        cmocka_unit_test(a_file_that_is_cut_fails_its_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
