/* Views: consecutive rows of a tensor, and reshapes. Nothing is copied; the gradient of a view becomes the gradient of
 * the tensor that it shows. */
#include "graph_impl.h"

/* Returns a view of a tensor that starts at element `first` and has this shape. */
static int32_t view_add(mega_graph *g, int32_t of, tensor_shape shape, int64_t first)
{
    const graph_tensor *t = &g->tensor[of];
    const graph_tensor view = {.role = ROLE_VIEW,
                               .base = mega_graph_root(g, of),
                               .rows_of = t->rows_of != 0 ? t->rows_of : of,
                               .shape = shape,
                               .name = t->name,
                               .offset = t->offset + first};
    return mega_graph_tensor_add(g, &view);
}

/* Returns a tensor reshaped to this shape, or the tensor itself if it has that shape. */
static int32_t in_shape(mega_graph *g, int32_t t, tensor_shape shape)
{
    return mega_shape_equal(&g->tensor[t].shape, &shape) ? t : view_add(g, t, shape, 0);
}

/* ---- rows ---- */

mega_tensor mega_op_rows(mega_graph *g, mega_tensor t, int64_t begin, int64_t count)
{
    if (g->status != MEGA_OK) return (mega_tensor){0};
    if (t.id < 0 || t.id >= g->num_tensors) t.id = 0;
    const graph_tensor *of = &g->tensor[t.id];
    const int64_t end = mega_extent_add(begin, count);
    if (t.id == 0 || begin < 0 || count < 1 || end > of->shape.dim[0]) {
        mega_graph_fail(g, MEGA_MISTAKE("rows %lld to %lld of %s in \"%s\", which has %lld", (long long)begin,
                                        (long long)(end - 1), of->name, g->scope.path, (long long)of->shape.dim[0]));
        return (mega_tensor){0};
    }
    tensor_shape shape = of->shape;
    shape.dim[0] = count;
    return (mega_tensor){view_add(g, t.id, shape, begin * (mega_shape_count(&of->shape) / of->shape.dim[0]))};
}

/* ---- reshape ---- */

mega_tensor mega_op_reshape(mega_graph *g, mega_tensor x, int64_t channels)
{
    if (g->status != MEGA_OK) return (mega_tensor){0};
    if (x.id < 0 || x.id >= g->num_tensors) x.id = 0;
    const graph_tensor *of = &g->tensor[x.id];
    const int64_t count = x.id == 0 ? 0 : mega_shape_count(&of->shape);
    if (channels < 1 || count < 1 || count % channels != 0) {
        mega_graph_fail(
            g, MEGA_MISTAKE("reshape of %s in \"%s\": %lld elements do not make rows of %lld channels; expected "
                            "a divisor of them",
                            of->name, g->scope.path, (long long)count, (long long)channels));
        return (mega_tensor){0};
    }
    return (mega_tensor){in_shape(g, x.id, mega_shape_2d(of->shape.dtype, count / channels, channels))};
}

/* ---- gradient ---- */

static int64_t greatest_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Treats both tensors as rows of such a length that the view starts and ends at row boundaries: the rows of the whole
 * tensor, unless the view is also reshaped. */
int32_t mega_graph_view_gradient(mega_graph *g, int32_t view, int32_t gradient)
{
    const graph_tensor v = g->tensor[view], whole = g->tensor[v.rows_of];
    const int64_t all = mega_shape_count(&whole.shape), count = mega_shape_count(&v.shape);
    if (count < all) {
        const int64_t first = v.offset - whole.offset;
        const int64_t cols = greatest_divisor(greatest_divisor(all / whole.shape.dim[0], first), count);
        const tensor_shape rows = mega_shape_2d(v.shape.dtype, count / cols, cols);
        instruction op = {.kind = OP_ROWS_GRAD,
                          .in = {in_shape(g, gradient, rows)},
                          .attr = {.begin = first / cols, .rows = all / cols}};
        gradient = mega_graph_emit(g, &op).id;
    }
    return g->status == MEGA_OK ? in_shape(g, gradient, whole.shape) : 0;
}
