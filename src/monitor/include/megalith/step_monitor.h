/* Watches the steps of a training for the options of monitor_options.h: DeepSpeed's progress lines, times and memory in
 * the log, and values for its monitors. The engine feeds it, on the first rank. */
#ifndef MEGALITH_STEP_MONITOR_H
#define MEGALITH_STEP_MONITOR_H

#include "megalith/monitor_options.h"
#include "megalith/status.h"
#include <stdint.h>

typedef struct mega_step_monitor mega_step_monitor;

/* Seconds of one micro-batch or step. */
typedef struct mega_step_times {
    double forward_s, backward_s; /* backward_s without the sums */
    double reduce_s;              /* sums of gradients over the ranks, for which this rank waited */
    double update_s;
} mega_step_times;

/* A completed step, or before the first one what is known then. */
typedef struct mega_step_seen {
    int64_t step, skipped;        /* so far */
    int64_t samples;              /* so far */
    int64_t batch, micro_batches; /* samples and micro-batches of this step */
    bool has_loss, is_scaled;     /* is_scaled: there is a loss scale */
    double loss, lr, loss_scale;  /* lr, loss_scale: of the next step, as DeepSpeed logs them */
    double momentum[2];
    int momenta;    /* 2: betas */
    double seconds; /* of the whole step */
    mega_step_times times;
    int64_t planned_bytes; /* memory that is allocated */
} mega_step_seen;

/* `o` must outlive the monitor. `config`: a JSON object with the settings of the run; NULL: none. Only memory can
 * fail. */
mega_status mega_step_monitor_create(const mega_monitor_options *o, const char *config, mega_step_monitor **out);
/* The functions below do nothing if m is NULL; they never fail, and allocate nothing once each has been called. */
void mega_step_monitor_begin(mega_step_monitor *m, const mega_step_seen *s); /* before the first step */
void mega_step_monitor_micro_batch(mega_step_monitor *m, const mega_step_times *times);
void mega_step_monitor_step(mega_step_monitor *m, const mega_step_seen *s);
void mega_step_monitor_event(mega_step_monitor *m, const char *tag, double value, int64_t samples);
void mega_step_monitor_memory(mega_step_monitor *m, const char *where, int64_t planned_bytes);
void mega_step_monitor_destroy(mega_step_monitor *m);

#endif
