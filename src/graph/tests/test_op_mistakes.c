/* Invalid operands: each op rejects them with a status and a message that names what was expected. */
#include "kit.h"
#include "megalith/graph.h"

#include <math.h>
#include <string.h>

typedef struct operands {
    mega_graph *g;
    mega_tensor x, other, square, labels, vector; /* [12, 3], [12, 4], [3, 3] f32; [12] i32; [3] f32 */
    mega_tensor filter;                           /* [5, 27] */
} operands;

static mega_tensor input(mega_graph *g, const char *name, mega_dtype dtype, int num_dims, int64_t rows, int64_t cols)
{
    const int64_t dim[2] = {rows, cols};
    return mega_graph_input(g, name, dtype, num_dims, dim);
}

#include "expert_mistakes_body.c"

static void unknown_activation(const operands *o)
{
    mega_op_activation(o->g, o->x, (mega_activation_kind)77);
}

static void activation_of_labels(const operands *o)
{
    mega_op_activation(o->g, o->labels, MEGA_ACT_RELU);
}

static void mul_of_two_shapes(const operands *o)
{
    mega_op_mul(o->g, o->x, o->other);
}

static void scale_of_labels(const operands *o)
{
    mega_op_scale(o->g, o->labels, 2.0);
}

static void mean_of_uneven_groups(const operands *o)
{
    mega_op_mean_rows(o->g, o->x, 5);
}

static void mean_of_no_rows(const operands *o)
{
    mega_op_mean_rows(o->g, o->x, 0);
}

static void first_rows_of_uneven_groups(const operands *o)
{
    mega_op_first_rows(o->g, o->x, 5);
}

static void reshape_to_uneven_rows(const operands *o)
{
    mega_op_reshape(o->g, o->x, 7);
}

static void reshape_of_nothing(const operands *o)
{
    mega_op_reshape(o->g, (mega_tensor){0}, 1);
}

static void row_sum_of_labels(const operands *o)
{
    mega_op_row_sum(o->g, o->labels);
}

static void cross_entropy_of_other_rows(const operands *o)
{
    mega_op_cross_entropy(o->g, o->square, o->labels);
}

static void labelled_sum_with_wrong_weights(const operands *o)
{
    mega_op_labelled_sum(o->g, o->labels, o->vector, 3);
}

static void error_of_two_shapes(const operands *o)
{
    mega_op_squared_error(o->g, o->x, o->other);
}

static void sum_of_nothing(const operands *o)
{
    mega_op_weighted_sum(o->g, (mega_tensor){0}, o->vector);
}

static void sum_with_wrong_weights(const operands *o)
{
    mega_op_weighted_sum(o->g, mega_op_squared_error(o->g, o->x, o->x), o->vector);
}

static void accuracy_without_labels(const operands *o)
{
    mega_op_accuracy(o->g, o->x, (mega_tensor){0});
}

static void accuracy_of_float_labels(const operands *o)
{
    mega_op_accuracy(o->g, o->square, o->vector);
}

static void conv2d_of(const operands *o, mega_windows w)
{
    mega_op_conv2d(o->g, o->x, o->filter, (mega_tensor){0}, &w);
}

static void conv2d_of_part_of_an_image(const operands *o)
{
    conv2d_of(o, (mega_windows){.height = 5, .width = 2, .size = 3, .stride = 1, .padding = 1});
}

static void conv2d_window_too_large(const operands *o)
{
    conv2d_of(o, (mega_windows){.height = 4, .width = 3, .size = 6, .stride = 1, .padding = 1});
}

static void conv2d_without_stride(const operands *o)
{
    conv2d_of(o, (mega_windows){.height = 4, .width = 3, .size = 3, .stride = 0, .padding = 1});
}

static void conv2d_of_huge_windows(const operands *o)
{
    conv2d_of(o, (mega_windows){.height = 4, .width = 3, .size = INT64_MAX / 2, .stride = 1, .padding = INT64_MAX / 2});
}

static void conv2d_of_another_filter(const operands *o)
{
    conv2d_of(o, (mega_windows){.height = 4, .width = 3, .size = 1, .stride = 1, .padding = 0});
}

static void max_pool_padded_too_far(const operands *o)
{
    const mega_windows w = {.height = 4, .width = 3, .size = 3, .stride = 1, .padding = 2};
    mega_op_max_pool2d(o->g, o->x, &w);
}

static void mean_pool_of_part_of_an_image(const operands *o)
{
    const mega_windows w = {.height = 5, .width = 1, .size = 1, .stride = 1, .padding = 0};
    mega_op_mean_pool2d(o->g, o->x, &w);
}

static void batch_norm_of_one_row(const operands *o)
{
    mega_op_batch_norm(o->g, o->x, o->vector, o->vector, 1, 1e-5);
}

static void batch_norm_of_uneven_groups(const operands *o)
{
    mega_op_batch_norm(o->g, o->x, o->vector, o->vector, 5, 1e-5);
}

static void batch_norm_without_epsilon(const operands *o)
{
    mega_op_batch_norm(o->g, o->x, o->vector, o->vector, 6, 0.0);
}

static void batch_norm_with_wide_statistics(const operands *o)
{
    mega_op_batch_norm_fixed(o->g, o->x, o->vector, o->vector, o->square, o->vector, 1e-5);
}

static void statistics_that_are_no_buffer(const operands *o)
{
    mega_op_batch_norm_running(o->g, o->x, o->vector, o->vector, &(mega_batch_norm_running){o->vector, o->vector, 0.1},
                               6, 1e-5);
}

static void batch_norm_with_infinite_epsilon(const operands *o)
{
    mega_op_batch_norm(o->g, o->x, o->vector, o->vector, 6, INFINITY);
}

static void layer_norm_with_tiny_epsilon(const operands *o)
{
    mega_op_layer_norm(o->g, o->x, o->vector, o->vector, 1e-300);
}

static void scale_by_nan(const operands *o)
{
    mega_op_scale(o->g, o->x, NAN);
}

static void scale_by_infinity(const operands *o)
{
    mega_op_scale(o->g, o->x, -INFINITY);
}

/* Sizes whose product does not fit in 64 bits. */
static void input_too_large(const operands *o)
{
    input(o->g, "large", MEGA_F32, 2, (int64_t)1 << 40, (int64_t)1 << 40);
}

static void results_too_large(const operands *o)
{
    const mega_tensor wide = input(o->g, "large", MEGA_F32, 2, (int64_t)1 << 45, 1);
    const mega_windows w = {.height = 1, .width = 1, .size = 1, .stride = 1, .padding = 32768};
    mega_op_conv2d(o->g, wide, input(o->g, "w", MEGA_F32, 2, 1, 1), (mega_tensor){0}, &w);
}

static void filter_too_large(const operands *o)
{
    const mega_tensor wide = input(o->g, "large", MEGA_F32, 2, 1, (int64_t)1 << 40);
    const mega_windows w = {.height = 1, .width = 1, .size = 32767, .stride = 1, .padding = 32768};
    mega_op_conv2d(o->g, wide, o->filter, (mega_tensor){0}, &w);
}

#include "attention_mistakes_body.c"

static void rope_of_odd_channels(const operands *o)
{
    static const float frequency[2] = {1, 1};
    const mega_rope_shape s = {.frequency = frequency, .heads = 1, .head_dim = 3, .rotated = 3, .factor = 1};
    mega_op_rope(o->g, o->x, o->labels, &s);
}

static void heads_of_other_numbers(const operands *o)
{
    const mega_head_channels p = {.from = 3, .from_dim = 1, .to = 2, .to_dim = 1, .count = 1};
    mega_op_head_channels(o->g, o->x, &p);
}

static void channels_that_no_head_has(const operands *o)
{
    const mega_head_channels p = {.from = 1, .from_dim = 3, .from_first = 2, .to = 1, .to_dim = 2, .count = 2};
    mega_op_head_channels(o->g, o->x, &p);
}

static void rope_of_other_rows(const operands *o)
{
    static const float frequency[1] = {1};
    const mega_rope_shape s = {.frequency = frequency, .heads = 1, .head_dim = 2, .rotated = 2, .factor = 1};
    mega_op_rope(o->g, o->square, o->labels, &s);
}

static void route_by(const operands *o, mega_route_options options)
{
    mega_op_route(o->g, o->other, (mega_tensor){0}, &options);
}

static void route_of_labels(const operands *o)
{
    const mega_route_options options = {.choices = 1};
    mega_op_route(o->g, o->labels, (mega_tensor){0}, &options);
}

static void route_by_unknown_score(const operands *o)
{
    route_by(o, (mega_route_options){.score = (mega_route_score)9, .choices = 1});
}

static void route_of_no_choice(const operands *o)
{
    route_by(o, (mega_route_options){.choices = 0});
}

static void route_of_five_choices(const operands *o)
{
    route_by(o, (mega_route_options){.choices = 5});
}

static void route_normalized_twice(const operands *o)
{
    route_by(o, (mega_route_options){.score = MEGA_ROUTE_SOFTMAX_OF_CHOSEN, .choices = 1, .normalized = true});
}

static void route_of_near_normalized(const operands *o)
{
    route_by(o, (mega_route_options){.score = MEGA_ROUTE_SOFTMAX_OF_NEAR, .choices = 1, .normalized = true});
}

static void route_with_useless_margin(const operands *o)
{
    route_by(o, (mega_route_options){.choices = 1, .margin = 0.1});
}

static void route_of_near_groups(const operands *o)
{
    route_by(o,
             (mega_route_options){
                 .score = MEGA_ROUTE_SOFTMAX_OF_NEAR, .choices = 1, .groups = 2, .chosen_groups = 1, .group_best = 1});
}

static void route_with_useless_epsilon(const operands *o)
{
    route_by(o, (mega_route_options){.choices = 1, .epsilon = 1e-20});
}

static void route_scaled_by_nan(const operands *o)
{
    route_by(o, (mega_route_options){.choices = 1, .scale = NAN});
}

static void route_with_wide_bias(const operands *o)
{
    const mega_route_options options = {.choices = 1};
    mega_op_route(o->g, o->other, o->vector, &options);
}

static void route_of_uneven_groups(const operands *o)
{
    route_by(o, (mega_route_options){.choices = 1, .groups = 3, .chosen_groups = 1, .group_best = 1});
}

static void route_of_groups_without_number(const operands *o)
{
    route_by(o, (mega_route_options){.choices = 1, .chosen_groups = 1, .group_best = 1});
}

static void route_of_small_groups(const operands *o)
{
    route_by(o, (mega_route_options){.choices = 1, .groups = 2, .chosen_groups = 1, .group_best = 3});
}

static void route_of_too_few_groups(const operands *o)
{
    route_by(o, (mega_route_options){.choices = 3, .groups = 2, .chosen_groups = 1, .group_best = 1});
}

static void route_of_many_experts(const operands *o)
{
    const mega_route_options options = {.choices = 1};
    mega_op_route(o->g, input(o->g, "wide", MEGA_F32, 2, 1, 2049), (mega_tensor){0}, &options);
}

static void jitter_of_one(const operands *o)
{
    mega_op_route_jitter(o->g, o->x, 1.0, 1, o->labels, o->labels);
}

static void jitter_without_samples(const operands *o)
{
    mega_op_route_jitter(o->g, o->x, 0.1, 1, (mega_tensor){0}, o->labels);
}

static mega_tensor choices(const operands *o)
{
    return input(o->g, "choices", MEGA_I32, 2, 12, 2);
}

static void balance_of_uneven_groups(const operands *o)
{
    mega_op_route_balance(o->g, o->other, choices(o), 5, 1);
}

static void balance_of_three_choices(const operands *o)
{
    mega_op_route_balance(o->g, o->other, choices(o), 12, 3);
}

static void balance_of_other_rows(const operands *o)
{
    mega_op_route_balance(o->g, o->square, choices(o), 3, 1);
}

static void sinkhorn_of_uneven_groups(const operands *o)
{
    mega_op_route_sinkhorn(o->g, o->other, 5);
}

static void route_by_other_keys(const operands *o)
{
    const mega_route_options options = {.choices = 1};
    mega_op_route_by(o->g, o->other, o->square, &options);
}

static void route_by_keys_of_groups(const operands *o)
{
    const mega_route_options options = {.choices = 1, .groups = 2, .chosen_groups = 1, .group_best = 1};
    mega_op_route_by(o->g, o->other, o->other, &options);
}

static void z_of_labels(const operands *o)
{
    mega_op_route_z(o->g, o->labels);
}

static void load_of_a_vector(const operands *o)
{
    mega_op_route_load(o->g, o->vector);
}

static void capacity_of(const operands *o, mega_tensor weight, int64_t rows, int64_t experts, int64_t capacity)
{
    const mega_route_capacity c = {.rows = rows, .experts = experts, .capacity = capacity};
    mega_op_route_capacity(o->g, choices(o), weight, &c);
}

static mega_tensor weights_of_choices(const operands *o)
{
    return input(o->g, "weights", MEGA_F32, 2, 12, 2);
}

static void capacity_of_other_weights(const operands *o)
{
    capacity_of(o, o->other, 12, 4, 2);
}

static void capacity_of_uneven_groups(const operands *o)
{
    capacity_of(o, weights_of_choices(o), 5, 4, 2);
}

static void capacity_of_few_experts(const operands *o)
{
    capacity_of(o, weights_of_choices(o), 12, 1, 2);
}

static void capacity_of_nothing(const operands *o)
{
    capacity_of(o, weights_of_choices(o), 12, 4, 0);
}

static void rows_past_the_end(const operands *o)
{
    mega_op_rows(o->g, o->x, INT64_MAX, 2);
}

static const struct mistake {
    const char *name;
    void (*make)(const operands *o);
    const char *message;
} mistakes[] = {
    {"unknown_activation", unknown_activation, "kind 77; expected one of mega_activation_kind"},
    {"activation_of_labels", activation_of_labels, "x is labels [12] i32; expected 2 dimensions of f32"},
    {"mul_of_two_shapes", mul_of_two_shapes, "b is other [12, 4] f32; expected [12, 3] f32"},
    {"scale_of_labels", scale_of_labels, "x is labels [12] i32; expected 1 dimension of f32"},
    {"mean_of_uneven_groups", mean_of_uneven_groups, "groups of 5 rows of x, which has 12"},
    {"mean_of_no_rows", mean_of_no_rows, "groups of 0 rows of x, which has 12"},
    {"first_rows_of_uneven_groups", first_rows_of_uneven_groups, "op first_rows in \"\": groups of 5 rows of x"},
    {"reshape_to_uneven_rows", reshape_to_uneven_rows, "reshape of x in \"\": 36 elements do not make rows of 7"},
    {"reshape_of_nothing", reshape_of_nothing, "0 elements do not make rows of 1 channels"},
    {"row_sum_of_labels", row_sum_of_labels, "x is labels [12] i32; expected 2 dimensions of f32"},
    {"cross_entropy_of_other_rows", cross_entropy_of_other_rows, "labels is labels [12] i32; expected [3] i32"},
    {"labelled_sum_with_wrong_weights", labelled_sum_with_wrong_weights,
     "weights is vector [3] f32; expected [12] f32"},
    {"error_of_two_shapes", error_of_two_shapes, "target is other [12, 4] f32; expected [12, 3] f32"},
    {"sum_of_nothing", sum_of_nothing, "there is no x; expected [T] f32"},
    {"sum_with_wrong_weights", sum_with_wrong_weights, "expected [3] f32"},
    {"accuracy_without_labels", accuracy_without_labels, "operand 1 is missing"},
    {"accuracy_of_float_labels", accuracy_of_float_labels, "labels is vector [3] f32; expected [3] i32"},
    {"conv2d_of_part_of_an_image", conv2d_of_part_of_an_image, "12 rows are not whole images of 5 x 2 pixels"},
    {"conv2d_window_too_large", conv2d_window_too_large, "a window of 6 pixels does not fit into images of 4 x 3"},
    {"conv2d_without_stride", conv2d_without_stride, "stride 0"},
    {"conv2d_of_huge_windows", conv2d_of_huge_windows, "expected 1 to 32768 pixels"},
    {"conv2d_of_another_filter", conv2d_of_another_filter, "weight is filter [5, 27] f32; expected [5, 3] f32"},
    {"max_pool_padded_too_far", max_pool_padded_too_far, "padding 2, on images of 4 x 3"},
    {"mean_pool_of_part_of_an_image", mean_pool_of_part_of_an_image, "12 rows are not whole images of 5 x 1"},
    {"batch_norm_of_one_row", batch_norm_of_one_row, "groups of 1 rows of x, which has 12"},
    {"batch_norm_of_uneven_groups", batch_norm_of_uneven_groups, "groups of 5 rows of x, which has 12"},
    {"batch_norm_without_epsilon", batch_norm_without_epsilon, "epsilon 0; expected a number above 0"},
    {"batch_norm_with_wide_statistics", batch_norm_with_wide_statistics, "mean is square [3, 3] f32; expected [3] f32"},
    {"statistics_that_are_no_buffer", statistics_that_are_no_buffer, "running mean is vector, which is no buffer"},
    {"batch_norm_with_infinite_epsilon", batch_norm_with_infinite_epsilon, "epsilon inf; expected a number above 0"},
    {"layer_norm_with_tiny_epsilon", layer_norm_with_tiny_epsilon, "epsilon 1e-300; expected a number above 0"},
    {"scale_by_nan", scale_by_nan, "factor nan; expected a finite number"},
    {"scale_by_infinity", scale_by_infinity, "factor -inf; expected a finite number"},
    {"input_too_large", input_too_large, "large would be [1099511627776, 1099511627776] f32, more than"},
    {"results_too_large", results_too_large, "conv2d would be [9223372036854775807, 1] f32, more than"},
    {"filter_too_large", filter_too_large, "expected [5, 9223372036854775807] f32"},
    {"attention_of_other_sinks", attention_of_other_sinks, "sinks is vector [3] f32; expected [1] f32"},
    {"glu_of_negative_limit", glu_of_negative_limit, "limit -1, alpha 1; expected numbers above 0"},
    {"attention_too_large", attention_too_large, "expected [9223372036854775807, 9223372036854775807] f32"},
    {"attention_of_negative_window", attention_of_negative_window,
     "a window of -2 keys to the left and 0 to the right"},
    {"attention_of_negative_cap", attention_of_negative_cap, "soft-cap -1; expected a number above 0"},
    {"attention_of_uneven_heads", attention_of_uneven_heads, "1 heads over 2 key/value heads"},
    {"attention_of_groups_beyond", attention_of_groups_beyond, "groups of 2 from 2; expected"},
    {"attention_without_values", attention_without_values, "one of keys and values is missing"},
    {"attention_causal_to_source", attention_causal_to_source,
     "12 queries and 3 keys of each sequence, causal; expected"},
    {"attention_source_in_one_tensor", attention_source_in_one_tensor, "give keys and values in tensors of their own"},
    {"attention_of_other_ends", attention_of_other_ends, "key_end is vector [3] f32; expected [12] i32"},
    {"attention_of_endless_ring", attention_of_endless_ring, "a ring of 20 positions for 12 new rows and no window"},
    {"attention_of_no_table", attention_of_no_table, "32 buckets of relative positions up to distance 128, without"},
    {"rope_of_odd_channels", rope_of_odd_channels, "3 of the 3 channels of 1 heads in rows of 3"},
    {"heads_of_other_numbers", heads_of_other_numbers, "of 3 heads of 1, in rows of 3, to 0 on of 2 heads of 1"},
    {"channels_that_no_head_has", channels_that_no_head_has, "2 channels from 2 on of 1 heads of 3"},
    {"rope_of_other_rows", rope_of_other_rows, "positions is labels [12] i32; expected [3] i32"},
    {"choices_of_one_row", choices_of_one_row, "choice is labels [12] i32; expected 2 dimensions"},
    {"exchange_of_uneven_rows", exchange_of_uneven_rows, "x has 12 rows for 5 ranks; expected a multiple of them"},
    {"order_of_no_experts", order_of_no_experts, "0 experts from number 0 on; expected 1 or more"},
    {"order_below_first_expert", order_below_first_expert, "2 experts from number -1 on; expected 1 or more"},
    {"too_many_choices", too_many_choices, "4096 choices of each of 1048576 tokens (choice); expected fewer than 2^31"},
    {"expert_rows_of_other_tokens", expert_rows_of_other_tokens, "[3, 4] i32; expected [12, 4] i32"},
    {"combine_with_other_weights", combine_with_other_weights, "weight is square [3, 3] f32; expected [3, 4] f32"},
    {"combine_of_other_rows", combine_of_other_rows, "y is square [3, 3] f32; expected [12, 3] f32"},
    {"send_to_uneven_ranks", send_to_uneven_ranks, "4 experts on 3 ranks; expected a multiple of the ranks"},
    {"send_of_no_rows", send_of_no_rows, "0 rows for each of 2 ranks; expected 1 or more"},
    {"send_of_other_experts", send_of_other_experts, "[3] i32; expected [7] i32"},
    {"received_from_other_ranks", received_from_other_ranks, "[3] i32; expected [6] i32"},
    {"later_rounds_of_other_ranks", later_rounds_of_other_ranks, "[3] i32; expected [6] i32"},
    {"exchange_that_floats_need", exchange_that_floats_need, "needed is vector [3] f32; expected [1] i32"},
    {"experts_of_uneven_weights", experts_of_uneven_weights, "weight (square) has 3 rows for 2 experts"},
    {"experts_of_other_channels", experts_of_other_channels, "weight is other [12, 4] f32; expected [12, 3] f32"},
    {"experts_of_a_flat_bias", experts_of_a_flat_bias, "bias is vector [3] f32; expected [2, 6] f32"},
    {"route_of_labels", route_of_labels, "logits is labels [12] i32; expected 2 dimensions of f32"},
    {"route_by_unknown_score", route_by_unknown_score, "score 9; expected one of mega_route_score"},
    {"route_of_no_choice", route_of_no_choice, "0 choices of 4 experts; expected 1 to 4"},
    {"route_of_five_choices", route_of_five_choices, "5 choices of 4 experts; expected 1 to 4"},
    {"route_normalized_twice", route_normalized_twice, "sum to 1; do not normalize them"},
    {"route_of_near_normalized", route_of_near_normalized, "shares of softmaxes over near logits; do not normalize"},
    {"route_with_useless_margin", route_with_useless_margin, "margin 0.1; expected 0 or more, and 0 unless"},
    {"route_of_near_groups", route_of_near_groups, "groups beside weights of near logits"},
    {"route_with_useless_epsilon", route_with_useless_epsilon, "epsilon 1e-20; expected 0 or more, and 0 if"},
    {"route_scaled_by_nan", route_scaled_by_nan, "expected a finite number, 0 for 1"},
    {"route_with_wide_bias", route_with_wide_bias, "bias is vector [3] f32; expected [4] f32"},
    {"route_of_uneven_groups", route_of_uneven_groups, "3 groups of 4 experts; expected a divisor"},
    {"route_of_groups_without_number", route_of_groups_without_number, "1 chosen groups by their best 1 experts, but"},
    {"route_of_small_groups", route_of_small_groups, "the best 3 experts of groups of 2; expected 1 to 2"},
    {"route_of_too_few_groups", route_of_too_few_groups, "3 experts from 1 of 2 groups of 2; expected as many"},
    {"route_of_many_experts", route_of_many_experts, "2049 experts; expected 1 to 2048"},
    {"jitter_of_one", jitter_of_one, "jitter 1; expected 0 or more, and below 1"},
    {"jitter_without_samples", jitter_without_samples, "operand 1 is missing"},
    {"balance_of_uneven_groups", balance_of_uneven_groups, "groups of 5 rows of other, which has 12"},
    {"balance_of_three_choices", balance_of_three_choices, "the first 3 of 2 choices are counted; expected 1 to 2"},
    {"balance_of_other_rows", balance_of_other_rows, "choice is choices [12, 2] i32; expected [3, 2] i32"},
    {"sinkhorn_of_uneven_groups", sinkhorn_of_uneven_groups, "groups of 5 rows of other, which has 12"},
    {"route_by_other_keys", route_by_other_keys, "keys is square ["},
    {"route_by_keys_of_groups", route_by_keys_of_groups, "a choice by keys from 2 groups; expected 0 groups"},
    {"z_of_labels", z_of_labels, "logits is labels [12] i32; expected 2 dimensions of f32"},
    {"capacity_of_other_weights", capacity_of_other_weights, "weight is other [12, 4] f32; expected [12, 2] f32"},
    {"capacity_of_uneven_groups", capacity_of_uneven_groups, "groups of 5 rows of choices, which has 12"},
    {"capacity_of_few_experts", capacity_of_few_experts, "1 experts and 2 choices of a token; expected as many"},
    {"capacity_of_nothing", capacity_of_nothing, "a capacity of 0, of 2 choices of each of 12 tokens; expected 1"},
    {"load_of_a_vector", load_of_a_vector, "fraction is vector [3] f32; expected 2 dimensions of f32"},
    {"rows_past_the_end", rows_past_the_end, "of x in \"\", which has 12"},
};

static void every_mistake_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        operands o;
        assert_int_equal(mega_graph_create(MEGA_F32, NULL, NULL, &o.g), MEGA_OK);
        o.x = input(o.g, "x", MEGA_F32, 2, 12, 3);
        o.other = input(o.g, "other", MEGA_F32, 2, 12, 4);
        o.square = input(o.g, "square", MEGA_F32, 2, 3, 3);
        o.labels = input(o.g, "labels", MEGA_I32, 1, 12, 0);
        o.vector = input(o.g, "vector", MEGA_F32, 1, 3, 0);
        o.filter = input(o.g, "filter", MEGA_F32, 2, 5, 27);
        assert_int_equal(mega_graph_status(o.g), MEGA_OK);
        mistakes[i].make(&o);
        if (mega_graph_status(o.g) != MEGA_ERR_USAGE || strstr(mega_error_message(), mistakes[i].message) == NULL)
            fail_msg("%s: status %d, \"%s\"; expected \"%s\"", mistakes[i].name, (int)mega_graph_status(o.g),
                     mega_error_message(), mistakes[i].message);
        mega_graph_destroy(o.g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_mistake_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
