/* Rules between the options of the schedules: learning rate and weight decay. */
#include "megalith/engine_settings.h"
#include <math.h>
#include <string.h>

/* If the training is counted in iterations, the schedule must be too; likewise for samples. */
void mega_engine_rule_units_agree(mega_engine_settings *s)
{
    static const char *const of_samples[] = {"lr_decay_samples", "lr_warmup_samples", "lr_wsd_decay_samples",
                                             "rampup_batch_size"};
    static const char *const of_iters[] = {"lr_decay_iters", "lr_warmup_iters", "lr_wsd_decay_iters"};
    if ((s->optim.train_iters > 0) == (s->optim.train_samples > 0)) return;
    const bool iters = s->optim.train_iters > 0;
    const char *const *wrong = iters ? of_samples : of_iters;
    const size_t count = iters ? MEGA_COUNT(of_samples) : MEGA_COUNT(of_iters);
    for (size_t i = 0; i < count; i++) {
        if (!mega_options_is_given(s->options, wrong[i])) continue;
        const bool zero = (strcmp(wrong[i], "lr_warmup_samples") == 0 && s->optim.lr_warmup_samples == 0) ||
                          (strcmp(wrong[i], "lr_warmup_iters") == 0 && s->optim.lr_warmup_iters == 0);
        if (zero) continue;
        mega_options_mistake(s->options, "%s counts %s, but the training is counted by %s; count both in the same unit",
                             mega_options_origin(s->options, wrong[i]), iters ? "samples" : "iterations",
                             mega_options_origin(s->options, iters ? "train_iters" : "train_samples"));
    }
}

void mega_engine_rule_learning_rate(mega_engine_settings *s)
{
    if (isnan(s->optim.lr)) {
        if (s->needs_lr && !mega_options_is_given(s->options, "lr") && !mega_options_may_be_in_json(s->options)) {
            mega_options_mistake(s->options,
                                 "missing: %s, the peak learning rate; 1.5e-4 suits a GPT of 345 M parameters, 1e-3 a "
                                 "small one",
                                 mega_options_spelling(s->options, "lr"));
        }
        return;
    }
    if (s->optim.min_lr > s->optim.lr) {
        mega_options_mistake(s->options, "%s is above %s; it is the floor that the curve comes down to",
                             mega_options_origin(s->options, "min_lr"), mega_options_origin(s->options, "lr"));
    }
    if (s->optim.lr_warmup_init > s->optim.lr) {
        mega_options_mistake(s->options, "%s is above %s, to which the warm-up rises",
                             mega_options_origin(s->options, "lr_warmup_init"), mega_options_origin(s->options, "lr"));
    }
}

void mega_engine_rule_warmup(mega_engine_settings *s)
{
    const bool fraction = !isnan(s->optim.lr_warmup_fraction);
    if (fraction && s->optim.lr_warmup_iters > 0) {
        mega_options_mistake(s->options, "%s and %s both say how long to warm up; give one",
                             mega_options_origin(s->options, "lr_warmup_fraction"),
                             mega_options_origin(s->options, "lr_warmup_iters"));
    }
    if (fraction && s->optim.lr_warmup_samples > 0) {
        mega_options_mistake(s->options, "%s and %s both say how long to warm up; give one",
                             mega_options_origin(s->options, "lr_warmup_fraction"),
                             mega_options_origin(s->options, "lr_warmup_samples"));
    }
    if (s->optim.train_iters > 0 && s->optim.lr_decay_iters > 0 &&
        s->optim.lr_warmup_iters >= s->optim.lr_decay_iters) {
        mega_options_mistake(s->options, "%s must be below %s, where the curve ends",
                             mega_options_origin(s->options, "lr_warmup_iters"),
                             mega_options_origin(s->options, "lr_decay_iters"));
    }
    if (s->optim.train_samples > 0 && s->optim.lr_decay_samples > 0 &&
        s->optim.lr_warmup_samples >= s->optim.lr_decay_samples) {
        mega_options_mistake(s->options, "%s must be below %s, where the curve ends",
                             mega_options_origin(s->options, "lr_warmup_samples"),
                             mega_options_origin(s->options, "lr_decay_samples"));
    }
}

/* The length of the decay phase of WSD must be given, as in Megatron. */
void mega_engine_rule_wsd(mega_engine_settings *s)
{
    static const char *const of_wsd[] = {"lr_wsd_decay_style", "lr_wsd_decay_iters", "lr_wsd_decay_samples"};
    const bool by_samples = s->optim.train_samples > 0;
    if (s->optim.lr_decay_style == MEGA_LR_WSD) {
        if (mega_options_is_given(s->options, by_samples ? "lr_wsd_decay_samples" : "lr_wsd_decay_iters")) return;
        mega_options_mistake(
            s->options, "missing: %s N, how long the last part of the curve of %s is",
            mega_options_spelling(s->options, by_samples ? "lr_wsd_decay_samples" : "lr_wsd_decay_iters"),
            mega_options_origin(s->options, "lr_decay_style"));
        return;
    }
    for (size_t i = 0; i < MEGA_COUNT(of_wsd); i++) {
        if (mega_options_is_given(s->options, of_wsd[i]))
            mega_options_warn(s->options, "%s has no effect without %s WSD", mega_options_origin(s->options, of_wsd[i]),
                              mega_options_spelling(s->options, "lr_decay_style"));
    }
}

void mega_engine_rule_weight_decay(mega_engine_settings *s)
{
    const bool start = mega_options_is_given(s->options, "start_weight_decay"),
               end = mega_options_is_given(s->options, "end_weight_decay");
    if (s->optim.weight_decay_incr_style == MEGA_WD_CONSTANT) {
        if ((start && s->optim.start_weight_decay != s->optim.weight_decay) ||
            (end && s->optim.end_weight_decay != s->optim.weight_decay)) {
            mega_options_mistake(s->options,
                                 "%s: a weight decay that changes needs %s linear or cosine; a constant one is %s",
                                 mega_options_origin(s->options, start ? "start_weight_decay" : "end_weight_decay"),
                                 mega_options_spelling(s->options, "weight_decay_incr_style"),
                                 mega_options_spelling(s->options, "weight_decay"));
        }
    } else if (isnan(s->optim.start_weight_decay) || isnan(s->optim.end_weight_decay)) {
        mega_options_mistake(s->options, "%s needs both %s and %s",
                             mega_options_origin(s->options, "weight_decay_incr_style"),
                             mega_options_spelling(s->options, "start_weight_decay"),
                             mega_options_spelling(s->options, "end_weight_decay"));
    }
}
