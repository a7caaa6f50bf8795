/* What the writer and the reader of metrics files share. */
#ifndef MEGALITH_METRICS_IMPL_H
#define MEGALITH_METRICS_IMPL_H

#include "megalith/metrics.h"
#include <jansson.h>

/* Is the row of this run? NULL: of none. */
bool mega_metrics_is_of_run(const json_t *row, const char *run);

#endif
