/* Cases of the ops that models other than transformers use. Part of test_ops.c. */

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
