/* Tests training one micro-batch at a time: same bits as mega_engine_train_batch, accumulation boundaries, calls out of
 * order, the gradient between backward and step, and steps that fail. */
#include "api_engine.h"
#include <math.h>
#include <string.h>

enum { TABLE = API_IDS * API_WIDTH };

static void fill(mega_batch *b)
{
    assert_non_null(b);
    for (int64_t i = 0; i < mega_batch_num_samples(b); i++) {
        mega_sample *s = mega_batch_sample(b, i);
        need(api_read(NULL, mega_sample_index(s), s));
    }
}

/* Checks the formula of engine.h: with accumulation, mega_engine_sample counts the earlier micro-batches too. */
static void samples_since_the_last_update(void **state)
{
    mega_engine *e = api_open(NULL, "");
    (void)state;
    for (int64_t n = 0; n < 5; n++) { /* two of them make an update */
        mega_batch *b = mega_engine_micro_batch(e);
        assert_int_equal(mega_engine_sample(e, 0), n % 2);
        assert_int_equal(mega_engine_global_samples(e) + mega_engine_sample(e, 0), n);
        assert_int_equal(mega_sample_index(mega_batch_sample(b, 0)), n);
        fill(b);
        need(mega_engine_forward(e, NULL));
        need(mega_engine_backward(e));
        need(mega_engine_step(e, NULL));
    }
    assert_int_equal(mega_engine_global_samples(e), 4);
    mega_engine_destroy(e);
}

static void the_bits_of_train_batch(void **state)
{
    mega_engine *a = api_open(&api_data, ""), *b = api_open(&api_data, "");
    (void)state;
    for (int step = 0; step < 3; step++) {
        mega_step_result x, y = {.loss = -1};
        double loss[2];
        need(mega_engine_train_batch(a, &x));
        for (int m = 0; m < 2; m++) {
            assert_int_equal(mega_engine_is_accumulation_boundary(b), m == 1);
            need(mega_engine_forward(b, &loss[m]));
            need(mega_engine_backward(b));
            if (m == 0) assert_true(y.loss == -1);
            need(mega_engine_step(b, &y));
            assert_int_equal(mega_engine_was_step_applied(b), m == 1);
            assert_int_equal(mega_engine_micro_steps(b), 2 * step + m + 1);
            assert_int_equal(mega_engine_global_steps(b), step + m);
        }
        if (x.loss != y.loss || x.grad_norm != y.grad_norm || x.lr != y.lr)
            fail_msg("step %d: loss %.17g, norm %.17g; by micro-batches %.17g, %.17g", step, x.loss, x.grad_norm,
                     y.loss, y.grad_norm);
        assert_true(fabs((loss[0] + loss[1]) / 2 - y.loss) < 1e-12);
        assert_int_equal(x.samples, y.samples);
        assert_int_equal(x.micro_batches, y.micro_batches);
    }
    mega_engine_destroy(a);
    mega_engine_destroy(b);
}

static void pass(mega_engine *e)
{
    need(mega_engine_forward(e, NULL));
    need(mega_engine_backward(e));
}

/* A second start gives the same run as the first: nothing of the earlier steps is kept. */
static void a_start_after_steps(void **state)
{
    mega_engine *e = api_open(&api_data, "");
    double first[3];
    mega_step_result r;
    (void)state;
    for (int i = 0; i < 3; i++) {
        need(mega_engine_train_batch(e, &r));
        first[i] = r.loss;
    }
    need(mega_engine_forward(e, NULL));
    need_error(mega_engine_initialize(e, 3), MEGA_ERR_USAGE, "call mega_engine_backward first");
    need(mega_engine_backward(e));
    need(mega_engine_initialize(e, 3));
    assert_int_equal(mega_engine_global_steps(e), 0);
    assert_int_equal(mega_engine_global_samples(e), 0);
    for (int i = 0; i < 3; i++) {
        need(mega_engine_train_batch(e, &r));
        if (r.loss != first[i]) fail_msg("step %d: loss %.17g, %.17g after a new start", i, first[i], r.loss);
    }
    mega_engine_destroy(e);
}

/* Four micro-batches with boundaries set by the caller equal four micro-batches from the settings. */
static void boundaries_of_the_caller(void **state)
{
    mega_engine *a = api_open(&api_data, "--gradient-accumulation-steps 4"), *b = api_open(&api_data, "");
    mega_step_result x, y;
    (void)state;
    for (int step = 0; step < 2; step++) {
        need(mega_engine_train_batch(a, &x));
        for (int m = 0; m < 4; m++) {
            need(mega_engine_set_accumulation_boundary(b, m == 3));
            pass(b);
            need(mega_engine_step(b, &y));
        }
        if (fabs(x.loss - y.loss) > 1e-12 || fabs(x.grad_norm - y.grad_norm) > 1e-12)
            fail_msg("loss %.17g, norm %.17g; of the caller's boundary %.17g, %.17g", x.loss, x.grad_norm, y.loss,
                     y.grad_norm);
        assert_int_equal(y.samples, 4);
        assert_int_equal(mega_engine_global_samples(b), mega_engine_global_samples(a));
    }
    mega_engine_destroy(a);
    mega_engine_destroy(b);
}

static void samples_of_the_caller(void **state)
{
    const mega_dataset in_order = {.count = API_SAMPLES, .read = api_read, .in_order = true};
    mega_engine *a = api_open(&in_order, ""), *b = api_open(NULL, "");
    mega_step_result x, y;
    (void)state;
    assert_null(mega_engine_batch(a));
    assert_null(mega_engine_micro_batch(a));
    need(mega_engine_train_batch(a, &x));
    for (int m = 0; m < 2; m++) {
        fill(mega_engine_micro_batch(b));
        pass(b);
        need(mega_engine_step(b, &y));
    }
    assert_true(x.loss == y.loss && x.grad_norm == y.grad_norm);
    need(mega_engine_train_batch(a, &x));
    fill(mega_engine_batch(b));
    need(mega_engine_train_batch(b, &y));
    assert_true(x.loss == y.loss && x.grad_norm == y.grad_norm);
    mega_engine_destroy(a);
    mega_engine_destroy(b);
}

static void calls_out_of_order(void **state)
{
    mega_engine *e = api_open(&api_data, ""), *same = api_open(&api_data, "");
    mega_step_result r, s;
    mega_loss_sums sums = {0};
    (void)state;
    need_error(mega_engine_backward(e), MEGA_ERR_USAGE, "mega_engine_forward is next");
    need_error(mega_engine_step(e, &r), MEGA_ERR_USAGE, "mega_engine_forward is next");
    need(mega_engine_forward(e, NULL));
    need_error(mega_engine_forward(e, NULL), MEGA_ERR_USAGE, "mega_engine_backward is next");
    need_error(mega_engine_step(e, &r), MEGA_ERR_USAGE, "mega_engine_backward is next");
    need_error(mega_engine_train_batch(e, &r), MEGA_ERR_USAGE, "1 micro-batches of a step");
    need_error(mega_engine_evaluate(e, &api_data, 1, &r), MEGA_ERR_USAGE, "call mega_engine_backward first");
    need_error(mega_engine_evaluate_batch(e, &sums), MEGA_ERR_USAGE, "call mega_engine_backward first");
    need_error(mega_engine_set_accumulation_boundary(e, true), MEGA_ERR_USAGE, "out of order");
    need(mega_engine_backward(e));
    need_error(mega_engine_backward(e), MEGA_ERR_USAGE, "mega_engine_step is next");
    need_error(mega_engine_forward(e, NULL), MEGA_ERR_USAGE, "mega_engine_step is next");
    need(mega_engine_step(e, NULL));
    need_error(mega_engine_train_batch(e, &r), MEGA_ERR_USAGE, "1 micro-batches of a step");
    pass(e);
    need(mega_engine_step(e, &r));
    need(mega_engine_train_batch(same, &s));
    assert_true(r.loss == s.loss && r.grad_norm == s.grad_norm);
    mega_engine_destroy(e);
    mega_engine_destroy(same);
}

static void batches_that_are_not_filled(void **state)
{
    mega_engine *e = api_open(NULL, "");
    mega_step_result r;
    (void)state;
    need_error(mega_engine_forward(e, NULL), MEGA_ERR_USAGE, "are not filled");
    assert_non_null(mega_engine_micro_batch(e));
    need_error(mega_engine_forward(e, NULL), MEGA_ERR_USAGE, "is not filled");
    need_error(mega_engine_train_batch(e, &r), MEGA_ERR_USAGE, "those of one micro-batch");
    fill(mega_engine_batch(e));
    need_error(mega_engine_forward(e, NULL), MEGA_ERR_USAGE, "not those of a micro-batch");
    fill(mega_engine_micro_batch(e));
    need(mega_engine_forward(e, NULL));
    assert_null(mega_engine_micro_batch(e));
    assert_null(mega_engine_batch(e));
    mega_engine_destroy(e);
}

/* Micro-batches of a failed step are discarded. */
static void a_callback_that_fails(void **state)
{
    bool fails = false;
    const mega_dataset data = {.count = API_SAMPLES, .read = api_read, .user = &fails};
    mega_engine *e = api_open(&data, ""), *same = api_open(&api_data, "");
    mega_step_result r, s;
    (void)state;
    fails = true;
    need_error(mega_engine_train_batch(e, &r), MEGA_ERR_IO, "is torn");
    need_error(mega_engine_forward(e, NULL), MEGA_ERR_IO, "is torn");
    fails = false;
    need(mega_engine_train_batch(e, &r));
    need(mega_engine_train_batch(same, &s));
    assert_true(r.loss == s.loss && r.grad_norm == s.grad_norm);
    mega_engine_destroy(e);
    mega_engine_destroy(same);
}

static void a_step_that_is_not_finite(void **state)
{
    static float table[TABLE], kept[TABLE];
    mega_engine *e = api_open(&api_data, ""), *same = api_open(&api_data, "");
    mega_step_result r = {.loss = -1}, s;
    (void)state;
    need(mega_engine_get_param(same, "net.wte.weight", NULL, TABLE, kept));
    memcpy(table, kept, sizeof table);
    for (int i = 0; i < TABLE; i++) table[i] = INFINITY;
    need(mega_engine_set_param(e, "net.wte.weight", NULL, TABLE, table));
    pass(e);
    need(mega_engine_step(e, &r));
    pass(e);
    need_error(mega_engine_step(e, &r), MEGA_ERR_NUMERIC, "iteration 1");
    assert_true(r.loss == -1);
    assert_int_equal(mega_engine_global_steps(e), 0);
    assert_int_equal(mega_engine_micro_steps(e), 0);
    need(mega_engine_set_param(e, "net.wte.weight", NULL, TABLE, kept));
    need(mega_engine_set_param(same, "net.wte.weight", NULL, TABLE, kept)); /* rounded to F32 as well */
    need(mega_engine_train_batch(e, &r));
    need(mega_engine_train_batch(same, &s));
    assert_true(r.loss == s.loss && r.grad_norm == s.grad_norm);
    mega_engine_destroy(e);
    mega_engine_destroy(same);
}

static void gradients_by_name(void **state)
{
    static float gradient[TABLE], again[TABLE], zero[TABLE];
    mega_engine *e = api_open(&api_data, "");
    mega_step_result r;
    double square = 0;
    (void)state;
    need_error(mega_engine_get_param(e, "net.wte.weight", "grad", TABLE, gradient), MEGA_ERR_USAGE, "no gradient now");
    need(mega_engine_forward(e, NULL));
    need(mega_engine_backward(e));
    need_error(mega_engine_get_param(e, "net.wte.weight", "grad", TABLE, gradient), MEGA_ERR_USAGE, "no gradient now");
    need(mega_engine_step(e, NULL));
    pass(e);
    need(mega_engine_get_param(e, "net.wte.weight", "grad", TABLE, gradient));
    for (int i = 0;; i++) {
        static float any[4096];
        const char *name;
        int64_t rows, columns;
        if (mega_engine_param_info(e, i, &name, &rows, &columns) != MEGA_OK) break;
        const int64_t count = rows * (columns > 0 ? columns : 1);
        need(mega_engine_get_param(e, name, "grad", count, any));
        for (int64_t k = 0; k < count; k++) square += (double)any[k] * (double)any[k];
        memset(any, 0, sizeof any);
        if (strcmp(name, "net.wte.weight") != 0) need(mega_engine_set_param(e, name, "grad", count, any));
    }
    need(mega_engine_step(e, &r)); /* only the table has a gradient */
    double table = 0;
    for (int i = 0; i < TABLE; i++) table += (double)gradient[i] * (double)gradient[i];
    if (fabs(r.grad_norm - sqrt(table)) > 1e-6 || !(square > table))
        fail_msg("norm %g; of the table %g, of all %g", r.grad_norm, sqrt(table), sqrt(square));
    need(mega_engine_get_param(e, "net.wte.weight", "grad", TABLE, again)); /* the gradient is still there */
    assert_memory_equal(gradient, again, sizeof gradient);
    need(mega_engine_train_batch(e, &r));
    need(mega_engine_get_param(e, "net.wte.weight", "grad", TABLE, zero));
    assert_memory_not_equal(gradient, zero, sizeof gradient);
    mega_engine_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_of_train_batch), cmocka_unit_test(boundaries_of_the_caller),
        cmocka_unit_test(samples_of_the_caller),   cmocka_unit_test(samples_since_the_last_update),
        cmocka_unit_test(calls_out_of_order),      cmocka_unit_test(batches_that_are_not_filled),
        cmocka_unit_test(a_callback_that_fails),   cmocka_unit_test(a_step_that_is_not_finite),
        cmocka_unit_test(gradients_by_name),       cmocka_unit_test(a_start_after_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
