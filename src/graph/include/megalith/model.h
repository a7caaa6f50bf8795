/* A model: a list of layers. One rank runs all of them; with a pipeline, each stage runs a range of them. */
#ifndef MEGALITH_MODEL_H
#define MEGALITH_MODEL_H

#include "megalith/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Cuts `count` consecutive weights into `parts` ranges so that the difference between the largest and the smallest sum
 * is minimal; of several such cuts it chooses the later boundary, from the last one to the first, as DeepSpeed does.
 * Range i begins at out[i] and ends before out[i + 1]; out has space for parts + 1 numbers. A pure function.
 * If parts > count, range p begins at min(p, count).
 * Returns MEGA_ERR_USAGE unless parts >= 1, count >= 0 and every weight is finite and at least 0. */
mega_status mega_partition_balance(const double *weight, int count, int parts, int *out);

#ifdef __cplusplus
}
#endif
#endif
