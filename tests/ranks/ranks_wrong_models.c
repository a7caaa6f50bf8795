/* Describes wrong models on all ranks and on the last rank only: each returns a status with a message on every rank,
 * none aborts or hangs, and a correct model can be created afterwards. Prints their number. */
#include "megalith/engine_commands.h"
#include "megalith/layers.h"
#include "rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POSITIONS = 16, C = 6, MICRO = 4 }; /* a sample is an image of 4 x 4 pixels of C channels */

/* ---- custom ops ---- */

static void shape_of_input(const void *self, const int64_t *rows_in, const int64_t *channels_in, int64_t *out_rows,
                           int64_t *out_channels)
{
    (void)self;
    out_rows[0] = rows_in[0];
    out_channels[0] = channels_in[0];
}

static void shape_of_nothing(const void *self, const int64_t *rows_in, const int64_t *channels_in, int64_t *out_rows,
                             int64_t *out_channels)
{
    (void)self, (void)rows_in, (void)channels_in;
    out_rows[0] = out_channels[0] = 0;
}

static mega_status copy(const void *self, const mega_custom_call *c)
{
    (void)self;
    memcpy(c->out[0], c->in[0], (size_t)(c->rows[0] * c->channels[0]) * mega_dtype_size(c->dtype));
    return MEGA_OK;
}

static const mega_custom_op one_way = {
    .name = "one way", .num_in = 1, .num_out = 1, .shape = shape_of_input, .forward = copy, .is_row_wise = true};
static const mega_custom_op vanishing = {
    .name = "vanishing", .num_in = 1, .num_out = 1, .shape = shape_of_nothing, .forward = copy, .backward = copy};
static const mega_custom_op without_forward = {
    .name = "idle", .num_in = 1, .num_out = 1, .shape = shape_of_input, .backward = copy};

/* ---- one mistake each, in a layer with input x [rows, C] that passes it on ---- */

typedef mega_tensor mistake(const mega_builder *b, mega_tensor x);

static mega_tensor none_at_all(const mega_builder *b, mega_tensor x)
{
    (void)b;
    return x;
}

static mega_tensor two_shapes(const mega_builder *b, mega_tensor x)
{
    return mega_linear(b, "fc", mega_linear(b, "fc", x, C, NULL), C + 1, NULL);
}

static mega_tensor two_options(const mega_builder *b, mega_tensor x)
{
    mega_builder_param(b, "scale", C, 0, &(mega_param_options){.init = MEGA_INIT_ONE});
    mega_builder_param(b, "scale", C, 0, &(mega_param_options){.init = MEGA_INIT_NORMAL, .init_std = 0.1});
    return x;
}

static mega_tensor huge_parameter(const mega_builder *b, mega_tensor x)
{
    mega_builder_param(b, "huge", INT64_MAX / 2, INT64_MAX / 2, NULL);
    return x;
}

static mega_tensor empty_parameter(const mega_builder *b, mega_tensor x)
{
    return mega_linear(b, "fc", x, 0, NULL);
}

static mega_tensor long_name(const mega_builder *b, mega_tensor x)
{
    char name[400] = "";
    memset(name, 'w', sizeof name - 1);
    return mega_linear(b, name, x, C, NULL);
}

static mega_tensor other_width(const mega_builder *b, mega_tensor x)
{
    return mega_add(b, x, mega_linear(b, "fc", x, C + 1, NULL));
}

static mega_tensor other_rows(const mega_builder *b, mega_tensor x)
{
    return mega_mul(b, x, mega_mean_positions(b, x));
}

static mega_tensor nothing_added(const mega_builder *b, mega_tensor x)
{
    return mega_add(b, x, mega_none());
}

static mega_tensor crossing_samples(const mega_builder *b, mega_tensor x)
{
    return mega_reshape(b, x, (int64_t)2 * POSITIONS * C);
}

static mega_tensor other_image(const mega_builder *b, mega_tensor x)
{
    const mega_conv_options conv = {.kernel_size = 3, .padding = 1};
    mega_image_size size = {5, 5};
    return mega_conv2d(b, "conv", x, C, &conv, &size);
}

static mega_tensor huge_window(const mega_builder *b, mega_tensor x)
{
    mega_image_size size = {4, 4};
    return mega_max_pool2d(b, x, &(mega_pool_options){.window = 5}, &size);
}

static mega_tensor group_of_three(const mega_builder *b, mega_tensor x)
{
    return mega_batch_norm(b, "bn", x, 3, 0, 1e-5);
}

static mega_tensor heads_of_four(const mega_builder *b, mega_tensor x)
{
    return mega_self_attention(b, "attn", x, &(mega_attention_options){.num_heads = 4});
}

static mega_tensor dropout_of_all(const mega_builder *b, mega_tensor x)
{
    return mega_dropout(b, "drop", x, 1.5);
}

static mega_tensor dropout_twice(const mega_builder *b, mega_tensor x)
{
    return mega_dropout(b, "drop", mega_dropout(b, "drop", x, 0.5), 0.5);
}

static mega_tensor input_of_two_sizes(const mega_builder *b, mega_tensor x)
{
    mega_input(b, "x", MEGA_F32, POSITIONS, C + 1);
    return x;
}

static mega_tensor input_of_f64(const mega_builder *b, mega_tensor x)
{
    mega_input(b, "wide", MEGA_F64, POSITIONS, C);
    return x;
}

static mega_tensor input_without_name(const mega_builder *b, mega_tensor x)
{
    mega_input(b, NULL, MEGA_F32, POSITIONS, C);
    return x;
}

static mega_tensor input_of_nothing(const mega_builder *b, mega_tensor x)
{
    mega_input(b, "empty", MEGA_F32, 0, C);
    return x;
}

static mega_tensor layer_without_name(const mega_builder *b, mega_tensor x)
{
    return mega_linear(b, NULL, x, C, NULL);
}

static mega_tensor parameter_without_name(const mega_builder *b, mega_tensor x)
{
    mega_builder_param(b, NULL, C, C, NULL);
    return x;
}

static mega_tensor dropout_without_name(const mega_builder *b, mega_tensor x)
{
    return mega_dropout(b, NULL, x, 0.5);
}

static mega_tensor outputs_of_one_name(const mega_builder *b, mega_tensor x)
{
    mega_output(b, "y", x);
    mega_output(b, "y", mega_scale(b, x, 2));
    return x;
}

static mega_tensor loss_of_that_name(const mega_builder *b, mega_tensor x)
{
    mega_loss_add(b, "loss", mega_sum(b, x, mega_none()), 1);
    return x;
}

static mega_tensor loss_of_a_long_name(const mega_builder *b, mega_tensor x)
{
    char name[2 * MEGA_LOSS_NAME] = "";
    memset(name, 'l', sizeof name - 1);
    mega_loss_add(b, name, mega_sum(b, x, mega_none()), 1);
    return x;
}

static mega_tensor loss_times_nan(const mega_builder *b, mega_tensor x)
{
    mega_loss_add(b, "other", mega_sum(b, x, mega_none()), NAN);
    return x;
}

static mega_tensor loss_of_rows(const mega_builder *b, mega_tensor x)
{
    mega_loss loss = mega_sum(b, x, mega_none());
    loss.sum = mega_linear(b, "fc", x, C, NULL);
    mega_loss_add(b, "other", loss, 1);
    return x;
}

static mega_tensor loss_without_weight(const mega_builder *b, mega_tensor x)
{
    mega_loss_add(b, "other", (mega_loss){.sum = mega_sum(b, x, mega_none()).sum, .weight = mega_none()}, 1);
    return x;
}

static mega_tensor loss_otherwise(const mega_builder *b, mega_tensor x)
{
    mega_loss_add(b, "other", mega_sum(b, mega_linear(b, "fc", x, 1, NULL), mega_none()),
                  b->mode == MEGA_TRAIN ? 1 : 2);
    return x;
}

static mega_tensor too_many_losses(const mega_builder *b, mega_tensor x)
{
    static const char *const name[MEGA_METRICS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    for (int i = 0; i < MEGA_METRICS; i++) mega_loss_add(b, name[i], mega_sum(b, x, mega_none()), 0);
    return x;
}

static mega_tensor name_of_bytes(const mega_builder *b, mega_tensor x)
{
    mega_builder_param(b, "\xff\xfe", C, C, NULL);
    return x;
}

static mega_tensor accuracy_trained(const mega_builder *b, mega_tensor x)
{
    const mega_tensor label = mega_input(b, "label", MEGA_I32, POSITIONS, 0);
    mega_loss_add(b, "accuracy", mega_accuracy(b, mega_linear(b, "fc", x, 3, NULL), label), 1);
    return x;
}

static mega_tensor labels_of_floats(const mega_builder *b, mega_tensor x)
{
    const mega_tensor label = mega_input(b, "label", MEGA_F32, POSITIONS, 0);
    mega_loss_add(b, "class", mega_cross_entropy(b, x, label, mega_none()), 1);
    return x;
}

static mega_tensor custom(const mega_builder *b, const mega_custom_op *op, mega_tensor x)
{
    mega_tensor h = mega_linear(b, "fc", x, C, NULL), y = mega_none();
    mega_custom(b, op, NULL, &h, &y);
    return y;
}

static mega_tensor custom_one_way(const mega_builder *b, mega_tensor x)
{
    return custom(b, &one_way, x);
}

static mega_tensor custom_vanishing(const mega_builder *b, mega_tensor x)
{
    return custom(b, &vanishing, x);
}

static mega_tensor custom_without_forward(const mega_builder *b, mega_tensor x)
{
    return custom(b, &without_forward, x);
}

static mega_tensor own_failure(const mega_builder *b, mega_tensor x)
{
    mega_builder_fail(b, MEGA_FAIL(MEGA_ERR_FORMAT, "no shape for this layer"));
    return x;
}

/* ---- the models ---- */

static void describe(const mega_builder *b, const void *self, mega_flow *flow)
{
    mistake *make = *(mistake *const *)self;
    const mega_tensor x = make(b, mega_input(b, "x", MEGA_F32, POSITIONS, C));
    mega_loss_add(b, "loss", mega_sum(b, mega_linear(b, "last", x, 1, NULL), mega_none()), 1);
    flow->x = mega_none();
}

static void describe_no_loss(const mega_builder *b, const void *self, mega_flow *flow)
{
    (void)self;
    flow->x = mega_linear(b, "fc", mega_input(b, "x", MEGA_F32, POSITIONS, C), 1, NULL);
}

static void describe_metric(const mega_builder *b, const void *self, mega_flow *flow)
{
    describe_no_loss(b, self, flow);
    mega_loss_add(b, "size", mega_sum(b, flow->x, mega_none()), 0);
}

static const mega_layer layer_without_function = {.path = "net"};
static const mega_layer layer_of_minus_one = {.path = "net", .describe = describe_metric, .repeat = -1};
static const mega_layer layer_without_path = {.describe = describe_metric};
static const mega_layer layer_without_loss = {.path = "net", .describe = describe_no_loss};
static const mega_layer layer_of_a_metric = {.path = "net", .describe = describe_metric};

#define MODEL(list)                                                         \
    &(const mega_model)                                                     \
    {                                                                       \
        .name = "m", .layer = list, .num_layers = 1, .positions = POSITIONS \
    }

/* A mistake in a layer, or a whole model. */
static const struct {
    mistake *make;
    const mega_model *model;
    const char *said;
} wrong[] = {
    {.model = MODEL(NULL), .said = "it has no layers"},
    {.model = &(const mega_model){.name = "m", .layer = &layer_of_a_metric, .positions = POSITIONS},
     .said = "it has no layers"},
    {.model = MODEL(&layer_without_function), .said = "has no function describe"},
    {.model = MODEL(&layer_of_minus_one), .said = "repeats -1 times"},
    {.model = MODEL(&layer_without_path), .said = "has no path"},
    {.model = MODEL(&layer_without_loss), .said = "nothing to differentiate"},
    {.model = MODEL(&layer_of_a_metric), .said = "nothing to differentiate"},
    {two_shapes, NULL, "but an earlier one declared [6, 6]"},
    {two_options, NULL, "this request has other options"},
    {huge_parameter, NULL, "check its shape"},
    {empty_parameter, NULL, "layer \"net\", fc: out_channels 0"},
    {long_name, NULL, "longer than 255 characters"},
    {other_width, NULL, "op add in \"net\": b is"},
    {other_rows, NULL, "op mul in \"net\": b is"},
    {nothing_added, NULL, "operand 1 is missing"},
    {crossing_samples, NULL, "a row must not cross a sample"},
    {other_image, NULL, "not whole images of 5 x 5"},
    {huge_window, NULL, "a window of 5 pixels does not fit"},
    {group_of_three, NULL, "groups of 3 samples"},
    {heads_of_four, NULL, "6 channels in 4 attention heads"},
    {dropout_of_all, NULL, "probability 1.5"},
    {dropout_twice, NULL, "would have the same mask"},
    {input_of_two_sizes, NULL, "input \"x\" is requested as [64, 7] f32"},
    {input_of_f64, NULL, "requested as f64"},
    {input_without_name, NULL, "an input is requested without a name"},
    {input_of_nothing, NULL, "0 positions and 6 channels"},
    {layer_without_name, NULL, "has no name"},
    {parameter_without_name, NULL, "a parameter is requested without a name"},
    {dropout_without_name, NULL, "a dropout has no name"},
    {name_of_bytes, NULL, "the name of a parameter, \"net.\\xff\\xfe\", is not UTF-8"},
    {outputs_of_one_name, NULL, "mega_output declares \"y\", which an earlier mega_output declared"},
    {loss_of_that_name, NULL, "the name is declared twice"},
    {loss_of_a_long_name, NULL, "its name has 255 characters"},
    {loss_times_nan, NULL, "its coefficient is nan"},
    {loss_of_rows, NULL, "its sum is"},
    {loss_without_weight, NULL, "its weight is not a value"},
    {loss_otherwise, NULL, "coefficient 1 in training and 2 in evaluation"},
    {too_many_losses, NULL, "more than 8 losses"},
    {accuracy_trained, NULL, "loss \"accuracy\" in \"net\": accuracy has no gradient"},
    {labels_of_floats, NULL, "expected [64] i32"},
    {custom_one_way, NULL, "has no backward"},
    {custom_vanishing, NULL, "0 rows and 0 channels"},
    {custom_without_forward, NULL, "shape, forward, in or out is NULL"},
    {own_failure, NULL, "no shape for this layer"},
};
enum { WRONG = sizeof wrong / sizeof *wrong };

static mega_status create(mega_world *world, mistake *make, const mega_model *model)
{
    char *argv[] = {"wrong", "--micro-batch-size", "4", "--lr", "0.1", "--num-threads", "1"};
    const mega_layer layer = {.path = "net", .describe = describe, .self = &make};
    const mega_model listed = {.name = "m", .layer = &layer, .num_layers = 1, .positions = POSITIONS};
    const mega_setup setup = {
        .model = model != NULL ? model : &listed, .argc = sizeof argv / sizeof *argv, .argv = argv, .world = world};
    mega_engine *e = NULL;
    const mega_status st = mega_initialize(&setup, &e);
    if (st == MEGA_OK) mega_engine_destroy(e);
    else if (e != NULL)
        fprintf(stderr, "an engine is left after an error\n"), exit(1);
    return st;
}

/* by_last: the model is wrong only on the last rank. */
static int try_model(mega_world *world, int i, bool by_last)
{
    const bool me = !by_last || mega_world_rank(world) == mega_world_size(world) - 1;
    int failures = 0;
    mega_error_clear();
    const mega_status st = create(world, me ? wrong[i].make : none_at_all, me ? wrong[i].model : NULL);
    const bool is_other = by_last && st == MEGA_ERR_COMM && strstr(mega_error_message(), "different models") != NULL;
    if (st == MEGA_OK || (!is_other && strstr(mega_error_message(), wrong[i].said) == NULL)) {
        fprintf(stderr, "rank %d, model %d%s: %s, \"%s\"; expected \"%s\"\n", mega_world_rank(world), i,
                by_last ? " of the last rank" : "", mega_status_name(st), mega_error_message(), wrong[i].said);
        failures = 1;
    }
    return failures;
}

int main(void)
{
    mega_world *world = NULL;
    int failures = 0;
    need(mega_world_create(NULL, &world));
    const int ranks = mega_world_size(world);
    for (int i = 0; i < WRONG; i++)
        for (int by_last = 0; by_last < (ranks > 1 ? 2 : 1); by_last++) failures += try_model(world, i, by_last == 1);
    need(create(world, none_at_all, NULL));
    if (mega_world_rank(world) == 0) printf("%d wrong models\n", WRONG);
    fflush(stdout);
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
