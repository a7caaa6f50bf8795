/* The options of src/graph: gradient buckets, ZeRO, recomputation. */
#include "megalith/graph_options.h"

#define ROW(name, field, kind) MEGA_OPTION(mega_graph_options, name, field, kind)

// clang-format off
static const mega_option_row distributed_rows[] = {
    {ROW("DDP-impl", ddp_impl, MEGA_OPTION_CHOICE), .fallback = "local", .choices = "local|torch|FSDP", .help = "when gradients are summed over data-parallel ranks: local after the backward, torch by bucket while it runs; FSDP is --zero-stage 3 (weights, gradients and optimizer shared out)"},
    {ROW("ddp-bucket-size", ddp_bucket_size, MEGA_OPTION_INT), .json = "zero_optimization.reduce_bucket_size", .fallback = "40000000", .range = MEGA_RANGE_POSITIVE, .help = "elements of a bucket of parameters, of which ranks exchange gradients (ZeRO 1, 2: weights too) at once; with ZeRO 3 it is a layer"},
    {ROW("use-distributed-optimizer", use_distributed_optimizer, MEGA_OPTION_FLAG), .yaml = "megatron_lm_config.megatron_lm_use_distributed_optimizer", .help = "data-parallel ranks share out the optimizer's state: the same as --zero-stage 1"},
    {ROW("overlap-grad-reduce", overlap_grad_reduce, MEGA_OPTION_FLAG), .json = "zero_optimization.overlap_comm", .help = "sum gradients over data-parallel ranks by bucket while the backward of the last micro-batch runs; with ZeRO 2 and 3, leave the sum of a bucket under way until the next is complete"},
    {ROW("communication-data-type", communication_data_type, MEGA_OPTION_CHOICE), .json = "communication_data_type", .fallback = "fp32", .choices = "fp32|fp16|bf16", .folds_case = true, .resume = MEGA_RESUME_REPORTED, .help = "type in which gradients are sent between data-parallel ranks: fp16 and bf16 send half as much, each rank rounds before the sum, and the sum is rounded once; what gradients are held in is said by --grad-accum-dtype"},
    {ROW("grad-accum-dtype", grad_accum_dtype, MEGA_OPTION_CHOICE), .fallback = "fp32", .choices = "fp32|fp16|bf16", .resume = MEGA_RESUME_REPORTED, .help = "type in which gradients are held between micro-batches and until the update: fp16 (with --fp16) and bf16 take half the memory; each micro-batch is computed in fp32, added, and the sum is rounded. With ZeRO 0 and 1, ranks send gradients in this type, too"},
    {ROW("gradient-predivide-factor", gradient_predivide_factor, MEGA_OPTION_FLOAT), .json = "gradient_predivide_factor", .range = MEGA_RANGE_POSITIVE, .resume = MEGA_RESUME_REPORTED, .help = "divide gradients by this before they are summed over data-parallel ranks, and by the rest of the number of ranks after it; by all of it before when not given"},
    {ROW("prescale-gradients", prescale_gradients, MEGA_OPTION_FLAG), .json = "prescale_gradients", .resume = MEGA_RESUME_REPORTED, .help = "divide gradients by the number of data-parallel ranks before they are summed, as is done anyway unless --gradient-predivide-factor is given, which then does not count"},
};
const mega_option_section mega_graph_distributed_section = MEGA_SECTION("distributed", distributed_rows);

static const mega_option_row zero_rows[] = {
    {ROW("zero-stage", zero_stage, MEGA_OPTION_INT), .json = "zero_optimization.stage", .yaml = "deepspeed_config.zero_stage", .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "what data-parallel ranks share out instead of each holding all of it: 1 the optimizer's state, 2 gradients too, 3 weights too; 0 nothing"},
    {ROW("stage3-prefetch-bucket-size", stage3_prefetch_bucket_size, MEGA_OPTION_INT), .json = "zero_optimization.stage3_prefetch_bucket_size|zero_optimization.prefetch_bucket_size", .fallback = "50000000", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "ZeRO 3: largest number of weights of a layer that are gathered while the layer before it computes"},
    {ROW("stage3-param-persistence-threshold", stage3_param_persistence_threshold, MEGA_OPTION_INT), .json = "zero_optimization.stage3_param_persistence_threshold|zero_optimization.param_persistence_threshold", .fallback = "100000", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "ZeRO 3: a layer (or a parameter outside of all layers) of at most this many elements stays whole on every rank"},
    {ROW("stage3-max-reuse-distance", stage3_max_reuse_distance, MEGA_OPTION_INT), .json = "zero_optimization.stage3_max_reuse_distance|zero_optimization.max_reuse_distance", .fallback = "1000000000", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "ZeRO 3: weights stay gathered until their next use if at most this many other weights are used in between"},
    {ROW("stage3-max-live-parameters", stage3_max_live_parameters, MEGA_OPTION_INT), .json = "zero_optimization.stage3_max_live_parameters|zero_optimization.max_live_parameters", .fallback = "1000000000", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "ZeRO 3: if more weights than this would be gathered at a time, none are prefetched or kept for a later use"},
};
const mega_option_section mega_graph_zero_section = MEGA_SECTION("ZeRO and DeepSpeed", zero_rows);

static const mega_option_row recompute_rows[] = {
    {ROW("recompute-granularity", recompute_granularity, MEGA_OPTION_CHOICE), .fallback = "none", .choices = "none|full|selective", .help = "what is computed again in the backward pass instead of kept: whole layers, or attention alone"},
    {ROW("recompute-method", recompute_method, MEGA_OPTION_CHOICE), .fallback = "none", .choices = "none|uniform|block", .help = "full recompute: groups of layers, or the first layers alone"},
    {ROW("recompute-num-layers", recompute_num_layers, MEGA_OPTION_INT), .fallback = "1", .range = MEGA_RANGE_POSITIVE, .most = 1 << 14, .help = "layers a group (uniform), or recomputed layers of each stage (block)"},
    {ROW("activation-checkpoint-interval", activation_checkpoint_interval, MEGA_OPTION_INT), .json = "pipeline.activation_checkpoint_interval", .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .most = 1 << 14, .help = "DeepSpeed's name for full recompute in groups of N layers: --recompute-granularity full --recompute-method uniform --recompute-num-layers N; 0: not given"},
    {ROW("activation-budget", activation_budget, MEGA_OPTION_BYTES), .range = MEGA_RANGE_POSITIVE, .value = "SIZE", .help = "memory that a rank may use for activations and other computed values (lines saved and scratch of a plan): as few layers are recomputed as it takes, those first whose recomputation is cheapest for the memory that it saves"},
    {ROW("distribute-saved-activations", distribute_saved_activations, MEGA_OPTION_FLAG), .json = "activation_checkpointing.partition_activations", .help = "full recompute: of the input of each group of layers, a rank of --tensor-model-parallel-size keeps its share alone"},
};
const mega_option_section mega_graph_recompute_section = MEGA_SECTION("training", recompute_rows);
// clang-format on
