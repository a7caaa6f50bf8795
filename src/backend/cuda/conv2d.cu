/* Convolution of images and its gradients by multiply-adds (ops_image.h): matrix products whose operands are gathered
 * from the images, without a matrix of the windows in memory. A block has 64 x 64 numbers of the result, a thread
 * 4 x 4. Along what is summed up the channels are consecutive, as in the images. */
#include "windows.h"

typedef struct conv_shared {
    float a[CONV_DEPTH][CONV_TILE + 4], b[CONV_DEPTH][CONV_TILE + 4];
} conv_shared;

typedef struct conv_sums {
    float v[4][4]; /* rows thread_x() / 16 * 4 and columns thread_x() % 16 * 4 of the tile, and the next three */
} conv_sums;

BODY conv_sums conv_zero(void)
{
    conv_sums r;
    UNROLL
    for (int i = 0; i < 16; i++) r.v[i / 4][i % 4] = 0.0f;
    return r;
}

/* Adds the products of what the block has gathered, and waits until all of it has been read. */
BODY void conv_multiply(conv_sums *r, const conv_shared *s)
{
    const unsigned m = thread_x() / 16 * 4, n = thread_x() % 16 * 4;
    block_barrier();
    UNROLL
    for (int k = 0; k < CONV_DEPTH; k++) {
        UNROLL
        for (int i = 0; i < 16; i++)
            r->v[i / 4][i % 4] =
                device_fma(s->a[k][m + (unsigned)i / 4], s->b[k][n + (unsigned)i % 4], r->v[i / 4][i % 4]);
    }
    block_barrier();
}

/* A weight of a kernel: its pixel of the window, and its channel. */
typedef struct conv_tap {
    int i, j;
    int64_t channel;
} conv_tap;

BODY conv_tap conv_tap_of(int64_t k, int64_t channels, int64_t size)
{
    const unsigned pixel = (unsigned)k / (unsigned)channels;
    conv_tap tap;
    tap.channel = (unsigned)k - pixel * (unsigned)channels;
    tap.i = (int)(pixel / (unsigned)size);
    tap.j = (int)(pixel - (unsigned)tap.i * (unsigned)size);
    return tap;
}

/* Where [out, in, i, j] is in a weight. */
BODY int64_t conv_weight_at(const mega_windows *w, int64_t out, int64_t in, int64_t in_channels, conv_tap tap)
{
    return ((out * in_channels + in) * w->size + tap.i) * w->size + tap.j;
}

/* The number of a window that a weight is multiplied with; 0 outside of the image. */
BODY float conv_pixel(const void *x, mega_dtype t, const mega_windows *w, int64_t channels, window_corner at,
                      conv_tap tap)
{
    const int y = at.top + tap.i, column = at.left + tap.j;
    if (y < 0 || y >= w->height || column < 0 || column >= w->width) return 0.0f;
    return get(x, t, (at.image + y * w->width + column) * channels + tap.channel);
}

BODY void conv2d_run(const mega_conv2d_args *a, mega_dtype t)
{
    SHARED(conv_shared, s);
    const mega_windows *const w = &a->windows;
    const int64_t rows = a->samples * windows_along(w, w->height) * windows_along(w, w->width);
    const int64_t depth = a->in_channels * w->size * w->size, m0 = (int64_t)block_x() * CONV_TILE;
    const int64_t n0 = (int64_t)block_y() * CONV_TILE;
    const unsigned lane = thread_x() % CONV_DEPTH, own = thread_x() / CONV_DEPTH;
    window_corner at[4];
    UNROLL
    for (int i = 0; i < 4; i++) at[i] = window_corner_of(w, m0 + own + 16 * i);
    conv_sums r = conv_zero();
    for (int64_t k = lane; k - lane < depth; k += CONV_DEPTH) {
        const conv_tap tap = conv_tap_of(k, a->in_channels, w->size);
        UNROLL
        for (int i = 0; i < 4; i++) {
            const unsigned m = own + 16u * (unsigned)i;
            float x = 0.0f, weight = 0.0f;
            if (k < depth && m0 + m < rows) x = conv_pixel(a->x, t, w, a->in_channels, at[i], tap);
            if (k < depth && n0 + m < a->out_channels)
                weight = get(a->weight, t, conv_weight_at(w, n0 + m, tap.channel, a->in_channels, tap));
            s->a[lane][m] = x;
            s->b[lane][m] = weight;
        }
        conv_multiply(&r, s);
    }
    UNROLL
    for (int i = 0; i < 16; i++) {
        const int64_t m = m0 + thread_x() / 16 * 4 + i / 4, n = n0 + thread_x() % 16 * 4 + i % 4;
        if (m >= rows || n >= a->out_channels) continue;
        const float bias = a->bias != NULL ? get(a->bias, t, n) : 0.0f;
        put(a->y, t, m * a->out_channels + n, r.v[i / 4][i % 4] + bias);
    }
}
KERNELS_BY_TYPE(conv2d, mega_conv2d_args, CONV_THREADS)

/* The gradient of the window that has a pixel at this place of it, if there is one. */
BODY float conv_gradient(const mega_conv2d_grad_x_args *a, mega_dtype t, window_pixel at, conv_tap tap)
{
    const mega_windows *const w = &a->windows;
    const int stride = (int)w->stride, top = at.y + (int)w->padding - tap.i, left = at.x + (int)w->padding - tap.j;
    const int height = windows_along(w, w->height), width = windows_along(w, w->width);
    if (top < 0 || left < 0) return 0.0f;
    const int y = top / stride, x = left / stride;
    if (y * stride != top || x * stride != left || y >= height || x >= width) return 0.0f;
    const int64_t row = ((int64_t)at.sample * height + y) * width + x;
    return get(a->dy, t, row * a->out_channels + tap.channel);
}

BODY void conv2d_grad_x_run(const mega_conv2d_grad_x_args *a, mega_dtype t)
{
    SHARED(conv_shared, s);
    const mega_windows *const w = &a->windows;
    const int64_t rows = a->samples * w->height * w->width, depth = a->out_channels * w->size * w->size;
    const int64_t m0 = (int64_t)block_x() * CONV_TILE, n0 = (int64_t)block_y() * CONV_TILE;
    const unsigned lane = thread_x() % CONV_DEPTH, own = thread_x() / CONV_DEPTH;
    window_pixel at[4];
    UNROLL
    for (int i = 0; i < 4; i++) at[i] = window_pixel_of(w, m0 + own + 16 * i);
    conv_sums r = conv_zero();
    for (int64_t k = lane; k - lane < depth; k += CONV_DEPTH) {
        const conv_tap tap = conv_tap_of(k, a->out_channels, w->size);
        UNROLL
        for (int i = 0; i < 4; i++) {
            const unsigned m = own + 16u * (unsigned)i;
            float dy = 0.0f, weight = 0.0f;
            if (k < depth && m0 + m < rows) dy = conv_gradient(a, t, at[i], tap);
            if (k < depth && n0 + m < a->in_channels)
                weight = get(a->weight, t, conv_weight_at(w, tap.channel, n0 + m, a->in_channels, tap));
            s->a[lane][m] = dy;
            s->b[lane][m] = weight;
        }
        conv_multiply(&r, s);
    }
    UNROLL
    for (int i = 0; i < 16; i++) {
        const int64_t m = m0 + thread_x() / 16 * 4 + i / 4, n = n0 + thread_x() % 16 * 4 + i % 4;
        if (m < rows && n < a->in_channels) put(a->dx, t, m * a->in_channels + n, r.v[i / 4][i % 4]);
    }
}
KERNELS_BY_TYPE(conv2d_grad_x, mega_conv2d_grad_x_args, CONV_THREADS)

/* Of the weights: rows of the result, and the chunks of them that the blocks along z have. */
typedef struct conv_chunks {
    int64_t rows, depth, rows_of_chunk, count;
} conv_chunks;

BODY conv_chunks conv_chunks_of(const mega_conv2d_grad_w_args *a)
{
    const mega_windows *const w = &a->windows;
    conv_chunks c;
    c.rows = a->samples * windows_along(w, w->height) * windows_along(w, w->width);
    c.depth = a->in_channels * w->size * w->size;
    c.rows_of_chunk = CONV_CHUNK_ROWS(c.rows, CONV_TILES(a->out_channels) * CONV_TILES(c.depth));
    c.count = (c.rows + c.rows_of_chunk - 1) / c.rows_of_chunk;
    return c;
}

/* Scratch: the sums of the chunks [chunks, O, C * size * size], then those of the bias. */
BODY void conv2d_grad_w_run(const mega_conv2d_grad_w_args *a, mega_dtype t)
{
    SHARED(conv_shared, s);
    const mega_windows *const w = &a->windows;
    const conv_chunks c = conv_chunks_of(a);
    const int64_t m0 = (int64_t)block_y() * CONV_TILE, n0 = (int64_t)block_x() * CONV_TILE;
    const int64_t begin = block_z() * c.rows_of_chunk, rest = c.rows - begin;
    const int64_t end = begin + (rest < c.rows_of_chunk ? rest : c.rows_of_chunk);
    const unsigned lane = thread_x() % CONV_TILE, own = thread_x() / CONV_TILE;
    const conv_tap tap = conv_tap_of(n0 + lane, a->in_channels, w->size);
    float *const sums = (float *)a->head.scratch + block_z() * a->out_channels * c.depth;
    conv_sums r = conv_zero();
    for (int64_t row = begin; row < end; row += CONV_DEPTH) {
        UNROLL
        for (int i = 0; i < 4; i++) {
            const unsigned k = own + 4u * (unsigned)i;
            float dy = 0.0f, x = 0.0f;
            if (row + k < end && m0 + lane < a->out_channels)
                dy = get(a->dy, t, (row + k) * a->out_channels + m0 + lane);
            if (row + k < end && n0 + lane < c.depth)
                x = conv_pixel(a->x, t, w, a->in_channels, window_corner_of(w, row + k), tap);
            s->a[k][lane] = dy;
            s->b[k][lane] = x;
        }
        conv_multiply(&r, s);
    }
    UNROLL
    for (int i = 0; i < 16; i++) {
        const int64_t m = m0 + thread_x() / 16 * 4 + i / 4, n = n0 + thread_x() % 16 * 4 + i % 4;
        if (m >= a->out_channels || n >= c.depth) continue;
        const conv_tap to = conv_tap_of(n, a->in_channels, w->size);
        sums[conv_weight_at(w, m, to.channel, a->in_channels, to)] = r.v[i / 4][i % 4];
    }
}
KERNELS_BY_TYPE(conv2d_grad_w, mega_conv2d_grad_w_args, CONV_THREADS)

KERNEL(conv2d_grad_w_total, mega_conv2d_grad_w_args, COLUMN_THREADS)
{
    const conv_chunks c = conv_chunks_of(&a);
    const int64_t i = (int64_t)block_x() * COLUMN_THREADS + thread_x(), size = a.out_channels * c.depth;
    const float *const sums = (const float *)a.head.scratch;
    float v = 0.0f;
    if (i >= size) return;
    for (int64_t n = 0; n < c.count; n++) v += sums[n * size + i];
    ((float *)a.dweight)[i] += v;
}

BODY float *conv_bias_sums(const mega_conv2d_grad_w_args *a, const conv_chunks *c)
{
    return (float *)a->head.scratch + c->count * a->out_channels * c->depth;
}

BODY void conv2d_grad_bias_run(const mega_conv2d_grad_w_args *a, mega_dtype t)
{
    SHARED(column_shared, s);
    const conv_chunks c = conv_chunks_of(a);
    const column_part p = column_place(c.rows, a->out_channels);
    eight sum;
    UNROLL
    for (int k = 0; k < 8; k++) sum.v[k] = 0.0f;
    for (int64_t r = p.begin; r < p.end; r += COLUMN_LANES) {
        const eight dy = load_eight(a->dy, t, r * a->out_channels + p.col, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) sum.v[k] += dy.v[k];
    }
    column_fold(&sum, s, conv_bias_sums(a, &c), a->out_channels);
}
KERNELS_BY_TYPE(conv2d_grad_bias, mega_conv2d_grad_w_args, COLUMN_THREADS)

KERNEL(conv2d_grad_bias_total, mega_conv2d_grad_w_args, COLUMN_THREADS)
{
    const conv_chunks c = conv_chunks_of(&a);
    column_total((float *)a.dbias, conv_bias_sums(&a, &c), c.rows, a.out_channels);
}
