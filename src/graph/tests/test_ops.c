/* Every row of the op table, run in a program: gradients against finite differences in double, fused and unfused, and
 * the plain kernels against the fast ones in f32, bf16 and f16. A row that no case reaches makes the test fail. */
#include "kit.h"
#include "megalith/builder.h"
#include "megalith/memory.h"
#include "program_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op_sketch_body.c"

#include "op_cases_body.c"
#include "route_cases_body.c"

typedef struct op_case {
    const char *name;
    void (*describe)(sketch *k);
    bool has_gradient, has_losses, uses_x, one_rank;
} op_case;

static const op_case cases[] = {
    {"linear", linear, true, false, true, false},
    {"linear_bias", linear_bias, true, false, true, false},
    {"linear_residual", linear_residual, true, false, true, false},
    {"layer_norm", layer_norm, true, false, true, false},
    {"layer_norm_residual", layer_norm_residual, true, false, true, false},
    {"layer_norm_without_bias", layer_norm_without_bias, true, false, true, false},
    {"layer_norm_without_both", layer_norm_without_both, true, false, true, false},
    {"layer_norm_plus_one", layer_norm_plus_one, true, false, true, false},
    {"rms_norm", rms_norm, true, false, true, false},
    {"rms_norm_residual", rms_norm_residual, true, false, true, false},
    {"rms_norm_plus_one", rms_norm_plus_one, true, false, true, false},
    {"rms_norm_without_gain", rms_norm_without_gain, true, false, true, false},
    {"swiglu", swiglu, true, false, true, false},
    {"geglu_gate_second", geglu_gate_second, true, false, true, false},
    {"reglu", reglu, true, false, true, false},
    {"bilinear", bilinear, true, false, true, false},
    {"glu_limited", glu_limited, true, false, true, false},
    {"bias_gelu_tanh", bias_gelu_tanh, true, false, true, false},
    {"gelu_erf", gelu_erf, true, false, true, false},
    {"add", add, true, false, true, false},
    {"bias_residual", bias_residual, true, false, true, false},
    {"bias_dropout_residual", bias_dropout_residual, true, false, true, false},
    {"embedding", embedding, true, false, false, false},
    {"embedding_cut_and_added", embedding_cut_and_added, true, false, true, false},
    {"rows_and_parameters", rows_and_parameters, true, false, true, false},
    {"attention", attention, true, false, false, false},
    {"attention_segments_dropout", attention_segments_dropout, true, false, false, false},
    {"attention_rules", attention_rules, true, false, false, false},
    {"attention_apart", attention_apart, true, false, false, false},
    {"attention_to_source", attention_to_source, true, false, false, false},
    {"attention_biases", attention_biases, true, false, false, false},
    {"attention_sinks", attention_sinks, true, false, false, false},
    {"rms_norm_over", rms_norm_over, true, false, true, false},
    {"rms_norm_over_plus_one", rms_norm_over_plus_one, true, false, true, false},
    {"rope", rope, true, false, false, false},
    {"rope_interleaved", rope_interleaved, true, false, false, false},
    {"head_channels", head_channels, true, false, false, false},
    {"collectives", collectives, true, false, true, false},
    {"head_in_chunks", head_in_chunks, true, true, true, false},
    {"head_per_token", head_per_token, true, true, true, false},
    {"head_of_one_rank", head_of_one_rank, true, true, true, true},
    {"head_with_coefficient", head_with_coefficient, true, true, true, false},
    {"head_of_one_rank_with_coefficient", head_with_coefficient, true, true, true, true},
    {"head_capped_with_bias", head_capped_with_bias, true, true, true, false},
    {"head_of_one_rank_capped", head_capped_with_bias, true, true, true, true},
    {"head_capped_as_metric", head_capped_as_metric, true, true, true, false},
    {"capped_logits", capped_logits, false, false, true, false},
    {"head_as_metric", head_as_metric, true, true, true, false},
    {"head_with_another_weight", head_with_another_weight, true, true, true, true},
    {"two_losses", two_losses, true, true, true, false},
    {"take_rows", take_rows, false, false, true, false},
    {"logits", logits, false, false, true, false},
    {"attention_cached", attention_cached, false, false, false, false},
    {"keep", keep, false, false, true, false},
    {"relu", relu, true, false, true, false},
    {"relu_squared", relu_squared, true, false, true, false},
    {"silu", silu, true, false, true, false},
    {"tanh", tanh_of, true, false, true, false},
    {"sigmoid", sigmoid, true, false, true, false},
    {"mul", mul, true, false, true, false},
    {"scale", scale, true, false, true, false},
    {"mean_rows", mean_rows, true, false, true, false},
    {"first_rows", first_rows, true, false, true, false},
    {"reshape", reshape, true, false, true, false},
    {"reshape_and_rows", reshape_and_rows, true, false, true, false},
    {"row_sum", row_sum, true, false, true, false},
    {"cross_entropy", cross_entropy, true, false, true, false},
    {"label_weights", label_weights, true, false, true, false},
    {"losses_weighted_by_the_model", losses_weighted_by_the_model, true, false, true, false},
    {"custom", custom, true, false, true, false},
    {"squared_error", squared_error, true, false, true, false},
    {"squared_error_of_all_rows", squared_error_of_all_rows, true, false, true, false},
    {"accuracy", accuracy, false, false, true, false},
    {"accuracy_beside_a_loss", accuracy_beside_a_loss, true, false, true, false},
    {"experts", experts, true, false, true, false},
    {"experts_of_one", experts_of_one, true, false, true, false},
    {"experts_outside", experts_outside, true, false, true, false},
    {"experts_from_second", experts_from_second, true, false, true, false},
    {"every_expert", every_expert, true, false, true, false},
    {"experts_in_rounds", experts_in_rounds, true, false, true, false},
    {"route_softmax", route_softmax, true, false, true, false},
    {"route_softmax_normalized", route_softmax_normalized, true, false, true, false},
    {"route_of_chosen", route_of_chosen, true, false, true, false},
    {"route_of_near", route_of_near, true, false, true, false},
    {"route_sigmoid_of_groups", route_sigmoid_of_groups, true, false, true, false},
    {"route_counted", route_counted, true, false, true, false},
    {"route_weights_alone", route_weights_alone, true, false, true, false},
    {"route_jitter", route_jitter, true, false, true, false},
    {"route_balance", route_balance, true, false, true, false},
    {"route_balance_of_sigmoids", route_balance_of_sigmoids, true, false, true, false},
    {"route_capacity", route_capacity, true, false, true, false},
    {"route_by_sinkhorn", route_by_sinkhorn, true, false, true, false},
    {"route_z", route_z, true, false, true, false},
    {"conv2d", conv2d, true, false, false, false},
    {"conv2d_stride", conv2d_stride, true, false, false, false},
    {"conv2d_of_a_pixel", conv2d_of_a_pixel, true, false, false, false},
    {"max_pool2d", max_pool2d, true, false, false, false},
    {"mean_pool2d", mean_pool2d, true, false, false, false},
    {"batch_norm", batch_norm, true, false, false, false},
    {"batch_norm_running", batch_norm_running, true, false, false, false},
    {"batch_norm_fixed", batch_norm_fixed, false, false, false, false},
};
#define NUM_CASES (sizeof cases / sizeof *cases)

/* ---- a case as a program ---- */

typedef struct bench {
    const op_case *c;
    sizes s;
    mega_layout *layout, two; /* two: like layout, but tp claims two ranks, so that the head keeps its reductions */
    mega_params *params;
    mega_program *program;
    int32_t kv_length[2];
} bench;

static void declare(mega_params *p, const char *name, int64_t rows, int64_t cols)
{
    mega_param r = {.num_dims = cols == 0 ? 1 : 2,
                    .shape = {rows, cols},
                    .true_shape = {rows, cols},
                    .init = MEGA_INIT_NORMAL,
                    .init_std = 0.5};
    snprintf(r.name, sizeof r.name, "%s", name);
    need(mega_params_add(p, &r, NULL));
}

static void declare_running(mega_params *p, const char *name)
{
    mega_param r = {.num_dims = 1,
                    .shape = {3},
                    .true_shape = {3},
                    .init = MEGA_INIT_ONE,
                    .is_buffer = true,
                    .buffer_momentum = 0.2,
                    .buffer_samples = 1};
    snprintf(r.name, sizeof r.name, "%s", name);
    need(mega_params_add(p, &r, NULL));
}

static void declare_choice_bias(mega_params *p, int64_t experts)
{
    mega_param r = {.name = "choice_bias",
                    .num_dims = 1,
                    .shape = {experts},
                    .true_shape = {experts},
                    .init = MEGA_INIT_ZERO,
                    .is_buffer = true,
                    .buffer_rate = 0.1,
                    .buffer_choices = experts < 3 ? experts : 3};
    need(mega_params_add(p, &r, NULL));
}

static mega_params *make_params(const mega_layout *layout, sizes s, mega_dtype dtype)
{
    mega_params *p = NULL;
    need(mega_params_create(layout, &p));
    declare(p, "gain", s.C, 0);
    declare(p, "bias", s.C, 0);
    declare(p, "weight", s.N, s.C);
    declare(p, "bias_n", s.N, 0);
    declare(p, "table", s.V, s.C);
    declare(p, "weight_two", 2 * s.N, s.C);
    declare(p, "bias_v", s.V, 0);
    declare(p, "experts", 5 * s.N, s.C);
    declare(p, "expert_bias", 5, s.N);
    declare(p, "relative", 6, s.C % 4 == 0 ? 4 : 1); /* buckets of each head */
    declare(p, "sinks", s.C % 4 == 0 ? 4 : 1, 0);
    declare(p, "filter", 5, 9 * 3);
    declare(p, "filter_of_a_pixel", 5, 3);
    declare(p, "filter_bias", 5, 0);
    declare(p, "channel_gain", 3, 0);
    declare(p, "channel_bias", 3, 0);
    declare_running(p, "running_mean");
    declare_running(p, "running_var");
    declare_choice_bias(p, s.C);
    need(mega_params_place(p, dtype, 0));
    need(mega_params_allocate(p, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    need(mega_params_initialize(p, 17));
    return p;
}

static bench *bench_make(const op_case *c, sizes s, mega_dtype dtype, mega_backend_kind backend, bool no_fusion)
{
    bench *b = calloc(1, sizeof *b);
    *b = (bench){.c = c, .s = s};
    need(mega_layout_create(NULL, NULL, &b->layout));
    b->two = *b->layout;
    b->two.tp.size = 2;
    b->params = make_params(b->layout, s, dtype);
    sketch k = {.s = s, .two = b->two.tp, .one_rank = c->one_rank};
    need(mega_graph_create(dtype, b->params, c->one_rank ? b->layout : &b->two, &k.g));
    if (c->uses_x) {
        k.x = input_2d(&k, "x", dtype, s.T, s.C);
        if (c->has_gradient) mega_graph_want_gradient(k.g, k.x, "d_x");
    }
    k.sample_id = input_1d(&k, "sample_id", MEGA_I32, s.T);
    k.seq_position = input_1d(&k, "seq_position", MEGA_I32, s.T);
    const mega_scope scope = mega_scope_enter(k.g, "%s", c->name);
    c->describe(&k);
    mega_scope_leave(k.g, scope);
    const mega_program_options o = {.backend = backend,
                                    .differentiate = c->has_gradient,
                                    .no_fusion = no_fusion,
                                    .name = c->name,
                                    .per_token_loss = strcmp(c->name, "head_per_token") == 0};
    need(mega_program_build(k.g, &o, &b->program));
    need(mega_program_allocate(b->program));
    b->kv_length[0] = 5;
    b->kv_length[1] = 2;
    *mega_program_step_block(b->program) =
        (mega_step_block){.seed = 3, .step = 4, .loss_factor = 0.75, .kv_length = b->kv_length};
    return b;
}

static void bench_free(bench *b)
{
    mega_program_destroy(b->program);
    mega_params_destroy(b->params);
    mega_layout_destroy(b->layout);
    free(b);
}

static double get(const void *x, mega_dtype t, int64_t i)
{
    return t == MEGA_F64           ? ((const double *)x)[i]
           : mega_dtype_is_half(t) ? (double)mega_half_to_f32(((const uint16_t *)x)[i], t)
                                   : (double)((const float *)x)[i];
}

static void put(void *x, mega_dtype t, int64_t i, double v)
{
    if (t == MEGA_F64) ((double *)x)[i] = v;
    else if (mega_dtype_is_half(t))
        ((uint16_t *)x)[i] = mega_f32_to_half((float)v, t);
    else
        ((float *)x)[i] = (float)v;
}

static int32_t integer(const bench *b, const char *name, int64_t i, float random)
{
    const double u = 0.5 * ((double)random + 1.0);
    if (strcmp(name, "rows") == 0) return (int32_t)(u * (double)b->s.T);
    if (strcmp(name, "labels") == 0) return (int32_t)(u * (double)(b->s.V - 1)); /* the last column is padding */
    if (strcmp(name, "choice") == 0) return (int32_t)(u * 5.0);
    if (strcmp(name, "choice_of_one") == 0) return 3;
    if (strcmp(name, "choice_outside") == 0) return (int32_t)(u * 7.0) - 1;
    if (strcmp(name, "choice_of_all") == 0) return (int32_t)(i / 5 + i * 2) % 5;
    if (strcmp(name, "firsts") == 0) return (int32_t)(i % 6 * (1 + i / 6)); /* rank r has r + 1 rows for each expert */
    if (strcmp(name, "ids") == 0) return (int32_t)(u * (double)b->s.V);
    if (strcmp(name, "key_begin") == 0) {
        const int64_t seq = b->s.T % 2 == 0 ? b->s.T / 2 : b->s.T;
        return i % seq >= seq / 2 ? (int32_t)(seq / 2) : 0;
    }
    if (strcmp(name, "key_end") == 0) return i == 0 ? 0 : (int32_t)(3 + i / 2 + (int64_t)(2.0 * u)); /* row 0: none */
    return (int32_t)i + 7; /* sample_id, seq_position */
}

static void bench_fill(bench *b)
{
    const mega_graph *g = b->program->g;
    float random[8192];
    for (int n = 0; n < g->names.num_named; n++) {
        const graph_tensor *t = &g->tensor[g->names.named[n].tensor];
        const int64_t count = mega_shape_count(&t->shape);
        if (t->role != ROLE_INPUT && t->role != ROLE_STATE) continue;
        assert_true(count <= 8192);
        mega_kit_random(random, count, 40 + (uint32_t)strlen(t->name) * 7 + (uint32_t)t->name[0]);
        void *x = mega_program_address(b->program, g->names.named[n].tensor, 0);
        for (int64_t i = 0; i < count; i++) {
            if (t->shape.dtype == MEGA_I32) ((int32_t *)x)[i] = integer(b, t->name, i, random[i]);
            else if (strcmp(t->name, "mask") == 0)
                ((float *)x)[i] = i == 0 || random[i] > -0.6f ? 1.0f : 0.0f;
            else
                put(x, t->shape.dtype, i, (double)random[i]);
        }
    }
    memset(mega_params_flat_grad(b->params), 0, mega_params_bytes(b->params, MEGA_PARAMS_GRADS));
}

static int64_t named_count(const bench *b, const char *name)
{
    return mega_shape_count(&b->program->g->tensor[mega_program_find(b->program, name)].shape);
}

/* ---- gradients ---- */

static double loss_of(bench *b)
{
    need(mega_program_forward(b->program, 0));
    if (b->c->has_losses) {
        mega_program_loss l;
        double loss = 0;
        for (int i = 0; mega_program_loss_get(b->program, i, 0, &l); i++)
            loss += 0.75 * l.coefficient * *(const double *)l.sum /
                    (b->program->g->results.per_token_loss ? 1.0 : *(const double *)l.weight);
        return loss;
    }
    const double *y = mega_program_tensor(b->program, "y", 0), *seed = mega_program_tensor(b->program, "seed", 0);
    double sum = 0.0;
    for (int64_t i = 0; i < named_count(b, "y"); i++) sum += y[i] * seed[i];
    return sum;
}

/* Moves x along `direction` both ways and compares the slope with the dot product of gradient and direction. */
static void check_slope(bench *b, const char *what, double *x, const double *gradient, const float *direction,
                        int64_t count)
{
    const double h = 1e-5;
    double loss[2], expected = 0.0, size = 0.0;
    for (int side = 0; side < 2; side++) {
        const double step = side == 0 ? h : -h;
        for (int64_t i = 0; i < count; i++) x[i] += step * (double)direction[i];
        loss[side] = loss_of(b);
        for (int64_t i = 0; i < count; i++) x[i] -= step * (double)direction[i];
    }
    for (int64_t i = 0; i < count; i++) {
        expected += gradient[i] * (double)direction[i];
        size += fabs(gradient[i] * (double)direction[i]);
    }
    const double found = (loss[0] - loss[1]) / (2.0 * h);
    if (!(fabs(found - expected) <= 1e-6 * fmax(1.0, size)))
        fail_msg("%s (%lld x %lld), gradient of %s: slope %.12g, gradient %.12g", b->c->name, (long long)b->s.T,
                 (long long)b->s.C, what, found, expected);
}

/* Checks a random direction, then some single elements. */
static void check_gradient_of(bench *b, const char *what, double *x, const double *gradient, int64_t count)
{
    float *const direction = calloc((size_t)count, sizeof *direction);
    double *const kept = malloc((size_t)count * sizeof *kept);
    memcpy(kept, gradient, (size_t)count * sizeof *kept); /* later runs overwrite it */
    mega_kit_random(direction, count, 23);
    check_slope(b, what, x, kept, direction, count);
    for (int64_t i = 0; i < count; i += count < 12 ? 1 : count / 5) {
        memset(direction, 0, (size_t)count * sizeof *direction);
        direction[i] = 1.0f;
        check_slope(b, what, x, kept, direction, count);
    }
    free(kept);
    free(direction);
}

static void check_gradients(const op_case *c, sizes s, bool no_fusion, bool *reached)
{
    static const char *const wanted[][2] = {{"x", "d_x"},         {"other", "d_other"}, {"qkv", "d_qkv"},
                                            {"image", "d_image"}, {"k", "d_k"},         {"v", "d_v"}};
    bench *b = bench_make(c, s, MEGA_F64, MEGA_BACKEND_PLAIN, no_fusion);
    bench_fill(b);
    need(mega_program_forward(b->program, 0));
    need(mega_program_backward(b->program, 0));
    const size_t bytes = mega_params_bytes(b->params, MEGA_PARAMS_GRADS);
    double *const flat = malloc(bytes);
    memcpy(flat, mega_params_flat_grad(b->params), bytes);
    for (int i = 0; i < mega_params_count(b->params); i++) {
        const mega_param *r = mega_params_get(b->params, i);
        if (!r->is_buffer) check_gradient_of(b, r->name, mega_params_master(b->params, i), flat + r->offset, r->count);
    }
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        double *x = mega_program_tensor(b->program, wanted[i][0], 0);
        const double *d = mega_program_tensor(b->program, wanted[i][1], 0);
        if (d != NULL) check_gradient_of(b, wanted[i][0], x, d, named_count(b, wanted[i][0]));
    }
    for (int i = 0; i < b->program->g->num_ops; i++) reached[b->program->g->op[i].kind] = true;
    free(flat);
    bench_free(b);
}

/* Every row whose result a loss can depend on must have been seen by a finite difference. copy_to_group is only a mark;
 * the program contains the all-reduce that replaces it. Only real ranks shard rows (ranks_test_parity). */
static void gradients_match_finite_differences(void **state)
{
    (void)state;
    bool reached[OP_COUNT] = {false};
    reached[OP_COPY_TO_GROUP] = reached[OP_ALL_GATHER] = reached[OP_REDUCE_SCATTER] = true;
    reached[OP_ALL_TO_ALL] = true;
    reached[OP_OWN_ROWS] = true;                                /* emitted after differentiation */
    const bool is_slow = getenv("MEGA_UNDER_VALGRIND") != NULL; /* one size of each case */
    for (size_t i = 0; i < NUM_CASES; i++)
        for (size_t s = 0; s < sizeof all_sizes / sizeof *all_sizes && cases[i].has_gradient; s++)
            for (int no_fusion = 0; no_fusion < 2; no_fusion++)
                if (!is_slow || (i + s) % (sizeof all_sizes / sizeof *all_sizes) == 0)
                    check_gradients(&cases[i], all_sizes[s], no_fusion == 1, reached);
    for (int k = OP_NONE + 1; k < OP_COUNT; k++)
        if (!reached[k] && !mega_op_is_bucket((op_kind)k) && !only_forward((op_kind)k))
            fail_msg("op %s: no case reaches it", mega_op_table[k]->name);
}

/* ---- plain against fast kernels ---- */

static double distance(const void *a, const void *b, mega_dtype t, int64_t n)
{
    double sum = 0.0, size = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double d = get(a, t, i) - get(b, t, i), r = get(b, t, i);
        sum += d * d;
        size += r * r;
    }
    return size > 0.0 ? sqrt(sum / size) : sqrt(sum);
}

static void expect_near(const bench *b, const char *what, const void *fast, const void *plain, mega_dtype dtype,
                        int64_t n)
{
    /* f32: sums of at most a few hundred terms in another order. bf16: results near a rounding boundary may round the
     * other way, an ulp of 2^-8 on some elements, and the next op reads them. f16 has three more bits. */
    const mega_dtype type = b->program->g->dtype;
    const double tolerance = type == MEGA_F32 ? 2e-5 : type == MEGA_BF16 ? 1e-2 : 1.25e-3;
    const double d = distance(fast, plain, dtype, n);
    if (!(d <= tolerance))
        fail_msg("%s (%lld x %lld) in %s: %s differs by %.3g", b->c->name, (long long)b->s.T, (long long)b->s.C,
                 mega_dtype_name(b->program->g->dtype), what, d);
}

static void compare(const op_case *c, sizes s, mega_dtype dtype, bool *reached)
{
    bench *plain = bench_make(c, s, dtype, MEGA_BACKEND_PLAIN, false);
    bench *fast = bench_make(c, s, dtype, MEGA_BACKEND_CPU, false);
    bench *const both[] = {plain, fast};
    for (int i = 0; i < 2; i++) {
        bench_fill(both[i]);
        need(mega_program_forward(both[i]->program, 0));
        need(mega_program_backward(both[i]->program, 0));
    }
    const mega_graph *g = plain->program->g;
    for (int i = 0; i < g->names.num_named; i++) {
        const graph_tensor *t = &g->tensor[g->names.named[i].tensor];
        const char *name = g->names.named[i].name;
        if (t->shape.dtype != MEGA_I32)
            expect_near(plain, name, mega_program_tensor(fast->program, name, 0),
                        mega_program_tensor(plain->program, name, 0), t->shape.dtype, mega_shape_count(&t->shape));
    }
    for (int i = 0; i < mega_params_count(plain->params); i++)
        expect_near(plain, mega_params_get(plain->params, i)->name, mega_params_grad(fast->params, i),
                    mega_params_grad(plain->params, i), MEGA_F32, mega_params_get(plain->params, i)->count);
    for (int i = 0; i < g->num_ops; i++) reached[g->op[i].kind] = true;
    bench_free(plain);
    bench_free(fast);
}

static void fast_kernels_match_plain_ones(void **state)
{
    (void)state;
    bool reached[OP_COUNT] = {false};
    for (size_t i = 0; i < NUM_CASES; i++)
        for (size_t s = 0; s < sizeof all_sizes / sizeof *all_sizes; s++) {
            /* With one column a normalized value is zero up to rounding, as is the gradient of a query that sees one
             * key, so that a relative error is meaningless. */
            if (all_sizes[s].C == 1 && strstr(cases[i].name, "_norm") != NULL && cases[i].uses_x) continue;
            if (all_sizes[s].T == 1 && strcmp(cases[i].name, "attention_apart") == 0) continue;
            if (all_sizes[s].T <= 2 && strcmp(cases[i].name, "attention_biases") == 0) continue;
            compare(&cases[i], all_sizes[s], MEGA_F32, reached);
            compare(&cases[i], all_sizes[s], MEGA_BF16, reached);
            compare(&cases[i], all_sizes[s], MEGA_F16, reached);
        }
    for (int k = OP_NONE + 1; k < OP_COUNT; k++)
        if (!reached[k] && mega_op_table[k]->kernel != MEGA_KERNEL_NONE)
            fail_msg("op %s: no case compares its kernels", mega_op_table[k]->name);
}

static void every_row_is_complete(void **state)
{
    (void)state;
    for (int k = OP_NONE + 1; k < OP_COUNT; k++) {
        const op_row *row = mega_op_table[k];
        assert_non_null(row);
        assert_non_null(row->name);
        assert_non_null(row->shape);
        assert_true(row->num_in >= 1 && row->num_in <= OP_MAX_IN && row->num_out >= 1 && row->num_out <= OP_MAX_OUT);
        const bool is_collective = mega_op_is_collective((op_kind)k) || k == OP_COPY_TO_GROUP || k == OP_OWN_ROWS ||
                                   mega_op_is_bucket((op_kind)k);
        assert_true(is_collective == (row->bind == NULL && row->members == NULL));
        assert_true((row->kernel == MEGA_KERNEL_NONE && row->host == NULL) == is_collective);
        assert_true(row->optional_in >> row->num_in == 0 && row->optional_out >> row->num_out == 0);
        assert_true(row->accumulates >> row->num_out == 0 && row->overlays >> row->num_in == 0);
        for (int j = OP_NONE + 1; j < k; j++) assert_string_not_equal(row->name, mega_op_table[j]->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_complete),
        cmocka_unit_test(gradients_match_finite_differences),
        cmocka_unit_test(fast_kernels_match_plain_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
