/* Compares maps and samples of BERT and T5 with the golden file that tools/make_sentence_golden.py writes with NumPy,
 * and with the reference vectors; tests batches and mistakes. */
#include "megalith/batch.h"
#include "megalith/memory.h"
#include "sentence_kit.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHOWN = 2, FIELDS = 13, LINE = 600 };

/* ---- the golden file ---- */

static uint64_t mix(uint64_t total, int64_t count, const int32_t *x)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < count; i++) sum += ((uint64_t)(int64_t)x[i] + 2) * (2 * (uint64_t)i + 1);
    return sum + total * 0x9e3779b97f4a7c15u;
}

static char *next_word(char **at)
{
    char *word = *at + strspn(*at, " \n");
    *at = word + strcspn(word, " \n");
    if (**at != '\0') *(*at)++ = '\0';
    return word;
}

static int64_t next_number(char **at)
{
    char *end, *word = next_word(at);
    const int64_t value = strtoll(word, &end, 10);
    if (end == word) fail_msg("golden file: found \"%s\", expected a number", word);
    return value;
}

static void expect_numbers(char **at, int64_t count, const int32_t *x)
{
    assert_string_equal(next_word(at), "numbers");
    for (int64_t i = 0; i < count; i++) assert_int_equal(x[i], next_number(at));
}

static void check_map(char **at, const char *prefix, const mega_sentence_options *o, const int64_t *f)
{
    mega_indexed *data;
    need(mega_indexed_open(prefix, &data));
    const mega_gpt_index_spec spec = {.data = data,
                                      .end = mega_indexed_documents(data),
                                      .seq_length = f[6],
                                      .num_samples = f[7],
                                      .seed = (uint32_t)f[1],
                                      .sentences = o};
    mega_gpt_index_plan plan;
    mega_gpt_index index;
    need(mega_gpt_index_plan_make(&spec, &plan));
    need(mega_gpt_index_build(&spec, &plan, NULL, 0, &index));
    assert_string_equal(next_word(at), "map");
    assert_int_equal(plan.samples, next_number(at));
    const int32_t *map = index.sample;
    assert_true(mix(0, plan.samples * MEGA_SENTENCE_MAP, map) == strtoull(next_word(at), NULL, 10));
    for (int i = 0; i < 4 * MEGA_SENTENCE_MAP && i < plan.samples * MEGA_SENTENCE_MAP; i++)
        assert_int_equal(map[i], next_number(at));
    mega_gpt_index_fini(&index);
    mega_indexed_close(data);
}

static void check_sample(char **at, bool t5, bool shown, const mega_sentence_row *row, uint64_t *total)
{
    const int32_t facts[4] = {row->is_random, row->truncated, (int32_t)row->length, (int32_t)row->label_positions};
    int32_t loss_mask[LINE];
    for (int64_t i = 0; i < row->label_length; i++) loss_mask[i] = (int32_t)row->loss_mask[i];
    const struct {
        int64_t count;
        const int32_t *x;
    } array[] = {{4, facts},
                 {row->seq_length, row->tokens},
                 {t5 ? row->label_length : row->seq_length, t5 ? row->decoder_tokens : row->types},
                 {row->seq_length, row->padding_mask},
                 {row->label_length, row->labels},
                 {row->label_length, loss_mask}};
    for (size_t k = 0; k < sizeof array / sizeof *array; k++) {
        *total = mix(*total, array[k].count, array[k].x);
        if (shown) expect_numbers(at, array[k].count, array[k].x);
    }
}

static void check_case(char **at)
{
    int64_t f[FIELDS]; /* kind, seed, four of the data, length, samples, two of percent, head, nsp, decoder */
    for (int i = 0; i < FIELDS; i++) f[i] = next_number(at);
    const mega_sentence_options o = {.kind = f[0] ? MEGA_SENTENCES_T5 : MEGA_SENTENCES_BERT,
                                     .vocabulary = &vocabulary,
                                     .short_seq_prob = (double)f[8] / 100,
                                     .mask_prob = (double)f[9] / 100,
                                     .binary_head = f[10] != 0,
                                     .nsp = f[11] != 0,
                                     .decoder_seq_length = f[12]};
    const char *prefix = write_documents("golden", f + 2);
    check_map(at, prefix, &o, f);
    mega_gpt_data *d = open_data(prefix, &o, f[6], (uint32_t)f[1], f[7]);
    mega_sentence_row row;
    need(mega_sentence_row_create(&o, f[6], &row));
    uint64_t total = 0;
    int64_t checked = 0;
    for (; checked < 160 && checked < mega_gpt_data_samples(d); checked++) {
        need(mega_sentence_sample(d, checked, &row));
        check_sample(at, f[0] != 0, checked < SHOWN, &row, &total);
    }
    assert_string_equal(next_word(at), "samples");
    assert_int_equal(checked, next_number(at));
    assert_true(total == strtoull(next_word(at), NULL, 10));
    mega_sentence_row_destroy(&row);
    mega_gpt_data_destroy(d);
}

static void golden_file(void **state)
{
    (void)state;
    char *text;
    size_t size;
    need(mega_file_read(mega_kit_source("tests/golden/sentence_arrays.txt"), &text, &size));
    char *at = text;
    int cases = 0;
    for (char *word = next_word(&at); *word != '\0'; word = next_word(&at), cases++) {
        assert_string_equal(word, "case");
        check_case(&at);
    }
    assert_int_equal(cases, 20);
    mega_free(text);
}

/* ---- the vectors of the reference ---- */

static const struct {
    mega_sentence_kind kind;
    uint32_t seed, target;
    bool is_random;
    int32_t length, tokens[24], labels[24];
} reference[] = {
    {MEGA_SENTENCES_BERT,
     1234,
     21,
     false,
     21,
     {2, 10, 11, 51, 12, 13, 14, 53, 15, 16, 17, 18, 19, 3, 4, 4, 4, 22, 23, 24, 3},
     {[14] = 20, 55, 21}},
    {MEGA_SENTENCES_BERT,
     1236,
     21,
     true,
     21,
     {2, 17, 18, 19, 20, 55, 21, 4, 4, 24, 3, 10, 11, 51, 12, 13, 14, 53, 15, 4, 3},
     {[7] = 22, 23, [19] = 16}},
    {MEGA_SENTENCES_BERT,
     1234,
     14,
     false,
     17,
     {2, 11, 51, 12, 13, 4, 4, 15, 16, 3, 20, 55, 21, 22, 23, 24, 3},
     {[5] = 14, 53}},
    {MEGA_SENTENCES_T5,
     1234,
     18,
     false,
     17,
     {10, 11, 51, 12, 13, 14, 53, 15, 16, 17, 18, 19, 20, 55, 21, 22, 90},
     {90, 23, 24, 89}},
    {MEGA_SENTENCES_T5,
     1235,
     18,
     false,
     17,
     {10, 11, 51, 12, 13, 90, 15, 16, 17, 18, 19, 20, 55, 21, 22, 23, 24},
     {90, 14, 53, 89}},
};

static void reference_samples(void **state)
{
    (void)state;
    static const int32_t tokens[] = {10, 11, 51, 12, 13, 14, 53, 15, 16, 17, 18, 19, 20, 55, 21, 22, 23, 24};
    static const int32_t sizes[] = {4, 5, 3, 6};
    bool pieces[100] = {false};
    for (int i = 50; i < 60; i++) pieces[i] = true;
    const int32_t extra[] = {90, 91, 92, 93, 94};
    const mega_sentence_vocabulary v = {.cls = 2,
                                        .sep = 3,
                                        .mask = 4,
                                        .bos = 88,
                                        .eos = 89,
                                        .sentinel = extra,
                                        .sentinels = 5,
                                        .size = 100,
                                        .continues = pieces};
    const char *prefix = mega_kit_path(mega_kit_temp_folder(), "reference");
    mega_indexed_writer *w;
    mega_indexed *data;
    need(mega_indexed_writer_create(prefix, MEGA_U16, &w));
    need(mega_indexed_writer_add_document(w, tokens, sizes, 4));
    need(mega_indexed_writer_finish(w));
    need(mega_indexed_open(prefix, &data));
    for (size_t r = 0; r < sizeof reference / sizeof *reference; r++) {
        const mega_sentence_options o = {.kind = reference[r].kind,
                                         .vocabulary = &v,
                                         .mask_prob = 0.15,
                                         .binary_head = true,
                                         .decoder_seq_length = 24};
        const uint32_t map[MEGA_SENTENCE_MAP] = {0, 4, reference[r].target};
        const mega_sentence_source source = {&o, data, map, 1, reference[r].seed};
        mega_sentence_row out;
        need(mega_sentence_row_create(&o, 24, &out));
        need(mega_sentence_read(&source, 0, &out));
        assert_int_equal(out.length, reference[r].length);
        assert_int_equal(out.is_random, reference[r].is_random);
        assert_memory_equal(out.tokens, reference[r].tokens, sizeof reference[r].tokens);
        for (int i = 0; i < 24; i++)
            assert_int_equal(out.labels[i], reference[r].labels[i] > 0 ? reference[r].labels[i] : -1);
        mega_sentence_row_destroy(&out);
    }
    mega_indexed_close(data);
}

static void reference_maps(void **state)
{
    (void)state;
    static const int32_t sizes[] = {6, 7, 5, 4, 9, 3, 8, 2, 7, 6, 5};
    static const uint32_t expected[3][24] = {
        {9, 11, 16, 5, 9, 16, 0, 4, 16, 9, 11, 16, 5, 9, 16, 0, 4, 16},
        {0, 4, 16, 4, 5, 16, 4, 5, 16, 9, 11, 16, 0, 4, 16, 5, 9, 16, 5, 9, 16, 9, 11, 16},
        {0, 4, 16, 5, 9, 16, 0, 2, 6, 7, 11, 16, 2, 4, 14, 9, 11, 16, 5, 7, 8}};
    const int32_t tokens[64] = {0};
    const char *prefix = mega_kit_path(mega_kit_temp_folder(), "maps");
    mega_indexed_writer *w;
    mega_indexed *data;
    need(mega_indexed_writer_create(prefix, MEGA_U16, &w));
    need(mega_indexed_writer_add_document(w, tokens, sizes, 4));
    need(mega_indexed_writer_add_document(w, tokens, sizes + 4, 1));
    need(mega_indexed_writer_add_document(w, tokens, sizes + 5, 6));
    need(mega_indexed_writer_finish(w));
    need(mega_indexed_open(prefix, &data));
    for (int r = 0; r < 3; r++) {
        const mega_sentence_options o = {
            .mask_prob = 0.15, .short_seq_prob = r == 2 ? 0.5 : 0.1, .binary_head = r != 1};
        const mega_gpt_index_spec spec = {
            .data = data, .end = 3, .seq_length = 19, .num_samples = 6, .seed = 1234, .sentences = &o};
        mega_gpt_index_plan plan;
        mega_gpt_index index;
        need(mega_gpt_index_plan_make(&spec, &plan));
        need(mega_gpt_index_build(&spec, &plan, NULL, 0, &index));
        assert_int_equal(plan.samples, r == 0 ? 6 : r == 1 ? 8 : 7);
        assert_memory_equal(index.sample, expected[r], (size_t)plan.samples * MEGA_SENTENCE_MAP * 4);
        mega_gpt_index_fini(&index);
        /* An estimate counts a million samples, not all that a huge batch asks for. */
        mega_gpt_index_spec huge = spec;
        mega_gpt_index_plan all, some;
        huge.num_samples = 3000000;
        need(mega_gpt_index_plan_make(&huge, &all));
        huge.is_estimate = true;
        need(mega_gpt_index_plan_make(&huge, &some));
        assert_true(some.samples >= huge.num_samples && some.epochs >= 1);
        assert_true(fabs((double)(some.epochs - all.epochs)) < 0.002 * (double)all.epochs);
        assert_true(fabs((double)(some.samples - all.samples)) < 0.002 * (double)all.samples);
        huge.num_samples = INT64_MAX / 64; /* years of counting */
        need(mega_gpt_index_plan_make(&huge, &some));
        assert_true(some.samples >= huge.num_samples);
    }
    mega_indexed_close(data);
}

/* The 64-bit generator: the check value of the C++ standard. */
static void generator_64(void **state)
{
    (void)state;
    mega_mt19937_64 r;
    mega_mt19937_64_seed(&r, 5489);
    for (int i = 0; i < 9999; i++) (void)mega_mt19937_64_u64(&r);
    assert_true(mega_mt19937_64_u64(&r) == 9981545732273789042u);
}

/* ---- as a data set ---- */

static const mega_batch_input input[2][7] = {
    {{.name = "tokens", .dtype = MEGA_I32, .per_sample = S, .below = VOCABULARY},
     {.name = "labels", .dtype = MEGA_I32, .per_sample = S, .below = VOCABULARY},
     {.name = "loss_mask", .dtype = MEGA_F32, .per_sample = S},
     {.name = "position_ids", .dtype = MEGA_I32, .per_sample = S, .below = S},
     {.name = "key_end", .dtype = MEGA_I32, .per_sample = S, .below = S + 1},
     {.name = "token_types", .dtype = MEGA_I32, .per_sample = S, .below = 2},
     {.name = "is_random", .dtype = MEGA_I32, .per_sample = 1, .below = 2}},
    {{.name = "tokens", .dtype = MEGA_I32, .per_sample = S, .below = VOCABULARY},
     {.name = "labels", .dtype = MEGA_I32, .per_sample = D, .below = VOCABULARY},
     {.name = "loss_mask", .dtype = MEGA_F32, .per_sample = D},
     {.name = "decoder_position_ids", .dtype = MEGA_I32, .per_sample = D, .below = D},
     {.name = "key_end", .dtype = MEGA_I32, .per_sample = S, .below = S + 1},
     {.name = "decoder_tokens", .dtype = MEGA_I32, .per_sample = D, .below = VOCABULARY},
     {.name = "cross_key_end", .dtype = MEGA_I32, .per_sample = D, .below = S + 1}}};

static void batches(void **state)
{
    (void)state;
    const mega_sentence_options bert = {.vocabulary = &vocabulary,
                                        .mask_prob = 0.15,
                                        .short_seq_prob = 0.5,
                                        .binary_head = true},
                                t5 = {.kind = MEGA_SENTENCES_T5,
                                      .vocabulary = &vocabulary,
                                      .mask_prob = 0.15,
                                      .short_seq_prob = 0.5,
                                      .decoder_seq_length = D};
    const mega_sentence_options *const kind[] = {&bert, &t5};
    const char *prefix = write_documents("batches", rule);
    for (int k = 0; k < 2; k++) {
        const bool is_t5 = k == 1;
        const int inputs = sizeof input[k] / sizeof *input[k];
        mega_gpt_data *d = open_data(prefix, kind[k], S, 1, 100);
        const mega_dataset set = mega_dataset_gpt(d);
        assert_int_equal(set.count, mega_gpt_data_samples(d));
        assert_true(set.hash(set.user) != 0);
        mega_batch *b;
        need(mega_batch_create(3, &b));
        for (int i = 0; i < inputs; i++) need(mega_batch_add(b, &input[k][i], true));
        need(mega_batch_allocate(b));
        mega_batch_begin(b, 3);
        for (int64_t i = 0; i < 3; i++) mega_batch_set_index(b, i, 10 + i);
        need(mega_dataset_fill(&set, 1, b));
        need(mega_batch_check(b));
        mega_sentence_row row;
        need(mega_sentence_row_create(kind[k], S, &row));
        need(mega_sentence_sample(d, 11, &row));
        mega_sample *sample = mega_batch_sample(b, 1);
        assert_memory_equal(mega_sample_i32(sample, "tokens", S), row.tokens, S * 4);
        assert_memory_equal(mega_sample_f32(sample, "loss_mask", row.label_length), row.loss_mask,
                            (size_t)row.label_length * 4);
        assert_int_equal(mega_sample_i32(sample, "key_end", S)[S - 1], row.length);
        const int32_t *positions =
            mega_sample_i32(sample, is_t5 ? "decoder_position_ids" : "position_ids", row.label_length);
        for (int64_t i = 0; i < row.label_length; i++) assert_int_equal(positions[i], i);
        const int32_t *labels = mega_sample_i32(sample, "labels", row.label_length);
        for (int64_t i = 0; i < row.label_length; i++)
            assert_int_equal(labels[i], row.labels[i] < 0 ? 0 : row.labels[i]);
        if (is_t5) assert_memory_equal(mega_sample_i32(sample, "decoder_tokens", D), row.decoder_tokens, D * 4);
        else
            assert_int_equal(mega_sample_i32(sample, "is_random", 1)[0], row.is_random);
        mega_sentence_row_destroy(&row);
        mega_batch_destroy(b);
        mega_gpt_data_destroy(d);
    }
}

/* ---- mistakes ---- */

static void options_refused(void **state)
{
    (void)state;
    const mega_sentence_vocabulary none = {.size = VOCABULARY};
    const struct {
        mega_sentence_options o;
        int64_t seq;
        const char *names;
    } row[] = {
        {{.mask_prob = 0.15}, 4, "--seq-length"},
        {{.mask_prob = 0}, 64, "--mask-prob"},
        {{.mask_prob = 1.5}, 64, "--mask-prob"},
        {{.mask_prob = 0.15, .short_seq_prob = -1}, 64, "--short-seq-prob"},
        {{.mask_prob = 0.15, .nsp = true}, 64, "--bert-nsp"},
        {{.kind = MEGA_SENTENCES_T5, .mask_prob = 0.15, .decoder_seq_length = 1}, 64, "--decoder-seq-length"},
        {{.kind = MEGA_SENTENCES_T5, .mask_prob = 0.15, .decoder_seq_length = 9, .vocabulary = &none},
         64,
         "--vocab-extra-ids"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_int_equal(mega_sentence_check(&row[i].o, row[i].seq), MEGA_ERR_USAGE);
        assert_non_null(strstr(mega_error_message(), row[i].names));
    }
}

static void data_refused(void **state)
{
    (void)state;
    mega_sentence_options o = {.vocabulary = &vocabulary, .mask_prob = 0.15, .binary_head = true};
    const char *single = write_documents("single", (const int64_t[4]){5, 30, 1, 70});
    mega_gpt_data *d[MEGA_SPLIT_COUNT] = {NULL};
    const mega_gpt_data_options g = {.separate = {&single},
                                     .num_separate = {1},
                                     .seq_length = 64,
                                     .num_samples = {9},
                                     .sentences = &o,
                                     .in_memory = true};
    assert_int_equal(mega_gpt_data_build(&g, d), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), "--split-sentences"));

    mega_sentence_vocabulary small = vocabulary;
    small.size = 100;
    o.vocabulary = &small;
    const char *prefix = write_documents("refused", rule);
    mega_gpt_data *data = open_data(prefix, &o, 64, 1, 20);
    mega_sentence_row row;
    need(mega_sentence_row_create(&o, 64, &row));
    assert_int_equal(mega_sentence_sample(data, 0, &row), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "100 ids"));
    assert_int_equal(mega_sentence_sample(data, -1, &row), MEGA_ERR_USAGE);
    mega_sentence_row_destroy(&row);
    mega_gpt_data_destroy(data);

    const mega_sentence_options t5 = {
        .kind = MEGA_SENTENCES_T5, .vocabulary = &vocabulary, .mask_prob = 0.5, .decoder_seq_length = 8};
    data = open_data(prefix, &t5, 64, 1, 20);
    need(mega_sentence_row_create(&t5, 64, &row));
    mega_status st = MEGA_OK;
    for (int64_t i = 0; st == MEGA_OK && i < 20; i++) st = mega_sentence_sample(data, i, &row);
    assert_int_equal(st, MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "--decoder-seq-length"));
    mega_sentence_row_destroy(&row);
    mega_gpt_data_destroy(data);
}

int main(void)
{
    vocabulary_fill();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generator_64), cmocka_unit_test(reference_maps), cmocka_unit_test(reference_samples),
        cmocka_unit_test(golden_file),  cmocka_unit_test(batches),        cmocka_unit_test(options_refused),
        cmocka_unit_test(data_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
