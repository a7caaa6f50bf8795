/* Rules between options of an engine: batch, precision, ZeRO, recomputation. The ranges of single values are in the
 * option tables. */
#include "megalith/engine_settings.h"

void mega_engine_rule_batch_divides(mega_engine_settings *s)
{
    const int64_t micro = s->optim.micro_batch_size, global = s->optim.global_batch_size;
    if (micro <= 0 && mega_options_is_given(s->options, "micro_batch_size")) return;
    if (micro <= 0 && mega_options_may_be_in_json(s->options)) return;
    if (micro <= 0) {
        mega_options_mistake(s->options, "missing: %s, the samples computed together; 4 is a start",
                             mega_options_spelling(s->options, "micro_batch_size"));
        return;
    }
    const int64_t dp = s->data_parallel_size;
    char valid[160];
    if (global % (micro * dp) == 0) return;
    if (global % dp != 0 || global % micro == 0) {
        mega_options_mistake(
            s->options, "%s is not a multiple of %s x %lld data-parallel ranks; expected a multiple of %lld",
            mega_options_origin(s->options, "global_batch_size"), mega_options_origin(s->options, "micro_batch_size"),
            (long long)dp, (long long)(micro * dp));
        return;
    }
    mega_options_divisors(global / dp, micro, valid, sizeof valid);
    mega_options_mistake(s->options, "%s is not a multiple of %s; micro-batches that divide it: %s",
                         mega_options_origin(s->options, "global_batch_size"),
                         mega_options_origin(s->options, "micro_batch_size"), valid);
}

/* --global-batch-size is derived from --gradient-accumulation-steps. If both are given, they must agree. */
void mega_engine_rule_accumulation(mega_engine_settings *s)
{
    const int64_t steps = s->optim.gradient_accumulation_steps, dp = s->data_parallel_size;
    const bool both = mega_options_is_given(s->options, "global_batch_size");
    if (steps <= 0 || s->optim.micro_batch_size <= 0 || !both) return;
    if ((double)s->optim.micro_batch_size * (double)steps * (double)dp == (double)s->optim.global_batch_size) return;
    mega_options_mistake(
        s->options,
        "%s and %s contradict each other: a step has %s x %lld data-parallel rank%s x the accumulation; "
        "give one of them",
        mega_options_origin(s->options, "gradient_accumulation_steps"),
        mega_options_origin(s->options, "global_batch_size"), mega_options_origin(s->options, "micro_batch_size"),
        (long long)dp, dp == 1 ? "" : "s");
}

void mega_engine_rule_rampup(mega_engine_settings *s)
{
    if (!mega_options_was_set(s->options, "rampup_batch_size")) return;
    const int64_t start = s->optim.rampup_batch_size[0], step = s->optim.rampup_batch_size[1],
                  samples = s->optim.rampup_batch_size[2];
    const int64_t micro = s->optim.micro_batch_size, global = s->optim.global_batch_size;
    if (start <= 0 || step <= 0 || samples <= 0) {
        mega_options_mistake(s->options,
                             "%s takes three whole numbers above 0, START INCREMENT SAMPLES, for example 16 16 100000",
                             mega_options_spelling(s->options, "rampup_batch_size"));
    } else if (start > global || (global - start) % step != 0) {
        mega_options_mistake(s->options, "%s: from %lld in steps of %lld does not reach %s",
                             mega_options_origin(s->options, "rampup_batch_size"), (long long)start, (long long)step,
                             mega_options_origin(s->options, "global_batch_size"));
    } else if (micro > 0 && (start % micro != 0 || step % micro != 0)) {
        mega_options_mistake(s->options, "%s: start and increment must be multiples of %s",
                             mega_options_origin(s->options, "rampup_batch_size"),
                             mega_options_origin(s->options, "micro_batch_size"));
    }
}

void mega_engine_rule_drop_last(mega_engine_settings *s)
{
    if (s->dataloader_drop_last && mega_options_was_set(s->options, "rampup_batch_size"))
        mega_options_problem(
            s->options, MEGA_ERR_UNSUPPORTED,
            "%s and %s: batches that grow have no common size that an epoch could be cut to; leave one "
            "out",
            mega_options_origin(s->options, "dataloader_drop_last"),
            mega_options_origin(s->options, "rampup_batch_size"));
}

/* Two sources may name different precisions. The stronger source counts, as it does with a single option. */
void mega_engine_keep_stronger_precision(mega_engine_settings *s)
{
    static const char *const dest[] = {"fp64", "fp16", "bf16"};
    mega_options *o = s->options;
    for (size_t i = 0; i < MEGA_COUNT(dest); i++) {
        for (size_t k = 0; k < MEGA_COUNT(dest); k++) {
            const bool on[] = {s->backend.fp64, s->backend.fp16, s->backend.bf16};
            const mega_option_source by = mega_options_set_by(o, dest[i]), weaker = mega_options_set_by(o, dest[k]);
            if (!on[i] || !on[k] || weaker >= by || weaker < MEGA_SET_BY_YAML) continue;
            if (s->rank == 0)
                mega_options_warn(o, "%s counts; %s does not: a run has one precision", mega_options_origin(o, dest[i]),
                                  mega_options_origin(o, dest[k]));
            const mega_status st = mega_options_set(o, dest[k], "false", MEGA_SET_BY_DERIVATION);
            if (st != MEGA_OK) mega_options_problem(o, st, "%s", mega_error_message());
        }
    }
}

void mega_engine_rule_precision(mega_engine_settings *s)
{
    const mega_backend_options *b = &s->backend;
    if (b->bf16 + b->fp64 + b->fp16 > 1)
        mega_options_mistake(s->options, "%s and %s: a run has one precision; give one",
                             mega_options_origin(s->options, b->bf16 ? "bf16" : "fp16"),
                             mega_options_origin(s->options, b->fp64 ? "fp64" : "fp16"));
    if (s->backend.fp64 && s->backend.backend != MEGA_BACKEND_PLAIN) {
        mega_options_mistake(s->options, "%s: only the plain kernels compute in double; use %s plain",
                             mega_options_origin(s->options, "fp64"), mega_options_spelling(s->options, "backend"));
    }
}

/* Scripts give these options in any precision, so that they are no mistake without fp16. */
static void note_scale_without_fp16(mega_engine_settings *s)
{
    static const char *const only[] = {
        "loss_scale",        "initial_loss_scale", "initial_scale_power",   "min_loss_scale",
        "loss_scale_window", "hysteresis",         "consecutive_hysteresis"};
    for (size_t i = 0; i < MEGA_COUNT(only); i++)
        if (mega_options_set_by(s->options, only[i]) == MEGA_SET_BY_COMMAND_LINE)
            mega_options_warn(s->options, "%s has no effect: only --fp16 scales the loss",
                              mega_options_origin(s->options, only[i]));
}

void mega_engine_rule_loss_scale(mega_engine_settings *s)
{
    const mega_optim_options *o = &s->optim;
    const bool both = mega_options_is_given(s->options, "initial_scale_power") &&
                      mega_options_is_given(s->options, "initial_loss_scale") &&
                      o->initial_loss_scale != mega_loss_scale_of_power(o);
    if (!s->backend.fp16) note_scale_without_fp16(s);
    else if (both)
        mega_options_mistake(s->options, "%s and %s: both are the first loss scale; give one of them",
                             mega_options_origin(s->options, "initial_loss_scale"),
                             mega_options_origin(s->options, "initial_scale_power"));
    else if (o->initial_loss_scale < o->min_loss_scale)
        mega_options_mistake(s->options, "%s is below %s, the smallest loss scale",
                             mega_options_origin(s->options, "initial_loss_scale"),
                             mega_options_origin(s->options, "min_loss_scale"));
}

void mega_engine_rule_zero(mega_engine_settings *s)
{
    if (s->graph.zero_stage > 3)
        mega_options_mistake(s->options, "%s: expected 0, 1, 2 or 3", mega_options_origin(s->options, "zero_stage"));
    if (s->graph.ddp_impl == MEGA_DDP_FSDP && s->graph.zero_stage != 3)
        mega_options_mistake(s->options, "%s and %s: FSDP is ZeRO stage 3; give one of them",
                             mega_options_origin(s->options, "ddp_impl"),
                             mega_options_origin(s->options, "zero_stage"));
    else if (s->graph.use_distributed_optimizer && s->graph.zero_stage != 1 && s->graph.ddp_impl != MEGA_DDP_FSDP)
        mega_options_mistake(s->options, "%s and %s: the distributed optimizer is ZeRO stage 1; give one of them",
                             mega_options_origin(s->options, "use_distributed_optimizer"),
                             mega_options_origin(s->options, "zero_stage"));
}

/* Types in which gradients are held. Only fp16 has a loss scale, without which small gradients would become 0. */
void mega_engine_rule_grad_accum(mega_engine_settings *s)
{
    const mega_graph_options *g = &s->graph;
    const mega_communication held = g->grad_accum_dtype, sent = g->communication_data_type;
    const bool is_sent = mega_options_is_given(s->options, "communication_data_type") && s->data_parallel_size > 1;
    if (held == MEGA_COMMUNICATION_FP32) return;
    const char *origin = mega_options_origin(s->options, "grad_accum_dtype");
    if (held == MEGA_COMMUNICATION_FP16 && !s->backend.fp16)
        mega_options_problem(
            s->options, MEGA_ERR_UNSUPPORTED,
            "%s without %s (in a DeepSpeed JSON: \"fp16\": {\"enabled\": true}): no loss scale keeps small "
            "gradients above 0; give bf16 or fp32",
            origin, mega_options_spelling(s->options, "fp16"));
    if (s->backend.fp64)
        mega_options_problem(s->options, MEGA_ERR_UNSUPPORTED,
                             "%s and %s: double precision holds gradients in double; leave the first out", origin,
                             mega_options_origin(s->options, "fp64"));
    if (s->optim.optimizer == MEGA_OPTIMIZER_MUON)
        mega_options_problem(
            s->options, MEGA_ERR_UNSUPPORTED,
            "%s does not work with %s, which orthogonalizes matrices in place of their gradients; give fp32", origin,
            mega_options_origin(s->options, "optimizer"));
    if (!is_sent || g->zero_stage >= 2 || sent == held) return;
    if (sent == MEGA_COMMUNICATION_FP32)
        mega_options_warn(s->options,
                          "%s changes nothing with %s: whole gradients are sent as they are held, and in either case "
                          "added in fp32 and rounded once",
                          mega_options_origin(s->options, "communication_data_type"), origin);
    else
        mega_options_problem(s->options, MEGA_ERR_UNSUPPORTED,
                             "%s and %s: whole gradients (ZeRO stages 0 and 1) are sent in the type in which they are "
                             "held; give one type",
                             origin, mega_options_origin(s->options, "communication_data_type"));
}

static void refuse_both(mega_engine_settings *s, const char *a, const char *b, const char *why)
{
    mega_options_mistake(s->options, "%s and %s: %s; give one of them", mega_options_origin(s->options, a),
                         mega_options_origin(s->options, b), why);
}

void mega_engine_rule_recompute(mega_engine_settings *s)
{
    const mega_graph_options *g = &s->graph;
    const bool has_method = g->recompute_method != MEGA_RECOMPUTE_METHOD_NONE;
    const bool is_full = g->recompute_granularity == MEGA_RECOMPUTE_FULL;
    const char *origin = has_method ? mega_options_origin(s->options, "recompute_method") : "";
    if (g->activation_budget > 0 && g->activation_checkpoint_interval > 0) {
        refuse_both(s, "activation_budget", "activation_checkpoint_interval",
                    "the budget decides which layers are recomputed");
    } else if (g->activation_budget > 0 && g->recompute_granularity != MEGA_RECOMPUTE_NONE) {
        refuse_both(s, "activation_budget", "recompute_granularity", "the budget decides which layers are recomputed");
    } else if (g->activation_checkpoint_interval > 0 &&
               (!is_full || g->recompute_method != MEGA_RECOMPUTE_UNIFORM ||
                g->recompute_num_layers != g->activation_checkpoint_interval)) {
        refuse_both(s, "activation_checkpoint_interval",
                    !is_full                                        ? "recompute_granularity"
                    : g->recompute_method != MEGA_RECOMPUTE_UNIFORM ? "recompute_method"
                                                                    : "recompute_num_layers",
                    "they contradict each other");
    } else if (g->recompute_granularity == MEGA_RECOMPUTE_SELECTIVE && has_method) {
        mega_options_mistake(s->options,
                             "%s belongs to full recompute; selective recompute has no method, leave it out", origin);
    } else if (g->recompute_granularity == MEGA_RECOMPUTE_NONE && has_method) {
        mega_options_mistake(s->options, "%s changes nothing without %s full; add it", origin,
                             mega_options_spelling(s->options, "recompute_granularity"));
    }
}
