/* Drawing tokens: greedy, temperature, top-k, top-p, addressing by seed; windows of the evaluation. */
#include "kit.h"
#include "megalith/evaluate.h"
#include "megalith/generate.h"

#include <math.h>

enum { VOCAB = 6, DRAWS = 20000 };
static const float logits[VOCAB] = {0.0f, 2.0f, 1.0f, 2.0f, -1.0f, 0.5f};

/* The history is not read without the rules that need it. */
static int32_t draw(const mega_sampling *s, uint64_t index, int64_t position, mega_candidate *scratch)
{
    const mega_draw at = {.index = index, .count = position};
    return mega_sample_token(logits, VOCAB, s, &at, scratch);
}

static void count_draws(const mega_sampling *s, double share[VOCAB])
{
    mega_candidate scratch[VOCAB];
    int count[VOCAB] = {0};
    for (int64_t i = 0; i < DRAWS; i++) count[draw(s, 7, i, scratch)]++;
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
    assert_int_equal(draw(&greedy, 0, 0, scratch), 1);
    assert_int_equal(draw(&one, 0, 0, scratch), 1);
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
        const int32_t a = draw(&s, 5, i, scratch);
        assert_int_equal(a, draw(&s, 5, i, scratch));
        by_seed += a != draw(&other, 5, i, scratch);
        by_index += a != draw(&s, 6, i, scratch);
    }
    assert_true(by_seed > 20 && by_index > 20);
}

/* After two tokens p is 0.9 * 0.9 * 0.9 = 0.729; after many it is the bound. */
static void top_p_decays_to_its_bound(void **state)
{
    (void)state;
    const struct {
        double bound;
        int64_t drawn;
        int kept;
    } rows[] = {{0, 0, 4}, {0, 1, 3}, {0, 2, 3}, {0, 3, 2}, {0.8, 3, 3}, {0, 100, 1}, {0.5, 100, 2}};
    mega_candidate scratch[VOCAB];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const mega_sampling s = {.temperature = 1.0, .top_p = 0.9, .top_p_decay = 0.9, .top_p_bound = rows[i].bound};
        bool seen[VOCAB] = {false};
        int kept = 0;
        for (int64_t k = 0; k < 2000; k++) {
            const mega_draw at = {.index = 3, .count = k, .drawn = rows[i].drawn};
            seen[mega_sample_token(logits, VOCAB, &s, &at, scratch)] = true;
        }
        for (int v = 0; v < VOCAB; v++) kept += seen[v];
        if (kept != rows[i].kept) fail_msg("row %zu: %d ids are drawn, expected %d", i, kept, rows[i].kept);
    }
}

/* Probabilities relative to the largest: 1, 1, 0.368, 0.223, 0.135, 0.050 */
static void min_p_drops_the_improbable(void **state)
{
    (void)state;
    const bool three[VOCAB] = {[1] = true, [2] = true, [3] = true},
               four[VOCAB] = {[1] = true, [2] = true, [3] = true, [5] = true};
    double share[VOCAB];
    count_draws(&(mega_sampling){.temperature = 1.0, .min_p = 0.3}, share);
    expect_softmax(share, three, 1.0);
    count_draws(&(mega_sampling){.temperature = 1.0, .min_p = 0.2}, share);
    expect_softmax(share, four, 1.0);
}

static void changed_logits(void **state)
{
    (void)state;
    mega_candidate scratch[VOCAB];
    const int32_t history[] = {1, 3, 4, 1};
    const mega_draw at = {.history = history, .count = 4};
    const mega_sampling penalty = {.greedy = true, .repetition_penalty = 2.5},
                        weak = {.greedy = true, .repetition_penalty = 1.5};
    assert_int_equal(mega_sample_token(logits, VOCAB, &penalty, &at, scratch), 2); /* 2 / 2.5, once, is below 1 */
    assert_int_equal(mega_sample_token(logits, VOCAB, &weak, &at, scratch), 1);
    const mega_sampling forbids = {.greedy = true, .forbids = true, .forbidden = 1, .forbidden_after = 1};
    assert_int_equal(mega_sample_token(logits, VOCAB, &forbids, &at, scratch), 3);
    const mega_draw other = {.history = history, .count = 3};
    assert_int_equal(mega_sample_token(logits, VOCAB, &forbids, &other, scratch), 1);
}

static void numbers_out_of_range_are_refused(void **state)
{
    (void)state;
    const mega_sampling right[] = {{.greedy = true},
                                   {.temperature = 0.1, .top_p = 1, .top_p_bound = 1, .top_p_decay = 1}},
                        wrong[] = {{.temperature = 0},
                                   {.temperature = 1, .top_p = 1.1},
                                   {.temperature = 1, .top_k = -1},
                                   {.temperature = 1, .top_p = 0.5, .top_p_bound = 0.6},
                                   {.temperature = 1, .top_p = 0.5, .top_p_decay = 1.5},
                                   {.temperature = 1, .min_p = -0.5},
                                   {.temperature = 1, .repetition_penalty = -1},
                                   {.temperature = NAN}};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        assert_int_equal(mega_sampling_check(&right[i]), MEGA_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(mega_sampling_check(&wrong[i]), MEGA_ERR_USAGE);
}

static void log_probabilities(void **state)
{
    (void)state;
    double sum = 0.0;
    for (int v = 0; v < VOCAB; v++) sum += exp(mega_log_probability(logits, VOCAB, v));
    assert_true(fabs(sum - 1.0) < 1e-12);
    assert_true(fabs(mega_log_probability(logits, VOCAB, 1) - mega_log_probability(logits, VOCAB, 4) - 3.0) < 1e-12);
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
        cmocka_unit_test(top_p_decays_to_its_bound),
        cmocka_unit_test(min_p_drops_the_improbable),
        cmocka_unit_test(changed_logits),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(log_probabilities),
        cmocka_unit_test(windows_as_megatron_counts_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
