/* Options that change nothing because of another option that is missing. Scripts carry them along, so that they are
 * warnings. */
#include "megalith/engine_settings.h"

/* Details of a monitor, a profiler or a curriculum, and the option that enables it. */
static const struct {
    const char *dest, *needs;
} details[] = {
    {"monitor_tensorboard_path", "monitor_tensorboard"},
    {"monitor_tensorboard_job", "monitor_tensorboard"},
    {"monitor_csv_path", "monitor_csv"},
    {"monitor_csv_job", "monitor_csv"},
    {"monitor_wandb_path", "monitor_wandb"},
    {"monitor_wandb_project", "monitor_wandb"},
    {"monitor_wandb_group", "monitor_wandb"},
    {"monitor_wandb_team", "monitor_wandb"},
    {"flops_profiler_step", "flops_profiler"},
    {"flops_profiler_depth", "flops_profiler"},
    {"flops_profiler_top", "flops_profiler"},
    {"flops_profiler_detail", "flops_profiler"},
    {"flops_profiler_recompute", "flops_profiler"},
    {"flops_profiler_output", "flops_profiler"},
    {"curriculum_schedule", "curriculum_learning"},
    {"curriculum_min_difficulty", "curriculum_learning"},
    {"curriculum_max_difficulty", "curriculum_learning"},
    {"curriculum_total_steps", "curriculum_learning"},
    {"curriculum_difficulty_step", "curriculum_learning"},
    {"curriculum_root_degree", "curriculum_learning"},
    {"curriculum_difficulty", "curriculum_learning"},
    {"curriculum_max_step", "curriculum_learning"},
    {"comms_logger_verbose", "comms_logger"},
    {"comms_logger_all", "comms_logger"},
    {"comms_logger_ops", "comms_logger"},
    {"comms_logger_debug", "comms_logger"},
};

/* A block of a JSON that says "enabled": false is meant so. */
void mega_engine_rule_without(mega_engine_settings *s)
{
    for (size_t i = 0; i < MEGA_COUNT(details); i++)
        if (mega_options_is_given(s->options, details[i].dest) && !mega_options_is_given(s->options, details[i].needs))
            mega_options_warn(s->options, "%s has no effect without %s",
                              mega_options_origin(s->options, details[i].dest),
                              mega_options_spelling(s->options, details[i].needs));
    if (mega_options_is_given(s->options, "communication_data_type") && s->data_parallel_size == 1 &&
        s->graph.communication_data_type != MEGA_COMMUNICATION_FP32)
        mega_options_warn(s->options, "%s has no effect: one data-parallel rank sends no gradients",
                          mega_options_origin(s->options, "communication_data_type"));
}
