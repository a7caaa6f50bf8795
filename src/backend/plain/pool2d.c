/* Max and mean pooling and their gradients: plain kernel (ops_image.h). */
#include "backend_impl.h"
#include <math.h>

/* The window of a row of y, clipped to the image: pixels [top, bottom) x [left, right) of a sample. */
typedef struct pool_window {
    int64_t sample, top, bottom, left, right;
} pool_window;

static pool_window pool_window_of(const mega_windows *w, int64_t row)
{
    const int64_t width = mega_windows_along(w, w->width), height = mega_windows_along(w, w->height);
    const int64_t top = row / width % height * w->stride - w->padding, left = row % width * w->stride - w->padding;
    return (pool_window){.sample = row / (width * height),
                         .top = top < 0 ? 0 : top,
                         .bottom = top + w->size < w->height ? top + w->size : w->height,
                         .left = left < 0 ? 0 : left,
                         .right = left + w->size < w->width ? left + w->size : w->width};
}

static int64_t pool_rows(const mega_windows *w, int64_t samples)
{
    return samples * mega_windows_along(w, w->height) * mega_windows_along(w, w->width);
}

static void plain_max_pool2d_run(const mega_queue *queue, const void *args)
{
    const mega_max_pool2d_args *a = args;
    const mega_dtype t = a->head.dtype;
    const int64_t rows = pool_rows(&a->windows, a->samples), width = a->windows.width;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < a->channels; c++) {
            const pool_window p = pool_window_of(&a->windows, r);
            double most = -INFINITY;
            int64_t best = p.top * width + p.left;
            for (int64_t y = p.top; y < p.bottom; y++)
                for (int64_t x = p.left; x < p.right; x++) {
                    const int64_t pixel = (p.sample * a->windows.height + y) * width + x;
                    const double v = get(a->x, t, pixel * a->channels + c);
                    if (v > most || isnan(v)) most = v, best = y * width + x;
                }
            put(a->y, t, r * a->channels + c, most);
            a->index[r * a->channels + c] = (int32_t)best;
        }
}

/* Contributions are added in the order of rows of dy. */
static void plain_max_pool2d_grad_run(const mega_queue *queue, const void *args)
{
    const mega_max_pool2d_grad_args *a = args;
    const mega_windows *w = &a->windows;
    const mega_dtype t = a->head.dtype;
    const int64_t windows = mega_windows_along(w, w->height) * mega_windows_along(w, w->width);
    for (int64_t s = 0; s < a->samples; s++)
        for (int64_t pixel = 0; pixel < w->height * w->width; pixel++)
            for (int64_t c = 0; c < a->channels; c++) {
                double sum = 0.0;
                for (int64_t r = s * windows; r < (s + 1) * windows; r++)
                    if (a->index[r * a->channels + c] == pixel) sum += get(a->dy, t, r * a->channels + c);
                put(a->dx, t, (s * w->height * w->width + pixel) * a->channels + c, sum);
            }
}

static void plain_mean_pool2d_run(const mega_queue *queue, const void *args)
{
    const mega_mean_pool2d_args *a = args;
    const mega_windows *w = &a->windows;
    const mega_dtype t = a->head.dtype;
    const int64_t rows = pool_rows(w, a->samples);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < a->channels; c++) {
            const pool_window p = pool_window_of(w, r);
            double sum = 0.0;
            for (int64_t y = p.top; y < p.bottom; y++)
                for (int64_t x = p.left; x < p.right; x++)
                    sum += get(a->x, t, ((p.sample * w->height + y) * w->width + x) * a->channels + c);
            put(a->y, t, r * a->channels + c, sum / (double)(w->size * w->size));
        }
}

static void plain_mean_pool2d_grad_run(const mega_queue *queue, const void *args)
{
    const mega_mean_pool2d_grad_args *a = args;
    const mega_windows *w = &a->windows;
    const mega_dtype t = a->head.dtype;
    const int64_t windows = mega_windows_along(w, w->height) * mega_windows_along(w, w->width);
    for (int64_t s = 0; s < a->samples; s++)
        for (int64_t pixel = 0; pixel < w->height * w->width; pixel++)
            for (int64_t c = 0; c < a->channels; c++) {
                const int64_t y = pixel / w->width, x = pixel % w->width;
                double sum = 0.0;
                for (int64_t r = s * windows; r < (s + 1) * windows; r++) {
                    const pool_window p = pool_window_of(w, r);
                    if (y >= p.top && y < p.bottom && x >= p.left && x < p.right)
                        sum += get(a->dy, t, r * a->channels + c);
                }
                put(a->dx, t, (s * w->height * w->width + pixel) * a->channels + c, sum / (double)(w->size * w->size));
            }
}

const mega_kernel mega_plain_max_pool2d = {.name = "max_pool2d", .run = plain_max_pool2d_run};
const mega_kernel mega_plain_max_pool2d_grad = {.name = "max_pool2d_grad", .run = plain_max_pool2d_grad_run};
const mega_kernel mega_plain_mean_pool2d = {.name = "mean_pool2d", .run = plain_mean_pool2d_run};
const mega_kernel mega_plain_mean_pool2d_grad = {.name = "mean_pool2d_grad", .run = plain_mean_pool2d_grad_run};
