/* The questions of `accelerate config` about DeepSpeed, fully sharded data parallelism and Megatron-LM. */
#include "config_questions.h"
#include "megalith/memory.h"

/* Stores a block of answers under its key. */
static void put_block(config_answers *a, const char *key, json_t *block)
{
    config_put(a, a->top, key, block);
}

static bool is_refused_for_neuron(config_answers *a, const char *what)
{
    if (a->machine != CONFIG_NEURON) return false;
    dialog_say("%s is not available for Neuron devices.", what);
    return true;
}

/* ---- DeepSpeed ---- */

static void ask_offload(config_answers *a, json_t *block)
{
    const struct {
        const char *device, *path, *question, *brief, *where;
    } of[] = {{"offload_optimizer_device", "offload_optimizer_nvme_path", "Where to offload optimizer states?",
               "Where to offload optimizer states? [none/cpu/nvme]: ", "Nvme Path to offload optimizer states?"},
              {"offload_param_device", "offload_param_nvme_path", "Where to offload parameters?",
               "Where to offload parameters? [none/cpu/nvme]: ", "Nvme Path to offload parameters?"}};
    bool is_on_disk[2];
    for (int i = 0; i < 2; i++) {
        const dialog_choice c = {
            .question = a->is_full ? of[i].question : of[i].brief, .names = "none|cpu|nvme", .is_by_name = !a->is_full};
        is_on_disk[i] = config_put_choice(a, block, of[i].device, &c) == 2;
    }
    for (int i = 1; i >= 0; i--) /* parameters come first */
        if (a->is_full && is_on_disk[i]) config_put_text(a, block, of[i].path, dialog_text(a->d, of[i].where, "/nvme"));
}

static void ask_zero(config_answers *a, json_t *block)
{
    const dialog_choice c = {.question = a->is_full
                                             ? "What should be your DeepSpeed's ZeRO optimization stage?"
                                             : "What should be your DeepSpeed's ZeRO optimization stage (0, 1, 2, 3)? "
                                               "[2]: ",
                             .names = "0|1|2|3",
                             .fallback = 2};
    const int stage = dialog_choose(a->d, &c);
    config_put(a, block, "zero_stage", json_integer(stage));
    if (stage >= 2) ask_offload(a, block);
    config_put_int(a, block, "gradient_accumulation_steps",
                   "How many gradient accumulation steps you're passing in your script? [1]: ", 1);
    if (dialog_yes(a->d, "Do you want to use gradient clipping? [yes/NO]: ", false))
        config_put(a, block, "gradient_clipping",
                   json_real(dialog_float(a->d, "What is the gradient clipping value? [1.0]: ", 1.0)));
    if (stage == 3)
        config_put_yes(a, block, "zero3_save_16bit_model",
                       "Do you want to save 16-bit model weights when using ZeRO Stage-3? [yes/NO]: ", false);
}

static void ask_filter(config_answers *a, json_t *block, const char *key, const char *wanted, const char *question)
{
    if (dialog_yes(a->d, wanted, false)) config_put_needed(a, block, key, question);
}

static void ask_deepspeed_hosts(config_answers *a, json_t *block)
{
    const dialog_choice c = {.question = a->is_full ? "Which Type of launcher do you want to use?"
                                                    : "Which Type of launcher do you want to use ([0] pdsh, [1] "
                                                      "standard, [2] openmpi, [3] mvapich)? [0]: ",
                             .names = a->is_full ? "pdsh|standard|openmpi|mvapich|mpich|nossh|slurm"
                                                 : "pdsh|standard|openmpi|mvapich"};
    const int standard = 1;
    if (config_put_choice(a, block, "deepspeed_multinode_launcher", &c) == standard) return;
    config_put_needed(a, block, "deepspeed_hostfile",
                      "Please specify the location of hostfile (a line for each host, `NAME slots=N`): ");
    ask_filter(a, block, "deepspeed_exclusion_filter",
               "Do you want to specify exclusion filter string? [yes/NO]: ", "DeepSpeed exclusion filter string: ");
    ask_filter(a, block, "deepspeed_inclusion_filter",
               "Do you want to specify inclusion filter string? [yes/NO]: ", "DeepSpeed inclusion filter string: ");
}

void config_ask_deepspeed(config_answers *a)
{
    if (!dialog_yes(a->d, "Do you want to use DeepSpeed? [yes/NO]: ", false)) return;
    if (is_refused_for_neuron(a, "DeepSpeed")) return;
    json_t *block = json_object();
    a->type = "DEEPSPEED";
    a->has_deepspeed_json =
        dialog_yes(a->d, "Do you want to specify a json file to a DeepSpeed config? [yes/NO]: ", false);
    if (a->has_deepspeed_json)
        config_put_text(a, block, "deepspeed_config_file",
                        dialog_text(a->d, "Please enter the path to the json DeepSpeed config file: ", "none"));
    else
        ask_zero(a, block);
    config_put_yes(
        a, block, "zero3_init_flag",
        "Do you want to enable `deepspeed.zero.Init` when using ZeRO Stage-3 for constructing massive models? "
        "[yes/NO]: ",
        false);
    if (a->is_full && dialog_yes(a->d, "Do you want to enable Mixture-of-Experts training (MoE)? [yes/NO]: ", false))
        config_put_needed(a, block, "deepspeed_moe_layer_cls_names",
                          "Specify the comma-separated list of transformers MoE layer class names (case-sensitive): ");
    if (a->machines > 1) ask_deepspeed_hosts(a, block);
    put_block(a, "deepspeed_config", block);
}

/* ---- fully sharded data parallelism ---- */

#define STRATEGIES "FULL_SHARD|SHARD_GRAD_OP|NO_SHARD"
#define POLICIES   "TRANSFORMER_BASED_WRAP|SIZE_BASED_WRAP|NO_WRAP"
#define PREFETCHES "BACKWARD_PRE|BACKWARD_POST|NO_PREFETCH"
#define DICTS      "FULL_STATE_DICT|LOCAL_STATE_DICT|SHARDED_STATE_DICT"
#define LAYERS                                                                                             \
    "Specify the comma-separated list of transformer layer class names (case-sensitive) to wrap, such as " \
    "`GPT2Block`: "
#define LEAST_SIZE "What should be your FSDP's minimum number of parameters for Default Auto Wrapping Policy? [1e8]: "

static void ask_fsdp_brief(config_answers *a, json_t *block)
{
    const int strategy = dialog_choose(
        a->d, &(dialog_choice){.question = "What should be your sharding strategy ([1] FULL_SHARD, [2] SHARD_GRAD_OP, "
                                           "[3] NO_SHARD)? [1]: ",
                               .names = STRATEGIES,
                               .first = 1});
    config_put(a, block, "fsdp_sharding_strategy", json_integer(strategy + 1));
    config_put_yes(a, block, "fsdp_offload_params",
                   "Do you want to offload parameters and gradients to CPU? [yes/NO]: ", false);
    const int policy = config_put_choice(
        a, block, "fsdp_auto_wrap_policy",
        &(dialog_choice){.question = "What should be your auto wrap policy ([0] TRANSFORMER_BASED_WRAP, [1] "
                                     "SIZE_BASED_WRAP, [2] NO_WRAP)? [0]: ",
                         .names = POLICIES});
    const int64_t size = 100000000;
    if (policy == 0) config_put_needed(a, block, "fsdp_transformer_layer_cls_to_wrap", LAYERS);
    if (policy == 1) config_put(a, block, "fsdp_min_num_params", json_integer(dialog_int(a->d, LEAST_SIZE, &size, 1)));
    config_put_choice(a, block, "fsdp_backward_prefetch_policy",
                      &(dialog_choice){.question = "What should be your FSDP's backward prefetch policy ([0] "
                                                   "BACKWARD_PRE, [1] BACKWARD_POST, [2] NO_PREFETCH)? [0]: ",
                                       .names = PREFETCHES});
    config_put_choice(a, block, "fsdp_state_dict_type",
                      &(dialog_choice){.question = "What should be your FSDP's state dict type ([0] FULL_STATE_DICT, "
                                                   "[1] LOCAL_STATE_DICT, [2] SHARDED_STATE_DICT)? [0]: ",
                                       .names = DICTS});
}

static void ask_wrapping(config_answers *a, json_t *block)
{
    const int64_t size = 100000000;
    const int policy =
        config_put_choice(a, block, "fsdp_auto_wrap_policy",
                          &(dialog_choice){.question = "What should be your auto wrap policy?", .names = POLICIES});
    if (policy == 0 && !dialog_yes(a->d,
                                   "Do you want to use the model's `_no_split_modules` to wrap. Only applicable for "
                                   "Transformers [yes/NO]: ",
                                   false))
        config_put_needed(a, block, "fsdp_transformer_layer_cls_to_wrap", LAYERS);
    if (policy == 1) config_put(a, block, "fsdp_min_num_params", json_integer(dialog_int(a->d, LEAST_SIZE, &size, 1)));
}

static void ask_fsdp_full(config_answers *a, json_t *block, bool is_first)
{
    if (is_first)
        config_put_choice(a, block, "fsdp_reshard_after_forward",
                          &(dialog_choice){.question = "What should be your sharding strategy?",
                                           .names = STRATEGIES "|HYBRID_SHARD|HYBRID_SHARD_ZERO2"});
    else
        config_put_yes(a, block, "fsdp_reshard_after_forward",
                       "Do you want to enable resharding after forward? [YES/no]: ", true);
    config_put_yes(a, block, "fsdp_offload_params",
                   "Do you want to offload parameters and gradients to CPU? [yes/NO]: ", false);
    ask_wrapping(a, block);
    if (is_first)
        config_put_choice(
            a, block, "fsdp_backward_prefetch",
            &(dialog_choice){.question = "What should be your FSDP's backward prefetch policy?", .names = PREFETCHES});
    config_put_choice(a, block, "fsdp_state_dict_type",
                      &(dialog_choice){.question = "What should be your FSDP's state dict type?",
                                       .names = is_first ? DICTS : "SHARDED_STATE_DICT|FULL_STATE_DICT"});
    if (is_first) {
        config_put_yes(a, block, "fsdp_forward_prefetch",
                       "Do you want to enable FSDP's forward prefetch policy? [yes/NO]: ", false);
        config_put_yes(a, block, "fsdp_use_orig_params",
                       "Do you want to enable FSDP's `use_orig_params` feature? [YES/no]: ", true);
    }
    const bool is_lean = config_put_yes(a, block, "fsdp_cpu_ram_efficient_loading",
                                        "Do you want to enable CPU RAM efficient model loading? Only applicable for "
                                        "Transformers models. [YES/no]: ",
                                        true);
    if (is_first && is_lean) config_put(a, block, "fsdp_sync_module_states", json_true());
    else if (is_first)
        config_put_yes(a, block, "fsdp_sync_module_states",
                       "Do you want each individually wrapped FSDP unit to broadcast module parameters from rank 0 at "
                       "the start? [YES/no]: ",
                       true);
    config_put_yes(a, block, "fsdp_activation_checkpointing",
                   "Do you want to enable FSDP activation checkpointing? [yes/NO]: ", false);
}

static void ask_parallelism(config_answers *a)
{
    if (!dialog_yes(a->d, "Do you want to use the parallelism config? [yes/NO]: ", false)) return;
    json_t *block = json_object();
    config_put_int(a, block, "parallelism_config_dp_replicate_size",
                   "What is the data parallelism replicate size? [1]: ", 1);
    config_put_int(a, block, "parallelism_config_dp_shard_size", "What is the FSDP shard size? [1]: ", 1);
    config_put_int(a, block, "parallelism_config_tp_size", "What is the tensor parallelism size? [1]: ", 1);
    const int64_t context =
        config_put_int(a, block, "parallelism_config_cp_size", "What is the context parallelism size? [1]: ", 1);
    if (context > 1)
        config_put_choice(a, block, "parallelism_config_cp_comm_strategy",
                          &(dialog_choice){.question = "What is the compute parallelism communication strategy?",
                                           .names = "allgather|alltoall"});
    put_block(a, "parallelism_config", block);
}

void config_ask_fsdp(config_answers *a)
{
    if (!dialog_yes(a->d, "Do you want to use FullyShardedDataParallel? [yes/NO]: ", false)) return;
    if (is_refused_for_neuron(a, "FSDP")) return;
    json_t *block = json_object();
    a->type = "FSDP";
    if (a->is_full) {
        const int version = 1 + dialog_choose(a->d, &(dialog_choice){.question = "What should be your FSDP version?",
                                                                     .names = "1|2",
                                                                     .fallback = 1,
                                                                     .first = 1});
        config_put(a, block, "fsdp_version", json_integer(version));
        ask_fsdp_full(a, block, version == 1);
        put_block(a, "fsdp_config", block);
        if (version == 2) ask_parallelism(a);
    } else {
        ask_fsdp_brief(a, block);
        put_block(a, "fsdp_config", block);
    }
}

/* ---- Megatron-LM ---- */

void config_ask_megatron(config_answers *a)
{
    if (!dialog_yes(a->d, "Do you want to use Megatron-LM ? [yes/NO]: ", false)) return;
    json_t *block = json_object();
    a->type = "MEGATRON_LM";
    const int64_t tp =
        config_put_int(a, block, "megatron_lm_tp_degree", "What is the Tensor Parallelism degree/size? [1]:", 1);
    if (tp > 1)
        config_put_yes(a, block, "megatron_lm_sequence_parallelism",
                       "Do you want to enable Sequence Parallelism? [YES/no]: ", true);
    const int64_t pp =
        config_put_int(a, block, "megatron_lm_pp_degree", "What is the Pipeline Parallelism degree/size? [1]:", 1);
    if (pp > 1)
        config_put_int(a, block, "megatron_lm_num_micro_batches", "What is the number of micro-batches? [1]:", 1);
    config_put_yes(a, block, "megatron_lm_recompute_activations",
                   "Do you want to enable selective activation recomputation? [YES/no]: ", true);
    config_put_yes(a, block, "megatron_lm_use_distributed_optimizer",
                   "Do you want to use distributed optimizer which shards optimizer state and gradients across data "
                   "parallel ranks? [YES/no]: ",
                   true);
    config_put(a, block, "megatron_lm_gradient_clipping",
               json_real(dialog_float(
                   a->d, "What is the gradient clipping value based on global L2 Norm (0 to disable)? [1.0]: ", 1.0)));
    put_block(a, "megatron_lm_config", block);
}
