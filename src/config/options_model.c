/* Options: network size, regularization, initialization, precision, mixture of experts, FP8. */
#include "config_impl.h"

#define USE_LATER_MODEL                                                                                               \
    "GPT-2's network is what is built: LayerNorm before each block, learned positions, GELU, tied embeddings; leave " \
    "it out"
#define OTHER_MODEL "it belongs to BERT and T5, and a GPT does not read it"
#define ONLY_MOE    "it only matters to a mixture of experts, and --num-experts stands at 1"
#define SOFTMAX_F32 \
    "scores and softmax are computed in fp32 in any case, so that scaling by the layer number would cancel"
#define NO_SCALER "fp32 and bf16 have the range of gradients, so no loss is scaled"
#define NO_FP8    "leave it out: --bf16 is the smallest number type built"

// clang-format off
static const option_row model_rows[] = {
    {OPTION("preset", preset, KIND_STRING), .choices = "gpt2|gpt2-medium|gpt2-large|gpt2-xl|tiny", .help = "shape of a known model: layers, width, heads, sequence length; options given beside it win"},
    {OPTION("num-layers", num_layers, KIND_INT), .range = RANGE_POSITIVE, .most = 1 << 14, .help = "transformer layers"},
    {RENAMED("encoder-num-layers", KIND_INT, "num-layers", "for a GPT it is --num-layers")},
    {LATER("decoder-num-layers", KIND_INT, NULL, "it belongs to T5; a GPT takes --num-layers")},
    {OPTION("hidden-size", hidden_size, KIND_INT), .range = RANGE_POSITIVE, .most = 1 << 20, .help = "width of the model"},
    {OPTION("ffn-hidden-size", ffn_hidden_size, KIND_INT), .range = RANGE_POSITIVE, .most = 1 << 23, .help = "width inside the MLP; 4 times the hidden size when not given"},
    {OPTION("num-attention-heads", num_attention_heads, KIND_INT), .range = RANGE_POSITIVE, .most = 1 << 16, .help = "attention heads"},
    {LATER("attention-head-type", KIND_STRING, "multihead", "every head has its own keys and values; leave it out")},
    {OPTION("kv-channels", kv_channels, KIND_INT), .range = RANGE_POSITIVE, .help = "width of a head; hidden size / heads when not given"},
    {OPTION("max-position-embeddings", max_position_embeddings, KIND_INT), .range = RANGE_POSITIVE, .most = 1 << 24, .help = "rows of the position table; the sequence length when not given"},
    {LATER("use-rotary-position-embeddings", KIND_FLAG, NULL, USE_LATER_MODEL)},
    {IDLE("rotary-percent", KIND_FLOAT, "1.0", "positions are learned, nothing is rotated")},
    {LATER("no-position-embedding", KIND_OFF, NULL, USE_LATER_MODEL), .dest = "add_position_embedding"},
    {OPTION("make-vocab-size-divisible-by", make_vocab_size_divisible_by, KIND_INT), .commands = FOR_TRAINING, .fallback = "128", .range = RANGE_POSITIVE, .most = 1 << 24, .help = "the embedding is padded to a multiple of this; padding never enters a loss or a checkpoint"},
    {OPTION("layernorm-epsilon", layernorm_epsilon, KIND_FLOAT), .fallback = "1e-05", .range = RANGE_POSITIVE, .help = "epsilon of the layer norms"},
    {RENAMED("norm-epsilon", KIND_FLOAT, "layernorm-epsilon", "it is --layernorm-epsilon")},
    {LATER("apply-layernorm-1p", KIND_FLAG, NULL, USE_LATER_MODEL)},
    {LATER("apply-residual-connection-post-layernorm", KIND_FLAG, NULL, USE_LATER_MODEL)},
    {IDLE("openai-gelu", KIND_FLAG, NULL, "GELU is computed by its tanh form in any case")},
    {LATER("squared-relu", KIND_FLAG, NULL, USE_LATER_MODEL)},
    {LATER("swiglu", KIND_FLAG, NULL, USE_LATER_MODEL)},
    {LATER("onnx-safe", KIND_BOOL, "false|False|0", "GELU is computed by its tanh form; leave it out")},
    {IDLE("bert-no-binary-head", KIND_OFF, NULL, OTHER_MODEL), .dest = "bert_binary_head"},
    {LATER("num-experts", KIND_LIST, "1", "a mixture of experts needs expert layers; train the dense model")},
    {LATER("untie-embeddings-and-output-weights", KIND_FLAG, NULL, USE_LATER_MODEL)},
    {IDLE("embedding-weights-in-fp32", KIND_FLAG, NULL, "a lookup copies rows, and their gradients are summed in fp32 in any case")},
    {LATER("group-query-attention", KIND_FLAG, NULL, "every head has its own keys and values; leave it out")},
    {IDLE("num-query-groups", KIND_INT, "1", "it only matters with --group-query-attention")},
    {LATER("position-embedding-type", KIND_STRING, "learned_absolute|absolute", USE_LATER_MODEL)},
    {LATER("rotary-interleaved", KIND_FLAG, NULL, USE_LATER_MODEL)},
    {LATER("rotary-seq-len-interpolation-factor", KIND_INT, "1", USE_LATER_MODEL)},
    {IDLE("rotary-position-embeddings-theta", KIND_FLOAT, "10000", "positions are learned, nothing is rotated"), .dest = "rope_theta"},
    {IDLE("rotary-base", KIND_FLOAT, "10000", "positions are learned, nothing is rotated")},
    {LATER("normalization", KIND_STRING, "LayerNorm|layernorm", USE_LATER_MODEL)},
    {LATER("qk-layernorm", KIND_FLAG, NULL, USE_LATER_MODEL)},
    {LATER("window-size", KIND_LIST, NULL, "attention looks at all that came before; leave it out")},
    {LATER("multi-latent-attention", KIND_FLAG, NULL, USE_LATER_MODEL)},
    {IDLE("q-lora-rank", KIND_INT, NULL, "it only matters with --multi-latent-attention")},
    {IDLE("kv-lora-rank", KIND_INT, "32", "it only matters with --multi-latent-attention")},
    {LATER("mlp-type", KIND_STRING, "standard", "a residual mixture of experts needs expert layers; leave it out")},
    {IDLE("topk", KIND_INT, "1", ONLY_MOE)},
    {IDLE("expert-interval", KIND_INT, "2", ONLY_MOE)},
    {LATER("num-key-value-heads", KIND_INT, "=num-attention-heads", "every head has its own keys and values; leave it out, or give it the value of --num-attention-heads")},
    {IDLE("disable-mem-efficient-ln", KIND_OFF, NULL, "there is one layer norm, and it keeps two numbers a row"), .dest = "mem_efficient_ln"},
    {LATER("num-experts-switch", KIND_INT, "1", "a mixture of experts needs expert layers; train the dense model")},
    {LATER("embed-layernorm", KIND_FLAG, NULL, USE_LATER_MODEL)},
    {LATER("glu-activation", KIND_STRING, NULL, USE_LATER_MODEL)},
    {LATER("disable-bias-linear", KIND_OFF, NULL, USE_LATER_MODEL), .dest = "add_bias_linear"},
    {LATER("add-qkv-bias", KIND_FLAG, NULL, "every linear layer has its bias, these too; leave it out")},
    {LATER("pad-vocab-size-to", KIND_INT, NULL, "padding never enters a loss or a checkpoint; use --make-vocab-size-divisible-by N"), .commands = FOR_TRAINING},
    {IDLE("sync-tp-duplicated-parameters", KIND_FLAG, NULL, "ranks that hold the same parameter make the same update of it")},
    {LATER("kill-switch-file", KIND_STRING, NULL, "send the process SIGTERM: it saves and leaves")},
    {LATER("kill-switch-path", KIND_STRING, NULL, "send the process SIGTERM: it saves and leaves")},
    {LATER("spec", KIND_LIST, NULL, "layers are not loaded from Python; leave it out")},
};
const option_section mega_option_model_section = {"network size", FOR_TRAINING, model_rows, ROW_COUNT(model_rows)};

static const option_row regularization_rows[] = {
    {OPTION("attention-dropout", attention_dropout, KIND_FLOAT), .fallback = "0.1", .range = RANGE_BELOW_ONE, .resume = RESUME_REPORTED, .help = "dropout of attention probabilities"},
    {OPTION("hidden-dropout", hidden_dropout, KIND_FLOAT), .fallback = "0.1", .range = RANGE_BELOW_ONE, .resume = RESUME_REPORTED, .help = "dropout of the residual branches and of the embedding"},
    {OPTION("weight-decay", weight_decay, KIND_FLOAT), .json = "optimizer.params.weight_decay", .fallback = "0.01", .range = RANGE_NOT_NEGATIVE, .resume = RESUME_SCHEDULE, .help = "weight decay; biases and norms have none"},
    {OPTION("no-decoupled-weight-decay", decoupled_weight_decay, KIND_OFF), .json = "optimizer.params.adam_w_mode", .resume = RESUME_REPORTED, .help = "Adam as PyTorch's Adam: weight decay times the parameter is added to the gradient (L2), before the moments"},
    {OPTION("start-weight-decay", start_weight_decay, KIND_FLOAT), .range = RANGE_NOT_NEGATIVE, .resume = RESUME_SCHEDULE, .help = "first value of a weight decay that changes"},
    {OPTION("end-weight-decay", end_weight_decay, KIND_FLOAT), .range = RANGE_NOT_NEGATIVE, .resume = RESUME_SCHEDULE, .help = "last value of a weight decay that changes"},
    {OPTION("weight-decay-incr-style", weight_decay_incr_style, KIND_CHOICE), .fallback = "constant", .choices = "constant|linear|cosine", .resume = RESUME_SCHEDULE, .help = "how the weight decay changes over the training"},
    {OPTION("clip-grad", clip_grad, KIND_FLOAT), .json = "gradient_clipping", .yaml = "deepspeed_config.gradient_clipping|megatron_lm_config.megatron_lm_gradient_clipping", .fallback = "1.0", .range = RANGE_NOT_NEGATIVE, .resume = RESUME_REPORTED, .help = "global norm above which gradients are scaled down; 0 is off"},
    {OPTION("adam-beta1", adam_beta1, KIND_FLOAT), .json = "optimizer.params.betas[0]", .fallback = "0.9", .range = RANGE_BELOW_ONE, .resume = RESUME_REPORTED, .help = "decay of Adam's first moment"},
    {OPTION("adam-beta2", adam_beta2, KIND_FLOAT), .json = "optimizer.params.betas[1]", .fallback = "0.999", .range = RANGE_BELOW_ONE, .resume = RESUME_REPORTED, .help = "decay of Adam's second moment"},
    {OPTION("adam-eps", adam_eps, KIND_FLOAT), .json = "optimizer.params.eps", .fallback = "1e-08", .range = RANGE_POSITIVE, .resume = RESUME_REPORTED, .help = "Adam's epsilon"},
    {OPTION("sgd-momentum", sgd_momentum, KIND_FLOAT), .json = "optimizer.params.momentum", .fallback = "0.9", .range = RANGE_BELOW_ONE, .resume = RESUME_REPORTED, .help = "momentum of SGD"},
};
const option_section mega_option_regularization_section = {"regularization", FOR_TRAINING, regularization_rows, ROW_COUNT(regularization_rows)};

static const option_row initialization_rows[] = {
    {OPTION("seed", seed, KIND_INT), .commands = FOR_TRAINING | FOR_DATA, .fallback = "1234", .range = RANGE_SEED, .help = "of initial weights, dropout, order of samples, drawn text"},
    {IDLE("data-parallel-random-init", KIND_FLAG, NULL, "initial weights depend on the seed alone")},
    {OPTION("init-method-std", init_method_std, KIND_FLOAT), .fallback = "0.02", .range = RANGE_POSITIVE, .help = "standard deviation of initial weights"},
    {OPTION("init-method-xavier-uniform", init_method_xavier_uniform, KIND_FLAG), .help = "Xavier's uniform initial weights"},
};
const option_section mega_option_initialization_section = {"initialization", FOR_TRAINING, initialization_rows, ROW_COUNT(initialization_rows)};

static const option_row precision_rows[] = {
    {LATER("fp16", KIND_FLAG, NULL, "use --bf16, which has half the bytes of fp32 and needs no loss scaling")},
    {OPTION("bf16", bf16, KIND_FLAG), .json = "bf16.enabled|bfloat16.enabled", .resume = RESUME_REPORTED, .help = "compute and activations in bfloat16; gradients and master weights stay fp32"},
    {OPTION("fp64", fp64, KIND_FLAG), .resume = RESUME_REPORTED, .help = "compute in double with the plain kernels, for tests"},
    {IDLE("loss-scale", KIND_FLOAT, NULL, NO_SCALER)},
    {IDLE("initial-loss-scale", KIND_FLOAT, "4294967296", NO_SCALER)},
    {IDLE("min-loss-scale", KIND_FLOAT, "1.0", NO_SCALER)},
    {IDLE("loss-scale-window", KIND_FLOAT, "1000", NO_SCALER)},
    {IDLE("hysteresis", KIND_INT, "2", NO_SCALER)},
    {LATER("fp32-residual-connection", KIND_FLAG, NULL, "leave --bf16 out for a residual stream in fp32")},
    {IDLE("no-query-key-layer-scaling", KIND_OFF, NULL, SOFTMAX_F32), .dest = "apply_query_key_layer_scaling"},
    {IDLE("apply-query-key-layer-scaling", KIND_FLAG, NULL, SOFTMAX_F32)},
    {IDLE("attention-softmax-in-fp32", KIND_FLAG, NULL, SOFTMAX_F32)},
    {IDLE("accumulate-allreduce-grads-in-fp32", KIND_FLAG, NULL, "gradients are summed in fp32 in any case")},
    {LATER("fp16-lm-cross-entropy", KIND_FLAG, NULL, "the loss is computed in fp32; leave it out")},
};
const option_section mega_option_precision_section = {"mixed precision", FOR_TRAINING, precision_rows, ROW_COUNT(precision_rows)};

static const option_row fp8_rows[] = {
    {LATER("fp8-e4m3", KIND_FLAG, NULL, NO_FP8)},
    {LATER("fp8-hybrid", KIND_FLAG, NULL, NO_FP8)},
    {LATER("fp8-format", KIND_STRING, NULL, NO_FP8)},
    {LATER("fp4", KIND_STRING, NULL, NO_FP8)},
    {LATER("fp4-format", KIND_STRING, NULL, NO_FP8)},
    {IDLE("no-fp8-wgrad", KIND_OFF, NULL, "nothing is computed in FP8"), .dest = "fp8_wgrad"},
    {IDLE("fp8-margin", KIND_INT, "0", "nothing is computed in FP8")},
    {IDLE("fp8-interval", KIND_INT, "1", "nothing is computed in FP8")},
    {IDLE("fp8-amax-history-len", KIND_INT, "1", "nothing is computed in FP8")},
    {IDLE("fp8-amax-compute-algo", KIND_STRING, "most_recent", "nothing is computed in FP8")},
    {IDLE("transformer-impl", KIND_STRING, "local", "there is one implementation of the layers, this program's own"), .choices = "local|transformer_engine"},
};
const option_section mega_option_fp8_section = {"FP8", FOR_TRAINING, fp8_rows, ROW_COUNT(fp8_rows)};

static const option_row moe_rows[] = {
    {LATER("expert-model-parallel-size", KIND_INT, "1", "leave it at 1")},
    {LATER("moe-expert-parallel-size", KIND_INT, "1", "leave it at 1")},
    {LATER("expert-tensor-parallel-size", KIND_INT, "1", "leave it at 1")},
    {IDLE("enable-expert-tensor-parallelism", KIND_FLAG, NULL, ONLY_MOE)},
    {IDLE("moe-router-load-balancing-type", KIND_STRING, "aux_loss", ONLY_MOE)},
    {IDLE("moe-router-topk", KIND_INT, "2", ONLY_MOE)},
    {IDLE("moe-token-dispatcher-type", KIND_STRING, "allgather", ONLY_MOE)},
    {IDLE("moe-grouped-gemm", KIND_FLAG, NULL, ONLY_MOE)},
    {IDLE("moe-aux-loss-coeff", KIND_FLOAT, "0.0", ONLY_MOE)},
    {IDLE("moe-z-loss-coeff", KIND_FLOAT, NULL, ONLY_MOE)},
    {IDLE("moe-input-jitter-eps", KIND_FLOAT, NULL, ONLY_MOE)},
    {IDLE("moe-token-dropping", KIND_FLAG, NULL, ONLY_MOE)},
    {IDLE("moe-layer-freq", KIND_STRING, "1", ONLY_MOE)},
    {IDLE("disable-moe-token-dropping", KIND_OFF, NULL, ONLY_MOE), .dest = "moe_token_dropping"},
    {IDLE("moe-train-capacity-factor", KIND_FLOAT, "1.0", ONLY_MOE)},
    {IDLE("moe-eval-capacity-factor", KIND_FLOAT, "1.0", ONLY_MOE)},
    {IDLE("moe-min-capacity", KIND_INT, "4", ONLY_MOE)},
    {IDLE("moe-loss-coeff", KIND_FLOAT, "0.1", ONLY_MOE)},
    {IDLE("create-moe-param-group", KIND_FLAG, NULL, ONLY_MOE)},
    {IDLE("disable-moe-top2-2nd-expert-sampling", KIND_OFF, NULL, ONLY_MOE), .dest = "moe_top2_2nd_expert_sampling"},
    {IDLE("use-tutel", KIND_FLAG, NULL, ONLY_MOE)},
};
const option_section mega_option_moe_section = {"mixture of experts", FOR_TRAINING, moe_rows, ROW_COUNT(moe_rows)};
// clang-format on
