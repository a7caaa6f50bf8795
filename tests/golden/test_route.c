/* Compares the router of experts, its balance loss and its z-loss with the formulas of families, in float64:
 * tests/golden/route.json, made by tools/make_route_golden.py; and with the row that DeepSpeed's gate gives. */
#include "kit.h"
#include "megalith/kernels.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

enum { TOKENS = 5, EXPERTS = 8, ALL = TOKENS * EXPERTS };

static const mega_step_block step;
static const mega_kernel_head head = {.dtype = MEGA_F64, .step = &step};

static const struct family {
    const char *name;
    bool has_bias;
    mega_route_options options;
} families[] = {
    {"mixtral", false, {.score = MEGA_ROUTE_SOFTMAX, .choices = 2, .normalized = true}},
    {"olmoe", false, {.score = MEGA_ROUTE_SOFTMAX, .choices = 3}},
    {"switch", false, {.score = MEGA_ROUTE_SOFTMAX, .choices = 1}},
    {"gpt_oss", false, {.score = MEGA_ROUTE_SOFTMAX_OF_CHOSEN, .choices = 4}},
    {"phimoe", false, {.score = MEGA_ROUTE_SOFTMAX_OF_NEAR, .choices = 2, .margin = 1.2}},
    {"deepseek_v2",
     false,
     {.score = MEGA_ROUTE_SOFTMAX, .choices = 3, .scale = 16, .groups = 4, .chosen_groups = 2, .group_best = 1}},
    {"deepseek_v3",
     true,
     {.score = MEGA_ROUTE_SIGMOID,
      .choices = 3,
      .normalized = true,
      .epsilon = 1e-20,
      .scale = 2.5,
      .groups = 2,
      .chosen_groups = 1,
      .group_best = 2}},
    {"llama4", false, {.score = MEGA_ROUTE_SIGMOID, .choices = 1}},
};

static size_t numbers(double *out, const json_t *golden, const char *name, size_t most)
{
    const json_t *list = json_object_get(golden, name);
    const size_t count = json_array_size(list);
    assert_in_range(count, 1, most);
    for (size_t i = 0; i < count; i++) out[i] = json_number_value(json_array_get(list, i));
    return count;
}

static void agrees(const char *family, const json_t *golden, const char *name, const double *x)
{
    double expected[ALL];
    const size_t count = numbers(expected, golden, name, ALL);
    const double error = mega_kit_relative_error_f64(x, expected, (int64_t)count);
    if (!(error <= 1e-13)) fail_msg("%s, %s: relative error %.3g", family, name, error);
}

static void near(const char *family, const char *what, double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-12 * fmax(1.0, fabs(expected))))
        fail_msg("%s, %s: %.17g, expected %.17g", family, what, found, expected);
}

static void check_choice(const struct family *f, const json_t *golden, const double *logits, int32_t *choice,
                         double *share)
{
    double bias[EXPERTS], weight[ALL], expected[ALL];
    numbers(bias, golden, "bias", EXPERTS);
    const mega_route_args a = {.head = head,
                               .choice = choice,
                               .weight = weight,
                               .share = share,
                               .logits = logits,
                               .bias = f->has_bias ? bias : NULL,
                               .rows = TOKENS,
                               .experts = EXPERTS,
                               .logits_dtype = MEGA_F64,
                               .options = f->options};
    mega_plain_route.run(NULL, &a);
    const size_t chosen = numbers(expected, golden, "choice", ALL);
    assert_int_equal(chosen, TOKENS * f->options.choices);
    for (size_t i = 0; i < chosen; i++)
        if (choice[i] != (int32_t)expected[i])
            fail_msg("%s: choice %zu is %d, expected %g", f->name, i, (int)choice[i], expected[i]);
    agrees(f->name, golden, "weight", weight);
    agrees(f->name, golden, "share", share);
}

static void check_gradient(const struct family *f, const json_t *golden, const double *logits, const int32_t *choice)
{
    double dweight[ALL], dshare[ALL], dlogits[ALL];
    numbers(dweight, golden, "dweight", ALL);
    numbers(dshare, golden, "dshare", ALL);
    const mega_route_grad_args a = {.head = head,
                                    .dlogits = dlogits,
                                    .dweight = dweight,
                                    .dshare = dshare,
                                    .logits = logits,
                                    .choice = choice,
                                    .rows = TOKENS,
                                    .experts = EXPERTS,
                                    .logits_dtype = MEGA_F64,
                                    .options = f->options};
    mega_plain_route_grad.run(NULL, &a);
    agrees(f->name, golden, "dlogits", dlogits);
}

/* The gradient reaches the logits through the shares. */
static void check_balance(const struct family *f, const json_t *golden, const double *logits, const int32_t *choice,
                          const double *share)
{
    const int64_t k = f->options.choices;
    const double one = 1.0;
    double loss, fraction[EXPERTS], dshare[ALL], dlogits[ALL];
    const mega_route_balance_args a = {head, &loss, fraction, share, choice, 1, TOKENS, EXPERTS, k, k};
    mega_plain_route_balance.run(NULL, &a);
    near(f->name, "balance", loss, json_number_value(json_object_get(golden, "balance")));
    agrees(f->name, golden, "fraction", fraction);
    const mega_route_balance_grad_args b = {head, dshare, &one, fraction, 1, TOKENS, EXPERTS};
    mega_plain_route_balance_grad.run(NULL, &b);
    const mega_route_grad_args c = {.head = head,
                                    .dlogits = dlogits,
                                    .dshare = dshare,
                                    .logits = logits,
                                    .choice = choice,
                                    .rows = TOKENS,
                                    .experts = EXPERTS,
                                    .logits_dtype = MEGA_F64,
                                    .options = f->options};
    mega_plain_route_grad.run(NULL, &c);
    agrees(f->name, golden, "dbalance", dlogits);
}

static void check_z(const struct family *f, const json_t *golden, const double *logits)
{
    double loss[TOKENS], dlogits[ALL], sum = 0.0;
    const double ones[TOKENS] = {1, 1, 1, 1, 1};
    const mega_route_z_args a = {head, loss, logits, TOKENS, EXPERTS, MEGA_F64};
    mega_plain_route_z.run(NULL, &a);
    for (int i = 0; i < TOKENS; i++) sum += loss[i];
    near(f->name, "z", sum, json_number_value(json_object_get(golden, "z")));
    const mega_route_z_grad_args b = {head, dlogits, ones, logits, TOKENS, EXPERTS, MEGA_F64};
    mega_plain_route_z_grad.run(NULL, &b);
    agrees(f->name, golden, "dz", dlogits);
}

static void families_agree(void **state)
{
    json_error_t error;
    (void)state;
    json_t *all = json_load_file(mega_kit_source("tests/golden/route.json"), 0, &error);
    if (all == NULL) fail_msg("route.json: %s", error.text);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const struct family *f = &families[i];
        const json_t *golden = json_object_get(all, f->name);
        double logits[ALL], share[ALL];
        int32_t choice[ALL];
        assert_int_equal(numbers(logits, golden, "logits", ALL), ALL);
        check_choice(f, golden, logits, choice, share);
        check_gradient(f, golden, logits, choice);
        check_balance(f, golden, logits, choice, share);
        check_z(f, golden, logits);
    }
    json_decref(all);
}

/* Four tokens of two experts; the probabilities and the loss are those of DeepSpeed's top-1 gate. */
static void deepspeed_agrees(void **state)
{
    static const double logits[] = {2, 0, 1, 0, 0, 1, 3, 0}, expected[] = {0.880797, 0.731059, 0.731059, 0.952574};
    double weight[4], share[8], loss, fraction[2];
    int32_t choice[4];
    (void)state;
    const mega_route_args a = {
        head, choice, weight, share, logits, NULL, NULL, 4, 2, MEGA_F64, {.score = MEGA_ROUTE_SOFTMAX, .choices = 1}};
    mega_plain_route.run(NULL, &a);
    for (int i = 0; i < 4; i++) assert_true(fabs(weight[i] - expected[i]) < 1e-6);
    const mega_route_balance_args b = {head, &loss, fraction, share, choice, 1, 4, 2, 1, 1};
    mega_plain_route_balance.run(NULL, &b);
    assert_true(fabs(loss - 1.2083428) < 1e-7);
    assert_true(fraction[0] == 0.75 && fraction[1] == 0.25);
    double fullest, emptiest, entropy;
    const mega_route_load_args c = {head, &fullest, &emptiest, &entropy, fraction, 1, 2};
    mega_plain_route_load.run(NULL, &c);
    near("load", "fullest", fullest, 1.5);
    near("load", "emptiest", emptiest, 0.5);
    near("load", "entropy", entropy, 0.81127812445913283); /* 2 - 0.75 log2 3 */
}

/* A capacity of two drops one of the three tokens that chose expert 0: the last one, as DeepSpeed's gate by position
 * does, or the one with the smallest weight, of equal ones the later. */
static void capacities_drop(void **state)
{
    static const int32_t by_position[] = {0, 0, 1, -1}, by_weight[] = {0, -1, 1, 0}, of_equal[] = {0, 0, 1, -1};
    static const double logits[] = {2, 0, 1, 0, 0, 1, 3, 0}, equal[] = {0.5, 0.5, 0.5, 0.5};
    double weight[4], share[8], dropped;
    int32_t choice[4], kept[4];
    (void)state;
    const mega_route_args a = {
        head, choice, weight, share, logits, NULL, NULL, 4, 2, MEGA_F64, {.score = MEGA_ROUTE_SOFTMAX, .choices = 1}};
    mega_plain_route.run(NULL, &a);
    mega_route_capacity_args c = {head, kept, &dropped, choice, weight, 1, 4, 2, 1, 2, true};
    mega_plain_route_capacity.run(NULL, &c);
    assert_memory_equal(kept, by_position, sizeof kept);
    assert_true(dropped == 0.25);
    c.by_position = false;
    mega_plain_route_capacity.run(NULL, &c);
    assert_memory_equal(kept, by_weight, sizeof kept);
    c.weight = equal;
    mega_plain_route_capacity.run(NULL, &c);
    assert_memory_equal(kept, of_equal, sizeof kept);
    c.capacity = 3; /* as many as chose it */
    mega_plain_route_capacity.run(NULL, &c);
    assert_memory_equal(kept, choice, sizeof kept);
    assert_true(dropped == 0);
}

/* Megatron-core's rule by a loop over experts: of the tokens that chose one, the `capacity` with the largest weights
 * stay. */
static void check_capacity(const double *weight, const int32_t *choice, int tokens, int choices, int capacity)
{
    int32_t kept[ALL];
    bool stays[ALL] = {false};
    double dropped;
    int left = 0;
    const mega_route_capacity_args a = {head,   kept,    &dropped, choice,   weight, 1,
                                        tokens, EXPERTS, choices,  capacity, false};
    mega_plain_route_capacity.run(NULL, &a);
    for (int e = 0; e < EXPERTS; e++)
        for (int turn = 0; turn < capacity; turn++) {
            int best = -1;
            for (int c = 0; c < tokens * choices; c++)
                if (choice[c] == e && !stays[c] && (best < 0 || weight[c] > weight[best])) best = c;
            if (best >= 0) stays[best] = true;
        }
    for (int c = 0; c < tokens * choices; c++) {
        assert_int_equal(kept[c], stays[c] ? choice[c] : -1);
        left += stays[c] ? 0 : 1;
    }
    assert_true(dropped == (double)left / (tokens * choices));
}

static void capacities_are_those_of_a_loop(void **state)
{
    enum { CHOICES = 3, MANY = ALL / CHOICES };
    (void)state;
    for (int draw = 0; draw < 50; draw++) {
        float random[MANY * EXPERTS];
        double logits[MANY * EXPERTS], weight[MANY * CHOICES], share[MANY * EXPERTS];
        int32_t choice[MANY * CHOICES];
        mega_kit_normal(random, MANY * EXPERTS, (uint32_t)draw);
        for (int i = 0; i < MANY * EXPERTS; i++) logits[i] = (double)random[i] + (i % EXPERTS < 2 ? 1.0 : 0.0);
        const mega_route_args a = {.head = head,
                                   .choice = choice,
                                   .weight = weight,
                                   .share = share,
                                   .logits = logits,
                                   .rows = MANY,
                                   .experts = EXPERTS,
                                   .logits_dtype = MEGA_F64,
                                   .options = {.choices = CHOICES, .normalized = true}};
        mega_plain_route.run(NULL, &a);
        for (int capacity = 1; capacity <= MANY; capacity++) check_capacity(weight, choice, MANY, CHOICES, capacity);
    }
}

/* ---- Sinkhorn's iterations ---- */

static void sinkhorn_agrees(void **state)
{
    enum { MANY = 24, COUNT = MANY * EXPERTS };
    json_error_t error;
    double logits[COUNT], keys[COUNT], expected[COUNT];
    (void)state;
    json_t *all = json_load_file(mega_kit_source("tests/golden/route.json"), 0, &error);
    if (all == NULL) fail_msg("route.json: %s", error.text);
    const json_t *golden = json_object_get(all, "sinkhorn");
    assert_int_equal(numbers(logits, golden, "logits", COUNT), COUNT);
    assert_int_equal(numbers(expected, golden, "keys", COUNT), COUNT);
    const mega_route_sinkhorn_args a = {head, keys, logits, 1, MANY, EXPERTS, MEGA_F64};
    mega_plain_route_sinkhorn.run(NULL, &a);
    for (int i = 0; i < COUNT; i++) near("sinkhorn", "key", keys[i], expected[i]);
    json_decref(all);
}

/* Megatron-core's function, whole matrices at a time. Returns how often it iterates. */
static int sinkhorn_of(const double *logits, int tokens, double *keys)
{
    double cost[EXPERTS * 64], d0[64], d1[EXPERTS], error = 1e9;
    int iterations = 0;
    for (int i = 0; i < tokens * EXPERTS; i++) cost[i] = exp(logits[i]);
    for (int e = 0; e < EXPERTS; e++) d1[e] = 1.0;
    for (; error > 1e-4; iterations++) {
        double old[EXPERTS];
        memcpy(old, d1, sizeof old);
        for (int t = 0; t < tokens; t++) {
            d0[t] = 0.0;
            for (int e = 0; e < EXPERTS; e++) d0[t] += d1[e] * cost[t * EXPERTS + e];
            d0[t] = 1.0 / tokens / (d0[t] + 1e-8);
        }
        error = 0.0;
        for (int e = 0; e < EXPERTS; e++) {
            d1[e] = 0.0;
            for (int t = 0; t < tokens; t++) d1[e] += d0[t] * cost[t * EXPERTS + e];
            d1[e] = 1.0 / EXPERTS / (d1[e] + 1e-8);
            error += fabs(old[e] - d1[e]) / EXPERTS;
        }
    }
    for (int i = 0; i < tokens * EXPERTS; i++) keys[i] = d1[i % EXPERTS] * cost[i] * d0[i / EXPERTS];
    return iterations;
}

/* A thousand draws of two groups, in which the first experts have much larger logits than the others. The keys of a
 * group do not depend on the other, and the tokens choose by them. */
static void sinkhorn_is_that_of_matrices(void **state)
{
    enum { MANY = 32, COUNT = MANY * EXPERTS, CHOICES = 2 };
    int most = 0;
    (void)state;
    for (int draw = 0; draw < 1000; draw++) {
        float random[2 * COUNT];
        double logits[2 * COUNT], keys[2 * COUNT], expected[2 * COUNT], weight[2 * MANY * CHOICES], share[2 * COUNT];
        int32_t choice[2 * MANY * CHOICES];
        mega_kit_normal(random, 2 * COUNT, (uint32_t)draw);
        for (int i = 0; i < 2 * COUNT; i++) logits[i] = 2.0 * (double)random[i] + (i % EXPERTS < 2 ? 3.0 : 0.0);
        const mega_route_sinkhorn_args a = {head, keys, logits, 2, MANY, EXPERTS, MEGA_F64};
        mega_plain_route_sinkhorn.run(NULL, &a);
        for (int g = 0; g < 2; g++) {
            const int iterations = sinkhorn_of(logits + g * COUNT, MANY, expected + g * COUNT);
            most = iterations > most ? iterations : most;
        }
        for (int i = 0; i < 2 * COUNT; i++) near("sinkhorn", "key of a draw", keys[i], expected[i]);
        const mega_route_args r = {.head = head,
                                   .choice = choice,
                                   .weight = weight,
                                   .share = share,
                                   .logits = logits,
                                   .keys = keys,
                                   .rows = 2 * MANY,
                                   .experts = EXPERTS,
                                   .logits_dtype = MEGA_F64,
                                   .options = {.choices = CHOICES}};
        mega_plain_route.run(NULL, &r);
        for (int t = 0; t < 2 * MANY; t++) {
            const int first = choice[t * CHOICES], second = choice[t * CHOICES + 1];
            for (int e = 0; e < EXPERTS; e++) {
                assert_true(keys[t * EXPERTS + e] <= keys[t * EXPERTS + first]);
                assert_true(e == first || keys[t * EXPERTS + e] <= keys[t * EXPERTS + second]);
            }
            near("sinkhorn", "weight", weight[t * CHOICES], share[t * EXPERTS + first]);
        }
    }
    assert_in_range(most, 10, 999); /* it is no matter of one or two iterations, and none ends for their number */
}

/* A logit that is not a number, and one whose exponential has no number, end the iterations. */
static void sinkhorn_ends(void **state)
{
    double logits[] = {1, 2, 3, NAN, 1e4, 0, -1e4, -1e4}, keys[8];
    (void)state;
    const mega_route_sinkhorn_args a = {head, keys, logits, 2, 2, 2, MEGA_F64};
    mega_plain_route_sinkhorn.run(NULL, &a);
    for (int i = 0; i < 4; i++) assert_true(isnan(keys[i]));
    for (int i = 4; i < 8; i++) assert_true(isfinite(keys[i]));
    assert_true(keys[4] > keys[5]);
}

/* Ties go to the lower index, all experts may be chosen, and a row without numbers chooses the first experts. */
static void ties_and_edges(void **state)
{
    static const double logits[] = {1, 3, 3, 3, 2, 2, 2, 2, NAN, NAN, NAN, NAN, -INFINITY, 0, -INFINITY, -INFINITY};
    static const int32_t expected[] = {1, 2, 3, 0, 0, 1, 2, 3, 0, 1, 2, 3, 1, 0, 2, 3};
    double weight[16], share[16];
    int32_t choice[16];
    (void)state;
    for (int score = 0; score < MEGA_ROUTE_SCORE_COUNT; score++) {
        const mega_route_args a = {head,
                                   choice,
                                   weight,
                                   share,
                                   logits,
                                   NULL,
                                   NULL,
                                   4,
                                   4,
                                   MEGA_F64,
                                   {.score = (mega_route_score)score, .choices = 4}};
        mega_plain_route.run(NULL, &a);
        assert_memory_equal(choice, expected, sizeof expected);
        assert_true(isnan(weight[8]));
        if (score == MEGA_ROUTE_SOFTMAX_OF_NEAR) /* without a margin only equal logits are near */
            assert_true(weight[0] == 1.0 / 3.0 && weight[1] == 0.5 && weight[2] == 1.0 && weight[3] == 1.0);
        else
            near("ties", "equal weights", weight[0], weight[2]);
    }
    const mega_route_args one = {head,
                                 choice,
                                 weight,
                                 share,
                                 logits + 1,
                                 NULL,
                                 NULL,
                                 1,
                                 1,
                                 MEGA_F64,
                                 {.score = MEGA_ROUTE_SOFTMAX, .choices = 1}};
    mega_plain_route.run(NULL, &one);
    assert_true(choice[0] == 0 && weight[0] == 1.0 && share[0] == 1.0);
}

/* -2 is near -1, as 1 is at most 0.6 * 2, and -4 is not. */
static void a_margin_is_a_part_of_the_larger(void **state)
{
    static const double logits[] = {-2, -1, -4};
    double weight, share[3];
    int32_t choice;
    (void)state;
    const mega_route_args a = {.head = head,
                               .choice = &choice,
                               .weight = &weight,
                               .share = share,
                               .logits = logits,
                               .rows = 1,
                               .experts = 3,
                               .logits_dtype = MEGA_F64,
                               .options = {.score = MEGA_ROUTE_SOFTMAX_OF_NEAR, .choices = 1, .margin = 0.6}};
    mega_plain_route.run(NULL, &a);
    assert_int_equal(choice, 1);
    near("phimoe", "weight", weight, 1.0 / (1.0 + exp(-1.0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_agree),
        cmocka_unit_test(deepspeed_agrees),
        cmocka_unit_test(ties_and_edges),
        cmocka_unit_test(a_margin_is_a_part_of_the_larger),
        cmocka_unit_test(sinkhorn_agrees),
        cmocka_unit_test(sinkhorn_is_that_of_matrices),
        cmocka_unit_test(sinkhorn_ends),
        cmocka_unit_test(capacities_drop),
        cmocka_unit_test(capacities_are_those_of_a_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
