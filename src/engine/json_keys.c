/* Keys of a DeepSpeed JSON that are not options of megalith, with the answer that each of them gets: those of blocks
 * that work here at least in part. Blocks of which nothing works are in json_blocks.c. */
#include "json_rows.h"

#define PRINTS     "the program shows the lines of its log that it wants"
#define PLANNED    "memory is planned before the first step, and nothing is allocated in it"
#define ALWAYS     "it is always so"
#define SHARED     "ZeRO 3 shares weights layer by layer, as the memory plan decides"
#define BUCKETS    "gradients and weights are exchanged in the same buckets, whose size is \"" ZERO "reduce_bucket_size\""
#define WRITER     "files are written by all ranks, before the training goes on"
#define NO_DISK    "nothing is moved to a disk"
#define ONE_BY_ONE "operations run one after the other in any case"
#define NO_COMET \
    "comet takes values over the network alone; use \"tensorboard\", \"csv_monitor\" or \"wandb\", which write files"
#define QUANTIZED "what ranks exchange is not quantized; leave it out"
#define SAVED     "a checkpoint holds whole fp32 tensors, which every layout loads"
#define LAYERS    "the layers of the model say how they are cut"

// clang-format off
static const mega_option_row key_rows[] = {
    {KEY_IDLE("log_level", MEGA_OPTION_ANY, PRINTS)},
    {KEY_LATER("disable_allgather", MEGA_OPTION_BOOL, NULL, "gradients are summed, then divided; leave it out")},
    {KEY_LATER("gradient_allreduce_op", MEGA_OPTION_STRING, "mean", "leave it out"), .folds_case = true},
    {KEY_LATER("managed_gradient_accumulation", MEGA_OPTION_BOOL, "true", "gradient_accumulation_steps says when a step is complete; leave it out")},
    {KEY_LATER("sequence_parallel_size", MEGA_OPTION_INT, "1", "attention over parts of a sequence (Ulysses); leave it out"), .range = MEGA_RANGE_POSITIVE},
    {KEY_IDLE("data_parallel_size", MEGA_OPTION_INT, "it follows from the number of ranks"), .range = MEGA_RANGE_POSITIVE},
    {KEY_IDLE("seq_parallel_communication_data_type", MEGA_OPTION_STRING, "gradients of sequence parallelism are summed in fp32"), .choices = "fp32|fp16|bf16", .folds_case = true},
    {KEY_IDLE("vocabulary_size", MEGA_OPTION_INT, "DeepSpeed warns about it and uses it for nothing"), .range = MEGA_RANGE_POSITIVE},
    {KEY_IDLE("disable_python_gc", MEGA_OPTION_BOOL, "memory is not collected here")},
    {KEY_IDLE("optimizer.legacy_fusion", MEGA_OPTION_BOOL, "there is one implementation")},
    {KEY_IDLE("data_types.param_dtype", MEGA_OPTION_STRING, "\"fp16\" and \"bf16\" say it"), .choices = "fp32|fp16|bf16"},
    {KEY_IDLE("data_types.buffer_dtype", MEGA_OPTION_STRING, "the model says the type of its buffers"), .choices = "fp32|fp16|bf16"},
    {KEY_LATER("data_types.keep_in_fp32_modules", MEGA_OPTION_ANY, "[]", "norms and the loss are computed in fp32, weights have fp32 masters; leave it out")},
    {KEY_BY_VALUE("data_types.grad_accum_dtype", "fp32:grad-accum-dtype=fp32|float32:grad-accum-dtype=fp32|float:grad-accum-dtype=fp32|torch.float32:grad-accum-dtype=fp32|fp16:grad-accum-dtype=fp16|float16:grad-accum-dtype=fp16|half:grad-accum-dtype=fp16|torch.float16:grad-accum-dtype=fp16|bf16:grad-accum-dtype=bf16|bfloat16:grad-accum-dtype=bf16|torch.bfloat16:grad-accum-dtype=bf16", "it is --grad-accum-dtype")},
    {KEY_IDLE("timers.throughput.enabled|timers.throughput.synchronized", MEGA_OPTION_BOOL, "the seconds of a step are measured in any case")},
    {KEY_IDLE("zero_allow_untested_optimizer|zero_force_ds_cpu_optimizer", MEGA_OPTION_BOOL, "every optimizer works with every stage")},
    {KEY_BY_VALUE("optimizer.type", "Adam:optimizer=adam|AdamW:optimizer=adam|=SGD:optimizer=sgd|Adagrad:optimizer=adagrad|Lion:optimizer=lion|AdEMAMix:optimizer=ademamix|AdamWScheduleFree:optimizer=schedule_free_adamw|OneBitAdam:optimizer=one_bit_adam|Lamb:optimizer=lamb|Muon:optimizer=muon", "mega_setup.optimizer takes one of your own"), .folds_case = true},
    {KEY_IDLE("optimizer.params.cuda_aware|optimizer.params.comm_backend_name", MEGA_OPTION_ANY, "ranks exchange over MPI or the memory that they share")},
    {KEY_IDLE("optimizer.params.torch_adam|optimizer.params.fused", MEGA_OPTION_BOOL, "there is one implementation")},
    {KEY("optimizer.params.max_grad_norm", MEGA_OPTION_FLOAT, MEGA_ANSWER_RENAMED, "the spelling of 2019 of \"gradient_clipping\", which newer versions refuse"), .successor = "clip-grad"},
    {KEY_IDLE("optimizer.params.ns_method", MEGA_OPTION_STRING, "Muon's \"gram\" and \"standard\" are the same iteration, with its products in another order")},
    {KEY_LATER("optimizer.params.per_head_muon", MEGA_OPTION_BOOL, NULL, "Muon orthogonalizes whole projections; leave it out")},
    {KEY_IDLE(ZERO "save_muon_momentum_buffer_in_memory", MEGA_OPTION_BOOL, PLANNED)},
    {KEY_IDLE("scheduler.params.last_batch_iteration", MEGA_OPTION_INT, "a checkpoint holds the position in the schedule")},
    {KEY_IDLE("fp16.auto_cast", MEGA_OPTION_BOOL, "numbers that a model takes as inputs arrive in the compute type in any case")},
    {KEY_LATER("fp16.fp16_master_weights_and_grads", MEGA_OPTION_BOOL, NULL, "master weights are fp32; \"data_types.grad_accum_dtype\" says in which type gradients are held")},
    {KEY_IDLE("bf16.immediate_grad_update|bf16.check_grad_overflow|bfloat16.immediate_grad_update|bfloat16.check_grad_overflow", MEGA_OPTION_BOOL, "every step looks for values that are not finite")},
    {KEY_LATER("bf16.bf16_master_weights_and_grads|bf16.bf16_optimizer_states|bfloat16.bf16_master_weights_and_grads|bfloat16.bf16_optimizer_states", MEGA_OPTION_BOOL, NULL, "master weights and moments are fp32; leave it out")},
    {KEY_LATER("amp.loss_scale", MEGA_OPTION_ANY, "dynamic", "the scale of amp is dynamic; use \"fp16\" for a fixed one")},
    {KEY_IDLE("amp.min_loss_scale|amp.max_loss_scale|amp.cast_model_type|amp.cast_model_outputs|amp.patch_torch_functions|amp.keep_batchnorm_fp32|amp.master_weights|amp.num_losses|amp.verbosity", MEGA_OPTION_ANY, "\"amp.opt_level\" alone says how amp computes here")},
    {KEY_LATER("torch_autocast.enabled", MEGA_OPTION_BOOL, NULL, "use \"fp16\": {\"enabled\": true} or \"bf16\": {\"enabled\": true}")},
    {KEY_IDLE("torch_autocast.dtype", MEGA_OPTION_STRING, "it only matters with torch_autocast"), .choices = "torch.float16|fp16|float16|half|torch.float32|fp32|float32|float|torch.int8|int8|torch.bfloat16|bf16|bfloat16"},
    {KEY_IDLE("torch_autocast.lower_precision_safe_modules", MEGA_OPTION_LIST, "it only matters with torch_autocast")},
    {.json = "zero_optimization", .field = MEGA_NO_FIELD, .kind = MEGA_OPTION_BOOL, .answer = MEGA_ANSWER_RENAMED, .cases = "true:zero-stage=1|false:", .remark = "the spelling of 2019 of stage 1; a block otherwise"},
    {KEY_IDLE(ZERO "contiguous_gradients|" ZERO "use_multi_rank_bucket_allreduce|" ZERO "memory_efficient_linear|" ZERO "parameter_alignment", MEGA_OPTION_BOOL, PLANNED)},
    {KEY_IDLE(ZERO "reduce_scatter", MEGA_OPTION_BOOL, "from stage 1 on gradients are summed by a reduce-scatter in any case")},
    {KEY_IDLE(ZERO "allgather_partitions", MEGA_OPTION_BOOL, "from stage 1 on weights are gathered from the ranks that own them in any case")},
    {KEY_IDLE(ZERO "allgather_bucket_size", MEGA_OPTION_INT, BUCKETS), .range = MEGA_RANGE_NOT_NEGATIVE},
    {KEY_IDLE(ZERO "all_reduce_bucket_size|allgather_size", MEGA_OPTION_INT, "the spelling of 2019 of \"" ZERO "allgather_bucket_size\": " BUCKETS), .range = MEGA_RANGE_NOT_NEGATIVE},
    {KEY_IDLE(ZERO "sub_group_size|" ZERO "stage3_model_persistence_threshold|" ZERO "model_persistence_threshold|" ZERO "stage3_module_granularity_threshold|" ZERO "module_granularity_threshold", MEGA_OPTION_INT, SHARED), .range = MEGA_RANGE_NOT_NEGATIVE},
    {KEY_IDLE(ZERO "stage3_use_all_reduce_for_fetch_params|" ZERO "use_all_reduce_for_fetch_params|" ZERO "stage3_allgather_sequential|" ZERO "allgather_sequential|" ZERO "override_module_apply", MEGA_OPTION_BOOL, SHARED)},
    {KEY_IDLE(ZERO "leaf_module.classes|" ZERO "leaf_module.names|" ZERO "leaf_module.name_suffixes", MEGA_OPTION_LIST, SHARED)},
    {KEY_IDLE(ZERO "round_robin_gradients|" ZERO "ignore_unused_parameters", MEGA_OPTION_BOOL, ALWAYS)},
    {KEY_IDLE(ZERO "compute_grad_norm", MEGA_OPTION_BOOL, "the norm of the gradients is computed in any case")},
    {KEY_IDLE(ZERO "log_trace_cache_warnings|" ZERO "enable_sanity_checks", MEGA_OPTION_BOOL, "the order of what ranks gather is fixed before the first step")},
    {KEY_IDLE(ZERO "load_from_fp32_weights|" ZERO "elastic_checkpoint|" ZERO "pipeline_loading_checkpoint|" ZERO "stage3_gather_16bit_weights_on_model_save|" ZERO "gather_16bit_weights_on_model_save|" ZERO "stage3_gather_fp16_weights_on_model_save", MEGA_OPTION_BOOL, SAVED)},
    {KEY_REFUSED(ZERO "legacy_stage1", MEGA_OPTION_BOOL, NULL, "DeepSpeed has dropped that implementation of stage 1, too; leave it out")},
    {KEY_IDLE(ZERO "cpu_offload|" ZERO "cpu_offload_param|" ZERO "cpu_offload_params|" ZERO "cpu_offload_use_pin_memory", MEGA_OPTION_BOOL, HOST)},
    {KEY_BY_VALUE(ZERO "offload_optimizer.device|" ZERO "offload_param.device", "none:|cpu:", HOST)},
    {KEY_IDLE(ZERO "offload_optimizer.pin_memory|" ZERO "offload_optimizer.fast_init|" ZERO "offload_optimizer.pipeline|" ZERO "offload_optimizer.pipeline_read|" ZERO "offload_optimizer.pipeline_write|" ZERO "offload_param.pin_memory|" ZERO "offload_optimizer.super_offload", MEGA_OPTION_BOOL, HOST)},
    {KEY_IDLE(ZERO "offload_optimizer.buffer_count|" ZERO "offload_param.buffer_count|" ZERO "offload_param.buffer_size|" ZERO "offload_param.max_in_cpu", MEGA_OPTION_INT, HOST), .range = MEGA_RANGE_NOT_NEGATIVE},
    {KEY_IDLE(ZERO "offload_optimizer.ratio|" ZERO "offload_optimizer.cpuadam_cores_perc", MEGA_OPTION_FLOAT, HOST), .range = MEGA_RANGE_FRACTION},
    {KEY_IDLE(ZERO "offload_optimizer.nvme_path|" ZERO "offload_param.nvme_path", MEGA_OPTION_STRING, "nothing is moved to a disk")},
    {KEY_LATER(ZERO "zero_hpz_partition_size", MEGA_OPTION_INT, "1", "all data-parallel ranks share out together; leave it out")},
    {KEY_LATER(ZERO "mics_shard_size", MEGA_OPTION_INT, "-1", "all data-parallel ranks share out together; leave it out" REMOVED)},
    {KEY_IDLE(ZERO "mics_hierarchical_params_gather", MEGA_OPTION_BOOL, "it only matters with mics_shard_size" REMOVED)},
    {KEY_LATER(ZERO "zero_quantized_weights|" ZERO "zero_quantized_gradients|" ZERO "zero_quantized_nontrainable_weights", MEGA_OPTION_BOOL, NULL, QUANTIZED)},
    {KEY_IDLE(ZERO "zeropp_loco_param.err_beta|" ZERO "zeropp_loco_param.reset_T", MEGA_OPTION_FLOAT, "it only matters with zero_quantized_gradients" REMOVED)},
    {KEY_LATER(ZERO "zenflow.topk_ratio|" ZERO "zenflow.select_strategy|" ZERO "zenflow.select_interval|" ZERO "zenflow.update_interval|" ZERO "zenflow.overlap_step|" ZERO "zenflow.offload|" ZERO "zenflow.auto_ratio|" ZERO "zenflow.full_warm_up_rounds|" ZERO "zenflow.pt_reserved_cores_perc|" ZERO "zenflow.steps_per_epoch", MEGA_OPTION_ANY, NULL, "every step updates every weight; leave the block out")},
    {KEY_IDLE("aio.block_size|aio.queue_depth|aio.intra_op_parallelism", MEGA_OPTION_INT, NO_DISK), .range = MEGA_RANGE_POSITIVE},
    {KEY_IDLE("aio.thread_count", MEGA_OPTION_INT, NO_DISK "; DeepSpeed's documentation has this name, its code reads \"aio.intra_op_parallelism\""), .range = MEGA_RANGE_POSITIVE},
    {KEY_IDLE("aio.single_submit|aio.overlap_events|aio.use_gds", MEGA_OPTION_BOOL, NO_DISK)},
    {KEY_IDLE("activation_checkpointing.cpu_checkpointing", MEGA_OPTION_BOOL, HOST)},
    {KEY_IDLE("activation_checkpointing.contiguous_memory_optimization|activation_checkpointing.number_checkpoints", MEGA_OPTION_ANY, PLANNED)},
    {KEY_IDLE("activation_checkpointing.synchronize_checkpoint_boundary|activation_checkpointing.profile", MEGA_OPTION_BOOL, ONE_BY_ONE)},
    {KEY_REFUSED("comet.enabled", MEGA_OPTION_BOOL, NULL, NO_COMET)},
    {KEY_LATER("tensor_parallel.autotp_size", MEGA_OPTION_INT, "0|1", "write the layers for several ranks (mega_column_linear), and give \"megalith\": {\"tensor_model_parallel_size\": …}")},
    {KEY_LATER("tensor_parallel.tp.tp_size|tensor_parallel.tensor_parallel.tp_size", MEGA_OPTION_INT, "1", "give \"tensor_parallel.autotp_size\"")},
    {KEY_IDLE("tensor_parallel.tp.tp_grain_size|tensor_parallel.tensor_parallel.tp_grain_size", MEGA_OPTION_INT, LAYERS), .range = MEGA_RANGE_POSITIVE},
    {KEY_IDLE("tensor_parallel.partition_config|tensor_parallel.injection_policy_tuple|tensor_parallel.tp.mpu|tensor_parallel.tensor_parallel.mpu|tensor_parallel.tp.tp_group|tensor_parallel.tensor_parallel.tp_group|tensor_parallel.vocab_parallel_lm_head|tensor_parallel.dtype", MEGA_OPTION_ANY, LAYERS)},
    {KEY_IDLE("tensor_parallel.preset_model|tensor_parallel.vocab_parallel_ce_backend", MEGA_OPTION_STRING, LAYERS)},
    {KEY_IDLE("tensor_parallel.tp_overlap_comm|tensor_parallel.keep_module_on_host|tensor_parallel.kernel_inject|tensor_parallel.replace_with_kernel_inject", MEGA_OPTION_BOOL, LAYERS)},
    {KEY_IDLE("pipeline.partition", MEGA_OPTION_STRING, "mega_model says it")},
    {KEY_IDLE("pipeline.seed_layers", MEGA_OPTION_BOOL, "every parameter has initial values of its own for one seed")},
    {KEY_IDLE("pipeline.pipe_partitioned|pipeline.grad_partitioned", MEGA_OPTION_BOOL, "a message between stages is cut over tensor-parallel ranks with sequence parallelism alone")},
    {KEY_IDLE("pipeline.use_reentrant", MEGA_OPTION_BOOL, "the backward pass is derived, not recorded")},
    {KEY_IDLE("checkpoint.tag_validation", MEGA_OPTION_STRING, "ranks that save under different tags are refused in any case"), .choices = "Ignore|Warn|Fail", .folds_case = true},
    {KEY_IDLE("checkpoint.load_universal|checkpoint.use_node_local_storage|checkpoint.checkpoint_serialization", MEGA_OPTION_BOOL, "a checkpoint holds whole tensors in one folder, which every layout loads")},
    {KEY_IDLE("checkpoint.parallel_write.pipeline_stage", MEGA_OPTION_BOOL, "every rank writes its part of the one file")},
    {KEY_IDLE("checkpoint.writer.type", MEGA_OPTION_STRING, WRITER), .choices = "mock|python|fast", .folds_case = true},
    {KEY_IDLE("checkpoint.writer.data_parallel", MEGA_OPTION_STRING, WRITER), .choices = "replica|socket|machine", .folds_case = true},
    {KEY_IDLE("checkpoint.writer.decoupled|checkpoint.writer.io_buffer_double|checkpoint.writer.show_statistics", MEGA_OPTION_BOOL, WRITER)},
    {KEY_IDLE("checkpoint.writer.io_buffer_size|checkpoint.writer.io_multiplier", MEGA_OPTION_INT, WRITER), .range = MEGA_RANGE_POSITIVE},
};
// clang-format on
const mega_option_section mega_engine_json_keys = MEGA_SECTION("DeepSpeed JSON", key_rows);
