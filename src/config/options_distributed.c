/* Options that exist for several ranks: parallel sizes, process groups, ZeRO, DeepSpeed's activation checkpointing. */
#include "program_impl.h"

#define ONE_RANK_ONLY "leave it at 1"
#define NO_RANKS      "leave it out"
#define HOST          "everything lies in the host's memory already"
#define RECOMPUTE     "what is recomputed is said by --recompute-granularity, --recompute-method and --recompute-num-layers"
#define PLANNED       "memory is planned before the first step, and nothing is allocated in it"
#define OVER_MPI      "ranks talk over MPI"
#define GATHERED      "new weights are gathered at the end of a step; with --zero-stage 3, by layer where they are used"

// clang-format off
static const mega_option_row distributed_rows[] = {
    {OPTION("tensor-model-parallel-size", tensor_model_parallel_size, MEGA_OPTION_INT), .yaml = "megatron_lm_config.megatron_lm_tp_degree", .fallback = "1", .range = MEGA_RANGE_POSITIVE, .most = 1 << 20, .help = "ranks that share the layers of a model; all ranks divided by it are data parallel"},
    {OPTION("pipeline-model-parallel-size", pipeline_model_parallel_size, MEGA_OPTION_INT), .json = "pipeline.stages", .yaml = "megatron_lm_config.megatron_lm_pp_degree", .fallback = "1", .range = MEGA_RANGE_POSITIVE, .most = 1 << 20, .help = "stages: ranks that each hold some of the layers and hand their results on"},
    {OPTION("decoder-first-pipeline-num-layers", decoder_first_pipeline_num_layers, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "layers of the first stage, which also holds the embeddings; the rest is cut evenly"},
    {OPTION("decoder-last-pipeline-num-layers", decoder_last_pipeline_num_layers, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "layers of the last stage, which also holds the head; the rest is cut evenly"},
    {LATER("pipeline-model-parallel-split-rank", MEGA_OPTION_INT, NULL, NO_RANKS)},
    {LATER("pipeline-model-parallel-layout", MEGA_OPTION_STRING, NULL, NO_RANKS)},
    {RENAMED("model-parallel-size", MEGA_OPTION_INT, "tensor-model-parallel-size", "it is --tensor-model-parallel-size")},
    {OPTION("num-layers-per-virtual-pipeline-stage", num_layers_per_virtual_pipeline_stage, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "layers of each of the parts that a stage holds, which are interleaved: stages wait less, and exchange more"},
    {OPTION("num-virtual-stages-per-pipeline-rank", num_virtual_stages_per_pipeline_rank, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "the same said by the number of parts of each stage; stages that hold other numbers of layers than the rest (--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers) have as many parts"},
    {IDLE("overlap-p2p-communication", MEGA_OPTION_FLAG, NULL, OWN_ORDER)},
    {IDLE("no-overlap-p2p-communication", MEGA_OPTION_OFF, NULL, OWN_ORDER), .dest = "overlap_p2p_comm"},
    {IDLE("distributed-backend", MEGA_OPTION_STRING, "nccl", OVER_MPI), .choices = "nccl|gloo|ccl|hccl|mpi"},
    {OPTION("distributed-timeout-minutes", distributed_timeout_minutes, MEGA_OPTION_FLOAT), .fallback = "10", .range = MEGA_RANGE_POSITIVE, .help = "a rank that waits longer for others ends the run and says for whom"},
    {OPTION("DDP-impl", ddp_impl, MEGA_OPTION_CHOICE), .fallback = "local", .choices = "local|torch|FSDP", .help = "when gradients are summed over data-parallel ranks: local after the backward, torch by bucket while it runs; FSDP is --zero-stage 3 (weights, gradients and optimizer shared out)"},
    {IDLE("no-contiguous-buffers-in-local-ddp", MEGA_OPTION_OFF, NULL, PLANNED), .dest = "use_contiguous_buffers_in_local_ddp"},
    {IDLE("use-contiguous-buffers-in-ddp", MEGA_OPTION_FLAG, NULL, PLANNED)},
    {OPTION("ddp-bucket-size", ddp_bucket_size, MEGA_OPTION_INT), .json = "zero_optimization.reduce_bucket_size", .fallback = "40000000", .range = MEGA_RANGE_POSITIVE, .help = "elements of a bucket of parameters, of which ranks exchange gradients (ZeRO 1, 2: weights too) at once; with ZeRO 3 it is a layer"},
    {IDLE("no-scatter-gather-tensors-in-pipeline", MEGA_OPTION_OFF, NULL, "a rank hands the next stage what it holds: all tokens, with --sequence-parallel its share"), .dest = "scatter_gather_tensors_in_pipeline"},
    {IDLE("use-ring-exchange-p2p", MEGA_OPTION_FLAG, NULL, OVER_MPI)},
    {LATER("local_rank", MEGA_OPTION_INT, "0", "an MPI launcher starts the ranks and says which is which; leave it out")},
    {IDLE("lazy-mpu-init", MEGA_OPTION_BOOL, NULL, "groups of ranks are made at the start")},
    {IDLE("use-cpu-initialization", MEGA_OPTION_FLAG, NULL, "initial weights are always made on the CPU, the same for any number of ranks")},
    {IDLE("empty-unused-memory-level", MEGA_OPTION_STRING, "0", PLANNED), .choices = "0|1|2"},
    {LATER("standalone-embedding-stage", MEGA_OPTION_FLAG, NULL, NO_RANKS)},
    {OPTION("use-distributed-optimizer", use_distributed_optimizer, MEGA_OPTION_FLAG), .help = "data-parallel ranks share out the optimizer's state: the same as --zero-stage 1"},
    {OPTION("overlap-grad-reduce", overlap_grad_reduce, MEGA_OPTION_FLAG), .json = "zero_optimization.overlap_comm", .help = "sum gradients over data-parallel ranks by bucket while the backward of the last micro-batch runs; with ZeRO 2 and 3, leave the sum of a bucket under way until the next is complete"},
    {IDLE("no-delay-grad-reduce", MEGA_OPTION_OFF, NULL, "with --overlap-grad-reduce every stage sums a bucket as soon as it is complete"), .dest = "delay_grad_reduce"},
    {IDLE("overlap-param-gather", MEGA_OPTION_FLAG, NULL, GATHERED)},
    {IDLE("delay-param-gather", MEGA_OPTION_FLAG, NULL, GATHERED)},
    {LATER("context-parallel-size", MEGA_OPTION_INT, "1", ONE_RANK_ONLY)},
    {IDLE("nccl-communicator-config-path", MEGA_OPTION_STRING, NULL, OVER_MPI)},
    {ALONE("no-pipeline-parallel", MEGA_OPTION_FLAG, "pipeline-model-parallel-size", "give one or the other")},
    {LATER("pp-partition-method", MEGA_OPTION_STRING, NULL, NO_RANKS)},
    {LATER("ds-sequence-parallel-size", MEGA_OPTION_INT, "1", ONE_RANK_ONLY)},
    {IDLE("force-ds-sequence-parallel", MEGA_OPTION_FLAG, NULL, "it computes the same with --ds-sequence-parallel-size 1, and more are not built")},
    {LATER("ds-sequence-parallel-fpdt", MEGA_OPTION_FLAG, NULL, "attention keeps no matrix of scores, so that a long sequence needs no chunks; leave it out")},
    {IDLE("ds-sequence-parallel-fpdt-chunk-size", MEGA_OPTION_INT, "65536", "it only matters with --ds-sequence-parallel-fpdt")},
    {IDLE("ds-sequence-parallel-fpdt-offloading", MEGA_OPTION_FLAG, NULL, "it only matters with --ds-sequence-parallel-fpdt")},
    {IDLE("adlr-autoresume", MEGA_OPTION_FLAG, NULL, "it asks one company's cluster; SIGTERM saves and leaves here")},
    {IDLE("adlr-autoresume-interval", MEGA_OPTION_INT, "1000", "it asks one company's cluster; SIGTERM saves and leaves here")},
};
const mega_option_section mega_option_distributed_section = MEGA_SECTION("distributed", distributed_rows);

static const mega_option_row zero_rows[] = {
    {LATER("deepspeed", MEGA_OPTION_FLAG, NULL, "a command does not read its JSON yet: give the same settings as options; the engine of a C program reads it")},
    {LATER("deepspeed_config", MEGA_OPTION_STRING, NULL, "a command does not read its JSON yet: give the same settings as options; the engine of a C program reads it")},
    {OPTION("zero-stage", zero_stage, MEGA_OPTION_INT), .json = "zero_optimization.stage", .yaml = "deepspeed_config.zero_stage", .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "what data-parallel ranks share out instead of each holding all of it: 1 the optimizer's state, 2 gradients too, 3 weights too; 0 nothing"},
    {OPTION("stage3-prefetch-bucket-size", stage3_prefetch_bucket_size, MEGA_OPTION_INT), .json = "zero_optimization.stage3_prefetch_bucket_size", .fallback = "50000000", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "ZeRO 3: a layer of up to so many weights is gathered while the one before is computed with"},
    {OPTION("stage3-param-persistence-threshold", stage3_param_persistence_threshold, MEGA_OPTION_INT), .json = "zero_optimization.stage3_param_persistence_threshold", .fallback = "100000", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "ZeRO 3: a layer (or what stands in none) of at most so many elements stays whole on every rank"},
    {OPTION("stage3-max-reuse-distance", stage3_max_reuse_distance, MEGA_OPTION_INT), .json = "zero_optimization.stage3_max_reuse_distance", .fallback = "1000000000", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "ZeRO 3: weights stay gathered for their next use where up to so many others are used between"},
    {OPTION("stage3-max-live-parameters", stage3_max_live_parameters, MEGA_OPTION_INT), .json = "zero_optimization.stage3_max_live_parameters", .fallback = "1000000000", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "ZeRO 3: where more weights than this would be gathered at a time, none is prefetched or stays for later"},
    {IDLE("zero-reduce-scatter", MEGA_OPTION_FLAG, NULL, "from --zero-stage 1 on gradients are summed by a reduce-scatter in any case")},
    {IDLE("zero-contigious-gradients", MEGA_OPTION_FLAG, NULL, PLANNED)},
    {RENAMED("zero-reduce-bucket-size", MEGA_OPTION_INT, "ddp-bucket-size", "it is --ddp-bucket-size")},
    {IDLE("zero-allgather-bucket-size", MEGA_OPTION_INT, "0", "gradients and weights are exchanged in the same buckets, whose size is --ddp-bucket-size")},
    {LATER("remote-device", MEGA_OPTION_STRING, "none|cpu", "memory beyond the machine's is not built yet; leave it out")},
    {IDLE("use-pin-memory", MEGA_OPTION_FLAG, NULL, HOST)},
    {ALONE("scattered-embeddings", MEGA_OPTION_FLAG, "tensor-model-parallel-size", "not built yet for more; use --sequence-parallel")},
    {IDLE("split-transformers", MEGA_OPTION_FLAG, NULL, RECOMPUTE)},
    {IDLE("memory-centric-tiled-linear", MEGA_OPTION_FLAG, NULL, PLANNED)},
    {IDLE("tile-factor", MEGA_OPTION_INT, "1", PLANNED)},
    {IDLE("deepspeed-activation-checkpointing", MEGA_OPTION_FLAG, NULL, RECOMPUTE)},
    {RENAMED("partition-activations", MEGA_OPTION_FLAG, "distribute-saved-activations", "it is --distribute-saved-activations")},
    {IDLE("contigious-checkpointing", MEGA_OPTION_FLAG, NULL, PLANNED)},
    {IDLE("checkpoint-in-cpu", MEGA_OPTION_FLAG, NULL, HOST)},
    {IDLE("synchronize-each-layer", MEGA_OPTION_FLAG, NULL, "operations run one after the other in any case")},
    {IDLE("profile-backward", MEGA_OPTION_FLAG, NULL, "operations run one after the other in any case")},
};
const mega_option_section mega_option_zero_section = MEGA_SECTION("ZeRO and DeepSpeed", zero_rows);
// clang-format on
