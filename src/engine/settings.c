/* The engine's own options, and the values derived from other options. The derivation runs again after a checkpoint has
 * set the shape of the model; it never changes a value that the user has given. */
#include "megalith/engine_settings.h"
#include "megalith/log.h"
#include "megalith/threads.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROW(name, field, kind) MEGA_OPTION(mega_engine_settings, name, field, kind)

// clang-format off
static const mega_option_row seed_rows[] = {
    {ROW("seed", seed, MEGA_OPTION_INT), .fallback = "1234", .range = MEGA_RANGE_SEED, .help = "of initial weights, dropout, order of samples, drawn text"},
};
const mega_option_section mega_engine_seed_section = MEGA_SECTION("initialization", seed_rows);

static const mega_option_row loss_rows[] = {
    {ROW("calculate-per-token-loss", calculate_per_token_loss, MEGA_OPTION_FLAG), .resume = MEGA_RESUME_REPORTED, .help = "divide by the unmasked tokens of the step instead of averaging the means of micro-batches"},
    {ROW("late-results", late_results, MEGA_OPTION_FLAG), .help = "on a GPU, ask for the next step before the loss of the last one is read, so that the GPU does not wait for the host; log lines, losses and checkpoints stay the same. Only on one rank; it needs memory of the host for the rows of another batch"},
};
const mega_option_section mega_engine_loss_section = MEGA_SECTION("training", loss_rows);

static const mega_option_row data_rows[] = {
    {ROW("dataloader-drop-last", dataloader_drop_last, MEGA_OPTION_FLAG), .json = "dataloader_drop_last", .resume = MEGA_RESUME_REPORTED, .help = "drop the samples at the end of an epoch that do not fill a global batch, instead of filling it from the next epoch; with --dataloader-type single there is no such end"},
};
const mega_option_section mega_engine_data_section = MEGA_SECTION("data and tokenizer", data_rows);

static const mega_option_row deepspeed_rows[] = {
    {ROW("deepspeed", deepspeed, MEGA_OPTION_FLAG), .alike = MEGA_ALIKE_NOT_NEEDED, .is_of_argv = true, .successor = "deepspeed_config", .help = "accepted for scripts of DeepSpeed: the engine is always on. --deepspeed FILE means --deepspeed_config FILE"},
    {ROW("deepspeed-unknown-keys", deepspeed_unknown_keys, MEGA_OPTION_CHOICE), .alike = MEGA_ALIKE_NOT_NEEDED, .is_of_argv = true, .fallback = "error", .choices = "error|warn", .help = "what a key at the top of the JSON is that is not known: a mistake, or passed over as DeepSpeed does, with a warning"},
    {ROW("apex-amp", apex_amp, MEGA_OPTION_FLAG), .json = "amp.enabled", .resume = MEGA_RESUME_REPORTED, .help = "mixed precision in the words of NVIDIA's amp: --apex-amp-level says which; not together with --fp16, --bf16 or ZeRO"},
    {ROW("apex-amp-level", apex_amp_level, MEGA_OPTION_CHOICE), .json = "amp.opt_level", .fallback = "O1", .choices = "O0|O1|O2|O3", .resume = MEGA_RESUME_REPORTED, .help = "of --apex-amp: O0 is fp32; O1 and O2 are fp16 with fp32 masters and a dynamic loss scale; O3, fp16 without masters, is refused"},
    {ROW("deepspeed_config", deepspeed_config, MEGA_OPTION_STRING), .yaml = "deepspeed_config.deepspeed_config_file", .alike = MEGA_ALIKE_NOT_NEEDED, .is_of_argv = true, .value = "FILE", .help = "a DeepSpeed JSON, which is read after the command line: an option counts before its key"},
};
const mega_option_section mega_engine_deepspeed_section = MEGA_SECTION("ZeRO and DeepSpeed", deepspeed_rows);
// clang-format on

void mega_engine_settings_init(mega_engine_settings *s, mega_options *o)
{
    s->options = o;
    s->world_size = s->local_world_size = s->data_parallel_size = 1;
    s->backend.params_dtype = MEGA_F32;
    s->code_scale = mega_world_code_scale();
}

static bool derives(mega_engine_settings *s, const char *dest)
{
    return mega_options_derives(s->options, dest);
}

/* Derives data_parallel_size: the world size divided by the model-parallel ranks, or 1 if that does not divide, which a
 * rule reports. */
static void derive_layout(mega_engine_settings *s)
{
    const int64_t tp = s->comm.tensor_model_parallel_size, pp = s->comm.pipeline_model_parallel_size;
    const int64_t world = s->world_size;
    const bool divides = tp > 0 && pp > 0 && world % tp == 0 && world / tp % pp == 0;
    s->data_parallel_size = divides ? world / tp / pp : 1;
}

static void derive_zero_stage(mega_engine_settings *s)
{
    if (s->graph.ddp_impl == MEGA_DDP_FSDP && derives(s, "zero_stage")) s->graph.zero_stage = 3;
    else if (s->graph.use_distributed_optimizer && derives(s, "zero_stage"))
        s->graph.zero_stage = 1;
}

/* Returns the default number of threads of a rank. Ranks of one host share its cores, unless the launcher has bound
 * each to its own cores (megalith launch does not). */
static int64_t default_threads(const mega_engine_settings *s)
{
    const int64_t threads = mega_default_threads();
    const bool own_cores = getenv("MEGA_LAUNCH") == NULL && mega_cpu_affinity() < sysconf(_SC_NPROCESSORS_ONLN);
    if (mega_threads_from_environment() > 0 || own_cores) return threads;
    return threads > s->local_world_size ? threads / s->local_world_size : 1;
}

/* A batch size that overflows 64 bits is reported by the rules as well. */
static void derive_batch(mega_engine_settings *s)
{
    mega_optim_options *b = &s->optim;
    const int64_t dp = s->data_parallel_size;
    const int64_t steps = b->gradient_accumulation_steps > 0 ? b->gradient_accumulation_steps : 1;
    const bool is_open = s->micro_follows && b->global_batch_size > 0 && b->micro_batch_size <= 0;
    if (is_open &&
        derives(s, "micro_batch_size")) { /* as DeepSpeed derives it; a rule reports if the sizes do not divide */
        const int64_t micro = b->global_batch_size / dp / steps;
        b->micro_batch_size = micro > 0 ? micro : 1;
    }
    const int64_t micro = b->micro_batch_size;
    if (micro <= 0 || !derives(s, "global_batch_size")) return;
    b->global_batch_size = micro <= INT64_MAX / dp / steps ? micro * steps * dp : INT64_MAX;
}

/* Steps of the whole training; 0: not known. */
static int64_t steps_of(const mega_optim_options *o)
{
    if (o->train_iters > 0 || o->global_batch_size <= 0) return o->train_iters;
    return o->train_samples / o->global_batch_size;
}

/* Parameters of a DeepSpeed schedule that follow from other options: those that are "auto" from Megatron's names, and
 * --lr, which need not be given where the schedule says it. */
static void derive_scheduler(mega_engine_settings *s)
{
    mega_optim_options *o = &s->optim;
    mega_step_schedule *c = &o->scheduler;
    if (c->kind == MEGA_SCHEDULER_NONE) return;
    if (derives(s, "total_num_steps")) c->total_num_steps = steps_of(o);
    if (mega_options_is_auto(s->options, "warmup_num_steps") && derives(s, "warmup_num_steps")) {
        const bool has_fraction = !isnan(o->lr_warmup_fraction);
        const double of_total = has_fraction ? ceil(o->lr_warmup_fraction * (double)steps_of(o)) : 0;
        c->warmup_num_steps = has_fraction ? (int64_t)of_total : o->lr_warmup_iters;
        if (c->warmup_num_steps < 1) c->warmup_num_steps = 1;
    }
    const bool is_given = mega_options_is_given(s->options, "warmup_max_lr");
    const bool is_fixed = c->kind == MEGA_SCHEDULER_WARMUP_DECAY && !mega_options_is_auto(s->options, "warmup_max_lr");
    if (!is_given && is_fixed && derives(s, "warmup_max_lr")) c->warmup_max_lr = 0.001; /* DeepSpeed's default */
    const double peak = c->kind == MEGA_SCHEDULER_ONE_CYCLE    ? c->cycle_max_lr
                        : c->kind == MEGA_SCHEDULER_RANGE_TEST ? c->lr_range_test_min_lr
                                                               : c->warmup_max_lr;
    const bool says_lr = c->kind != MEGA_SCHEDULER_WARMUP_COSINE && !isnan(peak);
    if (says_lr && isnan(o->lr) && derives(s, "lr")) o->lr = peak;
    if (isnan(o->lr)) mega_engine_default_lr(s);
    if (!is_given && isnan(c->warmup_max_lr) && derives(s, "warmup_max_lr")) c->warmup_max_lr = o->lr;
}

/* A JSON that chooses Muon means DeepSpeed's: the names of its parameters, and the numbers that it does not let choose.
 * Its learning rate may be given for matrices and the rest alone. */
static void derive_muon(mega_engine_settings *s)
{
    mega_optim_options *o = &s->optim;
    if (o->optimizer != MEGA_OPTIMIZER_MUON) return;
    if (isnan(o->lr) && (!isnan(o->adam_lr) || !isnan(o->muon_lr)) && derives(s, "lr"))
        o->lr = !isnan(o->adam_lr) ? o->adam_lr : o->muon_lr;
    if (!mega_options_says(s->options, "optimizer", MEGA_SET_BY_JSON)) return;
    const bool has_momentum = mega_options_says(s->options, "sgd_momentum", MEGA_SET_BY_JSON);
    if (has_momentum && derives(s, "muon_momentum")) o->muon_momentum = o->sgd_momentum;
    if (derives(s, "muon_nesterov")) o->muon_nesterov = true;
    if (derives(s, "muon_split_qkv")) o->muon_split_qkv = false;
    if (derives(s, "muon_coefficient_type")) o->muon_coefficient_type = MEGA_MUON_SIMPLE;
    if (derives(s, "muon_scale_mode")) o->muon_scale_mode = MEGA_MUON_SHAPE_SCALING;
}

static void derive_schedules(mega_engine_settings *s)
{
    mega_optim_options *o = &s->optim;
    derive_scheduler(s);
    if (isnan(o->lr)) mega_engine_default_lr(s);
    derive_muon(s);
    if (o->optimizer == MEGA_OPTIMIZER_ADAGRAD && derives(s, "adam_eps")) o->adam_eps = 1e-10; /* torch's default */
    if (o->optimizer == MEGA_OPTIMIZER_SCHEDULE_FREE_ADAMW && derives(s, "lr_decay_style"))
        o->lr_decay_style = MEGA_LR_CONSTANT;
    if (o->train_iters > 0 && derives(s, "lr_decay_iters")) o->lr_decay_iters = o->train_iters;
    if (o->train_samples > 0 && derives(s, "lr_decay_samples")) o->lr_decay_samples = o->train_samples;
    if (o->weight_decay_incr_style != MEGA_WD_CONSTANT) return;
    if (derives(s, "start_weight_decay")) o->start_weight_decay = o->weight_decay;
    if (derives(s, "end_weight_decay")) o->end_weight_decay = o->weight_decay;
}

/* Whether fp16 comes from Accelerate: --mixed_precision, or its YAML. */
static bool is_fp16_of_accelerate(const mega_engine_settings *s)
{
    const char *typed = mega_options_typed(s->options, "fp16");
    return mega_options_says(s->options, "fp16", MEGA_SET_BY_YAML) ||
           (typed != NULL && strncmp(typed, "--mixed", 7) == 0);
}

/* What --fp16 does not say has Megatron's values. A JSON that enables fp16 follows DeepSpeed's rules and first scale,
 * with or without --fp16 beside it, and so does amp. Accelerate leaves fp16 to DeepSpeed or Megatron where its YAML
 * names them, else to PyTorch's scaler, which halves its scale with the first overflow. */
static void derive_loss_scale(mega_engine_settings *s)
{
    mega_optim_options *o = &s->optim;
    const bool is_amp = s->apex_amp && s->apex_amp_level != MEGA_AMP_O0;
    if (is_amp && derives(s, "fp16")) s->backend.fp16 = true;
    const bool is_yaml = mega_options_says(s->options, "fp16", MEGA_SET_BY_YAML);
    const bool is_accelerate = s->backend.fp16 && !is_amp && is_fp16_of_accelerate(s);
    const bool is_left =
        is_accelerate && (mega_options_has_json(s->options) || (is_yaml && s->yaml_scaler == MEGA_YAML_DEEPSPEED));
    const bool is_json =
        s->backend.fp16 && (is_amp || is_left || mega_options_says(s->options, "fp16", MEGA_SET_BY_JSON));
    const bool is_torch = is_accelerate && !is_left && !(is_yaml && s->yaml_scaler == MEGA_YAML_MEGATRON);
    o->loss_scale_rules = is_json ? MEGA_SCALE_DEEPSPEED : MEGA_SCALE_MEGATRON;
    const bool is_power = is_json || is_torch || mega_options_was_set(s->options, "initial_scale_power");
    if (is_power && derives(s, "initial_loss_scale")) o->initial_loss_scale = mega_loss_scale_of_power(o);
    if (is_torch && derives(s, "loss_scale_window")) o->loss_scale_window = 2000;
    if (is_torch && derives(s, "hysteresis")) o->hysteresis = 1;
}

static void derive_recompute(mega_engine_settings *s)
{
    mega_graph_options *g = &s->graph;
    const bool is_json = mega_options_says(s->options, "activation_checkpoint_interval", MEGA_SET_BY_JSON);
    if (is_json && g->activation_checkpoint_interval > 0 &&
        (mega_options_set_by(s->options, "recompute_granularity") == MEGA_SET_BY_COMMAND_LINE ||
         mega_options_set_by(s->options, "recompute_num_layers") == MEGA_SET_BY_COMMAND_LINE)) {
        mega_warn("--recompute-granularity and --recompute-num-layers count; %s does not",
                  mega_options_origin(s->options, "activation_checkpoint_interval"));
        g->activation_checkpoint_interval = 0;
    }
    if (g->activation_checkpoint_interval > 0) {
        if (derives(s, "recompute_granularity")) g->recompute_granularity = MEGA_RECOMPUTE_FULL;
        if (derives(s, "recompute_num_layers")) g->recompute_num_layers = g->activation_checkpoint_interval;
    }
    if (g->recompute_granularity == MEGA_RECOMPUTE_FULL && derives(s, "recompute_method"))
        g->recompute_method = MEGA_RECOMPUTE_UNIFORM;
}

void mega_engine_settings_derive(mega_engine_settings *s)
{
    mega_backend_options *b = &s->backend;
    mega_engine_keep_stronger_precision(s); /* first: the number types and the loss scale follow from it */
    derive_layout(s);
    derive_zero_stage(s);
    derive_batch(s);
    mega_engine_derive_deepspeed(s);
    derive_schedules(s);
    derive_loss_scale(s);
    derive_recompute(s);
    if (b->fp64 && derives(s, "backend")) b->backend = MEGA_BACKEND_PLAIN;
    mega_engine_derive_device(s);
    b->params_dtype = b->fp64 ? MEGA_F64 : b->bf16 ? MEGA_BF16 : b->fp16 ? MEGA_F16 : MEGA_F32;
    if (derives(s, "num_threads")) b->num_threads = default_threads(s);
}
