/* Keys of a DeepSpeed JSON that are not options of megalith, with the answer that each of them gets. */
#include "megalith/engine_settings.h"

#define KEY_IDLE(json_, kind_, remark_) \
    .json = (json_), .field = MEGA_NO_FIELD, .kind = (kind_), .answer = MEGA_ANSWER_NO_EFFECT, .remark = (remark_)
#define KEY_LATER(json_, kind_, neutral_, remark_)                                                   \
    .json = (json_), .field = MEGA_NO_FIELD, .kind = (kind_), .answer = MEGA_ANSWER_NOT_IMPLEMENTED, \
    .neutral = (neutral_), .remark = (remark_)
#define KEY_BY_VALUE(json_, cases_, remark_)                                                            \
    .json = (json_), .field = MEGA_NO_FIELD, .kind = MEGA_OPTION_STRING, .answer = MEGA_ANSWER_RENAMED, \
    .cases = (cases_), .remark = (remark_)

#define ZERO       "zero_optimization."
#define PRINTS     "the program prints what it wants of mega_step_result"
#define PLANNED    "memory is planned before the first step, and nothing is allocated in it"
#define HOST       "everything is in the host's memory already"
#define ALWAYS     "it is always so"
#define SHARED     "ZeRO 3 shares weights layer by layer, as the memory plan decides"
#define NO_OFFLOAD "it only matters with an offload device"
#define ONE_BY_ONE "operations run one after the other in any case"
#define NO_MONITOR "an engine writes no files of events: write what mega_step_result holds"
#define OF_MONITOR "it only matters with a monitor"
#define QUANTIZED  "what ranks exchange is not quantized; leave it out"

// clang-format off
static const mega_option_row key_rows[] = {
    {KEY_IDLE("steps_per_print|dump_state|memory_breakdown|log_level", MEGA_OPTION_ANY, PRINTS)},
    {KEY_IDLE("wall_clock_breakdown", MEGA_OPTION_BOOL, "mega_step_result holds the seconds of each part of a step")},
    {KEY_LATER("dataloader_drop_last", MEGA_OPTION_BOOL, NULL, "epochs follow one another without a gap; leave it out")},
    {KEY_LATER("prescale_gradients|sparse_gradients|disable_allgather", MEGA_OPTION_BOOL, NULL, "gradients are summed, then divided; leave it out")},
    {KEY_LATER("gradient_predivide_factor", MEGA_OPTION_FLOAT, "1", "gradients are summed, then divided; leave it out")},
    {KEY_LATER("gradient_allreduce_op", MEGA_OPTION_STRING, "mean", "leave it out")},
    {KEY_LATER("communication_data_type|data_types.grad_accum_dtype", MEGA_OPTION_STRING, "fp32", "gradients are kept and summed in fp32; leave it out")},
    {KEY_IDLE("zero_allow_untested_optimizer|zero_force_ds_cpu_optimizer", MEGA_OPTION_BOOL, "every optimizer works with every stage")},
    {KEY_BY_VALUE("optimizer.type", "Adam:optimizer=adam|AdamW:optimizer=adam|SGD:optimizer=sgd|Adagrad:optimizer=adagrad|Lion:optimizer=lion|AdEMAMix:optimizer=ademamix|AdamWScheduleFree:optimizer=schedule_free_adamw|OneBitAdam:optimizer=one_bit_adam|Lamb:optimizer=lamb|Muon:optimizer=muon", "mega_setup.optimizer takes one of your own")},
    {KEY_IDLE("optimizer.params.cuda_aware|optimizer.params.comm_backend_name", MEGA_OPTION_ANY, "ranks exchange over MPI or the memory that they share")},
    {KEY_IDLE("optimizer.params.torch_adam|optimizer.params.fused", MEGA_OPTION_BOOL, "there is one implementation")},
    {KEY_LATER("optimizer.params.max_grad_norm", MEGA_OPTION_FLOAT, "0", "DeepSpeed refuses it as well: use \"gradient_clipping\"")},
    {KEY_IDLE("optimizer.params.ns_method", MEGA_OPTION_STRING, "Muon's \"gram\" and \"standard\" are the same iteration, with its products in another order")},
    {KEY_LATER("optimizer.params.per_head_muon", MEGA_OPTION_BOOL, NULL, "Muon orthogonalizes whole projections; leave it out")},
    {KEY_IDLE(ZERO "save_muon_momentum_buffer_in_memory", MEGA_OPTION_BOOL, PLANNED)},
    {KEY_IDLE("scheduler.params.last_batch_iteration", MEGA_OPTION_INT, "a checkpoint holds the position in the schedule")},
    {KEY_IDLE("fp16.auto_cast", MEGA_OPTION_BOOL, "numbers that a model takes as inputs arrive in the compute type in any case")},
    {KEY_LATER("fp16.fp16_master_weights_and_grads", MEGA_OPTION_BOOL, NULL, "master weights and gradients are fp32; leave it out")},
    {KEY_IDLE("bf16.immediate_grad_update|bf16.check_grad_overflow", MEGA_OPTION_BOOL, "gradients are fp32, and every step looks for values that are not finite")},
    {KEY_LATER("bf16.bf16_master_weights_and_grads|bf16.bf16_optimizer_states", MEGA_OPTION_BOOL, NULL, "master weights and moments are fp32; leave it out")},
    {KEY_LATER("amp.enabled|torch_autocast.enabled", MEGA_OPTION_BOOL, NULL, "use \"fp16\": {\"enabled\": true} or \"bf16\": {\"enabled\": true}")},
    {KEY_IDLE("amp.opt_level", MEGA_OPTION_STRING, "it only matters with amp")},
    {KEY_IDLE(ZERO "contiguous_gradients|" ZERO "use_multi_rank_bucket_allreduce|" ZERO "memory_efficient_linear", MEGA_OPTION_BOOL, PLANNED)},
    {KEY_IDLE(ZERO "reduce_scatter", MEGA_OPTION_BOOL, "from stage 1 on gradients are summed by a reduce-scatter in any case")},
    {KEY_IDLE(ZERO "allgather_partitions", MEGA_OPTION_BOOL, "from stage 1 on weights are gathered from the ranks that own them in any case")},
    {KEY_IDLE(ZERO "allgather_bucket_size", MEGA_OPTION_INT, "gradients and weights are exchanged in the same buckets, whose size is \"" ZERO "reduce_bucket_size\"")},
    {KEY_IDLE(ZERO "sub_group_size|" ZERO "stage3_model_persistence_threshold|" ZERO "stage3_module_granularity_threshold", MEGA_OPTION_INT, SHARED)},
    {KEY_IDLE(ZERO "round_robin_gradients|" ZERO "ignore_unused_parameters", MEGA_OPTION_BOOL, ALWAYS)},
    {KEY_IDLE(ZERO "load_from_fp32_weights|" ZERO "elastic_checkpoint|" ZERO "stage3_gather_16bit_weights_on_model_save|" ZERO "stage3_gather_fp16_weights_on_model_save", MEGA_OPTION_BOOL, "a checkpoint holds whole fp32 tensors, which every layout loads")},
    {KEY_LATER(ZERO "legacy_stage1|" ZERO "cpu_offload|" ZERO "cpu_offload_params", MEGA_OPTION_BOOL, NULL, "leave it out")},
    {KEY_LATER(ZERO "offload_optimizer.device|" ZERO "offload_param.device", MEGA_OPTION_STRING, "none", "memory beyond the machine's is not implemented yet; leave the block out")},
    {KEY_IDLE(ZERO "offload_optimizer.pin_memory|" ZERO "offload_optimizer.nvme_path|" ZERO "offload_optimizer.buffer_count|" ZERO "offload_optimizer.fast_init|" ZERO "offload_optimizer.pipeline|" ZERO "offload_optimizer.pipeline_read|" ZERO "offload_optimizer.pipeline_write|" ZERO "offload_optimizer.ratio", MEGA_OPTION_ANY, NO_OFFLOAD)},
    {KEY_IDLE(ZERO "offload_param.pin_memory|" ZERO "offload_param.nvme_path|" ZERO "offload_param.buffer_count|" ZERO "offload_param.buffer_size|" ZERO "offload_param.max_in_cpu", MEGA_OPTION_ANY, NO_OFFLOAD)},
    {KEY_LATER(ZERO "zero_hpz_partition_size", MEGA_OPTION_INT, "1", "all data-parallel ranks share out together; leave it out")},
    {KEY_LATER(ZERO "mics_shard_size", MEGA_OPTION_INT, "-1", "all data-parallel ranks share out together; leave it out")},
    {KEY_LATER(ZERO "zero_quantized_weights|" ZERO "zero_quantized_gradients|" ZERO "zero_quantized_nontrainable_weights", MEGA_OPTION_BOOL, NULL, QUANTIZED)},
    {KEY_IDLE("aio.block_size|aio.queue_depth|aio.thread_count|aio.intra_op_parallelism|aio.single_submit|aio.overlap_events|aio.use_gds", MEGA_OPTION_ANY, NO_OFFLOAD)},
    {KEY_LATER("activation_checkpointing.partition_activations", MEGA_OPTION_BOOL, NULL, "set mega_model.distribute_saved")},
    {KEY_IDLE("activation_checkpointing.cpu_checkpointing", MEGA_OPTION_BOOL, HOST)},
    {KEY_IDLE("activation_checkpointing.contiguous_memory_optimization|activation_checkpointing.number_checkpoints", MEGA_OPTION_ANY, PLANNED)},
    {KEY_IDLE("activation_checkpointing.synchronize_checkpoint_boundary|activation_checkpointing.profile", MEGA_OPTION_BOOL, ONE_BY_ONE)},
    {KEY_LATER("tensorboard.enabled|csv_monitor.enabled|wandb.enabled|comet.enabled", MEGA_OPTION_BOOL, NULL, NO_MONITOR)},
    {KEY_IDLE("tensorboard.output_path|tensorboard.job_name|csv_monitor.output_path|csv_monitor.job_name|wandb.group|wandb.team|wandb.project", MEGA_OPTION_STRING, OF_MONITOR)},
    {KEY_LATER("flops_profiler.enabled", MEGA_OPTION_BOOL, NULL, "call mega_engine_cost_get, and read the seconds in mega_step_result")},
    {KEY_IDLE("flops_profiler.profile_step|flops_profiler.module_depth|flops_profiler.top_modules|flops_profiler.detailed|flops_profiler.output_file|flops_profiler.recompute_fwd_factor", MEGA_OPTION_ANY, "it only matters with the profiler")},
    {KEY_LATER("comms_logger.enabled", MEGA_OPTION_BOOL, NULL, "leave the block out")},
    {KEY_IDLE("comms_logger.verbose|comms_logger.prof_all|comms_logger.debug|comms_logger.prof_ops", MEGA_OPTION_ANY, "it only matters with the logger")},
    {KEY_LATER("curriculum_learning.enabled|data_efficiency.enabled|progressive_layer_drop.enabled|eigenvalue.enabled|elasticity.enabled|autotuning.enabled", MEGA_OPTION_BOOL, NULL, "leave the block out")},
    {KEY_LATER("tensor_parallel.autotp_size", MEGA_OPTION_INT, "0|1", "write the layers for several ranks (mega_column_linear), and give \"megalith\": {\"tensor_model_parallel_size\": …}")},
    {KEY_IDLE("pipeline.partition|pipeline.seed_layers|pipeline.activation_checkpoint_interval", MEGA_OPTION_ANY, "mega_model says it")},
    {KEY_IDLE("checkpoint.tag_validation|checkpoint.load_universal|checkpoint.use_node_local_storage", MEGA_OPTION_ANY, "a checkpoint holds whole tensors in one folder, which every layout loads")},
};
// clang-format on
const mega_option_section mega_engine_json_keys = MEGA_SECTION("DeepSpeed JSON", key_rows);
