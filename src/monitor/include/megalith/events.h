/* The values of a training over its samples, written to each monitor that the options enable: TensorBoard, CSV,
 * wandb. */
#ifndef MEGALITH_EVENTS_H
#define MEGALITH_EVENTS_H

#include "megalith/monitor_options.h"
#include <stdint.h>

typedef struct mega_events mega_events;

/* Returns NULL if no monitor is enabled. `config`: a JSON object with the settings of the run, which each monitor
 * keeps; NULL: none. None of these functions fails: a monitor that cannot be opened is left out, and one that cannot be
 * written tries again; both are warnings. */
mega_events *mega_events_open(const mega_monitor_options *o, const char *config);
/* Steps do not fall. Values are written at a flush. NULL: nothing. */
void mega_events_put(mega_events *e, const char *tag, double value, int64_t step);
void mega_events_flush(mega_events *e);        /* NULL: nothing */
void mega_events_flush_if_due(mega_events *e); /* the same, if the last flush is some seconds ago */
void mega_events_close(mega_events *e);        /* NULL: nothing */

#endif
