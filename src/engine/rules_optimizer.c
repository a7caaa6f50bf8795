/* Rules for optimizers: which options each reads. */
#include "megalith/engine_settings.h"
#include "megalith/log.h"
#include "megalith/parameter_group.h"

#define OF(kind) (1U << MEGA_OPTIMIZER_##kind)

static const struct {
    const char *dest;
    unsigned read_by; /* bit 1 << mega_optimizer_kind */
} read_by[] = {
    {"adam_beta1", OF(ADAM) | OF(LION) | OF(ADEMAMIX) | OF(SCHEDULE_FREE_ADAMW)},
    {"adam_beta2", OF(ADAM) | OF(LION) | OF(ADEMAMIX) | OF(SCHEDULE_FREE_ADAMW)},
    {"adam_eps", OF(ADAM) | OF(ADAGRAD) | OF(ADEMAMIX) | OF(SCHEDULE_FREE_ADAMW)},
    {"adam_amsgrad", OF(ADAM)},
    {"adam_bias_correction", OF(ADAM)},
    {"sgd_momentum", OF(SGD)},
    {"sgd_dampening", OF(SGD)},
    {"sgd_nesterov", OF(SGD)},
    {"adagrad_lr_decay", OF(ADAGRAD)},
    {"adagrad_initial_accumulator_value", OF(ADAGRAD)},
    {"ademamix_beta3", OF(ADEMAMIX)},
    {"ademamix_alpha", OF(ADEMAMIX)},
    {"ademamix_steps", OF(ADEMAMIX)},
    {"schedule_free_warmup_steps", OF(SCHEDULE_FREE_ADAMW)},
    {"schedule_free_r", OF(SCHEDULE_FREE_ADAMW)},
    {"schedule_free_weight_lr_power", OF(SCHEDULE_FREE_ADAMW)},
};

/* Scripts often carry options of another optimizer along, so they are a warning. */
static void warn_of_unread(mega_engine_settings *s)
{
    for (size_t i = 0; i < MEGA_COUNT(read_by); i++)
        if ((read_by[i].read_by & 1U << s->optim.optimizer) == 0 && mega_options_is_given(s->options, read_by[i].dest))
            mega_warn("%s has no effect with %s", mega_options_origin(s->options, read_by[i].dest),
                      mega_options_origin(s->options, "optimizer"));
}

static void check_groups(mega_engine_settings *s)
{
    const mega_list *groups = &s->optim.parameter_group;
    for (size_t i = 0; i < groups->count; i++)
        if (mega_param_group_check(groups->item[i]) != MEGA_OK)
            mega_options_problem(s->options, MEGA_ERR_USAGE, "%s: %s",
                                 mega_options_origin(s->options, "parameter_group"), mega_error_message());
}

void mega_engine_rule_optimizer(mega_engine_settings *s)
{
    const mega_optim_options *o = &s->optim;
    const bool decouples = o->optimizer == MEGA_OPTIMIZER_LION || o->optimizer == MEGA_OPTIMIZER_ADEMAMIX ||
                           o->optimizer == MEGA_OPTIMIZER_SCHEDULE_FREE_ADAMW;
    warn_of_unread(s);
    check_groups(s);
    if (!o->decoupled_weight_decay && o->optimizer != MEGA_OPTIMIZER_ADAM)
        mega_warn("%s has no effect with %s, whose weight decay is %s",
                  mega_options_origin(s->options, "decoupled_weight_decay"),
                  mega_options_origin(s->options, "optimizer"),
                  decouples ? "never part of the gradient" : "always part of the gradient");
    if (o->optimizer == MEGA_OPTIMIZER_SGD && o->sgd_nesterov && (o->sgd_momentum <= 0 || o->sgd_dampening != 0))
        mega_options_problem(s->options, MEGA_ERR_USAGE,
                             "%s needs a momentum above 0 and no dampening; found %g and %g",
                             mega_options_origin(s->options, "sgd_nesterov"), o->sgd_momentum, o->sgd_dampening);
}
