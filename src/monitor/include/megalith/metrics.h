/* Metrics files: one JSON object a line, for people's scripts and for `megalith plot`. */
#ifndef MEGALITH_METRICS_H
#define MEGALITH_METRICS_H

#include "megalith/memory.h"
#include "megalith/outbox.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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
/* Rows are appended to the file, each with the id of its run (NULL: without). Before the first one, those rows of this
 * run are cut off that it writes again because it goes on from `keep_through_iteration`: rows of later iterations,
 * those marked "final": true, and a row that was never finished. So the file of a run that was cut and resumed equals
 * that of one that never was. Rows of other runs stay. The cut is atomic. The folder is created where need be. A file
 * whose first line is no row ("iteration" is missing in it) is an error, and stays as it is. */
mega_status mega_metrics_open(mega_metrics **out, const char *path, const char *run, int64_t keep_through_iteration);
/* The same verdict on that first line, early: missing and empty files are fine, and so are pipes. */
mega_status mega_metrics_check(const char *path);
/* Writes one row and hands it to the system. Keys in the order given; the first should be "iteration", an INT. A row
 * that cannot be written waits, and is tried again with the next one. */
mega_status mega_metrics_row(mega_metrics *m, const mega_metric *values, int count);
/* Returns when all rows so far are on the disk: before a checkpoint is written that a run may go on from. */
mega_status mega_metrics_sync(mega_metrics *m);
mega_missing mega_metrics_missing(const mega_metrics *m); /* rows that are not in the file, so far */
/* Syncs, and says which rows are not there in the end. Frees also when it fails; NULL is fine. */
mega_status mega_metrics_close(mega_metrics *m, mega_missing *missing);

/* One curve of a metrics file: rows of one run that have both keys as numbers. */
typedef struct mega_curve {
    double *x, *y;
    size_t count;
} mega_curve; /* zero-initialised is valid and empty */
/* `run` is the id of the run; NULL: of the last row. A file without rows, or one whose rows lack a key, is an error
 * that names the keys there are, or the runs. A broken line is one that names file and line; an unfinished last line (a
 * run is writing) is passed over. */
mega_status mega_curve_read(mega_curve *out, const char *path, const char *run, const char *x_key, const char *y_key);
/* The runs of a file in the order of their last rows, comma-separated, "none" for rows without one; how many. */
mega_status mega_metrics_runs(const char *path, mega_buffer *out, int64_t *count);
/* Exponential running mean, unbiased at the start: each point is weighted `factor` times as much as its successor. */
void mega_curve_smooth(mega_curve *c, double factor);
void mega_curve_fini(mega_curve *c);

#ifdef __cplusplus
}
#endif

#endif
