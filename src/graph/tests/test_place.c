/* The place pass for two planned ranks: where gradients are summed and weights gathered, and how long buckets are
 * alive. */
#include "graph_impl.h"
#include "graph_kit.h"
#include "kit.h"
#include "program_impl.h"

#include <stdio.h>
#include <string.h>

enum { LAYERS = 3 };

/* Layers of a GEMM and a bias, then the first weight once more, like a table that is used twice. */
static built_program make(int stage, const mega_place_options *place)
{
    built_program k = {.layout = NULL};
    char name[64];
    mega_graph *g;
    need(mega_layout_create(NULL, &(mega_layout_sizes){.planned_ranks = 2}, &k.layout));
    need(mega_params_create(k.layout, &k.params));
    for (int i = 0; i < LAYERS; i++) {
        snprintf(name, sizeof name, "h.%d.weight", i);
        declare_like(k.params, (mega_param){.layer = i + 1}, name, 8, 8);
        snprintf(name, sizeof name, "h.%d.bias", i);
        declare_like(k.params, (mega_param){.layer = i + 1}, name, 8, 0);
    }
    mega_params_shard(k.params, stage);
    need(mega_params_place(k.params, MEGA_F32, 100));
    need(mega_graph_create(MEGA_F32, k.params, k.layout, &g));
    const int64_t dim[2] = {4, 8};
    mega_tensor x = mega_graph_input(g, "x", MEGA_F32, 2, dim);
    for (int i = 0; i <= LAYERS; i++) {
        x = mega_op_linear(g, x, mega_graph_param(g, i % LAYERS * 2));
        x = mega_op_gelu(g, mega_op_bias_add(g, x, mega_graph_param(g, i % LAYERS * 2 + 1)), true);
    }
    mega_graph_output(g, x, "y");
    mega_graph_seed_gradient(g, x, "seed");
    const mega_program_options o = {.differentiate = true, .no_fusion = true, .name = "test", .place = *place};
    need(mega_program_build(g, &o, &k.program));
    return k;
}

static int count(const built_program *k, op_kind kind, bool backward)
{
    int n = 0;
    for (int i = 0; i < k->program->g->num_ops; i++)
        n += k->program->g->op[i].kind == kind && k->program->g->op[i].backward == backward;
    return n;
}

static int find(const built_program *k, op_kind kind, int bucket, bool backward)
{
    for (int i = 0; i < k->program->g->num_ops; i++) {
        const instruction *op = &k->program->g->op[i];
        if (op->kind == kind && op->attr.bucket == bucket && op->backward == backward) return i;
    }
    return -1;
}

/* Each element of a gradient bucket that grads_zero starts is either zeroed or overwritten by the GEMM that first
 * writes it. */
static void buckets_begin_without_a_gap(void **state)
{
    (void)state;
    built_program k = make(2, &(mega_place_options){0});
    int begun = 0, overwritten = 0;
    need(mega_params_allocate(k.params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    need(mega_program_allocate(k.program));
    const mega_graph *g = k.program->g;
    for (int i = 0; i < g->num_ops; i++) {
        if (g->op[i].kind != OP_GRADS_ZERO) continue;
        const bucket_args *a = k.program->call[i].args;
        const mega_bucket *b = mega_params_bucket(k.params, a->bucket);
        int covered[512] = {0};
        assert_in_range(b->count, 1, 512);
        for (int n = 0; n < a->num_gaps; n++)
            for (int64_t e = 0; e < a->gap[n].count; e++) covered[a->gap[n].first + e]++;
        for (int o = 0; o < g->num_ops; o++) {
            const graph_tensor *t = &g->tensor[g->op[o].out[0]];
            if (!g->op[o].attr.overwrites || mega_params_get(k.params, t->param)->bucket != a->bucket) continue;
            const mega_param *p = mega_params_get(k.params, t->param);
            for (int64_t e = 0; e < p->count; e++) covered[p->offset - b->offset + e]++;
            overwritten++;
        }
        for (int64_t e = 0; e < b->count; e++) assert_int_equal(covered[e], 1);
        begun++;
    }
    assert_int_equal(begun, mega_params_num_buckets(k.params));
    assert_true(overwritten > 0);
    built_program_end(&k);
}

static void gradients_are_summed_behind_the_last(void **state)
{
    (void)state;
    built_program k = make(0, &(mega_place_options){0});
    assert_int_equal(count(&k, OP_REDUCE_START, true), 0); /* after the backward */
    assert_false(mega_program_reduces(k.program, 0));
    built_program_end(&k);
    for (int stage = 0; stage < 2; stage++) {
        k = make(stage, &(mega_place_options){.overlap_reduce = true});
        const int buckets = mega_params_num_buckets(k.params);
        assert_int_equal(count(&k, OP_REDUCE_START, true), buckets);
        assert_int_equal(count(&k, OP_GRADS_ZERO, true) + count(&k, OP_REDUCE_WAIT, true), 0);
        for (int b = 0; b < buckets; b++) {
            assert_int_equal(find(&k, OP_REDUCE_START, b, true), k.program->g->buckets.ready[b] + 1);
            assert_true(mega_program_reduces(k.program, b));
        }
        built_program_end(&k);
    }
}

static void buckets_live_while_they_fill(void **state)
{
    (void)state;
    for (int overlap = 0; overlap < 2; overlap++) {
        built_program k = make(2, &(mega_place_options){.overlap_reduce = overlap == 1});
        const int buckets = mega_params_num_buckets(k.params);
        for (int b = 0; b < buckets; b++) {
            const int begin = find(&k, OP_GRADS_ZERO, b, true), reduce = find(&k, OP_REDUCE_START, b, true),
                      reduced = find(&k, OP_REDUCE_WAIT, b, true);
            assert_true(begin >= 0 && begin < reduce && reduce < reduced);
            assert_int_equal(reduce, k.program->g->buckets.ready[b] + 1);
            if (overlap == 0) assert_int_equal(reduced, reduce + 1);
        }
        /* a GEMM is the first to write each gradient of a bucket and overwrites it */
        for (int i = 0; i < k.program->g->num_ops; i++) assert_false(k.program->g->op[i].attr.first_in_step);
        mega_program_memory m;
        mega_program_memory_get(k.program, &m);
        assert_true(m.bucket_bytes > 0 && m.gathered_bytes == 0);
        /* bucket 2 is that of the first layer, which the last op uses too: it is always alive, and one more with it */
        assert_true(m.bucket_bytes >= 2 * 8 * 9 * 4 && m.bucket_bytes <= (size_t)(2 + overlap) * 8 * 16 * 4);
        built_program_end(&k);
    }
}

static void weights_are_there_while_they_are_used(void **state)
{
    (void)state;
    const struct {
        mega_place_options place;
        int forward; /* number of gathers */
    } cases[] = {{{.prefetch_elements = 0, .reuse_elements = 1000, .live_elements = 1000}, LAYERS},
                 {{.prefetch_elements = 1000, .reuse_elements = 1000, .live_elements = 1000}, LAYERS},
                 {{.prefetch_elements = 1000, .reuse_elements = 0, .live_elements = 1000}, LAYERS + 1},
                 {{.prefetch_elements = 1000, .reuse_elements = 1000, .live_elements = 130}, LAYERS + 1}};
    size_t held[4];
    for (int c = 0; c < 4; c++) {
        built_program k = make(3, &cases[c].place);
        assert_int_equal(mega_params_num_buckets(k.params), LAYERS); /* each layer has one bucket */
        assert_int_equal(count(&k, OP_GATHER_START, false), cases[c].forward);
        assert_int_equal(count(&k, OP_GATHER_WAIT, false), cases[c].forward);
        assert_int_equal(count(&k, OP_REDUCE_START, true), LAYERS);
        const int second = LAYERS - 2; /* buckets are in backward order */
        const int start = find(&k, OP_GATHER_START, second, false), wait = find(&k, OP_GATHER_WAIT, second, false);
        assert_true(c == 1 || c == 2 ? start + 1 < wait : start + 1 == wait);
        for (int i = 0; i < k.program->g->num_ops; i++)
            for (int n = 0; n < OP_MAX_IN; n++) {
                const graph_tensor *t = &k.program->g->tensor[k.program->g->op[i].in[n]];
                assert_true(t->role != ROLE_WEIGHT || t->base != 0); /* no instruction reads a weight that is not
                                                                        gathered */
            }
        mega_program_memory m;
        mega_program_memory_get(k.program, &m);
        held[c] = m.gathered_bytes;
        built_program_end(&k);
    }
    assert_true(held[0] <= held[1] && held[3] < held[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_begin_without_a_gap),
        cmocka_unit_test(gradients_are_summed_behind_the_last),
        cmocka_unit_test(buckets_live_while_they_fill),
        cmocka_unit_test(weights_are_there_while_they_are_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
