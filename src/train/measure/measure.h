/* Shared by the files of this folder: a device that is measured. */
#ifndef MEGA_TRAIN_MEASURE_H
#define MEGA_TRAIN_MEASURE_H

#include "megalith/cuda.h"
#include "megalith/kernels.h"
#include "megalith/measure.h"

typedef struct measured_device {
    const mega_measure_options *o;
    mega_backend_kind backend;
    mega_device *device; /* NULL: the host */
    mega_queue queue;
    const mega_gpu_model *model;         /* NULL: not known */
    double peak_32, peak_16, peak_bytes; /* per second; 0: not known */
    char *tile;                          /* random numbers, which fill what kernels read */
} measured_device;

/* Calls work(user) some times, and notes `amount` divided by the seconds of one; `text` says of what. */
typedef mega_status measured_work(const measured_device *d, void *user);
mega_status measure_rate(const measured_device *d, mega_measured *m, double amount, double peak, measured_work *work,
                         void *user);
double measure_peak(const measured_device *d, mega_dtype type);

/* measure_kernels.c: products, attention, sums of two arrays */
mega_status measure_kernels(const measured_device *d);
/* measure_step.c */
mega_status measure_step(const measured_device *d, mega_dtype type);

/* Device memory of random numbers of a type. */
mega_status measure_alloc(const measured_device *d, void **out, size_t bytes, mega_dtype type);

#endif
