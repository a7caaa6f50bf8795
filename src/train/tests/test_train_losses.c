/* Tests how logs show the losses of a model: the model supplies their names. */
#include "kit.h"
#include "megalith/builder.h"
#include "megalith/layers.h"
#include "megalith/ops.h"
#include "train_impl.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 4 };

/* self: the number of losses, an int. */
static void layer(const mega_builder *b, const void *self, mega_flow *flow)
{
    static const char *const name[] = {"lm loss", "sentence order", "accuracy"};
    static const double coefficient[] = {1.0, 0.5, 0.0};
    const int *losses = self;
    const mega_tensor x = mega_input(b, "x", MEGA_F32, b->positions, WIDTH);
    const mega_linear_options o = {.no_bias = true};
    flow->x = mega_linear(b, "w", x, WIDTH, &o);
    for (int i = 0; i < *losses; i++) {
        const mega_tensor far = mega_op_squared_error(b->graph, flow->x, mega_op_scale(b->graph, flow->x, 2));
        mega_loss_add(b, name[i], mega_op_weighted_sum(b->graph, far, mega_none()), coefficient[i]);
    }
}

static trainer trainer_of(const int *losses)
{
    const mega_layer row = {.path = "m", .describe = layer, .self = losses};
    const mega_model m = {.name = "m", .layer = &row, .num_layers = 1};
    const mega_engine_options o = {.compute = MEGA_F32,
                                   .micro_batch = 1,
                                   .seq = 2,
                                   .batch = {.global_batch = 1, .micro_step = 1},
                                   .optimizer = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
                                   .schedule = {.style = MEGA_LR_CONSTANT, .max_lr = 1e-3, .decay = 100}};
    trainer t = {.task = &train_task_gpt};
    if (mega_engine_create(&(mega_setup){.model = &m, .options = &o}, &t.engine) != MEGA_OK)
        fail_msg("%s", mega_error_message());
    return t;
}

static void expect_step(const trainer *t, const train_interval *sum, const char *expected)
{
    mega_buffer text = {0};
    mega_buffer_puts(&text, "|");
    train_losses_text(t, sum, &text);
    assert_string_equal(text.data, expected);
    mega_buffer_fini(&text);
}

static void expect_evaluation(const trainer *t, const mega_loss_sums *sums, const char *expected)
{
    mega_buffer text = {0};
    train_evaluation_text(t, "iteration 3", sums, &text);
    assert_string_equal(text.data, expected);
    mega_buffer_fini(&text);
}

static void one_loss_is_shown_by_its_name(void **state)
{
    (void)state;
    const int one = 1;
    trainer t = trainer_of(&one);
    train_interval sum = {.iterations = 2};
    char key[MEGA_LOSS_NAME];
    expect_step(&t, &sum, "|");
    train_losses_add(&sum, &(mega_step_result){.loss = 2, .metric = {2}});
    train_losses_add(&sum, &(mega_step_result){.loss = 3, .metric = {3}});
    expect_step(&t, &sum, "| lm loss: 2.500000E+00 |");
    expect_evaluation(&t, &(mega_loss_sums){.loss = 4, .count = 4, .metric = {4}, .weight = {4}},
                      " validation loss at iteration 3 | lm loss value: 1.000000E+00 | lm loss PPL: 2.718282E+00 | ");
    assert_string_equal(train_loss_key(key, train_loss_name(&t)), "lm_loss");
    assert_int_equal(train_loss_parts(&t), 0);
    mega_engine_destroy(t.engine);
}

static void several_stand_behind_what_is_trained(void **state)
{
    (void)state;
    const int three = 3;
    trainer t = trainer_of(&three);
    train_interval sum = {.iterations = 1};
    train_losses_add(&sum, &(mega_step_result){.loss = 4, .metric = {3, 2, NAN}});
    expect_step(&t, &sum, "| loss: 4.000000E+00 | lm loss: 3.000000E+00 | sentence order: 2.000000E+00 |");
    expect_evaluation(&t, &(mega_loss_sums){.loss = 0, .count = 4, .metric = {6, 0, 1}, .weight = {2, 0, 4}},
                      " validation loss at iteration 3 | loss value: 0.000000E+00 | loss PPL: 1.000000E+00 | "
                      "lm loss value: 3.000000E+00 | accuracy value: 2.500000E-01 | ");
    assert_int_equal(train_loss_parts(&t), 3);
    mega_engine_destroy(t.engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_loss_is_shown_by_its_name),
        cmocka_unit_test(several_stand_behind_what_is_trained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
