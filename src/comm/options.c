/* The options of this room: how ranks are laid out, and how long they wait. */
#include "megalith/comm_options.h"

#define ROW(name, field, kind) MEGA_OPTION(mega_comm_options, name, field, kind)

// clang-format off
static const mega_option_row distributed_rows[] = {
    {ROW("tensor-model-parallel-size", tensor_model_parallel_size, MEGA_OPTION_INT), .yaml = "megatron_lm_config.megatron_lm_tp_degree", .fallback = "1", .range = MEGA_RANGE_POSITIVE, .most = 1 << 20, .help = "ranks that share the layers of a model; all ranks divided by it are data parallel"},
    {ROW("pipeline-model-parallel-size", pipeline_model_parallel_size, MEGA_OPTION_INT), .json = "pipeline.stages", .yaml = "megatron_lm_config.megatron_lm_pp_degree", .fallback = "1", .range = MEGA_RANGE_POSITIVE, .most = 1 << 20, .help = "stages: ranks that each hold some of the layers and hand their results on"},
    {ROW("expert-model-parallel-size", expert_model_parallel_size, MEGA_OPTION_INT), .fallback = "1", .range = MEGA_RANGE_POSITIVE, .most = 1 << 20, .help = "data-parallel ranks that divide the experts of a mixture of experts among them"},
    {ROW("distributed-backend", distributed_backend, MEGA_OPTION_CHOICE), .fallback = "auto", .choices = "auto|nccl|gloo|mpi|ccl|hccl", .help = "how ranks exchange what GPUs hold: auto by NCCL where it is found and each rank has a GPU, else through the memory of the hosts; nccl insists; the others always take the memory of the hosts, over MPI, as ranks on CPUs do in any case"},
    {ROW("distributed-timeout-minutes", distributed_timeout_minutes, MEGA_OPTION_FLOAT), .fallback = "10", .range = MEGA_RANGE_POSITIVE, .help = "a rank that waits longer for others ends the run and says for whom"},
};
const mega_option_section mega_comm_distributed_section = MEGA_SECTION("distributed", distributed_rows);
// clang-format on
