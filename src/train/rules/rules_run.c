/* Rules between options of a run: its length, what it loads and saves, which steps are profiled. */
#include "megalith/file.h"
#include "megalith/memory.h"
#include "train_rules.h"
#include <limits.h>
#include <stdio.h>

void mega_train_rule_length_of_training(mega_train_options *cfg)
{
    if (cfg->skip_train) return;
    if (cfg->engine.optim.train_iters > 0 && cfg->engine.optim.train_samples > 0) {
        mega_options_mistake(cfg->engine.options, "%s and %s both say how long to train; give one",
                             mega_options_origin(cfg->engine.options, "train_iters"),
                             mega_options_origin(cfg->engine.options, "train_samples"));
    } else if (cfg->engine.optim.train_iters <= 0 && cfg->engine.optim.train_samples <= 0 &&
               !mega_options_is_given(cfg->engine.options, "train_iters") &&
               !mega_options_is_given(cfg->engine.options, "train_samples")) {
        mega_options_mistake(cfg->engine.options, "missing: --train-iters N (optimizer steps) or --train-samples N");
    }
}

void mega_train_rule_loading(mega_train_options *cfg)
{
    static const char *const need_load[] = {"use_checkpoint_args", "exit_on_missing_checkpoint", "ckpt_step"};
    static const char *const idle_without[] = {"finetune", "load_previous", "no_load_optim", "no_load_rng"};
    for (size_t i = 0; cfg->load == NULL && i < MEGA_COUNT(need_load); i++) {
        if (!mega_options_is_given(cfg->engine.options, need_load[i])) continue;
        mega_options_mistake(cfg->engine.options, "%s needs --load FOLDER",
                             mega_options_origin(cfg->engine.options, need_load[i]));
    }
    /* only notes: scripts pass these options even without --load */
    for (size_t i = 0; cfg->load == NULL && i < MEGA_COUNT(idle_without); i++) {
        if (mega_options_is_given(cfg->engine.options, idle_without[i]))
            mega_options_warn(cfg->engine.options, "%s has no effect without --load",
                              mega_options_origin(cfg->engine.options, idle_without[i]));
    }
    if (cfg->skip_train && cfg->load == NULL && train_is_pretraining(cfg))
        mega_options_warn(cfg->engine.options,
                          "%s without --load: random weights are evaluated, which nothing has trained%s%s; "
                          "--load FOLDER evaluates those of a checkpoint",
                          mega_options_origin(cfg->engine.options, "skip_train"),
                          cfg->save != NULL ? ", not those in --save " : "", cfg->save != NULL ? cfg->save : "");
    if (cfg->override_opt_param_scheduler && cfg->use_checkpoint_opt_param_scheduler) {
        mega_options_mistake(cfg->engine.options, "%s and %s contradict each other; give one",
                             mega_options_origin(cfg->engine.options, "override_opt_param_scheduler"),
                             mega_options_origin(cfg->engine.options, "use_checkpoint_opt_param_scheduler"));
    }
    if (cfg->no_load_optim && cfg->use_checkpoint_opt_param_scheduler) {
        mega_options_mistake(cfg->engine.options,
                             "%s leaves the checkpoint's schedule unread together with its optimizer, and %s asks for "
                             "it; leave out one (without the second, this command's --lr options hold)",
                             mega_options_origin(cfg->engine.options, "no_load_optim"),
                             mega_options_origin(cfg->engine.options, "use_checkpoint_opt_param_scheduler"));
    }
}

void mega_train_rule_saving(mega_train_options *cfg)
{
    /* only a note: Megatron-DeepSpeed's examples give it without a folder */
    if (cfg->save == NULL && mega_options_is_given(cfg->engine.options, "save_interval"))
        mega_options_warn(cfg->engine.options, "%s has no effect without --save FOLDER",
                          mega_options_origin(cfg->engine.options, "save_interval"));
    if (cfg->save == NULL && cfg->save_takeover) {
        mega_options_mistake(cfg->engine.options, "%s needs --save FOLDER, the folder to take over",
                             mega_options_origin(cfg->engine.options, "save_takeover"));
    }
    if (cfg->save == NULL && cfg->log_progress) {
        mega_options_mistake(cfg->engine.options, "%s needs --save FOLDER, where progress.txt is kept",
                             mega_options_origin(cfg->engine.options, "log_progress"));
    }
}

void mega_train_rule_nothing_kept(mega_train_options *cfg)
{
    if (mega_options_problems(cfg->engine.options) > 0) return; /* the mistakes alone are to be read */
    if (cfg->skip_train || !train_is_pretraining(cfg)) return;  /* run_clm has a rule of its own */
    if (cfg->save == NULL)
        mega_options_warn(cfg->engine.options,
                          "no --save: the trained weights will not be kept; --save FOLDER keeps them");
    else if (cfg->save_interval == 0)
        mega_options_warn(
            cfg->engine.options,
            "--save without --save-interval: a checkpoint is written at the end and on a signal, none before");
}

void mega_train_rule_profiled_steps(mega_train_options *cfg)
{
    if (cfg->profile_trace == NULL && !cfg->profile_table) return;
    if (cfg->engine.optim.train_iters > 0 && cfg->profile_step_start >= cfg->engine.optim.train_iters &&
        !cfg->skip_train)
        mega_options_mistake(cfg->engine.options,
                             "%s: the run ends after %lld iterations and none would be profiled; give a "
                             "smaller number",
                             mega_options_origin(cfg->engine.options, "profile_step_start"),
                             (long long)cfg->engine.optim.train_iters);
    if (cfg->profile_step_end > cfg->profile_step_start) return;
    mega_options_mistake(cfg->engine.options, "%s must be greater than %s: no iteration is between them",
                         mega_options_origin(cfg->engine.options, "profile_step_end"),
                         mega_options_origin(cfg->engine.options, "profile_step_start"));
}

/* ---- whether a run goes on in the folder that it saves to ---- */

bool train_loads_what_it_saves(const mega_train_options *cfg)
{
    return cfg->save != NULL && cfg->load != NULL && mega_folder_same(cfg->load, cfg->save);
}

bool train_continues_save(const mega_train_options *cfg)
{
    char above[PATH_MAX + 4];
    if (cfg->save == NULL || cfg->load == NULL || cfg->finetune) return false;
    if (train_loads_what_it_saves(cfg)) return true;
    snprintf(above, sizeof above, "%s/..", cfg->load);
    if (mega_folder_same(above, cfg->save)) return true;
    char *folder = mega_path_folder(cfg->load); /* of a link to a folder elsewhere */
    const bool same = folder != NULL && mega_folder_same(folder, cfg->save);
    mega_free(folder);
    return same;
}
