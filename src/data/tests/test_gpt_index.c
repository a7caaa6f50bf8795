/* Compares index arrays, blend order and permutations with the golden file that tools/make_index_golden.py writes with
 * NumPy and torch, and with the reference vectors; tests the splits. */
#include "data_impl.h"
#include "kit.h"
#include "megalith/hash.h"
#include "megalith/memory.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 6000 };

/* One line of the golden file: a name and numbers. */
typedef struct golden_line {
    char name[16];
    int count;
    char *text[MOST]; /* borrowed */
} golden_line;

static golden_line line; /* 48 kB: too large for a stack frame under valgrind */

static bool golden_next(char **cursor)
{
    char *p = *cursor;
    if (p == NULL || *p == '\0') return false;
    char *end = strchr(p, '\n');
    *end = '\0';
    *cursor = end + 1;
    char *word = strtok(p, " ");
    snprintf(line.name, sizeof line.name, "%s", word);
    line.count = 0;
    while ((word = strtok(NULL, " ")) != NULL) {
        assert_true(line.count < MOST);
        line.text[line.count++] = word;
    }
    return true;
}

static void expect_line(char **cursor, const char *name)
{
    assert_true(golden_next(cursor));
    assert_string_equal(line.name, name);
}

static int64_t number(int i)
{
    assert_true(i < line.count);
    return strtoll(line.text[i], NULL, 10);
}

/* Writes a pair with these sizes; token i of the data set is (7919 i + 13) mod 60000. */
static mega_indexed *data_with(const int32_t *sizes, int64_t count)
{
    const char *prefix = mega_kit_path(mega_kit_temp_folder(), "golden");
    mega_indexed_writer *w;
    assert_int_equal(mega_indexed_writer_create(prefix, MEGA_U16, &w), MEGA_OK);
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t tokens[512];
        for (int64_t k = 0; k < sizes[i]; k++, at++) tokens[k] = (int32_t)((at * 7919 + 13) % 60000);
        /* An empty sequence, which add() would omit. */
        assert_int_equal(mega_indexed_writer_add_document(w, tokens, &sizes[i], 1), MEGA_OK);
    }
    assert_int_equal(mega_indexed_writer_finish(w), MEGA_OK);
    mega_indexed *ix;
    assert_int_equal(mega_indexed_open(prefix, &ix), MEGA_OK);
    return ix;
}

static void compare_array(char **cursor, const char *name, bool brief, const void *data, int64_t count)
{
    expect_line(cursor, name);
    if (brief) {
        const uint64_t hash = mega_hash64(MEGA_HASH_START, data, (size_t)count * 4);
        assert_true(hash == strtoull(line.text[0], NULL, 10));
        return;
    }
    assert_int_equal(line.count, count);
    for (int i = 0; i < count; i++) assert_int_equal(((const int32_t *)data)[i], number(i));
}

static void compare_tokens(char **cursor, const mega_gpt_index_spec *spec)
{
    const char *path[1] = {mega_indexed_prefix(spec->data)};
    mega_gpt_data *d[MEGA_SPLIT_COUNT];
    /* The whole data if the case uses it; no option could name a part. */
    const bool whole = spec->begin == 0 && spec->end == mega_indexed_sequences(spec->data);
    const mega_gpt_data_options o = {.data_path = path,
                                     .num_data_path = 1,
                                     .split = "1,0,0",
                                     .in_memory = true,
                                     .seq_length = spec->seq_length,
                                     .seed = spec->seed,
                                     .num_samples = {spec->num_samples, 0, 0}};
    expect_line(cursor, "given");
    int64_t given[4];
    const int num_given = line.count;
    for (int i = 0; i < num_given; i++) given[i] = number(i);
    expect_line(cursor, "tokens");
    if (!whole) return;
    assert_int_equal(mega_gpt_data_build(&o, d), MEGA_OK);
    uint64_t hash = MEGA_HASH_START;
    int32_t tokens[256];
    for (int i = 0; i < num_given; i++) {
        MEGA_IGNORE(mega_gpt_data_sample(d[0], given[i], tokens));
        hash = mega_hash64(hash, tokens, (size_t)(spec->seq_length + 1) * 4);
    }
    assert_true(hash == strtoull(line.text[0], NULL, 10));
    mega_gpt_data_destroy(d[0]);
}

static void check_index_case(char **cursor)
{
    const bool brief = number(0) != 0;
    mega_gpt_index_spec spec = {.begin = number(1),
                                .end = number(2),
                                .seq_length = number(3),
                                .seed = (uint32_t)number(4),
                                .num_samples = number(5)};
    static int32_t sizes[MOST];
    assert_true(golden_next(cursor));
    const int count = brief ? (int)number(0) : line.count;
    for (int i = 0; i < count; i++) sizes[i] = brief ? 1 + (i * 17 + i / 3) % 251 : (int32_t)number(i);
    mega_indexed *ix = data_with(sizes, count);
    spec.data = ix;
    mega_gpt_index_plan plan;
    mega_gpt_index index;
    assert_int_equal(mega_gpt_index_plan_make(&spec, &plan), MEGA_OK);
    expect_line(cursor, "plan");
    assert_int_equal(plan.epochs, number(0));
    assert_int_equal(plan.separate_last_epoch, number(1));
    assert_int_equal(plan.samples, number(2));
    assert_int_equal(mega_gpt_index_build(&spec, &plan, NULL, 0, &index), MEGA_OK);
    compare_array(cursor, "doc", brief, index.doc, plan.documents);
    compare_array(cursor, "sample", brief, index.sample, 2 * (plan.samples + 1));
    compare_array(cursor, "shuffle", brief, index.shuffle, plan.samples);

    /* the wide types of very large data sets hold the same numbers */
    mega_gpt_index_plan wide_plan = plan;
    wide_plan.sample_type = wide_plan.shuffle_type = MEGA_NPY_I8;
    mega_gpt_index wide;
    assert_int_equal(mega_gpt_index_build(&spec, &wide_plan, NULL, 0, &wide), MEGA_OK);
    for (int64_t i = 0; i < 2 * (plan.samples + 1); i++)
        assert_int_equal(((const int64_t *)wide.sample)[i], ((const int32_t *)index.sample)[i]);
    for (int64_t i = 0; i < plan.samples; i++)
        assert_int_equal(((const int64_t *)wide.shuffle)[i], ((const uint32_t *)index.shuffle)[i]);
    mega_gpt_index_fini(&wide);
    mega_gpt_index_fini(&index);
    compare_tokens(cursor, &spec);
    mega_indexed_close(ix);
}

static void check_blend_case(char **cursor)
{
    const int64_t size = number(0);
    const int count = (int)number(1);
    double weights[512], sum = 0;
    for (int i = 0; i < count; i++) sum += weights[i] = strtod(line.text[2 + i], NULL);
    for (int i = 0; i < count; i++) weights[i] /= sum;
    expect_line(cursor, "wanted");
    for (int i = 0; i < count; i++) assert_int_equal(mega_blend_request(size, weights[i]), number(i));
    int16_t *member = mega_malloc((size_t)size * 2);
    int64_t *sample = mega_malloc((size_t)size * 8);
    assert_int_equal(mega_blend_order(weights, count, size, NULL, member, sample), MEGA_OK);
    expect_line(cursor, "member");
    assert_true(mega_hash64(MEGA_HASH_START, member, (size_t)size * 2) == strtoull(line.text[0], NULL, 10));
    expect_line(cursor, "of");
    assert_true(mega_hash64(MEGA_HASH_START, sample, (size_t)size * 8) == strtoull(line.text[0], NULL, 10));
    mega_free(member);
    mega_free(sample);
}

static void check_randperm_case(void)
{
    const int64_t n = number(1);
    int64_t *p = mega_malloc((size_t)n * 8);
    mega_torch_randperm((uint64_t)number(0), p, n);
    assert_true(mega_hash64(MEGA_HASH_START, p, (size_t)n * 8) == strtoull(line.text[2], NULL, 10));
    mega_free(p);
}

static void golden_file(void **state)
{
    (void)state;
    char *text;
    size_t size;
    assert_int_equal(mega_file_read(mega_kit_source("tests/golden/index_arrays.txt"), &text, &size), MEGA_OK);
    char *cursor = text;
    int cases = 0;
    while (golden_next(&cursor)) {
        if (strcmp(line.name, "case") == 0) {
            check_index_case(&cursor);
        } else if (strcmp(line.name, "blend") == 0) {
            check_blend_case(&cursor);
        } else {
            assert_string_equal(line.name, "randperm");
            check_randperm_case();
        }
        cases++;
    }
    assert_int_equal(cases, 24);
    mega_free(text);
}

/* The table of the reference, which was computed independently of our tool. */
static void reference_vectors(void **state)
{
    (void)state;
    const int32_t sizes[6] = {5, 3, 7, 2, 9, 4};
    mega_indexed *ix = data_with(sizes, 6);
    const struct {
        int64_t wanted;
        int epochs, separate, documents, samples;
        int32_t doc[12], shuffle[14];
    } row[] = {
        {5, 1, 0, 6, 7, {2, 1, 5, 0, 4, 3}, {5, 0, 3, 4, 2, 6, 1}},
        {10, 2, 1, 12, 14, {2, 1, 5, 0, 4, 3, 0, 4, 3, 2, 5, 1}, {1, 0, 3, 2, 5, 4, 6, 9, 10, 12, 8, 11, 13, 7}},
        {13, 2, 0, 12, 14, {1, 2, 5, 2, 3, 4, 1, 0, 4, 5, 0, 3}, {7, 11, 2, 3, 1, 9, 5, 4, 0, 8, 6, 10, 13, 12}}};
    for (int r = 0; r < 3; r++) {
        const mega_gpt_index_spec spec = {
            .data = ix, .end = 6, .seq_length = 4, .num_samples = row[r].wanted, .seed = 1234};
        mega_gpt_index_plan plan;
        mega_gpt_index index;
        assert_int_equal(mega_gpt_index_plan_make(&spec, &plan), MEGA_OK);
        assert_int_equal(plan.epochs, row[r].epochs);
        assert_int_equal(plan.separate_last_epoch, row[r].separate);
        assert_int_equal(plan.documents, row[r].documents);
        assert_int_equal(plan.samples, row[r].samples);
        assert_int_equal(mega_gpt_index_build(&spec, &plan, NULL, 0, &index), MEGA_OK);
        assert_memory_equal(index.doc, row[r].doc, (size_t)row[r].documents * 4);
        assert_memory_equal(index.shuffle, row[r].shuffle, (size_t)row[r].samples * 4);
        mega_gpt_index_fini(&index);
    }
    mega_indexed_close(ix);
}

static void split_table(void **state)
{
    (void)state;
    const struct {
        const char *split;
        int64_t size, bounds[4];
    } row[] = {{"969, 30, 1", 1000, {0, 969, 999, 1000}},
               {"969, 30, 1", 100, {0, 97, 100, 100}},
               {"969,30,1", 10, {0, 10, 10, 10}},
               {"949,50,1", 1000, {0, 949, 999, 1000}},
               {"98,2,0", 101, {0, 99, 101, 101}},
               {"1,1,1", 10, {0, 4, 7, 10}},
               {"90/5/5", 37, {0, 33, 35, 37}},
               {"100", 7, {0, 7, 7, 7}},
               {"0,1,1", 3, {0, 0, 1, 3}},
               {" 90 , 10 ", 10, {0, 9, 10, 10}},
               {"1,1", 0, {0, 0, 0, 0}},
               {"1,1,2", 2, {0, 1, 1, 2}}, /* round half to even: 0.5 becomes 0 twice, so 1 is missing */
               {".9,.1", 10, {0, 9, 10, 10}}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        int64_t bounds[4];
        assert_int_equal(mega_split_bounds(row[i].split, row[i].size, bounds), MEGA_OK);
        assert_memory_equal(bounds, row[i].bounds, sizeof bounds);
    }
    const char *const bad[] = {"", "a", "90,x,1", "-1,2", "0,0,0", "0", "nan", "inf", "90,,1", "1;2"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t bounds[4];
        assert_int_equal(mega_split_bounds(bad[i], 10, bounds), MEGA_ERR_USAGE);
        assert_non_null(strstr(mega_error_message(), "--split"));
    }
}

static void blend_table(void **state)
{
    (void)state;
    const struct {
        int count;
        double weight[3];
        int size;
        int16_t member[12];
        int64_t sample[12];
    } row[] = {{2, {0.3, 0.7}, 10, {1, 0, 1, 1, 0, 1, 1, 0, 1, 1}, {0, 0, 1, 2, 1, 3, 4, 2, 5, 6}},
               {3, {1, 1, 1}, 9, {0, 1, 2, 0, 1, 2, 0, 1, 2}, {0, 0, 0, 1, 1, 1, 2, 2, 2}},
               {3, {0.2, 0.3, 0.5}, 12, {2, 1, 0, 2, 1, 2, 0, 2, 1, 2, 0, 2}, {0, 0, 0, 1, 1, 2, 1, 3, 2, 4, 2, 5}}};
    for (int r = 0; r < 3; r++) {
        int16_t member[12];
        int64_t sample[12];
        assert_int_equal(mega_blend_order(row[r].weight, row[r].count, row[r].size, NULL, member, sample), MEGA_OK);
        assert_memory_equal(member, row[r].member, (size_t)row[r].size * 2);
        assert_memory_equal(sample, row[r].sample, (size_t)row[r].size * 8);
    }
}

static void samplers(void **state)
{
    (void)state;
    mega_sampler *s;
    int64_t i;
    assert_int_equal(mega_sampler_create(MEGA_SAMPLER_SINGLE, 5, 2, 1, &s), MEGA_OK);
    for (int64_t n = 0; n < 5; n++) {
        assert_int_equal(mega_sampler_index(s, n, &i), MEGA_OK);
        assert_int_equal(i, n);
    }
    assert_int_equal(mega_sampler_index(s, 5, &i), MEGA_ERR_USAGE);
    mega_sampler_destroy(s);

    /* 11 samples in micro-batches of 5: an epoch has 10 samples, ordered by randperm(10) seeded with the epoch. */
    assert_int_equal(mega_sampler_create(MEGA_SAMPLER_CYCLIC, 11, 5, 1, &s), MEGA_OK);
    for (int64_t n = 24; n >= 0; n--) {
        int64_t p[10];
        mega_torch_randperm((uint64_t)(n / 10), p, 10);
        assert_int_equal(mega_sampler_index(s, n, &i), MEGA_OK);
        assert_int_equal(i, p[n % 10]);
    }
    mega_sampler_destroy(s);
    /* 11 samples in batches of 4, the last dropped: the first 8 of randperm(11) */
    assert_int_equal(mega_sampler_create_drop_last(MEGA_SAMPLER_CYCLIC, 11, 4, &s), MEGA_OK);
    for (int64_t n = 24; n >= 0; n--) {
        int64_t p[11];
        mega_torch_randperm((uint64_t)(n / 8), p, 11);
        assert_int_equal(mega_sampler_index(s, n, &i), MEGA_OK);
        assert_int_equal(i, p[n % 8]);
    }
    mega_sampler_destroy(s);
    assert_int_equal(mega_sampler_create_drop_last(MEGA_SAMPLER_CYCLIC, 11, 12, &s), MEGA_ERR_USAGE);
    assert_int_equal(mega_sampler_create(MEGA_SAMPLER_CYCLIC, 11, 6, 2, &s), MEGA_ERR_USAGE);
    assert_int_equal(mega_sampler_create(MEGA_SAMPLER_SINGLE, 0, 1, 1, &s), MEGA_ERR_USAGE);
}

static void rows(void **state)
{
    (void)state;
    enum { L = 7 };
    const int32_t tokens[L + 1] = {4, 9, 5, 6, 9, 9, 7, 8}; /* 9 ends a document */
    int32_t input[L], label[L], position[L], start[L];
    float mask[L];
    mega_ltor_row(tokens, L, &(mega_ltor_options){.eod = 9}, input, label, mask, position, start);
    for (int i = 0; i < L; i++) {
        assert_int_equal(input[i], tokens[i]);
        assert_int_equal(label[i], tokens[i + 1]);
        assert_true(mask[i] == 1.0f);
        assert_int_equal(position[i], i);
        assert_int_equal(start[i], 0);
    }
    const mega_ltor_options all = {9, true, true, true};
    mega_ltor_row(tokens, L, &all, input, label, mask, position, start);
    const int32_t positions[L] = {0, 1, 0, 1, 2, 0, 0}, starts[L] = {0, 0, 2, 2, 2, 5, 6};
    const float masks[L] = {1, 0, 1, 1, 0, 0, 1};
    assert_memory_equal(position, positions, sizeof positions);
    assert_memory_equal(start, starts, sizeof starts);
    for (int i = 0; i < L; i++) assert_true(mask[i] == masks[i]);
    mega_ltor_row(tokens, L, &all, NULL, NULL, NULL, NULL, NULL);
}

/* Options that need ends of documents are refused if the data has none. */
static void ends_that_are_not_there(void **state)
{
    (void)state;
    const mega_ltor_options none = {.eod = 9}, all = {9, true, true, true}, loss = {.eod = 9, .eod_mask_loss = true};
    assert_int_equal(mega_ltor_check_ends(&none, "x", 100, 0), MEGA_OK);
    assert_int_equal(mega_ltor_check_ends(&all, "x", 100, 1), MEGA_OK);
    assert_int_equal(mega_ltor_check_ends(&loss, "x", 100, 0), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "--eod-mask-loss: none of 100 tokens of x is the end of a document"));
    assert_int_equal(mega_ltor_check_ends(&all, "x", 100, 0), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "--eod-mask-loss, --reset-position-ids, --reset-attention-mask: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden_file),
                                       cmocka_unit_test(reference_vectors),
                                       cmocka_unit_test(split_table),
                                       cmocka_unit_test(blend_table),
                                       cmocka_unit_test(samplers),
                                       cmocka_unit_test(rows),
                                       cmocka_unit_test(ends_that_are_not_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
