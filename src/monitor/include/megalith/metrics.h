/* Metrics files: one JSON object per line, for users' scripts and for `megalith plot`. */
#ifndef MEGALITH_METRICS_H
#define MEGALITH_METRICS_H

#include "megalith/memory.h"
#include "megalith/outbox.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One member of a row. Floats have enough digits to read back the same bits; a value that is not finite is null. */
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
/* Appends rows to the file, each with the id of its run (NULL: without). Before the first row, removes those rows of
 * this run that it will write again because it resumes from iteration `keep_through_iteration`: rows of later
 * iterations, rows marked "final": true, and an incomplete row. So the file of a resumed run equals that of an
 * uninterrupted one. Rows of other runs stay. The removal is atomic. Creates the folder if needed. Returns
 * MEGA_ERR_FORMAT, and leaves the file as it is, if its first line is not a row ("iteration" is missing). */
mega_status mega_metrics_open(const char *path, const char *run, int64_t keep_through_iteration, mega_metrics **out);
/* Checks that first line without opening: MEGA_OK for missing and empty files, and for pipes. */
mega_status mega_metrics_check(const char *path);
/* Writes one row and passes it to the system. Keys in the order given; the first should be "iteration", an INT. A row
 * that cannot be written is kept and tried again with the next one. */
mega_status mega_metrics_row(mega_metrics *m, const mega_metric *values, int count);
/* Returns when all rows so far are on disk: call it before writing a checkpoint from which a run may resume. */
mega_status mega_metrics_sync(mega_metrics *m);
mega_missing mega_metrics_missing(const mega_metrics *m); /* rows that are not in the file so far */
/* Syncs, and reports the rows that are finally missing. Frees m even if it fails; NULL is allowed. */
mega_status mega_metrics_close(mega_metrics *m, mega_missing *missing);

/* A training writes what it is (options and who set them, layout, memory, machine) to the metrics file's name with this
 * ending: one JSON object, replaced at each start. */
#define MEGA_METRICS_ABOUT ".run.json"

/* One curve of a metrics file: the rows of one run in which both keys are numbers. */
typedef struct mega_curve {
    double *x, *y;
    size_t count;
} mega_curve; /* zero-initialised is valid and empty */
/* `run` is a run id; NULL: the run of the last row. Returns an error that lists the existing keys or runs if the file
 * has no rows or its rows lack a key, or that names file and line if a line is malformed. Skips an incomplete last
 * line, which a run may be writing. */
mega_status mega_curve_read(const char *path, const char *run, const char *x_key, const char *y_key, mega_curve *out);
/* Like mega_curve_read, for several keys in one pass: writes `count` curves. A key that no row has gives an empty
 * curve; it is an error if all are empty. Appends the run's id, unless it has none, to *out_run (may be NULL). */
mega_status mega_curves_read(const char *path, const char *run, const char *x_key, const char *const *y_key, int count,
                             mega_curve *out, mega_buffer *out_run);
/* Appends the runs of a file in the order of their last rows, comma-separated, "none" for rows without one; *count
 * receives their number. */
mega_status mega_metrics_runs(const char *path, mega_buffer *out, int64_t *count);
/* Exponential running mean, without bias at the start: each point has `factor` times the weight of its successor. */
void mega_curve_smooth(mega_curve *c, double factor);
void mega_curve_fini(mega_curve *c);

#endif
