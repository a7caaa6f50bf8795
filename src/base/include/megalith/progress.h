/* Progress of long commands: amount done, rate, and time left. */
#ifndef MEGALITH_PROGRESS_H
#define MEGALITH_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* On a terminal (stderr) one line is redrawn about ten times a second; otherwise plain lines: one after 2 s, then at
 * least one a minute. Nothing is shown for work that ends within 2 s. Lines go through mega_log (info) when not on a
 * terminal. Units: `unit` names the items ("documents"); bytes may be 0. total 0 = unknown. */
typedef struct mega_progress {
    const char *what, *unit;
    uint64_t total_bytes, total_items;
    double started, last_shown;
    bool terminal, shown;
} mega_progress;
void mega_progress_begin(mega_progress *p, const char *what, const char *unit, uint64_t total_bytes,
                         uint64_t total_items);
void mega_progress_update(mega_progress *p, uint64_t bytes, uint64_t items);
void mega_progress_end(mega_progress *p, uint64_t bytes, uint64_t items);
/* "1 h 02 min", "3.4 s" */
void mega_format_bytes(char *out, int size, double bytes); /* "873 bytes", "12.3 kB", "1234.50 MB" */
void mega_format_duration(char *out, int size, double seconds);

#endif
