/* Keys of Accelerate's YAML that are not options of a command. The keys that are, are in the column yaml of their
 * rows. */
#include "options_impl.h"

#define KEY(path_, kind_, remark_)                                                         \
    .name = (path_), .yaml = (path_), .field = MEGA_NO_FIELD, .kind = MEGA_OPTION_##kind_, \
    .answer = MEGA_ANSWER_NO_EFFECT, .remark = (remark_)
/* Read by megalith launch, or by config_file.c. */
#define ELSEWHERE(path_, kind_) KEY(path_, kind_, NULL)
#define REFUSED(path_, kind_, neutral_, remark_)                                           \
    .name = (path_), .yaml = (path_), .field = MEGA_NO_FIELD, .kind = MEGA_OPTION_##kind_, \
    .answer = MEGA_ANSWER_NOT_IMPLEMENTED, .neutral = (neutral_), .remark = (remark_)
#define OTHER_NAME(path_, kind_, successor_)                                               \
    .name = (path_), .yaml = (path_), .field = MEGA_NO_FIELD, .kind = MEGA_OPTION_##kind_, \
    .answer = MEGA_ANSWER_RENAMED, .successor = (successor_), .remark = "it is --" successor_

#define ON_CORES   "ranks run on CPU cores"
#define BY_MPI     "ranks find each other through the MPI launcher"
#define COMPILED   "the program of a step is always compiled before the first step"
#define OF_TPU     "it belongs to TPUs"
#define NO_TPU     "ranks run on CPU cores; leave it out"
#define ONLY_FP8   "it only matters with fp8, which no processor computes with"
#define WHOLE      "each rank creates only its shard of the weights, and a checkpoint is always whole"
#define ZERO_THREE "weights are gathered by layer where they are used, and a checkpoint is always whole"
#define FSDP(name_)                                     \
    {                                                   \
        KEY("fsdp_config.fsdp_" name_, ANY, ZERO_THREE) \
    }
#define FP8(name_)                              \
    {                                           \
        KEY("fp8_config." name_, ANY, ONLY_FP8) \
    }

/* Backends of torch.compile, which accelerate compares in upper case. */
#define DYNAMO                                                                                                     \
    .choices = "NO|EAGER|AOT_EAGER|INDUCTOR|AOT_TS_NVFUSER|NVPRIMS_NVFUSER|CUDAGRAPHS|OFI|FX2TRT|ONNXRT|TENSORRT|" \
               "AOT_TORCHXLA_TRACE_ONCE|TORCHXLA_TRACE_ONCE|IPEX|TVM|HPU_BACKEND",                                 \
    .folds_case = true

// clang-format off
static const mega_option_row yaml_rows[] = {
    {REFUSED("compute_environment", STRING, "LOCAL_MACHINE", "ranks are started on this machine, or by a hostfile and Slurm; LOCAL_MACHINE says so")},
    {.name = "distributed_type", .yaml = "distributed_type", .field = MEGA_NO_FIELD, .kind = MEGA_OPTION_STRING, .answer = MEGA_ANSWER_RENAMED,
     .remark = "any of them starts ranks on CPU cores", .cases = "NO:|MULTI_CPU:|MULTI_GPU:|MULTI_XPU:|MULTI_HPU:|MULTI_NPU:|MULTI_MLU:|MULTI_SDAA:|MULTI_MUSA:|MULTI_NEURON:|DEEPSPEED:|FSDP:|MEGATRON_LM:"},
    {ELSEWHERE("num_processes", INT)},
    {ELSEWHERE("num_machines", INT)},
    {ELSEWHERE("machine_rank", INT)},
    {ELSEWHERE("main_process_ip", ANY)},
    {ELSEWHERE("main_process_port", INT)},
    {KEY("rdzv_backend", STRING, BY_MPI), .neutral = "static"},
    {KEY("same_network", BOOL, BY_MPI), .neutral = "true|false"},
    {KEY("gpu_ids", ANY, ON_CORES), .neutral = "all"},
    {KEY("use_cpu", BOOL, ON_CORES), .neutral = "true|false"},
    {KEY("debug", BOOL, "ranks compare their calls in any case")},
    {KEY("enable_cpu_affinity", BOOL, "each rank uses its share of the cores in any case")},
    {KEY("main_training_function", STRING, OF_TPU), .neutral = "main"},
    {KEY("downcast_bf16", ANY, OF_TPU), .neutral = "no"},
    {REFUSED("tpu_name", STRING, NULL, NO_TPU)},
    {REFUSED("tpu_zone", STRING, NULL, NO_TPU)},
    {REFUSED("tpu_use_cluster", BOOL, NULL, NO_TPU)},
    {KEY("tpu_use_sudo", BOOL, OF_TPU)},
    {KEY("tpu_env", LIST, OF_TPU)},
    {KEY("tpu_vm", LIST, OF_TPU)},
    {REFUSED("command_file", STRING, NULL, NO_TPU)},
    {REFUSED("commands", LIST, NULL, NO_TPU)},
    {OTHER_NAME("fp16", BOOL, "fp16")},
    {KEY("dynamo_backend", STRING, COMPILED), .neutral = "NO", DYNAMO},
    {KEY("dynamo_config.dynamo_backend", STRING, COMPILED), .neutral = "NO", DYNAMO},
    {KEY("dynamo_config.dynamo_mode", STRING, COMPILED), .choices = "default|reduce-overhead|max-autotune"},
    {KEY("dynamo_config.dynamo_use_fullgraph", BOOL, COMPILED)},
    {KEY("dynamo_config.dynamo_use_dynamic", BOOL, COMPILED)},
    {KEY("dynamo_config.dynamo_use_regional_compilation", BOOL, COMPILED)},
    {ELSEWHERE("mpirun_config.mpirun_hostfile", STRING)},
    {KEY("mpirun_config.mpirun_ccl", ANY, BY_MPI), .neutral = "0"},
    {KEY("deepspeed_config.zero3_init_flag", BOOL, WHOLE)},
    {KEY("deepspeed_config.zero3_save_16bit_model", BOOL, WHOLE)},
    {REFUSED("deepspeed_config.deepspeed_moe_layer_cls_names", STRING, NULL, "a mixture of experts is not implemented")},
    {KEY("deepspeed_config.deepspeed_multinode_launcher", STRING, "the MPI launcher that is installed starts the ranks; megalith launch --launcher names another"), .neutral = "standard", .choices = "pdsh|standard|openmpi|mvapich|mpich|nossh|slurm"},
    {ELSEWHERE("deepspeed_config.deepspeed_hostfile", STRING)},
    {ELSEWHERE("deepspeed_config.deepspeed_exclusion_filter", STRING)},
    {ELSEWHERE("deepspeed_config.deepspeed_inclusion_filter", STRING)},
    {ELSEWHERE("fsdp_config.fsdp_version", ANY)},
    {ELSEWHERE("fsdp_config.fsdp_sharding_strategy", ANY)},
    {ELSEWHERE("fsdp_config.fsdp_reshard_after_forward", ANY)},
    {KEY("fsdp_config.fsdp_offload_params", BOOL, "everything lies in the host's memory already")},
    {OTHER_NAME("fsdp_config.fsdp_activation_checkpointing", BOOL, "recompute-granularity=full")},
    {KEY("fsdp_config.fsdp_auto_wrap_policy", ANY, ZERO_THREE), .choices = "TRANSFORMER_BASED_WRAP|SIZE_BASED_WRAP|NO_WRAP|1|2|3", .folds_case = true},
    {KEY("fsdp_config.fsdp_backward_prefetch", ANY, ZERO_THREE), .choices = "BACKWARD_PRE|BACKWARD_POST|NO_PREFETCH|1|2|3", .folds_case = true},
    {KEY("fsdp_config.fsdp_backward_prefetch_policy", ANY, ZERO_THREE), .choices = "BACKWARD_PRE|BACKWARD_POST|NO_PREFETCH|1|2|3", .folds_case = true},
    {KEY("fsdp_config.fsdp_state_dict_type", ANY, ZERO_THREE), .choices = "FULL_STATE_DICT|LOCAL_STATE_DICT|SHARDED_STATE_DICT|1|2|3", .folds_case = true},
    FSDP("transformer_layer_cls_to_wrap"), FSDP("min_num_params"), FSDP("forward_prefetch"), FSDP("use_orig_params"),
    FSDP("cpu_ram_efficient_loading"), FSDP("sync_module_states"), FSDP("mixed_precision_policy"), FSDP("ignored_modules"),
    {REFUSED("parallelism_config.parallelism_config_dp_replicate_size", INT, "1", "weights are sharded over all data-parallel ranks, or with ZeRO 0 to 2 over none")},
    {KEY("parallelism_config.parallelism_config_dp_shard_size", INT, "what is left of the ranks beside tensor parallelism is data parallel")},
    {OTHER_NAME("parallelism_config.parallelism_config_tp_size", INT, "tensor-model-parallel-size")},
    {REFUSED("parallelism_config.parallelism_config_cp_size", INT, "1", "a sequence is not cut over ranks; leave it at 1")},
    {KEY("parallelism_config.parallelism_config_cp_comm_strategy", STRING, "it only matters with parallelism_config_cp_size"), .choices = "allgather|alltoall"},
    {REFUSED("parallelism_config.parallelism_config_sp_size", INT, "1", "a sequence is not cut over ranks; leave it at 1")},
    FP8("backend"), FP8("use_autocast_during_eval"), FP8("margin"), FP8("interval"), FP8("fp8_format"), FP8("amax_history_length"),
    FP8("amax_history_len"), FP8("amax_compute_algorithm"), FP8("amax_compute_algo"), FP8("override_linear_precision"),
    FP8("optimization_level"), FP8("opt_level"), FP8("enable_fsdp_float8_all_gather"), FP8("pad_inner_dim"),
};
const mega_option_section cli_yaml_keys = MEGA_SECTION("Accelerate's YAML", yaml_rows);

static const mega_option_row file_rows[] = {
    {MEGA_OPTION(mega_command_options, "config-file", config_file, MEGA_OPTION_STRING), .is_of_argv = true, .alike = MEGA_ALIKE_NOT_NEEDED, .value = "FILE", .help = "a YAML or JSON of accelerate config: ranks, precision, layout and more, where no option says otherwise (docs/accelerate.md)"},
};
const mega_option_section cli_config_file_section = MEGA_SECTION("distributed", file_rows);
// clang-format on
