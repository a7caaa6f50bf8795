/* Tests planned engines of pipeline stages, without ranks: each holds as many micro-batches in flight as its schedule
 * has. */
#include "engine_run.h"
#include "kit.h"

#include <string.h>

static mega_engine *stage_of(int stage, int stages, int chunks, int64_t micro_batches)
{
    mega_engine *e = NULL;
    mega_transformer gpt = engine_run_gpt();
    gpt.num_layers = 2 * (int64_t)stages * chunks;
    gpt.stage_chunks = chunks;
    mega_engine_options o = engine_run_options(micro_batches, 1, 1e-3);
    o.compute = MEGA_F32;
    o.layout = (mega_layout_sizes){.pp = stages, .planned_ranks = stages, .planned_rank = stage};
    if (gpt_engine_create(&e, &gpt, &o) != MEGA_OK) fail_msg("%s", mega_error_message());
    return e;
}

/* The middle stages have equal layers, so their saved bytes are proportional to the micro-batches in flight. */
static void saved_goes_with_the_schedule(void **state)
{
    (void)state;
    size_t saved[4];
    for (int s = 1; s < 3; s++) {
        mega_engine *e = stage_of(s, 4, 1, 8);
        mega_engine_memory m;
        mega_program_memory p;
        mega_engine_memory_get(e, &m);
        mega_program_memory_get(mega_engine_program(e, true), &p);
        assert_int_equal(p.slots, 4 - s);
        saved[s] = m.saved;
        mega_engine_destroy(e);
    }
    assert_int_equal(2 * saved[1], 3 * saved[2]);
}

static void few_micro_batches_take_few_slots(void **state)
{
    (void)state;
    mega_program_memory p;
    mega_engine *e = stage_of(0, 4, 1, 2);
    mega_program_memory_get(mega_engine_program(e, true), &p);
    assert_int_equal(p.slots, 2);
    mega_engine_destroy(e);
}

static void chunks_want_a_multiple_of_the_stages(void **state)
{
    (void)state;
    mega_engine *e = stage_of(1, 4, 2, 8);
    mega_engine_destroy(e);
    e = NULL;
    mega_transformer gpt = engine_run_gpt();
    gpt.num_layers = 8;
    gpt.stage_chunks = 2;
    mega_engine_options o = engine_run_options(6, 1, 1e-3);
    o.compute = MEGA_F32;
    o.layout = (mega_layout_sizes){.pp = 4, .planned_ranks = 4};
    assert_int_equal(gpt_engine_create(&e, &gpt, &o), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "takes a multiple of 4 micro-batches"));
    assert_null(e);
}

/* The cost per token is 6 N + 12 L H S (Chowdhery et al. 2022, appendix B), and a causal mask leaves half of the
 * attention term. It is the same for any division of the model. */
static void the_cost_is_of_a_sample_through_the_whole_model(void **state)
{
    (void)state;
    static const mega_layout_sizes division[] = {{0},
                                                 {.tp = 2, .planned_ranks = 2},
                                                 {.pp = 2, .planned_ranks = 2, .planned_rank = 1},
                                                 {.tp = 2, .pp = 2, .planned_ranks = 8}};
    const mega_transformer gpt = engine_run_gpt();
    const double inner = (double)(gpt.heads * gpt.head_dim), layers = (double)gpt.num_layers, seq = ENGINE_RUN_SEQ;
    const double weights = layers * (double)gpt.hidden * (4 * inner + 2 * (double)gpt.ffn_hidden) +
                           (double)(gpt.padded_vocab * gpt.hidden);
    for (size_t i = 0; i < sizeof division / sizeof *division; i++) {
        mega_engine *e = NULL;
        mega_engine_cost cost;
        mega_engine_options o = engine_run_options(8, 2, 1e-3);
        o.compute = MEGA_F32;
        o.layout = division[i];
        o.batch.micro_step = i == 3 ? 4 : 2;
        if (gpt_engine_create(&e, &gpt, &o) != MEGA_OK) fail_msg("%s", mega_error_message());
        mega_engine_cost_get(e, &cost);
        assert_true(cost.flops == seq * (6 * weights + 6 * layers * inner * seq));
        assert_true(cost.flops + cost.masked_flops == seq * (6 * weights + 12 * layers * inner * seq));
        mega_engine_destroy(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_goes_with_the_schedule),
        cmocka_unit_test(few_micro_batches_take_few_slots),
        cmocka_unit_test(chunks_want_a_multiple_of_the_stages),
        cmocka_unit_test(the_cost_is_of_a_sample_through_the_whole_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
