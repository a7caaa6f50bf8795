/* The gradients of a step over several data-parallel ranks that sum them in 16 bits, by definition: one rank computes
 * the micro-batches of all, keeps apart what each rank has of them, rounds it, adds, and rounds the sum. */
#ifndef MEGALITH_TESTS_ROUNDED_SUMS_H
#define MEGALITH_TESTS_ROUNDED_SUMS_H

#include "device.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct rounded_sums {
    int ranks;       /* of dp */
    mega_dtype type; /* of the sums */
    bool each;       /* ZeRO 2, 3: the gradients of every micro-batch are summed, otherwise those of the step */
    int64_t count;
    double *of;  /* [ranks][count]: gradients that are not summed yet */
    double *sum; /* [count] */
} rounded_sums;

static inline double rounded_read(const mega_params *p, const void *from, int64_t i)
{
    return mega_params_acc_dtype(p) == MEGA_F64 ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

static inline void rounded_write(const mega_params *p, void *to, int64_t i, double value)
{
    if (mega_params_acc_dtype(p) == MEGA_F64) ((double *)to)[i] = value;
    else
        ((float *)to)[i] = (float)value;
}

static inline size_t rounded_bytes(const mega_params *p, int param)
{
    return (size_t)mega_params_get(p, param)->count * mega_dtype_size(mega_params_acc_dtype(p));
}

static inline double rounded_add(const mega_params *p, double a, double b)
{
    return mega_params_acc_dtype(p) == MEGA_F64 ? a + b : (double)((float)a + (float)b);
}

static inline float rounded_to(float x, mega_dtype type)
{
    return mega_half_to_f32(mega_f32_to_half(x, type), type);
}

static inline void rounded_begin(rounded_sums *s, const mega_params *p)
{
    s->count = 0;
    for (int i = 0; i < mega_params_count(p); i++)
        if (mega_params_grad(p, i) != NULL) s->count += mega_params_get(p, i)->count;
    s->of = calloc((size_t)s->count * (size_t)s->ranks + 1, sizeof *s->of);
    s->sum = calloc((size_t)s->count + 1, sizeof *s->sum);
    if (s->of == NULL || s->sum == NULL) abort();
}

static inline void rounded_end(rounded_sums *s)
{
    free(s->of);
    free(s->sum);
}

static inline void rounded_add_up(rounded_sums *s, const mega_params *p)
{
    for (int64_t k = 0; k < s->count; k++) {
        float sum = 0;
        for (int r = 0; r < s->ranks; r++) sum += rounded_to((float)s->of[r * s->count + k], s->type);
        s->sum[k] = rounded_add(p, s->sum[k], (double)rounded_to(sum, s->type));
    }
    memset(s->of, 0, (size_t)s->count * (size_t)s->ranks * sizeof *s->of);
}

/* Takes the gradients of micro-batch m of the step, whose memory is zero afterwards; after the last one it has the
 * sums. */
static inline void rounded_take(rounded_sums *s, const mega_params *p, int64_t m, bool is_last)
{
    double *of = s->of + m % s->ranks * s->count;
    int64_t at = 0;
    for (int i = 0; i < mega_params_count(p); i++) {
        void *gradient = mega_params_grad(p, i);
        const size_t bytes = rounded_bytes(p, i);
        void *copy = gradient != NULL ? device_copy(gradient, bytes) : NULL;
        for (int64_t k = 0; copy != NULL && k < mega_params_get(p, i)->count; k++, at++)
            of[at] = rounded_add(p, of[at], rounded_read(p, copy, k));
        if (copy != NULL) mega_device_fill(gradient, 0, bytes);
        free(copy);
    }
    if (is_last || (s->each && m % s->ranks == s->ranks - 1)) rounded_add_up(s, p);
    at = 0;
    for (int i = 0; is_last && i < mega_params_count(p); i++) {
        void *gradient = mega_params_grad(p, i);
        void *copy = gradient != NULL ? device_copy(gradient, rounded_bytes(p, i)) : NULL;
        for (int64_t k = 0; copy != NULL && k < mega_params_get(p, i)->count; k++)
            rounded_write(p, copy, k, s->sum[at++]);
        if (copy != NULL) mega_device_write(gradient, copy, rounded_bytes(p, i));
        free(copy);
    }
}

#endif
