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

/* grads_begin: out is the gradients of a bucket, zeroed except where the first instruction overwrites them. */
const op_row mega_op_row_grads_begin = {OP_ROW(grads_begin, 1, 1, NONE), .optional_in = 1u << 0,
                                        .shape = gradients_shape};

/* grads_reduce starts the sum over dp; `in` is the bucket, or absent if the bucket is in the buffers of the parameters.
 * grads_reduced waits for it and adds this rank's part of the sum to its slice. */
const op_row mega_op_row_grads_reduce = {OP_ROW(grads_reduce, 1, 1, NONE), .optional_in = 1u << 0,
                                         .optional_out = 1u << 0, .shape = gradients_shape};
const op_row mega_op_row_grads_reduced = {OP_ROW(grads_reduced, 1, 1, NONE), .optional_in = 1u << 0,
                                          .optional_out = 1u << 0, .shape = gradients_shape};

static mega_status gradient_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    out[0] = mega_shape_1d(g->acc, mega_params_get(g->params, op->attr.param)->count);
    return MEGA_OK;
}

/* The held gradient is read and written in its type. (In the first micro-batch of a step it is only written.) */
static op_cost keep_cost(const mega_graph *g, const instruction *op)
{
    const double held = (double)mega_dtype_size(mega_params_grad_dtype(g->params, op->attr.bucket));
    const double count = (double)mega_params_get(g->params, op->attr.param)->count;
    return (op_cost){.bytes = count * ((double)mega_dtype_size(g->acc) + 2 * held)};
}

/* grad_begin: out is the gradient of a parameter that is held in 16 bits, as the instructions of this micro-batch
 * compute it; it is zeroed unless the first of them overwrites it. grad_keep adds `in`, which is then complete, to the
 * held one. */
const op_row mega_op_row_grad_begin = {OP_ROW(grad_begin, 1, 1, NONE), .optional_in = 1u << 0, .shape = gradient_shape};
const op_row mega_op_row_grad_keep = {OP_ROW(grad_keep, 1, 1, NONE), .optional_out = 1u << 0, .shape = gradient_shape,
                                      .cost = keep_cost};

/* weights_gather starts the all-gather of the weights of a bucket into out; weights_gathered waits for it. */
const op_row mega_op_row_weights_gather = {OP_ROW(weights_gather, 1, 1, NONE), .optional_in = 1u << 0,
                                           .shape = weights_shape};
const op_row mega_op_row_weights_gathered = {OP_ROW(weights_gathered, 1, 1, NONE), .optional_out = 1u << 0,
                                             .shape = weights_shape};
