/* Shapes of tensors, and the checks of operands that shape rules use. */
#include "graph_impl.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

int64_t mega_shape_count(const tensor_shape *s)
{
    int64_t n = 1;
    for (int d = 0; d < s->num_dims; d++) n = mega_extent_mul(n, s->dim[d]);
    return n;
}

size_t mega_shape_bytes(const tensor_shape *s)
{
    return (size_t)mega_shape_count(s) * mega_dtype_size(s->dtype);
}

bool mega_shape_equal(const tensor_shape *a, const tensor_shape *b)
{
    return a->dtype == b->dtype && a->num_dims == b->num_dims &&
           memcmp(a->dim, b->dim, (size_t)a->num_dims * sizeof a->dim[0]) == 0;
}

const char *mega_shape_text(char *out, int size, const tensor_shape *s)
{
    int n = snprintf(out, (size_t)size, "[");
    for (int d = 0; d < s->num_dims && n < size; d++)
        n += snprintf(out + n, (size_t)(size - n), "%s%lld", d == 0 ? "" : ", ", (long long)s->dim[d]);
    if (n < size) snprintf(out + n, (size_t)(size - n), "] %s", mega_dtype_name(s->dtype));
    return out;
}

tensor_shape mega_shape_1d(mega_dtype dtype, int64_t n)
{
    return (tensor_shape){dtype, 1, {n, 0, 0, 0}};
}

tensor_shape mega_shape_2d(mega_dtype dtype, int64_t rows, int64_t cols)
{
    return (tensor_shape){dtype, 2, {rows, cols, 0, 0}};
}

static mega_status wrong_operand(const mega_graph *g, const instruction *op, int in, const char *what,
                                 const char *expected)
{
    char found[96];
    const graph_tensor *t = &g->tensor[op->in[in]];
    return MEGA_MISTAKE("op %s in \"%s\": %s is %s %s; expected %s", mega_op_table[op->kind]->name, op->scope, what,
                        t->name, mega_shape_text(found, sizeof found, &t->shape), expected);
}

mega_status mega_op_check_epsilon(const instruction *op)
{
    if (op->attr.eps >= FLT_MIN && op->attr.eps <= FLT_MAX) return MEGA_OK;
    return MEGA_MISTAKE("op %s in \"%s\": epsilon %g; expected a number above 0, such as 1e-5 (from %g to %g)",
                        mega_op_table[op->kind]->name, op->scope, op->attr.eps, (double)FLT_MIN, (double)FLT_MAX);
}

mega_status mega_op_check_operand(const mega_graph *g, const instruction *op, int in, const char *what,
                                  tensor_shape expected)
{
    char text[96];
    if (op->in[in] == 0 || mega_shape_equal(&g->tensor[op->in[in]].shape, &expected)) return MEGA_OK;
    return wrong_operand(g, op, in, what, mega_shape_text(text, sizeof text, &expected));
}

mega_status mega_op_check_dims(const mega_graph *g, const instruction *op, int in, const char *what, mega_dtype dtype,
                               int num_dims)
{
    char text[64];
    const tensor_shape *s = mega_op_in(g, op, in);
    if (op->in[in] == 0 || (s->dtype == dtype && s->num_dims == num_dims)) return MEGA_OK;
    snprintf(text, sizeof text, "%d dimension%s of %s", num_dims, num_dims == 1 ? "" : "s", mega_dtype_name(dtype));
    return wrong_operand(g, op, in, what, text);
}
