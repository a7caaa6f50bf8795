/* Metrics files: one JSON object a line, for people's scripts and for `megalith plot`. */
#ifndef MEGALITH_METRICS_H
#define MEGALITH_METRICS_H

#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One member of a row. Floats carry the digits that give the same bits back; what is not finite is null. */
typedef enum mega_metric_kind {
    MEGA_METRIC_INT,
    MEGA_METRIC_FLOAT,
    MEGA_METRIC_DOUBLE,
    MEGA_METRIC_TEXT,
    MEGA_METRIC_BOOL
} mega_metric_kind;
typedef struct mega_metric {
    const char *key;
    mega_metric_kind kind;
    int64_t i; /* INT, BOOL */
    double x;  /* FLOAT (a float's value), DOUBLE */
    const char *text;
} mega_metric;

typedef struct mega_metrics mega_metrics;
#define MEGA_METRICS_KEEP_ALL INT64_MAX
/* Appends to a file, after cutting off the rows that a run which goes on from `keep_through_iteration` will write
 * again: those of later iterations, those marked "final": true, and a row that was never finished. So the file of a run
 * that was cut and resumed equals that of one that never was. The cut is atomic. 0: the file starts anew;
 * MEGA_METRICS_KEEP_ALL: only the row that was never finished goes. The folder is created where need be. */
/* A file whose first line is no row ("iteration" is missing in it) is an error, and stays as it is. */
mega_status mega_metrics_open(mega_metrics **out, const char *path, int64_t keep_through_iteration);
/* The same verdict on that first line, early: missing and empty files are fine. */
mega_status mega_metrics_check(const char *path);
/* Writes one row and hands it to the system. Keys in the order given; the first should be "iteration", an INT. */
mega_status mega_metrics_row(mega_metrics *m, const mega_metric *values, int count);
/* Returns when all rows so far are on the disk: before a checkpoint is written that a run may go on from. */
mega_status mega_metrics_sync(mega_metrics *m);
mega_status mega_metrics_close(mega_metrics *m); /* syncs; frees also when it fails; NULL is fine */

/* One curve of a metrics file: rows that have both keys as numbers. */
typedef struct mega_curve {
    double *x, *y;
    size_t count;
} mega_curve; /* zero-initialised is valid and empty */
/* A file without rows, or one whose rows lack a key, is an error that names the keys there are. A broken line is one
 * that names file and line; an unfinished last line (a run is writing) is passed over. */
mega_status mega_curve_read(mega_curve *out, const char *path, const char *x_key, const char *y_key);
/* Exponential running mean, unbiased at the start: each point is weighted `factor` times as much as its successor. */
void mega_curve_smooth(mega_curve *c, double factor);
void mega_curve_fini(mega_curve *c);

#endif
