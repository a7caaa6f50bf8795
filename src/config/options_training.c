/* Options: training, learning rate, checkpointing, validation, logging, this machine. */
#include "config_impl.h"

#define FUSED                "kernels are fused by the program's own passes, which change no result"
#define FLASH                "attention is always computed tile by tile, without a matrix of scores in memory"
#define DEEPSPEED_ADAM       "the optimizer runs on the CPU in one fused walk in any case"
#define NO_GC                "a C program has no garbage collector"
#define NO_NETWORK           "nothing is sent over the network; --tensorboard-dir and --metrics-file hold the same figures"
#define NO_WARMUP_KERNELS    "checks are the level of the environment variable MEGA_CHECK"
#define NO_ZBH1              "not built yet for more; --num-layers-per-virtual-pipeline-stage shortens the wait of stages"
#define WHOLE_ITERATIONS     "whole iterations are timed, not their parts"
#define NO_OBJECT_GENERATION "generation and evaluation make no optimizer in any case"

// clang-format off
static const option_row training_rows[] = {
    {OPTION("micro-batch-size", micro_batch_size, KIND_INT), .range = RANGE_POSITIVE, .help = "samples computed together"},
    {RENAMED("batch-size", KIND_INT, "micro-batch-size", "it is --micro-batch-size; samples of an optimizer step are --global-batch-size")},
    {OPTION("global-batch-size", global_batch_size, KIND_INT), .range = RANGE_POSITIVE, .help = "samples of one optimizer step; the micro-batch size when not given"},
    {OPTION("gradient-accumulation-steps", gradient_accumulation_steps, KIND_INT), .range = RANGE_POSITIVE, .help = "micro-batches of an optimizer step on each data-parallel rank, instead of --global-batch-size, which is --micro-batch-size x this x data-parallel ranks"},
    {OPTION("rampup-batch-size", rampup_batch_size, KIND_INT3), .range = RANGE_NOT_NEGATIVE, .help = "START INCREMENT SAMPLES: the global batch grows from START by INCREMENT over SAMPLES"},
    {RENAMED("recompute-activations", KIND_FLAG, "recompute-granularity=selective", "it is --recompute-granularity selective")},
    {OPTION("recompute-granularity", recompute_granularity, KIND_CHOICE), .fallback = "none", .choices = "none|full|selective", .help = "what is computed again in the backward pass instead of kept: whole layers, or attention alone"},
    {OPTION("recompute-method", recompute_method, KIND_CHOICE), .fallback = "none", .choices = "none|uniform|block", .help = "full recompute: groups of layers, or the first layers alone"},
    {OPTION("recompute-num-layers", recompute_num_layers, KIND_INT), .fallback = "1", .range = RANGE_POSITIVE, .help = "layers a group (uniform), or recomputed layers (block)"},
    {OPTION("distribute-saved-activations", distribute_saved_activations, KIND_FLAG), .help = "full recompute: of the input of each group of layers, a rank of --tensor-model-parallel-size keeps its share alone"},
    {RENAMED("distribute-checkpointed-activations", KIND_FLAG, "distribute-saved-activations", "it is --distribute-saved-activations")},
    {RENAMED("checkpoint-activations", KIND_FLAG, "recompute-granularity=full;recompute-method=uniform", "it is --recompute-granularity full --recompute-method uniform")},
    {RENAMED("checkpoint-num-layers", KIND_INT, "recompute-num-layers", "it is --recompute-num-layers")},
    {RENAMED("activations-checkpoint-method", KIND_STRING, "recompute-granularity=full;recompute-method", "it is --recompute-granularity full --recompute-method"), .choices = "uniform|block"},
    {RENAMED("activations-checkpoint-num-layers", KIND_INT, "recompute-num-layers", "it is --recompute-num-layers")},
    {OPTION("train-iters", train_iters, KIND_INT), .range = RANGE_POSITIVE, .help = "optimizer steps of the whole training"},
    {OPTION("train-samples", train_samples, KIND_INT), .range = RANGE_POSITIVE, .help = "samples of the whole training, instead of --train-iters"},
    {LATER("train-tokens", KIND_INT, NULL, "use --train-samples N with N = tokens / sequence length")},
    {OPTION("log-interval", log_interval, KIND_INT), .fallback = "100", .range = RANGE_POSITIVE, .help = "iterations between log lines"},
    {OPTION("exit-interval", exit_interval, KIND_INT), .range = RANGE_POSITIVE, .help = "save and leave when the iteration is a multiple of this"},
    {OPTION("exit-duration-in-mins", exit_duration_in_mins, KIND_INT), .range = RANGE_POSITIVE, .help = "save and leave after so many minutes"},
    {IDLE("exit-signal-handler", KIND_FLAG, NULL, "SIGTERM and Ctrl-C are answered by a save in any case")},
    {OPTION("tensorboard-dir", tensorboard_dir, KIND_STRING), .alike = ALIKE_NOT_NEEDED, .help = "folder for TensorBoard event files"},
    {IDLE("no-masked-softmax-fusion", KIND_OFF, NULL, FUSED), .dest = "masked_softmax_fusion"},
    {IDLE("no-bias-gelu-fusion", KIND_OFF, NULL, FUSED), .dest = "bias_gelu_fusion"},
    {IDLE("no-bias-dropout-fusion", KIND_OFF, NULL, FUSED), .dest = "bias_dropout_fusion"},
    {IDLE("no-bias-swiglu-fusion", KIND_OFF, NULL, FUSED), .dest = "bias_swiglu_fusion"},
    {IDLE("no-rope-fusion", KIND_OFF, NULL, FUSED), .dest = "apply_rope_fusion"},
    {IDLE("no-persist-layer-norm", KIND_FLAG, NULL, FUSED)},
    {IDLE("no-gradient-accumulation-fusion", KIND_OFF, NULL, FUSED), .dest = "gradient_accumulation_fusion"},
    {IDLE("abort-on-unmet-fused-kernel-constraints", KIND_FLAG, NULL, FUSED)},
    {IDLE("use-flash-attn", KIND_FLAG, NULL, FLASH)},
    {IDLE("use-flash-attn-v1", KIND_FLAG, NULL, FLASH)},
    {IDLE("use-flash-attn-v2", KIND_FLAG, NULL, FLASH)},
    {IDLE("use-flash-attn-triton", KIND_FLAG, NULL, FLASH)},
    {IDLE("use-flash-attn-builder", KIND_FLAG, NULL, FLASH)},
    {IDLE("attention-backend", KIND_STRING, "auto", FLASH), .choices = "auto|flash|fused|unfused|local"},
    {OPTION("optimizer", optimizer, KIND_CHOICE), .fallback = "adam", .choices = "adam|sgd", .unbuilt = "muon|lion|lamb|adagrad", .help = "adam is AdamW: its weight decay is decoupled"},
    {OPTION("dataloader-type", dataloader_type, KIND_CHOICE), .fallback = "single", .choices = "single|cyclic", .unbuilt = "external", .help = "single: the seeded order, once; cyclic: drawn anew each epoch"},
    {OPTION("calculate-per-token-loss", calculate_per_token_loss, KIND_FLAG), .help = "divide by the unmasked tokens of the step instead of averaging the means of micro-batches"},
    {IDLE("no-async-tensor-model-parallel-allreduce", KIND_OFF, NULL, OWN_ORDER), .dest = "async_tensor_model_parallel_allreduce"},
    {OPTION("sequence-parallel", sequence_parallel, KIND_FLAG), .help = "norms, dropout and residuals work on a share of the tokens on each rank of --tensor-model-parallel-size; nothing changes where that is 1"},
    {IDLE("no-check-for-nan-in-loss-and-grad", KIND_OFF, NULL, "a loss that is not finite always stops the run and names the first operation that made it"), .dest = "check_for_nan_in_loss_and_grad"},
    {IDLE("no-clone-scatter-output-in-embedding", KIND_OFF, NULL, "memory is planned before the first step, and nothing is allocated in it"), .dest = "clone_scatter_output_in_embedding"},
    {OPTION("profile", profile, KIND_FLAG), .help = "--profile-table, and --profile-trace into trace.json of --tensorboard-dir, else of --save, else of the working folder"},
    {OPTION("profile-step-start", profile_step_start, KIND_INT), .fallback = "10", .range = RANGE_NOT_NEGATIVE, .help = "iterations done before the first that is profiled"},
    {OPTION("profile-step-end", profile_step_end, KIND_INT), .fallback = "12", .range = RANGE_NOT_NEGATIVE, .help = "iterations done when profiling ends"},
    {IDLE("profile-ranks", KIND_LIST, "0", "the trace holds every rank in any case")},
    {LATER("profile_steps", KIND_STRING, "2,3", "use --profile-step-start and --profile-step-end")},
    {IDLE("tp-comm-overlap", KIND_FLAG, NULL, OWN_ORDER)},
    {IDLE("tp-comm-overlap-cfg", KIND_STRING, NULL, OWN_ORDER)},
    {IDLE("disable-tp-comm-split-ag", KIND_OFF, NULL, OWN_ORDER), .dest = "tp_comm_split_ag"},
    {IDLE("disable-tp-comm-split-rs", KIND_OFF, NULL, OWN_ORDER), .dest = "tp_comm_split_rs"},
    {IDLE("disable-tp-comm-bulk-dgrad", KIND_OFF, NULL, OWN_ORDER), .dest = "tp_comm_bulk_dgrad"},
    {IDLE("disable-tp-comm-bulk-wgrad", KIND_OFF, NULL, OWN_ORDER), .dest = "tp_comm_bulk_wgrad"},
    {IDLE("use-legacy-models", KIND_FLAG, NULL, "there is one implementation of the layers, this program's own")},
    {IDLE("use-mcore-models", KIND_FLAG, NULL, "there is one implementation of the layers, this program's own")},
    {IDLE("manual-gc", KIND_FLAG, NULL, NO_GC)},
    {IDLE("manual-gc-interval", KIND_INT, "0", NO_GC)},
    {IDLE("no-manual-gc-eval", KIND_OFF, NULL, NO_GC), .dest = "manual_gc_eval"},
    {ALONE("enable-zbh1-pipeline", KIND_FLAG, "pipeline-model-parallel-size", NO_ZBH1)},
    {ALONE("enable-zbh1-exact-semantics", KIND_FLAG, "pipeline-model-parallel-size", NO_ZBH1)},
    {LATER("random-ltd", KIND_FLAG, NULL, "every layer sees every token; leave it out")},
    {IDLE("ds-inference", KIND_FLAG, NULL, NO_OBJECT_GENERATION), .commands = FOR_GENERATE | FOR_TASKS},
    {IDLE("inference", KIND_FLAG, NULL, NO_OBJECT_GENERATION), .commands = FOR_GENERATE | FOR_TASKS},
    {LATER("ds-inference", KIND_FLAG, NULL, "use megalith generate_samples_gpt"), .commands = FOR_PRETRAIN | FOR_PLAN},
    {LATER("inference", KIND_FLAG, NULL, "use megalith generate_samples_gpt, or --skip-train to evaluate"), .commands = FOR_PRETRAIN | FOR_PLAN},
    {IDLE("cpu-optimizer", KIND_FLAG, NULL, DEEPSPEED_ADAM)},
    {IDLE("cpu_torch_adam", KIND_FLAG, NULL, DEEPSPEED_ADAM)},
    {IDLE("ds_fused_adam", KIND_FLAG, NULL, DEEPSPEED_ADAM)},
    {LATER("use-bnb-optimizer", KIND_FLAG, NULL, "moments are kept in fp32; use --optimizer adam")},
    {LATER("use-dataset-only", KIND_BOOL, "false|False|0", "this program is the trainer; leave it out")},
    {IDLE("codecarbon-dir", KIND_STRING, NULL, "energy is not measured")},
    {RENAMED("eval-only", KIND_BOOL, "skip-train", "it is --skip-train")},
    {LATER("skip-train-iteration-range", KIND_LIST, NULL, "every iteration is trained; leave it out")},
    {LATER("decoupled-lr", KIND_FLOAT, NULL, "every parameter has the learning rate of --lr; leave it out")},
};
const option_section mega_option_training_section = {"training", FOR_TRAINING, training_rows, ROW_COUNT(training_rows)};

static const option_row learning_rows[] = {
    {OPTION("lr", lr, KIND_FLOAT), .range = RANGE_NOT_NEGATIVE, .help = "peak learning rate"},
    {OPTION("lr-decay-style", lr_decay_style, KIND_CHOICE), .fallback = "linear", .choices = "constant|linear|cosine|inverse-square-root", .unbuilt = "WSD|exponential", .help = "curve from the peak to --min-lr"},
    {OPTION("lr-decay-iters", lr_decay_iters, KIND_INT), .range = RANGE_POSITIVE, .help = "iteration at which the curve ends; --train-iters when not given"},
    {OPTION("lr-decay-samples", lr_decay_samples, KIND_INT), .range = RANGE_POSITIVE, .help = "sample at which the curve ends; --train-samples when not given"},
    {OPTION("lr-warmup-fraction", lr_warmup_fraction, KIND_FLOAT), .range = RANGE_BELOW_ONE, .help = "warm-up as a part of the curve"},
    {OPTION("lr-warmup-iters", lr_warmup_iters, KIND_INT), .fallback = "0", .range = RANGE_NOT_NEGATIVE, .help = "warm-up in iterations"},
    {OPTION("lr-warmup-samples", lr_warmup_samples, KIND_INT), .fallback = "0", .range = RANGE_NOT_NEGATIVE, .help = "warm-up in samples"},
    {OPTION("lr-warmup-init", lr_warmup_init, KIND_FLOAT), .fallback = "0.0", .range = RANGE_NOT_NEGATIVE, .help = "learning rate at the start of the warm-up"},
    {RENAMED("warmup", KIND_FLOAT, "lr-warmup-fraction", "it is --lr-warmup-fraction")},
    {OPTION("min-lr", min_lr, KIND_FLOAT), .fallback = "0.0", .range = RANGE_NOT_NEGATIVE, .help = "learning rate at the end of the curve and after it"},
    {OPTION("override-opt_param-scheduler", override_opt_param_scheduler, KIND_FLAG), .help = "on --load, this command line's schedule replaces the checkpoint's"},
    {OPTION("use-checkpoint-opt_param-scheduler", use_checkpoint_opt_param_scheduler, KIND_FLAG), .help = "on --load, the checkpoint's schedule replaces this command line's"},
    {RENAMED("override-lr-scheduler", KIND_FLAG, "override-opt_param-scheduler", "it is --override-opt_param-scheduler")},
    {RENAMED("use-checkpoint-lr-scheduler", KIND_FLAG, "use-checkpoint-opt_param-scheduler", "it is --use-checkpoint-opt_param-scheduler")},
    {LATER("lr-decay-tokens", KIND_INT, NULL, "use --lr-decay-samples N with N = tokens / sequence length")},
    {LATER("lr-warmup-tokens", KIND_INT, NULL, "use --lr-warmup-samples N with N = tokens / sequence length")},
};
const option_section mega_option_learning_section = {"learning rate", FOR_TRAINING, learning_rows, ROW_COUNT(learning_rows)};

static const option_row checkpoint_rows[] = {
    {OPTION("save", save, KIND_STRING), .help = "folder for checkpoints; each is a folder that Hugging Face loads"},
    {OPTION("save-interval", save_interval, KIND_INT), .range = RANGE_POSITIVE, .help = "iterations between checkpoints; without it one is saved at the end"},
    {OPTION("no-save-optim", no_save_optim, KIND_FLAG), .help = "leave the optimizer's moments out"},
    {OPTION("no-save-rng", no_save_rng, KIND_FLAG), .help = "leave the seed and the data position of random numbers out"},
    {OPTION("load", load, KIND_STRING), .help = "folder of checkpoints, one checkpoint, or a Hugging Face GPT-2 folder"},
    {OPTION("no-load-optim", no_load_optim, KIND_FLAG), .help = "start with fresh moments, and begin the learning-rate schedule anew"},
    {OPTION("no-load-rng", no_load_rng, KIND_FLAG), .help = "take the seed of this command line"},
    {OPTION("finetune", finetune, KIND_FLAG), .help = "load weights alone and begin at iteration 0"},
    {IDLE("no-initialization", KIND_OFF, NULL, "weights are initialised only where none are loaded"), .dest = "perform_initialization"},
    {OPTION("use-checkpoint-args", use_checkpoint_args, KIND_FLAG), .help = "take the network's shape and the tokenizer from --load"},
    {OPTION("exit-on-missing-checkpoint", exit_on_missing_checkpoint, KIND_FLAG), .help = "refuse to start from random weights when --load holds nothing"},
    {OPTION("keep-checkpoints", keep_checkpoints, KIND_INT), .fallback = "0", .range = RANGE_NOT_NEGATIVE, .help = "how many of the newest checkpoints stay; 0 keeps all"},
    {OPTION("save-dtype", save_dtype, KIND_CHOICE), .fallback = "fp32", .choices = "fp32|bf16|fp16", .help = "number type of the weights in model.safetensors; below fp32 state/ keeps the exact ones for resuming"},
    {OPTION("load-previous", load_previous, KIND_FLAG), .help = "when the newest checkpoint is damaged, go on from the one before"},
    {LATER("load-tag", KIND_STRING, NULL, "name the checkpoint itself: --load SAVE/iter_0000100")},
    {LATER("no-load-lr-state", KIND_FLAG, NULL, "use --override-opt_param-scheduler")},
    {LATER("universal-checkpoint", KIND_FLAG, NULL, "DeepSpeed's folders are not read; a checkpoint of this program loads everywhere without it")},
    {LATER("ckpt-format", KIND_STRING, NULL, "there is one format, the Hugging Face folder; leave it out")},
    {LATER("use-dist-ckpt", KIND_FLAG, NULL, "there is one format, the Hugging Face folder, which any layout of ranks loads; leave it out")},
    {LATER("async-save", KIND_FLAG, NULL, "training waits until a checkpoint is on the disk; leave it out")},
};
const option_section mega_option_checkpoint_section = {"checkpointing", FOR_TRAINING, checkpoint_rows, ROW_COUNT(checkpoint_rows)};

static const option_row validation_rows[] = {
    {OPTION("eval-iters", eval_iters, KIND_INT), .fallback = "100", .range = RANGE_NOT_NEGATIVE, .help = "iterations of an evaluation"},
    {OPTION("eval-interval", eval_interval, KIND_INT), .fallback = "1000", .range = RANGE_POSITIVE, .help = "iterations between evaluations"},
    {OPTION("skip-train", skip_train, KIND_FLAG), .help = "evaluate and leave"},
};
const option_section mega_option_validation_section = {"validation", FOR_TRAINING, validation_rows, ROW_COUNT(validation_rows)};

static const option_row logging_rows[] = {
    {OPTION("profile-trace", profile_trace, KIND_STRING), .help = "file for a Chrome trace of the iterations from --profile-step-start to --profile-step-end"},
    {OPTION("profile-table", profile_table, KIND_FLAG), .help = "after those iterations, print time, GFLOP/s, GB/s and percent of the measured bound of each kind of op"},
    {OPTION("metrics-file", metrics_file, KIND_STRING), .alike = ALIKE_NOT_NEEDED, .help = "file for one JSON object an iteration, with all digits"},
    {OPTION("log-params-norm", log_params_norm, KIND_FLAG), .help = "log the norm of the parameters"},
    {OPTION("log-num-zeros-in-grad", log_num_zeros_in_grad, KIND_FLAG), .help = "log how many gradients are zero"},
    {OPTION("log-throughput", log_throughput, KIND_FLAG), .help = "TFLOP/s behind the time of an iteration too, and in TensorBoard; they always end the line"},
    {OPTION("log-progress", log_progress, KIND_FLAG), .help = "append to progress.txt in --save"},
    {OPTION("log-level", log_level, KIND_CHOICE), .commands = FOR_ALL, .fallback = "info", .choices = "error|warning|info|debug|trace", .alike = ALIKE_NOT_NEEDED, .help = "lines less urgent than this are not shown"},
    {IDLE("log-level-replica", KIND_STRING, "error", "ranks other than the first tell nothing but what ends them")},
    {IDLE("log-path", KIND_STRING, NULL, "the arguments stand at the head of the log and in every checkpoint")},
    {IDLE("timing-log-level", KIND_INT, "0", WHOLE_ITERATIONS)},
    {IDLE("no-barrier-with-level-1-timing", KIND_OFF, NULL, WHOLE_ITERATIONS), .dest = "barrier_with_L1_time"},
    {IDLE("timing-log-option", KIND_STRING, "minmax", WHOLE_ITERATIONS), .choices = "max|minmax|all"},
    {OPTION("tensorboard-log-interval", tensorboard_log_interval, KIND_INT), .fallback = "1", .range = RANGE_POSITIVE, .help = "iterations between TensorBoard events"},
    {IDLE("tensorboard-queue-size", KIND_INT, "1000", "events are written as they happen")},
    {OPTION("log-timers-to-tensorboard", log_timers_to_tensorboard, KIND_FLAG), .help = "iteration-time in TensorBoard"},
    {OPTION("log-batch-size-to-tensorboard", log_batch_size_to_tensorboard, KIND_FLAG), .help = "batch-size in TensorBoard"},
    {OPTION("no-log-learnig-rate-to-tensorboard", log_learning_rate_to_tensorboard, KIND_OFF), .help = "no learning-rate in TensorBoard (spelled as in Megatron)"},
    {RENAMED("no-log-learning-rate-to-tensorboard", KIND_FLAG, "no-log-learnig-rate-to-tensorboard", "it is spelled --no-log-learnig-rate-to-tensorboard")},
    {OPTION("no-log-loss-scale-to-tensorboard", log_loss_scale_to_tensorboard, KIND_OFF), .help = "no loss-scale in TensorBoard"},
    {OPTION("log-validation-ppl-to-tensorboard", log_validation_ppl_to_tensorboard, KIND_FLAG), .help = "validation perplexity in TensorBoard"},
    {OPTION("log-memory-to-tensorboard", log_memory_to_tensorboard, KIND_FLAG), .help = "memory in TensorBoard"},
    {OPTION("log-world-size-to-tensorboard", log_world_size_to_tensorboard, KIND_FLAG), .help = "world-size in TensorBoard"},
    {LATER("log-optimizer-states-to-tensorboard", KIND_FLAG, NULL, "the moments are not logged; leave it out")},
    {IDLE("wandb-project", KIND_STRING, "", NO_NETWORK)},
    {IDLE("wandb-exp-name", KIND_STRING, "", NO_NETWORK)},
    {IDLE("wandb-save-dir", KIND_STRING, "", NO_NETWORK)},
    {IDLE("enable-one-logger", KIND_FLAG, NULL, NO_NETWORK)},
    {IDLE("one-logger-project", KIND_STRING, "e2e-tracking", NO_NETWORK)},
    {IDLE("one-logger-entity", KIND_STRING, "hwinf_dcm", NO_NETWORK)},
    {IDLE("one-logger-run-name", KIND_STRING, NULL, NO_NETWORK)},
};
const option_section mega_option_logging_section = {"logging", FOR_TRAINING, logging_rows, ROW_COUNT(logging_rows)};

static const option_row machine_rows[] = {
    {OPTION("num-threads", num_threads, KIND_INT), .range = RANGE_POSITIVE, .alike = ALIKE_NOT_NEEDED, .help = "threads; OMP_NUM_THREADS, else the cores this process may use"},
    {OPTION("memory-limit", memory_limit, KIND_BYTES), .commands = FOR_TRAINING, .fallback = "0", .range = RANGE_NOT_NEGATIVE, .alike = ALIKE_NOT_NEEDED, .help = "memory a rank may take (8G, 512M); 0: its share of what the machine gives"},
    {OPTION("no-pack-weights", no_pack_weights, KIND_FLAG), .commands = FOR_TRAINING, .help = "pack weights anew for each product of a step instead of once, which is slower and takes less memory"},
    {OPTION("backend", backend, KIND_CHOICE), .commands = FOR_TRAINING, .fallback = "cpu", .choices = "cpu|plain", .unbuilt = "cuda", .help = "fast kernels, or the plain ones that define each operation"},
    {OPTION("dry-run", dry_run, KIND_FLAG), .help = "read and check everything, say what would be done, and stop"},
    {OPTION("world-size", planned_world_size, KIND_INT), .commands = FOR_PLAN, .fallback = "0", .range = RANGE_NOT_NEGATIVE, .help = "plan for so many ranks, without starting them; 0: one"},
    {OPTION("rank", planned_rank, KIND_INT), .commands = FOR_PLAN, .fallback = "0", .range = RANGE_NOT_NEGATIVE, .help = "the rank of --world-size whose program and memory are shown"},
    {OPTION("print-program", print_program, KIND_FLAG), .commands = FOR_TRAINING, .help = "print the program of a step"},
    {OPTION("print-schedule", print_schedule, KIND_FLAG), .commands = FOR_PLAN, .help = "draw when each pipeline stage runs which micro-batch, a line a stage"},
    {OPTION("schedule-svg", schedule_svg, KIND_STRING), .commands = FOR_PLAN, .help = "the same as a picture, written to this file"},
};
const option_section mega_option_machine_section = {"this machine", FOR_ALL, machine_rows, ROW_COUNT(machine_rows)};
// clang-format on
