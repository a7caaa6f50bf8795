/* Ops with windows that move over images: convolution and pooling. Images are [samples * height * width, C]: a row is a
 * pixel. */
#include "op_members.h"

/* Operands. */
enum { CONV2D_X, CONV2D_WEIGHT, CONV2D_BIAS };
enum { CONV2D_GRAD_X_DY, CONV2D_GRAD_X_WEIGHT };
enum { CONV2D_GRAD_W_DY, CONV2D_GRAD_W_X };
enum { CONV2D_GRAD_W_DWEIGHT, CONV2D_GRAD_W_DBIAS };
enum { MAX_POOL2D_Y, MAX_POOL2D_INDEX };
enum { MAX_POOL2D_GRAD_DY, MAX_POOL2D_GRAD_INDEX };

/* Limit on pixels along one direction of an image or window; a product of two such numbers cannot overflow. */
#define WINDOWS_MOST 32768

/* Returns *windows; for NULL, windows that fit no image. */
static mega_windows windows_given(const mega_windows *windows)
{
    return windows != NULL ? *windows : (mega_windows){0};
}

static bool windows_in_range(int64_t x, int64_t least)
{
    return x >= least && x <= WINDOWS_MOST;
}

/* Checks windows; `rows` is the number of pixels of all images. */
static mega_status windows_check(const instruction *op, int64_t rows, int64_t most_padding)
{
    const mega_windows *w = &op->attr.windows;
    const char *name = mega_op_table[op->kind]->name;
    if (!windows_in_range(w->height, 1) || !windows_in_range(w->width, 1) || !windows_in_range(w->size, 1) ||
        !windows_in_range(w->stride, 1) || w->padding < 0 || w->padding > most_padding)
        return MEGA_MISTAKE(
            "op %s in \"%s\": windows of %lld pixels, stride %lld, padding %lld, on images of %lld x %lld; "
            "expected 1 to %d pixels, and a padding of 0 to %lld",
            name, op->scope, (long long)w->size, (long long)w->stride, (long long)w->padding, (long long)w->height,
            (long long)w->width, WINDOWS_MOST, (long long)most_padding);
    if (w->height + 2 * w->padding < w->size || w->width + 2 * w->padding < w->size)
        return MEGA_MISTAKE(
            "op %s in \"%s\": a window of %lld pixels does not fit into images of %lld x %lld with a padding "
            "of %lld; use a smaller window or more padding",
            name, op->scope, (long long)w->size, (long long)w->height, (long long)w->width, (long long)w->padding);
    if (rows % (w->height * w->width) != 0)
        return MEGA_MISTAKE("op %s in \"%s\": %lld rows are not whole images of %lld x %lld pixels; a row is a pixel",
                            name, op->scope, (long long)rows, (long long)w->height, (long long)w->width);
    return MEGA_OK;
}

static int64_t windows_samples(const mega_windows *w, int64_t rows)
{
    return rows / (w->height * w->width);
}

/* Returns the number of pixels in the results for this many samples. */
static int64_t windows_rows(const mega_windows *w, int64_t samples)
{
    return mega_extent_mul(samples, mega_windows_along(w, w->height) * mega_windows_along(w, w->width));
}

/* ---- conv2d: in x [n*h*w, C], weight [O, C*size*size], bias [O] or none; out [n*h'*w', O] ---- */

mega_tensor mega_op_conv2d(mega_graph *g, mega_tensor x, mega_tensor weight, mega_tensor bias,
                           const mega_windows *windows)
{
    instruction op = {.kind = OP_CONV2D,
                      .in = {[CONV2D_X] = x.id, [CONV2D_WEIGHT] = weight.id, [CONV2D_BIAS] = bias.id},
                      .attr = {.windows = windows_given(windows)}};
    return mega_graph_emit(g, &op);
}

static mega_status conv2d_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const mega_windows *w = &op->attr.windows;
    MEGA_TRY(mega_op_check_dims(g, op, CONV2D_X, "x", g->dtype, 2));
    MEGA_TRY(mega_op_check_dims(g, op, CONV2D_WEIGHT, "weight", g->dtype, 2));
    const int64_t rows = mega_op_in_dim(g, op, CONV2D_X, 0), outputs = mega_op_in_dim(g, op, CONV2D_WEIGHT, 0);
    MEGA_TRY(windows_check(op, rows, WINDOWS_MOST));
    const int64_t window = mega_extent_mul(mega_op_in_dim(g, op, CONV2D_X, 1), w->size * w->size);
    MEGA_TRY(mega_op_check_operand(g, op, CONV2D_WEIGHT, "weight", mega_shape_2d(g->dtype, outputs, window)));
    MEGA_TRY(mega_op_check_operand(g, op, CONV2D_BIAS, "bias", mega_shape_1d(g->dtype, outputs)));
    out[0] = mega_shape_2d(g->dtype, windows_rows(w, windows_samples(w, rows)), outputs);
    return MEGA_OK;
}

static void conv2d_gradient(mega_graph *g, const instruction *op)
{
    const int32_t dy = mega_graph_output_gradient(g, op, 0);
    if (g->tensor[op->in[CONV2D_X]].needs_gradient) {
        instruction x = {.kind = OP_CONV2D_GRAD_X,
                         .in = {[CONV2D_GRAD_X_DY] = dy, [CONV2D_GRAD_X_WEIGHT] = op->in[CONV2D_WEIGHT]},
                         .attr = op->attr};
        mega_graph_gradient_add(g, op->in[CONV2D_X], mega_graph_emit(g, &x).id);
    }
    instruction w = {.kind = OP_CONV2D_GRAD_W,
                     .in = {[CONV2D_GRAD_W_DY] = dy, [CONV2D_GRAD_W_X] = op->in[CONV2D_X]},
                     .out = {[CONV2D_GRAD_W_DWEIGHT] = mega_graph_gradient_tensor(g, op->in[CONV2D_WEIGHT]),
                             [CONV2D_GRAD_W_DBIAS] =
                                 op->in[CONV2D_BIAS] == 0 ? 0 : mega_graph_gradient_tensor(g, op->in[CONV2D_BIAS])},
                     .attr = op->attr};
    mega_graph_emit(g, &w);
}

/* Each of the three GEMMs (forward and two gradients) multiplies every row of y by a window for each output. */
static op_cost conv2d_cost_of(const mega_graph *g, const instruction *op, int64_t rows, int64_t outputs, int64_t in)
{
    const int64_t size = op->attr.windows.size;
    op_cost c = mega_op_traffic(g, op);
    c.flops = 2.0 * (double)rows * (double)outputs * (double)(in * size * size);
    return c;
}

static op_cost conv2d_cost(const mega_graph *g, const instruction *op)
{
    const tensor_shape *y = &g->tensor[op->out[0]].shape;
    return conv2d_cost_of(g, op, y->dim[0], y->dim[1], mega_op_in_dim(g, op, CONV2D_X, 1));
}

static void conv2d_bind(const op_binder *b, const instruction *op, void *args)
{
    ((mega_conv2d_args *)args)->samples = windows_samples(&op->attr.windows, mega_op_in_dim(b->g, op, CONV2D_X, 0));
}

const op_row mega_op_row_conv2d = {
    OP_ROW(conv2d, 3, 1, conv2d),
    .optional_in = 1u << CONV2D_BIAS,
    .shape = conv2d_shape,
    .gradient = conv2d_gradient,
    .cost = conv2d_cost,
    .members = MEMBERS(OUT(conv2d, y, 0), IN(conv2d, x, CONV2D_X), IN(conv2d, weight, CONV2D_WEIGHT),
                       IN(conv2d, bias, CONV2D_BIAS), ATTR(conv2d, windows, windows),
                       DIM(conv2d, in_channels, CONV2D_X, 1), DIM(conv2d, out_channels, CONV2D_WEIGHT, 0)),
    .bind = conv2d_bind};

/* ---- conv2d_grad_x: in dy [n*h'*w', O], weight [O, C*size*size]; out dx [n*h*w, C] ---- */

static int64_t conv2d_samples_of_dy(const mega_graph *g, const instruction *op)
{
    return mega_op_in_dim(g, op, CONV2D_GRAD_X_DY, 0) / windows_rows(&op->attr.windows, 1);
}

static mega_status conv2d_grad_x_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const mega_windows *w = &op->attr.windows;
    MEGA_TRY(mega_op_check_dims(g, op, CONV2D_GRAD_X_DY, "dy", g->dtype, 2));
    MEGA_TRY(mega_op_check_dims(g, op, CONV2D_GRAD_X_WEIGHT, "weight", g->dtype, 2));
    const int64_t window = mega_op_in_dim(g, op, CONV2D_GRAD_X_WEIGHT, 1), samples = conv2d_samples_of_dy(g, op);
    MEGA_TRY(mega_op_check_operand(g, op, CONV2D_GRAD_X_WEIGHT, "weight",
                                   mega_shape_2d(g->dtype, mega_op_in_dim(g, op, CONV2D_GRAD_X_DY, 1), window)));
    out[0] = mega_shape_2d(g->dtype, samples * w->height * w->width, window / (w->size * w->size));
    return MEGA_OK;
}

static op_cost conv2d_grad_x_cost(const mega_graph *g, const instruction *op)
{
    const tensor_shape *dy = mega_op_in(g, op, CONV2D_GRAD_X_DY);
    return conv2d_cost_of(g, op, dy->dim[0], dy->dim[1], g->tensor[op->out[0]].shape.dim[1]);
}

static void conv2d_grad_x_bind(const op_binder *b, const instruction *op, void *args)
{
    ((mega_conv2d_grad_x_args *)args)->samples = conv2d_samples_of_dy(b->g, op);
}

const op_row mega_op_row_conv2d_grad_x = {
    OP_ROW(conv2d_grad_x, 2, 1, conv2d_grad_x), .shape = conv2d_grad_x_shape, .cost = conv2d_grad_x_cost,
    .members =
        MEMBERS(OUT(conv2d_grad_x, dx, 0), IN(conv2d_grad_x, dy, CONV2D_GRAD_X_DY),
                IN(conv2d_grad_x, weight, CONV2D_GRAD_X_WEIGHT), ATTR(conv2d_grad_x, windows, windows),
                OUT_DIM(conv2d_grad_x, in_channels, 0, 1), DIM(conv2d_grad_x, out_channels, CONV2D_GRAD_X_DY, 1)),
    .bind = conv2d_grad_x_bind};

/* ---- conv2d_grad_w: in dy [n*h'*w', O], x [n*h*w, C]; out dweight [O, C*size*size] acc, dbias [O] acc or none; both
 *      accumulated ---- */

static mega_status conv2d_grad_w_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const mega_windows *w = &op->attr.windows;
    MEGA_TRY(mega_op_check_dims(g, op, CONV2D_GRAD_W_DY, "dy", g->dtype, 2));
    MEGA_TRY(mega_op_check_dims(g, op, CONV2D_GRAD_W_X, "x", g->dtype, 2));
    const int64_t outputs = mega_op_in_dim(g, op, CONV2D_GRAD_W_DY, 1),
                  rows = mega_op_in_dim(g, op, CONV2D_GRAD_W_X, 0);
    const int64_t results = windows_rows(w, windows_samples(w, rows));
    MEGA_TRY(mega_op_check_operand(g, op, CONV2D_GRAD_W_DY, "dy", mega_shape_2d(g->dtype, results, outputs)));
    out[CONV2D_GRAD_W_DWEIGHT] =
        mega_shape_2d(g->acc, outputs, mega_extent_mul(mega_op_in_dim(g, op, CONV2D_GRAD_W_X, 1), w->size * w->size));
    out[CONV2D_GRAD_W_DBIAS] = mega_shape_1d(g->acc, outputs);
    return MEGA_OK;
}

static op_cost conv2d_grad_w_cost(const mega_graph *g, const instruction *op)
{
    const tensor_shape *dy = mega_op_in(g, op, CONV2D_GRAD_W_DY);
    return conv2d_cost_of(g, op, dy->dim[0], dy->dim[1], mega_op_in_dim(g, op, CONV2D_GRAD_W_X, 1));
}

static void conv2d_grad_w_bind(const op_binder *b, const instruction *op, void *args)
{
    ((mega_conv2d_grad_w_args *)args)->samples =
        windows_samples(&op->attr.windows, mega_op_in_dim(b->g, op, CONV2D_GRAD_W_X, 0));
}

const op_row mega_op_row_conv2d_grad_w = {
    OP_ROW(conv2d_grad_w, 2, 2, conv2d_grad_w),
    .optional_out = 1u << CONV2D_GRAD_W_DBIAS,
    .accumulates = 1u << CONV2D_GRAD_W_DWEIGHT | 1u << CONV2D_GRAD_W_DBIAS,
    .shape = conv2d_grad_w_shape,
    .cost = conv2d_grad_w_cost,
    .members =
        MEMBERS(OUT(conv2d_grad_w, dweight, CONV2D_GRAD_W_DWEIGHT), OUT(conv2d_grad_w, dbias, CONV2D_GRAD_W_DBIAS),
                IN(conv2d_grad_w, dy, CONV2D_GRAD_W_DY), IN(conv2d_grad_w, x, CONV2D_GRAD_W_X),
                ATTR(conv2d_grad_w, windows, windows), DIM(conv2d_grad_w, in_channels, CONV2D_GRAD_W_X, 1),
                DIM(conv2d_grad_w, out_channels, CONV2D_GRAD_W_DY, 1)),
    .bind = conv2d_grad_w_bind};

/* ---- max_pool2d: in x [n*h*w, C]; out y [n*h'*w', C], index [n*h'*w', C] i32 (the pixel of the largest) ---- */

mega_tensor mega_op_max_pool2d(mega_graph *g, mega_tensor x, const mega_windows *windows)
{
    instruction op = {.kind = OP_MAX_POOL2D, .in = {x.id}, .attr = {.windows = windows_given(windows)}};
    return mega_graph_emit(g, &op);
}

/* With a padding of at most half a window, every window covers at least one pixel. */
static mega_status pool2d_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const mega_windows *w = &op->attr.windows;
    MEGA_TRY(mega_op_check_dims(g, op, 0, "x", g->dtype, 2));
    const int64_t rows = mega_op_in_dim(g, op, 0, 0);
    MEGA_TRY(windows_check(op, rows, w->size / 2));
    out[0] = mega_shape_2d(g->dtype, windows_rows(w, windows_samples(w, rows)), mega_op_in_dim(g, op, 0, 1));
    out[1] = mega_shape_2d(MEGA_I32, out[0].dim[0], out[0].dim[1]);
    return MEGA_OK;
}

static void max_pool2d_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_MAX_POOL2D_GRAD,
                     .in = {[MAX_POOL2D_GRAD_DY] = mega_graph_output_gradient(g, op, MAX_POOL2D_Y),
                            [MAX_POOL2D_GRAD_INDEX] = op->out[MAX_POOL2D_INDEX]},
                     .attr = op->attr};
    mega_graph_gradient_add(g, op->in[0], mega_graph_emit(g, &d).id);
}

static void max_pool2d_bind(const op_binder *b, const instruction *op, void *args)
{
    ((mega_max_pool2d_args *)args)->samples = windows_samples(&op->attr.windows, mega_op_in_dim(b->g, op, 0, 0));
}

const op_row mega_op_row_max_pool2d = {
    OP_ROW(max_pool2d, 1, 2, max_pool2d), .shape = pool2d_shape, .gradient = max_pool2d_gradient,
    .members = MEMBERS(OUT(max_pool2d, y, MAX_POOL2D_Y), OUT(max_pool2d, index, MAX_POOL2D_INDEX), IN(max_pool2d, x, 0),
                       ATTR(max_pool2d, windows, windows), DIM(max_pool2d, channels, 0, 1)),
    .bind = max_pool2d_bind};

/* ---- max_pool2d_grad: in dy [n*h'*w', C], index; out dx [n*h*w, C] ---- */

static mega_status pool2d_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const mega_windows *w = &op->attr.windows;
    MEGA_TRY(mega_op_check_dims(g, op, 0, "dy", g->dtype, 2));
    const int64_t rows = mega_op_in_dim(g, op, 0, 0), cols = mega_op_in_dim(g, op, 0, 1);
    if (op->kind == OP_MAX_POOL2D_GRAD)
        MEGA_TRY(mega_op_check_operand(g, op, 1, "index", mega_shape_2d(MEGA_I32, rows, cols)));
    out[0] = mega_shape_2d(g->dtype, rows / windows_rows(w, 1) * w->height * w->width, cols);
    return MEGA_OK;
}

static void max_pool2d_grad_bind(const op_binder *b, const instruction *op, void *args)
{
    ((mega_max_pool2d_grad_args *)args)->samples =
        mega_op_in_dim(b->g, op, MAX_POOL2D_GRAD_DY, 0) / windows_rows(&op->attr.windows, 1);
}

const op_row mega_op_row_max_pool2d_grad = {
    OP_ROW(max_pool2d_grad, 2, 1, max_pool2d_grad), .shape = pool2d_grad_shape,
    .members = MEMBERS(OUT(max_pool2d_grad, dx, 0), IN(max_pool2d_grad, dy, MAX_POOL2D_GRAD_DY),
                       IN(max_pool2d_grad, index, MAX_POOL2D_GRAD_INDEX), ATTR(max_pool2d_grad, windows, windows),
                       DIM(max_pool2d_grad, channels, MAX_POOL2D_GRAD_DY, 1)),
    .bind = max_pool2d_grad_bind};

/* ---- mean_pool2d: in x [n*h*w, C]; out y [n*h'*w', C] ---- */

mega_tensor mega_op_mean_pool2d(mega_graph *g, mega_tensor x, const mega_windows *windows)
{
    instruction op = {.kind = OP_MEAN_POOL2D, .in = {x.id}, .attr = {.windows = windows_given(windows)}};
    return mega_graph_emit(g, &op);
}

static void mean_pool2d_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_MEAN_POOL2D_GRAD, .in = {mega_graph_output_gradient(g, op, 0)}, .attr = op->attr};
    mega_graph_gradient_add(g, op->in[0], mega_graph_emit(g, &d).id);
}

static void mean_pool2d_bind(const op_binder *b, const instruction *op, void *args)
{
    ((mega_mean_pool2d_args *)args)->samples = windows_samples(&op->attr.windows, mega_op_in_dim(b->g, op, 0, 0));
}

const op_row mega_op_row_mean_pool2d = {
    OP_ROW(mean_pool2d, 1, 1, mean_pool2d), .shape = pool2d_shape, .gradient = mean_pool2d_gradient,
    .members = MEMBERS(OUT(mean_pool2d, y, 0), IN(mean_pool2d, x, 0), ATTR(mean_pool2d, windows, windows),
                       DIM(mean_pool2d, channels, 0, 1)),
    .bind = mean_pool2d_bind};

/* ---- mean_pool2d_grad: in dy [n*h'*w', C]; out dx [n*h*w, C] ---- */

static void mean_pool2d_grad_bind(const op_binder *b, const instruction *op, void *args)
{
    ((mega_mean_pool2d_grad_args *)args)->samples = mega_op_in_dim(b->g, op, 0, 0) / windows_rows(&op->attr.windows, 1);
}

const op_row mega_op_row_mean_pool2d_grad = {
    OP_ROW(mean_pool2d_grad, 1, 1, mean_pool2d_grad), .shape = pool2d_grad_shape,
    .members = MEMBERS(OUT(mean_pool2d_grad, dx, 0), IN(mean_pool2d_grad, dy, 0),
                       ATTR(mean_pool2d_grad, windows, windows), DIM(mean_pool2d_grad, channels, 0, 1)),
    .bind = mean_pool2d_grad_bind};
