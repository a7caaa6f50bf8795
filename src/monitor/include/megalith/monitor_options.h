/* What a training writes and logs for DeepSpeed's monitors and profilers: the blocks of a DeepSpeed JSON and the
 * options of the same meaning. Rows: monitor/options.c. */
#ifndef MEGALITH_MONITOR_OPTIONS_H
#define MEGALITH_MONITOR_OPTIONS_H

#include "megalith/option.h"

typedef struct mega_monitor_options {
    bool monitor_tensorboard;
    const char *monitor_tensorboard_path, *monitor_tensorboard_job; /* the events are in path/job */
    bool monitor_csv;
    const char *monitor_csv_path, *monitor_csv_job; /* the files are in path/job */
    bool monitor_wandb;
    const char *monitor_wandb_path;                                               /* the run is in path/wandb */
    const char *monitor_wandb_project, *monitor_wandb_group, *monitor_wandb_team; /* group, team: NULL: none */
    int64_t steps_per_print;                                                      /* 0: no such lines */
    bool wall_clock_breakdown, memory_breakdown, dump_state;
    bool flops_profiler;
    int64_t flops_profiler_step, flops_profiler_depth, flops_profiler_top; /* depth -1: the deepest */
    bool flops_profiler_detail;
    double flops_profiler_recompute;   /* forward passes that the backward pass repeats: 1 with full recomputation */
    const char *flops_profiler_output; /* file of the report; NULL: the log */
    bool comms_logger, comms_logger_verbose, comms_logger_all, comms_logger_debug, comms_logger_stragglers;
    mega_list comms_logger_ops; /* operations to log if not all */
} mega_monitor_options;

/* DeepSpeed's monitors and profilers, as a section of --help. */
extern const mega_option_section mega_monitor_section;

#endif
