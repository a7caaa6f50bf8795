/* Reads and changes what an engine holds in device memory. */
#ifndef MEGALITH_TESTS_DEVICE_H
#define MEGALITH_TESTS_DEVICE_H

#include "megalith/device_memory.h"
#include "megalith/parameter.h"
#include <stdlib.h>

/* Number i of an array of doubles, floats or 16 bits. */
static inline double device_number(const void *array, mega_dtype type, int64_t i)
{
    union {
        double d;
        float f;
        uint16_t h;
    } x;
    const size_t size = mega_dtype_size(type);
    mega_device_read(&x, (const char *)array + (size_t)i * size, size);
    if (type == MEGA_F64) return x.d;
    return mega_dtype_is_half(type) ? (double)mega_half_to_f32(x.h, type) : (double)x.f;
}

/* Doubles, or else floats. */
static inline void device_set(void *array, mega_dtype type, int64_t i, double value)
{
    const float f = (float)value;
    if (type == MEGA_F64) mega_device_write((double *)array + i, &value, sizeof value);
    else
        mega_device_write((float *)array + i, &f, sizeof f);
}

/* Returns a copy for the host, which the caller frees. */
static inline void *device_copy(const void *from, size_t bytes)
{
    void *copy = malloc(bytes + 1);
    if (copy == NULL) abort();
    mega_device_read(copy, from, bytes);
    return copy;
}

/* The same of what this rank owns of the masters of a parameter. */
static inline void *device_copy_owned(const mega_params *p, int param)
{
    const size_t count = (size_t)mega_params_owned(p, param).count;
    return device_copy(mega_params_master(p, param), count * mega_dtype_size(mega_params_acc_dtype(p)));
}

static inline bool device_is_equal(const void *a, const void *b, size_t bytes)
{
    void *x = device_copy(a, bytes), *y = device_copy(b, bytes);
    const bool is_equal = memcmp(x, y, bytes) == 0;
    free(x);
    free(y);
    return is_equal;
}

#endif
