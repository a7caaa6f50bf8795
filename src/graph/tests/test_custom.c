/* Custom ops: what the caller's function sees, how its failure ends a run, and which ops are rejected. test_ops.c
 * compares their gradients with finite differences. */
#include "kit.h"
#include "megalith/builder.h"
#include "megalith/program.h"

#include <stdatomic.h>
#include <string.h>

enum { B = 2, S = 3, T = B * S, C = 4, THREADS = 3 };

/* y = 2 x + w, where w is a vector with one element per row. */
typedef struct twice {
    mega_dtype seen;
    int fails; /* 1: fails in its forward, 2: in its backward; on every thread */
    atomic_int calls;
} twice;

static void twice_shape(const void *self, const int64_t *rows_in, const int64_t *channels_in, int64_t *out_rows,
                        int64_t *out_channels)
{
    (void)self;
    out_rows[0] = rows_in[0];
    out_channels[0] = channels_in[0];
}

static mega_status twice_forward(const void *self, const mega_custom_call *c)
{
    twice *t = (twice *)(uintptr_t)self;
    assert_true(c->dtype == t->seen && c->num_threads == THREADS && c->num_in == 2 && c->num_out == 1);
    assert_true(c->rows[0] == T && c->channels[0] == C && c->rows[1] == T && c->channels[1] == 1 && c->rows[2] == T);
    assert_null(c->d_out);
    assert_null(c->d_in);
    atomic_fetch_add(&t->calls, 1);
    if (t->fails == 1) return MEGA_FAIL(MEGA_ERR_FORMAT, "thread %d is out of numbers", c->thread);
    int64_t begin, end;
    mega_team_share(T * C, 1, c->thread, c->num_threads, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        if (c->dtype == MEGA_F64)
            ((double *)c->out[0])[i] = 2 * ((const double *)c->in[0])[i] + ((const double *)c->in[1])[i / C];
        else
            ((float *)c->out[0])[i] = 2 * ((const float *)c->in[0])[i] + ((const float *)c->in[1])[i / C];
    return MEGA_OK;
}

static mega_status twice_backward(const void *self, const mega_custom_call *c)
{
    const twice *t = self;
    int64_t begin, end;
    if (t->fails == 2) return MEGA_FAIL(MEGA_ERR_FORMAT, "thread %d lost its way", c->thread);
    assert_null(c->d_in[1]); /* weights are an input without a gradient */
    assert_non_null(c->out[0]);
    mega_team_share(T * C, 1, c->thread, c->num_threads, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        if (c->dtype == MEGA_F64) ((double *)c->d_in[0])[i] = 2 * ((const double *)c->d_out[0])[i];
        else
            ((float *)c->d_in[0])[i] = 2 * ((const float *)c->d_out[0])[i];
    return MEGA_OK;
}

static const mega_custom_op twice_op = {.name = "twice",
                                        .num_in = 2,
                                        .num_out = 1,
                                        .shape = twice_shape,
                                        .forward = twice_forward,
                                        .backward = twice_backward};

typedef struct bench {
    mega_layout *layout;
    mega_params *params;
    mega_team *team;
    mega_program *program;
    mega_builder b;
    mega_tensor x, weights;
} bench;

static void begin_bench(bench *k, mega_dtype dtype)
{
    *k = (bench){.program = NULL};
    need(mega_layout_create(NULL, NULL, &k->layout));
    need(mega_params_create(k->layout, &k->params));
    need(mega_team_create(THREADS, &k->team));
    k->b = (mega_builder){.layout = k->layout, .samples = B, .positions = S, .path = "m"};
    need(mega_graph_create(dtype, k->params, k->layout, &k->b.graph));
    k->x = mega_builder_param(&k->b, "table", T, C, &(mega_param_options){.init = MEGA_INIT_ONE});
    k->weights = mega_input(&k->b, "weights", MEGA_F32, S, 0);
}

static void end_bench(bench *k)
{
    mega_program_destroy(k->program);
    mega_graph_destroy(k->b.graph);
    mega_params_destroy(k->params);
    mega_team_destroy(k->team);
    mega_layout_destroy(k->layout);
}

static mega_status build(bench *k, mega_dtype dtype)
{
    const mega_program_options o = {.backend = dtype == MEGA_F64 ? MEGA_BACKEND_PLAIN : MEGA_BACKEND_CPU,
                                    .team = k->team,
                                    .differentiate = true,
                                    .name = "custom"};
    mega_graph *g = k->b.graph;
    k->b.graph = NULL;
    need(mega_params_place(k->params, dtype, 0));
    need(mega_params_allocate(k->params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    need(mega_params_initialize(k->params, 6));
    return mega_program_build(g, &o, &k->program);
}

/* Describes a model whose loss is the sum of 2 x + w, where x is a parameter of ones. */
static void describe(bench *k, const twice *self)
{
    mega_tensor h[2] = {k->x, k->weights}; /* the output overwrites the first element of the input array */
    mega_custom(&k->b, &twice_op, self, h, h);
    mega_loss_add(&k->b, "sum", mega_op_weighted_sum(k->b.graph, mega_op_row_sum(k->b.graph, h[0]), mega_none()), 1);
}

static double scalar(const bench *k, const void *x)
{
    return mega_program_acc_dtype(k->program) == MEGA_F64 ? *(const double *)x : (double)*(const float *)x;
}

/* In 16 bits the function sees floats; every thread of the team calls it. */
static void every_type_runs_on_every_thread(void **state)
{
    (void)state;
    static const mega_dtype types[] = {MEGA_F32, MEGA_BF16, MEGA_F64};
    for (int i = 0; i < 3; i++) {
        twice self = {.seen = types[i] == MEGA_F64 ? MEGA_F64 : MEGA_F32};
        mega_program_loss l;
        bench k;
        begin_bench(&k, types[i]);
        describe(&k, &self);
        need(build(&k, types[i]));
        need(mega_program_allocate(k.program));
        mega_program_step_block(k.program)->loss_factor = T;
        memset(mega_params_flat_grad(k.params), 0, mega_params_bytes(k.params, MEGA_PARAMS_GRADS));
        for (int t = 0; t < T; t++) ((float *)mega_program_tensor(k.program, "weights", 0))[t] = (float)t;
        need(mega_program_forward(k.program, 0));
        need(mega_program_backward(k.program, 0));
        assert_true(mega_program_loss_get(k.program, 0, 0, &l));
        assert_true(scalar(&k, l.sum) == T * C * 2 + C * 15);
        assert_int_equal(atomic_load(&self.calls), THREADS);
        const char *d = mega_params_grad(k.params, 0);
        for (int e = 0; e < T * C; e++)
            assert_true(scalar(&k, d + (size_t)e * mega_dtype_size(mega_program_acc_dtype(k.program))) == 2);
        end_bench(&k);
    }
}

/* The error is that of the first thread and names the place, and the program can run again. Instructions after a failed
 * op still run, because other ranks wait for them. */
static void a_failure_ends_with_its_message(void **state)
{
    (void)state;
    twice self = {.seen = MEGA_F32};
    mega_program_loss l;
    bench k;
    begin_bench(&k, MEGA_F32);
    const mega_scope s = mega_scope_enter(k.b.graph, "net");
    describe(&k, &self);
    mega_scope_leave(k.b.graph, s);
    need(build(&k, MEGA_F32));
    need(mega_program_allocate(k.program));
    self.fails = 1;
    need_error(mega_program_forward(k.program, 0), MEGA_ERR_FORMAT,
               "custom op \"twice\" in \"net\", forward: thread 0 is out of numbers");
    assert_true(mega_program_loss_get(k.program, 0, 0, &l));
    assert_true(scalar(&k, l.sum) == 0);
    need(mega_program_backward(k.program, 0));
    self.fails = 2;
    need(mega_program_forward(k.program, 0));
    need_error(mega_program_backward(k.program, 0), MEGA_ERR_FORMAT,
               "custom op \"twice\" in \"net\", backward: thread 0 lost its way");
    self.fails = 0;
    need(mega_program_forward(k.program, 0));
    need(mega_program_backward(k.program, 0));
    assert_true(scalar(&k, l.sum) == T * C * 2);
    end_bench(&k);
}

static void no_shape(const void *self, const int64_t *rows_in, const int64_t *channels_in, int64_t *out_rows,
                     int64_t *out_channels)
{
    (void)self, (void)rows_in, (void)channels_in;
    out_rows[0] = 1;
    out_channels[0] = 0;
}

static void wrong_ops_are_refused(void **state)
{
    (void)state;
    enum { SLABS = 6 };
    mega_custom_op wrong[7] = {twice_op, twice_op, twice_op, twice_op, twice_op, twice_op, twice_op};
    wrong[0].forward = NULL;
    wrong[1].num_in = 4;
    wrong[2].num_in = 3, wrong[2].num_out = 2;
    wrong[3].shape = no_shape;
    wrong[4].num_out = 0;
    static const char *const messages[] = {"custom op \"twice\": the op, its name, shape, forward, in or out is NULL",
                                           "4 inputs and 1 outputs; expected 1 to 3 inputs and 1 output",
                                           "3 inputs and 2 outputs",
                                           "its shape gives output 0 1 rows and 0 channels",
                                           "2 inputs and 0 outputs",
                                           "input 1 is no matrix and no vector of f32",
                                           "with sequence parallelism"};
    for (int i = 0; i < 7; i++) {
        bench k;
        mega_tensor out[2] = {{0}, {0}};
        begin_bench(&k, MEGA_F32);
        mega_tensor in[4] = {k.x, k.weights, k.x, k.x};
        if (i == 5) in[1] = mega_input(&k.b, "ids", MEGA_I32, S, 0);
        k.layout->tp.size = i == SLABS ? 2 : 1;
        if (i == SLABS) mega_graph_set_sequence_parallel(k.b.graph, true);
        mega_custom(&k.b, &wrong[i], NULL, in, out);
        k.layout->tp.size = 1;
        const mega_status st = mega_graph_status(k.b.graph);
        need_error(st, i == 1 || i == 2 || i == 4 ? MEGA_ERR_UNSUPPORTED : MEGA_ERR_USAGE, messages[i]);
        assert_int_equal(out[0].id, 0);
        end_bench(&k);
    }
}

static void an_op_without_a_backward_ends_no_loss(void **state)
{
    (void)state;
    mega_custom_op op = twice_op;
    mega_tensor y;
    bench k;
    op.backward = NULL;
    begin_bench(&k, MEGA_F32);
    mega_custom(&k.b, &op, NULL, (mega_tensor[]){k.x, k.weights}, &y);
    mega_loss_add(&k.b, "sum", mega_op_weighted_sum(k.b.graph, mega_op_row_sum(k.b.graph, y), mega_none()), 1);
    need_error(build(&k, MEGA_F32), MEGA_ERR_UNSUPPORTED, "custom op \"twice\" in \"\" has no backward");
    end_bench(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_runs_on_every_thread),
        cmocka_unit_test(a_failure_ends_with_its_message),
        cmocka_unit_test(wrong_ops_are_refused),
        cmocka_unit_test(an_op_without_a_backward_ends_no_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
