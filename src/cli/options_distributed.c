/* Names of Megatron and Megatron-DeepSpeed options whose answer is not "works": parallel sizes, process groups, ZeRO,
 * DeepSpeed's activation checkpointing. */
#include "options_impl.h"

#define ONE_RANK_ONLY "leave it at 1"
#define NO_RANKS      "leave it out"
#define HOST          "everything is in the host's memory already"
#define RECOMPUTE     "what is recomputed is said by --recompute-granularity, --recompute-method and --recompute-num-layers"
#define PLANNED       "memory is planned before the first step, and nothing is allocated in it"
#define OVER_MPI      "ranks communicate over MPI"
#define GATHERED      "new weights are gathered at the end of a step; with --zero-stage 3, by layer where they are used"

// clang-format off
static const mega_option_row distributed_rows[] = {
    {NEVER("pipeline-model-parallel-split-rank", MEGA_OPTION_INT, NULL, "only pretrain_t5 takes the stage with which the decoder begins; leave it out"), .commands = NOT_T5 & ~FOR_GENERATE},
    {NEVER("pipeline-model-parallel-split-rank", MEGA_OPTION_INT, NULL, "texts are the same wherever stages begin, and the layers of a T5 are cut by their weights; leave it out"), .commands = FOR_GENERATE},
    {LATER("pipeline-model-parallel-layout", MEGA_OPTION_STRING, NULL, NO_RANKS)},
    {RENAMED("model-parallel-size", MEGA_OPTION_INT, "tensor-model-parallel-size", "it is --tensor-model-parallel-size")},
    {IDLE("overlap-p2p-communication", MEGA_OPTION_FLAG, NULL, OWN_ORDER)},
    {IDLE("no-overlap-p2p-communication", MEGA_OPTION_OFF, NULL, OWN_ORDER), .dest = "overlap_p2p_comm"},
    {IDLE("distributed-backend", MEGA_OPTION_STRING, "nccl", OVER_MPI), .choices = "nccl|gloo|ccl|hccl|mpi"},
    {IDLE("no-contiguous-buffers-in-local-ddp", MEGA_OPTION_OFF, NULL, PLANNED), .dest = "use_contiguous_buffers_in_local_ddp"},
    {IDLE("use-contiguous-buffers-in-ddp", MEGA_OPTION_FLAG, NULL, PLANNED)},
    {IDLE("no-scatter-gather-tensors-in-pipeline", MEGA_OPTION_OFF, NULL, "a rank hands the next stage what it holds: all tokens, with --sequence-parallel its share"), .dest = "scatter_gather_tensors_in_pipeline"},
    {IDLE("use-ring-exchange-p2p", MEGA_OPTION_FLAG, NULL, OVER_MPI)},
    {LATER("local_rank", MEGA_OPTION_INT, "0", "the MPI launcher that starts the ranks also numbers them; leave it out")},
    {IDLE("lazy-mpu-init", MEGA_OPTION_BOOL, NULL, "groups of ranks are made at the start")},
    {IDLE("use-cpu-initialization", MEGA_OPTION_FLAG, NULL, "initial weights are always made on the CPU, the same for any number of ranks")},
    {IDLE("empty-unused-memory-level", MEGA_OPTION_STRING, "0", PLANNED), .choices = "0|1|2"},
    {LATER("standalone-embedding-stage", MEGA_OPTION_FLAG, NULL, NO_RANKS)},
    {IDLE("no-delay-grad-reduce", MEGA_OPTION_OFF, NULL, "with --overlap-grad-reduce every stage sums a bucket as soon as it is complete"), .dest = "delay_grad_reduce"},
    {IDLE("overlap-param-gather", MEGA_OPTION_FLAG, NULL, GATHERED)},
    {IDLE("delay-param-gather", MEGA_OPTION_FLAG, NULL, GATHERED)},
    {LATER("context-parallel-size", MEGA_OPTION_INT, "1", ONE_RANK_ONLY)},
    {IDLE("nccl-communicator-config-path", MEGA_OPTION_STRING, NULL, OVER_MPI)},
    {ALONE("no-pipeline-parallel", MEGA_OPTION_FLAG, "pipeline-model-parallel-size", "give one or the other")},
    {LATER("pp-partition-method", MEGA_OPTION_STRING, NULL, NO_RANKS)},
    {LATER("ds-sequence-parallel-size", MEGA_OPTION_INT, "1", ONE_RANK_ONLY)},
    {IDLE("force-ds-sequence-parallel", MEGA_OPTION_FLAG, NULL, "it computes the same with --ds-sequence-parallel-size 1, and larger sizes are not implemented")},
    {LATER("ds-sequence-parallel-fpdt", MEGA_OPTION_FLAG, NULL, "attention keeps no matrix of scores, so that a long sequence needs no chunks; leave it out")},
    {IDLE("ds-sequence-parallel-fpdt-chunk-size", MEGA_OPTION_INT, "65536", "it only matters with --ds-sequence-parallel-fpdt")},
    {IDLE("ds-sequence-parallel-fpdt-offloading", MEGA_OPTION_FLAG, NULL, "it only matters with --ds-sequence-parallel-fpdt")},
    {IDLE("adlr-autoresume", MEGA_OPTION_FLAG, NULL, "it asks one company's cluster; SIGTERM saves and leaves here")},
    {IDLE("adlr-autoresume-interval", MEGA_OPTION_INT, "1000", "it asks one company's cluster; SIGTERM saves and leaves here")},
};
const mega_option_section cli_other_distributed_section = MEGA_SECTION("distributed", distributed_rows);

static const mega_option_row zero_rows[] = {
    {IDLE("deepspeed_mpi", MEGA_OPTION_FLAG, NULL, OVER_MPI)},
    {IDLE("zero-reduce-scatter", MEGA_OPTION_FLAG, NULL, "from --zero-stage 1 on gradients are summed by a reduce-scatter in any case")},
    {IDLE("zero-contigious-gradients", MEGA_OPTION_FLAG, NULL, PLANNED)},
    {RENAMED("zero-reduce-bucket-size", MEGA_OPTION_INT, "ddp-bucket-size", "it is --ddp-bucket-size")},
    {IDLE("zero-allgather-bucket-size", MEGA_OPTION_INT, "0", "gradients and weights are exchanged in the same buckets, whose size is --ddp-bucket-size")},
    {LATER("remote-device", MEGA_OPTION_STRING, "none|cpu", "memory beyond the machine's is not implemented yet; leave it out")},
    {IDLE("use-pin-memory", MEGA_OPTION_FLAG, NULL, HOST)},
    {ALONE("scattered-embeddings", MEGA_OPTION_FLAG, "tensor-model-parallel-size", "not implemented yet for more; use --sequence-parallel")},
    {IDLE("split-transformers", MEGA_OPTION_FLAG, NULL, RECOMPUTE)},
    {IDLE("memory-centric-tiled-linear", MEGA_OPTION_FLAG, NULL, PLANNED)},
    {IDLE("tile-factor", MEGA_OPTION_INT, "1", PLANNED)},
    {IDLE("deepspeed-activation-checkpointing", MEGA_OPTION_FLAG, NULL, RECOMPUTE)},
    {IDLE("deepscale-activation-checkpointing", MEGA_OPTION_FLAG, NULL, RECOMPUTE)},
    {RENAMED("deepscale", MEGA_OPTION_FLAG, "deepspeed", MEGA_ALIAS_REMARK "deepspeed")},
    {RENAMED("deepscale_config", MEGA_OPTION_STRING, "deepspeed_config", MEGA_ALIAS_REMARK "deepspeed_config")},
    {RENAMED("partition-activations", MEGA_OPTION_FLAG, "distribute-saved-activations", "it is --distribute-saved-activations")},
    {IDLE("contigious-checkpointing", MEGA_OPTION_FLAG, NULL, PLANNED)},
    {IDLE("checkpoint-in-cpu", MEGA_OPTION_FLAG, NULL, HOST)},
    {IDLE("synchronize-each-layer", MEGA_OPTION_FLAG, NULL, "operations run one after the other in any case")},
    {IDLE("profile-backward", MEGA_OPTION_FLAG, NULL, "operations run one after the other in any case")},
};
const mega_option_section cli_other_zero_section = MEGA_SECTION("ZeRO and DeepSpeed", zero_rows);
// clang-format on
