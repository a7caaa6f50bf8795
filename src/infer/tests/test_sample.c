/* Drawing tokens: greedy, temperature, top-k, top-p, addressing by seed; windows of the evaluation. */
#include "kit.h"
#include "megalith/evaluate.h"
#include "megalith/generate.h"

#include <math.h>

enum { VOCAB = 6, DRAWS = 20000 };
static const float logits[VOCAB] = {0.0f, 2.0f, 1.0f, 2.0f, -1.0f, 0.5f};

static void count_draws(const mega_sampling *s, double share[VOCAB])
{
    mega_candidate scratch[VOCAB];
    int count[VOCAB] = {0};
    for (int64_t i = 0; i < DRAWS; i++) count[mega_sample_token(logits, VOCAB, s, 7, i, scratch)]++;
    for (int v = 0; v < VOCAB; v++) share[v] = (double)count[v] / DRAWS;
}

/* Compares the fractions drawn with the softmax over the ids in `kept`: within 5 standard deviations of a count. */
static void expect_softmax(const double share[VOCAB], const bool kept[VOCAB], double temperature)
{
    double sum = 0.0;
    for (int v = 0; v < VOCAB; v++) sum += kept[v] ? exp(logits[v] / temperature) : 0.0;
    for (int v = 0; v < VOCAB; v++) {
        const double p = kept[v] ? exp(logits[v] / temperature) / sum : 0.0;
        if (!kept[v]) assert_true(share[v] == 0.0);
        else
            assert_true(fabs(share[v] - p) <= 5.0 * sqrt(p * (1.0 - p) / DRAWS));
    }
}

static void greedy_takes_the_lowest_of_equals(void **state)
{
    (void)state;
    mega_candidate scratch[VOCAB];
    const mega_sampling greedy = {.greedy = true}, one = {.top_k = 1, .temperature = 1.0};
    assert_int_equal(mega_sample_token(logits, VOCAB, &greedy, 0, 0, scratch), 1);
    assert_int_equal(mega_sample_token(logits, VOCAB, &one, 0, 0, scratch), 1);
}

static void temperature_shapes_the_distribution(void **state)
{
    (void)state;
    const bool all[VOCAB] = {true, true, true, true, true, true};
    double share[VOCAB];
    count_draws(&(mega_sampling){.temperature = 1.0, .seed = 3}, share);
    expect_softmax(share, all, 1.0);
    count_draws(&(mega_sampling){.temperature = 0.5, .seed = 3}, share);
    expect_softmax(share, all, 0.5);
}

static void top_k_keeps_ties(void **state)
{
    (void)state;
    const bool two[VOCAB] = {[1] = true, [3] = true}, three[VOCAB] = {[1] = true, [2] = true, [3] = true};
    double share[VOCAB];
    count_draws(&(mega_sampling){.temperature = 1.0, .top_k = 2}, share);
    expect_softmax(share, two, 1.0);
    count_draws(&(mega_sampling){.temperature = 1.0, .top_k = 3}, share);
    expect_softmax(share, three, 1.0);
}

/* Softmax in descending order: 0.361 0.361 0.133 0.081 0.049 0.018; cumulative 0.36 0.72 0.85 0.94 … */
static void top_p_keeps_the_token_that_crosses(void **state)
{
    (void)state;
    const bool two[VOCAB] = {[1] = true, [3] = true}, three[VOCAB] = {[1] = true, [2] = true, [3] = true},
               one[VOCAB] = {[1] = true};
    double share[VOCAB];
    count_draws(&(mega_sampling){.temperature = 1.0, .top_p = 0.7}, share);
    expect_softmax(share, two, 1.0);
    count_draws(&(mega_sampling){.temperature = 1.0, .top_p = 0.8}, share);
    expect_softmax(share, three, 1.0);
    count_draws(&(mega_sampling){.temperature = 1.0, .top_p = 1e-6}, share);
    expect_softmax(share, one, 1.0);
}

static void draws_are_addressed(void **state)
{
    (void)state;
    mega_candidate scratch[VOCAB];
    const mega_sampling s = {.temperature = 1.0, .seed = 11}, other = {.temperature = 1.0, .seed = 12};
    int by_seed = 0, by_index = 0;
    for (int64_t i = 0; i < 100; i++) {
        const int32_t a = mega_sample_token(logits, VOCAB, &s, 5, i, scratch);
        assert_int_equal(a, mega_sample_token(logits, VOCAB, &s, 5, i, scratch));
        by_seed += a != mega_sample_token(logits, VOCAB, &other, 5, i, scratch);
        by_index += a != mega_sample_token(logits, VOCAB, &s, 6, i, scratch);
    }
    assert_true(by_seed > 20 && by_index > 20);
}

static void windows_as_megatron_counts_them(void **state)
{
    (void)state;
    assert_int_equal(mega_evaluate_windows(20, 4), 5);
    assert_int_equal(mega_evaluate_windows(20, 8), 3);
    assert_int_equal(mega_evaluate_windows(2, 8), 1);
    assert_int_equal(mega_evaluate_windows(9, 8), 1);
    assert_int_equal(mega_evaluate_windows(10, 8), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_lowest_of_equals),
        cmocka_unit_test(temperature_shapes_the_distribution),
        cmocka_unit_test(top_k_keeps_ties),
        cmocka_unit_test(top_p_keeps_the_token_that_crosses),
        cmocka_unit_test(draws_are_addressed),
        cmocka_unit_test(windows_as_megatron_counts_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
