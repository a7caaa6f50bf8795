/* Options that exist for several ranks: parallel sizes, process groups, ZeRO, DeepSpeed's activation checkpointing. */
#include "config_impl.h"

#define ONE_RANK_ONLY "leave it at 1"
#define NO_RANKS      "leave it out"
#define HOST          "everything lies in the host's memory already"
#define RECOMPUTE     "what is recomputed is said by --recompute-granularity, --recompute-method and --recompute-num-layers"
#define PLANNED       "memory is planned before the first step, and nothing is allocated in it"
#define OVER_MPI      "ranks talk over MPI"
#define GATHERED      "new weights are gathered at the end of a step; with --zero-stage 3, by layer where they are used"

// clang-format off
static const option_row distributed_rows[] = {
    {OPTION("tensor-model-parallel-size", tensor_model_parallel_size, KIND_INT), .yaml = "megatron_lm_config.megatron_lm_tp_degree", .fallback = "1", .range = RANGE_POSITIVE, .most = 1 << 20, .help = "ranks that share the layers of a model; all ranks divided by it are data parallel"},
    {OPTION("pipeline-model-parallel-size", pipeline_model_parallel_size, KIND_INT), .json = "pipeline.stages", .yaml = "megatron_lm_config.megatron_lm_pp_degree", .fallback = "1", .range = RANGE_POSITIVE, .most = 1 << 20, .help = "stages: ranks that each hold some of the layers and hand their results on"},
    {OPTION("decoder-first-pipeline-num-layers", decoder_first_pipeline_num_layers, KIND_INT), .range = RANGE_POSITIVE, .help = "layers of the first stage, which also holds the embeddings; the rest is cut evenly"},
    {OPTION("decoder-last-pipeline-num-layers", decoder_last_pipeline_num_layers, KIND_INT), .range = RANGE_POSITIVE, .help = "layers of the last stage, which also holds the head; the rest is cut evenly"},
    {LATER("pipeline-model-parallel-split-rank", KIND_INT, NULL, NO_RANKS)},
    {LATER("pipeline-model-parallel-layout", KIND_STRING, NULL, NO_RANKS)},
    {RENAMED("model-parallel-size", KIND_INT, "tensor-model-parallel-size", "it is --tensor-model-parallel-size")},
    {OPTION("num-layers-per-virtual-pipeline-stage", num_layers_per_virtual_pipeline_stage, KIND_INT), .range = RANGE_POSITIVE, .help = "layers of each of the parts that a stage holds, which are interleaved: stages wait less, and exchange more"},
    {OPTION("num-virtual-stages-per-pipeline-rank", num_virtual_stages_per_pipeline_rank, KIND_INT), .range = RANGE_POSITIVE, .help = "the same said by the number of parts of each stage; stages that hold other numbers of layers than the rest (--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers) have as many parts"},
    {IDLE("overlap-p2p-communication", KIND_FLAG, NULL, OWN_ORDER)},
    {IDLE("no-overlap-p2p-communication", KIND_OFF, NULL, OWN_ORDER), .dest = "overlap_p2p_comm"},
    {IDLE("distributed-backend", KIND_STRING, "nccl", OVER_MPI), .choices = "nccl|gloo|ccl|hccl|mpi"},
    {OPTION("distributed-timeout-minutes", distributed_timeout_minutes, KIND_FLOAT), .fallback = "10", .range = RANGE_POSITIVE, .help = "a rank that waits longer for others ends the run and says for whom"},
    {OPTION("DDP-impl", ddp_impl, KIND_CHOICE), .fallback = "local", .choices = "local|torch|FSDP", .help = "when gradients are summed over data-parallel ranks: local after the backward, torch by bucket while it runs; FSDP is --zero-stage 3 (weights, gradients and optimizer shared out)"},
    {IDLE("no-contiguous-buffers-in-local-ddp", KIND_OFF, NULL, PLANNED), .dest = "use_contiguous_buffers_in_local_ddp"},
    {IDLE("use-contiguous-buffers-in-ddp", KIND_FLAG, NULL, PLANNED)},
    {OPTION("ddp-bucket-size", ddp_bucket_size, KIND_INT), .json = "zero_optimization.reduce_bucket_size", .fallback = "40000000", .range = RANGE_POSITIVE, .help = "elements of a bucket of parameters, of which ranks exchange gradients (ZeRO 1, 2: weights too) at once; with ZeRO 3 it is a layer"},
    {IDLE("no-scatter-gather-tensors-in-pipeline", KIND_OFF, NULL, "a rank hands the next stage what it holds: all tokens, with --sequence-parallel its share"), .dest = "scatter_gather_tensors_in_pipeline"},
    {IDLE("use-ring-exchange-p2p", KIND_FLAG, NULL, OVER_MPI)},
    {LATER("local_rank", KIND_INT, "0", "an MPI launcher starts the ranks and says which is which; leave it out")},
    {IDLE("lazy-mpu-init", KIND_BOOL, NULL, "groups of ranks are made at the start")},
    {IDLE("use-cpu-initialization", KIND_FLAG, NULL, "initial weights are always made on the CPU, the same for any number of ranks")},
    {IDLE("empty-unused-memory-level", KIND_STRING, "0", PLANNED), .choices = "0|1|2"},
    {LATER("standalone-embedding-stage", KIND_FLAG, NULL, NO_RANKS)},
    {OPTION("use-distributed-optimizer", use_distributed_optimizer, KIND_FLAG), .help = "data-parallel ranks share out the optimizer's state: the same as --zero-stage 1"},
    {OPTION("overlap-grad-reduce", overlap_grad_reduce, KIND_FLAG), .json = "zero_optimization.overlap_comm", .help = "sum gradients over data-parallel ranks by bucket while the backward of the last micro-batch runs; with ZeRO 2 and 3, leave the sum of a bucket under way until the next is complete"},
    {IDLE("no-delay-grad-reduce", KIND_OFF, NULL, "with --overlap-grad-reduce every stage sums a bucket as soon as it is complete"), .dest = "delay_grad_reduce"},
    {IDLE("overlap-param-gather", KIND_FLAG, NULL, GATHERED)},
    {IDLE("delay-param-gather", KIND_FLAG, NULL, GATHERED)},
    {LATER("context-parallel-size", KIND_INT, "1", ONE_RANK_ONLY)},
    {IDLE("nccl-communicator-config-path", KIND_STRING, NULL, OVER_MPI)},
    {ALONE("no-pipeline-parallel", KIND_FLAG, "pipeline-model-parallel-size", "give one or the other")},
    {LATER("pp-partition-method", KIND_STRING, NULL, NO_RANKS)},
    {LATER("ds-sequence-parallel-size", KIND_INT, "1", ONE_RANK_ONLY)},
    {IDLE("force-ds-sequence-parallel", KIND_FLAG, NULL, "it computes the same with --ds-sequence-parallel-size 1, and more are not built")},
    {LATER("ds-sequence-parallel-fpdt", KIND_FLAG, NULL, "attention keeps no matrix of scores, so that a long sequence needs no chunks; leave it out")},
    {IDLE("ds-sequence-parallel-fpdt-chunk-size", KIND_INT, "65536", "it only matters with --ds-sequence-parallel-fpdt")},
    {IDLE("ds-sequence-parallel-fpdt-offloading", KIND_FLAG, NULL, "it only matters with --ds-sequence-parallel-fpdt")},
    {IDLE("adlr-autoresume", KIND_FLAG, NULL, "it asks one company's cluster; SIGTERM saves and leaves here")},
    {IDLE("adlr-autoresume-interval", KIND_INT, "1000", "it asks one company's cluster; SIGTERM saves and leaves here")},
};
const option_section mega_option_distributed_section = {"distributed", FOR_TRAINING, distributed_rows, ROW_COUNT(distributed_rows)};

static const option_row zero_rows[] = {
    {LATER("deepspeed", KIND_FLAG, NULL, "a command does not read its JSON yet: give the same settings as options; the engine of a C program reads it")},
    {LATER("deepspeed_config", KIND_STRING, NULL, "a command does not read its JSON yet: give the same settings as options; the engine of a C program reads it")},
    {OPTION("zero-stage", zero_stage, KIND_INT), .json = "zero_optimization.stage", .yaml = "deepspeed_config.zero_stage", .fallback = "0", .range = RANGE_NOT_NEGATIVE, .help = "what data-parallel ranks share out instead of each holding all of it: 1 the optimizer's state, 2 gradients too, 3 weights too; 0 nothing"},
    {OPTION("stage3-prefetch-bucket-size", stage3_prefetch_bucket_size, KIND_INT), .json = "zero_optimization.stage3_prefetch_bucket_size", .fallback = "50000000", .range = RANGE_NOT_NEGATIVE, .help = "ZeRO 3: a layer of up to so many weights is gathered while the one before is computed with"},
    {OPTION("stage3-param-persistence-threshold", stage3_param_persistence_threshold, KIND_INT), .json = "zero_optimization.stage3_param_persistence_threshold", .fallback = "100000", .range = RANGE_NOT_NEGATIVE, .help = "ZeRO 3: a layer (or what stands in none) of at most so many elements stays whole on every rank"},
    {OPTION("stage3-max-reuse-distance", stage3_max_reuse_distance, KIND_INT), .json = "zero_optimization.stage3_max_reuse_distance", .fallback = "1000000000", .range = RANGE_NOT_NEGATIVE, .help = "ZeRO 3: weights stay gathered for their next use where up to so many others are used between"},
    {OPTION("stage3-max-live-parameters", stage3_max_live_parameters, KIND_INT), .json = "zero_optimization.stage3_max_live_parameters", .fallback = "1000000000", .range = RANGE_NOT_NEGATIVE, .help = "ZeRO 3: where more weights than this would be gathered at a time, none is prefetched or stays for later"},
    {IDLE("zero-reduce-scatter", KIND_FLAG, NULL, "from --zero-stage 1 on gradients are summed by a reduce-scatter in any case")},
    {IDLE("zero-contigious-gradients", KIND_FLAG, NULL, PLANNED)},
    {RENAMED("zero-reduce-bucket-size", KIND_INT, "ddp-bucket-size", "it is --ddp-bucket-size")},
    {IDLE("zero-allgather-bucket-size", KIND_INT, "0", "gradients and weights are exchanged in the same buckets, whose size is --ddp-bucket-size")},
    {LATER("remote-device", KIND_STRING, "none|cpu", "memory beyond the machine's is not built yet; leave it out")},
    {IDLE("use-pin-memory", KIND_FLAG, NULL, HOST)},
    {ALONE("scattered-embeddings", KIND_FLAG, "tensor-model-parallel-size", "not built yet for more; use --sequence-parallel")},
    {IDLE("split-transformers", KIND_FLAG, NULL, RECOMPUTE)},
    {IDLE("memory-centric-tiled-linear", KIND_FLAG, NULL, PLANNED)},
    {IDLE("tile-factor", KIND_INT, "1", PLANNED)},
    {IDLE("deepspeed-activation-checkpointing", KIND_FLAG, NULL, RECOMPUTE)},
    {RENAMED("partition-activations", KIND_FLAG, "distribute-saved-activations", "it is --distribute-saved-activations")},
    {IDLE("contigious-checkpointing", KIND_FLAG, NULL, PLANNED)},
    {IDLE("checkpoint-in-cpu", KIND_FLAG, NULL, HOST)},
    {IDLE("synchronize-each-layer", KIND_FLAG, NULL, "operations run one after the other in any case")},
    {IDLE("profile-backward", KIND_FLAG, NULL, "operations run one after the other in any case")},
};
const option_section mega_option_zero_section = {"ZeRO and DeepSpeed", FOR_TRAINING, zero_rows, ROW_COUNT(zero_rows)};
// clang-format on
