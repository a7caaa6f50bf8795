/* Compares ops of models that are not transformers with PyTorch, in float64: tests/golden/layers.json, made by
 * tools/make_layers_golden.py. */
#include "kit.h"
#include "megalith/kernels.h"
#include "megalith/memory.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

static const mega_step_block last = {.later_micro_batches = 0};
static const mega_kernel_head head = {.dtype = MEGA_F64, .step = &last};

static json_t *load(const char *name)
{
    json_error_t error;
    json_t *golden = json_load_file(mega_kit_source("tests/golden/layers.json"), 0, &error);
    if (golden == NULL) fail_msg("layers.json: %s", error.text);
    json_t *found = json_incref(json_object_get(golden, name));
    json_decref(golden);
    assert_non_null(found);
    return found;
}

/* The numbers of a list, to be freed. */
static double *numbers(const json_t *from, const char *name)
{
    const json_t *list = json_object_get(from, name);
    double *x = mega_calloc(json_array_size(list) + 1, sizeof *x);
    assert_non_null(list);
    assert_non_null(x);
    for (size_t i = 0; i < json_array_size(list); i++) x[i] = json_real_value(json_array_get(list, i));
    return x;
}

static size_t count_of(const json_t *from, const char *name)
{
    return json_array_size(json_object_get(from, name));
}

static int64_t shape_at(const json_t *from, size_t i)
{
    return json_integer_value(json_array_get(json_object_get(from, "shape"), i));
}

/* A result, zero at first; the sums of gradients are added to it. */
static double *zeros(const json_t *from, const char *name)
{
    double *x = mega_calloc(count_of(from, name) + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

/* The same operations in another order: a few roundings of sums of at most a hundred terms. Frees x. */
static void agrees(const json_t *from, const char *name, double *x)
{
    double *expected = numbers(from, name);
    const double error = mega_kit_relative_error_f64(x, expected, (int64_t)count_of(from, name));
    mega_free(expected);
    mega_free(x);
    if (!(error <= 1e-13)) fail_msg("%s: relative error %.3g", name, error);
}

static void activations_agree(void **state)
{
    static const struct {
        const char *name;
        mega_activation_kind kind;
    } kinds[] = {{"relu", MEGA_ACT_RELU},
                 {"relu_squared", MEGA_ACT_RELU_SQUARED},
                 {"silu", MEGA_ACT_SILU},
                 {"tanh", MEGA_ACT_TANH},
                 {"sigmoid", MEGA_ACT_SIGMOID}};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        json_t *golden = load(kinds[i].name);
        double *x = numbers(golden, "x"), *dy = numbers(golden, "dy");
        const int64_t n = (int64_t)count_of(golden, "x");
        const mega_activation_args f = {head, zeros(golden, "y"), x, n, kinds[i].kind};
        const mega_activation_grad_args b = {head, zeros(golden, "dx"), dy, x, n, kinds[i].kind};
        mega_plain_activation.run(NULL, &f);
        mega_plain_activation_grad.run(NULL, &b);
        agrees(golden, "y", f.y);
        agrees(golden, "dx", b.dx);
        mega_free(x), mega_free(dy);
        json_decref(golden);
    }
}

static void convolution_agrees(void **state)
{
    json_t *list = load("conv2d");
    (void)state;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        const int64_t n = shape_at(c, 0), in = shape_at(c, 1), out = shape_at(c, 4);
        const mega_windows w = {.height = shape_at(c, 2),
                                .width = shape_at(c, 3),
                                .size = shape_at(c, 5),
                                .stride = shape_at(c, 6),
                                .padding = shape_at(c, 7)};
        double *x = numbers(c, "x"), *weight = numbers(c, "weight"), *bias = numbers(c, "bias"), *dy = numbers(c, "dy");
        const mega_conv2d_args f = {head, zeros(c, "y"), x, weight, bias, w, n, in, out};
        const mega_conv2d_grad_x_args dx = {head, zeros(c, "dx"), dy, weight, w, n, in, out};
        const mega_conv2d_grad_w_args dw = {head, zeros(c, "dweight"), zeros(c, "dbias"), dy, x, w, n, in, out};
        mega_plain_conv2d.run(NULL, &f);
        mega_plain_conv2d_grad_x.run(NULL, &dx);
        mega_plain_conv2d_grad_w.run(NULL, &dw);
        agrees(c, "y", f.y);
        agrees(c, "dx", dx.dx);
        agrees(c, "dweight", dw.dweight);
        agrees(c, "dbias", dw.dbias);
        mega_free(x), mega_free(weight), mega_free(bias), mega_free(dy);
    }
    json_decref(list);
}

static mega_windows pool_windows(const json_t *c)
{
    return (mega_windows){.height = shape_at(c, 2),
                          .width = shape_at(c, 3),
                          .size = shape_at(c, 4),
                          .stride = shape_at(c, 5),
                          .padding = shape_at(c, 6)};
}

static void max_pooling_agrees(void **state)
{
    json_t *list = load("max_pool2d");
    (void)state;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        const int64_t n = shape_at(c, 0), channels = shape_at(c, 1);
        int32_t *index = mega_calloc(count_of(c, "y"), sizeof *index);
        double *x = numbers(c, "x"), *dy = numbers(c, "dy");
        const mega_max_pool2d_args f = {head, zeros(c, "y"), index, x, pool_windows(c), n, channels};
        const mega_max_pool2d_grad_args b = {head, zeros(c, "dx"), dy, index, pool_windows(c), n, channels};
        mega_plain_max_pool2d.run(NULL, &f);
        mega_plain_max_pool2d_grad.run(NULL, &b);
        agrees(c, "y", f.y);
        agrees(c, "dx", b.dx);
        mega_free(x), mega_free(dy), mega_free(index);
    }
    json_decref(list);
}

static void mean_pooling_agrees(void **state)
{
    json_t *list = load("mean_pool2d");
    (void)state;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        const int64_t n = shape_at(c, 0), channels = shape_at(c, 1);
        double *x = numbers(c, "x"), *dy = numbers(c, "dy");
        const mega_mean_pool2d_args f = {head, zeros(c, "y"), x, pool_windows(c), n, channels};
        const mega_mean_pool2d_grad_args b = {head, zeros(c, "dx"), dy, pool_windows(c), n, channels};
        mega_plain_mean_pool2d.run(NULL, &f);
        mega_plain_mean_pool2d_grad.run(NULL, &b);
        agrees(c, "y", f.y);
        agrees(c, "dx", b.dx);
        mega_free(x), mega_free(dy);
    }
    json_decref(list);
}

/* Three groups, which PyTorch got as three batches; then its evaluation with the statistics that they left. */
static void batch_norm_agrees(void **state)
{
    json_t *c = load("batch_norm");
    const int64_t groups = shape_at(c, 0), rows = shape_at(c, 1), cols = shape_at(c, 2);
    double *x = numbers(c, "x"), *dy = numbers(c, "dy"), *gain = numbers(c, "gain"), *bias = numbers(c, "bias");
    double *mean = mega_calloc((size_t)(groups * cols), sizeof *mean), *running_mean = zeros(c, "running_mean");
    double *var = mega_calloc((size_t)(groups * cols), sizeof *var), *running_var = zeros(c, "running_var");
    (void)state;
    for (int64_t i = 0; i < cols; i++) running_var[i] = pow(0.9, (double)groups); /* what is left of PyTorch's 1 */
    const mega_batch_norm_args f = {head, zeros(c, "y"), mean, var, x, gain, bias, groups, rows, cols, 1e-5};
    const mega_batch_norm_grad_args b = {
        head, zeros(c, "dx"), zeros(c, "dgain"), zeros(c, "dbias"), dy, x, mean, var, gain, groups, rows, cols, 1e-5};
    const mega_batch_norm_update_args u = {head, running_mean, running_var, mean, var, groups, rows, cols, 0.1};
    const mega_batch_norm_fixed_args e = {head,        zeros(c, "evaluated"), x,    gain, bias,    running_mean,
                                          running_var, groups * rows,         cols, 1e-5, MEGA_F64};
    mega_plain_batch_norm.run(NULL, &f);
    mega_plain_batch_norm_grad.run(NULL, &b);
    mega_plain_batch_norm_update.run(NULL, &u);
    mega_plain_batch_norm_fixed.run(NULL, &e);
    agrees(c, "y", f.y);
    agrees(c, "dx", b.dx);
    agrees(c, "dgain", b.dgain);
    agrees(c, "dbias", b.dbias);
    agrees(c, "evaluated", e.y);
    agrees(c, "running_mean", running_mean);
    agrees(c, "running_var", running_var);
    mega_free(x), mega_free(dy), mega_free(gain), mega_free(bias), mega_free(mean), mega_free(var);
    json_decref(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_agree),  cmocka_unit_test(convolution_agrees),
        cmocka_unit_test(max_pooling_agrees), cmocka_unit_test(mean_pooling_agrees),
        cmocka_unit_test(batch_norm_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
