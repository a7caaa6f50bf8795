/* What a DeepSpeed JSON leaves out has the defaults of one version of DeepSpeed (MEGA_DEEPSPEED_VERSION), where they
 * differ from those of the options. Also the rules about a JSON as a whole. */
#include "megalith/engine_settings.h"
#include "megalith/log.h"

#include <string.h>
#include <strings.h>

static bool says(const mega_engine_settings *s, const char *key, const char *value)
{
    const char *given = mega_options_json_value(s->options, key);
    return given != NULL && strcasecmp(given, value) == 0;
}

/* Whether the JSON names one of DeepSpeed's optimizers whose defaults are known here. */
static bool has_optimizer(const mega_engine_settings *s)
{
    static const char *const name[] = {"Adam", "AdamW", "SGD", "Adagrad", "Lion", "Lamb"};
    for (size_t i = 0; i < MEGA_COUNT(name); i++)
        if (says(s, "optimizer.type", name[i])) return true;
    return false;
}

static void set_default(mega_engine_settings *s, const char *dest, const char *value)
{
    (void)mega_options_set_deepspeed(s->options, dest, value);
}

/* torch's AdamW has another default than DeepSpeed's own. */
static bool is_torch_adamw(const mega_engine_settings *s)
{
    return says(s, "optimizer.params.torch_adam", "true") && s->optim.optimizer == MEGA_OPTIMIZER_ADAM &&
           s->optim.decoupled_weight_decay;
}

void mega_engine_default_lr(mega_engine_settings *s)
{
    const bool is_adagrad = says(s, "optimizer.type", "Adagrad");
    if (!has_optimizer(s) || mega_options_is_auto(s->options, "lr")) return;
    set_default(s, "lr", is_adagrad ? "0.01" : "0.001");
}

void mega_engine_derive_deepspeed(mega_engine_settings *s)
{
    if (!mega_options_has_json(s->options)) return;
    /* AdamW decouples its weight decay, whatever adam_w_mode says */
    if (says(s, "optimizer.type", "AdamW") &&
        mega_options_set_by(s->options, "decoupled_weight_decay") != MEGA_SET_BY_COMMAND_LINE)
        s->optim.decoupled_weight_decay = true;
    if (has_optimizer(s)) set_default(s, "weight_decay", is_torch_adamw(s) ? "0.01" : "0.0");
    if (says(s, "optimizer.type", "SGD")) set_default(s, "sgd_momentum", "0.0");
    if (!mega_options_says(s->options, "zero_stage", MEGA_SET_BY_JSON) || s->graph.zero_stage == 0) return;
    set_default(s, "ddp_bucket_size", "500000000");
    if (s->graph.zero_stage == 3) set_default(s, "overlap_grad_reduce", "true");
}

static void say_amp(const mega_engine_settings *s)
{
    static const char *const name[] = {"O0", "O1", "O2", "O3"};
    if (!s->apex_amp) return;
    if (s->apex_amp_level == MEGA_AMP_O0) mega_info("amp O0 is fp32");
    else
        mega_info(
            "amp %s is fp16 here, with fp32 master weights and a dynamic loss scale; sums, softmax, norms and the loss "
            "compute in fp32, and O1 and O2 do not differ: weights are stored in fp16 by both",
            name[s->apex_amp_level]);
}

/* DeepSpeed's defaults and what amp means, once. */
void mega_engine_rule_json(mega_engine_settings *s)
{
    if (s->has_told || s->rank != 0 || mega_options_problems(s->options) > 0) return;
    const char *defaults = mega_options_deepspeed_defaults(s->options);
    s->has_told = true;
    if (says(s, "optimizer.type", "AdamW") && says(s, "optimizer.params.adam_w_mode", "false"))
        mega_warn(
            "\"optimizer.params.adam_w_mode\" false has no effect with AdamW, as in DeepSpeed; \"type\": \"Adam\" "
            "with it has L2 weight decay");
    if (defaults != NULL) mega_info("%s", defaults);
    say_amp(s);
}

void mega_engine_rule_amp(mega_engine_settings *s)
{
    static const char *const other[] = {"fp16", "bf16", "fp64"};
    mega_options *o = s->options;
    const bool on[] = {s->backend.fp16, s->backend.bf16, s->backend.fp64};
    if (!s->apex_amp) return;
    if (s->apex_amp_level == MEGA_AMP_O3)
        mega_options_problem(o, MEGA_ERR_UNSUPPORTED,
                             "%s is refused: without fp32 master weights small updates are lost; expected O0, O1 or O2",
                             mega_options_origin(o, "apex_amp_level"));
    for (size_t i = 0; i < MEGA_COUNT(other); i++)
        if (on[i] && mega_options_is_given(o, other[i]))
            mega_options_mistake(o, "%s and %s: a run has one precision; give one", mega_options_origin(o, "apex_amp"),
                                 mega_options_origin(o, other[i]));
    if (s->graph.zero_stage > 0)
        mega_options_mistake(
            o, "%s and %s: amp does not go with ZeRO, as in DeepSpeed; give \"fp16\" (--fp16) instead of amp",
            mega_options_origin(o, "apex_amp"), mega_options_origin(o, "zero_stage"));
}
