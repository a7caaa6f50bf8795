/* Checks that every numeric option of a training reaches the field that the computation uses: each test sets an option
 * to a distinct value and inspects the structs that the engine, the model and the schedules read. Choices and flags
 * that end in these structs are checked too. A numeric option without a row in this file fails the test. */
#include "../../cli/options_impl.h"
#include "../../config/config_impl.h"
#include "kit.h"
#include "megalith/engine_commands.h"
#include "megalith/log.h"
#include "megalith/transformer.h"
#include <stdio.h>
#include <string.h>

typedef struct reached {
    mega_command_options cfg; /* the options that the training loop itself reads */
    mega_engine_options engine;
    mega_transformer gpt;
} reached;

typedef enum field_type { FIELD_INT, FIELD_INT64, FIELD_UINT32, FIELD_DOUBLE, FIELD_BOOL } field_type;

typedef struct check {
    const char *option, *words; /* `words` sets the option, and other options that it requires */
    double expected;
    size_t at;
    field_type type;
} check;

/* clang-format off */
#define FIELD_TYPE(x) _Generic((x), int: FIELD_INT, unsigned: FIELD_UINT32, int64_t: FIELD_INT64, uint64_t: FIELD_INT64, double: FIELD_DOUBLE, bool: FIELD_BOOL)
#define REACHES(option_, words_, expected_, field_) \
    {.option = (option_), .words = (words_), .expected = (expected_), .at = offsetof(reached, field_), .type = FIELD_TYPE(((const reached *)0)->field_)}

#define STAGES "--world-size 4 --pipeline-model-parallel-size 2 --num-layers 8 --global-batch-size 16 "
#define BY_SAMPLES "--train-samples 3000 "
#define CURRICULUM "--curriculum-learning --curriculum-min-difficulty 9 --curriculum-total-steps 21 "
#define ROPE "--position-embedding-type rope "
#define YARN ROPE "--rope-type yarn "
#define LLAMA ROPE "--disable-bias-linear --swiglu "
#define MOE ROPE "--disable-bias-linear --num-experts 8 "
#define SINKHORN "--moe-router-load-balancing-type sinkhorn "
#define BIAS "--moe-router-score-function sigmoid --moe-router-enable-expert-bias "
#define GROUPS "--moe-router-pre-softmax --moe-router-topk 4 --moe-router-num-groups 4 --moe-router-group-topk 2"

static const check checks[] = {
    /* network */
    REACHES("num-layers", "--num-layers 5", 5, gpt.num_layers),
    REACHES("hidden-size", "--hidden-size 96", 96, gpt.hidden),
    REACHES("ffn-hidden-size", "--ffn-hidden-size 200", 200, gpt.ffn_hidden),
    REACHES("num-attention-heads", "--num-attention-heads 8", 8, gpt.heads),
    REACHES("kv-channels", "--num-attention-heads 8 --kv-channels 8", 8, gpt.head_dim), /* no other value is valid */
    REACHES("max-position-embeddings", "--max-position-embeddings 48", 48, gpt.positions),
    REACHES("make-vocab-size-divisible-by", "--make-vocab-size-divisible-by 77", 77, cfg.train.make_vocab_size_divisible_by),
    REACHES("vocab-size", "--tokenizer-type NullTokenizer --vocab-size 1003", 1003, cfg.train.text.vocab_size),
    REACHES("vocab-extra-ids", "--vocab-extra-ids 7", 7, cfg.train.text.vocab_extra_ids),
    REACHES("tiktoken-num-special-tokens", "--tiktoken-num-special-tokens 21", 21, cfg.train.text.tiktoken_special),
    REACHES("layernorm-epsilon", "--layernorm-epsilon 3e-6", 3e-6, gpt.norm_epsilon),
    REACHES("ckpt-step", "--load x --ckpt-step 7", 7, cfg.train.ckpt_step),
    REACHES("max-shard-size", "--max-shard-size 5M", 5.0 * 1024 * 1024, cfg.train.engine.ckpt.max_shard_size),
    REACHES("init-method-std", "--init-method-std 0.031", 0.031, gpt.init_std),
    REACHES("attention-dropout", "--attention-dropout 0.21", 0.21, gpt.attention_dropout),
    REACHES("hidden-dropout", "--hidden-dropout 0.22", 0.22, gpt.hidden_dropout),
    REACHES("recompute-num-layers", "--recompute-granularity full --recompute-num-layers 2", 2, engine.recompute.interval),
    REACHES("recompute-granularity", "--recompute-granularity selective", MEGA_RECOMPUTE_SELECTIVE, cfg.train.engine.graph.recompute_granularity),
    REACHES("recompute-method", "--recompute-granularity full --recompute-method block", 1, engine.recompute.regions),
    REACHES("distribute-saved-activations", "--world-size 2 --tensor-model-parallel-size 2 --recompute-granularity full --distribute-saved-activations", 1, engine.recompute.distribute),
    REACHES("activation-checkpoint-interval", "--activation-checkpoint-interval 3", 3, engine.recompute.interval),
    REACHES("activation-budget", "--activation-budget 5M", 5.0 * 1024 * 1024, engine.recompute.budget),
    REACHES("decoder-first-pipeline-num-layers", STAGES "--decoder-first-pipeline-num-layers 3", 3, gpt.first_stage_layers),
    REACHES("decoder-last-pipeline-num-layers", STAGES "--decoder-last-pipeline-num-layers 2", 2, gpt.last_stage_layers),
    REACHES("num-layers-per-virtual-pipeline-stage", STAGES "--num-layers-per-virtual-pipeline-stage 2", 2, gpt.stage_chunks),
    REACHES("num-virtual-stages-per-pipeline-rank", STAGES "--num-virtual-stages-per-pipeline-rank 4", 4, gpt.stage_chunks),
    /* the kind of network: each with what makes a model of some family of it */
    REACHES("position-embedding-type", ROPE, MEGA_POSITIONS_ROPE, gpt.net.positions),
    REACHES("use-rotary-position-embeddings", "--use-rotary-position-embeddings", MEGA_POSITIONS_ROPE, gpt.net.positions),
    REACHES("rotary-percent", ROPE "--rotary-percent 0.25", 0.25, gpt.net.rope.fraction),
    REACHES("rotary-base", ROPE "--rotary-base 5000", 5000, gpt.net.rope.theta),
    REACHES("rotary-seq-len-interpolation-factor", ROPE "--rotary-seq-len-interpolation-factor 3", 3, gpt.net.rope.factor),
    REACHES("use-rope-scaling", ROPE "--use-rope-scaling", 8192, gpt.net.rope.original_positions),
    REACHES("rope-scaling-factor", ROPE "--use-rope-scaling --rope-scaling-factor 16", 16, gpt.net.rope.factor),
    REACHES("rotary-interleaved", ROPE "--rotary-interleaved", 1, gpt.net.rope.interleaved),
    REACHES("no-rope-freq", ROPE "--no-rope-freq 2", 10, gpt.net.no_rope[0]), /* layers 1 and 3 */
    REACHES("rope-type", YARN, 4096, gpt.net.rope.original_positions),
    REACHES("rotary-scaling-factor", YARN "--rotary-scaling-factor 5", 5, gpt.net.rope.factor),
    REACHES("yarn-original-max-position-embeddings", YARN "--yarn-original-max-position-embeddings 77", 77, gpt.net.rope.original_positions),
    REACHES("yarn-beta-fast", YARN "--yarn-beta-fast 30", 30, gpt.net.rope.beta_fast),
    REACHES("yarn-beta-slow", YARN "--yarn-beta-slow 3", 3, gpt.net.rope.beta_slow),
    REACHES("no-yarn-correction-range-round-to-int", YARN "--no-yarn-correction-range-round-to-int", 1, gpt.net.rope.no_truncate),
    REACHES("mscale", YARN "--rotary-scaling-factor 2.718281828459045 --mscale 2", 1.2, gpt.net.rope.attention_factor),
    REACHES("mscale-all-dim", YARN "--rotary-scaling-factor 2.718281828459045 --mscale-all-dim 2", 1.1 / 1.2, gpt.net.rope.attention_factor),
    REACHES("apply-layernorm-1p", "--apply-layernorm-1p", 1, gpt.net.norm_plus_one),
    REACHES("num-query-groups", ROPE "--group-query-attention --num-query-groups 2", 2, gpt.net.kv_heads),
    REACHES("group-query-attention", ROPE "--group-query-attention", 1, gpt.net.kv_heads),
    REACHES("num-key-value-heads", ROPE "--num-key-value-heads 2", 2, gpt.net.kv_heads),
    REACHES("attention-head-type", "--attention-head-type multiquery", 1, gpt.net.kv_heads),
    REACHES("normalization", LLAMA "--normalization RMSNorm", 1, gpt.net.rms),
    REACHES("swiglu", LLAMA "--normalization RMSNorm --swiglu", 1, gpt.net.gated),
    REACHES("swiglu", LLAMA "--normalization RMSNorm --swiglu", 128, gpt.ffn_hidden), /* 4 * 64 * 2/3 in steps of 64 */
    REACHES("glu-activation", ROPE "--normalization RMSNorm --disable-bias-linear --glu-activation reglu", MEGA_ACT_RELU, gpt.net.activation),
    REACHES("squared-relu", "--squared-relu", MEGA_ACT_RELU_SQUARED, gpt.net.activation),
    REACHES("untie-embeddings-and-output-weights", ROPE "--untie-embeddings-and-output-weights", 1, gpt.net.untied),
    REACHES("disable-bias-linear", ROPE "--num-key-value-heads 2 --disable-bias-linear", 1, gpt.net.no_mlp_bias),
    REACHES("add-qkv-bias", LLAMA "--normalization RMSNorm --add-qkv-bias", 1, gpt.net.no_out_bias),
    REACHES("qk-layernorm", LLAMA "--normalization RMSNorm --qk-layernorm", MEGA_QUERY_NORM_HEAD, gpt.net.query_norm),
    REACHES("window-size", LLAMA "--normalization RMSNorm --window-size 9,0", 9, gpt.net.window_left),
    REACHES("num-experts", MOE, 8, gpt.net.experts.count),
    REACHES("expert-interval", MOE "--expert-interval 2", 5, gpt.net.experts.dense[0]),
    REACHES("moe-ffn-hidden-size", MOE "--moe-ffn-hidden-size 24", 24, gpt.net.experts.hidden),
    REACHES("moe-ffn-hidden-size", MOE "--moe-ffn-hidden-size 24", 24, gpt.ffn_hidden),
    REACHES("moe-layer-freq", MOE "--moe-layer-freq 2", 10, gpt.net.experts.dense[0]), /* layers 1 and 3 */
    REACHES("moe-layer-freq", MOE "--moe-layer-freq [0,1,1,1]", 1, gpt.net.experts.dense[0]),
    REACHES("moe-layer-freq", MOE "--moe-layer-freq ([0]+[1]*1)*2", 5, gpt.net.experts.dense[0]),
    REACHES("moe-router-topk", MOE "--moe-router-topk 3", 3, gpt.net.experts.choices),
    REACHES("moe-router-score-function", MOE "--moe-router-score-function sigmoid", MEGA_ROUTE_SIGMOID, gpt.net.experts.score),
    REACHES("moe-router-pre-softmax", MOE "--moe-router-pre-softmax", 0, gpt.net.experts.normalized),
    REACHES("moe-router-topk-scaling-factor", MOE "--moe-router-topk-scaling-factor 2.5", 2.5, gpt.net.experts.scale),
    REACHES("moe-router-num-groups", MOE GROUPS, 4, gpt.net.experts.groups),
    REACHES("moe-router-group-topk", MOE GROUPS, 2, gpt.net.experts.chosen_groups),
    REACHES("moe-router-load-balancing-type", MOE "--moe-router-load-balancing-type seq_aux_loss", 1, gpt.router.group),
    REACHES("moe-router-load-balancing-type", MOE SINKHORN, 1, gpt.router.sinkhorn),
    REACHES("moe-router-load-balancing-type", MOE SINKHORN, 0, gpt.net.experts.normalized),
    REACHES("moe-router-load-balancing-type", MOE SINKHORN "--moe-router-topk 1", MEGA_ROUTE_SIGMOID, gpt.net.experts.score),
    REACHES("moe-aux-loss-coeff", MOE "--moe-aux-loss-coeff 0.02", 0.02, gpt.router.balance),
    REACHES("moe-z-loss-coeff", MOE "--moe-z-loss-coeff 0.003", 0.003, gpt.router.z),
    REACHES("moe-router-enable-expert-bias", MOE BIAS, 1, gpt.net.experts.choice_bias),
    REACHES("moe-router-enable-expert-bias", MOE BIAS, 0.001, gpt.router.bias_rate),
    REACHES("moe-router-bias-update-rate", MOE BIAS "--moe-router-bias-update-rate 0.02", 0.02, gpt.router.bias_rate),
    REACHES("moe-expert-capacity-factor", MOE "--moe-expert-capacity-factor 1.25", 1.25, gpt.capacity.factor),
    REACHES("moe-token-drop-policy", MOE "--moe-expert-capacity-factor 1 --moe-token-drop-policy position", 1, gpt.capacity.by_position),
    REACHES("moe-min-capacity", MOE "--moe-expert-capacity-factor 1 --moe-min-capacity 4", 4, gpt.capacity.least),
    REACHES("moe-buffer-factor", MOE "--moe-buffer-factor 1.25", 1.25, gpt.expert_buffer),
    REACHES("moe-input-jitter-eps", MOE "--moe-input-jitter-eps 0.04", 0.04, gpt.router.jitter),
    REACHES("embed-layernorm", "--position-embedding-type alibi --embed-layernorm", 1, gpt.net.embedding_norm),
    REACHES("init-method-xavier-uniform", "--init-method-xavier-uniform", 1, gpt.init_xavier),
    REACHES("calculate-per-token-loss", "--calculate-per-token-loss", 1, engine.per_token_loss),
    REACHES("sequence-parallel", "--world-size 2 --tensor-model-parallel-size 2 --sequence-parallel", 1, gpt.sequence_parallel),
    /* optimizer */
    REACHES("optimizer", "--optimizer sgd", MEGA_OPTIMIZER_SGD, engine.optimizer.kind),
    REACHES("adam-beta1", "--adam-beta1 0.81", 0.81, engine.optimizer.beta1),
    REACHES("adam-beta2", "--adam-beta2 0.92", 0.92, engine.optimizer.beta2),
    REACHES("adam-eps", "--adam-eps 3e-7", 3e-7, engine.optimizer.eps),
    REACHES("sgd-momentum", "--optimizer sgd --sgd-momentum 0.83", 0.83, engine.optimizer.momentum),
    REACHES("sgd-dampening", "--optimizer sgd --sgd-dampening 0.84", 0.84, engine.optimizer.dampening),
    REACHES("sgd-nesterov", "--optimizer sgd --sgd-nesterov", 1, engine.optimizer.nesterov),
    REACHES("adagrad-lr-decay", "--optimizer adagrad --adagrad-lr-decay 0.85", 0.85, engine.optimizer.lr_decay),
    REACHES("optimizer", "--optimizer adagrad", 1e-10, engine.optimizer.eps),
    REACHES("adagrad-initial-accumulator-value", "--optimizer adagrad --adagrad-initial-accumulator-value 0.75", 0.75,
            engine.optimizer.initial_accumulator),
    REACHES("adam-amsgrad", "--adam-amsgrad", 1, engine.optimizer.amsgrad),
    REACHES("no-adam-bias-correction", "--no-adam-bias-correction", 1, engine.optimizer.no_bias_correction),
    REACHES("maximize", "--maximize", 1, engine.optimizer.maximize),
    REACHES("ademamix-beta3", "--optimizer ademamix --ademamix-beta3 0.86", 0.86, engine.optimizer.beta3),
    REACHES("ademamix-alpha", "--optimizer ademamix --ademamix-alpha 0.87", 0.87, engine.optimizer.alpha),
    REACHES("ademamix-steps", "--optimizer ademamix --ademamix-steps 88", 88, engine.optimizer.alpha_steps),
    REACHES("schedule-free-warmup-steps", "--optimizer schedule_free_adamw --schedule-free-warmup-steps 89", 89,
            engine.optimizer.warmup_steps),
    REACHES("one-bit-adam-freeze-step", "--optimizer one_bit_adam --one-bit-adam-freeze-step 91", 91,
            engine.optimizer.freeze_step),
    REACHES("schedule-free-r", "--optimizer schedule_free_adamw --schedule-free-r 0.25", 0.25, engine.optimizer.r),
    REACHES("schedule-free-weight-lr-power", "--optimizer schedule_free_adamw --schedule-free-weight-lr-power 1.5", 1.5,
            engine.optimizer.weight_lr_power),
    REACHES("optimizer", "--optimizer schedule_free_adamw", MEGA_LR_CONSTANT, engine.schedule.style),
    REACHES("lamb-max-coeff", "--optimizer lamb --lamb-max-coeff 8.5", 8.5, engine.optimizer.max_coeff),
    REACHES("lamb-min-coeff", "--optimizer lamb --lamb-min-coeff 0.08", 0.08, engine.optimizer.min_coeff),
    REACHES("lamb-eps-inside-sqrt", "--optimizer lamb --lamb-eps-inside-sqrt", 1, engine.optimizer.eps_inside_sqrt),
    REACHES("muon-momentum", "--optimizer muon --muon-momentum 0.82", 0.82, engine.optimizer.muon_momentum),
    REACHES("muon-nesterov", "--optimizer muon --muon-nesterov", 1, engine.optimizer.muon_nesterov),
    REACHES("muon-no-split-qkv", "--optimizer muon --muon-no-split-qkv", 0, engine.optimizer.muon_split),
    REACHES("muon-num-ns-steps", "--optimizer muon --muon-num-ns-steps 7", 7, engine.optimizer.muon_steps),
    REACHES("muon-coefficient-type", "--optimizer muon --muon-coefficient-type cans", MEGA_MUON_CANS, engine.optimizer.muon_coefficients),
    REACHES("muon-scale-mode", "--optimizer muon --muon-scale-mode shape_scaling", MEGA_MUON_SHAPE_SCALING, engine.optimizer.muon_scale),
    REACHES("muon-extra-scale-factor", "--optimizer muon --muon-extra-scale-factor 0.23", 0.23, engine.optimizer.muon_extra_scale),
    REACHES("muon-lr", "--optimizer muon --lr 0.5 --muon-lr 0.25", 0.5, engine.optimizer.muon_lr),
    REACHES("adam-lr", "--optimizer muon --lr 0.5 --adam-lr 0.125", 0.25, engine.optimizer.adam_lr),
    REACHES("no-decoupled-weight-decay", "--no-decoupled-weight-decay", 1, engine.optimizer.l2),
    REACHES("clip-grad", "--clip-grad 2.75", 2.75, engine.clip_grad),
    REACHES("seed", "--seed 4321", 4321, engine.dropout_seed),
    /* determines initial weights and the order of samples */
    REACHES("seed", "--seed 4321", 4321, cfg.train.engine.seed),
    /* learning rate, weight decay */
    REACHES("lr", "--lr 0.0123", 0.0123, engine.schedule.max_lr),
    REACHES("min-lr", "--min-lr 0.00045", 0.00045, engine.schedule.min_lr),
    REACHES("lr-decay-style", "--lr-decay-style cosine", MEGA_LR_COSINE, engine.schedule.style),
    REACHES("lr-decay-iters", "--lr-decay-iters 77", 77 * 8, engine.schedule.decay),
    REACHES("lr-decay-samples", BY_SAMPLES "--lr-decay-samples 777", 777, engine.schedule.decay),
    REACHES("lr-wsd-decay-iters", "--lr-decay-style WSD --lr-wsd-decay-iters 11", 11 * 8, engine.schedule.wsd_decay),
    REACHES("lr-wsd-decay-samples", BY_SAMPLES "--lr-decay-style WSD --lr-wsd-decay-samples 111", 111, engine.schedule.wsd_decay),
    REACHES("lr-wsd-decay-style", "--lr-decay-style WSD --lr-wsd-decay-iters 11 --lr-wsd-decay-style cosine", MEGA_LR_WSD_COSINE, engine.schedule.wsd_style),
    REACHES("lr-warmup-fraction", "--lr-warmup-fraction 0.125", 0.125 * 100 * 8, engine.schedule.warmup),
    REACHES("lr-warmup-iters", "--lr-warmup-iters 13", 13 * 8, engine.schedule.warmup),
    REACHES("lr-warmup-samples", BY_SAMPLES "--lr-warmup-samples 131", 131, engine.schedule.warmup),
    REACHES("lr-warmup-init", "--lr-warmup-iters 2 --lr-warmup-init 0.00017", 0.00017, engine.schedule.warmup_init),
    REACHES("deepspeed-schedule", "--deepspeed-schedule LRRangeTest", MEGA_SCHEDULER_RANGE_TEST, engine.step_schedule.kind),
    REACHES("warmup-min-lr", "--deepspeed-schedule WarmupLR --warmup-max-lr 1e-3 --warmup-min-lr 0.00031", 0.00031, engine.step_schedule.warmup_min_lr),
    REACHES("warmup-max-lr", "--deepspeed-schedule WarmupDecayLR --warmup-max-lr 0.00032", 0.00032, engine.step_schedule.warmup_max_lr),
    REACHES("warmup-num-steps", "--deepspeed-schedule WarmupLR --warmup-max-lr 1e-3 --warmup-num-steps 33", 33, engine.step_schedule.warmup_num_steps),
    REACHES("warmup-type", "--deepspeed-schedule WarmupLR --warmup-max-lr 1e-3 --warmup-type linear", MEGA_WARMUP_LINEAR, engine.step_schedule.warmup_type),
    REACHES("total-num-steps", "--deepspeed-schedule WarmupDecayLR --total-num-steps 1034", 1034, engine.step_schedule.total_num_steps),
    REACHES("warmup-min-ratio", "--deepspeed-schedule WarmupCosineLR --warmup-min-ratio 0.35", 0.35, engine.step_schedule.warmup_min_ratio),
    REACHES("cos-min-ratio", "--deepspeed-schedule WarmupCosineLR --cos-min-ratio 0.36", 0.36, engine.step_schedule.cos_min_ratio),
    REACHES("cycle-min-lr", "--deepspeed-schedule OneCycle --cycle-min-lr 0.00037 --cycle-max-lr 1e-2 ", 0.00037, engine.step_schedule.cycle_min_lr),
    REACHES("cycle-max-lr", "--deepspeed-schedule OneCycle --cycle-min-lr 1e-4 --cycle-max-lr 0.038 ", 0.038, engine.step_schedule.cycle_max_lr),
    REACHES("cycle-first-step-size", "--deepspeed-schedule OneCycle --cycle-min-lr 1e-4 --cycle-max-lr 1e-2 --cycle-first-step-size 39", 39, engine.step_schedule.cycle_first_step_size),
    REACHES("cycle-second-step-size", "--deepspeed-schedule OneCycle --cycle-min-lr 1e-4 --cycle-max-lr 1e-2 --cycle-second-step-size 40", 40, engine.step_schedule.cycle_second_step_size),
    REACHES("cycle-first-stair-count", "--deepspeed-schedule OneCycle --cycle-min-lr 1e-4 --cycle-max-lr 1e-2 --cycle-first-stair-count 3", 3, engine.step_schedule.cycle_first_stair_count),
    REACHES("cycle-second-stair-count", "--deepspeed-schedule OneCycle --cycle-min-lr 1e-4 --cycle-max-lr 1e-2 --cycle-second-stair-count 4", 4, engine.step_schedule.cycle_second_stair_count),
    REACHES("decay-step-size", "--deepspeed-schedule OneCycle --cycle-min-lr 1e-4 --cycle-max-lr 1e-2 --decay-step-size 43", 43, engine.step_schedule.decay_step_size),
    REACHES("decay-lr-rate", "--deepspeed-schedule OneCycle --cycle-min-lr 1e-4 --cycle-max-lr 1e-2 --decay-lr-rate 0.44", 0.44, engine.step_schedule.decay_lr_rate),
    REACHES("cycle-min-mom", "--deepspeed-schedule OneCycle --cycle-min-lr 1e-4 --cycle-max-lr 1e-2 --cycle-min-mom 0.45", 0.45, engine.step_schedule.cycle_min_mom),
    REACHES("cycle-max-mom", "--deepspeed-schedule OneCycle --cycle-min-lr 1e-4 --cycle-max-lr 1e-2 --cycle-max-mom 0.96", 0.96, engine.step_schedule.cycle_max_mom),
    REACHES("decay-mom-rate", "--deepspeed-schedule OneCycle --cycle-min-lr 1e-4 --cycle-max-lr 1e-2 --decay-mom-rate 0.47", 0.47, engine.step_schedule.decay_mom_rate),
    REACHES("lr-range-test-min-lr", "--deepspeed-schedule LRRangeTest --lr-range-test-min-lr 0.0048", 0.0048, engine.step_schedule.lr_range_test_min_lr),
    REACHES("lr-range-test-step-size", "--deepspeed-schedule LRRangeTest --lr-range-test-step-size 49", 49, engine.step_schedule.lr_range_test_step_size),
    REACHES("lr-range-test-step-rate", "--deepspeed-schedule LRRangeTest --lr-range-test-step-rate 5.5", 5.5, engine.step_schedule.lr_range_test_step_rate),
    REACHES("lr-range-test-staircase", "--deepspeed-schedule LRRangeTest --lr-range-test-staircase", 1, engine.step_schedule.lr_range_test_staircase),
    REACHES("lr", "--deepspeed-schedule WarmupCosineLR --lr 0.0051", 0.0051, engine.step_schedule.lr),
    REACHES("weight-decay", "--weight-decay 0.3", 0.3, engine.schedule.start_weight_decay),
    REACHES("weight-decay", "--weight-decay 0.3", 0.3, engine.schedule.end_weight_decay),
    REACHES("start-weight-decay", "--weight-decay-incr-style linear --start-weight-decay 0.02 --end-weight-decay 0.4", 0.02, engine.schedule.start_weight_decay),
    REACHES("end-weight-decay", "--weight-decay-incr-style linear --start-weight-decay 0.02 --end-weight-decay 0.4", 0.4, engine.schedule.end_weight_decay),
    REACHES("weight-decay-incr-style", "--weight-decay-incr-style cosine --start-weight-decay 0.02 --end-weight-decay 0.4", MEGA_WD_COSINE, engine.schedule.decay_style),
    /* batch and length of the training */
    REACHES("micro-batch-size", "--micro-batch-size 2", 2, engine.micro_batch),
    REACHES("micro-batch-size", "--micro-batch-size 2", 2, engine.batch.micro_step),
    REACHES("global-batch-size", "--global-batch-size 24", 24, engine.batch.global_batch),
    REACHES("gradient-accumulation-steps", "--gradient-accumulation-steps 5", 20, engine.batch.global_batch),
    REACHES("rampup-batch-size", BY_SAMPLES "--global-batch-size 28 --rampup-batch-size 4 8 960", 4, engine.batch.start),
    REACHES("rampup-batch-size", BY_SAMPLES "--global-batch-size 28 --rampup-batch-size 4 8 960", 8, engine.batch.increment),
    REACHES("rampup-batch-size", BY_SAMPLES "--global-batch-size 28 --rampup-batch-size 4 8 960", 960, engine.batch.samples),
    REACHES("seq-length", "--seq-length 40 --max-position-embeddings 64", 40, engine.seq),
    REACHES("train-iters", "--train-iters 123", 123 * 8, engine.schedule.decay),
    REACHES("train-iters", "--train-iters 123", 123 * 8, engine.schedule.weight_decay_samples),
    REACHES("train-iters", "--train-iters 123", 123, cfg.train.engine.optim.train_iters),
    REACHES("train-samples", "--train-samples 4567", 4567, engine.schedule.weight_decay_samples),
    REACHES("train-samples", "--train-samples 4567", 4567, cfg.train.engine.optim.train_samples),
    /* counted in tokens: 32 are a sample, 256 an iteration */
    REACHES("train-tokens", "--train-tokens 12800", 50, cfg.train.engine.optim.train_iters),
    REACHES("train-tokens", BY_SAMPLES "--train-tokens 12800", 400, engine.schedule.weight_decay_samples),
    REACHES("lr-decay-tokens", BY_SAMPLES "--lr-decay-tokens 64000", 2000, engine.schedule.decay),
    REACHES("lr-warmup-tokens", BY_SAMPLES "--lr-warmup-tokens 3200", 100, engine.schedule.warmup),
    /* curriculum */
    REACHES("curriculum-learning", CURRICULUM, 1, engine.curriculum.is_on),
    REACHES("curriculum-min-difficulty", CURRICULUM, 9, engine.curriculum.least),
    REACHES("curriculum-max-difficulty", CURRICULUM "--curriculum-max-difficulty 29", 29, engine.curriculum.most),
    REACHES("curriculum-total-steps", CURRICULUM, 21, engine.curriculum.steps),
    REACHES("curriculum-difficulty-step", CURRICULUM "--curriculum-difficulty-step 5", 5, engine.curriculum.unit),
    REACHES("curriculum-root-degree", CURRICULUM "--curriculum-schedule fixed_root --curriculum-root-degree 3", 3, engine.curriculum.degree),
    REACHES("curriculum-schedule", CURRICULUM "--curriculum-schedule fixed_root --curriculum-root-degree 3", MEGA_CURRICULUM_ROOT, engine.curriculum.kind),
    REACHES("curriculum-max-step", "--curriculum-learning --curriculum-schedule fixed_discrete --curriculum-difficulty 4 8 --curriculum-max-step 3", 2, engine.curriculum.stairs),
    REACHES("train-tokens", CURRICULUM "--train-tokens 192", 3, cfg.train.engine.optim.train_iters), /* 8 samples of 8 tokens a step */
    REACHES("lr-decay-tokens", CURRICULUM "--lr-decay-tokens 64000", 64000, engine.schedule.decay_tokens),
    REACHES("lr-warmup-tokens", CURRICULUM "--lr-warmup-tokens 3200", 3200, engine.schedule.warmup_tokens),
    /* monitors */
    REACHES("steps-per-print", "--steps-per-print 17", 17, cfg.train.engine.monitor.steps_per_print),
    REACHES("flops-profiler-step", "--flops-profiler-step 18", 18, cfg.train.engine.monitor.flops_profiler_step),
    REACHES("flops-profiler-depth", "--flops-profiler-depth 19", 19, cfg.train.engine.monitor.flops_profiler_depth),
    REACHES("flops-profiler-top", "--flops-profiler-top 20", 20, cfg.train.engine.monitor.flops_profiler_top),
    REACHES("flops-profiler-recompute", "--flops-profiler-recompute 0.5", 0.5, cfg.train.engine.monitor.flops_profiler_recompute),
    /* layout, ZeRO */
    REACHES("world-size", "--world-size 6", 6, engine.layout.planned_ranks),
    REACHES("rank", "--world-size 6 --rank 5", 5, engine.layout.planned_rank),
    REACHES("tensor-model-parallel-size", "--world-size 2 --tensor-model-parallel-size 2", 2, engine.layout.tp),
    REACHES("expert-model-parallel-size", "--world-size 2 --expert-model-parallel-size 2", 2, engine.layout.ep),
    REACHES("pipeline-model-parallel-size", STAGES, 2, engine.layout.pp),
    REACHES("zero-stage", "--world-size 2 --zero-stage 3", 3, engine.zero_stage),
    REACHES("use-distributed-optimizer", "--world-size 2 --use-distributed-optimizer", 1, engine.zero_stage),
    REACHES("overlap-grad-reduce", "--world-size 2 --overlap-grad-reduce", 1, engine.place.overlap_reduce),
    REACHES("DDP-impl", "--world-size 2 --DDP-impl torch", 1, engine.place.overlap_reduce),
    REACHES("communication-data-type", "--world-size 2 --communication-data-type bf16", MEGA_BF16, engine.sums.dtype),
    REACHES("grad-accum-dtype", "--grad-accum-dtype bf16", MEGA_BF16, engine.grad_accum_dtype),
    REACHES("gradient-predivide-factor", "--world-size 2 --gradient-predivide-factor 1.5", 1.5, engine.sums.predivide),
    REACHES("ddp-bucket-size", "--ddp-bucket-size 1234567", 1234567, engine.bucket_elements),
    REACHES("stage3-prefetch-bucket-size", "--stage3-prefetch-bucket-size 51234", 51234, engine.place.prefetch_elements),
    REACHES("stage3-param-persistence-threshold", "--stage3-param-persistence-threshold 1717", 1717, engine.zero_persistence),
    REACHES("stage3-max-reuse-distance", "--stage3-max-reuse-distance 52345", 52345, engine.place.reuse_elements),
    REACHES("stage3-max-live-parameters", "--stage3-max-live-parameters 53456", 53456, engine.place.live_elements),
    /* kernels and programs */
    REACHES("bf16", "--bf16", MEGA_BF16, engine.compute),
    REACHES("fp64", "--fp64", MEGA_F64, engine.compute),
    REACHES("fp16", "--fp16", MEGA_F16, engine.compute),
    REACHES("loss-scale", "--fp16 --loss-scale 384", 384, engine.loss_scale.fixed),
    REACHES("initial-loss-scale", "--fp16 --initial-loss-scale 4096", 4096, engine.loss_scale.initial),
    REACHES("initial-scale-power", "--fp16 --initial-scale-power 7", 128, engine.loss_scale.initial),
    REACHES("min-loss-scale", "--fp16 --min-loss-scale 0.5", 0.5, engine.loss_scale.least),
    REACHES("loss-scale-window", "--fp16 --loss-scale-window 77", 77, engine.loss_scale.window),
    REACHES("hysteresis", "--fp16 --hysteresis 5", 5, engine.loss_scale.hysteresis),
    REACHES("consecutive-hysteresis", "--fp16 --consecutive-hysteresis", 1, engine.loss_scale.consecutive_hysteresis),
    REACHES("backend", "--backend plain", 1, engine.backend),
    REACHES("no-pack-weights", "--no-pack-weights", 1, engine.no_pack_weights),
    REACHES("cuda-graph-impl", "--cuda-graph-impl none", 1, engine.no_graphs),
    REACHES("late-results", "--late-results", 1, engine.late_results),
    REACHES("skip-train", "--skip-train", 1, engine.no_train),
    REACHES("eval-iters", "--eval-iters 0", 1, engine.no_evaluate),
    /* options that the training loop reads itself */
    REACHES("eval-iters", "--eval-iters 17", 17, cfg.train.eval_iters),
    REACHES("eval-interval", "--eval-interval 19", 19, cfg.train.eval_interval),
    REACHES("log-interval", "--log-interval 23", 23, cfg.train.log_interval),
    REACHES("exit-interval", "--exit-interval 29", 29, cfg.train.exit_interval),
    REACHES("exit-duration-in-mins", "--exit-duration-in-mins 31", 31, cfg.train.exit_duration_in_mins),
    REACHES("save-interval", "--save saved --save-interval 37", 37, cfg.train.save_interval),
    REACHES("keep-checkpoints", "--save saved --keep-checkpoints 41", 41, cfg.train.engine.ckpt.keep_checkpoints),
    REACHES("tensorboard-log-interval", "--tensorboard-log-interval 43", 43, cfg.train.tensorboard_log_interval),
    REACHES("profile-step-start", "--profile-step-start 5", 5, cfg.train.profile_step_start),
    REACHES("profile-step-end", "--profile-step-end 47", 47, cfg.train.profile_step_end),
    REACHES("num-threads", "--num-threads 3", 3, cfg.train.engine.backend.num_threads),
    REACHES("memory-limit", "--memory-limit 3G", 3.0 * 1024 * 1024 * 1024, cfg.train.memory_limit),
    REACHES("distributed-backend", "--distributed-backend nccl", 1, engine.needs_nccl),
    REACHES("distributed-backend", "--distributed-backend gloo", 1, engine.no_nccl),
    REACHES("distributed-timeout-minutes", "--distributed-timeout-minutes 2.5", 2.5, cfg.train.engine.comm.distributed_timeout_minutes),
};
/* clang-format on */

static double value_at(const reached *r, const check *c)
{
    const char *at = (const char *)r + c->at;
    union {
        int i;
        int64_t l;
        uint32_t u;
        double d;
        bool b;
    } v;
    switch (c->type) {
    case FIELD_INT: memcpy(&v.i, at, sizeof v.i); return v.i;
    case FIELD_INT64: memcpy(&v.l, at, sizeof v.l); return (double)v.l;
    case FIELD_UINT32: memcpy(&v.u, at, sizeof v.u); return v.u;
    case FIELD_DOUBLE: memcpy(&v.d, at, sizeof v.d); return v.d;
    case FIELD_BOOL: memcpy(&v.b, at, sizeof v.b); return v.b;
    }
    return 0;
}

static void drop_note(void *user, mega_log_level level, const char *line)
{
    (void)user;
    (void)level;
    (void)line;
}

/* Fills `r` with the structs that a command line with these words produces. Options of the base line are omitted if
 * `words` replaces them. */
static void reach(reached *r, const char *words)
{
    char text[512];
    char *argv[64];
    int argc = 0;
    const bool by_samples = strstr(words, "--train-samples") != NULL;
    const bool has_batch =
        strstr(words, "--global-batch-size") != NULL || strstr(words, "--gradient-accumulation-steps") != NULL;
    snprintf(text, sizeof text,
             "plan %s%s%s--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
             "--micro-batch-size 4 --lr 1e-3 --num-threads 1 %s",
             by_samples ? "" : "--train-iters 100 ", has_batch ? "" : "--global-batch-size ",
             has_batch                                 ? ""
             : strstr(words, "--world-size 6") != NULL ? "24 "
                                                       : "8 ",
             words);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) argv[argc++] = word;
    mega_log_set_sink(drop_note, NULL);
    assert_int_equal(mega_command_options_init(&r->cfg), MEGA_OK);
    if (mega_options_parse(r->cfg.train.engine.options, "plan", argc, argv) != MEGA_OK)
        fail_msg("%s: %s", words, mega_error_message());
    r->cfg.train.model.padded_vocab_size = 384;
    if (mega_train_engine_options(&r->cfg.train, &r->engine) != MEGA_OK ||
        mega_transformer_from_options(&r->cfg.train.model, 300, NULL, &r->gpt) != MEGA_OK)
        fail_msg("%s: %s", words, mega_error_message());
}

static void every_option_reaches_its_field(void **state)
{
    (void)state;
    reached base;
    reach(&base, "");
    for (size_t i = 0; i < MEGA_COUNT(checks); i++) {
        const check *c = &checks[i];
        char name[128];
        snprintf(name, sizeof name, "--%s", c->option);
        reached r;
        if (strstr(c->words, name) == NULL) fail_msg("\"%s\" does not set %s", c->words, name);
        reach(&r, c->words);
        if (value_at(&base, c) == c->expected && strcmp(c->option, "kv-channels") != 0)
            fail_msg("%s: its field has the value %g without it as well", c->words, c->expected);
        if (value_at(&r, c) != c->expected)
            fail_msg("%s: its field is %.17g, expected %.17g", c->words, value_at(&r, c), c->expected);
        mega_command_options_fini(&r.cfg);
    }
    mega_command_options_fini(&base.cfg);
}

static bool has_check(const char *option)
{
    for (size_t i = 0; i < MEGA_COUNT(checks); i++)
        if (strcmp(checks[i].option, option) == 0) return true;
    return false;
}

static void every_numeric_option_has_a_check(void **state)
{
    (void)state;
    int count = 0;
    mega_command_options cfg;
    assert_int_equal(mega_command_options_init(&cfg), MEGA_OK);
    for (option_walk w = {.table = &cfg.train.engine.options->table}; mega_option_next(&w);) {
        const mega_option_row *row = w.row;
        const bool is_number = row->kind == MEGA_OPTION_INT || row->kind == MEGA_OPTION_FLOAT ||
                               row->kind == MEGA_OPTION_BYTES || row->kind == MEGA_OPTION_INT3;
        if (!is_number || row->answer != MEGA_ANSWER_WORKS || (w.commands & (FOR_GPT | FOR_PLAN)) == 0) continue;
        if (!has_check(row->name))
            fail_msg(
                "--%s: add a row to `checks` in src/train/tests/test_options_reach.c that names the field which is "
                "computed with",
                row->name);
        count++;
    }
    mega_command_options_fini(&cfg);
    assert_true(count > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_reaches_its_field),
        cmocka_unit_test(every_numeric_option_has_a_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
