/* DeepSpeed's CSV monitor: a file for each name, in one folder. */
#ifndef MEGALITH_CSV_H
#define MEGALITH_CSV_H

#include "megalith/outbox.h"
#include "megalith/status.h"

struct json_t;

typedef struct csv_monitor csv_monitor;
/* `config`: a flat object with the settings of the run, written to FOLDER/run.json; NULL: none. */
mega_status csv_monitor_open(const char *folder, const struct json_t *config, csv_monitor **out);
/* Adds a row to FOLDER/Train_Samples_lr.csv for the tag "Train/Samples/lr". It is written by a flush. */
mega_status csv_monitor_put(csv_monitor *m, const char *tag, double value, int64_t step);
mega_status csv_monitor_flush(csv_monitor *m);
mega_missing csv_monitor_missing(const csv_monitor *m);
mega_status csv_monitor_close(csv_monitor *m); /* frees m even if it fails; NULL is allowed */

#endif
