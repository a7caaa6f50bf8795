/* Convolution of images and its gradients: plain kernel (ops_image.h). */
#include "backend_impl.h"

/* Location of the window of a row of y: its sample and its top left pixel, which may be outside the image
 * (negative). */
typedef struct conv2d_corner {
    int64_t sample, top, left;
} conv2d_corner;

static conv2d_corner conv2d_corner_of(const mega_windows *w, int64_t row)
{
    const int64_t width = mega_windows_along(w, w->width), height = mega_windows_along(w, w->height);
    const int64_t y = row / width % height, x = row % width;
    return (conv2d_corner){row / (width * height), y * w->stride - w->padding, x * w->stride - w->padding};
}

/* Returns the row of x of pixel (i, j) of the window; -1 outside the image. */
static int64_t conv2d_pixel(const mega_windows *w, conv2d_corner at, int64_t i, int64_t j)
{
    const int64_t y = at.top + i, x = at.left + j;
    if (y < 0 || y >= w->height || x < 0 || x >= w->width) return -1;
    return (at.sample * w->height + y) * w->width + x;
}

static int64_t conv2d_rows(const mega_windows *w, int64_t samples)
{
    return samples * mega_windows_along(w, w->height) * mega_windows_along(w, w->width);
}

static double conv2d_sum(const mega_conv2d_args *a, conv2d_corner at, int64_t o)
{
    const mega_windows *w = &a->windows;
    const mega_dtype t = a->head.dtype;
    double sum = a->bias != NULL ? get(a->bias, t, o) : 0.0;
    for (int64_t c = 0; c < a->in_channels; c++)
        for (int64_t i = 0; i < w->size; i++)
            for (int64_t j = 0; j < w->size; j++) {
                const int64_t pixel = conv2d_pixel(w, at, i, j);
                if (pixel >= 0)
                    sum += get(a->x, t, pixel * a->in_channels + c) *
                           get(a->weight, t, ((o * a->in_channels + c) * w->size + i) * w->size + j);
            }
    return sum;
}

static void plain_conv2d_run(const mega_queue *queue, const void *args)
{
    const mega_conv2d_args *a = args;
    const int64_t rows = conv2d_rows(&a->windows, a->samples);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < a->out_channels; o++)
            put(a->y, a->head.dtype, r * a->out_channels + o, conv2d_sum(a, conv2d_corner_of(&a->windows, r), o));
}

/* Returns the sum over all windows that contain the pixel (y, x) of a sample. In each direction, a window contains it
 * if its distance to the pixel is in 0 … size - 1. */
static double conv2d_grad_x_sum(const mega_conv2d_grad_x_args *a, int64_t sample, int64_t y, int64_t x, int64_t c)
{
    const mega_windows *w = &a->windows;
    const mega_dtype t = a->head.dtype;
    const int64_t height = mega_windows_along(w, w->height), width = mega_windows_along(w, w->width);
    double sum = 0.0;
    for (int64_t i = 0; i < w->size; i++)
        for (int64_t j = 0; j < w->size; j++) {
            const int64_t top = y + w->padding - i, left = x + w->padding - j;
            if (top < 0 || top % w->stride != 0 || top / w->stride >= height) continue;
            if (left < 0 || left % w->stride != 0 || left / w->stride >= width) continue;
            const int64_t row = (sample * height + top / w->stride) * width + left / w->stride;
            for (int64_t o = 0; o < a->out_channels; o++)
                sum += get(a->dy, t, row * a->out_channels + o) *
                       get(a->weight, t, ((o * a->in_channels + c) * w->size + i) * w->size + j);
        }
    return sum;
}

static void plain_conv2d_grad_x_run(const mega_queue *queue, const void *args)
{
    const mega_conv2d_grad_x_args *a = args;
    const mega_windows *w = &a->windows;
    for (int64_t s = 0; s < a->samples; s++)
        for (int64_t y = 0; y < w->height; y++)
            for (int64_t x = 0; x < w->width; x++)
                for (int64_t c = 0; c < a->in_channels; c++)
                    put(a->dx, a->head.dtype, ((s * w->height + y) * w->width + x) * a->in_channels + c,
                        conv2d_grad_x_sum(a, s, y, x, c));
}

static double conv2d_grad_w_sum(const mega_conv2d_grad_w_args *a, int64_t o, int64_t c, int64_t i, int64_t j)
{
    const mega_dtype t = a->head.dtype;
    const int64_t rows = conv2d_rows(&a->windows, a->samples);
    double sum = 0.0;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t pixel = conv2d_pixel(&a->windows, conv2d_corner_of(&a->windows, r), i, j);
        if (pixel >= 0) sum += get(a->dy, t, r * a->out_channels + o) * get(a->x, t, pixel * a->in_channels + c);
    }
    return sum;
}

static void plain_conv2d_grad_w_run(const mega_queue *queue, const void *args)
{
    const mega_conv2d_grad_w_args *a = args;
    const mega_dtype t = a->head.dtype, acc = acc_of(t);
    const int64_t rows = conv2d_rows(&a->windows, a->samples), size = a->windows.size;
    for (int64_t o = 0; o < a->out_channels; o++) {
        double dbias = 0.0;
        for (int64_t c = 0; c < a->in_channels; c++)
            for (int64_t i = 0; i < size; i++)
                for (int64_t j = 0; j < size; j++)
                    put_add(a->dweight, acc, ((o * a->in_channels + c) * size + i) * size + j,
                            conv2d_grad_w_sum(a, o, c, i, j));
        for (int64_t r = 0; r < rows; r++) dbias += get(a->dy, t, r * a->out_channels + o);
        if (a->dbias != NULL) put_add(a->dbias, acc, o, dbias);
    }
}

const mega_kernel mega_plain_conv2d = {.name = "conv2d", .run = plain_conv2d_run};
const mega_kernel mega_plain_conv2d_grad_x = {.name = "conv2d_grad_x", .run = plain_conv2d_grad_x_run};
const mega_kernel mega_plain_conv2d_grad_w = {.name = "conv2d_grad_w", .run = plain_conv2d_grad_w_run};
