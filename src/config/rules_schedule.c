/* Rules between the options of the schedules: learning rate and weight decay. */
#include "megalith/log.h"
#include "program_impl.h"
#include <math.h>
#include <string.h>

/* With the training counted in iterations, its schedule is too; and the other way round. */
void mega_rule_units_agree(mega_config *cfg)
{
    static const char *const of_samples[] = {"lr_decay_samples", "lr_warmup_samples", "lr_wsd_decay_samples",
                                             "rampup_batch_size"};
    static const char *const of_iters[] = {"lr_decay_iters", "lr_warmup_iters", "lr_wsd_decay_iters"};
    if ((cfg->train_iters > 0) == (cfg->train_samples > 0)) return;
    const bool iters = cfg->train_iters > 0;
    const char *const *wrong = iters ? of_samples : of_iters;
    const size_t count = iters ? ROW_COUNT(of_samples) : ROW_COUNT(of_iters);
    for (size_t i = 0; i < count; i++) {
        if (!is_given(cfg, wrong[i])) continue;
        const bool zero = (strcmp(wrong[i], "lr_warmup_samples") == 0 && cfg->lr_warmup_samples == 0) ||
                          (strcmp(wrong[i], "lr_warmup_iters") == 0 && cfg->lr_warmup_iters == 0);
        if (zero) continue;
        mega_config_problem(cfg, USAGE, "%s counts %s, but the training is counted by %s; count both in the same unit",
                            mega_config_origin(cfg, wrong[i]), iters ? "samples" : "iterations",
                            mega_config_origin(cfg, iters ? "train_iters" : "train_samples"));
    }
}

void mega_rule_learning_rate(mega_config *cfg)
{
    if (isnan(cfg->lr)) {
        if (!cfg->skip_train && cfg->state->command->bit == FOR_PRETRAIN && !is_given(cfg, "lr")) {
            mega_config_problem(cfg, USAGE,
                                "missing: %s, the peak learning rate; 1.5e-4 suits a GPT of 345 M parameters, 1e-3 a "
                                "small one",
                                mega_config_spelling(cfg, "lr"));
        }
        return;
    }
    if (cfg->min_lr > cfg->lr) {
        mega_config_problem(cfg, USAGE, "%s is above %s; it is the floor that the curve comes down to",
                            mega_config_origin(cfg, "min_lr"), mega_config_origin(cfg, "lr"));
    }
    if (cfg->lr_warmup_init > cfg->lr) {
        mega_config_problem(cfg, USAGE, "%s is above %s, to which the warm-up rises",
                            mega_config_origin(cfg, "lr_warmup_init"), mega_config_origin(cfg, "lr"));
    }
}

void mega_rule_warmup(mega_config *cfg)
{
    const bool fraction = !isnan(cfg->lr_warmup_fraction);
    if (fraction && cfg->lr_warmup_iters > 0) {
        mega_config_problem(cfg, USAGE, "%s and %s both say how long to warm up; give one",
                            mega_config_origin(cfg, "lr_warmup_fraction"), mega_config_origin(cfg, "lr_warmup_iters"));
    }
    if (fraction && cfg->lr_warmup_samples > 0) {
        mega_config_problem(cfg, USAGE, "%s and %s both say how long to warm up; give one",
                            mega_config_origin(cfg, "lr_warmup_fraction"),
                            mega_config_origin(cfg, "lr_warmup_samples"));
    }
    if (cfg->train_iters > 0 && cfg->lr_decay_iters > 0 && cfg->lr_warmup_iters >= cfg->lr_decay_iters) {
        mega_config_problem(cfg, USAGE, "%s must be below %s, where the curve ends",
                            mega_config_origin(cfg, "lr_warmup_iters"), mega_config_origin(cfg, "lr_decay_iters"));
    }
    if (cfg->train_samples > 0 && cfg->lr_decay_samples > 0 && cfg->lr_warmup_samples >= cfg->lr_decay_samples) {
        mega_config_problem(cfg, USAGE, "%s must be below %s, where the curve ends",
                            mega_config_origin(cfg, "lr_warmup_samples"), mega_config_origin(cfg, "lr_decay_samples"));
    }
}

/* The last part of the curve of WSD must be as long as somebody says, as in Megatron. */
void mega_rule_wsd(mega_config *cfg)
{
    static const char *const of_wsd[] = {"lr_wsd_decay_style", "lr_wsd_decay_iters", "lr_wsd_decay_samples"};
    const bool by_samples = cfg->train_samples > 0;
    if (cfg->lr_decay_style == MEGA_LR_WSD) {
        if (is_given(cfg, by_samples ? "lr_wsd_decay_samples" : "lr_wsd_decay_iters")) return;
        mega_config_problem(cfg, USAGE, "missing: %s N, how long the last part of the curve of %s is",
                            mega_config_spelling(cfg, by_samples ? "lr_wsd_decay_samples" : "lr_wsd_decay_iters"),
                            mega_config_origin(cfg, "lr_decay_style"));
        return;
    }
    for (size_t i = 0; i < ROW_COUNT(of_wsd); i++) {
        if (is_given(cfg, of_wsd[i]))
            mega_warn("%s has no effect without %s WSD", mega_config_origin(cfg, of_wsd[i]),
                      mega_config_spelling(cfg, "lr_decay_style"));
    }
}

void mega_rule_weight_decay(mega_config *cfg)
{
    if (!cfg->decoupled_weight_decay && cfg->optimizer == MEGA_OPTIMIZER_SGD)
        mega_warn("%s has no effect with %s, whose weight decay is always part of the gradient",
                  mega_config_origin(cfg, "decoupled_weight_decay"), mega_config_origin(cfg, "optimizer"));
    const bool start = is_given(cfg, "start_weight_decay"), end = is_given(cfg, "end_weight_decay");
    if (cfg->weight_decay_incr_style == MEGA_WD_CONSTANT) {
        if ((start && cfg->start_weight_decay != cfg->weight_decay) ||
            (end && cfg->end_weight_decay != cfg->weight_decay)) {
            mega_config_problem(
                cfg, USAGE, "%s: a weight decay that changes needs %s linear or cosine; a constant one is %s",
                mega_config_origin(cfg, start ? "start_weight_decay" : "end_weight_decay"),
                mega_config_spelling(cfg, "weight_decay_incr_style"), mega_config_spelling(cfg, "weight_decay"));
        }
    } else if (isnan(cfg->start_weight_decay) || isnan(cfg->end_weight_decay)) {
        mega_config_problem(cfg, USAGE, "%s needs both %s and %s", mega_config_origin(cfg, "weight_decay_incr_style"),
                            mega_config_spelling(cfg, "start_weight_decay"),
                            mega_config_spelling(cfg, "end_weight_decay"));
    }
}
