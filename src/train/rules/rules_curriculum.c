/* Rules of the curriculum of sequence length that a training adds: its samples, its schedule, what it profiles. */
#include "train_rules.h"

static void refuse_with(mega_train_options *cfg, const char *dest, const char *why)
{
    mega_options *o = cfg->engine.options;
    mega_options_problem(o, MEGA_ERR_UNSUPPORTED, "%s and %s: %s; leave one out",
                         mega_options_origin(o, "curriculum_learning"), mega_options_origin(o, dest), why);
}

static void check_samples(mega_train_options *cfg)
{
    mega_options *o = cfg->engine.options;
    mega_curriculum c;
    mega_curriculum_from_options(&cfg->engine.optim, &c);
    const bool grows = c.kind != MEGA_CURRICULUM_DISCRETE;
    if (cfg->seq_length <= 0 || (grows && c.unit > c.least) || mega_curriculum_check(&c, 0) != MEGA_OK)
        return; /* another rule says so */
    mega_options_add_mistake(o, mega_options_name_as_given(o, mega_curriculum_check(&c, cfg->seq_length)));
    if (grows && c.most > cfg->seq_length)
        mega_options_warn(o, "%s is above %s: samples have no more tokens, and are whole from then on",
                          mega_options_origin(o, "curriculum_max_difficulty"), mega_options_origin(o, "seq_length"));
}

void mega_train_rule_curriculum(mega_train_options *cfg)
{
    mega_options *o = cfg->engine.options;
    if (!cfg->engine.optim.curriculum_learning) return;
    if (train_is(cfg, "pretrain_bert") || train_is(cfg, "pretrain_t5") || train_is(cfg, "run_clm") ||
        train_is(cfg, "tasks"))
        mega_options_problem(o, MEGA_ERR_UNSUPPORTED,
                             "%s: %s reads its samples whole; pretrain_gpt trains on the first tokens of samples",
                             mega_options_origin(o, "curriculum_learning"), mega_options_command(o));
    if (cfg->profile_trace != NULL || cfg->profile_table)
        refuse_with(cfg,
                    cfg->profile                 ? "profile"
                    : cfg->profile_trace != NULL ? "profile_trace"
                                                 : "profile_table",
                    "a profile is of one program, and each length has programs of its own");
    if (cfg->lr_decay_tokens > 0 && cfg->engine.optim.lr_decay_style == MEGA_LR_WSD)
        refuse_with(cfg, "lr_decay_tokens", "the last part of a decay of WSD is counted in samples");
    if (cfg->lr_decay_tokens > 0 && cfg->lr_warmup_tokens >= cfg->lr_decay_tokens)
        mega_options_mistake(o, "%s must be below %s, where the curve ends", mega_options_origin(o, "lr_warmup_tokens"),
                             mega_options_origin(o, "lr_decay_tokens"));
    check_samples(cfg);
}
