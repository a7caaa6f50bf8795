/* Shared by the files that write the page of megalith report. */
#ifndef MEGALITH_REPORT_IMPL_H
#define MEGALITH_REPORT_IMPL_H

#include "megalith/report.h"
#include <jansson.h>

/* Reads a member of a nested object: report_text(run, "machine", "host"); block NULL: of the description itself. NULL
 * or NAN if it is missing. */
const char *report_text(const mega_report_run *run, const char *block, const char *key);
double report_number(const mega_report_run *run, const char *block, const char *key);
void report_put_bytes(mega_buffer *out, double bytes); /* "1.25 GB" */

/* report_charts.c */
mega_status report_put_charts(const mega_report_run *run, int count, mega_buffer *out);

/* report_tables.c */
void report_put_summary(const mega_report_run *run, int count, mega_buffer *out);
void report_put_layout(const mega_report_run *run, int count, mega_buffer *out);
void report_put_memory(const mega_report_run *run, int count, mega_buffer *out);
void report_put_schedule(const mega_report_run *run, int count, mega_buffer *out);
void report_put_machine(const mega_report_run *run, int count, mega_buffer *out);
void report_put_options(const mega_report_run *run, int count, mega_buffer *out);

#endif
