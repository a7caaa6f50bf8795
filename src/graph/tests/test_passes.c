/* Each pass alone: what it produces, and what the verifier reports if a pass breaks a rule. */
#include "graph_kit.h"
#include "kit.h"
#include "megalith/memory.h"
#include "program_impl.h"

#include <stdio.h>
#include <string.h>

typedef struct sketch {
    mega_layout *layout, two; /* two: tp claims two ranks over a group of one, so that collectives stay */
    mega_params *params;
    mega_graph *g;
    mega_tensor x, sample_id, seq_position;
} sketch;

static sketch begin(void)
{
    sketch k = {.layout = NULL};
    need(mega_layout_create(NULL, NULL, &k.layout));
    k.two = *k.layout;
    k.two.tp.size = 2;
    need(mega_params_create(k.layout, &k.params));
    declare_like(k.params, (mega_param){.layer = 0}, "gain", 8, 0);
    declare_like(k.params, (mega_param){.layer = 0}, "bias", 8, 0);
    declare_like(k.params, (mega_param){.layer = 0}, "weight", 8, 8);
    need(mega_params_place(k.params, MEGA_F32, 0));
    need(mega_graph_create(MEGA_F32, k.params, k.layout, &k.g));
    const int64_t dim[2] = {4, 8}, rows = 4;
    k.x = mega_graph_input(k.g, "x", MEGA_F32, 2, dim);
    k.sample_id = mega_graph_input(k.g, "sample_id", MEGA_I32, 1, &rows);
    k.seq_position = mega_graph_input(k.g, "seq_position", MEGA_I32, 1, &rows);
    return k;
}

static void end(sketch *k, mega_program *p)
{
    if (p != NULL) mega_program_destroy(p);
    else
        mega_graph_destroy(k->g);
    mega_params_destroy(k->params);
    mega_layout_destroy(k->layout);
}

static mega_program *build(const sketch *k, bool differentiate, bool no_fusion)
{
    mega_program *p = NULL;
    const mega_program_options o = {.differentiate = differentiate, .no_fusion = no_fusion, .name = "test"};
    need(mega_program_build(k->g, &o, &p));
    return p;
}

static int count(const mega_program *p, op_kind kind, bool backward)
{
    int n = 0;
    for (int i = 0; i < p->g->num_ops; i++) n += p->g->op[i].kind == kind && p->g->op[i].backward == backward;
    return n;
}

/* x → linear, all-reduce, bias, dropout, residual: the ops of a row-parallel layer on two ranks. */
static mega_tensor row_layer(const sketch *k, double dropout)
{
    mega_tensor h = mega_op_linear(k->g, mega_op_copy_to_group(k->g, k->x, &k->two.tp), param_named(k->g, "weight"));
    h = mega_op_reduce_from_group(k->g, h, &k->two.tp);
    h = mega_op_bias_add(k->g, h, param_named(k->g, "bias"));
    h = mega_op_dropout(k->g, h, dropout, 1, k->sample_id, k->seq_position);
    return mega_op_add(k->g, k->x, h);
}

static void fuse_joins_bias_dropout_and_residual(void **state)
{
    (void)state;
    for (int dropped = 0; dropped < 2; dropped++) {
        sketch k = begin();
        mega_graph_want_gradient(k.g, k.x, "d_x");
        const mega_tensor y = row_layer(&k, dropped == 1 ? 0.1 : 0.0);
        mega_graph_output(k.g, y, "y");
        mega_graph_seed_gradient(k.g, y, "seed");
        mega_program *p = build(&k, true, false);
        assert_int_equal(mega_program_num_instructions(p, false), 3); /* linear, all_reduce, dropout */
        assert_int_equal(count(p, OP_DROPOUT, false), 1);
        assert_int_equal(count(p, OP_BIAS_ADD, false) + count(p, OP_ADD, false), 0);
        /* dropout_grad absorbs the bias gradient; without dropout, linear_grad_w does. */
        assert_int_equal(count(p, OP_DROPOUT_GRAD, true), dropped);
        assert_int_equal(count(p, OP_COLUMN_SUM, true), 0);
        end(&k, p);
    }
}

static void fuse_puts_a_bias_into_the_product(void **state)
{
    (void)state;
    sketch k = begin();
    const mega_tensor y = mega_op_gelu(
        k.g, mega_op_bias_add(k.g, mega_op_linear(k.g, k.x, param_named(k.g, "weight")), param_named(k.g, "bias")),
        true);
    mega_graph_output(k.g, y, "y");
    mega_graph_seed_gradient(k.g, y, "seed");
    mega_program *p = build(&k, true, false);
    assert_int_equal(mega_program_num_instructions(p, false), 2);
    assert_int_not_equal(p->g->op[0].in[LINEAR_BIAS], 0);
    assert_int_equal(mega_program_num_instructions(p, true), 2); /* gelu_grad with the bias sum, linear_grad_w */
    assert_int_not_equal(p->g->op[2].out[LINEAR_GRAD_W_DBIAS], 0);
    end(&k, p);
}

/* One rank, no dropout: bias and residual are fused into the GEMM, and the bias gradient into that of the weight. */
static void fuse_puts_a_residual_into_the_product(void **state)
{
    (void)state;
    for (int fused = 0; fused < 2; fused++)
        for (int from_x = 0; from_x < 2; from_x++) {
            sketch k = begin();
            const int64_t dim[2] = {4, 8};
            const mega_tensor other = from_x ? k.x : mega_graph_input(k.g, "other", MEGA_F32, 2, dim);
            mega_graph_want_gradient(k.g, k.x, "d_x");
            const mega_tensor h =
                mega_op_bias_add(k.g, mega_op_linear(k.g, k.x, param_named(k.g, "weight")), param_named(k.g, "bias"));
            const mega_tensor y = mega_op_add(k.g, other, h);
            mega_graph_output(k.g, y, "y");
            mega_graph_seed_gradient(k.g, y, "seed");
            mega_program *p = build(&k, true, fused == 0);
            /* The result may overwrite the residual but not x, which is read until the end. */
            assert_int_equal(mega_program_num_instructions(p, false), fused == 0 ? 3 : 1 + from_x);
            assert_int_equal(count(p, OP_ADD, false), fused == 0 ? 1 : from_x);
            assert_int_equal(count(p, OP_COLUMN_SUM, true), 1 - fused);
            assert_int_equal(count(p, OP_LINEAR_GRAD_W, true), 1);
            for (int i = 0; i < p->g->num_ops; i++)
                if (p->g->op[i].kind == OP_LINEAR_GRAD_W) {
                    assert_true(p->g->op[i].attr.first_in_step);
                    assert_int_equal(p->g->op[i].out[LINEAR_GRAD_W_DBIAS] != 0, fused);
                }
            end(&k, p);
        }
}

/* On one rank, maximum, sum and gradient are fused into one op; on two ranks the reductions are in between. */
static void fuse_makes_one_cross_entropy(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++)
        for (int fused = 0; fused < 2; fused++) {
            sketch k = begin();
            if (ranks == 2) {
                mega_graph_destroy(k.g);
                need(mega_graph_create(MEGA_F32, k.params, &k.two, &k.g));
                const int64_t dim[2] = {4, 8};
                k.x = mega_graph_input(k.g, "x", MEGA_F32, 2, dim);
            }
            const int64_t rows = 4;
            const mega_tensor labels = mega_graph_input(k.g, "labels", MEGA_I32, 1, &rows);
            const mega_tensor mask = mega_graph_input(k.g, "mask", MEGA_F32, 1, &rows);
            const mega_head_shape s = {.valid = 8, .chunk_rows = 2, .with_gradient = true};
            const mega_head_result r = mega_op_lm_head_loss(k.g, k.x, param_named(k.g, "weight"), labels, mask, &s);
            mega_graph_loss(k.g, "loss", r.loss, 1);
            mega_program *p = build(&k, true, fused == 0);
            const int one = ranks == 1 && fused == 1 ? 2 : 0, three = 2 - one; /* counts over two chunks */
            assert_int_equal(count(p, OP_XENT, false), one);
            assert_int_equal(count(p, OP_XENT_MAX, false), three);
            assert_int_equal(count(p, OP_XENT_SUM, false), three);
            assert_int_equal(count(p, OP_XENT_GRAD, false), three);
            end(&k, p);
        }
}

static void fuse_leaves_what_others_read(void **state)
{
    (void)state;
    sketch k = begin();
    const mega_tensor h = mega_op_linear(k.g, k.x, param_named(k.g, "weight"));
    mega_graph_output(k.g, mega_op_bias_add(k.g, h, param_named(k.g, "bias")), "y");
    mega_graph_output(k.g, h, "h");
    mega_program *p = build(&k, false, false);
    assert_int_equal(mega_program_num_instructions(p, false), 2);
    end(&k, p);
}

static void no_fusion_keeps_every_op(void **state)
{
    (void)state;
    sketch k = begin();
    mega_graph_output(k.g, row_layer(&k, 0.1), "y");
    mega_program *p = build(&k, false, true);
    assert_int_equal(mega_program_num_instructions(p, false), 5);
    end(&k, p);
}

/* The all-reduce of the input gradient starts before the weight gradient, and the program waits for it afterwards. */
static void schedule_starts_collectives_early_and_waits_late(void **state)
{
    (void)state;
    sketch k = begin();
    mega_graph_want_gradient(k.g, k.x, "d_x");
    const mega_tensor y = row_layer(&k, 0.0);
    mega_graph_output(k.g, y, "y");
    mega_graph_seed_gradient(k.g, y, "seed");
    mega_program *p = build(&k, true, false);
    int start = -1, weight = -1;
    for (int i = p->g->num_forward; i < p->g->num_ops; i++) {
        if (p->g->op[i].kind == OP_ALL_REDUCE) start = i;
        if (p->g->op[i].kind == OP_LINEAR_GRAD_W) weight = i;
    }
    assert_true(start >= 0 && start < weight);
    assert_int_equal(p->g->op[start - 1].kind, OP_LINEAR_GRAD_X);
    assert_true(p->g->op[start].first_use > weight);
    mega_buffer text = {0};
    need(mega_program_print(p, &text));
    char expected[64];
    snprintf(expected, sizeof expected, "start %d, wait %d", start, p->g->op[start].first_use);
    assert_non_null(strstr(text.data, expected));
    assert_non_null(strstr(text.data, "all_reduce tp"));
    mega_buffer_fini(&text);
    end(&k, p);
}

/* An exchange starts after the instruction that says whether it is needed, if that comes last. */
static void schedule_waits_for_all_inputs(void **state)
{
    (void)state;
    sketch k = begin();
    const int64_t firsts = 2 * 3;
    const mega_expert_rounds rounds = {.ranks = 2, .experts = 2, .rows = 8};
    const mega_tensor h = mega_op_gelu(k.g, k.x, true), first = mega_graph_input(k.g, "first", MEGA_I32, 1, &firsts);
    const mega_tensor needed = mega_op_expert_received(k.g, first, &rounds, 1).needed;
    const mega_tensor beside = mega_op_gelu(k.g, mega_op_gelu(k.g, k.x, true), true);
    mega_graph_output(k.g, mega_op_add(k.g, mega_op_all_to_all(k.g, h, needed, &k.two.tp), beside), "y");
    mega_program *p = build(&k, false, true);
    assert_int_equal(p->g->op[1].kind, OP_EXPERT_RECEIVED);
    assert_int_equal(p->g->op[2].kind, OP_ALL_TO_ALL);
    assert_int_equal(p->g->op[2].first_use, p->g->num_ops - 1);
    end(&k, p);
}

/* The operand of these is sent while other ops compute, so its memory is not reused. */
static void keeps_what_is_under_way(op_kind kind)
{
    sketch k = begin();
    const mega_tensor h = mega_op_linear(k.g, k.x, param_named(k.g, "weight"));
    const mega_tensor own = kind == OP_ALL_TO_ALL ? mega_op_all_to_all(k.g, h, (mega_tensor){0}, &k.two.tp)
                                                  : mega_op_scatter_to_sequence(k.g, h, &k.two.tp);
    const mega_tensor beside = mega_op_gelu(k.g, k.x, true), last = mega_op_gelu(k.g, beside, true);
    mega_graph_output(k.g, mega_op_gelu(k.g, own, true), "y");
    mega_graph_output(k.g, mega_op_add(k.g, beside, last), "z");
    mega_program *p = build(&k, false, true);
    int start = 0;
    while (p->g->op[start].kind != kind) start++;
    const int wait = p->g->op[start].first_use;
    assert_true(wait > start + 2);
    for (int b = 0; b < p->num_blocks; b++)
        if (p->block[b].tensor == h.id || p->block[b].tensor == own.id) assert_true(p->block[b].last >= wait - 1);
    end(&k, p);
}

static void plan_keeps_what_is_under_way(void **state)
{
    (void)state;
    keeps_what_is_under_way(OP_REDUCE_SCATTER);
    keeps_what_is_under_way(OP_ALL_TO_ALL);
}

/* Checks the kinds of the instructions that the program has from `at` on. */
static void expect_kinds(const mega_program *p, int at, const op_kind *kind, int num)
{
    for (int i = 0; i < num; i++)
        if (p->g->op[at + i].kind != kind[i])
            fail_msg("instruction %d: %s, expected %s", at + i, mega_op_table[p->g->op[at + i].kind]->name,
                     mega_op_table[kind[i]]->name);
}

/* What an MLP computes beside two exchanges, there and back, is divided between both. In the backward program its
 * gradients, and those of weights, are computed meanwhile. */
static void exchanges_have_something_beside_them(void **state)
{
    static const op_kind forward[] = {OP_LINEAR,     OP_GELU,       OP_ALL_TO_ALL, OP_ACTIVATION, OP_LINEAR,
                                      OP_ALL_TO_ALL, OP_ACTIVATION, OP_MASKED_SUM, OP_GELU,       OP_ADD};
    static const op_kind backward[] = {OP_GELU_GRAD,     OP_ALL_TO_ALL,   OP_ACTIVATION_GRAD, OP_ACTIVATION_GRAD,
                                       OP_LINEAR_GRAD_X, OP_ALL_TO_ALL,   OP_LINEAR_GRAD_W,   OP_GELU_GRAD,
                                       OP_ADD,           OP_LINEAR_GRAD_W};
    (void)state;
    sketch k = begin();
    const mega_tensor none = {0}, weight = param_named(k.g, "weight");
    const mega_tensor x = mega_op_linear(k.g, k.x, weight);
    const mega_tensor there = mega_op_all_to_all(k.g, mega_op_gelu(k.g, x, true), none, &k.two.tp);
    const mega_tensor back = mega_op_all_to_all(k.g, mega_op_linear(k.g, there, weight), none, &k.two.tp);
    const mega_tensor first = mega_op_gelu(k.g, back, true);
    const mega_tensor up = mega_op_activation(k.g, x, MEGA_ACT_SILU);
    const mega_tensor down = mega_op_activation(k.g, up, MEGA_ACT_SILU);
    const mega_tensor sum = mega_op_row_sum(k.g, mega_op_add(k.g, first, down));
    mega_graph_loss(k.g, "loss", mega_op_weighted_sum(k.g, sum, none), 1);
    mega_program *p = build(&k, true, true);
    expect_kinds(p, 0, forward, sizeof forward / sizeof *forward);
    int at = p->g->num_forward;
    while (p->g->op[at].kind != OP_GELU_GRAD) at++;
    expect_kinds(p, at, backward, sizeof backward / sizeof *backward);
    end(&k, p);
}

static void place_finds_where_buckets_are_complete(void **state)
{
    (void)state;
    sketch k = begin();
    const mega_tensor y = mega_op_layer_norm(k.g, mega_op_linear(k.g, k.x, param_named(k.g, "weight")),
                                             param_named(k.g, "gain"), param_named(k.g, "bias"), 1e-5);
    mega_graph_output(k.g, y, "y");
    mega_graph_seed_gradient(k.g, y, "seed");
    mega_program *p = build(&k, true, true);
    assert_int_equal(p->g->buckets.ready[0], p->g->num_ops - 1); /* the only bucket waits for the weight gradient */
    end(&k, p);
}

static void recompute_clones_only_what_its_backward_reads(void **state)
{
    (void)state;
    sketch k = begin();
    mega_tensor h = mega_op_bias_add(k.g, k.x, param_named(k.g, "bias")); /* so that x of the region needs a gradient */
    mega_graph_region_begin(k.g);
    h = mega_op_layer_norm(k.g, h, param_named(k.g, "gain"), param_named(k.g, "bias"), 1e-5);
    h = mega_op_gelu(k.g, mega_op_linear(k.g, h, param_named(k.g, "weight")), true);
    h = mega_op_linear(k.g, h, param_named(k.g, "weight")); /* its result leaves the region and is not recomputed */
    mega_graph_region_end(k.g);
    mega_graph_output(k.g, h, "y");
    mega_graph_seed_gradient(k.g, h, "seed");
    mega_program *p = build(&k, true, true);
    assert_int_equal(count(p, OP_LAYER_NORM, true), 1);
    assert_int_equal(count(p, OP_GELU, true), 1);
    assert_int_equal(count(p, OP_LINEAR, true), 1);
    for (int i = 0; i < p->g->num_ops; i++) assert_true(!p->g->op[i].recomputed || p->g->op[i].backward);
    /* The input of the region is the only value that the backward reads from the forward. */
    int saved = 0;
    for (int b = 0; b < p->num_blocks; b++)
        saved += p->block[b].first < p->g->num_forward && p->block[b].last >= p->g->num_forward;
    assert_int_equal(saved, 1);
    end(&k, p);
}

static void gradients_of_several_uses_are_added(void **state)
{
    (void)state;
    sketch k = begin();
    mega_graph_want_gradient(k.g, k.x, "d_x");
    mega_tensor y = mega_op_add(k.g, mega_op_gelu(k.g, k.x, true), mega_op_gelu(k.g, k.x, false));
    mega_graph_output(k.g, y, "y");
    mega_graph_seed_gradient(k.g, y, "seed");
    mega_program *p = build(&k, true, false);
    assert_int_equal(count(p, OP_GELU_GRAD, true), 2);
    assert_int_equal(count(p, OP_ADD, true), 1);
    end(&k, p);
}

/* The result may reuse the memory of an operand that dies, if the kernel allows it, but never of one that is read
 * again. */
static void plan_works_in_place(void **state)
{
    (void)state;
    sketch k = begin();
    mega_tensor a = mega_op_gelu(k.g, k.x, true), b = mega_op_gelu(k.g, k.x, false);
    mega_tensor sum = mega_op_add(k.g, a, b);
    mega_tensor last = mega_op_add(k.g, sum, b);
    mega_graph_output(k.g, mega_op_gelu(k.g, last, true), "y");
    mega_program *p = build(&k, false, true);
    const graph_tensor *t = p->g->tensor;
    assert_int_equal(t[sum.id].at, t[a.id].at);
    assert_int_not_equal(t[sum.id].at, t[b.id].at);
    assert_true(t[last.id].at == t[sum.id].at || t[last.id].at == t[b.id].at);
    assert_int_equal(p->scratch_bytes, 2 * (4 * 8 * sizeof(float) + (size_t)p->check * 64));
    for (int i = 1; i < p->g->num_tensors; i++) assert_int_equal(t[i].at % 64, 0);
    end(&k, p);
}

static void verify_expect(sketch *k, const char *rule)
{
    assert_int_not_equal(mega_graph_verify(k->g, "breaker"), MEGA_OK);
    if (strstr(mega_error_message(), rule) == NULL || strstr(mega_error_message(), "breaker") == NULL)
        fail_msg("expected \"%s\" after pass breaker, found: %s", rule, mega_error_message());
    end(k, NULL);
}

static sketch two_ops(void)
{
    sketch k = begin();
    const mega_tensor h = mega_op_gelu(k.g, k.x, true);
    mega_graph_output(k.g, mega_op_add(k.g, h, k.x), "y");
    k.g->num_forward = k.g->num_ops;
    need(mega_graph_verify(k.g, "describe"));
    return k;
}

static void verify_names_the_pass_and_the_rule(void **state)
{
    (void)state;
    sketch k = two_ops();
    const instruction first = k.g->op[0];
    k.g->op[0] = k.g->op[1];
    k.g->op[1] = first;
    verify_expect(&k, "reads what is not written yet");

    k = two_ops();
    k.g->op[1].out[0] = k.g->op[0].out[0];
    verify_expect(&k, "writes what is written already");

    k = two_ops();
    k.g->op[1].in[1] = 0;
    verify_expect(&k, "operand");

    k = two_ops();
    k.g->tensor[k.g->op[1].out[0]].shape.dim[1] = 7;
    verify_expect(&k, "shape");

    k = two_ops();
    k.g->op[1].out[0] = k.x.id;
    verify_expect(&k, "writes an input");

    k = two_ops();
    k.g->num_forward = 1;
    verify_expect(&k, "is in the backward program");

    k = two_ops();
    k.g->num_ops = 1;
    verify_expect(&k, "output \"y\" is not written");

    k = two_ops();
    k.g->op[1].kind = OP_NONE;
    verify_expect(&k, "has no op");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fuse_joins_bias_dropout_and_residual),
        cmocka_unit_test(fuse_puts_a_bias_into_the_product),
        cmocka_unit_test(fuse_puts_a_residual_into_the_product),
        cmocka_unit_test(fuse_makes_one_cross_entropy),
        cmocka_unit_test(fuse_leaves_what_others_read),
        cmocka_unit_test(no_fusion_keeps_every_op),
        cmocka_unit_test(schedule_starts_collectives_early_and_waits_late),
        cmocka_unit_test(schedule_waits_for_all_inputs),
        cmocka_unit_test(exchanges_have_something_beside_them),
        cmocka_unit_test(plan_keeps_what_is_under_way),
        cmocka_unit_test(place_finds_where_buckets_are_complete),
        cmocka_unit_test(recompute_clones_only_what_its_backward_reads),
        cmocka_unit_test(gradients_of_several_uses_are_added),
        cmocka_unit_test(plan_works_in_place),
        cmocka_unit_test(verify_names_the_pass_and_the_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
