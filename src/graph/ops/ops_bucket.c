/* Instructions on buckets, which the place pass inserts: gradients are summed over dp once a bucket is complete, and
 * with ZeRO 3 weights are gathered before their use. One instruction starts the exchange and another waits for it, so
 * that others can run in between. Two more ops are on single gradients that are held in 16 bits. bucket.c executes all
 * of them. */
#include "graph_impl.h"

/* The shape is that of the whole bucket, as a vector. */
static mega_status bucket_shape(const mega_graph *g, const instruction *op, mega_dtype dtype, tensor_shape *out)
{
    out[0] = mega_shape_1d(dtype, mega_params_bucket(g->params, op->attr.bucket)->count);
    return MEGA_OK;
}

static mega_status gradients_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    return bucket_shape(g, op, g->acc, out);
}

static mega_status weights_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    return bucket_shape(g, op, g->dtype, out);
}

/* grads_zero: out is the gradients of a bucket, zeroed except where the first instruction overwrites them. */
const op_row mega_op_row_grads_zero = {OP_ROW(grads_zero, 1, 1, NONE), .optional_in = 1u << 0,
                                       .shape = gradients_shape};

/* reduce_start starts the sum over dp; `in` is the bucket, or absent if the bucket is in the buffers of the
 * parameters. reduce_wait waits for it and adds this rank's part of the sum to its slice. */
const op_row mega_op_row_reduce_start = {OP_ROW(reduce_start, 1, 1, NONE), .optional_in = 1u << 0,
                                         .optional_out = 1u << 0, .shape = gradients_shape};
const op_row mega_op_row_reduce_wait = {OP_ROW(reduce_wait, 1, 1, NONE), .optional_in = 1u << 0,
                                        .optional_out = 1u << 0, .shape = gradients_shape};

static mega_status gradient_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    out[0] = mega_shape_1d(g->acc, mega_params_joined_elements(g->params, op->attr.param));
    return MEGA_OK;
}

/* The held gradient is read and written in its type. (In the first micro-batch of a step it is only written.) */
static op_cost held_grad_add_cost(const mega_graph *g, const instruction *op)
{
    const double held = (double)mega_dtype_size(mega_params_grad_dtype(g->params, op->attr.bucket));
    const double count = (double)mega_params_joined_elements(g->params, op->attr.param);
    return (op_cost){.bytes = count * ((double)mega_dtype_size(g->acc) + 2 * held)};
}

/* held_grad_zero: out is the gradient of a parameter that is held in 16 bits, as the instructions of this micro-batch
 * compute it; it is zeroed unless the first of them overwrites it. held_grad_add adds `in`, which is then complete, to
 * the held one. */
const op_row mega_op_row_held_grad_zero = {OP_ROW(held_grad_zero, 1, 1, NONE), .optional_in = 1u << 0,
                                           .shape = gradient_shape};
const op_row mega_op_row_held_grad_add = {OP_ROW(held_grad_add, 1, 1, NONE), .optional_out = 1u << 0,
                                          .shape = gradient_shape, .cost = held_grad_add_cost};

/* gather_start starts the all-gather of the weights of a bucket into out; gather_wait waits for it. */
const op_row mega_op_row_gather_start = {OP_ROW(gather_start, 1, 1, NONE), .optional_in = 1u << 0,
                                         .shape = weights_shape};
const op_row mega_op_row_gather_wait = {OP_ROW(gather_wait, 1, 1, NONE), .optional_out = 1u << 0,
                                        .shape = weights_shape};
