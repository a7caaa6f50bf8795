/* Shared by the writer and the reader of metrics files. */
#ifndef MEGALITH_METRICS_IMPL_H
#define MEGALITH_METRICS_IMPL_H

#include "megalith/metrics.h"
#include <jansson.h>

/* Returns whether the row belongs to this run; NULL: to no run. */
bool mega_metrics_is_of_run(const json_t *row, const char *run);

#endif
