/* What a run prints after its last step: what it made, where that is, and the command that uses it. */
#include "train_impl.h"

const char *train_why_untrained(const trainer *t)
{
    return mega_train_classifies(t->cfg) ? "--epochs 0" : "--skip-train";
}

void train_log_result(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    const int64_t steps = mega_engine_global_steps(t->engine);
    if (steps > 0 && mega_engine_skipped_steps(t->engine) == steps)
        train_line(
            t,
            "warning: the loss scale of fp16 was too large in all %lld steps, which were skipped: the weights are "
            "those of the start; train longer, or give a smaller --initial-loss-scale",
            (long long)steps);
    if (t->epochs.is_final)
        train_line(t, "result: model %s; megalith %s --load %s %s", cfg->save, t->task->use, cfg->save,
                   t->task->use_effect);
    else if (!t->task->course->is_as_megatron && t->saves.iteration >= 0)
        train_line(t, "result: checkpoint %s/%s; --resume_from_checkpoint with this folder goes on", cfg->save,
                   t->saves.tag);
    else if (t->saves.iteration >= 0)
        train_line(t, "result: checkpoint %s/iter_%07lld; megalith %s --load %s %s", cfg->save,
                   (long long)t->saves.iteration, t->task->use, cfg->save, t->task->use_effect);
    else if (cfg->skip_train)
        train_line(t, "result: %s; nothing was trained (%s)",
                   t->evaluated ? t->task->course->losses_in_log
                                : "nothing was evaluated (no data of that share, or --eval-iters 0)",
                   train_why_untrained(t));
    else if (mega_engine_progress_get(t->engine)->iteration == t->first_iteration)
        train_line(t, "result: nothing was left to train; the weights are those of %s",
                   cfg->load != NULL ? cfg->load : "iteration 0");
    else
        train_line(t, "result: the lines above; no checkpoint was saved (no %s)", t->task->course->save_option);
    if (cfg->metrics_file != NULL)
        train_line(t, "metrics: %s; megalith plot %s draws them", cfg->metrics_file, cfg->metrics_file);
    if (cfg->tensorboard_dir != NULL) train_line(t, "tensorboard events: %s", cfg->tensorboard_dir);
    train_monitor_log_address(t);
}
