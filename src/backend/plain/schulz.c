/* What Newton-Schulz iterations do besides products: plain kernels (optimizer_kernels.h). */
#include "backend_impl.h"
#include <math.h>

static void plain_matrix_squares_run(const mega_queue *queue, const void *args)
{
    const mega_matrix_squares_args *a = args;
    a->sum[0] = 0.0;
    for (int64_t i = 0; i < a->count; i++) {
        const double x = get(a->x, acc_of(a->head.dtype), i);
        a->sum[0] += x * x;
    }
}

static void plain_matrix_scale_run(const mega_queue *queue, const void *args)
{
    const mega_matrix_scale_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    const double factor = 1 / fmax(sqrt(a->squares[0]), 1e-7);
    for (int64_t i = 0; i < a->count; i++) put(a->y, acc, i, get(a->x, acc, i) * factor);
}

static void plain_mirror_run(const mega_queue *queue, const void *args)
{
    const mega_mirror_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    for (int64_t i = 0; i < a->size; i++)
        for (int64_t j = 0; j < i; j++) put(a->s, acc, j * a->size + i, get(a->s, acc, i * a->size + j));
}

static void plain_polynomial_run(const mega_queue *queue, const void *args)
{
    const mega_polynomial_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    const mega_mirror_args both = {.head = a->head, .s = a->s, .size = a->size};
    for (int64_t i = 0; i < a->size; i++)
        for (int64_t j = 0; j <= i; j++) {
            const int64_t at = i * a->size + j;
            put(a->s, acc, at, (i == j ? a->a : 0.0) + a->b * get(a->x, acc, at) + a->c * get(a->s, acc, at));
        }
    plain_mirror_run(queue, &both);
}

const mega_kernel mega_plain_matrix_squares = {.name = "matrix_squares", .run = plain_matrix_squares_run};
const mega_kernel mega_plain_matrix_scale = {.name = "matrix_scale", .run = plain_matrix_scale_run};
const mega_kernel mega_plain_mirror = {.name = "mirror", .run = plain_mirror_run};
const mega_kernel mega_plain_polynomial = {.name = "polynomial", .run = plain_polynomial_run};
