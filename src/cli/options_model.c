/* Names of Megatron options whose answer is not "works": network size, initialization, precision, mixture of experts,
 * FP8. */
#include "options_impl.h"

#define USE_LATER_MODEL "the layers have no such part; leave it out"
#define ONLY_MOE        "it only matters to a mixture of experts, and --num-experts is 1"
#define SOFTMAX_F32 \
    "scores and softmax are computed in fp32 in any case, so that scaling by the layer number would cancel"
#define NO_FP8 "leave it out: --bf16 is the smallest number type implemented"

// clang-format off
static const mega_option_row model_rows[] = {
    {RENAMED("encoder-num-layers", MEGA_OPTION_INT, "num-layers", "it is --num-layers")},
    {NEVER("decoder-num-layers", MEGA_OPTION_INT, NULL, "only a T5 has a decoder beside its encoder, and pretrain_t5 trains it; leave it out"), .commands = NOT_T5},
    {RENAMED("norm-epsilon", MEGA_OPTION_FLOAT, "layernorm-epsilon", "it is --layernorm-epsilon")},
    {LATER("apply-residual-connection-post-layernorm", MEGA_OPTION_FLAG, NULL, USE_LATER_MODEL)},
    {IDLE("openai-gelu", MEGA_OPTION_FLAG, NULL, "GELU is computed by its tanh form in any case"), .commands = NOT_BERT},
    {LATER("onnx-safe", MEGA_OPTION_BOOL, "false|False|0", "GELU is computed by its tanh form; leave it out"), .commands = NOT_BERT},
    {IDLE("onnx-safe", MEGA_OPTION_BOOL, NULL, "the GELU of a BERT is exact"), .commands = FOR_BERT},
    {IDLE("bert-no-binary-head", MEGA_OPTION_OFF, NULL, "only a BERT has a head for pairs of sentences, and only pretrain_bert trains it"), .dest = "bert_binary_head", .commands = NOT_BERT},
    {LATER("num-experts", MEGA_OPTION_LIST, "1", "a mixture of experts needs expert layers; train the dense model")},
    {IDLE("embedding-weights-in-fp32", MEGA_OPTION_FLAG, NULL, "a lookup copies rows, and their gradients are summed in fp32 in any case")},
    {ALIAS("rotary-position-embeddings-theta", MEGA_OPTION_FLOAT, "rotary-base")},
    {LATER("multi-latent-attention", MEGA_OPTION_FLAG, NULL, USE_LATER_MODEL)},
    {IDLE("q-lora-rank", MEGA_OPTION_INT, NULL, "it only matters with --multi-latent-attention")},
    {IDLE("kv-lora-rank", MEGA_OPTION_INT, "32", "it only matters with --multi-latent-attention")},
    {LATER("mlp-type", MEGA_OPTION_STRING, "standard", "a residual mixture of experts needs expert layers; leave it out")},
    {IDLE("topk", MEGA_OPTION_INT, "1", ONLY_MOE)},
    {IDLE("expert-interval", MEGA_OPTION_INT, "2", ONLY_MOE)},
    {IDLE("disable-mem-efficient-ln", MEGA_OPTION_OFF, NULL, "there is one layer norm, and it keeps two numbers a row"), .dest = "mem_efficient_ln"},
    {LATER("num-experts-switch", MEGA_OPTION_INT, "1", "a mixture of experts needs expert layers; train the dense model")},
    {LATER("pad-vocab-size-to", MEGA_OPTION_INT, NULL, "padding never enters a loss or a checkpoint; use --make-vocab-size-divisible-by N"), .commands = FOR_TRAINING},
    {IDLE("sync-tp-duplicated-parameters", MEGA_OPTION_FLAG, NULL, "ranks that hold the same parameter make the same update of it")},
    {LATER("kill-switch-file", MEGA_OPTION_STRING, NULL, "send the process SIGTERM: it saves and leaves")},
    {LATER("kill-switch-path", MEGA_OPTION_STRING, NULL, "send the process SIGTERM: it saves and leaves")},
    {LATER("spec", MEGA_OPTION_LIST, NULL, "layers are not loaded from Python; leave it out")},
};
const mega_option_section cli_other_model_section = MEGA_SECTION("network size", model_rows);


static const mega_option_row initialization_rows[] = {
    {IDLE("data-parallel-random-init", MEGA_OPTION_FLAG, NULL, "initial weights depend on the seed alone")},
};
const mega_option_section cli_other_initialization_section = MEGA_SECTION("initialization", initialization_rows);

static const mega_option_row precision_rows[] = {
    {LATER("fp32-residual-connection", MEGA_OPTION_FLAG, NULL, "leave --bf16 out for a residual stream in fp32")},
    {IDLE("no-query-key-layer-scaling", MEGA_OPTION_OFF, NULL, SOFTMAX_F32), .dest = "apply_query_key_layer_scaling"},
    {IDLE("apply-query-key-layer-scaling", MEGA_OPTION_FLAG, NULL, SOFTMAX_F32)},
    {IDLE("attention-softmax-in-fp32", MEGA_OPTION_FLAG, NULL, SOFTMAX_F32)},
    {IDLE("accumulate-allreduce-grads-in-fp32", MEGA_OPTION_FLAG, NULL, "gradients are added up in fp32 unless --grad-accum-dtype, and sent between ranks in it unless --communication-data-type says otherwise")},
    {LATER("fp16-lm-cross-entropy", MEGA_OPTION_FLAG, NULL, "the loss is computed in fp32; leave it out")},
};
const mega_option_section cli_other_precision_section = MEGA_SECTION("mixed precision", precision_rows);

static const mega_option_row fp8_rows[] = {
    {LATER("fp8-e4m3", MEGA_OPTION_FLAG, NULL, NO_FP8)},
    {LATER("fp8-hybrid", MEGA_OPTION_FLAG, NULL, NO_FP8)},
    {LATER("fp8-format", MEGA_OPTION_STRING, NULL, NO_FP8)},
    {LATER("fp4", MEGA_OPTION_STRING, NULL, NO_FP8)},
    {LATER("fp4-format", MEGA_OPTION_STRING, NULL, NO_FP8)},
    {IDLE("no-fp8-wgrad", MEGA_OPTION_OFF, NULL, "nothing is computed in FP8"), .dest = "fp8_wgrad"},
    {IDLE("fp8-margin", MEGA_OPTION_INT, "0", "nothing is computed in FP8")},
    {IDLE("fp8-interval", MEGA_OPTION_INT, "1", "nothing is computed in FP8")},
    {IDLE("fp8-amax-history-len", MEGA_OPTION_INT, "1", "nothing is computed in FP8")},
    {IDLE("fp8-amax-compute-algo", MEGA_OPTION_STRING, "most_recent", "nothing is computed in FP8")},
    {IDLE("transformer-impl", MEGA_OPTION_STRING, "local", "there is one implementation of the layers, this program's own"), .choices = "local|transformer_engine"},
};
const mega_option_section cli_other_fp8_section = MEGA_SECTION("FP8", fp8_rows);

static const mega_option_row moe_rows[] = {
    {LATER("expert-model-parallel-size", MEGA_OPTION_INT, "1", "leave it at 1")},
    {LATER("moe-expert-parallel-size", MEGA_OPTION_INT, "1", "leave it at 1")},
    {LATER("expert-tensor-parallel-size", MEGA_OPTION_INT, "1", "leave it at 1")},
    {IDLE("enable-expert-tensor-parallelism", MEGA_OPTION_FLAG, NULL, ONLY_MOE)},
    {IDLE("moe-router-load-balancing-type", MEGA_OPTION_STRING, "aux_loss", ONLY_MOE)},
    {IDLE("moe-router-topk", MEGA_OPTION_INT, "2", ONLY_MOE)},
    {IDLE("moe-token-dispatcher-type", MEGA_OPTION_STRING, "allgather", ONLY_MOE)},
    {IDLE("moe-grouped-gemm", MEGA_OPTION_FLAG, NULL, ONLY_MOE)},
    {IDLE("moe-aux-loss-coeff", MEGA_OPTION_FLOAT, "0.0", ONLY_MOE)},
    {IDLE("moe-z-loss-coeff", MEGA_OPTION_FLOAT, NULL, ONLY_MOE)},
    {IDLE("moe-input-jitter-eps", MEGA_OPTION_FLOAT, NULL, ONLY_MOE)},
    {IDLE("moe-token-dropping", MEGA_OPTION_FLAG, NULL, ONLY_MOE)},
    {IDLE("moe-layer-freq", MEGA_OPTION_STRING, "1", ONLY_MOE)},
    {IDLE("disable-moe-token-dropping", MEGA_OPTION_OFF, NULL, ONLY_MOE), .dest = "moe_token_dropping"},
    {IDLE("moe-train-capacity-factor", MEGA_OPTION_FLOAT, "1.0", ONLY_MOE)},
    {IDLE("moe-eval-capacity-factor", MEGA_OPTION_FLOAT, "1.0", ONLY_MOE)},
    {IDLE("moe-min-capacity", MEGA_OPTION_INT, "4", ONLY_MOE)},
    {IDLE("moe-loss-coeff", MEGA_OPTION_FLOAT, "0.1", ONLY_MOE)},
    {IDLE("create-moe-param-group", MEGA_OPTION_FLAG, NULL, ONLY_MOE)},
    {IDLE("disable-moe-top2-2nd-expert-sampling", MEGA_OPTION_OFF, NULL, ONLY_MOE), .dest = "moe_top2_2nd_expert_sampling"},
    {IDLE("use-tutel", MEGA_OPTION_FLAG, NULL, ONLY_MOE)},
};
const mega_option_section cli_other_moe_section = MEGA_SECTION("mixture of experts", moe_rows);
// clang-format on
