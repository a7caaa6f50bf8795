/* The settings of an engine: its own options and those of the modules that it is built on. They are all the options
 * that mega_setup.argv and a DeepSpeed JSON accept. The table of the engine's own options is in engine/settings.c. */
#ifndef MEGALITH_ENGINE_SETTINGS_H
#define MEGALITH_ENGINE_SETTINGS_H

#include "megalith/backend_options.h"
#include "megalith/ckpt_options.h"
#include "megalith/comm_options.h"
#include "megalith/config.h"
#include "megalith/gpu_ranks.h"
#include "megalith/graph_options.h"
#include "megalith/monitor_options.h"
#include "megalith/optim_options.h"
#include "megalith/option.h"

typedef enum mega_unknown_keys { MEGA_UNKNOWN_KEYS_ERROR, MEGA_UNKNOWN_KEYS_WARN } mega_unknown_keys;
/* Levels of NVIDIA's amp. */
typedef enum mega_amp_level { MEGA_AMP_O0, MEGA_AMP_O1, MEGA_AMP_O2, MEGA_AMP_O3 } mega_amp_level;

/* Whose fp16 an Accelerate YAML means: its type says which loss scaler trains. */
typedef enum mega_yaml_scaler { MEGA_YAML_MEGATRON, MEGA_YAML_TORCH, MEGA_YAML_DEEPSPEED } mega_yaml_scaler;

typedef struct mega_engine_settings {
    mega_comm_options comm;
    mega_backend_options backend;
    mega_graph_options graph;
    mega_optim_options optim;
    mega_ckpt_options ckpt;
    mega_monitor_options monitor;
    int64_t seed;
    bool late_results;             /* mega_engine_await_step */
    bool calculate_per_token_loss; /* divide the loss by the unmasked tokens of the step, not per micro-batch */
    bool dataloader_drop_last;     /* an epoch ends with its last whole global batch */
    bool deepspeed;                /* accepted for compatibility: the engine is always on */
    mega_unknown_keys deepspeed_unknown_keys;
    bool apex_amp; /* mixed precision as apex_amp_level says */
    mega_amp_level apex_amp_level;
    const char *deepspeed_config; /* a DeepSpeed JSON: the name of its file; NULL: not given */

    /* The caller sets these between mega_engine_settings_init and reading options. Default: one rank. */
    int64_t rank, world_size, local_world_size, local_rank; /* local: on this host */
    double code_scale;                                      /* mega_world_code_scale, for plans of memory */
    bool needs_lr;                                          /* a rule requires --lr */
    bool micro_follows;                                     /* derive micro_batch_size from the other batch sizes */
    bool length_follows; /* the number of steps is found after the options were checked (epochs): its rules wait */
    int64_t data_parallel_size; /* derived */
    mega_gpu_ranks gpus;        /* what the ranks have agreed on (mega_engine_agree_device) */
    mega_yaml_scaler yaml_scaler;
    bool has_told;         /* the lines about the defaults of DeepSpeed and about amp have been logged */
    mega_options *options; /* which source set each option, and mistakes; borrowed */
} mega_engine_settings;

/* The engine's own options, by section of --help. */
extern const mega_option_section mega_engine_loss_section, mega_engine_seed_section, mega_engine_data_section,
    mega_engine_deepspeed_section;
/* Keys of a DeepSpeed JSON that are not options here (src/foreign/deepspeed-json.txt); only their JSON columns are
 * used. */
extern const mega_option_section mega_engine_json_keys;
/* All options that a C program accepts (engine/setup_options.c). */
extern const mega_composition mega_engine_composition;

void mega_engine_settings_init(mega_engine_settings *s, mega_options *o); /* one rank */
void mega_engine_settings_derive(mega_engine_settings *s);                /* sets what follows from other options */
/* Part of it: of the precisions that two sources name, that of the stronger source is kept. */
void mega_engine_keep_stronger_precision(mega_engine_settings *s);
/* Parts of it, where a DeepSpeed JSON is given: DeepSpeed's defaults, and of these the learning rate. */
void mega_engine_derive_deepspeed(mega_engine_settings *s);
void mega_engine_derive_device(mega_engine_settings *s);
/* Collective, after the options of all ranks were read in order: finds who shares a GPU, and decides for --device auto:
 * GPUs if each rank has one that can, else the CPU on all. `world` may be NULL. */
MEGA_CHECK_RESULT mega_status mega_engine_agree_device(mega_engine_settings *s, mega_world *world);
void mega_engine_default_lr(mega_engine_settings *s);

/* Rules between options. Each adds the mistakes that it finds to s->options. */
void mega_engine_rule_batch_divides(mega_engine_settings *s);
void mega_engine_rule_accumulation(mega_engine_settings *s);
void mega_engine_rule_rampup(mega_engine_settings *s);
void mega_engine_rule_curriculum(mega_engine_settings *s);
void mega_engine_rule_precision(mega_engine_settings *s);
void mega_engine_rule_device(mega_engine_settings *s);
void mega_engine_rule_loss_scale(mega_engine_settings *s);
void mega_engine_rule_amp(mega_engine_settings *s);
void mega_engine_rule_json(mega_engine_settings *s);
void mega_engine_rule_zero(mega_engine_settings *s);
void mega_engine_rule_grad_accum(mega_engine_settings *s);
void mega_engine_rule_without(mega_engine_settings *s);
void mega_engine_rule_drop_last(mega_engine_settings *s);
void mega_engine_rule_recompute(mega_engine_settings *s);
void mega_engine_rule_units_agree(mega_engine_settings *s);
void mega_engine_rule_learning_rate(mega_engine_settings *s);
void mega_engine_rule_warmup(mega_engine_settings *s);
void mega_engine_rule_wsd(mega_engine_settings *s);
void mega_engine_rule_weight_decay(mega_engine_settings *s);
void mega_engine_rule_scheduler(mega_engine_settings *s);
void mega_engine_rule_optimizer(mega_engine_settings *s);

#endif
