/* Blends of BERT's and T5's data sets, by given weights and by size, and their cached maps. */
#include "sentence_kit.h"

/* Blends and joined parts give the samples of their members; cached maps are those that were built. */
static void blends_and_caches(void **state)
{
    (void)state;
    const mega_sentence_options o = {
        .vocabulary = &vocabulary, .mask_prob = 0.15, .short_seq_prob = 0.1, .binary_head = true};
    const char *one = write_documents("one", rule), *two = write_documents("two", (const int64_t[4]){11, 80, 9, 12});
    const char *path[] = {"0.3", one, "0.7", two};
    mega_gpt_data *d[MEGA_SPLIT_COUNT], *again[MEGA_SPLIT_COUNT];
    const mega_gpt_data_options g = {.data_path = path,
                                     .num_data_path = 4,
                                     .split = "80,10,10",
                                     .seq_length = 64,
                                     .seed = 5,
                                     .num_samples = {100, 20, 20},
                                     .sentences = &o};
    need(mega_gpt_data_build(&g, d));
    need(mega_gpt_data_build(&g, again));
    mega_sentence_row x, y;
    need(mega_sentence_row_create(&o, 64, &x));
    need(mega_sentence_row_create(&o, 64, &y));
    for (int k = 0; k < MEGA_SPLIT_COUNT; k++) {
        assert_int_equal(mega_gpt_data_order_hash(d[k], 20), mega_gpt_data_order_hash(again[k], 20));
        for (int64_t i = 0; i < 20; i++) {
            need(mega_sentence_sample(d[k], i, &x));
            need(mega_sentence_sample(again[k], i, &y));
            assert_memory_equal(x.tokens, y.tokens, 64 * 4);
            assert_memory_equal(x.labels, y.labels, 64 * 4);
        }
    }
    assert_true(mega_gpt_data_order_hash(d[0], 20) != mega_gpt_data_order_hash(d[1], 20));
    mega_gpt_data *joined, *part[] = {d[1], d[2]};
    const int64_t first = mega_gpt_data_samples(d[1]);
    need(mega_gpt_data_join(part, 2, &joined));
    need(mega_sentence_sample(joined, first + 3, &x));
    need(mega_sentence_sample(again[2], 3, &y));
    assert_memory_equal(x.tokens, y.tokens, 64 * 4);
    int32_t tokens[65];
    assert_int_equal(mega_gpt_data_sample(joined, 0, tokens), MEGA_ERR_USAGE);
    mega_sentence_row_destroy(&x);
    mega_sentence_row_destroy(&y);
    mega_gpt_data_destroy(joined);
    mega_gpt_data_destroy(d[0]);
    for (int k = 0; k < MEGA_SPLIT_COUNT; k++) mega_gpt_data_destroy(again[k]);
}

/* Prefixes alone, by Megatron's rule (get_blend_from_list, then BlendedMegatronDatasetBuilder): without weights each
 * member is built for one epoch, weighs its number of samples, and the blend has as many samples as the run asks for,
 * at most their sum; at the sum every sample of every member is used once. Where Megatron would end, a longer run goes
 * on with the same weights. */
static void expect_samples_by_size(const mega_sentence_options *o, const char *const path[3])
{
    mega_gpt_data *member[3], *d[MEGA_SPLIT_COUNT] = {NULL};
    double weight[3];
    int64_t sum = 0, used[3] = {0};
    for (int m = 0; m < 3; m++) {
        member[m] = open_data(path[m], o, S, 5, 1);
        weight[m] = (double)mega_gpt_data_samples(member[m]);
        sum += mega_gpt_data_samples(member[m]);
    }
    mega_gpt_data_options g = {.data_path = path,
                               .num_data_path = 3,
                               .split = "1",
                               .seq_length = S,
                               .seed = 5,
                               .sentences = o,
                               .in_memory = true,
                               .num_samples = {sum}};
    need(mega_gpt_data_build(&g, d));
    assert_int_equal(mega_gpt_data_samples(d[0]), sum);
    mega_sentence_row x, y;
    need(mega_sentence_row_create(o, S, &x));
    need(mega_sentence_row_create(o, S, &y));
    for (int64_t i = 0; i < sum; i++) {
        double most = -1;
        int best = 0;
        for (int m = 0; m < 3; m++) {
            const double behind = weight[m] / (double)sum * (double)(i > 1 ? i : 1) - (double)used[m];
            if (behind > most) most = behind, best = m;
        }
        need(mega_sentence_sample(d[0], i, &x));
        need(mega_sentence_sample(member[best], used[best]++, &y));
        assert_memory_equal(x.tokens, y.tokens, S * sizeof *x.tokens);
    }
    for (int m = 0; m < 3; m++) assert_int_equal(used[m], weight[m]);
    mega_gpt_data_destroy(d[0]);
    g.num_samples[0] = sum / 2;
    need(mega_gpt_data_build(&g, d));
    assert_int_equal(mega_gpt_data_samples(d[0]), sum / 2);
    mega_gpt_data_destroy(d[0]);
    g.num_samples[0] = 2 * sum;
    need(mega_gpt_data_build(&g, d));
    assert_true(mega_gpt_data_samples(d[0]) >= 2 * sum);
    mega_gpt_data_destroy(d[0]);
    for (int m = 0; m < 3; m++) mega_gpt_data_destroy(member[m]);
    mega_sentence_row_destroy(&x);
    mega_sentence_row_destroy(&y);
}

static void blends_by_size(void **state)
{
    (void)state;
    const mega_sentence_options bert = {
        .vocabulary = &vocabulary, .mask_prob = 0.15, .short_seq_prob = 0.1, .binary_head = true};
    const mega_sentence_options t5 = {.kind = MEGA_SENTENCES_T5,
                                      .vocabulary = &vocabulary,
                                      .mask_prob = 0.15,
                                      .short_seq_prob = 0.1,
                                      .decoder_seq_length = D};
    const char *path[3] = {write_documents("by_size_a", rule),
                           write_documents("by_size_b", (const int64_t[4]){11, 180, 9, 12}),
                           write_documents("by_size_c", (const int64_t[4]){13, 9, 9, 12})};
    expect_samples_by_size(&bert, path);
    expect_samples_by_size(&t5, path);
}

int main(void)
{
    vocabulary_fill();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blends_and_caches),
        cmocka_unit_test(blends_by_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
