/* The options of a C program (mega_setup.argv and .config): those that an engine reads, and those that launchers pass
 * to programs. Options of models, data and commands are left to the program. */
#include "setup_options.h"
#include <string.h>

#define ROW(name, field, kind) MEGA_OPTION(setup_values, name, field, kind)

// clang-format off
static const mega_option_row launcher_rows[] = {
    {ROW("local_rank", local_rank, MEGA_OPTION_STRING), .alike = MEGA_ALIKE_NOT_NEEDED, .is_of_argv = true, .value = "N", .help = "must be the number of this rank on its host, or -1"},
};
static const mega_option_section launcher_section = MEGA_SECTION("of a launcher", launcher_rows);

enum { ALL = 1 }; /* a C program has no commands, so all rows belong to one */
#define AT(member) offsetof(setup_values, member)
static const mega_option_part parts[] = {
    {&mega_optim_regularization_section, ALL, AT(engine.optim)},
    {&mega_optim_training_section, ALL, AT(engine.optim)},
    {&mega_engine_loss_section, ALL, AT(engine)},
    {&mega_graph_recompute_section, ALL, AT(engine.graph)},
    {&mega_optim_curriculum_section, ALL, AT(engine.optim)},
    {&mega_engine_seed_section, ALL, AT(engine)},
    {&mega_optim_learning_section, ALL, AT(engine.optim)},
    {&mega_optim_scheduler_section, ALL, AT(engine.optim)},
    {&mega_ckpt_checkpoint_section, ALL, AT(engine.ckpt)},
    {&mega_backend_precision_section, ALL, AT(engine.backend)},
    {&mega_optim_scale_section, ALL, AT(engine.optim)},
    {&mega_backend_threads_section, ALL, AT(engine.backend)},
    {&mega_backend_kernels_section, ALL, AT(engine.backend)},
    {&mega_comm_distributed_section, ALL, AT(engine.comm)},
    {&mega_graph_distributed_section, ALL, AT(engine.graph)},
    {&mega_graph_zero_section, ALL, AT(engine.graph)},
    {&mega_monitor_section, ALL, AT(engine.monitor)},
    {&mega_engine_data_section, ALL, AT(engine)},
    {&mega_engine_deepspeed_section, ALL, AT(engine)},
    {&launcher_section, ALL, 0},
    {&engine_handed_section, ALL, 0},
};
// clang-format on

static const char *setup_options_json(mega_options *o)
{
    const setup_values *v = mega_options_values(o);
    const mega_engine_settings *s = &v->engine;
    if (v->config != NULL && s->deepspeed_config != NULL) {
        mega_options_mistake(o, "%s and mega_setup.config: give one of them",
                             mega_options_origin(o, "deepspeed_config"));
        return NULL;
    }
    return s->deepspeed_config != NULL ? s->deepspeed_config : v->config;
}

/* A JSON has all settings itself: where it leaves one open, the default is DeepSpeed's. */
static void setup_options_complete(mega_options *o, int argc, char **argv)
{
    const setup_values *v = mega_options_values(o);
    (void)argc, (void)argv;
    if (v->defaults == NULL || v->config != NULL || v->engine.deepspeed_config != NULL) return;
    mega_options_name_preset(o, "mega_setup.defaults");
    for (const mega_setting *d = v->defaults; d->name != NULL; d++)
        if (!mega_options_was_set(o, d->name) && mega_options_set(o, d->name, d->value, MEGA_SET_BY_PRESET) != MEGA_OK)
            mega_options_mistake(o, "mega_setup.defaults: %s", mega_error_message());
}

static bool setup_options_passes_unknown(const mega_options *o)
{
    const setup_values *v = mega_options_values(o);
    return v->engine.deepspeed_unknown_keys == MEGA_UNKNOWN_KEYS_WARN;
}

static void setup_options_derive(mega_options *o)
{
    setup_values *v = mega_options_values(o);
    mega_engine_settings_derive(&v->engine);
}

/* Accepts -1, the default of DeepSpeed programs that run without a launcher. */
static void check_local_rank(mega_options *o, const setup_values *v)
{
    const mega_engine_settings *s = &v->engine;
    int64_t rank;
    if (v->local_rank == NULL) return;
    if (!mega_value_int(v->local_rank, &rank) || rank < -1)
        mega_options_mistake(o, "--local_rank: found \"%s\", expected the number of this rank on its host, or -1",
                             v->local_rank);
    else if (rank != -1 && rank != s->local_rank)
        mega_options_mistake(
            o,
            "--local_rank %s: by its launcher this process is rank %lld of the %lld on its host; leave "
            "it out, or give each rank its own (LOCAL_RANK under megalith launch)",
            v->local_rank, (long long)s->local_rank, (long long)s->local_world_size);
}

/* Layers of a program's own model choose it themselves. */
static void check_granularity(mega_options *o, const mega_engine_settings *s)
{
    if (s->graph.recompute_granularity == MEGA_RECOMPUTE_SELECTIVE)
        mega_options_problem(
            o, MEGA_ERR_UNSUPPORTED,
            "%s: which part of a layer is recomputed is said by the layer itself (mega_recompute_begin, "
            "mega_attention_options.recompute_core); give full, or leave it out",
            mega_options_origin(o, "recompute_granularity"));
}

static void setup_options_check(mega_options *o, bool shape)
{
    static void (*const rules[])(mega_engine_settings * s) = {
        mega_engine_rule_batch_divides, mega_engine_rule_accumulation,  mega_engine_rule_rampup,
        mega_engine_rule_units_agree,   mega_engine_rule_learning_rate, mega_engine_rule_warmup,
        mega_engine_rule_wsd,           mega_engine_rule_weight_decay,  mega_engine_rule_precision,
        mega_engine_rule_device,        mega_engine_rule_zero,          mega_engine_rule_scheduler,
        mega_engine_rule_optimizer,     mega_engine_rule_loss_scale,    mega_engine_rule_amp,
        mega_engine_rule_json,          mega_engine_rule_recompute,     mega_engine_rule_drop_last,
        mega_engine_rule_without,       mega_engine_rule_grad_accum,    mega_engine_rule_curriculum,
    };
    setup_values *v = mega_options_values(o);
    (void)shape;
    check_local_rank(o, v);
    check_granularity(o, &v->engine);
    mega_options_rule_most(o);
    for (size_t i = 0; i < MEGA_COUNT(rules); i++) rules[i](&v->engine);
    mega_options_rule_environment(o);
}

static const char *setup_options_elsewhere(mega_options *o, const char *name, size_t length)
{
    static const char option[] = "sequence-parallel";
    (void)o;
    const bool is_it = length == sizeof option - 1 &&
                       (strncmp(name, option, length) == 0 || strncmp(name, "sequence_parallel", length) == 0);
    return is_it ? "set mega_model.sequence_parallel instead" : NULL;
}

static const mega_option_section *const setup_keys[] = {&mega_engine_json_keys};

const mega_composition mega_engine_composition = {
    .part = parts,
    .parts = MEGA_COUNT(parts),
    .key = setup_keys,
    .keys = MEGA_COUNT(setup_keys),
    .reader = "this program's engine",
    .instead = "mega_engine_options_help",
    .json = setup_options_json,
    .json_name = "mega_setup.config",
    .passes_unknown = setup_options_passes_unknown,
    .derived_by = "mega_setup.layout",
    .complete = setup_options_complete,
    .derive = setup_options_derive,
    .check = setup_options_check,
    .elsewhere = setup_options_elsewhere,
};
