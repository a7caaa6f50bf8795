/* Tests recomputation: as the options and a JSON ask for it, by a budget of memory, and within a layer. None of it
 * changes a bit of a loss. */
#include "api_model.h"
#include "engine_run.h"
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 6, BATCH = 8, MICRO = 4, STEPS = 2 };

static mega_status make(mega_engine **out, mega_recompute_options recompute, int64_t micro)
{
    mega_transformer gpt = engine_run_gpt();
    gpt.num_layers = LAYERS;
    gpt.attention_dropout = gpt.hidden_dropout = 0.1;
    mega_engine_options o = engine_run_options(BATCH, micro, 1e-2);
    o.recompute = recompute;
    return gpt_engine_create(out, &gpt, &o);
}

/* What a rank computes and keeps, and how much of the model it recomputes. */
typedef struct taken {
    size_t bytes;
    int layers, regions;
} taken;

static taken measure(const mega_engine *e)
{
    mega_engine_memory m;
    taken t;
    mega_engine_memory_get(e, &m);
    t.bytes = m.saved + m.scratch;
    mega_model_parts_regions(mega_engine_parts(e), &t.layers, &t.regions);
    return t;
}

static taken plan(mega_recompute_options recompute, int64_t micro)
{
    mega_engine *e = NULL;
    need(make(&e, recompute, micro));
    const taken t = measure(e);
    mega_engine_destroy(e);
    return t;
}

static taken plan_first(int layers)
{
    return plan((mega_recompute_options){.replaces = true, .interval = layers > 0, .regions = layers}, MICRO);
}

static void run(mega_recompute_options recompute, double loss[STEPS], double norm[STEPS])
{
    mega_engine *e = NULL;
    mega_step_result r;
    need(make(&e, recompute, MICRO));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 1234));
    for (int i = 0; i < STEPS; i++) {
        mega_batch *b = mega_engine_batch(e);
        for (int64_t k = 0; k < mega_batch_num_samples(b); k++)
            engine_run_fill(b, k, mega_sample_index(mega_batch_sample(b, k)));
        need(mega_engine_train_batch(e, &r));
        loss[i] = r.loss;
        norm[i] = r.grad_norm;
    }
    mega_engine_destroy(e);
}

/* A budget of what k recomputed layers need is met by at most k of them. Fewer fit only if they need no more. */
static void a_budget_recomputes_as_little_as_it_allows(void **state)
{
    (void)state;
    taken first[LAYERS + 1];
    for (int k = 0; k <= LAYERS; k++) first[k] = plan_first(k);
    assert_true(first[LAYERS].bytes < first[LAYERS / 2].bytes && first[LAYERS / 2].bytes < first[0].bytes);
    const int step = getenv("MEGA_UNDER_VALGRIND") != NULL ? LAYERS / 2 : 1;
    for (int k = 0; k <= LAYERS; k += step) {
        const taken t = plan((mega_recompute_options){.budget = (int64_t)first[k].bytes}, MICRO);
        int expected = 0;
        while (first[expected].bytes > first[k].bytes) expected++;
        assert_int_equal(t.layers, expected);
        assert_int_equal(t.regions, expected);
        assert_int_equal(t.bytes, first[expected].bytes);
    }
}

static void a_small_budget_joins_layers(void **state)
{
    (void)state;
    const taken each = plan_first(LAYERS);
    const taken pairs = plan((mega_recompute_options){.replaces = true, .interval = 2}, MICRO);
    if (pairs.bytes >= each.bytes) return; /* then no budget asks for groups */
    const taken t = plan((mega_recompute_options){.budget = (int64_t)each.bytes - 1}, MICRO);
    assert_int_equal(t.layers, LAYERS);
    assert_int_equal(t.regions, LAYERS / 2);
    assert_int_equal(t.bytes, pairs.bytes);
}

static void recomputation_keeps_the_bits(void **state)
{
    (void)state;
    const mega_recompute_options ways[] = {
        {.budget = (int64_t)plan_first(LAYERS / 2).bytes}, {.replaces = true, .interval = 4}, {.distribute = true}};
    double loss[STEPS], norm[STEPS], other_loss[STEPS], other_norm[STEPS];
    run((mega_recompute_options){.budget = 0}, loss, norm);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        run(ways[i], other_loss, other_norm);
        assert_memory_equal(loss, other_loss, sizeof loss);
        assert_memory_equal(norm, other_norm, sizeof norm);
    }
}

/* The message names the smallest budget that works, and a micro-batch that fits. */
static void an_impossible_budget_is_refused_with_numbers(void **state)
{
    (void)state;
    mega_engine *e = NULL;
    size_t least = 0;
    assert_int_equal(make(&e, (mega_recompute_options){.budget = 1000}, MICRO), MEGA_ERR_MEMORY);
    const char *said = strstr(mega_error_message(), "give --activation-budget ");
    assert_non_null(said);
    assert_int_equal(sscanf(said, "give --activation-budget %zu or more, or a smaller --micro-batch-size", &least), 1);
    assert_true(plan((mega_recompute_options){.budget = (int64_t)least}, MICRO).bytes <= least);
    assert_int_equal(make(&e, (mega_recompute_options){.budget = (int64_t)least - 1}, MICRO), MEGA_ERR_MEMORY);
    assert_non_null(strstr(mega_error_message(), "or --micro-batch-size 2"));
    assert_true(plan((mega_recompute_options){.budget = (int64_t)least - 1}, 2).bytes < least);
}

/* ---- a program's own model ---- */

static taken plan_own(const char *json, char **argv, int argc)
{
    mega_engine *e = NULL;
    need(mega_engine_create(&(mega_setup){.model = &api_model, .config = json, .argc = argc, .argv = argv}, &e));
    const taken t = measure(e);
    mega_engine_destroy(e);
    return t;
}

#define OWN_BATCH \
    "\"train_micro_batch_size_per_gpu\": 2, \"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 1e-3}}"

static void a_json_applies_to_the_programs_own_model(void **state)
{
    (void)state;
    char *argv[] = {"own", "--recompute-granularity", "full", "--recompute-method", "block"};
    char *off[] = {"own", "--recompute-granularity", "none"};
    const taken none = plan_own("{" OWN_BATCH "}", NULL, 0);
    assert_int_equal(none.layers, 0);
    const taken each = plan_own("{" OWN_BATCH ", \"pipeline\": {\"activation_checkpoint_interval\": 1},"
                                " \"activation_checkpointing\": {\"partition_activations\": true}}",
                                NULL, 0);
    assert_true(each.layers > 1);
    assert_int_equal(each.regions, each.layers);
    const taken pairs = plan_own("{" OWN_BATCH ", \"pipeline\": {\"activation_checkpoint_interval\": 2}}", NULL, 0);
    assert_int_equal(pairs.layers, each.layers);
    assert_int_equal(pairs.regions, (each.layers + 1) / 2);
    assert_int_equal(plan_own("{" OWN_BATCH "}", argv, 5).layers, 1);
    assert_int_equal(plan_own("{" OWN_BATCH ", \"pipeline\": {\"activation_checkpoint_interval\": 2}}", off, 3).layers,
                     0);
    char budget[160];
    snprintf(budget, sizeof budget, "{" OWN_BATCH ", \"megalith\": {\"activation_budget\": %zu}}", none.bytes);
    assert_int_equal(plan_own(budget, NULL, 0).layers, 0);
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *words, *said;
    } wrong[] = {{"--activation-budget 1M --recompute-granularity full", "the budget decides which layers"},
                 {"--activation-budget 1M --activation-checkpoint-interval 2", "the budget decides which layers"},
                 {"--activation-checkpoint-interval 2 --recompute-method block", "they contradict each other"},
                 {"--recompute-method block", "changes nothing without --recompute-granularity full"},
                 {"--recompute-granularity selective", "is said by the layer itself (mega_recompute_begin"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[256], *argv[16], *rest = text;
        int argc = 0;
        mega_engine *e = NULL;
        snprintf(text, sizeof text, "own --micro-batch-size 2 --lr 1e-3 %s", wrong[i].words);
        for (char *word; (word = strsep(&rest, " ")) != NULL;) argv[argc++] = word;
        if (mega_engine_create(&(mega_setup){.model = &api_model, .argc = argc, .argv = argv}, &e) == MEGA_OK)
            fail_msg("%s is accepted", wrong[i].words);
        if (strstr(mega_error_message(), wrong[i].said) == NULL)
            fail_msg("%s: expected \"%s\" in: %s", wrong[i].words, wrong[i].said, mega_error_message());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_recomputes_as_little_as_it_allows),
        cmocka_unit_test(a_small_budget_joins_layers),
        cmocka_unit_test(recomputation_keeps_the_bits),
        cmocka_unit_test(an_impossible_budget_is_refused_with_numbers),
        cmocka_unit_test(a_json_applies_to_the_programs_own_model),
        cmocka_unit_test(contradictions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
