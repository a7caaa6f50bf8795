/* Weights that are still arriving: a forward waits for those of a bucket before the first instruction that reads them,
 * and at its end for all that the program knows. */
#include "kit.h"
#include "program_impl.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 8, WIDTH = 16, PARAMS = 3, CALLS = 64 };

/* Two linear layers and a loss; the third parameter is not read. */
typedef struct sketch {
    mega_layout *layout;
    mega_params *params;
    mega_program *program;
    int num_calls, call[CALLS]; /* buckets waited for */
    bool fails;
} sketch;

static void begin(sketch *k)
{
    static const char *const name[PARAMS] = {"first", "second", "other"};
    const int64_t dim[2] = {ROWS, WIDTH}, rows = ROWS;
    mega_graph *g = NULL;
    *k = (sketch){.layout = NULL};
    need(mega_layout_create(NULL, NULL, &k->layout));
    need(mega_params_create(k->layout, &k->params));
    for (int i = 0; i < PARAMS; i++) {
        mega_param p = {.num_dims = 2, .shape = {WIDTH, WIDTH}, .true_shape = {WIDTH, WIDTH}};
        snprintf(p.name, sizeof p.name, "%s", name[i]);
        need(mega_params_add(k->params, &p, NULL));
    }
    need(mega_params_place(k->params, MEGA_F32, 1)); /* a bucket each */
    need(mega_params_allocate(k->params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    need(mega_graph_create(MEGA_F32, k->params, k->layout, &g));
    const mega_tensor x = mega_graph_input(g, "x", MEGA_F32, 2, dim);
    const mega_tensor labels = mega_graph_input(g, "labels", MEGA_I32, 1, &rows);
    const mega_tensor mask = mega_graph_input(g, "mask", MEGA_F32, 1, &rows);
    const mega_tensor h = mega_op_linear(g, x, mega_graph_param(g, 0));
    const mega_head_shape s = {.valid = WIDTH, .chunk_rows = ROWS, .with_gradient = true};
    mega_graph_loss(g, "loss", mega_op_lm_head_loss(g, h, mega_graph_param(g, 1), labels, mask, &s).loss, 1);
    need(mega_program_build(g, &(mega_program_options){.differentiate = true, .name = "test"}, &k->program));
    need(mega_program_allocate(k->program));
    for (int i = 0; i < ROWS * WIDTH; i++)
        ((float *)mega_program_tensor(k->program, "x", 0))[i] = (float)(i * 11 % 17 - 8) * 0.1f;
    for (int i = 0; i < ROWS; i++) {
        ((int32_t *)mega_program_tensor(k->program, "labels", 0))[i] = i * 5 % WIDTH;
        ((float *)mega_program_tensor(k->program, "mask", 0))[i] = 1.0f;
    }
}

static void end(sketch *k)
{
    mega_program_destroy(k->program);
    mega_params_destroy(k->params);
    mega_layout_destroy(k->layout);
}

/* The weights of a parameter arrive. */
static void arrive(const sketch *k, int param)
{
    float *w = mega_params_weight(k->params, param);
    for (int i = 0; i < WIDTH * WIDTH; i++) w[i] = (float)((i * 37 + param) % 19 - 9) * 0.05f;
}

static mega_status wait(void *user, int bucket)
{
    sketch *k = user;
    if (k->num_calls == CALLS) fail_msg("the program waits more than %d times", CALLS);
    k->call[k->num_calls++] = bucket;
    if (k->fails) return MEGA_FAIL(MEGA_ERR_COMM, "weights did not arrive");
    for (int i = 0; i < PARAMS; i++)
        if (mega_params_get(k->params, i)->bucket == bucket) arrive(k, i);
    return MEGA_OK;
}

static float loss_of(sketch *k)
{
    mega_program_loss l;
    float loss;
    need(mega_program_forward(k->program, 0));
    assert_true(mega_program_loss_get(k->program, 0, 0, &l));
    memcpy(&loss, l.sum, sizeof loss);
    return loss;
}

static void a_forward_waits_for_what_it_reads(void **state)
{
    (void)state;
    sketch k;
    begin(&k);
    for (int i = 0; i < PARAMS; i++) arrive(&k, i);
    mega_program_await_weights(k.program, wait, &k);
    const float expected = loss_of(&k);
    assert_int_equal(k.num_calls, 0); /* only where the step block says so */
    mega_program_step_block(k.program)->awaits_weights = true;
    memset(mega_params_flat_weight(k.params), 0xFF, mega_params_bytes(k.params, MEGA_PARAMS_WEIGHTS)); /* NaN */
    assert_true(loss_of(&k) == expected);
    const int first = mega_params_get(k.params, 0)->bucket, second = mega_params_get(k.params, 1)->bucket;
    int seen = 0;
    assert_int_equal(k.call[0], first); /* not yet for the second, which a later instruction reads */
    for (int i = 0; i < k.num_calls; i++) {
        assert_true(k.call[i] == first || k.call[i] == second); /* not for what it does not read */
        if (seen < i && k.call[i] == second) seen = i;
    }
    assert_true(seen > 0);
    const int calls = k.num_calls;
    need(mega_program_backward(k.program, 0));
    assert_int_equal(k.num_calls, calls); /* its forward has waited */
    end(&k);
}

static void a_failed_wait_ends_the_forward(void **state)
{
    (void)state;
    sketch k;
    begin(&k);
    k.fails = true;
    mega_program_await_weights(k.program, wait, &k);
    mega_program_step_block(k.program)->awaits_weights = true;
    assert_int_equal(mega_program_forward(k.program, 0), MEGA_ERR_COMM);
    assert_int_equal(k.num_calls, 1);
    end(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forward_waits_for_what_it_reads),
        cmocka_unit_test(a_failed_wait_ends_the_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
