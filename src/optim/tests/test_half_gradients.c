/* Updates whose gradients are held in 16 bits: every optimizer computes what it computes from the same numbers in
 * float, also where a parameter has several pieces; the norm is that of the numbers; what is not finite is found; Muon
 * refuses. */
#include "kit.h"
#include "megalith/optimizer_state.h"
#include "optimizer_impl.h"
#include "update_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LONG = OPTIMIZER_PIECE + OPTIMIZER_PIECE / 2 + 7, PARAMS = 2, STEPS = 2 };

typedef struct side {
    mega_layout *layout;
    mega_params *params;
    mega_optimizer *optimizer;
    mega_update *update;
} side;

static mega_params *open_params(const mega_layout *layout, mega_dtype compute, mega_dtype held)
{
    static const int64_t rows[PARAMS] = {LONG, 33};
    mega_params *p;
    need(mega_params_create(layout, &p));
    for (int i = 0; i < PARAMS; i++) {
        mega_param r = {.num_dims = 1, .shape = {rows[i], 0}, .true_shape = {rows[i], 0}, .weight_decay = i == 0};
        snprintf(r.name, sizeof r.name, "parameter.%d", i);
        need(mega_params_add(p, &r, NULL));
    }
    need(mega_params_hold_gradients_in(p, held));
    need(mega_params_place(p, compute, 0));
    need(mega_params_allocate(p, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    return p;
}

static side open_side(mega_optimizer_kind kind, mega_dtype compute, mega_dtype held)
{
    side s = {.layout = NULL};
    const mega_optimizer_options o = {.kind = kind,
                                      .beta1 = 0.8,
                                      .beta2 = 0.95,
                                      .eps = 1e-6,
                                      .momentum = 0.7,
                                      .beta3 = 0.97,
                                      .alpha = 3,
                                      .alpha_steps = STEPS,
                                      .freeze_step = 1,
                                      .warmup_steps = STEPS,
                                      .r = 0.5,
                                      .weight_lr_power = 2,
                                      .max_coeff = 10,
                                      .min_coeff = 0.01};
    need(mega_layout_create(NULL, NULL, &s.layout));
    s.params = open_params(s.layout, compute, held);
    need(mega_optimizer_create(s.params, s.layout, &o, &s.optimizer));
    need(mega_optimizer_allocate(s.optimizer));
    need(mega_update_create(s.optimizer, &(mega_update_options){.num_sums = 0}, &s.update));
    float *master = mega_params_flat_master(s.params);
    for (int i = 0; i < PARAMS; i++) {
        const mega_param *p = mega_params_get(s.params, i);
        for (int64_t k = 0; k < p->count; k++) master[p->offset + k] = (float)sin(0.7 * (double)k + i);
    }
    return s;
}

static void close_side(side *s)
{
    mega_update_destroy(s->update);
    mega_optimizer_destroy(s->optimizer);
    mega_params_destroy(s->params);
    mega_layout_destroy(s->layout);
}

/* The same numbers on both sides: they are exact in 16 bits. */
static void fill(const side *wide, const side *half, mega_dtype held, int step)
{
    for (int i = 0; i < PARAMS; i++) {
        float *to = mega_params_grad(wide->params, i);
        uint16_t *rounded = mega_params_grad(half->params, i);
        for (int64_t k = 0; k < mega_params_get(wide->params, i)->count; k++) {
            rounded[k] = mega_f32_to_half((float)cos(0.3 * (double)k + i + 2 * step), held);
            to[k] = mega_half_to_f32(rounded[k], held);
        }
    }
}

static void run_update(const side *s, double clip)
{
    mega_update_step *u = mega_update_step_block(s->update);
    *u = (mega_update_step){.correction = 0.5, .clip = clip, .lr = 0.01, .weight_decay = 0.1};
    need(mega_update_run(s->update, MEGA_UPDATE_APPLY));
}

static void expect_equal(const side *wide, const side *half, int kind)
{
    for (int i = 0; i < PARAMS; i++) {
        const size_t bytes = (size_t)mega_params_get(wide->params, i)->count * sizeof(float);
        if (memcmp(mega_params_master(wide->params, i), mega_params_master(half->params, i), bytes) != 0)
            fail_msg("%s: parameter %d differs", mega_optimizer_kind_name((mega_optimizer_kind)kind), i);
        for (int m = 0; m < mega_optimizer_num_moments(wide->optimizer); m++)
            if (memcmp(mega_optimizer_moment(wide->optimizer, m, i), mega_optimizer_moment(half->optimizer, m, i),
                       bytes) != 0)
                fail_msg("%s: state %d of parameter %d differs", mega_optimizer_kind_name((mega_optimizer_kind)kind), m,
                         i);
    }
}

static void updates_are_those_of_the_same_numbers(void **state)
{
    (void)state;
    for (int kind = 0; kind < MEGA_OPTIMIZER_KINDS; kind++) {
        const mega_dtype held = kind % 2 == 0 ? MEGA_BF16 : MEGA_F16;
        if (kind == MEGA_OPTIMIZER_MUON) continue;
        side wide = open_side((mega_optimizer_kind)kind, held, MEGA_F32);
        side half = open_side((mega_optimizer_kind)kind, held, held);
        for (int step = 0; step < STEPS; step++) {
            fill(&wide, &half, held, step);
            run_update(&wide, 0); /* the norms are sums in another order, so they must not clip */
            run_update(&half, 0);
        }
        expect_equal(&wide, &half, kind);
        const size_t weights = (size_t)mega_params_elements(wide.params) * sizeof(uint16_t);
        assert_memory_equal(mega_params_flat_weight(wide.params), mega_params_flat_weight(half.params), weights);
        close_side(&wide);
        close_side(&half);
    }
}

static void norms_are_those_of_the_same_numbers(void **state)
{
    (void)state;
    side wide = open_side(MEGA_OPTIMIZER_SGD, MEGA_F32, MEGA_F32);
    side half = open_side(MEGA_OPTIMIZER_SGD, MEGA_F32, MEGA_BF16);
    fill(&wide, &half, MEGA_BF16, 0);
    ((uint16_t *)mega_params_grad(half.params, 0))[LONG - 1] = 0;
    ((float *)mega_params_grad(wide.params, 0))[LONG - 1] = 0;
    run_update(&wide, 1);
    run_update(&half, 1);
    const mega_norm_result a = mega_update_step_block(wide.update)->norm, b = mega_update_step_block(half.update)->norm;
    assert_true(fabs(a.norm - b.norm) < 1e-5 * a.norm && a.norm > 100);
    assert_int_equal(a.zeros, b.zeros);
    assert_true(a.zeros >= 1 && b.finite);
    ((uint16_t *)mega_params_grad(half.params, 0))[LONG - 1] = 0x7f80; /* infinite, in the last piece */
    run_update(&half, 1);
    assert_int_equal(mega_update_step_block(half.update)->verdict, MEGA_UPDATE_GRADIENT_IS_NOT_FINITE);
    assert_int_equal(mega_optimizer_find_nonfinite(half.optimizer), 0);
    close_side(&wide);
    close_side(&half);
}

static void only_what_the_program_does_not_overwrite_is_cleared(void **state)
{
    (void)state;
    side half = open_side(MEGA_OPTIMIZER_SGD, MEGA_F32, MEGA_BF16);
    uint16_t *first = mega_params_grad(half.params, 0), *second = mega_params_grad(half.params, 1);
    const bool skip[PARAMS] = {true, false};
    first[0] = first[LONG - 1] = second[0] = second[32] = 0x3f80;
    mega_optimizer_zero_gradients_but(half.optimizer, skip);
    assert_int_equal(first[0], 0x3f80);
    assert_int_equal(first[LONG - 1], 0x3f80);
    assert_int_equal(second[0] | second[32], 0);
    close_side(&half);
}

static void muon_refuses(void **state)
{
    (void)state;
    mega_layout *layout;
    mega_optimizer *o = NULL;
    need(mega_layout_create(NULL, NULL, &layout));
    mega_params *p = open_params(layout, MEGA_BF16, MEGA_BF16);
    const mega_optimizer_options options = {.kind = MEGA_OPTIMIZER_MUON, .beta1 = 0.9, .beta2 = 0.9, .muon_steps = 5};
    assert_int_equal(mega_optimizer_create(p, layout, &options, &o), MEGA_ERR_UNSUPPORTED);
    assert_non_null(strstr(mega_error_message(), "in place of their gradients"));
    assert_null(o);
    mega_params_destroy(p);
    mega_layout_destroy(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_are_those_of_the_same_numbers), cmocka_unit_test(norms_are_those_of_the_same_numbers),
        cmocka_unit_test(only_what_the_program_does_not_overwrite_is_cleared), cmocka_unit_test(muon_refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
