/* Convolution as a GEMM: each row of y is the product of the weights with a window of x, which is copied to a row
 * [size, size, C] (im2col). A chunk of rows at a time is copied and multiplied, so that its windows stay in the cache.
 * Chunks, and so the bits of the result, depend only on the shape. The weights, [O, C, size, size] in the file, are
 * first reordered like the copies. A window of one pixel that moves by one is x itself and is not copied.
 *
 * The gradient of x is the GEMM of dy with the weights, which gives a window for each row of dy; each pixel then sums
 * its elements of the windows around it, in a fixed order. */
#include "cpu/share.h"
#include <string.h>

/* Elements of a chunk of windows: 4 MB of floats, a share of the last level of cache; no benchmark chose it. */
#define CONV_CHUNK ((int64_t)1 << 20)

typedef struct conv_shape {
    mega_windows w;
    mega_dtype dtype;
    int64_t samples, in, out; /* channels */
    int64_t width, height;    /* of y */
    int64_t rows, window;     /* rows of y; elements of a window */
    int64_t chunk;            /* rows of y whose windows are copied at a time */
    bool is_linear, reorders; /* windows are rows of x; the weights need reordering */
} conv_shape;

static conv_shape conv_shape_of(const mega_windows *w, mega_dtype dtype, int64_t samples, int64_t in, int64_t out)
{
    conv_shape s = {.w = *w, .dtype = dtype, .samples = samples, .in = in, .out = out};
    s.width = mega_windows_along(w, w->width);
    s.height = mega_windows_along(w, w->height);
    s.rows = samples * s.width * s.height;
    s.window = w->size * w->size * in;
    s.is_linear = w->size == 1 && w->stride == 1 && w->padding == 0;
    s.reorders = w->size > 1 && in > 1;
    const int64_t most = CONV_CHUNK / s.window;
    s.chunk = most < 64 ? 64 : most;
    if (s.is_linear || s.chunk > s.rows) s.chunk = s.rows;
    return s;
}

/* Returns the chunk for the gradient of x, in whole samples. */
static int64_t conv_chunk_of_samples(const conv_shape *s)
{
    const int64_t pixels = s->width * s->height, most = CONV_CHUNK / (pixels * s->window);
    const int64_t samples = most < 1 ? 1 : most;
    return s->is_linear ? s->rows : (samples < s->samples ? samples : s->samples) * pixels;
}

typedef struct conv_job {
    const conv_shape *s;
    const char *x;
    char *windows, *weight; /* weight: reordered */
    const char *file;       /* the weights in the order of the file */
    int64_t first;          /* first row of y, or first sample */
    void *dx;
    const float *sums;
    float *dweight;
} conv_job;

/* Reorders the weights of outputs [begin, end) from [C, size, size] to [size, size, C]. */
static void conv_reorder_work(void *user, int thread, int64_t begin, int64_t end)
{
    const conv_job *j = user;
    const conv_shape *s = j->s;
    const int64_t pixels = s->w.size * s->w.size;
    const size_t size = mega_dtype_size(s->dtype);
    for (int64_t o = begin; o < end; o++)
        for (int64_t c = 0; c < s->in; c++)
            for (int64_t p = 0; p < pixels; p++)
                memcpy(j->weight + (size_t)(o * s->window + p * s->in + c) * size,
                       j->file + (size_t)(o * s->window + c * pixels + p) * size, size);
}

/* Copies one row of a window: `n` pixels from (sample, y, x) on, zeros outside the image. */
static void conv_copy_pixels(const conv_job *j, char *dst, int64_t sample, int64_t y, int64_t x, int64_t n)
{
    const conv_shape *s = j->s;
    const size_t pixel = (size_t)s->in * mega_dtype_size(s->dtype);
    const int64_t left = x < 0 ? -x : 0, over = x + n - s->w.width, right = over > 0 ? over : 0;
    if (y < 0 || y >= s->w.height || left + right >= n) {
        memset(dst, 0, (size_t)n * pixel);
        return;
    }
    memset(dst, 0, (size_t)left * pixel);
    memcpy(dst + (size_t)left * pixel, j->x + (size_t)((sample * s->w.height + y) * s->w.width + x + left) * pixel,
           (size_t)(n - left - right) * pixel);
    memset(dst + (size_t)(n - right) * pixel, 0, (size_t)right * pixel);
}

/* Copies the windows of rows [first + begin, first + end) of y. */
static void conv_copy_work(void *user, int thread, int64_t begin, int64_t end)
{
    const conv_job *j = user;
    const conv_shape *s = j->s;
    const size_t size = mega_dtype_size(s->dtype), line = (size_t)(s->w.size * s->in) * size;
    for (int64_t r = begin; r < end; r++) {
        const int64_t row = j->first + r, sample = row / (s->width * s->height);
        const int64_t y = row / s->width % s->height * s->w.stride - s->w.padding;
        const int64_t x = row % s->width * s->w.stride - s->w.padding;
        char *dst = j->windows + (size_t)(r * s->window) * size;
        for (int64_t i = 0; i < s->w.size; i++)
            conv_copy_pixels(j, dst + (size_t)i * line, sample, y + i, x, s->w.size);
    }
}

static void conv_copy(mega_team *team, conv_job *j, int64_t rows)
{
    mega_team_for(rows * j->s->window < CPU_SMALL_JOB ? NULL : team, rows, 4, conv_copy_work, j);
}

static void conv_reorder(mega_team *team, conv_job *j)
{
    const conv_shape *s = j->s;
    mega_team_for(s->out * s->window < CPU_SMALL_JOB ? NULL : team, s->out, 1, conv_reorder_work, j);
}

/* Layout of scratch: reordered weights, windows, the scratch of the GEMM. */
typedef struct conv_scratch {
    size_t weight, windows, gemm;
} conv_scratch;

static size_t conv_scratch_bytes(conv_scratch c)
{
    return c.weight + c.windows + c.gemm;
}

/* Returns the larger scratch of two GEMMs: that of a whole chunk and that of the last one. */
static size_t conv_gemm_scratch(const mega_gemm_args *whole, const mega_gemm_args *last, int threads)
{
    const size_t a = mega_cpu_gemm.scratch(whole, threads), b = mega_cpu_gemm.scratch(last, threads);
    return a > b ? a : b;
}

static int64_t conv_last(int64_t rows, int64_t chunk)
{
    return chunk == 0 || rows % chunk == 0 ? chunk : rows % chunk;
}

/* ---- forward ---- */

static mega_gemm_args conv2d_gemm(const conv_shape *s, int64_t rows)
{
    return (mega_gemm_args){.head = {.dtype = s->dtype},
                            .m = rows,
                            .n = s->out,
                            .k = s->window,
                            .lda = s->window,
                            .ldb = s->window,
                            .ldc = s->out,
                            .trans_b = true,
                            .c_dtype = s->dtype};
}

static conv_shape conv2d_shape_of(const mega_conv2d_args *a)
{
    return conv_shape_of(&a->windows, a->head.dtype, a->samples, a->in_channels, a->out_channels);
}

static conv_scratch conv2d_parts(const conv_shape *s, int threads)
{
    const mega_gemm_args whole = conv2d_gemm(s, s->chunk), last = conv2d_gemm(s, conv_last(s->rows, s->chunk));
    const size_t size = mega_dtype_size(s->dtype);
    return (conv_scratch){.weight = s->reorders ? round_up_64((size_t)(s->out * s->window) * size) : 0,
                          .windows = s->is_linear ? 0 : round_up_64((size_t)(s->chunk * s->window) * size),
                          .gemm = conv_gemm_scratch(&whole, &last, threads)};
}

static void cpu_conv2d_run(const mega_queue *queue, const void *args)
{
    const mega_conv2d_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_conv2d.run(queue, args);
        return;
    }
    const conv_shape s = conv2d_shape_of(a);
    const conv_scratch c = conv2d_parts(&s, mega_team_size(mega_queue_team(queue)));
    char *scratch = a->head.scratch;
    conv_job j = {.s = &s, .x = a->x, .file = a->weight, .weight = scratch, .windows = scratch + c.weight};
    if (s.reorders) conv_reorder(mega_queue_team(queue), &j);
    for (j.first = 0; j.first < s.rows; j.first += s.chunk) {
        const int64_t rows = s.rows - j.first < s.chunk ? s.rows - j.first : s.chunk;
        mega_gemm_args g = conv2d_gemm(&s, rows);
        if (!s.is_linear) conv_copy(mega_queue_team(queue), &j, rows);
        g.head.scratch = scratch + c.weight + c.windows;
        g.a = s.is_linear ? a->x : j.windows;
        g.b = s.reorders ? j.weight : a->weight;
        g.bias = a->bias;
        g.c = element_at(a->y, s.dtype, j.first * s.out);
        mega_cpu_gemm.run(queue, &g);
    }
}

static size_t conv2d_scratch(const void *args, int threads)
{
    const mega_conv2d_args *a = args;
    const conv_shape s = conv2d_shape_of(a);
    return a->head.dtype == MEGA_F64 ? 0 : conv_scratch_bytes(conv2d_parts(&s, threads));
}

/* ---- gradient of the weights ---- */

static mega_gemm_args conv2d_grad_w_gemm(const conv_shape *s, int64_t rows)
{
    return (mega_gemm_args){.head = {.dtype = s->dtype},
                            .m = s->out,
                            .n = s->window,
                            .k = rows,
                            .lda = s->out,
                            .ldb = s->window,
                            .ldc = s->window,
                            .trans_a = true,
                            .accumulate = true,
                            .c_dtype = MEGA_F32};
}

static conv_shape conv2d_grad_w_shape_of(const mega_conv2d_grad_w_args *a)
{
    return conv_shape_of(&a->windows, a->head.dtype, a->samples, a->in_channels, a->out_channels);
}

/* Here `weight` is the gradient, in the order of windows. */
static conv_scratch conv2d_grad_w_parts(const conv_shape *s, int threads)
{
    const mega_gemm_args whole = conv2d_grad_w_gemm(s, s->chunk);
    const mega_gemm_args last = conv2d_grad_w_gemm(s, conv_last(s->rows, s->chunk));
    const size_t size = mega_dtype_size(s->dtype);
    return (conv_scratch){.weight = s->reorders ? round_up_64((size_t)(s->out * s->window) * sizeof(float)) : 0,
                          .windows = s->is_linear ? 0 : round_up_64((size_t)(s->chunk * s->window) * size),
                          .gemm = conv_gemm_scratch(&whole, &last, threads)};
}

static void conv2d_grad_w_add_work(void *user, int thread, int64_t begin, int64_t end)
{
    const conv_job *j = user;
    const conv_shape *s = j->s;
    const int64_t pixels = s->w.size * s->w.size;
    for (int64_t o = begin; o < end; o++)
        for (int64_t c = 0; c < s->in; c++)
            for (int64_t p = 0; p < pixels; p++)
                j->dweight[o * s->window + c * pixels + p] += j->sums[o * s->window + p * s->in + c];
}

static void cpu_conv2d_grad_w_run(const mega_queue *queue, const void *args)
{
    const mega_conv2d_grad_w_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_conv2d_grad_w.run(queue, args);
        return;
    }
    const conv_shape s = conv2d_grad_w_shape_of(a);
    const conv_scratch c = conv2d_grad_w_parts(&s, mega_team_size(mega_queue_team(queue)));
    char *scratch = a->head.scratch;
    float *sums = s.reorders ? (float *)(void *)scratch : a->dweight;
    conv_job j = {.s = &s, .x = a->x, .windows = scratch + c.weight, .sums = sums, .dweight = a->dweight};
    if (s.rows == 0) return;
    for (j.first = 0; j.first < s.rows; j.first += s.chunk) {
        const int64_t rows = s.rows - j.first < s.chunk ? s.rows - j.first : s.chunk;
        mega_gemm_args g = conv2d_grad_w_gemm(&s, rows);
        if (!s.is_linear) conv_copy(mega_queue_team(queue), &j, rows);
        g.head.scratch = scratch + c.weight + c.windows;
        g.a = const_element_at(a->dy, s.dtype, j.first * s.out);
        g.b = s.is_linear ? a->x : j.windows;
        g.c = sums;
        g.accumulate = !s.reorders || j.first > 0; /* scratch holds garbage at first */
        g.row_sum = a->dbias;
        mega_cpu_gemm.run(queue, &g);
    }
    if (s.reorders)
        mega_team_for(s.out * s.window < CPU_SMALL_JOB ? NULL : mega_queue_team(queue), s.out, 1,
                      conv2d_grad_w_add_work, &j);
}

static size_t conv2d_grad_w_scratch(const void *args, int threads)
{
    const mega_conv2d_grad_w_args *a = args;
    const conv_shape s = conv2d_grad_w_shape_of(a);
    return a->head.dtype == MEGA_F64 ? 0 : conv_scratch_bytes(conv2d_grad_w_parts(&s, threads));
}

/* ---- gradient of x ---- */

static mega_gemm_args conv2d_grad_x_gemm(const conv_shape *s, int64_t rows)
{
    return (mega_gemm_args){.head = {.dtype = s->dtype},
                            .m = rows,
                            .n = s->window,
                            .k = s->out,
                            .lda = s->out,
                            .ldb = s->window,
                            .ldc = s->window,
                            .c_dtype = s->is_linear ? s->dtype : MEGA_F32};
}

static conv_shape conv2d_grad_x_shape_of(const mega_conv2d_grad_x_args *a)
{
    conv_shape s = conv_shape_of(&a->windows, a->head.dtype, a->samples, a->in_channels, a->out_channels);
    s.chunk = conv_chunk_of_samples(&s);
    return s;
}

/* Here the windows are sums, in float. */
static conv_scratch conv2d_grad_x_parts(const conv_shape *s, int threads)
{
    const mega_gemm_args whole = conv2d_grad_x_gemm(s, s->chunk);
    const mega_gemm_args last = conv2d_grad_x_gemm(s, conv_last(s->rows, s->chunk));
    const size_t size = mega_dtype_size(s->dtype);
    return (conv_scratch){.weight = s->reorders ? round_up_64((size_t)(s->out * s->window) * size) : 0,
                          .windows = s->is_linear ? 0 : round_up_64((size_t)(s->chunk * s->window) * sizeof(float)),
                          .gemm = conv_gemm_scratch(&whole, &last, threads)};
}

/* Computes a block of n channels, from c on, of pixel (y, x) of a sample; its windows are those of sample `at` of the
 * chunk. */
static void conv2d_grad_x_block(const conv_job *j, int64_t at, int64_t y, int64_t x, int64_t c, int64_t n,
                                float sum[CPU_BLOCK])
{
    const conv_shape *s = j->s;
    for (int64_t i = 0; i < n; i++) sum[i] = 0.0f;
    for (int64_t i = 0; i < s->w.size; i++) {
        const int64_t top = y + s->w.padding - i;
        if (top < 0 || top % s->w.stride != 0 || top / s->w.stride >= s->height) continue;
        for (int64_t k = 0; k < s->w.size; k++) {
            const int64_t left = x + s->w.padding - k;
            if (left < 0 || left % s->w.stride != 0 || left / s->w.stride >= s->width) continue;
            const int64_t row = (at * s->height + top / s->w.stride) * s->width + left / s->w.stride;
            const float *part = j->sums + row * s->window + (i * s->w.size + k) * s->in + c;
            for (int64_t l = 0; l < n; l++) sum[l] += part[l];
        }
    }
}

/* Computes lines [begin, end) of pixels of the chunk's samples. */
static void conv2d_grad_x_work(void *user, int thread, int64_t begin, int64_t end)
{
    const conv_job *j = user;
    const conv_shape *s = j->s;
    float sum[CPU_BLOCK];
    for (int64_t line = begin; line < end; line++)
        for (int64_t x = 0; x < s->w.width; x++)
            for (int64_t c = 0; c < s->in; c += CPU_BLOCK) {
                const int64_t n = s->in - c < CPU_BLOCK ? s->in - c : CPU_BLOCK;
                const int64_t pixel = (j->first * s->w.height + line) * s->w.width + x;
                conv2d_grad_x_block(j, line / s->w.height, line % s->w.height, x, c, n, sum);
                block_put(j->dx, s->dtype, pixel * s->in + c, n, sum);
            }
}

static void cpu_conv2d_grad_x_run(const mega_queue *queue, const void *args)
{
    const mega_conv2d_grad_x_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_conv2d_grad_x.run(queue, args);
        return;
    }
    const conv_shape s = conv2d_grad_x_shape_of(a);
    const conv_scratch c = conv2d_grad_x_parts(&s, mega_team_size(mega_queue_team(queue)));
    const int64_t pixels = s.width * s.height;
    char *scratch = a->head.scratch;
    float *sums = (float *)(void *)(scratch + c.weight);
    conv_job j = {.s = &s, .file = a->weight, .weight = scratch, .dx = a->dx, .sums = sums};
    if (s.reorders) conv_reorder(mega_queue_team(queue), &j);
    for (int64_t first = 0; first < s.rows; first += s.chunk) {
        const int64_t rows = s.rows - first < s.chunk ? s.rows - first : s.chunk;
        mega_gemm_args g = conv2d_grad_x_gemm(&s, rows);
        g.head.scratch = scratch + c.weight + c.windows;
        g.a = const_element_at(a->dy, s.dtype, first * s.out);
        g.b = s.reorders ? j.weight : a->weight;
        g.c = s.is_linear ? a->dx : sums;
        mega_cpu_gemm.run(queue, &g);
        if (s.is_linear) continue;
        j.first = first / pixels;
        mega_team_for(rows * s.window < CPU_SMALL_JOB ? NULL : mega_queue_team(queue), rows / pixels * s.w.height, 1,
                      conv2d_grad_x_work, &j);
    }
}

static size_t conv2d_grad_x_scratch(const void *args, int threads)
{
    const mega_conv2d_grad_x_args *a = args;
    const conv_shape s = conv2d_grad_x_shape_of(a);
    return a->head.dtype == MEGA_F64 ? 0 : conv_scratch_bytes(conv2d_grad_x_parts(&s, threads));
}

const mega_kernel mega_cpu_conv2d = {.name = "conv2d", .run = cpu_conv2d_run, .scratch = conv2d_scratch};
const mega_kernel mega_cpu_conv2d_grad_x = {
    .name = "conv2d_grad_x", .run = cpu_conv2d_grad_x_run, .scratch = conv2d_grad_x_scratch};
const mega_kernel mega_cpu_conv2d_grad_w = {
    .name = "conv2d_grad_w", .run = cpu_conv2d_grad_w_run, .scratch = conv2d_grad_w_scratch};
