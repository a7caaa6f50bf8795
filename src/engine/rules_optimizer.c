/* Rules for optimizers: which options each reads. */
#include "megalith/engine_settings.h"
#include "megalith/log.h"

#define OF(kind) (1U << MEGA_OPTIMIZER_##kind)

static const struct {
    const char *dest;
    unsigned read_by; /* bit 1 << mega_optimizer_kind */
} read_by[] = {
    {"adam_beta1", OF(ADAM) | OF(LION) | OF(ADEMAMIX)},
    {"adam_beta2", OF(ADAM) | OF(LION) | OF(ADEMAMIX)},
    {"adam_eps", OF(ADAM) | OF(ADAGRAD) | OF(ADEMAMIX)},
    {"sgd_momentum", OF(SGD)},
    {"sgd_dampening", OF(SGD)},
    {"sgd_nesterov", OF(SGD)},
    {"adagrad_lr_decay", OF(ADAGRAD)},
    {"ademamix_beta3", OF(ADEMAMIX)},
    {"ademamix_alpha", OF(ADEMAMIX)},
    {"ademamix_steps", OF(ADEMAMIX)},
};

/* Scripts often carry options of another optimizer along, so they are a warning. */
static void warn_of_unread(mega_engine_settings *s)
{
    for (size_t i = 0; i < MEGA_COUNT(read_by); i++)
        if ((read_by[i].read_by & 1U << s->optim.optimizer) == 0 && mega_options_is_given(s->options, read_by[i].dest))
            mega_warn("%s has no effect with %s", mega_options_origin(s->options, read_by[i].dest),
                      mega_options_origin(s->options, "optimizer"));
}

void mega_engine_rule_optimizer(mega_engine_settings *s)
{
    const mega_optim_options *o = &s->optim;
    const bool decouples = o->optimizer == MEGA_OPTIMIZER_LION || o->optimizer == MEGA_OPTIMIZER_ADEMAMIX;
    warn_of_unread(s);
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
