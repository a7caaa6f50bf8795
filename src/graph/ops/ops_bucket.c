/* Buckets as instructions, written by the place pass: gradients of the ranks of dp are summed where a bucket of them is
 * complete, and with ZeRO 3 weights are gathered before they are used. Started in one instruction and waited for in
 * another, so that others may stand between. What they do is in bucket.c. */
#include "graph_impl.h"

/* The whole bucket, as one row of numbers. */
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

/* grads_begin: out the gradients of a bucket, zero where their first instruction adds to them. */
const op_row mega_op_row_grads_begin = {
    .name = "grads_begin", .num_in = 1, .num_out = 1, .optional_in = 1u << 0, .shape = gradients_shape};

/* grads_reduce starts the sum over dp; in the bucket, or none where it lies among the parameters' buffers.
 * grads_reduced waits for it and adds what is this rank's to its slice. */
const op_row mega_op_row_grads_reduce = {.name = "grads_reduce",
                                         .num_in = 1,
                                         .num_out = 1,
                                         .optional_in = 1u << 0,
                                         .optional_out = 1u << 0,
                                         .shape = gradients_shape};
const op_row mega_op_row_grads_reduced = {.name = "grads_reduced",
                                          .num_in = 1,
                                          .num_out = 1,
                                          .optional_in = 1u << 0,
                                          .optional_out = 1u << 0,
                                          .shape = gradients_shape};

/* weights_gather starts to fill out, the weights of a bucket; weights_gathered waits for it. */
const op_row mega_op_row_weights_gather = {
    .name = "weights_gather", .num_in = 1, .num_out = 1, .optional_in = 1u << 0, .shape = weights_shape};
const op_row mega_op_row_weights_gathered = {
    .name = "weights_gathered", .num_in = 1, .num_out = 1, .optional_out = 1u << 0, .shape = weights_shape};
