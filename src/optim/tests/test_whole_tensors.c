/* Tests the parts of Lamb and Muon: which tensors there are, how matrices are dealt to ranks, the Newton-Schulz
 * iteration on all shapes, Lamb's trust ratio where a norm is 0, and the states that a parameter has. tests/golden
 * compares whole updates with PyTorch and formulas, tests/ranks layouts with one rank. */
#include "kit.h"
#include "megalith/memory.h"
#include "megalith/update.h"
#include "muon.h"
#include "whole_tensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

enum { PARAMS = 6 };

static void set_name(mega_param *p, const char *name)
{
    snprintf(p->name, sizeof p->name, "%s", name);
}

/* A table, Q, K, V in one tensor of the file, gate and up in two, a bias, a frozen matrix, a matrix cut by columns. */
static mega_params *open_params(const mega_layout *layout)
{
    mega_params *params;
    need(mega_params_create(layout, &params));
    for (int i = 0; i < PARAMS; i++) {
        static const int64_t rows[PARAMS] = {8, 12, 16, 12, 4, 4}, cols[PARAMS] = {4, 4, 4, 1, 4, 16};
        static const char *const names[PARAMS] = {"wte", "qkv", "mlp", "qkv.bias", "still", "down"};
        mega_param p = {.num_dims = i == 3 ? 1 : 2,
                        .shape = {rows[i], cols[i]},
                        .true_shape = {rows[i], cols[i]},
                        .axis = MEGA_AXIS_TP,
                        .cut_dim = i == 5,
                        .weight_decay = true,
                        .is_frozen = i == 4};
        set_name(&p, names[i]);
        mega_param_set_blocks(&p, i == 1 || i == 3 ? 3 : 1);
        if (i == 2) {
            p.num_parts = 2;
            p.part[0] = (mega_param_part){.file = "gate", .rows = 8};
            p.part[1] = (mega_param_part){.file = "up", .rows = 8};
        }
        need(mega_params_add(params, &p, NULL));
    }
    mega_params_note_table(params, 0);
    need(mega_params_place(params, MEGA_F32, 0));
    return params;
}

static void tensors_of_parameters(void **state)
{
    static const struct {
        bool splits;
        int count, tensors_of[PARAMS]; /* 0: it is not trained */
    } cases[] = {{false, 6, {1, 1, 2, 1, 0, 1}}, {true, 8, {1, 3, 2, 1, 0, 1}}};
    mega_layout *alone;
    (void)state;
    need(mega_layout_create(NULL, NULL, &alone));
    mega_layout layout = *alone;
    layout.tp = (mega_axis){1, 2, alone->tp.comm};
    mega_params *params = open_params(&layout);
    for (size_t c = 0; c < COUNT_OF(cases); c++) {
        whole_tensor list[16];
        int found[PARAMS] = {0};
        int64_t next[PARAMS] = {0};
        const int count = whole_tensors_list(params, cases[c].splits, list, NULL);
        assert_int_equal(whole_tensors_list(params, cases[c].splits, NULL, NULL), count);
        assert_int_equal(count, cases[c].count);
        for (int i = 0; i < count; i++) {
            const whole_tensor *t = &list[i];
            const mega_param *p = mega_params_get(params, t->param);
            found[t->param]++;
            assert_int_equal(t->first, next[t->param]); /* one after the other, without holes */
            next[t->param] += t->rows * t->cols;
            assert_int_equal(t->is_matrix, t->param == 1 || t->param == 2 || t->param == 5);
            assert_int_equal(t->whole[0] * t->whole[1], 2 * t->rows * t->cols);
            assert_int_equal(whole_tensors_range(params, t).first, p->offset + t->first);
        }
        for (int i = 0; i < PARAMS; i++) {
            assert_int_equal(found[i], cases[c].tensors_of[i]);
            assert_int_equal(next[i], found[i] > 0 ? mega_params_get(params, i)->count : 0);
        }
    }
    mega_params_destroy(params);
    mega_layout_destroy(alone);
}

/* Q, and K with V, are parameters of their own that share a tensor of the file: Lamb takes their norm together. */
static void parameters_share_a_stored_tensor(void **state)
{
    mega_layout *layout;
    mega_params *params;
    whole_tensor list[4];
    (void)state;
    need(mega_layout_create(NULL, NULL, &layout));
    need(mega_params_create(layout, &params));
    for (int i = 0; i < 2; i++) {
        mega_param p = {.num_dims = 2, .shape = {i == 0 ? 8 : 4, 4}, .true_shape = {i == 0 ? 8 : 4, 4}};
        set_name(&p, i == 0 ? "q" : "kv");
        p.num_parts = i + 1;
        for (int k = 0; k <= i; k++)
            p.part[k] = (mega_param_part){
                .file = "c_attn", .rows = i == 0 ? 8 : 2, .first = i == 0 ? 0 : 8 + 2 * k, .of_rows = 12};
        need(mega_params_add(params, &p, NULL));
    }
    need(mega_params_place(params, MEGA_F32, 0));
    assert_int_equal(whole_tensors_list(params, false, list, NULL), 2);
    assert_int_equal(list[0].stored, 0);
    assert_int_equal(list[1].stored, 0);
    assert_string_equal(whole_tensors_name(params, &list[1]), "c_attn");
    mega_params_destroy(params);
    mega_layout_destroy(layout);
}

static void matrices_are_dealt_evenly(void **state)
{
    enum { COUNT = 50 };
    static const int ranks[] = {1, 2, 3, 7, 64};
    (void)state;
    for (size_t c = 0; c < COUNT_OF(ranks); c++) {
        whole_tensor list[COUNT] = {{0}};
        double work[64] = {0}, all = 0, most = 0;
        int held[64][2 * COUNT] = {{0}} /* rounds begin with 7 */;
        const mega_axis axis = {.size = ranks[c]};
        tensor_group group = {.axis = &axis, .end = COUNT, .first_round = 7};
        for (int i = 0; i < COUNT; i++) {
            list[i].is_matrix = i % 5 != 0;
            list[i].flops = 1 + i % 4;
        }
        need(whole_tensors_deal(list, &group));
        for (int i = 0; i < COUNT; i++) {
            if (!list[i].is_matrix) continue;
            assert_in_range(list[i].owner, 0, ranks[c] - 1);
            assert_in_range(list[i].round, 7, group.end_round - 1);
            assert_int_equal(held[list[i].owner][list[i].round]++, 0); /* one matrix in a round */
            work[list[i].owner] += list[i].flops;
            all += list[i].flops;
        }
        for (int r = 0; r < ranks[c]; r++) most = fmax(most, work[r]);
        assert_true(most <= all / ranks[c] + 4); /* no rank has more than the mean by more than one matrix */
    }
}

/* Tensors of experts that ep divides follow all others, and are dealt to edp in rounds of their own. */
static void experts_follow_all_others(void **state)
{
    mega_layout *alone;
    mega_params *params;
    whole_tensor list[4];
    const int params_in_order[] = {1, 3, 0, 2}, owners[] = {9, 9, 0, 1};
    int first;
    (void)state;
    need(mega_layout_create(NULL, NULL, &alone));
    mega_layout layout = *alone;
    layout.ep = (mega_axis){1, 2, alone->ep.comm};
    need(mega_params_create(&layout, &params));
    for (int i = 0; i < 4; i++) {
        mega_param p = {.num_dims = 2, .shape = {4, 4}, .true_shape = {4, 4}, .held_by = i % 2 == 0 ? 2 : 0};
        const char name[] = {(char)('a' + i), 0};
        set_name(&p, name);
        need(mega_params_add(params, &p, NULL));
    }
    need(mega_params_place(params, MEGA_F32, 0));
    assert_int_equal(whole_tensors_list(params, false, list, &first), 4);
    assert_int_equal(first, 2);
    for (int i = 0; i < 4; i++) assert_int_equal(list[i].param, params_in_order[i]);
    const mega_axis edp = {.size = 2};
    tensor_group experts = {.axis = &edp, .first = first, .end = 4, .first_round = 5};
    list[0].owner = list[1].owner = 9;
    need(whole_tensors_deal(list, &experts));
    assert_int_equal(experts.end_round, 6);
    for (int i = 0; i < 4; i++) assert_int_equal(list[i].owner, owners[i]);
    mega_params_destroy(params);
    mega_layout_destroy(alone);
}

/* ---- the iteration ---- */

static double entry(int64_t i, int64_t j)
{
    return sin(1.3 * (double)i + 0.7 * (double)(j * j % 101)) + (i == j);
}

/* The same by its formula, with X = in / |in| and X = a X + (b XX' + c (XX')^2) X, for simple coefficients. */
static void by_formula(double *x, int64_t rows, int64_t cols, int steps)
{
    static double gram[200 * 200], square[200 * 200], next[200 * 200];
    double norm = 0;
    for (int64_t i = 0; i < rows * cols; i++) norm += x[i] * x[i];
    for (int64_t i = 0; i < rows * cols; i++) x[i] /= sqrt(norm);
    for (int step = 0; step < steps; step++) {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < rows; j++) {
                gram[i * rows + j] = 0;
                for (int64_t k = 0; k < cols; k++) gram[i * rows + j] += x[i * cols + k] * x[j * cols + k];
            }
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < rows; j++) {
                double sum = 0;
                for (int64_t k = 0; k < rows; k++) sum += gram[i * rows + k] * gram[k * rows + j];
                square[i * rows + j] = -4.7750 * gram[i * rows + j] + 2.0315 * sum;
            }
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++) {
                double sum = 3.4445 * x[i * cols + j];
                for (int64_t k = 0; k < rows; k++) sum += square[i * rows + k] * x[k * cols + j];
                next[i * cols + j] = sum;
            }
        memcpy(x, next, (size_t)(rows * cols) * sizeof *x);
    }
}

static void iterate(mega_dtype acc, int64_t rows, int64_t cols, int threads)
{
    static double expected[200 * 200];
    const bool is_double = acc == MEGA_F64;
    mega_team *team;
    need(mega_team_create(threads, &team));
    newton_schulz n = newton_schulz_of(&(whole_tensor){.rows = rows, .cols = cols}, NULL, acc);
    n.queue.team = team;
    n.steps = 5;
    const size_t bytes = newton_schulz_scratch(&n);
    void *scratch = NULL;
    need(mega_pages_alloc(&scratch, bytes, "scratch"));
    n.scratch = scratch;
    void *in = mega_calloc((size_t)(rows * cols), mega_dtype_size(acc));
    assert_non_null(in);
    for (int64_t i = 0; i < rows * cols; i++) {
        expected[i] = entry(i / cols, i % cols);
        if (is_double) ((double *)in)[i] = expected[i];
        else
            ((float *)in)[i] = (float)expected[i];
    }
    by_formula(expected, rows, cols, 5);
    void *out = in; /* in place */
    need(newton_schulz_run(&n, in, &out));
    assert_ptr_equal(out, in);
    double apart = 0, size = 0;
    for (int64_t i = 0; i < rows * cols; i++) {
        const double x = is_double ? ((const double *)in)[i] : (double)((const float *)in)[i];
        apart += (x - expected[i]) * (x - expected[i]);
        size += expected[i] * expected[i];
    }
    if (!(sqrt(apart / size) < (is_double ? 1e-12 : 1e-4)))
        fail_msg("%lld x %lld in %s: %.3g apart", (long long)rows, (long long)cols, mega_dtype_name(acc),
                 sqrt(apart / size));
    mega_free(in);
    mega_pages_free(scratch, bytes);
    mega_team_destroy(team);
}

static void iteration_agrees_with_its_formula(void **state)
{
    static const int64_t shapes[][2] = {{1, 1}, {1, 7}, {5, 3}, {3, 5}, {24, 24}, {33, 70}, {70, 33}, {130, 150}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        if (shapes[i][0] * shapes[i][1] < 3000) iterate(MEGA_F64, shapes[i][0], shapes[i][1], 1);
        iterate(MEGA_F32, shapes[i][0], shapes[i][1], i % 2 == 0 ? 1 : 2);
    }
}

/* All coefficients bring the singular values of an ill-conditioned matrix near 1; a matrix of zeros stays one. */
static void singular_values_become_one(void **state)
{
    enum { SIZE = 4 };
    static const int steps[] = {8, 5, 8, 5}; /* for each kind of coefficients, as many as there are or more */
    (void)state;
    for (mega_muon_coefficients kind = MEGA_MUON_SIMPLE; kind <= MEGA_MUON_CANS; kind++) {
        double x[SIZE * SIZE] = {0}, zero[SIZE * SIZE] = {0};
        _Alignas(64) char scratch[4096];
        newton_schulz n = newton_schulz_of(&(whole_tensor){.rows = SIZE, .cols = SIZE}, NULL, MEGA_F64);
        n.steps = steps[kind];
        n.coefficients = kind;
        n.scratch = scratch;
        assert_true(newton_schulz_scratch(&n) <= sizeof scratch);
        for (int i = 0; i < SIZE; i++) x[i * SIZE + i] = pow(0.3, i);
        void *out = x;
        need(newton_schulz_run(&n, x, &out));
        for (int i = 0; i < SIZE; i++)
            for (int j = 0; j < SIZE; j++)
                if (!(fabs(x[i * SIZE + j] - (i == j)) < (i == j ? 0.35 : 1e-9)))
                    fail_msg("coefficients %d: element %d, %d is %g", (int)kind, i, j, x[i * SIZE + j]);
        out = zero;
        need(newton_schulz_run(&n, zero, &out));
        for (int i = 0; i < SIZE * SIZE; i++) assert_true(zero[i] == 0);
    }
}

/* A long matrix takes several steps on its Gram matrix alone, where rounding errors grow. For singular values down to
 * 1e-4 of the largest, fp32 stays near float64. */
static void long_matrices_keep_small_singular_values(void **state)
{
    enum { ROWS = 5, COLS = 40 };
    (void)state;
    for (mega_muon_coefficients kind = MEGA_MUON_SIMPLE; kind <= MEGA_MUON_CANS; kind++) {
        double x[ROWS * COLS];
        float narrow[ROWS * COLS];
        _Alignas(64) char scratch[1 << 16];
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLS; j++) {
                x[i * COLS + j] = pow(0.1, i) * (entry(i, j) + (i == j));
                narrow[i * COLS + j] = (float)x[i * COLS + j];
            }
        for (int is_double = 0; is_double < 2; is_double++) {
            newton_schulz n =
                newton_schulz_of(&(whole_tensor){.rows = ROWS, .cols = COLS}, NULL, is_double ? MEGA_F64 : MEGA_F32);
            n.steps = 9;
            n.coefficients = kind;
            n.scratch = scratch;
            assert_true(newton_schulz_scratch(&n) <= sizeof scratch);
            void *out = is_double ? (void *)x : (void *)narrow;
            need(newton_schulz_run(&n, out, &out));
        }
        for (int i = 0; i < ROWS * COLS; i++)
            if (!(fabs(x[i] - (double)narrow[i]) < 0.01))
                fail_msg("coefficients %d: element %d is %g in fp32 and %g in f64", (int)kind, i, (double)narrow[i],
                         x[i]);
    }
}

static void scales(void **state)
{
    (void)state;
    assert_true(fabs(muon_scale(MEGA_MUON_SPECTRAL, 9, 4) - 3) < 1e-15);
    assert_true(fabs(muon_scale(MEGA_MUON_SPECTRAL, 4, 9) - 3) < 1e-15);
    assert_true(fabs(muon_scale(MEGA_MUON_UNIT_RMS_NORM, 4, 16) - 0.5) < 1e-15);
    assert_true(fabs(muon_scale(MEGA_MUON_SHAPE_SCALING, 16, 4) - 2) < 1e-15);
    assert_true(muon_scale(MEGA_MUON_SHAPE_SCALING, 4, 16) == 1);
}

/* ---- the optimizers ---- */

typedef struct fixture {
    mega_layout *layout;
    mega_params *params;
    mega_optimizer *optimizer;
    mega_update *update;
    void *scratch;
    size_t bytes;
} fixture;

static void fixture_open(fixture *f, const mega_optimizer_options *o)
{
    need(mega_layout_create(NULL, NULL, &f->layout));
    f->params = open_params(f->layout);
    need(mega_params_allocate(f->params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    need(mega_optimizer_create(f->params, f->layout, o, &f->optimizer));
    need(mega_optimizer_allocate(f->optimizer));
    need(mega_update_create(f->optimizer, &(mega_update_options){0}, &f->update));
    f->bytes = mega_update_scratch_bytes(f->update);
    f->scratch = NULL;
    if (f->bytes > 0) need(mega_pages_alloc(&f->scratch, f->bytes, "scratch"));
    mega_update_allocate(f->update, f->scratch);
}

static void fixture_close(fixture *f)
{
    mega_update_destroy(f->update);
    mega_optimizer_destroy(f->optimizer);
    mega_params_destroy(f->params);
    mega_layout_destroy(f->layout);
    if (f->scratch != NULL) mega_pages_free(f->scratch, f->bytes);
}

static void step(fixture *f, double lr)
{
    *mega_update_step_block(f->update) = (mega_update_step){.correction = 1, .lr = lr};
    need(mega_update_run(f->update, MEGA_UPDATE_APPLY));
}

/* A tensor of zeros, or one whose step is 0, has ratio 1: Lamb is then Adam without its correction. */
static void lamb_without_a_norm(void **state)
{
    const mega_optimizer_options o = {.kind = MEGA_OPTIMIZER_LAMB,
                                      .beta1 = 0.5,
                                      .beta2 = 0.5,
                                      .eps = 1e-8,
                                      .max_coeff = 4,
                                      .min_coeff = 2,
                                      .no_bias_correction = true};
    fixture f;
    (void)state;
    fixture_open(&f, &o);
    float *zeros = mega_params_master(f.params, 0), *still = mega_params_master(f.params, 2);
    still[0] = 1;
    ((float *)mega_params_grad(f.params, 0))[3] = 1;
    float *biases = mega_params_master(f.params, 3);
    biases[1] = 0.125F; /* |p| / |step| is 0.125 / sqrt(0.5): below the smallest ratio */
    ((float *)mega_params_grad(f.params, 3))[1] = 2;
    step(&f, 0.5);
    assert_true(fabs((double)zeros[3] + 0.5 * 0.5 / sqrt(0.5)) < 1e-6);
    assert_true(still[0] == 1);
    assert_true(fabs((double)biases[1] - (0.125 - 0.5 * 2 * 1 / sqrt(2))) < 1e-6);
    fixture_close(&f);
}

static void muons_states(void **state)
{
    const mega_optimizer_options o = {.kind = MEGA_OPTIMIZER_MUON, .eps = 1e-8, .muon_steps = 5, .muon_split = true};
    fixture f;
    (void)state;
    fixture_open(&f, &o);
    assert_int_equal(mega_optimizer_num_moments(f.optimizer), 3);
    size_t elements = 0;
    for (int i = 0; i < PARAMS; i++)
        for (int m = 0; m < 3; m++) {
            const mega_param *p = mega_params_get(f.params, i);
            const bool is_matrix = i == 1 || i == 2 || i == 5, has = i != 4 && is_matrix == (m == 0);
            assert_int_equal(mega_optimizer_has_moment(f.optimizer, m, p), has);
            assert_int_equal(mega_optimizer_moment(f.optimizer, m, i) != NULL, has);
            if (has) elements += (size_t)p->count;
        }
    /* no memory for second moments of matrices; what is left are gaps between parameters */
    assert_true(mega_optimizer_bytes(f.optimizer) < (elements + 2 * 64) * sizeof(float) + 1024);
    for (int m = 0; m < 3; m++) /* each has its own memory */
        for (int i = 0; i < PARAMS; i++) {
            float *moment = mega_optimizer_moment(f.optimizer, m, i);
            for (int64_t k = 0; moment != NULL && k < mega_params_get(f.params, i)->count; k++) moment[k] += 1;
        }
    for (int m = 0; m < 3; m++)
        for (int i = 0; i < PARAMS; i++) {
            const float *moment = mega_optimizer_moment(f.optimizer, m, i);
            for (int64_t k = 0; moment != NULL && k < mega_params_get(f.params, i)->count; k++)
                assert_true(moment[k] == 1);
        }
    fixture_close(&f);
}

/* Q, K and V are orthogonalized each for itself: a gradient of Q alone moves Q alone, by the scale of its shape. */
static void parts_are_matrices(void **state)
{
    mega_optimizer_options o = {.kind = MEGA_OPTIMIZER_MUON,
                                .eps = 1e-8,
                                .muon_steps = 5,
                                .muon_split = true,
                                .muon_scale = MEGA_MUON_SPECTRAL,
                                .muon_extra_scale = 0.5,
                                .muon_lr = 2};
    (void)state;
    for (int split = 0; split < 2; split++) {
        fixture f;
        double square = 0;
        o.muon_split = split;
        fixture_open(&f, &o);
        float *gradient = mega_params_grad(f.params, 1);
        const float *weight = mega_params_master(f.params, 1);
        for (int i = 0; i < 4; i++) gradient[5 * i] = 1e-3F; /* Q = 0.001 I: all singular values are alike */
        step(&f, 1);
        for (int i = 0; i < 48; i++) {
            square += (double)weight[i] * (double)weight[i];
            if (i >= 16 || i % 5 != 0) assert_true(weight[i] == 0);
        }
        const double scale = sqrt(split ? 4 : 12) * 0.5 * 2, each = sqrt(square / 4) / scale;
        assert_true(each > 0.65 && each < 1.25);
        fixture_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_parameters),
        cmocka_unit_test(parameters_share_a_stored_tensor),
        cmocka_unit_test(matrices_are_dealt_evenly),
        cmocka_unit_test(experts_follow_all_others),
        cmocka_unit_test(iteration_agrees_with_its_formula),
        cmocka_unit_test(singular_values_become_one),
        cmocka_unit_test(long_matrices_keep_small_singular_values),
        cmocka_unit_test(scales),
        cmocka_unit_test(lamb_without_a_norm),
        cmocka_unit_test(muons_states),
        cmocka_unit_test(parts_are_matrices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
