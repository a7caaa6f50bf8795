/* Further cases: generation, losses, and the ops that models other than transformers use. Part of test_ops.c. */

static void take_rows(sketch *k)
{
    mega_graph_output(k->g, mega_op_take_rows(k->g, k->x, input_1d(k, "rows", MEGA_I32, 3)), "y");
}

static void logits(sketch *k)
{
    mega_graph_output(k->g, mega_op_logits(k->g, k->x, param(k, "table")), "y");
}

static void attention_cached(sketch *k)
{
    const mega_attention_shape a = attention_shape(k, 0.0);
    const int64_t dim[3] = {a.batch, a.seq + 5, a.kv_heads * a.head_dim};
    const mega_tensor keys = mega_graph_state(k->g, "keys", k->g->dtype, 3, dim);
    const mega_tensor values = mega_graph_state(k->g, "values", k->g->dtype, 3, dim);
    const mega_tensor t = input_2d(k, "qkv", k->g->dtype, k->s.T, (a.heads + 2 * a.kv_heads) * a.head_dim);
    mega_graph_output(k->g, mega_op_attention_cached(k->g, (mega_attention_qkv){.q = t}, keys, values, &a), "y");
}

/* What is kept is read from the state. */
static void keep(sketch *k)
{
    const int64_t dim[2] = {k->s.T, k->s.C};
    const mega_tensor state = mega_graph_state(k->g, "kept", k->g->dtype, 2, dim);
    mega_op_keep(k->g, mega_op_scale(k->g, k->x, 3.0), state);
    mega_graph_output(k->g, mega_op_add(k->g, state, k->x), "y");
}

/* Returns whether an op is for generation, evaluation or metrics only, so that no loss depends on it. */
static bool only_forward(op_kind kind)
{
    return kind == OP_TAKE_ROWS || kind == OP_ATTENTION_CACHED || kind == OP_ACCURACY || kind == OP_BATCH_NORM_FIXED ||
           kind == OP_SOFTCAP || kind == OP_KEEP || kind == OP_ROUTE_LOAD;
}

static void relu(sketch *k)
{
    result(k, mega_op_activation(k->g, k->x, MEGA_ACT_RELU));
}

static void relu_squared(sketch *k)
{
    result(k, mega_op_activation(k->g, k->x, MEGA_ACT_RELU_SQUARED));
}

static void silu(sketch *k)
{
    result(k, mega_op_activation(k->g, mega_op_bias_add(k->g, k->x, param(k, "bias")), MEGA_ACT_SILU));
}

static void tanh_of(sketch *k)
{
    result(k, mega_op_activation(k->g, k->x, MEGA_ACT_TANH));
}

static void sigmoid(sketch *k)
{
    result(k, mega_op_activation(k->g, k->x, MEGA_ACT_SIGMOID));
}

/* Includes the product of a tensor with itself, whose gradients an add sums. */
static void mul(sketch *k)
{
    result(k, mega_op_mul(k->g, mega_op_mul(k->g, k->x, k->x), other(k)));
}

static void scale(sketch *k)
{
    result(k, mega_op_scale(k->g, k->x, -1.75));
}

static void mean_rows(sketch *k)
{
    result(k, mega_op_mean_rows(k->g, k->x, k->s.T % 2 == 0 ? k->s.T / 2 : k->s.T));
}

static void first_rows(sketch *k)
{
    result(k, mega_op_first_rows(k->g, k->x, k->s.T % 2 == 0 ? k->s.T / 2 : k->s.T));
}

/* The gradient of x is a view of another gradient and is copied for the caller. */
static void reshape(sketch *k)
{
    result(k, mega_op_scale(k->g, mega_op_reshape(k->g, k->x, k->s.T), 3.0));
}

/* Reshapes of an input, a value, rows and a parameter; rows that start inside a row of their base. */
static void reshape_and_rows(sketch *k)
{
    const int64_t c = k->s.C, t = k->s.T;
    const mega_tensor x = mega_op_reshape(k->g, k->x, t), y = mega_op_reshape(k->g, mega_op_mul(k->g, k->x, k->x), t);
    const mega_tensor table = mega_op_rows(k->g, mega_op_reshape(k->g, param(k, "table"), 1), 1, t);
    mega_tensor sum = mega_op_mul(k->g, mega_op_rows(k->g, x, c - 1, 1), mega_op_rows(k->g, y, c / 2, 1));
    sum = mega_op_add(k->g, sum, mega_op_mean_rows(k->g, mega_op_mul(k->g, x, y), c));
    result(k, mega_op_mul(k->g, sum, mega_op_reshape(k->g, table, t)));
}

static void row_sum(sketch *k)
{
    const mega_tensor mask = input_1d(k, "mask", MEGA_F32, k->s.T);
    result(k, mega_op_weighted_sum(k->g, mega_op_row_sum(k->g, mega_op_mul(k->g, k->x, other(k))), mask).sum);
}

/* Some labels are not a valid class. */
static mega_tensor losses_of_rows(const sketch *k)
{
    const mega_tensor x = mega_op_bias_add(k->g, k->x, param(k, "bias"));
    return mega_op_cross_entropy(k->g, x, input_1d(k, "labels", MEGA_I32, k->s.T));
}

static void cross_entropy(sketch *k)
{
    const mega_tensor labels = input_1d(k, "labels", MEGA_I32, k->s.T), mask = input_1d(k, "mask", MEGA_F32, k->s.T);
    const mega_tensor losses = mega_op_cross_entropy(k->g, k->x, labels);
    mega_graph_output(k->g, mega_op_labelled_sum(k->g, labels, mask, k->s.C), "weight");
    mega_graph_output(k->g, mega_op_labelled_sum(k->g, labels, (mega_tensor){0}, k->s.C), "count");
    result(k, mega_op_weighted_sum(k->g, losses, mask).sum);
}

/* The mask has another use, so that the host does not leave rows out of it. */
static void label_weights(sketch *k)
{
    const mega_tensor labels = input_1d(k, "labels", MEGA_I32, k->s.T), mask = input_1d(k, "mask", MEGA_F32, k->s.T);
    const mega_tensor weights = mega_op_label_weights(k->g, labels, mask, k->s.C), x = mega_op_row_sum(k->g, k->x);
    const mega_tensor sum = mega_op_weighted_sum(k->g, x, weights).sum;
    result(k, mega_op_add(k->g, sum, mega_op_weighted_sum(k->g, x, mask).sum));
}

/* A model weights the losses of rows itself. They are values of the acc dtype, which can be added, scaled and
 * viewed. */
static void losses_weighted_by_the_model(sketch *k)
{
    const mega_tensor losses = losses_of_rows(k), mask = input_1d(k, "mask", MEGA_F32, k->s.T);
    const mega_tensor all = mega_op_row_sum(k->g, mega_op_reshape(k->g, losses, k->s.T));
    const mega_tensor last = mega_op_scale(k->g, mega_op_rows(k->g, losses, k->s.T - 1, 1), 0.5);
    const mega_tensor squares = mega_op_weighted_sum(k->g, mega_op_mul(k->g, losses, losses), mask).sum;
    result(k, mega_op_add(k->g, squares, mega_op_add(k->g, all, last)));
}

static void squared_error(sketch *k)
{
    const mega_tensor mask = input_1d(k, "mask", MEGA_F32, k->s.T);
    const mega_loss s = mega_op_weighted_sum(k->g, mega_op_squared_error(k->g, k->x, other(k)), mask);
    mega_graph_output(k->g, s.weight, "weight");
    result(k, s.sum);
}

static void squared_error_of_all_rows(sketch *k)
{
    const mega_tensor none = {0};
    const mega_loss s = mega_op_weighted_sum(k->g, mega_op_squared_error(k->g, k->x, other(k)), none);
    mega_graph_output(k->g, s.weight, "weight");
    result(k, s.sum);
}

static void head_of(sketch *k, double coefficient, mega_head_shape s)
{
    s.valid = k->s.V - 1, s.with_gradient = true;
    const mega_tensor labels = input_1d(k, "labels", MEGA_I32, k->s.T), mask = input_1d(k, "mask", MEGA_F32, k->s.T);
    const mega_tensor x = k->one_rank ? k->x : mega_op_copy_to_group(k->g, k->x, &k->two);
    const mega_head_result r = mega_op_lm_head_loss(k->g, x, param(k, "table"), labels, mask, &s);
    mega_graph_loss(k->g, "loss", r.loss, coefficient);
    mega_graph_output(k->g, r.token_loss, "token_loss");
}

static void head(sketch *k, double coefficient, int64_t chunk)
{
    head_of(k, coefficient, (mega_head_shape){.chunk_rows = chunk});
}

/* A small cap, so that the logits are in the bend of the tanh. */
static void head_capped_with_bias(sketch *k)
{
    head_of(k, 1.0, (mega_head_shape){.chunk_rows = 5, .softcap = 1.5, .bias = param(k, "bias_v")});
}

static void capped_logits(sketch *k)
{
    const mega_head_shape s = {.softcap = 1.5, .bias = param(k, "bias_v")};
    mega_graph_output(k->g, mega_op_head_logits(k->g, k->x, param(k, "table"), &s), "y");
}

static void head_in_chunks(sketch *k)
{
    head(k, 1.0, 5);
}

static void head_per_token(sketch *k)
{
    head(k, 1.0, 0);
}

/* The vocabulary is not sharded: three instructions of each chunk are fused into one. */
static void head_of_one_rank(sketch *k)
{
    head(k, 1.0, 5);
}

static void head_with_coefficient(sketch *k)
{
    head(k, -0.3, 5);
}

static mega_loss error_of(const sketch *k, const char *bias, mega_tensor weights)
{
    const mega_tensor x = mega_op_bias_add(k->g, k->x, param(k, bias));
    return mega_op_weighted_sum(k->g, mega_op_squared_error(k->g, x, other(k)), weights);
}

/* One of two losses is that of a head, as a metric: its gradient is removed from the forward program. */
static void head_as_metric(sketch *k)
{
    mega_graph_loss(k->g, "error", error_of(k, "bias", (mega_tensor){0}), 0.5);
    head(k, 0, 5);
}

static void head_capped_as_metric(sketch *k)
{
    mega_graph_loss(k->g, "error", error_of(k, "bias", (mega_tensor){0}), 0.5);
    head_of(k, 0, (mega_head_shape){.chunk_rows = 5, .softcap = 1.5});
}

static void head_with_another_weight(sketch *k)
{
    const mega_head_shape s = {.valid = k->s.V - 1, .chunk_rows = 5, .with_gradient = true};
    const mega_tensor labels = input_1d(k, "labels", MEGA_I32, k->s.T), mask = input_1d(k, "mask", MEGA_F32, k->s.T);
    const mega_tensor rows = mega_op_squared_error(k->g, k->x, k->x), none = {0};
    const mega_tensor weight = mega_op_weighted_sum(k->g, rows, none).weight; /* the number of rows */
    const mega_head_result r = mega_op_lm_head_loss(k->g, k->x, param(k, "table"), labels, mask, &s);
    mega_graph_loss(k->g, "head", (mega_loss){r.loss.sum, weight}, 2);
}

/* Two losses with different weights, and a metric that reads the same tensors. */
static void two_losses(sketch *k)
{
    const mega_tensor mask = input_1d(k, "mask", MEGA_F32, k->s.T), x = mega_op_bias_add(k->g, k->x, param(k, "gain"));
    mega_graph_loss(k->g, "error", error_of(k, "bias", mask), 0.5);
    mega_graph_loss(k->g, "accuracy", mega_op_accuracy(k->g, x, input_1d(k, "labels", MEGA_I32, k->s.T)), 0);
    const mega_tensor target = input_2d(k, "target", k->g->dtype, k->s.T, k->s.C);
    mega_graph_loss(k->g, "distance",
                    mega_op_weighted_sum(k->g, mega_op_squared_error(k->g, x, target), (mega_tensor){0}), -2);
}

static void accuracy(sketch *k)
{
    const mega_loss s = mega_op_accuracy(k->g, k->x, input_1d(k, "labels", MEGA_I32, k->s.T));
    mega_graph_output(k->g, s.sum, "y");
    mega_graph_output(k->g, s.weight, "weight");
}

/* A metric of values that depend on parameters does not change the gradients of the loss. */
static void accuracy_beside_a_loss(sketch *k)
{
    const mega_tensor x = mega_op_bias_add(k->g, k->x, param(k, "bias"));
    const mega_loss hits = mega_op_accuracy(k->g, x, input_1d(k, "labels", MEGA_I32, k->s.T));
    mega_graph_output(k->g, hits.sum, "hits");
    mega_graph_output(k->g, hits.weight, "labelled");
    result(k, mega_op_weighted_sum(k->g, mega_op_squared_error(k->g, x, other(k)), (mega_tensor){0}).sum);
}

/* A custom op: y = 0.5 a b + a, and s [T, 1], the sum of a^2 over channels. */
static double custom_at(const mega_custom_call *c, const void *x, int64_t i)
{
    return c->dtype == MEGA_F64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static void custom_put(const mega_custom_call *c, void *x, int64_t i, double value)
{
    if (x == NULL) return;
    if (c->dtype == MEGA_F64) ((double *)x)[i] = value;
    else
        ((float *)x)[i] = (float)value;
}

static void custom_shape(const void *self, const int64_t *rows_in, const int64_t *channels_in, int64_t *out_rows,
                         int64_t *out_channels)
{
    (void)self;
    out_rows[0] = out_rows[1] = rows_in[0];
    out_channels[0] = channels_in[0];
    out_channels[1] = 1;
}

static mega_status custom_forward(const void *self, const mega_custom_call *c)
{
    int64_t begin, end;
    const double factor = *(const double *)self;
    mega_team_share(c->rows[0], 1, c->thread, c->num_threads, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        double sum = 0;
        for (int64_t i = r * c->channels[0]; i < (r + 1) * c->channels[0]; i++) {
            const double a = custom_at(c, c->in[0], i);
            custom_put(c, c->out[0], i, factor * a * custom_at(c, c->in[1], i) + a);
            sum += a * a;
        }
        custom_put(c, c->out[1], r, sum);
    }
    return MEGA_OK;
}

static mega_status custom_backward(const void *self, const mega_custom_call *c)
{
    int64_t begin, end;
    const double factor = *(const double *)self;
    mega_team_share(c->rows[0], 1, c->thread, c->num_threads, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const double ds = c->d_out[1] != NULL ? custom_at(c, c->d_out[1], r) : 0;
        for (int64_t i = r * c->channels[0]; i < (r + 1) * c->channels[0]; i++) {
            const double a = custom_at(c, c->in[0], i), dy = c->d_out[0] != NULL ? custom_at(c, c->d_out[0], i) : 0;
            custom_put(c, c->d_in[0], i, dy * (factor * custom_at(c, c->in[1], i) + 1) + 2 * a * ds);
            custom_put(c, c->d_in[1], i, dy * factor * a);
        }
    }
    return MEGA_OK;
}

static const double custom_factor = 0.5;
static const mega_custom_op custom_op = {.name = "product",
                                         .num_in = 2,
                                         .num_out = 2,
                                         .shape = custom_shape,
                                         .forward = custom_forward,
                                         .backward = custom_backward,
                                         .is_row_wise = true};

/* A custom op of two inputs, and one of a value and a parameter whose first output no op reads. */
static void custom(sketch *k)
{
    const mega_builder b = {.graph = k->g, .layout = mega_graph_layout(k->g)};
    const mega_tensor in[2] = {k->x, other(k)};
    mega_tensor out[2], more[2];
    mega_custom(&b, &custom_op, &custom_factor, in, out);
    const mega_tensor of_table[2] = {mega_op_add(k->g, param(k, "table"), param(k, "table")), param(k, "table")};
    mega_custom(&b, &custom_op, &custom_factor, of_table, more);
    const mega_tensor sums = mega_op_add(k->g, mega_op_rows(k->g, out[1], 0, 1), mega_op_rows(k->g, more[1], 1, 1));
    const int64_t count = k->s.T * k->s.C;
    result(k, mega_op_add(k->g, sums, mega_op_mean_rows(k->g, mega_op_reshape(k->g, out[0], 1), count)));
}

/* Rows of an activation through a linear layer of five experts and back. */
static void experts_chosen(sketch *k, const char *name, int64_t slots, int64_t begin, bool has_bias)
{
    const mega_tensor choice = input_2d(k, name, MEGA_I32, k->s.T, slots);
    const mega_tensor weight = input_2d(k, "other", k->g->acc, k->s.T, slots);
    const mega_expert_places at = mega_op_expert_order(k->g, choice, begin, 5);
    const mega_tensor bias = has_bias ? param(k, "expert_bias") : (mega_tensor){0};
    mega_graph_want_gradient(k->g, weight, "d_other");
    const mega_tensor x = mega_op_expert_rows(k->g, mega_op_gelu(k->g, k->x, true), &at);
    const mega_tensor y = mega_op_expert_linear(k->g, x, param(k, "experts"), bias, 0, &at);
    result(k, mega_op_expert_combine(k->g, mega_op_activation(k->g, y, MEGA_ACT_SILU), weight, &at));
}

static void experts(sketch *k)
{
    experts_chosen(k, "choice", 2, 0, true);
}

/* Four experts have no rows. */
static void experts_of_one(sketch *k)
{
    experts_chosen(k, "choice_of_one", 2, 0, false);
}

/* Some choices are no experts of this rank. */
static void experts_outside(sketch *k)
{
    experts_chosen(k, "choice_outside", 3, 0, true);
}

/* The five experts here are those from number 2 on. */
static void experts_from_second(sketch *k)
{
    experts_chosen(k, "choice_of_all", 5, 2, true);
}

static void every_expert(sketch *k)
{
    experts_chosen(k, "choice_of_all", 5, 0, true);
}

/* Two rounds of a rank that sends two rows to each of five, and computes the rows of its expert. */
static void experts_in_rounds(sketch *k)
{
    const mega_expert_rounds rounds = {.ranks = 5, .rank = 2, .experts = 5, .rows = 2, .count = 2};
    const mega_tensor choice = input_2d(k, "choice_outside", MEGA_I32, k->s.T, 3);
    const mega_tensor firsts = input_1d(k, "firsts", MEGA_I32, 5 * 6);
    const mega_tensor weight = input_2d(k, "other", k->g->acc, k->s.T, 3), x = mega_op_gelu(k->g, k->x, true);
    const mega_expert_places order = mega_op_expert_order(k->g, choice, 0, 5);
    mega_tensor sum = {0};
    mega_graph_want_gradient(k->g, weight, "d_other");
    mega_graph_output(k->g, mega_op_expert_later(k->g, firsts, &rounds), "later");
    for (int round = 0; round < 2; round++) {
        const mega_expert_places sent = mega_op_expert_send(k->g, choice, &order, &rounds, round);
        const mega_expert_received_result got = mega_op_expert_received(k->g, firsts, &rounds, round);
        const mega_expert_places here = mega_op_expert_order(k->g, got.choice, 0, 1);
        const mega_tensor rows = mega_op_expert_rows(k->g, mega_op_expert_rows(k->g, x, &sent), &here);
        const mega_tensor y =
            mega_op_expert_combine(k->g, mega_op_activation(k->g, rows, MEGA_ACT_SILU), (mega_tensor){0}, &here);
        const mega_tensor part = mega_op_expert_combine(k->g, y, weight, &sent);
        sum = round == 0 ? part : mega_op_add(k->g, sum, part);
    }
    result(k, sum);
}

/* Two images of 5 x 4 pixels with 3 channels. */
static mega_tensor image(const sketch *k)
{
    const mega_tensor t = input_2d(k, "image", k->g->dtype, 2 * 5 * 4, 3);
    mega_graph_want_gradient(k->g, t, "d_image");
    return t;
}

static void conv2d(sketch *k)
{
    const mega_windows w = {.height = 5, .width = 4, .size = 3, .stride = 1, .padding = 1};
    result(k, mega_op_conv2d(k->g, image(k), param(k, "filter"), param(k, "filter_bias"), &w));
}

/* No window covers the last column of pixels, and there is no bias. */
static void conv2d_stride(sketch *k)
{
    const mega_windows w = {.height = 5, .width = 4, .size = 3, .stride = 2, .padding = 0};
    result(k, mega_op_conv2d(k->g, image(k), param(k, "filter"), (mega_tensor){0}, &w));
}

static void conv2d_of_a_pixel(sketch *k)
{
    const mega_windows w = {.height = 5, .width = 4, .size = 1, .stride = 1, .padding = 0};
    result(k, mega_op_conv2d(k->g, image(k), param(k, "filter_of_a_pixel"), param(k, "filter_bias"), &w));
}

static void max_pool2d(sketch *k)
{
    const mega_windows w = {.height = 5, .width = 4, .size = 3, .stride = 2, .padding = 1};
    result(k, mega_op_max_pool2d(k->g, image(k), &w));
}

static void mean_pool2d(sketch *k)
{
    const mega_windows w = {.height = 5, .width = 4, .size = 3, .stride = 1, .padding = 1};
    result(k, mega_op_mean_pool2d(k->g, image(k), &w));
}

/* Four groups of ten pixels. */
static void batch_norm(sketch *k)
{
    const mega_batch_norm_result r =
        mega_op_batch_norm(k->g, image(k), param(k, "channel_gain"), param(k, "channel_bias"), 10, 1e-5);
    mega_graph_output(k->g, r.mean, "mean");
    mega_graph_output(k->g, r.var, "var");
    result(k, r.y);
}

/* The update of running statistics is not a gradient; the test compares the fast kernel with the plain one. */
static void batch_norm_running(sketch *k)
{
    const mega_batch_norm_running running = {param(k, "running_mean"), param(k, "running_var"), 0.2};
    result(k, mega_op_batch_norm_running(k->g, image(k), param(k, "channel_gain"), param(k, "channel_bias"), &running,
                                         10, 1e-5)
                  .y);
}

static void batch_norm_fixed(sketch *k)
{
    const mega_tensor mean = input_1d(k, "mean", k->g->acc, 3), var = input_1d(k, "mask", k->g->acc, 3);
    const mega_tensor x = input_2d(k, "image", k->g->dtype, 40, 3);
    const mega_tensor gain = param(k, "channel_gain"), bias = param(k, "channel_bias");
    mega_graph_output(k->g, mega_op_batch_norm_fixed(k->g, x, gain, bias, mean, var, 0.5), "y");
}
