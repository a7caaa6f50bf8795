/* Measures what a device can do: copies, products and attention by shape, a training step of a small GPT. */
#ifndef MEGALITH_MEASURE_H
#define MEGALITH_MEASURE_H

#include "megalith/status.h"
#include "megalith/threads.h"
#include "megalith/train_options.h"

/* A figure: the median of several tries, the smallest and the largest. */
typedef struct mega_measured {
    char name[64];
    const char *unit; /* GB/s, TFLOP/s, tokens/s */
    double value, low, high;
    double share; /* of the peak that is known; 0: none is */
    char text[160];
} mega_measured;

typedef struct mega_measure_options {
    mega_train_options *cfg; /* its backend says which device; the options of the step are set in it */
    mega_team *team;
    bool is_quick; /* small shapes, once each: whether it runs, and not how fast */
    void (*each)(void *user, const mega_measured *m);
    void *user;
} mega_measure_options;

/* Calls `each` for every figure once it is measured. A device that has no kernel for one is an error. */
MEGA_CHECK_RESULT mega_status mega_measure_device(const mega_measure_options *o);

#endif
