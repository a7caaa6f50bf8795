/* What log.c and log_stragglers.c share: the counts of exchanges. */
#ifndef MEGALITH_LOG_LINES_H
#define MEGALITH_LOG_LINES_H

#include "comm_impl.h"
#include "megalith/comm_log.h"

/* The mean leaves out the slowest and fastest tenth of the last COMM_LOG_RECENT exchanges of a line, as DeepSpeed does
 * of all. */
enum { COMM_LOG_LINES = 256, COMM_LOG_RECENT = 256 };

typedef struct comm_log_line {
    comm_kind kind;
    int64_t bytes;
    const mega_comm *comm; /* the group, which may be gone by now */
    char group[MEGA_COMM_NAME];
    int ranks;        /* of the group */
    const char *name; /* NULL: of any name */
    int64_t count;
    double total_s, exposed_s;
    float recent_s[COMM_LOG_RECENT];
} comm_log_line;

struct comm_log {
    mega_comm_log_options options;
    comm_log_line *line;
    int lines;
    int64_t lost; /* exchanges for which there was no line */
};

/* Sorts the lines by kind, name, size and group. */
void comm_log_sorted(const struct comm_log *l, const comm_log_line *out[COMM_LOG_LINES]);
/* Appends the name of the kind if the line before (NULL: none) is of another. */
void comm_log_put_kind(const comm_log_line *x, const comm_log_line *before, mega_buffer *out);
const char *comm_log_size_text(char out[24], int64_t bytes);
const char *comm_log_kind_text(char out[80], comm_kind kind, const char *name);
int comm_log_recent(const comm_log_line *x); /* number of exchanges in recent_s */
double comm_log_trimmed_mean(const float *value, int count);

#endif
