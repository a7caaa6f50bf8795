/* The GPT data set as a whole: splits, blends, errors, and files that change while they are read. */
#include "gpt_data_kit.h"

/* Each split draws from its own documents only, and neighbouring samples share a token. */
static void splits_keep_apart(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *prefix = gpt_kit_write(folder, "a", 10, 50);
    const mega_gpt_data_options o = {.data_path = &prefix,
                                     .num_data_path = 1,
                                     .split = "60,30,10",
                                     .seq_length = L,
                                     .seed = 7,
                                     .num_samples = {50, 20, 3}};
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    gpt_kit_build(d, &o);
    const int first[MEGA_SPLIT_COUNT + 1] = {0, 6, 9, 10};
    for (int k = 0; k < MEGA_SPLIT_COUNT; k++) {
        assert_non_null(d[k]);
        assert_true(mega_gpt_data_samples(d[k]) >= o.num_samples[k]);
        for (int64_t i = 0; i < mega_gpt_data_samples(d[k]); i++) {
            int32_t tokens[L + 1];
            MEGA_IGNORE(mega_gpt_data_sample(d[k], i, tokens));
            for (int t = 0; t <= L; t++) assert_in_range(tokens[t] / 100, first[k], first[k + 1] - 1);
        }
        int32_t tokens[L + 1];
        assert_int_equal(mega_gpt_data_sample(d[k], -1, tokens), MEGA_ERR_USAGE);
        assert_int_equal(mega_gpt_data_sample(d[k], mega_gpt_data_samples(d[k]), tokens), MEGA_ERR_USAGE);
        assert_non_null(strstr(mega_error_message(), "expected 0 to"));
    }
    gpt_kit_destroy(d);
    assert_int_equal(gpt_kit_files_in(folder, "index-cache"), 12);
}

static void empty_parts_are_null(void **state)
{
    (void)state;
    const char *prefix = gpt_kit_write(mega_kit_temp_folder(), "a", 10, 50);
    mega_gpt_data_options o = {
        .data_path = &prefix, .num_data_path = 1, .seq_length = L, .in_memory = true, .num_samples = {5, 5, 5}};
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    gpt_kit_build(d, &o); /* 969, 30, 1 of ten documents: all for training */
    assert_true(d[0] != NULL && d[1] == NULL && d[2] == NULL);
    gpt_kit_destroy(d);
    o.split = "8,1,1";
    o.num_samples[1] = 0; /* no sample is requested */
    gpt_kit_build(d, &o);
    assert_true(d[0] != NULL && d[1] == NULL && d[2] != NULL);
    gpt_kit_destroy(d);
}

static void blends(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    gpt_kit_write(folder, "a", 10, 50);
    gpt_kit_write(folder, "b", 10, 90);
    const char *args[4] = {"3", mega_kit_path(folder, "a"), "7", mega_kit_path(folder, "b")};
    const mega_gpt_data_options o = {.data_path = args,
                                     .num_data_path = 4,
                                     .split = "1",
                                     .seq_length = L,
                                     .in_memory = true,
                                     .seed = 7,
                                     .num_samples = {10, 0, 0}};
    mega_gpt_data *d[MEGA_SPLIT_COUNT], *member[2][MEGA_SPLIT_COUNT];
    gpt_kit_build(d, &o);
    assert_int_equal(mega_gpt_data_samples(d[0]), 4 + 8); /* ceil(3.015) + ceil(7.035) */
    for (int m = 0; m < 2; m++) {
        mega_gpt_data_options single = o;
        single.data_path = &args[2 * m + 1];
        single.num_data_path = 1;
        single.num_samples[0] = m == 0 ? 4 : 8;
        gpt_kit_build(member[m], &single);
    }
    const int of[10] = {1, 0, 1, 1, 0, 1, 1, 0, 1, 1}, sample[10] = {0, 0, 1, 2, 1, 3, 4, 2, 5, 6};
    for (int i = 0; i < 10; i++) {
        int32_t x[L + 1], y[L + 1];
        MEGA_IGNORE(mega_gpt_data_sample(d[0], i, x));
        MEGA_IGNORE(mega_gpt_data_sample(member[of[i]][0], sample[i], y));
        assert_memory_equal(x, y, sizeof x);
    }
    gpt_kit_destroy(d);
    for (int m = 0; m < 2; m++) gpt_kit_destroy(member[m]);
}

/* Prefixes alone: each weighs as many samples as one epoch of it has, as in Megatron; a longer run goes on with these
 * weights. */
static void blends_by_size(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    gpt_kit_write(folder, "a", 10, 50);
    gpt_kit_write(folder, "b", 10, 90);
    gpt_kit_write(folder, "c", 4, 50);
    const char *args[3] = {mega_kit_path(folder, "a"), mega_kit_path(folder, "b"), mega_kit_path(folder, "c")};
    const mega_gpt_data_options o = {.data_path = args,
                                     .num_data_path = 3,
                                     .split = "1",
                                     .seq_length = L,
                                     .in_memory = true,
                                     .seed = 7,
                                     .num_samples = {10, 0, 0}};
    mega_gpt_data *d[MEGA_SPLIT_COUNT], *member[3][MEGA_SPLIT_COUNT];
    double weight[3], sum = 0;
    int16_t of[10];
    int64_t sample[10];
    gpt_kit_build(d, &o);
    assert_int_equal(mega_gpt_data_samples(d[0]), 10);
    for (int m = 0; m < 3; m++) {
        mega_gpt_data_options single = o;
        single.data_path = &args[m];
        single.num_data_path = 1;
        single.num_samples[0] = 1;
        gpt_kit_build(member[m], &single);
        weight[m] = (double)mega_gpt_data_samples(member[m][0]);
        sum += weight[m];
    }
    assert_int_equal(mega_blend_order(weight, 3, 10, NULL, of, sample), MEGA_OK);
    int32_t x[L + 1], y[L + 1];
    for (int i = 0; i < 10; i++) {
        MEGA_IGNORE(mega_gpt_data_sample(d[0], i, x));
        MEGA_IGNORE(mega_gpt_data_sample(member[of[i]][0], sample[i], y));
        assert_memory_equal(x, y, sizeof x);
    }
    gpt_kit_destroy(d);
    for (int m = 0; m < 3; m++) gpt_kit_destroy(member[m]);
    mega_gpt_data_options longer = o, weighted = o;
    char number[3][32];
    for (int m = 0; m < 3; m++) snprintf(number[m], sizeof number[m], "%.17g", weight[m]);
    const char *said[6] = {number[0], args[0], number[1], args[1], number[2], args[2]};
    longer.num_samples[0] = weighted.num_samples[0] = (int64_t)sum + 9;
    weighted.data_path = said;
    weighted.num_data_path = 6;
    mega_gpt_data *e[MEGA_SPLIT_COUNT];
    gpt_kit_build(d, &longer);
    gpt_kit_build(e, &weighted);
    assert_int_equal(mega_gpt_data_samples(d[0]), mega_gpt_data_samples(e[0]));
    for (int64_t i = 0; i < longer.num_samples[0]; i++) {
        MEGA_IGNORE(mega_gpt_data_sample(d[0], i, x));
        MEGA_IGNORE(mega_gpt_data_sample(e[0], i, y));
        assert_memory_equal(x, y, sizeof x);
    }
    gpt_kit_destroy(d);
    gpt_kit_destroy(e);
    assert_true(mega_blend_is_by_size((const char *[]){"a", "b"}, 2));
    assert_false(mega_blend_is_by_size((const char *[]){"1", "b"}, 2));
    assert_false(mega_blend_is_by_size((const char *[]){"a", "b", "0.7"}, 3));
    assert_true(mega_blend_is_by_size((const char *[]){"a", "2024"}, 2));
    assert_false(mega_blend_is_by_size((const char *[]){"a"}, 1));
}

/* A member of weight 0, given or resulting from a division, is not read, even if it comes first and would win ties. */
static void weights_of_zero(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *a = gpt_kit_write(folder, "a", 10, 50);
    const char *b = gpt_kit_write(folder, "b", 10, 90), *weight[2] = {"0", "1e-320"};
    for (int i = 0; i < 2; i++) {
        const char *args[4] = {weight[i], a, "1e10", b};
        const mega_gpt_data_options o = {.data_path = args,
                                         .num_data_path = 4,
                                         .split = "1",
                                         .seq_length = L,
                                         .in_memory = true,
                                         .seed = 7,
                                         .num_samples = {10, 0, 0}};
        mega_gpt_data *d[MEGA_SPLIT_COUNT], *alone[MEGA_SPLIT_COUNT];
        mega_gpt_data_options single = o;
        single.data_path = &b;
        single.num_data_path = 1;
        single.num_samples[0] = 11; /* ceil(10 * 1.005) */
        char warning[GPT_KIT_WARNING] = "";
        mega_log_set_sink(gpt_kit_note_warning, warning);
        gpt_kit_build(d, &o);
        mega_log_set_sink(NULL, NULL);
        assert_int_equal(strstr(warning, "the weight 1e-320 of") != NULL, i == 1);
        gpt_kit_build(alone, &single);
        assert_int_equal(mega_gpt_data_samples(d[0]), 11);
        for (int64_t s = 0; s < 11; s++) {
            int32_t x[L + 1], y[L + 1];
            MEGA_IGNORE(mega_gpt_data_sample(d[0], s, x));
            MEGA_IGNORE(mega_gpt_data_sample(alone[0], s, y));
            assert_memory_equal(x, y, sizeof x);
        }
        gpt_kit_destroy(d);
        gpt_kit_destroy(alone);
    }
}

static void separate_paths(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    const char *train = gpt_kit_write(folder, "a", 10, 50);
    const char *valid[4] = {"1", gpt_kit_write(folder, "b", 4, 90), "1", gpt_kit_write(folder, "c", 2, 90)};
    const mega_gpt_data_options o = {.separate = {&train, valid, NULL},
                                     .num_separate = {1, 4, 0},
                                     .seq_length = L,
                                     .in_memory = true,
                                     .seed = 7,
                                     .num_samples = {10, 10, 10}};
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    gpt_kit_build(d, &o);
    assert_true(d[0] != NULL && d[1] != NULL && d[2] == NULL);
    assert_int_equal(mega_gpt_data_samples(d[0]), 499 / L); /* the whole of it, whatever --split says */
    assert_int_equal(mega_gpt_data_samples(d[1]), 12);
    gpt_kit_destroy(d);
}

/* The validation is the second part of 98,2,0 of other data; training and test stay. */
static void validation_of_other_data(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    const char *tuned = gpt_kit_write(folder, "tuned", 10, 50), *before = gpt_kit_write(folder, "before", 100, 90);
    const char *blend[4] = {"1", before, "1", before};
    mega_gpt_data_options o = {.data_path = &tuned,
                               .num_data_path = 1,
                               .data_path2 = &before,
                               .num_data_path2 = 1,
                               .split = "8,0,2",
                               .seq_length = L,
                               .in_memory = true,
                               .seed = 7,
                               .num_samples = {4, 4, 4}};
    mega_gpt_data_options own = {.data_path = &before,
                                 .num_data_path = 1,
                                 .split = "98,2,0",
                                 .seq_length = L,
                                 .in_memory = true,
                                 .seed = 7,
                                 .num_samples = {0, 4, 0}};
    for (int is_blend = 0; is_blend < 2; is_blend++) {
        mega_gpt_data *d[MEGA_SPLIT_COUNT], *expected[MEGA_SPLIT_COUNT];
        if (is_blend) o.data_path2 = own.data_path = blend, o.num_data_path2 = own.num_data_path = 4;
        gpt_kit_build(d, &o);
        gpt_kit_build(expected, &own);
        assert_true(d[0] != NULL && d[1] != NULL && d[2] != NULL && expected[0] == NULL);
        assert_int_equal(mega_gpt_data_hash(d[1]), mega_gpt_data_hash(expected[1]));
        assert_true(mega_gpt_data_hash(d[0]) != mega_gpt_data_hash(d[1]));
        for (int64_t s = 0; s < 4; s++) {
            int32_t x[L + 1], y[L + 1];
            MEGA_IGNORE(mega_gpt_data_sample(d[1], s, x));
            MEGA_IGNORE(mega_gpt_data_sample(expected[1], s, y));
            assert_memory_equal(x, y, sizeof x);
        }
        gpt_kit_destroy(d);
        gpt_kit_destroy(expected);
    }
}

static void expect_refused(const mega_gpt_data_options *o, mega_status st, const char *what)
{
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    assert_int_equal(mega_gpt_data_build(o, d), st);
    if (strstr(mega_error_message(), what) == NULL)
        fail_msg("expected \"%s\" in the message, found \"%s\"", what, mega_error_message());
}

/* Joined parts are read one after the other, and have the hash of their common data. */
static void parts_follow_each_other(void **state)
{
    (void)state;
    const char *prefix = gpt_kit_write(mega_kit_temp_folder(), "parts", 10, 50);
    mega_gpt_data_options o = {.data_path = &prefix,
                               .num_data_path = 1,
                               .split = "100",
                               .in_memory = true,
                               .seq_length = L,
                               .seed = 7,
                               .num_samples = {40}};
    mega_gpt_data *a[MEGA_SPLIT_COUNT], *b[MEGA_SPLIT_COUNT], *whole;
    int32_t expected[L + 1], found[L + 1];
    uint64_t hash, part_hash;
    gpt_kit_build(a, &o);
    o.seed = 8;
    o.num_samples[MEGA_SPLIT_TRAIN] = 100;
    gpt_kit_build(b, &o);
    const int64_t first = mega_gpt_data_samples(a[0]), second = mega_gpt_data_samples(b[0]);
    assert_int_equal(mega_gpt_data_content_hash(a[0], &part_hash), MEGA_OK);
    const uint64_t index_hash = mega_gpt_data_hash(a[0]);
    assert_int_equal(mega_gpt_data_join((mega_gpt_data *const[]){a[0], b[0]}, 2, &whole), MEGA_OK);
    assert_int_equal(mega_gpt_data_samples(whole), first + second);
    assert_int_equal(mega_gpt_data_seq_length(whole), L);
    assert_int_equal(mega_gpt_data_content_hash(whole, &hash), MEGA_OK);
    assert_true(hash == part_hash && mega_gpt_data_hash(whole) == index_hash);
    for (int64_t i = 0; i < first + second; i++) {
        MEGA_IGNORE(mega_gpt_data_sample(i < first ? a[0] : b[0], i < first ? i : i - first, expected));
        MEGA_IGNORE(mega_gpt_data_sample(whole, i, found));
        assert_memory_equal(found, expected, sizeof found);
    }
    mega_gpt_data_destroy(whole); /* frees the parts too */
}

static void refusals(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    const char *a = gpt_kit_write(folder, "a", 10, 50), *tiny = gpt_kit_write(folder, "b", 1, 50);
    const char *none = gpt_kit_write(folder, "none", 3, 0), *missing = mega_kit_path(folder, "missing");
    const char *bad[6][4] = {{"x", a, "1", a},    {"0", a, "0", a},  {"1", a, a, NULL},
                             {"1", a, "1", tiny}, {"-1", a, "2", a}, {"1e308", a, "1e308", a}};
    mega_gpt_data_options o = {
        .data_path = &missing, .num_data_path = 1, .seq_length = L, .in_memory = true, .num_samples = {5, 5, 5}};
    expect_refused(&o, MEGA_ERR_NOT_FOUND, "missing.idx");
    o.data_path = &none, o.split = "1";
    expect_refused(&o, MEGA_ERR_FORMAT, "its 3 documents contain no token");
    o.num_data_path = 4;
    o.data_path = bad[0];
    expect_refused(&o, MEGA_ERR_USAGE, "\"x\" as number 1");
    o.data_path = bad[1];
    expect_refused(&o, MEGA_ERR_USAGE, "all weights are 0");
    o.data_path = bad[4];
    expect_refused(&o, MEGA_ERR_USAGE, "\"-1\" as number 1");
    o.data_path = bad[5];
    expect_refused(&o, MEGA_ERR_USAGE, "add up to more than a number can hold");
    o.data_path = bad[3], o.split = "8,1,1";
    expect_refused(&o, MEGA_ERR_USAGE, "has no document in its validation part");
    o.data_path = bad[2], o.num_data_path = 3;
    expect_refused(&o, MEGA_ERR_USAGE, "expected one prefix, or pairs");
    o.data_path = bad[0], o.num_data_path = 3;
    expect_refused(&o, MEGA_ERR_USAGE, "expected one prefix, or pairs");
    o.data_path = &a, o.num_data_path = 1, o.split = "1,x";
    expect_refused(&o, MEGA_ERR_USAGE, "--split");
    o.split = "1", o.separate[0] = &a, o.num_separate[0] = 1;
    expect_refused(&o, MEGA_ERR_USAGE, "found both");
    o.num_data_path = 0, o.data_path2 = &a, o.num_data_path2 = 1;
    expect_refused(&o, MEGA_ERR_USAGE, "the validation beside --data-path");
    o.num_separate[0] = 0, o.num_data_path2 = 0;
    expect_refused(&o, MEGA_ERR_USAGE, "found no data set");
}

static int build_once(void *user)
{
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    const mega_status st = mega_gpt_data_build(user, d);
    if (st == MEGA_OK) gpt_kit_destroy(d);
    return (int)st;
}

/* Whatever overwrites an index in use, a sample is read within its bounds, or refused. */
static void an_index_that_is_written_over(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *prefix = gpt_kit_write(folder, "over", 10, 50);
    const mega_gpt_data_options o = {.data_path = &prefix,
                                     .num_data_path = 1,
                                     .split = "1,0,0",
                                     .seq_length = L,
                                     .num_samples = {50, 0, 0},
                                     .in_memory = true};
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    gpt_kit_build(d, &o);
    FILE *f = fopen(mega_kit_path(folder, "over.idx"), "r+b");
    assert_non_null(f);
    fseek(f, 34, SEEK_SET); /* lengths, offsets, documents */
    for (int i = 0; i < 10 * 12 + 11 * 8; i++) fputc(i % 4 == 0 ? 3 : i % 8 == 7 ? 0x7f : 0, f);
    fclose(f);
    int refused = 0;
    for (int64_t i = 0; i < mega_gpt_data_samples(d[0]); i++) {
        int32_t row[L + 3] = {[0] = -5, [L + 2] = -5};
        refused += mega_gpt_data_sample(d[0], i, row + 1) == MEGA_ERR_FORMAT;
        assert_true(row[0] == -5 && row[L + 2] == -5);
    }
    assert_true(refused > 0);
    assert_non_null(strstr(mega_error_message(), "was overwritten while it was being read"));
    gpt_kit_destroy(d);
}

static void allocation_failures(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    gpt_kit_write(folder, "a", 10, 50);
    gpt_kit_write(folder, "b", 10, 90);
    const char *args[4] = {"3", mega_kit_path(folder, "a"), "7", mega_kit_path(folder, "b")};
    mega_gpt_data_options o = {.data_path = args,
                               .num_data_path = 4,
                               .split = "8,2",
                               .seq_length = L,
                               .in_memory = true,
                               .num_samples = {100, 20, 0}};
    assert_true(mega_kit_fail_each_allocation(build_once, &o) > 10);
}

/* Arrays that a signal left half built are not cached. */
static void signals_end_building(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    const char *args[4] = {"3", gpt_kit_write(folder, "a", 10, 50), "7", gpt_kit_write(folder, "b", 10, 90)};
    volatile sig_atomic_t stop = 1;
    mega_gpt_data_options o = {.data_path = args,
                               .num_data_path = 4,
                               .split = "8,2",
                               .cache_path = mega_kit_path(folder, "cache"),
                               .seq_length = L,
                               .num_samples = {100, 20, 0},
                               .stop = &stop};
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    assert_int_equal(mega_gpt_data_build(&o, d), MEGA_ERR_INTERRUPTED);
    assert_int_equal(gpt_kit_files_in(folder, "cache"), -1);
    stop = 0;
    gpt_kit_build(d, &o);
    gpt_kit_destroy(d);
    mega_indexed *data;
    assert_int_equal(mega_indexed_open(args[1], &data), MEGA_OK);
    const mega_gpt_index_spec spec = {
        .data = data, .end = 10, .seq_length = L, .num_samples = 100, .seed = 1, .stop = &stop};
    mega_gpt_index_plan plan;
    mega_gpt_index index;
    int16_t member[8];
    int64_t sample[8];
    assert_int_equal(mega_gpt_index_plan_make(&spec, &plan), MEGA_OK);
    stop = 1;
    assert_int_equal(mega_gpt_index_build(&spec, &plan, NULL, 0, &index), MEGA_ERR_INTERRUPTED);
    assert_int_equal(mega_blend_order((const double[2]){3, 7}, 2, 8, &stop, member, sample), MEGA_ERR_INTERRUPTED);
    mega_indexed_close(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_keep_apart),
        cmocka_unit_test(empty_parts_are_null),
        cmocka_unit_test(blends),
        cmocka_unit_test(blends_by_size),
        cmocka_unit_test(weights_of_zero),
        cmocka_unit_test(separate_paths),
        cmocka_unit_test(validation_of_other_data),
        cmocka_unit_test(parts_follow_each_other),
        cmocka_unit_test(refusals),
        cmocka_unit_test(signals_end_building),
        cmocka_unit_test(an_index_that_is_written_over),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
