/* Names of Megatron options whose answer is not "works": training, learning rate, checkpointing, logging. */
#include "options_impl.h"

#define FUSED                "kernels are fused by the program's own passes, which change no result"
#define FLASH                "attention is always computed tile by tile, without a matrix of scores in memory"
#define DEEPSPEED_ADAM       "the optimizer runs on the CPU in one fused walk in any case"
#define NO_GC                "a C program has no garbage collector"
#define NO_NETWORK           "nothing is sent over the network; --tensorboard-dir and --metrics-file hold the same figures"
#define NO_ZBH1              "not implemented yet for more; --num-layers-per-virtual-pipeline-stage shortens the wait of stages"
#define WHOLE_ITERATIONS     "whole iterations are timed, not their parts"
#define NO_OBJECT_GENERATION "generation and evaluation make no optimizer in any case"

// clang-format off
static const mega_option_row training_rows[] = {
    {RENAMED("batch-size", MEGA_OPTION_INT, "micro-batch-size", "it is --micro-batch-size; samples of an optimizer step are --global-batch-size")},
    {RENAMED("recompute-activations", MEGA_OPTION_FLAG, "recompute-granularity=selective", "it is --recompute-granularity selective"), .yaml = "megatron_lm_config.megatron_lm_recompute_activations"},
    {RENAMED("distribute-checkpointed-activations", MEGA_OPTION_FLAG, "distribute-saved-activations", "it is --distribute-saved-activations")},
    {RENAMED("checkpoint-activations", MEGA_OPTION_FLAG, "recompute-granularity=full;recompute-method=uniform", "it is --recompute-granularity full --recompute-method uniform")},
    {RENAMED("checkpoint-num-layers", MEGA_OPTION_INT, "recompute-num-layers", "it is --recompute-num-layers")},
    {RENAMED("activations-checkpoint-method", MEGA_OPTION_STRING, "recompute-granularity=full;recompute-method", "it is --recompute-granularity full --recompute-method"), .choices = "uniform|block"},
    {RENAMED("activations-checkpoint-num-layers", MEGA_OPTION_INT, "recompute-num-layers", "it is --recompute-num-layers")},
    {IDLE("exit-signal-handler", MEGA_OPTION_FLAG, NULL, "SIGTERM and Ctrl-C are answered by a save in any case")},
    {IDLE("no-masked-softmax-fusion", MEGA_OPTION_OFF, NULL, FUSED), .dest = "masked_softmax_fusion"},
    {IDLE("no-bias-gelu-fusion", MEGA_OPTION_OFF, NULL, FUSED), .dest = "bias_gelu_fusion"},
    {IDLE("no-bias-dropout-fusion", MEGA_OPTION_OFF, NULL, FUSED), .dest = "bias_dropout_fusion"},
    {IDLE("no-bias-swiglu-fusion", MEGA_OPTION_OFF, NULL, FUSED), .dest = "bias_swiglu_fusion"},
    {IDLE("no-rope-fusion", MEGA_OPTION_OFF, NULL, FUSED), .dest = "apply_rope_fusion"},
    {IDLE("no-persist-layer-norm", MEGA_OPTION_FLAG, NULL, FUSED)},
    {IDLE("no-gradient-accumulation-fusion", MEGA_OPTION_OFF, NULL, FUSED), .dest = "gradient_accumulation_fusion"},
    {IDLE("abort-on-unmet-fused-kernel-constraints", MEGA_OPTION_FLAG, NULL, FUSED)},
    {IDLE("use-flash-attn", MEGA_OPTION_FLAG, NULL, FLASH)},
    {IDLE("use-flash-attn-v1", MEGA_OPTION_FLAG, NULL, FLASH)},
    {IDLE("use-flash-attn-v2", MEGA_OPTION_FLAG, NULL, FLASH)},
    {IDLE("use-flash-attn-triton", MEGA_OPTION_FLAG, NULL, FLASH)},
    {IDLE("use-flash-attn-builder", MEGA_OPTION_FLAG, NULL, FLASH)},
    {IDLE("attention-backend", MEGA_OPTION_STRING, "auto", FLASH), .choices = "auto|flash|fused|unfused|local"},
    {IDLE("no-async-tensor-model-parallel-allreduce", MEGA_OPTION_OFF, NULL, OWN_ORDER), .dest = "async_tensor_model_parallel_allreduce"},
    {IDLE("no-check-for-nan-in-loss-and-grad", MEGA_OPTION_OFF, NULL, "a loss that is not finite always stops the run and names the first operation that made it"), .dest = "check_for_nan_in_loss_and_grad"},
    {IDLE("no-clone-scatter-output-in-embedding", MEGA_OPTION_OFF, NULL, "memory is planned before the first step, and nothing is allocated in it"), .dest = "clone_scatter_output_in_embedding"},
    {IDLE("profile-ranks", MEGA_OPTION_LIST, "0", "the trace holds every rank in any case")},
    {LATER("profile_steps", MEGA_OPTION_STRING, "2,3", "use --profile-step-start and --profile-step-end")},
    {IDLE("tp-comm-overlap", MEGA_OPTION_FLAG, NULL, OWN_ORDER)},
    {IDLE("tp-comm-overlap-cfg", MEGA_OPTION_STRING, NULL, OWN_ORDER)},
    {IDLE("disable-tp-comm-split-ag", MEGA_OPTION_OFF, NULL, OWN_ORDER), .dest = "tp_comm_split_ag"},
    {IDLE("disable-tp-comm-split-rs", MEGA_OPTION_OFF, NULL, OWN_ORDER), .dest = "tp_comm_split_rs"},
    {IDLE("disable-tp-comm-bulk-dgrad", MEGA_OPTION_OFF, NULL, OWN_ORDER), .dest = "tp_comm_bulk_dgrad"},
    {IDLE("disable-tp-comm-bulk-wgrad", MEGA_OPTION_OFF, NULL, OWN_ORDER), .dest = "tp_comm_bulk_wgrad"},
    {IDLE("use-legacy-models", MEGA_OPTION_FLAG, NULL, "there is one implementation of the layers, this program's own")},
    {IDLE("use-mcore-models", MEGA_OPTION_FLAG, NULL, "there is one implementation of the layers, this program's own")},
    {IDLE("manual-gc", MEGA_OPTION_FLAG, NULL, NO_GC)},
    {IDLE("manual-gc-interval", MEGA_OPTION_INT, "0", NO_GC)},
    {IDLE("no-manual-gc-eval", MEGA_OPTION_OFF, NULL, NO_GC), .dest = "manual_gc_eval"},
    {ALONE("enable-zbh1-pipeline", MEGA_OPTION_FLAG, "pipeline-model-parallel-size", NO_ZBH1)},
    {ALONE("enable-zbh1-exact-semantics", MEGA_OPTION_FLAG, "pipeline-model-parallel-size", NO_ZBH1)},
    {LATER("random-ltd", MEGA_OPTION_FLAG, NULL, "every layer sees every token; leave it out")},
    {IDLE("ds-inference", MEGA_OPTION_FLAG, NULL, NO_OBJECT_GENERATION), .commands = FOR_GENERATE | FOR_TASKS},
    {IDLE("inference", MEGA_OPTION_FLAG, NULL, NO_OBJECT_GENERATION), .commands = FOR_GENERATE | FOR_TASKS},
    {LATER("ds-inference", MEGA_OPTION_FLAG, NULL, "use megalith generate_samples_gpt"), .commands = FOR_PRETRAIN | FOR_PLAN},
    {LATER("inference", MEGA_OPTION_FLAG, NULL, "use megalith generate_samples_gpt, or --skip-train to evaluate"), .commands = FOR_PRETRAIN | FOR_PLAN},
    {IDLE("fp32-allreduce", MEGA_OPTION_FLAG, NULL, "gradients are kept and summed in fp32 unless --grad-accum-dtype or --communication-data-type says otherwise")},
    {IDLE("fp32-embedding", MEGA_OPTION_FLAG, NULL, "weights have fp32 masters in any case")},
    {IDLE("fp32-layernorm", MEGA_OPTION_FLAG, NULL, "norms compute in fp32 in any case")},
    {IDLE("fp32-tokentypes", MEGA_OPTION_FLAG, NULL, "a lookup copies rows, and their gradients are summed in fp32 in any case")},
    {IDLE("cpu-optimizer", MEGA_OPTION_FLAG, NULL, DEEPSPEED_ADAM)},
    {IDLE("cpu_torch_adam", MEGA_OPTION_FLAG, NULL, DEEPSPEED_ADAM)},
    {IDLE("ds_fused_adam", MEGA_OPTION_FLAG, NULL, DEEPSPEED_ADAM)},
    {LATER("use-bnb-optimizer", MEGA_OPTION_FLAG, NULL, "moments are kept in fp32; use --optimizer adam")},
    {LATER("use-dataset-only", MEGA_OPTION_BOOL, "false|False|0", "this program is the trainer; leave it out")},
    {IDLE("codecarbon-dir", MEGA_OPTION_STRING, NULL, "energy is not measured")},
    {RENAMED("eval-only", MEGA_OPTION_BOOL, "skip-train", "it is --skip-train")},
    {LATER("skip-train-iteration-range", MEGA_OPTION_LIST, NULL, "every iteration is trained; leave it out")},
    {LATER("decoupled-lr", MEGA_OPTION_FLOAT, NULL, "--parameter-group PATTERN:lr=X gives parameters a rate of their own")},
};
const mega_option_section cli_other_training_section = MEGA_SECTION("training", training_rows);

static const mega_option_row learning_rows[] = {
    {RENAMED("warmup", MEGA_OPTION_FLOAT, "lr-warmup-fraction", "it is --lr-warmup-fraction")},
    {RENAMED("override-lr-scheduler", MEGA_OPTION_FLAG, "override-opt_param-scheduler", "it is --override-opt_param-scheduler")},
    {RENAMED("use-checkpoint-lr-scheduler", MEGA_OPTION_FLAG, "use-checkpoint-opt_param-scheduler", "it is --use-checkpoint-opt_param-scheduler")},
};
const mega_option_section cli_other_learning_section = MEGA_SECTION("learning rate", learning_rows);

static const mega_option_row checkpoint_rows[] = {
    {IDLE("no-initialization", MEGA_OPTION_OFF, NULL, "weights are initialised only where none are loaded"), .dest = "perform_initialization"},
    {LATER("load-tag", MEGA_OPTION_STRING, NULL, "name the checkpoint itself: --load SAVE/iter_0000100")},
    {LATER("no-load-lr-state", MEGA_OPTION_FLAG, NULL, "use --override-opt_param-scheduler")},
    {IDLE("universal-checkpoint", MEGA_OPTION_FLAG, NULL, "a checkpoint of this program loads under any layout; DeepSpeed's folders are not read")},
    {LATER("ckpt-format", MEGA_OPTION_STRING, NULL, "there is one format, the Hugging Face folder; leave it out")},
    {LATER("use-dist-ckpt", MEGA_OPTION_FLAG, NULL, "there is one format, the Hugging Face folder, which any layout of ranks loads; leave it out")},
    {LATER("async-save", MEGA_OPTION_FLAG, NULL, "training waits until a checkpoint is on the disk; leave it out")},
};
const mega_option_section cli_other_checkpoint_section = MEGA_SECTION("checkpointing", checkpoint_rows);


static const mega_option_row logging_rows[] = {
    {IDLE("log-level-replica", MEGA_OPTION_STRING, "error", "ranks other than the first print only the error that ends them")},
    {IDLE("log-path", MEGA_OPTION_STRING, NULL, "the arguments are at the head of the log and in every checkpoint")},
    {IDLE("timing-log-level", MEGA_OPTION_INT, "0", WHOLE_ITERATIONS)},
    {IDLE("no-barrier-with-level-1-timing", MEGA_OPTION_OFF, NULL, WHOLE_ITERATIONS), .dest = "barrier_with_L1_time"},
    {IDLE("timing-log-option", MEGA_OPTION_STRING, "minmax", WHOLE_ITERATIONS), .choices = "max|minmax|all"},
    {IDLE("tensorboard-queue-size", MEGA_OPTION_INT, "1000", "events are written as they happen")},
    {RENAMED("no-log-learning-rate-to-tensorboard", MEGA_OPTION_FLAG, "no-log-learnig-rate-to-tensorboard", "it is spelled --no-log-learnig-rate-to-tensorboard")},
    {IDLE("enable-one-logger", MEGA_OPTION_FLAG, NULL, NO_NETWORK)},
    {IDLE("one-logger-project", MEGA_OPTION_STRING, "e2e-tracking", NO_NETWORK)},
    {IDLE("one-logger-entity", MEGA_OPTION_STRING, "hwinf_dcm", NO_NETWORK)},
    {IDLE("one-logger-run-name", MEGA_OPTION_STRING, NULL, NO_NETWORK)},
};
const mega_option_section cli_other_logging_section = MEGA_SECTION("logging", logging_rows);

// clang-format on
