/* The option rows of this module: monitors and profilers of a DeepSpeed JSON. */
#include "megalith/monitor_options.h"

#define ROW(name, field, kind) MEGA_OPTION(mega_monitor_options, name, field, kind)

// clang-format off
static const mega_option_row monitor_rows[] = {
    {ROW("steps-per-print", steps_per_print, MEGA_OPTION_INT), .json = "steps_per_print", .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "steps between DeepSpeed's progress lines: step, skipped steps, learning rate, momentum; samples per second and memory; 0: none"},
    {ROW("wall-clock-breakdown", wall_clock_breakdown, MEGA_OPTION_FLAG), .json = "wall_clock_breakdown", .help = "log the milliseconds of forward, backward, sums of gradients and update after each step, and after each micro-batch without a pipeline"},
    {ROW("memory-breakdown", memory_breakdown, MEGA_OPTION_FLAG), .json = "memory_breakdown", .help = "log planned and held memory of the first rank, and the host's, before and after each pass and step"},
    {ROW("dump-state", dump_state, MEGA_OPTION_FLAG), .json = "dump_state", .help = "log the engine's settings before the first step"},
    {ROW("monitor-tensorboard", monitor_tensorboard, MEGA_OPTION_FLAG), .json = "tensorboard.enabled", .help = "TensorBoard events with DeepSpeed's tags by number of samples (--tensorboard-dir: Megatron's tags by iteration)"},
    {ROW("monitor-tensorboard-path", monitor_tensorboard_path, MEGA_OPTION_STRING), .json = "tensorboard.output_path", .fallback = "", .takes_empty = true, .help = "folder above that of --monitor-tensorboard-job; empty: the working folder"},
    {ROW("monitor-tensorboard-job", monitor_tensorboard_job, MEGA_OPTION_STRING), .json = "tensorboard.job_name", .fallback = "DeepSpeedJobName", .help = "folder of the events"},
    {ROW("monitor-csv", monitor_csv, MEGA_OPTION_FLAG), .json = "csv_monitor.enabled", .help = "a CSV file for each of DeepSpeed's tags, with the columns step (number of samples) and value; rows are appended"},
    {ROW("monitor-csv-path", monitor_csv_path, MEGA_OPTION_STRING), .json = "csv_monitor.output_path", .fallback = "", .takes_empty = true, .help = "folder above that of --monitor-csv-job; empty: the working folder"},
    {ROW("monitor-csv-job", monitor_csv_job, MEGA_OPTION_STRING), .json = "csv_monitor.job_name", .fallback = "DeepSpeedJobName", .help = "folder of the CSV files"},
    {ROW("monitor-wandb", monitor_wandb, MEGA_OPTION_FLAG), .json = "wandb.enabled", .help = "an offline run of Weights & Biases in the folder wandb, with DeepSpeed's tags; wandb sync uploads it"},
    {ROW("monitor-wandb-path", monitor_wandb_path, MEGA_OPTION_STRING), .fallback = "", .takes_empty = true, .help = "folder above the folder wandb; empty: the working folder"},
    {ROW("monitor-wandb-project", monitor_wandb_project, MEGA_OPTION_STRING), .json = "wandb.project", .fallback = "deepspeed", .help = "its project"},
    {ROW("monitor-wandb-group", monitor_wandb_group, MEGA_OPTION_STRING), .json = "wandb.group", .help = "its group"},
    {ROW("monitor-wandb-team", monitor_wandb_team, MEGA_OPTION_STRING), .json = "wandb.team", .help = "its team (entity)"},
    {ROW("flops-profiler", flops_profiler, MEGA_OPTION_FLAG), .json = "flops_profiler.enabled", .help = "report parameters, multiply-accumulates, seconds and FLOPS of a step, by module, as DeepSpeed's flops profiler does"},
    {ROW("flops-profiler-step", flops_profiler_step, MEGA_OPTION_INT), .json = "flops_profiler.profile_step", .fallback = "1", .range = MEGA_RANGE_POSITIVE, .help = "the step that it profiles"},
    {ROW("flops-profiler-depth", flops_profiler_depth, MEGA_OPTION_INT), .json = "flops_profiler.module_depth", .fallback = "-1", .help = "deepest level of modules in its list of the largest; -1: all"},
    {ROW("flops-profiler-top", flops_profiler_top, MEGA_OPTION_INT), .json = "flops_profiler.top_modules", .fallback = "1", .range = MEGA_RANGE_POSITIVE, .help = "how many of the largest modules it lists at each level"},
    {ROW("no-flops-profiler-detail", flops_profiler_detail, MEGA_OPTION_OFF), .json = "flops_profiler.detailed", .help = "leave its tree of all modules out"},
    {ROW("flops-profiler-recompute", flops_profiler_recompute, MEGA_OPTION_FLOAT), .json = "flops_profiler.recompute_fwd_factor", .fallback = "0", .range = MEGA_RANGE_FRACTION, .help = "part of the forward pass that the backward pass computes again: 1 with full recomputation"},
    {ROW("flops-profiler-output", flops_profiler_output, MEGA_OPTION_STRING), .json = "flops_profiler.output_file", .help = "file for its report; without it the report is logged"},
    {ROW("comms-logger", comms_logger, MEGA_OPTION_FLAG), .json = "comms_logger.enabled", .help = "log at the end how often, how large and how fast the exchanges of the first rank were, by kind and size"},
    {ROW("comms-logger-verbose", comms_logger_verbose, MEGA_OPTION_FLAG), .json = "comms_logger.verbose", .help = "with it, log each exchange too"},
    {ROW("no-comms-logger-all", comms_logger_all, MEGA_OPTION_OFF), .json = "comms_logger.prof_all", .help = "count only the exchanges that --comms-logger-ops names"},
    {ROW("comms-logger-ops", comms_logger_ops, MEGA_OPTION_LIST), .json = "comms_logger.prof_ops", .choices = "all_reduce|reduce_scatter|reduce_scatter_tensor|all_gather|all_gather_into_tensor|all_to_all|all_to_all_single|broadcast|barrier|send|isend|recv|irecv", .help = "kinds of exchanges to count"},
    {ROW("comms-logger-stragglers", comms_logger_stragglers, MEGA_OPTION_FLAG), .help = "with it, log too which part of the time the first rank waited for slower ranks; a C program calls mega_engine_log_exchanges"},
    {ROW("comms-logger-debug", comms_logger_debug, MEGA_OPTION_FLAG), .json = "comms_logger.debug", .help = "add to the kind what was exchanged"},
};
// clang-format on
const mega_option_section mega_monitor_section = MEGA_SECTION("monitoring", monitor_rows);
