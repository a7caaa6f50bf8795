/* Max and mean pooling and their gradients; a thread has eight channels of a result or, in the gradients, of a pixel,
 * which adds up the windows that contain it in their order (ops_image.h). */
#include "windows.h"

/* The part of a window that is in the image. */
typedef struct pool_window {
    int64_t image;
    int top, bottom, left, right;
} pool_window;

BODY pool_window pool_window_of(const mega_windows *w, int64_t row)
{
    const window_corner c = window_corner_of(w, row);
    const int size = (int)w->size, height = (int)w->height, width = (int)w->width;
    pool_window p;
    p.image = c.image;
    p.top = c.top < 0 ? 0 : c.top;
    p.bottom = c.top + size < height ? c.top + size : height;
    p.left = c.left < 0 ? 0 : c.left;
    p.right = c.left + size < width ? c.left + size : width;
    return p;
}

BODY int64_t pool_results(const mega_windows *w, int64_t samples)
{
    return samples * windows_along(w, w->height) * windows_along(w, w->width);
}

BODY void max_pool2d_run(const mega_max_pool2d_args *a, mega_dtype t)
{
    const int64_t rows = pool_results(&a->windows, a->samples);
    const int width = (int)a->windows.width;
    for (place p = tile_first(rows, a->channels); place_goes_on(&p); tile_next(&p, rows)) {
        if (p.left <= 0) continue;
        const pool_window window = pool_window_of(&a->windows, p.row);
        eight most;
        int best[8];
        UNROLL
        for (int k = 0; k < 8; k++) {
            most.v[k] = bits_float(0xff800000u);
            best[k] = window.top * width + window.left;
        }
        for (int y = window.top; y < window.bottom; y++)
            for (int x = window.left; x < window.right; x++) {
                const int pixel = y * width + x;
                const eight v = load_eight(a->x, t, (window.image + pixel) * a->channels + p.col, p.left);
                UNROLL
                for (int k = 0; k < 8; k++) {
                    const bool wins = v.v[k] > most.v[k] || v.v[k] != v.v[k];
                    most.v[k] = wins ? v.v[k] : most.v[k];
                    best[k] = wins ? pixel : best[k];
                }
            }
        store_eight(a->y, t, p.at, p.left, most);
        UNROLL
        for (int k = 0; k < 8; k++)
            if (k < p.left) a->index[p.at + k] = best[k];
    }
}
KERNELS_BY_TYPE(max_pool2d, mega_max_pool2d_args, COLUMN_THREADS)

BODY void mean_pool2d_run(const mega_mean_pool2d_args *a, mega_dtype t)
{
    const int64_t rows = pool_results(&a->windows, a->samples);
    const float count = (float)(a->windows.size * a->windows.size);
    for (place p = tile_first(rows, a->channels); place_goes_on(&p); tile_next(&p, rows)) {
        if (p.left <= 0) continue;
        const pool_window window = pool_window_of(&a->windows, p.row);
        eight sum;
        UNROLL
        for (int k = 0; k < 8; k++) sum.v[k] = 0.0f;
        for (int y = window.top; y < window.bottom; y++)
            for (int x = window.left; x < window.right; x++) {
                const int64_t pixel = window.image + y * a->windows.width + x;
                const eight v = load_eight(a->x, t, pixel * a->channels + p.col, p.left);
                UNROLL
                for (int k = 0; k < 8; k++) sum.v[k] += v.v[k];
            }
        UNROLL
        for (int k = 0; k < 8; k++) sum.v[k] = device_divide(sum.v[k], count);
        store_eight(a->y, t, p.at, p.left, sum);
    }
}
KERNELS_BY_TYPE(mean_pool2d, mega_mean_pool2d_args, COLUMN_THREADS)

/* The gradient of eight channels of a pixel, from column `col`: from all windows with it, or from those of which it was
 * the largest. */
BODY eight pool_gradient(const mega_windows *w, const void *dy, const int32_t *index, mega_dtype t, const place *p)
{
    const window_pixel pixel = window_pixel_of(w, p->row);
    const window_range down = windows_with(w, w->height, pixel.y), across = windows_with(w, w->width, pixel.x);
    const int height = windows_along(w, w->height), width = windows_along(w, w->width);
    const int own = pixel.y * (int)w->width + pixel.x;
    eight sum;
    UNROLL
    for (int k = 0; k < 8; k++) sum.v[k] = 0.0f;
    for (int y = down.first; y <= down.last; y++)
        for (int x = across.first; x <= across.last; x++) {
            const int64_t row = ((int64_t)pixel.sample * height + y) * width + x, at = row * p->cols + p->col;
            const eight v = load_eight(dy, t, at, p->left);
            UNROLL
            for (int k = 0; k < 8; k++)
                if (k < p->left && (index == NULL || index[at + k] == own)) sum.v[k] += v.v[k];
        }
    return sum;
}

BODY void max_pool2d_grad_run(const mega_max_pool2d_grad_args *a, mega_dtype t)
{
    const int64_t rows = a->samples * a->windows.height * a->windows.width;
    for (place p = tile_first(rows, a->channels); place_goes_on(&p); tile_next(&p, rows))
        if (p.left > 0) store_eight(a->dx, t, p.at, p.left, pool_gradient(&a->windows, a->dy, a->index, t, &p));
}
KERNELS_BY_TYPE(max_pool2d_grad, mega_max_pool2d_grad_args, COLUMN_THREADS)

BODY void mean_pool2d_grad_run(const mega_mean_pool2d_grad_args *a, mega_dtype t)
{
    const int64_t rows = a->samples * a->windows.height * a->windows.width;
    const float count = (float)(a->windows.size * a->windows.size);
    for (place p = tile_first(rows, a->channels); place_goes_on(&p); tile_next(&p, rows)) {
        if (p.left <= 0) continue;
        eight sum = pool_gradient(&a->windows, a->dy, NULL, t, &p);
        UNROLL
        for (int k = 0; k < 8; k++) sum.v[k] = device_divide(sum.v[k], count);
        store_eight(a->dx, t, p.at, p.left, sum);
    }
}
KERNELS_BY_TYPE(mean_pool2d_grad, mega_mean_pool2d_grad_args, COLUMN_THREADS)
