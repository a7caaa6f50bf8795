/* Rules for optimizers: which options each reads. */
#include "megalith/engine_settings.h"
#include "megalith/parameter_group.h"
#include <string.h>

#define READ_BY(kind, type, taken, name, setting, member, range, read_by, ...) {#setting, read_by},
static const struct {
    const char *dest;
    unsigned read_by; /* bit 1 << mega_optimizer_kind */
} read_by[] = {MEGA_OPTIMIZER_ARGUMENTS(READ_BY)};

/* The key "momentum" of a JSON is SGD's, and Muon's where the JSON chooses Muon (settings.c). */
static bool is_read(const mega_engine_settings *s, size_t i)
{
    const bool is_momentum = strcmp(read_by[i].dest, "sgd_momentum") == 0;
    if (is_momentum && s->optim.optimizer == MEGA_OPTIMIZER_MUON)
        return mega_options_says(s->options, "optimizer", MEGA_SET_BY_JSON) &&
               mega_options_says(s->options, "sgd_momentum", MEGA_SET_BY_JSON);
    return (read_by[i].read_by & 1U << s->optim.optimizer) != 0;
}

/* Scripts often carry options of another optimizer along, so they are a warning. */
static void warn_of_unread(mega_engine_settings *s)
{
    for (size_t i = 0; i < MEGA_COUNT(read_by); i++)
        if (!is_read(s, i) && mega_options_is_given(s->options, read_by[i].dest))
            mega_options_warn(s->options, "%s has no effect with %s", mega_options_origin(s->options, read_by[i].dest),
                              mega_options_origin(s->options, "optimizer"));
}

static void check_groups(mega_engine_settings *s)
{
    const mega_list *groups = &s->optim.parameter_group;
    for (size_t i = 0; i < groups->count; i++)
        if (mega_param_group_check(groups->item[i]) != MEGA_OK)
            mega_options_mistake(s->options, "%s: %s", mega_options_origin(s->options, "parameter_group"),
                                 mega_error_message());
}

/* DeepSpeed refuses ZeRO as well. */
static void check_compression(mega_engine_settings *s)
{
    if (!mega_optimizer_kind_compresses(s->optim.optimizer)) return;
    if (s->graph.zero_stage > 0)
        mega_options_problem(
            s->options, MEGA_ERR_UNSUPPORTED,
            "%s does not work with ZeRO: each rank updates all weights with momenta that are exchanged "
            "compressed; %s, expected stage 0",
            mega_options_origin(s->options, "optimizer"), mega_options_origin(s->options, "zero_stage"));
    if (s->graph.overlap_grad_reduce)
        mega_options_warn(s->options, "%s has no effect with %s",
                          mega_options_origin(s->options, "overlap_grad_reduce"),
                          mega_options_origin(s->options, "optimizer"));
}

void mega_engine_rule_optimizer(mega_engine_settings *s)
{
    const mega_optim_options *o = &s->optim;
    const bool decouples = o->optimizer == MEGA_OPTIMIZER_LION || o->optimizer == MEGA_OPTIMIZER_ADEMAMIX ||
                           o->optimizer == MEGA_OPTIMIZER_SCHEDULE_FREE_ADAMW || o->optimizer == MEGA_OPTIMIZER_LAMB ||
                           o->optimizer == MEGA_OPTIMIZER_ONE_BIT_ADAM;
    warn_of_unread(s);
    check_groups(s);
    check_compression(s);
    if (!o->decoupled_weight_decay && o->optimizer != MEGA_OPTIMIZER_ADAM && o->optimizer != MEGA_OPTIMIZER_MUON)
        mega_options_warn(s->options, "%s has no effect with %s, whose weight decay is %s",
                          mega_options_origin(s->options, "decoupled_weight_decay"),
                          mega_options_origin(s->options, "optimizer"),
                          decouples ? "never part of the gradient" : "always part of the gradient");
    if (o->optimizer == MEGA_OPTIMIZER_LAMB && o->lamb_min_coeff > o->lamb_max_coeff)
        mega_options_mistake(s->options, "%s is above %s; give a smallest ratio that is not",
                             mega_options_origin(s->options, "lamb_min_coeff"),
                             mega_options_origin(s->options, "lamb_max_coeff"));
    if (o->optimizer == MEGA_OPTIMIZER_SGD && o->sgd_nesterov && (o->sgd_momentum <= 0 || o->sgd_dampening != 0))
        mega_options_mistake(s->options, "%s needs a momentum above 0 and no dampening; found %g and %g",
                             mega_options_origin(s->options, "sgd_nesterov"), o->sgd_momentum, o->sgd_dampening);
}
