/* Weights that stay packed through a step change no bit of the results, and the memory plan counts them. */
#include "engine_run.h"
#include "kit.h"
#include "megalith/gpt_data.h"

enum { STEPS = 3 };

typedef struct setting {
    mega_dtype compute;
    mega_transformer_recompute recompute;
    int threads;
    bool ramps, anew; /* ramps: the first step has one micro-batch; anew: weights are packed for each product */
} setting;

static void fill(mega_batch *b, int64_t first)
{
    for (int64_t r = 0; r < mega_batch_num_samples(b); r++) engine_run_fill(b, r, first + r);
}

static mega_engine *make(const setting *s, mega_team *team)
{
    mega_transformer gpt = engine_run_gpt();
    gpt.recompute = s->recompute;
    mega_engine_options o = engine_run_options(4, 1, 1e-2);
    if (s->ramps) o.batch = (mega_batch_ramp){1, 3, 1, 4, 1};
    o.compute = s->compute;
    o.team = team;
    o.no_pack_weights = s->anew;
    mega_engine *e = NULL;
    need(gpt_engine_create(&e, &gpt, &o));
    return e;
}

static void run(const setting *s, mega_step_result out[STEPS])
{
    mega_team *team;
    need(mega_team_create(s->threads, &team));
    mega_engine *e = make(s, team);
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 1234));
    for (int i = 0; i < STEPS; i++) {
        fill(mega_engine_batch(e), mega_engine_progress_get(e)->consumed_samples);
        need(mega_engine_train_batch(e, &out[i]));
    }
    mega_engine_destroy(e);
    mega_team_destroy(team);
}

static void expect_same(const setting *s)
{
    setting anew = *s;
    mega_step_result x[STEPS], y[STEPS];
    anew.anew = true;
    anew.threads = 1;
    run(s, x);
    run(&anew, y);
    for (int i = 0; i < STEPS; i++) {
        assert_memory_equal(&x[i].loss, &y[i].loss, sizeof x[i].loss);
        assert_memory_equal(&x[i].grad_norm, &y[i].grad_norm, sizeof x[i].grad_norm);
    }
}

static void kept_weights_change_no_bit(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++) expect_same(&(setting){.compute = MEGA_BF16, .threads = threads});
    expect_same(&(setting){.compute = MEGA_F32, .threads = 2});
    expect_same(&(setting){.compute = MEGA_BF16, .threads = 2, .recompute = MEGA_TRANSFORMER_RECOMPUTE_FULL});
}

static void a_ramp_changes_no_bit(void **state)
{
    (void)state;
    expect_same(&(setting){.compute = MEGA_BF16, .threads = 2, .ramps = true});
}

static size_t packed_bytes(const setting *s)
{
    mega_engine_memory m;
    mega_engine *e = make(s, NULL);
    mega_engine_memory_get(e, &m);
    mega_engine_destroy(e);
    return m.packed;
}

static void the_plan_counts_them(void **state)
{
    (void)state;
    const bool pairs = mega_cpu_isa() >= MEGA_ISA_AVX512_BF16;
    const size_t bytes = packed_bytes(&(setting){.compute = MEGA_BF16});
    if (pairs) /* twice, for forward and backward, in 2 bytes: layers of 12 x 32 x 32, the head; and no recomputation */
        assert_in_range(bytes, 4 * (2 * 12 * 32 * 32 + 64 * 32), 5 * (2 * 12 * 32 * 32 + 64 * 32));
    else
        assert_int_equal(bytes, 0);
    assert_int_equal(bytes,
                     packed_bytes(&(setting){.compute = MEGA_BF16, .recompute = MEGA_TRANSFORMER_RECOMPUTE_FULL}));
    assert_int_equal(0, packed_bytes(&(setting){.compute = MEGA_BF16, .anew = true}));
    assert_int_equal(0, packed_bytes(&(setting){.compute = MEGA_F32}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_weights_change_no_bit),
        cmocka_unit_test(a_ramp_changes_no_bit),
        cmocka_unit_test(the_plan_counts_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
