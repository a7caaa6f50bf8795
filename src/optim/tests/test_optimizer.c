/* The optimizer on several ranks, simulated without ranks: each rank of a layout works on its own in a group of one,
 * and the results of all together are compared with one rank and with the formulas of the updates. */
#include "kit.h"
#include "megalith/update.h"
#include "optimizer_row.h"
#include "update_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A model with every kind of parameter: split over tensor ranks by rows, by columns and in blocks, replicated, with
 * padding, with and without weight decay, tied. */
enum { PARAMS = 7, MOST = 240, STEPS = 3 };

static const struct {
    const char *name;
    int64_t rows, cols, real_rows;
    int dims, cut_dim, blocks;
    bool is_cut, decays;
    double lr_scale; /* 0 means 1 */
} records[PARAMS] = {
    {"wte", 20, 6, 17, 2, 0, 1, true, true, 0},        {"wpe", 5, 6, 5, 2, 0, 1, false, true, 0.25},
    {"qkv", 12, 6, 12, 2, 0, 3, true, true, 0},        {"qkv.bias", 12, 1, 12, 1, 0, 3, true, false, 0},
    {"proj", 6, 8, 6, 2, 1, 1, true, true, 0},         {"proj.bias", 6, 1, 6, 1, 0, 1, false, false, 0},
    {"norm.gain", 40, 1, 40, 1, 0, 1, false, false, 3}};

typedef struct settings {
    mega_optimizer_kind kind;
    mega_dtype compute;
    int zero, tp, dp;
    double lr, decay, clip;
} settings;

typedef struct rank {
    mega_layout *alone, layout;
    mega_params *params;
    mega_optimizer *optimizer;
    mega_update *update;
} rank;

static const mega_optimizer_options betas = {.beta1 = 0.8,
                                             .beta2 = 0.95,
                                             .eps = 1e-6,
                                             .momentum = 0.7,
                                             .lr_decay = 0.4,
                                             .beta3 = 0.97,
                                             .alpha = 3,
                                             .alpha_steps = STEPS - 1,
                                             .freeze_step = STEPS - 1,
                                             .warmup_steps = STEPS - 1,
                                             .r = 0.5,
                                             .weight_lr_power = 2};

static void rank_open(rank *r, const settings *s, int tp, int dp, mega_tie tie)
{
    mega_optimizer_options o = betas;
    o.kind = s->kind;
    need(mega_layout_create(NULL, NULL, &r->alone));
    r->layout = *r->alone;
    r->layout.tp = (mega_axis){tp, s->tp, r->alone->tp.comm};
    r->layout.dp = (mega_axis){dp, s->dp, r->alone->dp.comm};
    need(mega_params_create(&r->layout, &r->params));
    for (int i = 0; i < PARAMS; i++) {
        mega_param p = {.num_dims = records[i].dims,
                        .shape = {records[i].rows, records[i].cols},
                        .true_shape = {records[i].real_rows, records[i].cols},
                        .axis = records[i].is_cut ? MEGA_AXIS_TP : MEGA_AXIS_NONE,
                        .cut_dim = records[i].cut_dim,
                        .tie = i == 0 ? tie : MEGA_TIE_NONE,
                        .weight_decay = records[i].decays,
                        .lr_scale = records[i].lr_scale};
        mega_param_set_blocks(&p, records[i].blocks);
        snprintf(p.name, sizeof p.name, "%s", records[i].name);
        need(mega_params_add(r->params, &p, NULL));
    }
    mega_params_shard(r->params, s->zero);
    need(mega_params_place(r->params, s->compute, 100));
    need(mega_params_allocate(r->params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    need(mega_optimizer_create(r->params, &r->layout, &o, &r->optimizer));
    need(mega_optimizer_allocate(r->optimizer));
    /* no rank is there to sum with */
    bool is_reduced[PARAMS];
    for (int i = 0; i < PARAMS; i++) is_reduced[i] = true;
    need(mega_update_create(r->optimizer, &(mega_update_options){.is_reduced = is_reduced}, &r->update));
}

static void rank_close(rank *r)
{
    mega_update_destroy(r->update);
    mega_optimizer_destroy(r->optimizer);
    mega_params_destroy(r->params);
    mega_layout_destroy(r->alone);
}

/* Runs the second part of the update with the gradients times `factor`. */
static mega_status update(const rank *r, double lr, double decay, double factor)
{
    mega_update_step *u = mega_update_step_block(r->update);
    *u = (mega_update_step){.correction = factor, .lr = lr, .weight_decay = decay};
    return mega_update_run(r->update, MEGA_UPDATE_APPLY);
}

static mega_norm_result norm_of(const rank *r)
{
    need(update(r, 0, 0, 1));
    return mega_update_step_block(r->update)->norm;
}

/* Values of the whole model, by parameter and element; 0 in the padding. */
static double value_of(int param, int64_t element, int step)
{
    const double x = sin(1.7 * (double)element + 3.1 * param + 0.9 * step);
    return element / records[param].cols < records[param].real_rows ? x + 0.3 : 0;
}

/* Index in the whole parameter of element k of this rank's slice: ranks have equal parts of each block. */
static int64_t whole_index(const rank *r, int param, int64_t k)
{
    const mega_param *p = mega_params_get(r->params, param);
    int64_t at[2] = {k / p->local_shape[1], k % p->local_shape[1]}, *cut = &at[p->cut_dim];
    const int64_t part = p->local_shape[p->cut_dim] / p->num_parts;
    if (records[param].is_cut) *cut = (*cut / part * r->layout.tp.size + r->layout.tp.rank) * part + *cut % part;
    return at[0] * records[param].cols + at[1];
}

static void put(const rank *r, void *data, int64_t i, double x)
{
    if (mega_params_acc_dtype(r->params) == MEGA_F64) ((double *)data)[i] = x;
    else
        ((float *)data)[i] = (float)x;
}

static double get(const rank *r, const void *data, int64_t i)
{
    return mega_params_acc_dtype(r->params) == MEGA_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* Writes what this rank owns of each parameter into masters or gradients. */
static void fill(const rank *r, bool masters, int step)
{
    for (int i = 0; i < PARAMS; i++) {
        const mega_param *p = mega_params_get(r->params, i);
        const mega_range owned = mega_params_owned(r->params, i);
        void *to = masters ? mega_params_master(r->params, i)
                           : mega_params_grad_at(r->params, p->bucket, p->offset + owned.first);
        for (int64_t k = 0; k < owned.count; k++)
            put(r, to, k, value_of(i, whole_index(r, i, owned.first + k), masters ? 100 : step));
    }
}

/* ---- the update of the whole model by its formulas, in double ---- */

typedef struct model {
    double master[PARAMS][MOST], moment[MEGA_OPTIMIZER_STATES][PARAMS][MOST];
} model;

static int64_t elements(int param)
{
    return records[param].rows * records[param].cols;
}

/* AdEMAMix in the form of its paper (algorithm 1): the half-life of the slow mean grows linearly. */
static void ademamix_by_formula(double *p, double *const moment[3], double g, double lr, double decay, int step)
{
    const double part = fmin(1, step / (double)betas.alpha_steps), b1 = betas.beta1, b3 = betas.beta3;
    const double half1 = log(0.5) / log(b1), half3 = log(0.5) / log(b3); /* linear between b1's and b3's */
    const double slow = pow(0.5, 1 / ((1 - part) * half1 + part * half3));
    *moment[0] = b1 * *moment[0] + (1 - b1) * g;
    *moment[1] = slow * *moment[1] + (1 - slow) * g;
    *moment[2] = betas.beta2 * *moment[2] + (1 - betas.beta2) * g * g;
    const double mean = *moment[0] / (1 - pow(b1, step)), square = *moment[2] / (1 - pow(betas.beta2, step));
    *p -= lr * ((mean + betas.alpha * part * *moment[1]) / (sqrt(square) + betas.eps) + decay * *p);
}

/* The learning rate of a step of schedule-free AdamW, as a part of lr. */
static double warmed_up(int step)
{
    return fmin(1, step / (double)betas.warmup_steps);
}

/* Schedule-free AdamW as the package schedulefree writes it: the average is not kept, moment[0] is y too. */
static void schedule_free_by_formula(double *y, double *const moment[3], double g, double lr, double decay, int step)
{
    double *z = moment[1], *v = moment[2], sum = 0, weight = 0;
    for (int k = 1; k <= step; k++) /* the rate itself cancels in weight / sum */
        sum += weight = pow(k, betas.r) * pow(warmed_up(k), betas.weight_lr_power);
    const double c = weight / sum, rate = lr * warmed_up(step);
    if (step == 1) *z = *y;
    *v = betas.beta2 * *v + (1 - betas.beta2) * g * g;
    const double way = g / (sqrt(*v / (1 - pow(betas.beta2, step))) + betas.eps) + decay * *y;
    *y = *y + c * (*z - *y) + way * rate * (betas.beta1 * (1 - c) - 1);
    *z -= rate * way;
    *moment[0] = *y;
}

/* 1-bit Adam on one data-parallel rank, which compresses nothing. */
static void one_bit_by_formula(double *p, double *const moment[3], double g, double lr, double decay, int step)
{
    double *m = moment[0], *v = moment[1];
    *m = betas.beta1 * *m + (1 - betas.beta1) * g;
    if (step <= betas.freeze_step) *v = betas.beta2 * *v + (1 - betas.beta2) * g * g;
    *p -= lr * (*m / (sqrt(*v) + betas.eps) + decay * *p);
}

static double sign_of(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

/* Returns whether the kind is one of these; otherwise, for Adam and SGD, nothing changes. */
static bool other_by_formula(mega_optimizer_kind kind, double *p, double *const moment[3], double g, double lr,
                             double decay, int step)
{
    double *m = moment[0];
    if (kind == MEGA_OPTIMIZER_ADAGRAD) {
        g += decay * *p;
        *m += g * g;
        *p -= lr / (1 + (step - 1) * betas.lr_decay) * g / (sqrt(*m) + betas.eps);
    } else if (kind == MEGA_OPTIMIZER_LION) {
        const double way = sign_of(betas.beta1 * *m + (1 - betas.beta1) * g);
        *p -= lr * (way + decay * *p);
        *m = betas.beta2 * *m + (1 - betas.beta2) * g;
    } else if (kind == MEGA_OPTIMIZER_ADEMAMIX) {
        ademamix_by_formula(p, moment, g, lr, decay, step);
    } else if (kind == MEGA_OPTIMIZER_SCHEDULE_FREE_ADAMW) {
        schedule_free_by_formula(p, moment, g, lr, decay, step);
    } else if (kind == MEGA_OPTIMIZER_ONE_BIT_ADAM) {
        one_bit_by_formula(p, moment, g, lr, decay, step);
    } else if (kind != MEGA_OPTIMIZER_ADAM && kind != MEGA_OPTIMIZER_SGD) {
        fail_msg("%s: write its formula here, and give its options values in `betas`", mega_optimizer_kind_name(kind));
    }
    return kind != MEGA_OPTIMIZER_ADAM && kind != MEGA_OPTIMIZER_SGD;
}

static void update_by_formula(model *m, const settings *s, int step, double factor)
{
    for (int i = 0; i < PARAMS; i++)
        for (int64_t k = 0; k < elements(i); k++) {
            const double g = factor * value_of(i, k, step), decay = records[i].decays ? s->decay : 0;
            const double lr = s->lr * (records[i].lr_scale > 0 ? records[i].lr_scale : 1);
            double *p = &m->master[i][k], *a = &m->moment[0][i][k], *b = &m->moment[1][i][k];
            double *const moments[3] = {a, b, &m->moment[2][i][k]};
            if (other_by_formula(s->kind, p, moments, g, lr, decay, step)) continue;
            if (s->kind == MEGA_OPTIMIZER_SGD) {
                *a = step == 1 ? g + decay * *p : betas.momentum * *a + g + decay * *p;
                *p -= lr * *a;
                continue;
            }
            *a = betas.beta1 * *a + (1 - betas.beta1) * g;
            *b = betas.beta2 * *b + (1 - betas.beta2) * g * g;
            const double mean = *a / (1 - pow(betas.beta1, step)), square = *b / (1 - pow(betas.beta2, step));
            *p -= lr * (mean / (sqrt(square) + betas.eps) + decay * *p);
        }
}

static double norm_by_formula(int step)
{
    double squares = 0;
    for (int i = 0; i < PARAMS; i++)
        for (int64_t k = 0; k < elements(i); k++) squares += value_of(i, k, step) * value_of(i, k, step);
    return sqrt(squares);
}

/* Compares this rank's elements with the model, and marks them as held. */
static void compare(const rank *r, const model *m, const settings *s, int held[PARAMS][MOST])
{
    const double tolerance = mega_params_acc_dtype(r->params) == MEGA_F64 ? 1e-13 : 2e-6;
    for (int i = 0; i < PARAMS; i++) {
        const mega_range owned = mega_params_owned(r->params, i);
        for (int64_t k = 0; k < owned.count; k++) {
            const int64_t at = whole_index(r, i, owned.first + k);
            held[i][at]++;
            const double found = get(r, mega_params_master(r->params, i), k);
            if (!(fabs(found - m->master[i][at]) <= tolerance * fmax(1, fabs(found))))
                fail_msg("%s[%lld], ZeRO %d, tp %d, dp %d: %.15g, expected %.15g", records[i].name, (long long)at,
                         s->zero, s->tp, s->dp, found, m->master[i][at]);
            for (int j = 0; j < mega_optimizer_num_moments(r->optimizer); j++) {
                const double moment = get(r, mega_optimizer_moment(r->optimizer, j, i), k);
                if (!(fabs(moment - m->moment[j][i][at]) <= tolerance * fmax(1, fabs(moment))))
                    fail_msg("%s of %s[%lld]: %.15g, expected %.15g", mega_optimizer_moment_name(r->optimizer, j),
                             records[i].name, (long long)at, moment, m->moment[j][i][at]);
            }
        }
    }
}

/* Joins the norms of the states of this rank with those of the ranks before. */
static void join_norms(const rank *r, mega_state_norms *all)
{
    mega_state_norms own;
    need(mega_optimizer_state_norms(r->optimizer, &own));
    for (int k = 0; k < MEGA_STATE_KINDS; k++) {
        all->l2[k] = hypot(all->l2[k], own.l2[k]);
        all->l1[k] += own.l1[k];
        all->abs_max[k] = fmax(all->abs_max[k], own.abs_max[k]);
    }
}

static void compare_norms(const mega_state_norms *found, const model *m, const settings *s)
{
    for (int kind = 0; kind < MEGA_STATE_KINDS; kind++) {
        const double(*of)[MOST] = kind == MEGA_STATE_WEIGHT ? m->master : m->moment[kind != MEGA_STATE_MOMENTUM];
        double squares = 0, sizes = 0, most = 0;
        for (int i = 0; i < PARAMS; i++)
            for (int64_t k = 0; k < elements(i); k++) {
                const double size = kind == MEGA_STATE_VARIANCE_SQRT ? sqrt(of[i][k]) : fabs(of[i][k]);
                squares += size * size;
                sizes += size;
                most = fmax(most, size);
            }
        const double got[] = {found->l2[kind], found->l1[kind], found->abs_max[kind]};
        const double expected[] = {sqrt(squares), sizes, most};
        for (int i = 0; i < 3; i++)
            if (!(fabs(got[i] / expected[i] - 1) < 1e-5))
                fail_msg("ZeRO %d, tp %d, dp %d: norm %d of state %d is %.12g, expected %.12g", s->zero, s->tp, s->dp,
                         i, kind, got[i], expected[i]);
    }
}

/* Runs every rank of a layout in turn. Sums the squares of their norms here, as ranks would. */
static void train_all_ranks(const settings *s)
{
    static model expected;
    static int held[PARAMS][MOST];
    double squares[STEPS + 1] = {0}, factor[STEPS + 1];
    int64_t zeros = 0;
    mega_state_norms norms = {{0}, {0}, {0}};
    memset(held, 0, sizeof held);
    for (int step = 1; step <= STEPS; step++) factor[step] = mega_clip_factor(norm_by_formula(step), s->clip);
    for (int n = 0; n < s->tp * s->dp; n++) {
        rank r;
        rank_open(&r, s, n % s->tp, n / s->tp, MEGA_TIE_NONE);
        memset(&expected, 0, sizeof expected);
        for (int i = 0; i < PARAMS; i++)
            for (int64_t k = 0; k < elements(i); k++) expected.master[i][k] = value_of(i, k, 100);
        fill(&r, true, 0);
        for (int step = 1; step <= STEPS; step++) {
            fill(&r, false, step);
            need(update(&r, s->lr, s->decay, factor[step]));
            const mega_norm_result norm = mega_update_step_block(r.update)->norm;
            assert_true(norm.finite);
            /* otherwise all ranks of dp have it */
            if (s->zero > 0 || n / s->tp == 0) squares[step] += norm.norm * norm.norm;
            if (step == 1 && (s->zero > 0 || n / s->tp == 0)) zeros += norm.zeros;
            update_by_formula(&expected, s, step, factor[step]);
        }
        assert_int_equal(mega_optimizer_updates(r.optimizer), STEPS);
        compare(&r, &expected, s, held);
        if (s->kind == MEGA_OPTIMIZER_ADAM && (s->zero > 0 || n / s->tp == 0)) join_norms(&r, &norms);
        rank_close(&r);
    }
    for (int step = 1; step <= STEPS; step++) {
        const double norm = sqrt(squares[step]);
        if (!(fabs(norm / norm_by_formula(step) - 1) < 1e-6))
            fail_msg("ZeRO %d, tp %d, dp %d: the norm of all ranks is %.12g, expected %.12g", s->zero, s->tp, s->dp,
                     norm, norm_by_formula(step));
    }
    if (s->kind == MEGA_OPTIMIZER_ADAM) compare_norms(&norms, &expected, s);
    assert_int_equal(zeros, 0); /* padding is not counted */
    for (int i = 0; i < PARAMS; i++) {
        const int copies = (records[i].is_cut ? 1 : s->tp) * (s->zero > 0 ? 1 : s->dp);
        for (int64_t k = 0; k < elements(i); k++) assert_int_equal(held[i][k], copies);
    }
}

static void ranks_together_make_the_update_of_one(void **state)
{
    (void)state;
    for (mega_optimizer_kind kind = 0; kind < MEGA_OPTIMIZER_KINDS; kind++) {
        /* these need whole tensors, so real ranks (tests/ranks/ranks_parity.c) */
        if (kind == MEGA_OPTIMIZER_LAMB || kind == MEGA_OPTIMIZER_MUON) continue;
        for (int zero = 0; zero <= (mega_optimizer_kind_compresses(kind) ? 0 : 3); zero++)
            for (int tp = 1; tp <= 2; tp++)
                for (int wide = 0; wide < 2; wide++) {
                    const settings s = {.kind = kind,
                                        .compute = wide ? MEGA_F64 : MEGA_F32,
                                        .zero = zero,
                                        .tp = tp,
                                        .dp = zero > 0 ? 3 : 1,
                                        .lr = 0.05,
                                        .decay = 0.3,
                                        .clip = 1.5};
                    train_all_ranks(&s);
                }
    }
}

/* A table that the first and the last stage both hold counts once. */
static void a_tied_copy_counts_once(void **state)
{
    (void)state;
    static const mega_tie tie[] = {MEGA_TIE_OWNER, MEGA_TIE_COPY};
    const settings s = {.kind = MEGA_OPTIMIZER_ADAM, .compute = MEGA_F64, .tp = 1, .dp = 1};
    double table = 0, squares[2];
    for (int64_t k = 0; k < elements(0); k++) table += value_of(0, k, 1) * value_of(0, k, 1);
    for (int i = 0; i < 2; i++) {
        rank r;
        rank_open(&r, &s, 0, 0, tie[i]);
        fill(&r, false, 1);
        const mega_norm_result norm = norm_of(&r);
        squares[i] = norm.norm * norm.norm;
        assert_int_equal(norm.zeros, 0);
        rank_close(&r);
    }
    assert_true(fabs(squares[0] - squares[1] - table) < 1e-9 * table);
}

/* Norms far above the limit, just above it and below it, and no limit. */
static void clip_factor(void **state)
{
    (void)state;
    assert_true(fabs(mega_clip_factor(50, 2) - 0.04) < 1e-8);
    assert_true(fabs(mega_clip_factor(2.5, 2) - 0.8) < 1e-6);
    assert_true(mega_clip_factor(1.9, 2) == 1);
    assert_true(mega_clip_factor(50, 0) == 1);
}

static void zeroes_what_is_not_skipped(void **state)
{
    (void)state;
    const settings s = {.kind = MEGA_OPTIMIZER_ADAM, .compute = MEGA_F32, .tp = 1, .dp = 1};
    const bool skip[PARAMS] = {[2] = true, [5] = true};
    rank r;
    rank_open(&r, &s, 0, 0, MEGA_TIE_NONE);
    fill(&r, false, 1);
    mega_optimizer_zero_gradients_but(r.optimizer, skip);
    for (int i = 0; i < PARAMS; i++) {
        double sum = 0;
        for (int64_t k = 0; k < elements(i); k++) sum += fabs(get(&r, mega_params_grad(r.params, i), k));
        assert_int_equal(sum > 0, skip[i]);
    }
    mega_optimizer_zero_gradients(r.optimizer);
    for (int i = 0; i < PARAMS; i++) assert_true(get(&r, mega_params_grad(r.params, i), 0) == 0);
    rank_close(&r);
}

/* Finds the first parameter with a gradient that is not finite; under ZeRO on the rank that owns it. */
static void finds_what_is_not_finite(void **state)
{
    (void)state;
    const settings s = {.kind = MEGA_OPTIMIZER_ADAM, .compute = MEGA_F32, .zero = 1, .tp = 1, .dp = 2};
    int found = 0;
    for (int dp = 0; dp < 2; dp++) {
        rank r;
        rank_open(&r, &s, 0, dp, MEGA_TIE_NONE);
        fill(&r, false, 1);
        assert_int_equal(mega_optimizer_find_nonfinite(r.optimizer), -1);
        const mega_param *p = mega_params_get(r.params, 4);
        const mega_range owned = mega_params_owned(r.params, 4);
        if (owned.first == 0 && owned.count > 0) {
            put(&r, mega_params_grad_at(r.params, p->bucket, p->offset), 0, NAN);
            assert_int_equal(mega_optimizer_find_nonfinite(r.optimizer), 4);
            const double before = get(&r, mega_params_master(r.params, 4), 0);
            assert_false(norm_of(&r).finite);
            /* nothing was updated */
            assert_int_equal(mega_update_step_block(r.update)->verdict, MEGA_UPDATE_GRADIENT_IS_NOT_FINITE);
            assert_int_equal(mega_optimizer_updates(r.optimizer), 0);
            assert_true(get(&r, mega_params_master(r.params, 4), 0) == before);
            found++;
        }
        rank_close(&r);
    }
    assert_int_equal(found, 1);
}

static void same_elements(const rank *a, const rank *b)
{
    for (int i = 0; i < PARAMS; i++)
        for (int64_t k = 0; k < elements(i); k++) {
            assert_true(get(a, mega_params_master(a->params, i), k) == get(b, mega_params_master(b->params, i), k));
            for (int j = 0; j < mega_optimizer_num_moments(a->optimizer); j++)
                assert_true(get(a, mega_optimizer_moment(a->optimizer, j, i), k) ==
                            get(b, mega_optimizer_moment(b->optimizer, j, i), k));
        }
}

/* A refused update, and good ones after it that nobody has allowed yet, change nothing and do not count. */
static void a_refused_update_is_the_last_until_it_is_cleared(void **state)
{
    (void)state;
    for (mega_optimizer_kind kind = 0; kind < MEGA_OPTIMIZER_KINDS; kind++) {
        if (kind == MEGA_OPTIMIZER_LAMB || kind == MEGA_OPTIMIZER_MUON) continue; /* device_test_update has them */
        const settings s = {.kind = kind, .compute = kind % 2 == 0 ? MEGA_F32 : MEGA_F64, .tp = 1, .dp = 1};
        rank r, undisturbed;
        rank_open(&r, &s, 0, 0, MEGA_TIE_NONE);
        rank_open(&undisturbed, &s, 0, 0, MEGA_TIE_NONE);
        fill(&r, true, 0);
        fill(&undisturbed, true, 0);
        for (int step = 1; step <= STEPS; step++) {
            fill(&r, false, step);
            fill(&undisturbed, false, step);
            need(update(&r, 0.05, 0.3, 1));
            need(update(&undisturbed, 0.05, 0.3, 1));
            assert_int_equal(mega_update_step_block(r.update)->update, step);
            for (int i = 0; i < 3; i++) {
                fill(&r, false, step + i);
                if (i == 0) put(&r, mega_params_grad(r.params, 4), 0, INFINITY);
                need(update(&r, 0.05, 0.3, 1));
                assert_int_equal(mega_update_step_block(r.update)->verdict, MEGA_UPDATE_GRADIENT_IS_NOT_FINITE);
                assert_int_equal(mega_optimizer_updates(r.optimizer), step);
            }
            mega_update_clear(r.update);
            same_elements(&r, &undisturbed);
        }
        rank_close(&r);
        rank_close(&undisturbed);
    }
}

static void options_are_checked(void **state)
{
    (void)state;
    static const struct {
        mega_optimizer_options o;
        const char *said;
    } wrong[] = {
        {{.kind = MEGA_OPTIMIZER_KINDS}, "expected a value of mega_optimizer_kind"},
        {{.beta1 = NAN}, "optimizer.beta1 nan"},
        {{.beta1 = 1}, "optimizer.beta1 1"},
        {{.beta2 = -0.5}, "optimizer.beta2 -0.5"},
        {{.eps = -1}, "optimizer.eps -1"},
        {{.eps = INFINITY}, "optimizer.eps inf"},
        {{.kind = MEGA_OPTIMIZER_SGD, .momentum = NAN}, "optimizer.momentum nan"},
        {{.kind = MEGA_OPTIMIZER_LAMB}, "optimizer.min_coeff 0, max_coeff 0"},
        {{.kind = MEGA_OPTIMIZER_LAMB, .min_coeff = 2, .max_coeff = 1}, "optimizer.min_coeff 2, max_coeff 1"},
        {{.kind = MEGA_OPTIMIZER_MUON}, "optimizer.muon_steps 0"},
        {{.kind = MEGA_OPTIMIZER_MUON, .muon_steps = 100}, "optimizer.muon_steps 100"},
        {{.kind = MEGA_OPTIMIZER_MUON, .muon_steps = 1, .muon_momentum = 1}, "optimizer.muon_momentum 1"},
        {{.kind = MEGA_OPTIMIZER_MUON, .muon_steps = 1, .muon_scale = (mega_muon_scale)3}, "muon_scale 3"},
        {{.kind = MEGA_OPTIMIZER_MUON, .muon_steps = 1, .adam_lr = -1}, "adam_lr -1"},
    };
    const settings s = {.tp = 1, .dp = 1};
    rank r;
    rank_open(&r, &s, 0, 0, MEGA_TIE_NONE);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mega_optimizer *o = NULL;
        mega_error_clear();
        const mega_status st = mega_optimizer_create(r.params, &r.layout, &wrong[i].o, &o);
        if (st != MEGA_ERR_USAGE || o != NULL || strstr(mega_error_message(), wrong[i].said) == NULL)
            fail_msg("expected \"%s\": %s, \"%s\"", wrong[i].said, mega_status_name(st), mega_error_message());
    }
    assert_int_equal(update(&r, NAN, 0, 1), MEGA_ERR_USAGE);
    assert_int_equal(update(&r, -0.1, 0, 1), MEGA_ERR_USAGE);
    assert_int_equal(update(&r, 1, INFINITY, 1), MEGA_ERR_USAGE);
    assert_int_equal(update(&r, 1, 0, NAN), MEGA_ERR_USAGE);
    assert_int_equal(mega_optimizer_updates(r.optimizer), 0);
    rank_close(&r);
}

/* What the rules of options know of optimizers is what the table says. */
static void rules_know_the_table(void **state)
{
    (void)state;
    for (mega_optimizer_kind kind = 0; kind < MEGA_OPTIMIZER_KINDS; kind++) {
        if (mega_optimizer_kind_compresses(kind) != (optimizer_builtin_of(kind)->momentum != MEGA_KERNEL_NONE))
            fail_msg("%s: mega_optimizer_kind_compresses (options.c) is not what its row in optimizer_table.c says",
                     mega_optimizer_kind_name(kind));
    }
}

/* The names are in an array, which the compiler does not compare with the kinds. */
static void every_instruction_has_a_name(void **state)
{
    (void)state;
    for (update_kind kind = 0; kind < UPDATE_KINDS; kind++)
        if (update_kind_name(kind) == NULL) fail_msg("update_print.c: no name for instruction %d", (int)kind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_together_make_the_update_of_one),
        cmocka_unit_test(a_tied_copy_counts_once),
        cmocka_unit_test(clip_factor),
        cmocka_unit_test(zeroes_what_is_not_skipped),
        cmocka_unit_test(finds_what_is_not_finite),
        cmocka_unit_test(a_refused_update_is_the_last_until_it_is_cleared),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(rules_know_the_table),
        cmocka_unit_test(every_instruction_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
