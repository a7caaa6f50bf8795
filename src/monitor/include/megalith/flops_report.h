/* The report of DeepSpeed's flops profiler: parameters, multiply-accumulates and time of one step, by module. */
#ifndef MEGALITH_FLOPS_REPORT_H
#define MEGALITH_FLOPS_REPORT_H

#include "megalith/memory.h"
#include "megalith/monitor_options.h"
#include "megalith/status.h"

/* What was counted under one path of the model ("h.3.mlp.c_fc"), without what is below it. Several may have one
 * path. */
typedef struct mega_flops_row {
    const char *path;
    double params;  /* elements on this rank */
    double flops;   /* of the forward pass of one micro-batch */
    double seconds; /* the same */
} mega_flops_row;

typedef struct mega_flops_report {
    int64_t step, ranks, data_parallel, model_parallel;
    int64_t micro_batch;    /* samples */
    int64_t samples;        /* of the step, on all ranks */
    double params_of_model; /* of all ranks that share the model */
    /* seconds: forward and backward of one micro-batch; update of the step; the whole step */
    double forward_s, backward_s, update_s, step_s;
    double micro_batches; /* of a step on this rank */
    const mega_flops_row *row;
    int rows;
} mega_flops_report;

/* Appends the report. Reads the members flops_… of the options. */
mega_status mega_flops_report_write(const mega_flops_report *r, const mega_monitor_options *o, mega_buffer *out);

#endif
