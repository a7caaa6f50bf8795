/* Tests the memory plan of ZeRO: bytes per parameter in each stage, without ranks. */
#include "engine_run.h"
#include "kit.h"

#include <math.h>
#include <stdlib.h>

/* Plans a model of 69 million parameters and allocates none of them. */
static mega_engine *plan(int stage, int ranks, mega_dtype compute)
{
    mega_transformer gpt = engine_run_gpt();
    gpt.num_layers = 4;
    gpt.hidden = 768;
    gpt.ffn_hidden = 3072;
    gpt.heads = 12;
    gpt.head_dim = 64;
    gpt.padded_vocab = 50304;
    gpt.vocab = 50257;
    mega_engine_options o = engine_run_options(ranks, 1, 1e-3);
    o.batch.micro_step = ranks;
    o.compute = compute;
    o.layout.planned_ranks = ranks;
    o.layout.planned_rank = ranks - 1;
    o.zero_stage = stage;
    o.place = (mega_place_options){true, 50000000, 1000000000, 1000000000};
    mega_engine *e = NULL;
    need(gpt_engine_create(&e, &gpt, &o));
    return e;
}

/* Returns the bytes per parameter that are kept between steps. */
static double bytes_of_parameter(const mega_engine_memory *m, const mega_engine *e)
{
    return (double)(m->weights + m->masters + m->gradients + m->moments) /
           (double)mega_params_local_count(mega_engine_params(e));
}

static void bytes_of_a_parameter(void **state)
{
    (void)state;
    const int most = getenv("MEGA_UNDER_VALGRIND") != NULL ? 2 : 8;
    for (int ranks = 2; ranks <= most; ranks *= 2) {
        const double d = ranks;
        const double half[] = {18, 6 + 12 / d, 2 + 16 / d, 18 / d};
        const double single[] = {16, 8 + 8 / d, 4 + 12 / d, 16 / d}; /* no separate masters */
        for (int stage = 0; stage <= 3; stage++)
            for (int f32 = 0; f32 < 2; f32++) {
                mega_engine *e = plan(stage, ranks, f32 == 1 ? MEGA_F32 : MEGA_BF16);
                const double expected = f32 == 1 ? single[stage] : half[stage];
                mega_engine_memory m;
                mega_engine_memory_get(e, &m);
                assert_true(mega_params_local_count(mega_engine_params(e)) > 60000000);
                assert_true(fabs(bytes_of_parameter(&m, e) / expected - 1) < 1e-3);
                assert_true((m.buckets > 0) == (stage >= 2) && (m.gathered > 0) == (stage == 3));
                mega_engine_destroy(e);
            }
    }
}

/* Together the ranks own every element exactly once; the rest of a bucket is padding. */
static void slices_are_all_of_it(void **state)
{
    (void)state;
    for (int stage = 1; stage <= 3; stage++) {
        mega_engine *e = plan(stage, 4, MEGA_BF16);
        const mega_params *p = mega_engine_params(e);
        int64_t slices = 0, owned = 0;
        for (int b = 0; b < mega_params_num_buckets(p); b++) {
            const mega_range slice = mega_params_slice(p, b);
            assert_int_equal(slice.count * 4, mega_params_bucket(p, b)->count);
            assert_int_equal(mega_params_shard_index(p, b, slice.first), slices);
            slices += slice.count;
        }
        assert_int_equal(slices, mega_params_shard_elements(p));
        for (int i = 0; i < mega_params_count(p); i++) {
            const mega_range r = mega_params_owned(p, i);
            assert_true(r.first >= 0 && r.count >= 0 && r.first + r.count <= mega_params_get(p, i)->count);
            owned += r.count;
        }
        assert_true(owned > 0 && owned <= slices);
        mega_engine_destroy(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_a_parameter),
        cmocka_unit_test(slices_are_all_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
