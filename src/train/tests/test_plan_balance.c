/* Tests the balance of pipeline stages, computed from the cost column alone, and the better split that is suggested. */
#include "kit.h"
#include "megalith/builder.h"
#include "megalith/layers.h"
#include "train_impl.h"

#include <string.h>

enum { WIDTH = 4, WIDE = 40 };

static void begin(const mega_builder *b, const void *self, mega_flow *flow)
{
    const int64_t *width = self;
    flow->x = mega_linear(b, "begin", mega_input(b, "x", MEGA_F32, b->positions, WIDTH), *width, NULL);
    flow->x = mega_linear(b, "narrow", flow->x, WIDTH, NULL);
}

static void block(const mega_builder *b, const void *self, mega_flow *flow)
{
    const int64_t *width = self;
    flow->x = mega_linear(b, "up", flow->x, *width, NULL);
    flow->x = mega_linear(b, "down", flow->x, WIDTH, NULL);
}

static void end(const mega_builder *b, const void *self, mega_flow *flow)
{
    (void)self;
    const mega_tensor y = mega_linear(b, "end", flow->x, WIDTH, NULL);
    const mega_tensor far = mega_op_squared_error(b->graph, y, mega_op_scale(b->graph, y, 2));
    mega_loss_add(b, "far", mega_op_weighted_sum(b->graph, far, mega_none()), 1.0);
}

static void expect(const mega_layer *layer, int rows, const int *first, const char *expected)
{
    const mega_model m = {.name = "m", .layer = layer, .num_layers = rows, .first_layer = first};
    const mega_engine_options o = {.compute = MEGA_F32,
                                   .layout = {.pp = 2, .planned_ranks = 2},
                                   .micro_batch = 1,
                                   .seq = 2,
                                   .batch = {.global_batch = 2, .micro_step = 1},
                                   .optimizer = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
                                   .schedule = {.style = MEGA_LR_CONSTANT, .max_lr = 1e-3, .decay = 100}};
    trainer t = {.task = &train_task_gpt};
    mega_buffer text = {0};
    if (mega_engine_create(&(mega_setup){.model = &m, .options = &o}, &t.engine) != MEGA_OK)
        fail_msg("%s", mega_error_message());
    train_plan_balance(&t, &text);
    assert_string_equal(text.data, expected);
    mega_buffer_fini(&text);
    mega_engine_destroy(t.engine);
}

/* Multiplications per row: block 320, end 16, begin 320 or 32. */
static void what_begins_the_list_counts(void **state)
{
    (void)state;
    static const int64_t wide = WIDE, narrow = WIDTH;
    static const int first[] = {0, 3};
    const mega_layer heavy[] = {
        {"m.begin", begin, &wide, 1, NULL}, {"m.%d", block, &wide, 4, NULL}, {"m", end, NULL, 1, NULL}};
    const mega_layer light[] = {
        {"m.begin", begin, &narrow, 1, NULL}, {"m.%d", block, &wide, 4, NULL}, {"m", end, NULL, 1, NULL}};
    /* the stages have 960 and 656 of 1616; with one block less in the first stage, 640 and 976 */
    expect(heavy, 3, first, "balance      the stage that computes most has 19 % more than the mean\n");
    expect(light, 3, first, "balance      the stage that computes most has 1 % more than the mean\n");
}

static void unlike_layers_are_not_moved(void **state)
{
    (void)state;
    static const int64_t wide = WIDE, narrow = WIDTH;
    static const int first[] = {0, 5};
    const mega_layer list[] = {{"m.begin", begin, &narrow, 1, NULL},
                               {"m.%d", block, &wide, 2, NULL},
                               {"m.s.%d", block, &narrow, 2, NULL},
                               {"m", end, NULL, 1, NULL}};
    /* the stages have 736 and 16 of 752: another split would be better, but the numbers of layers do not show which */
    expect(list, 4, first, "balance      the stage that computes most has 96 % more than the mean\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_begins_the_list_counts),
        cmocka_unit_test(unlike_layers_are_not_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
