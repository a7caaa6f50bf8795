/* Where the windows of images lie, for the kernels of convolution and pooling. Pixels are numbered by 32 bits, in which
 * a GPU divides fast: launch.c refuses images of more. */
#ifndef MEGA_CUDA_WINDOWS_H
#define MEGA_CUDA_WINDOWS_H

#include "kernel.h"

/* mega_windows_along, which is a function of the host. */
BODY int windows_along(const mega_windows *w, int64_t extent)
{
    return (int)(extent + 2 * w->padding - w->size) / (int)w->stride + 1;
}

/* A window: its image's first pixel, and its corner, which may be outside of the image. */
typedef struct window_corner {
    int64_t image;
    int top, left;
} window_corner;

/* The window of a row of the result. */
BODY window_corner window_corner_of(const mega_windows *w, int64_t row)
{
    const unsigned width = (unsigned)windows_along(w, w->width), height = (unsigned)windows_along(w, w->height);
    const unsigned line = (unsigned)row / width, sample = line / height;
    window_corner c;
    c.image = (int64_t)sample * (w->height * w->width);
    c.top = (int)((line - sample * height) * (unsigned)w->stride) - (int)w->padding;
    c.left = (int)(((unsigned)row - line * width) * (unsigned)w->stride) - (int)w->padding;
    return c;
}

/* A pixel, from a row of the images. */
typedef struct window_pixel {
    unsigned sample;
    int y, x;
} window_pixel;

BODY window_pixel window_pixel_of(const mega_windows *w, int64_t row)
{
    const unsigned line = (unsigned)row / (unsigned)w->width;
    window_pixel p;
    p.sample = line / (unsigned)w->height;
    p.y = (int)(line - p.sample * (unsigned)w->height);
    p.x = (int)((unsigned)row - line * (unsigned)w->width);
    return p;
}

/* The windows, first to last, that contain a pixel along one direction. */
typedef struct window_range {
    int first, last;
} window_range;

BODY window_range windows_with(const mega_windows *w, int64_t extent, int pixel)
{
    const int stride = (int)w->stride, far = pixel + (int)w->padding, near = far - (int)w->size + 1;
    const int count = windows_along(w, extent);
    window_range r = {near > 0 ? (near + stride - 1) / stride : 0, far / stride};
    if (r.last >= count) r.last = count - 1;
    return r;
}

#endif
