/* A page about one training or several: curves, memory, layout, schedule, machine, options. One HTML file that loads
 * nothing: its pictures are inline SVG. */
#ifndef MEGALITH_REPORT_H
#define MEGALITH_REPORT_H

#include "megalith/memory.h"
#include "megalith/metrics.h"
#include "megalith/status.h"

enum {
    MEGA_REPORT_LOSS,
    MEGA_REPORT_VALIDATION,
    MEGA_REPORT_TEST,
    MEGA_REPORT_LEARNING_RATE,
    MEGA_REPORT_LOSS_SCALE,
    MEGA_REPORT_GRAD_NORM,
    MEGA_REPORT_TOKENS,
    MEGA_REPORT_CURVES
};

/* One run: its curves, and what it wrote about itself. */
typedef struct mega_report_run {
    char *label;          /* its name on the page */
    char *path;           /* the metrics file */
    char *id;             /* "": the rows have no run id */
    struct json_t *about; /* METRICS.run.json; NULL: there is none, or it is of another run (see `lacks`) */
    char *lacks;          /* why `about` is NULL, for the page */
    mega_curve curve[MEGA_REPORT_CURVES];
} mega_report_run; /* zero-initialised is valid and empty */

/* Reads a run from `source`: a metrics file, or a folder that holds exactly one (*.jsonl). `id`: the run to read of a
 * file with several; NULL: the last. Returns MEGA_ERR_NOT_FOUND, MEGA_ERR_FORMAT or MEGA_ERR_USAGE if there is none. */
mega_status mega_report_read(mega_report_run *out, const char *source, const char *label, const char *id);
/* Appends the page. */
mega_status mega_report_write(const mega_report_run *run, int count, mega_buffer *out);
void mega_report_run_fini(mega_report_run *run);

#endif
