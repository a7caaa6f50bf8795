/* Compares the lengths of a curriculum with the golden rows of the reference (deepspeed.md 10.1); what a training
 * consumes under it, and learning rates that are counted in tokens. */
#include "kit.h"
#include "megalith/optim_options.h"
#include "megalith/schedule.h"
#include <math.h>

static const mega_curriculum small = {.is_on = true, .least = 2, .most = 10, .steps = 8, .unit = 2, .degree = 2};
static const mega_curriculum large = {.is_on = true, .least = 8, .most = 1024, .steps = 100, .unit = 8, .degree = 2};

static void assert_lengths(const mega_curriculum *c, const int64_t (*row)[2], int count)
{
    for (int i = 0; i < count; i++)
        if (mega_curriculum_difficulty(c, row[i][0]) != row[i][1])
            fail_msg("step %lld: %lld, expected %lld", (long long)row[i][0],
                     (long long)mega_curriculum_difficulty(c, row[i][0]), (long long)row[i][1]);
}

static void golden_lengths(void **state)
{
    (void)state;
    static const int64_t linear[] = {2, 4, 4, 6, 6, 8, 8, 10, 10, 10}, root[] = {4, 6, 6, 6, 8, 8, 8, 10, 10, 10};
    static const int64_t linear_large[][2] = {{1, 16},   {10, 104},  {25, 256},  {50, 512},
                                              {75, 768}, {99, 1008}, {100, 1024}};
    static const int64_t root_large[][2] = {{1, 104},  {10, 328},  {25, 512},  {50, 720},
                                            {75, 880}, {99, 1016}, {100, 1024}};
    mega_curriculum by_root = small, by_root_large = large;
    by_root.kind = by_root_large.kind = MEGA_CURRICULUM_ROOT;
    for (int64_t t = 1; t <= 10; t++) {
        assert_int_equal(mega_curriculum_difficulty(&small, t), linear[t - 1]);
        assert_int_equal(mega_curriculum_difficulty(&by_root, t), root[t - 1]);
    }
    assert_lengths(&large, linear_large, 7);
    assert_lengths(&by_root_large, root_large, 7);
    assert_int_equal(mega_curriculum_difficulty(&large, INT64_MAX), 1024);
}

static void golden_stairs(void **state)
{
    (void)state;
    const char *difficulty[] = {"1", "2", "3", "4", "5"}, *max_step[] = {"2", "4", "6", "8"};
    const mega_optim_options o = {.curriculum_learning = true,
                                  .curriculum_schedule = MEGA_CURRICULUM_DISCRETE,
                                  .curriculum_difficulty = {difficulty, 5},
                                  .curriculum_max_step = {max_step, 4}};
    mega_curriculum c;
    mega_curriculum_from_options(&o, &c);
    assert_int_equal(mega_curriculum_check(&c, 4), MEGA_OK);
    for (int64_t t = 1; t <= 10; t++) assert_int_equal(mega_curriculum_difficulty(&c, t), (t + 1) / 2);
    assert_int_equal(mega_curriculum_length(&c, 4, 10), 4); /* no more than a sample has */
}

/* DeepSpeed rounds down, also below the first difficulty and at the last step of the curriculum. */
static void lengths_between(void **state)
{
    (void)state;
    mega_curriculum c = small;
    c.least = 3, c.unit = 4;
    assert_int_equal(mega_curriculum_difficulty(&c, 2), 4);
    assert_int_equal(mega_curriculum_difficulty(&c, 8), 8);
    assert_int_equal(mega_curriculum_difficulty(&c, 12), 10);
    c = small, c.most = 0;
    assert_int_equal(mega_curriculum_length(&c, 10, 4), 6);
    c.is_on = false;
    assert_int_equal(mega_curriculum_length(&c, 10, 4), 10);
}

static void refuse(mega_curriculum c, const char *said)
{
    if (mega_curriculum_check(&c, 16) != MEGA_ERR_USAGE || strstr(mega_error_message(), said) == NULL)
        fail_msg("expected \"%s\", found \"%s\"", said, mega_error_message());
}

static void curricula_are_checked(void **state)
{
    (void)state;
    const char *falls[] = {"4", "2"}, *word[] = {"four", "5"}, *step[] = {"3"};
    mega_curriculum c = small;
    assert_int_equal(mega_curriculum_check(&small, 16), MEGA_OK);
    assert_int_equal(mega_curriculum_check(&(mega_curriculum){0}, 16), MEGA_OK);
    c.kind = (mega_curriculum_kind)9, refuse(c, "curriculum.kind 9");
    c = small, c.least = 0, refuse(c, "curriculum.least 0");
    c = small, c.steps = 0, refuse(c, "curriculum.steps 0");
    c = small, c.unit = 0, refuse(c, "curriculum.unit 0");
    c = small, c.kind = MEGA_CURRICULUM_ROOT, c.degree = 0, refuse(c, "curriculum.degree 0");
    c = small, c.most = 1, refuse(c, "curriculum.most 1");
    c = small, c.most = 0, c.least = 17, refuse(c, "--curriculum-min-difficulty 17: expected at most the 16");
    c = small, c.least = 3, c.unit = 8, refuse(c, "would read 0 positions");
    c = (mega_curriculum){.is_on = true, .kind = MEGA_CURRICULUM_DISCRETE};
    refuse(c, "at least one difficulty");
    c.stairs = 2, c.max_step = step;
    c.difficulty = falls, refuse(c, "--curriculum-difficulty: number 2 is 2");
    c.difficulty = word, refuse(c, "number 1 is four");
    c.difficulty = NULL, refuse(c, "curriculum.difficulty is NULL");
    c.difficulty = falls, c.max_step = NULL, refuse(c, "curriculum.max_step is NULL");
    c.stairs = 1;
    assert_int_equal(mega_curriculum_check(&c, 16), MEGA_OK);
}

static void assert_consumed(mega_consumed found, int64_t steps, int64_t samples, int64_t tokens)
{
    if (found.steps != steps || found.samples != samples || found.tokens != tokens)
        fail_msg("%lld steps, %lld samples, %lld tokens; expected %lld, %lld, %lld", (long long)found.steps,
                 (long long)found.samples, (long long)found.tokens, (long long)steps, (long long)samples,
                 (long long)tokens);
}

/* Lengths are 2 4 4 6 6 8 8 10 10 …; batches are 4, or with the ramp 2 2 4 6 6 …. */
static void what_steps_consume(void **state)
{
    (void)state;
    const mega_batch_ramp constant = {.global_batch = 4, .micro_step = 2};
    const mega_batch_ramp ramp = {.start = 2, .increment = 2, .samples = 8, .global_batch = 6, .micro_step = 2};
    const mega_curriculum off = {.is_on = false};
    assert_consumed(mega_consumed_after(&small, &constant, 10, 0, 0), 0, 0, 0);
    assert_consumed(mega_consumed_after(&small, &constant, 10, 0, 100), 6, 24, 120);
    assert_consumed(mega_consumed_after(&small, &constant, 10, 0, 1000), 29, 116, 1032);
    assert_consumed(mega_consumed_after(&small, &ramp, 10, 8, 0), 3, 8, 28);
    assert_consumed(mega_consumed_after(&small, &ramp, 10, 0, 29), 4, 14, 64);
    assert_consumed(mega_consumed_after(&off, &constant, 10, 0, 81), 3, 12, 120);
}

static void assert_rate(const mega_lr_schedule *s, int64_t samples, int64_t tokens, double expected)
{
    const double found = mega_lr_schedule_lr_at(s, samples, tokens);
    if (!(fabs(found - expected) <= 1e-12)) fail_msg("found %.12g, expected %.12g", found, expected);
}

static void steps_of_one_length(void **state)
{
    (void)state;
    static const int64_t last[] = {1, 3, 5, 7}; /* of 2, 4, 6, 8 */
    mega_curriculum slow = small;
    for (int64_t t = 1; t <= 7; t++) assert_int_equal(mega_curriculum_same_until(&small, 16, t), last[t / 2]);
    assert_true(mega_curriculum_same_until(&small, 16, 8) == INT64_MAX);
    assert_true(mega_curriculum_same_until(&small, 6, 4) == INT64_MAX); /* a sample has no more */
    /* 5 until 3 x 2^40 steps: found without asking each of them */
    slow.least = 8, slow.most = 9, slow.unit = 5, slow.kind = MEGA_CURRICULUM_ROOT, slow.degree = 40, slow.steps = 3;
    const int64_t until = mega_curriculum_same_until(&slow, 16, 1);
    assert_int_equal(mega_curriculum_difficulty(&slow, 1), 5);
    assert_true(until > (int64_t)1 << 40);
    assert_int_equal(mega_curriculum_difficulty(&slow, until), 5);
    assert_true(until == INT64_MAX || mega_curriculum_difficulty(&slow, until + 1) > 5);
}

static void rates_by_tokens(void **state)
{
    (void)state;
    mega_lr_schedule s = {.style = MEGA_LR_LINEAR, .max_lr = 1e-3, .min_lr = 1e-5, .decay = 5000};
    s.warmup_tokens = 100, s.decay_tokens = 1000;
    assert_int_equal(mega_lr_schedule_check(&s), MEGA_OK);
    assert_rate(&s, 1, 50, 5e-4);
    assert_rate(&s, 2, 100, 1e-3);
    assert_rate(&s, 3, 550, 5.05e-4);
    assert_rate(&s, 4, 1001, 1e-5);
    s.warmup = 10; /* samples */
    assert_rate(&s, 5, 40, 5e-4);
    assert_rate(&s, 10, 100, 1e-3);
    assert_rate(&s, 11, 90, 1e-3);
    assert_rate(&s, 30, 550, 5.05e-4);
    s.decay_tokens = 0; /* warm-up in tokens, decay in samples */
    s.warmup = 0;
    assert_rate(&s, 1, 50, 5e-4);
    assert_rate(&s, 2500, 101, 5.05e-4);
    s.warmup_tokens = 0; /* nothing in tokens */
    assert_rate(&s, 2500, 7, mega_lr_schedule_lr(&s, 2500));
    s.warmup_tokens = s.decay_tokens = 9;
    assert_int_equal(mega_lr_schedule_check(&s), MEGA_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_lengths),      cmocka_unit_test(golden_stairs),
        cmocka_unit_test(lengths_between),     cmocka_unit_test(curricula_are_checked),
        cmocka_unit_test(what_steps_consume),  cmocka_unit_test(rates_by_tokens),
        cmocka_unit_test(steps_of_one_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
