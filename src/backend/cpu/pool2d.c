/* Max and mean pooling and their gradients. The threads share lines of pixels, and channels are processed in blocks
 * that stay in registers and the first-level cache. A gradient is gathered: each pixel sums its share of the windows
 * around it, in their order. */
#include "cpu/share.h"
#include <math.h>

/* The windows [first, last) along one direction that contain a pixel. */
typedef struct pool_span {
    int64_t first, last;
} pool_span;

static pool_span pool_span_of(const mega_windows *w, int64_t extent, int64_t pixel)
{
    const int64_t count = mega_windows_along(w, extent), reach = pixel + w->padding;
    const int64_t first = reach < w->size ? 0 : (reach - w->size) / w->stride + 1, last = reach / w->stride + 1;
    return (pool_span){first, last < count ? last : count};
}

/* Returns the pixels [first, last) of a window along one direction that are inside the image. */
static pool_span pool_pixels_of(const mega_windows *w, int64_t extent, int64_t window)
{
    const int64_t first = window * w->stride - w->padding, last = first + w->size;
    return (pool_span){first < 0 ? 0 : first, last < extent ? last : extent};
}

/* Computes channels [c, c + n) of one window. */
static void max_pool2d_block(const mega_max_pool2d_args *a, int64_t sample, pool_span rows, pool_span columns,
                             int64_t c, int64_t n, float most[CPU_BLOCK], int32_t best[CPU_BLOCK])
{
    const int64_t width = a->windows.width;
    float v[CPU_BLOCK];
    for (int64_t i = 0; i < n; i++) most[i] = -INFINITY, best[i] = (int32_t)(rows.first * width + columns.first);
    for (int64_t y = rows.first; y < rows.last; y++)
        for (int64_t x = columns.first; x < columns.last; x++) {
            const int32_t pixel = (int32_t)(y * width + x);
            block_get(v, a->x, a->head.dtype, ((sample * a->windows.height + y) * width + x) * a->channels + c, n);
            for (int64_t i = 0; i < n; i++) {
                const bool wins = (v[i] > most[i]) | (v[i] != v[i]);
                most[i] = wins ? v[i] : most[i];
                best[i] = wins ? pixel : best[i];
            }
        }
}

/* Computes lines [begin, end) of rows of y. */
static void max_pool2d_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_max_pool2d_args *a = ((const cpu_job *)user)->args;
    const mega_windows *w = &a->windows;
    const int64_t height = mega_windows_along(w, w->height), width = mega_windows_along(w, w->width);
    float most[CPU_BLOCK];
    int32_t best[CPU_BLOCK];
    for (int64_t r = begin * width; r < end * width; r++)
        for (int64_t c = 0; c < a->channels; c += CPU_BLOCK) {
            const int64_t n = a->channels - c < CPU_BLOCK ? a->channels - c : CPU_BLOCK, at = r * a->channels + c;
            max_pool2d_block(a, r / (width * height), pool_pixels_of(w, w->height, r / width % height),
                             pool_pixels_of(w, w->width, r % width), c, n, most, best);
            block_put(a->y, a->head.dtype, at, n, most);
            for (int64_t i = 0; i < n; i++) a->index[at + i] = best[i];
        }
}

static void cpu_max_pool2d_run(const mega_queue *queue, const void *args)
{
    const mega_max_pool2d_args *a = args;
    const mega_windows *w = &a->windows;
    const int64_t lines = a->samples * mega_windows_along(w, w->height);
    if (a->head.dtype == MEGA_F64) mega_plain_max_pool2d.run(queue, args);
    else
        cpu_job_run(mega_queue_team(queue), max_pool2d_work, args, lines, 1,
                    lines * mega_windows_along(w, w->width) * a->channels * w->size * w->size);
}

/* Computes lines [begin, end) of pixels of dx. */
static void max_pool2d_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_max_pool2d_grad_args *a = ((const cpu_job *)user)->args;
    const mega_windows *w = &a->windows;
    const int64_t height = mega_windows_along(w, w->height), width = mega_windows_along(w, w->width);
    float sum[CPU_BLOCK], v[CPU_BLOCK];
    for (int64_t p = begin * w->width; p < end * w->width; p++) {
        const int64_t y = p / w->width % w->height, x = p % w->width, sample = p / (w->width * w->height);
        const pool_span rows = pool_span_of(w, w->height, y), columns = pool_span_of(w, w->width, x);
        const int32_t pixel = (int32_t)(y * w->width + x);
        for (int64_t c = 0; c < a->channels; c += CPU_BLOCK) {
            const int64_t n = a->channels - c < CPU_BLOCK ? a->channels - c : CPU_BLOCK;
            for (int64_t i = 0; i < n; i++) sum[i] = 0.0f;
            for (int64_t wy = rows.first; wy < rows.last; wy++)
                for (int64_t wx = columns.first; wx < columns.last; wx++) {
                    const int64_t at = ((sample * height + wy) * width + wx) * a->channels + c;
                    block_get(v, a->dy, a->head.dtype, at, n);
                    for (int64_t i = 0; i < n; i++) sum[i] += a->index[at + i] == pixel ? v[i] : 0.0f;
                }
            block_put(a->dx, a->head.dtype, p * a->channels + c, n, sum);
        }
    }
}

static void cpu_max_pool2d_grad_run(const mega_queue *queue, const void *args)
{
    const mega_max_pool2d_grad_args *a = args;
    const mega_windows *w = &a->windows;
    if (a->head.dtype == MEGA_F64) mega_plain_max_pool2d_grad.run(queue, args);
    else
        cpu_job_run(mega_queue_team(queue), max_pool2d_grad_work, args, a->samples * w->height, 1,
                    a->samples * w->height * w->width * a->channels);
}

static void mean_pool2d_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_mean_pool2d_args *a = ((const cpu_job *)user)->args;
    const mega_windows *w = &a->windows;
    const int64_t height = mega_windows_along(w, w->height), width = mega_windows_along(w, w->width);
    const double share = 1.0 / (double)(w->size * w->size);
    double sum[CPU_BLOCK]; /* a float may overflow in the sum */
    float v[CPU_BLOCK];
    for (int64_t r = begin * width; r < end * width; r++) {
        const pool_span rows = pool_pixels_of(w, w->height, r / width % height);
        const pool_span columns = pool_pixels_of(w, w->width, r % width);
        const int64_t image = r / (width * height) * w->height;
        for (int64_t c = 0; c < a->channels; c += CPU_BLOCK) {
            const int64_t n = a->channels - c < CPU_BLOCK ? a->channels - c : CPU_BLOCK;
            for (int64_t i = 0; i < n; i++) sum[i] = 0.0;
            for (int64_t y = rows.first; y < rows.last; y++)
                for (int64_t x = columns.first; x < columns.last; x++) {
                    block_get(v, a->x, a->head.dtype, ((image + y) * w->width + x) * a->channels + c, n);
                    for (int64_t i = 0; i < n; i++) sum[i] += v[i];
                }
            for (int64_t i = 0; i < n; i++) v[i] = (float)(sum[i] * share);
            block_put(a->y, a->head.dtype, r * a->channels + c, n, v);
        }
    }
}

static void cpu_mean_pool2d_run(const mega_queue *queue, const void *args)
{
    const mega_mean_pool2d_args *a = args;
    const mega_windows *w = &a->windows;
    const int64_t lines = a->samples * mega_windows_along(w, w->height);
    if (a->head.dtype == MEGA_F64) mega_plain_mean_pool2d.run(queue, args);
    else
        cpu_job_run(mega_queue_team(queue), mean_pool2d_work, args, lines, 1,
                    lines * mega_windows_along(w, w->width) * a->channels * w->size * w->size);
}

static void mean_pool2d_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_mean_pool2d_grad_args *a = ((const cpu_job *)user)->args;
    const mega_windows *w = &a->windows;
    const int64_t height = mega_windows_along(w, w->height), width = mega_windows_along(w, w->width);
    const double share = 1.0 / (double)(w->size * w->size);
    double sum[CPU_BLOCK]; /* a float may overflow in the sum */
    float v[CPU_BLOCK];
    for (int64_t p = begin * w->width; p < end * w->width; p++) {
        const int64_t y = p / w->width % w->height, x = p % w->width, sample = p / (w->width * w->height);
        const pool_span rows = pool_span_of(w, w->height, y), columns = pool_span_of(w, w->width, x);
        for (int64_t c = 0; c < a->channels; c += CPU_BLOCK) {
            const int64_t n = a->channels - c < CPU_BLOCK ? a->channels - c : CPU_BLOCK;
            for (int64_t i = 0; i < n; i++) sum[i] = 0.0;
            for (int64_t wy = rows.first; wy < rows.last; wy++)
                for (int64_t wx = columns.first; wx < columns.last; wx++) {
                    block_get(v, a->dy, a->head.dtype, ((sample * height + wy) * width + wx) * a->channels + c, n);
                    for (int64_t i = 0; i < n; i++) sum[i] += v[i];
                }
            for (int64_t i = 0; i < n; i++) v[i] = (float)(sum[i] * share);
            block_put(a->dx, a->head.dtype, p * a->channels + c, n, v);
        }
    }
}

static void cpu_mean_pool2d_grad_run(const mega_queue *queue, const void *args)
{
    const mega_mean_pool2d_grad_args *a = args;
    const mega_windows *w = &a->windows;
    if (a->head.dtype == MEGA_F64) mega_plain_mean_pool2d_grad.run(queue, args);
    else
        cpu_job_run(mega_queue_team(queue), mean_pool2d_grad_work, args, a->samples * w->height, 1,
                    a->samples * w->height * w->width * a->channels);
}

const mega_kernel mega_cpu_max_pool2d = {.name = "max_pool2d", .run = cpu_max_pool2d_run};
const mega_kernel mega_cpu_max_pool2d_grad = {.name = "max_pool2d_grad", .run = cpu_max_pool2d_grad_run};
const mega_kernel mega_cpu_mean_pool2d = {.name = "mean_pool2d", .run = cpu_mean_pool2d_run};
const mega_kernel mega_cpu_mean_pool2d_grad = {.name = "mean_pool2d_grad", .run = cpu_mean_pool2d_grad_run};
