/* The options of this room: batch, length of the training, optimizer. Those of the learning rate are in
 * lr_schedule.c. */
#include "megalith/optim_options.h"

#define ROW(name, field, kind) MEGA_OPTION(mega_optim_options, name, field, kind)

// clang-format off
static const mega_option_row regularization_rows[] = {
    {ROW("weight-decay", weight_decay, MEGA_OPTION_FLOAT), .json = "optimizer.params.weight_decay", .fallback = "0.01", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_SCHEDULE, .help = "weight decay; biases and norms have none"},
    {ROW("no-decoupled-weight-decay", decoupled_weight_decay, MEGA_OPTION_OFF), .json = "optimizer.params.adam_w_mode", .resume = MEGA_RESUME_REPORTED, .help = "Adam as PyTorch's Adam: weight decay times the parameter is added to the gradient (L2), before the moments"},
    {ROW("start-weight-decay", start_weight_decay, MEGA_OPTION_FLOAT), .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_SCHEDULE, .help = "first value of a weight decay that changes"},
    {ROW("end-weight-decay", end_weight_decay, MEGA_OPTION_FLOAT), .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_SCHEDULE, .help = "last value of a weight decay that changes"},
    {ROW("weight-decay-incr-style", weight_decay_incr_style, MEGA_OPTION_CHOICE), .fallback = "constant", .choices = "constant|linear|cosine", .resume = MEGA_RESUME_SCHEDULE, .help = "how the weight decay changes over the training"},
    {ROW("clip-grad", clip_grad, MEGA_OPTION_FLOAT), .json = "gradient_clipping", .yaml = "deepspeed_config.gradient_clipping|megatron_lm_config.megatron_lm_gradient_clipping", .fallback = "1.0", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_REPORTED, .help = "global norm above which gradients are scaled down; 0 is off"},
    {ROW("adam-beta1", adam_beta1, MEGA_OPTION_FLOAT), .json = "optimizer.params.betas[0]", .fallback = "0.9", .range = MEGA_RANGE_BELOW_ONE, .resume = MEGA_RESUME_REPORTED, .help = "decay of the first moment of Adam, Lion and AdEMAMix"},
    {ROW("adam-beta2", adam_beta2, MEGA_OPTION_FLOAT), .json = "optimizer.params.betas[1]", .fallback = "0.999", .range = MEGA_RANGE_BELOW_ONE, .resume = MEGA_RESUME_REPORTED, .help = "decay of the second moment of Adam and AdEMAMix, and of Lion's moment"},
    {ROW("adam-eps", adam_eps, MEGA_OPTION_FLOAT), .json = "optimizer.params.eps", .fallback = "1e-08", .range = MEGA_RANGE_POSITIVE, .resume = MEGA_RESUME_REPORTED, .help = "epsilon of Adam, AdEMAMix and Adagrad"},
    {ROW("adam-amsgrad", adam_amsgrad, MEGA_OPTION_FLAG), .json = "optimizer.params.amsgrad", .resume = MEGA_RESUME_REPORTED, .help = "Adam: divide by the root of the largest second moment so far, as PyTorch does with amsgrad"},
    {ROW("no-adam-bias-correction", adam_bias_correction, MEGA_OPTION_OFF), .json = "optimizer.params.bias_correction", .resume = MEGA_RESUME_REPORTED, .help = "Adam and Lamb: take both moments as they are, although they start at 0"},
    {ROW("maximize", maximize, MEGA_OPTION_FLAG), .json = "optimizer.params.maximize", .resume = MEGA_RESUME_REPORTED, .help = "go up the gradient instead of down; weight decay still makes weights smaller"},
    {ROW("sgd-momentum", sgd_momentum, MEGA_OPTION_FLOAT), .json = "optimizer.params.momentum", .fallback = "0.9", .range = MEGA_RANGE_BELOW_ONE, .resume = MEGA_RESUME_REPORTED, .help = "momentum of SGD"},
    {ROW("sgd-dampening", sgd_dampening, MEGA_OPTION_FLOAT), .json = "optimizer.params.dampening", .fallback = "0.0", .resume = MEGA_RESUME_REPORTED, .help = "SGD: the gradient enters the momentum times 1 - this, from the second step on"},
    {ROW("sgd-nesterov", sgd_nesterov, MEGA_OPTION_FLAG), .json = "optimizer.params.nesterov", .resume = MEGA_RESUME_REPORTED, .help = "Nesterov's momentum for SGD"},
    {ROW("adagrad-lr-decay", adagrad_lr_decay, MEGA_OPTION_FLOAT), .json = "optimizer.params.lr_decay", .fallback = "0.0", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_REPORTED, .help = "Adagrad: step k divides the learning rate by 1 + (k - 1) x this"},
    {ROW("adagrad-initial-accumulator-value", adagrad_initial_accumulator_value, MEGA_OPTION_FLOAT), .json = "optimizer.params.initial_accumulator_value", .fallback = "0.0", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_REPORTED, .help = "Adagrad: its sum of squares starts at this"},
    {ROW("ademamix-beta3", ademamix_beta3, MEGA_OPTION_FLOAT), .json = "optimizer.params.beta3", .fallback = "0.9999", .range = MEGA_RANGE_BELOW_ONE, .resume = MEGA_RESUME_REPORTED, .help = "decay of AdEMAMix's slow moment"},
    {ROW("ademamix-alpha", ademamix_alpha, MEGA_OPTION_FLOAT), .json = "optimizer.params.alpha", .fallback = "5.0", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_REPORTED, .help = "weight of AdEMAMix's slow moment in the update"},
    {ROW("ademamix-steps", ademamix_steps, MEGA_OPTION_INT), .json = "optimizer.params.t_alpha_beta3", .range = MEGA_RANGE_NOT_NEGATIVE, .most = (int64_t)1 << 40, .resume = MEGA_RESUME_REPORTED, .help = "steps in which AdEMAMix's alpha and beta3 grow to their values; they have them from the start when not given"},
    {ROW("schedule-free-warmup-steps", schedule_free_warmup_steps, MEGA_OPTION_INT), .json = "optimizer.params.warmup_steps", .range = MEGA_RANGE_NOT_NEGATIVE, .most = (int64_t)1 << 40, .resume = MEGA_RESUME_REPORTED, .help = "schedule-free AdamW: steps in which the learning rate grows to --lr"},
    {ROW("schedule-free-r", schedule_free_r, MEGA_OPTION_FLOAT), .json = "optimizer.params.r", .fallback = "0.0", .resume = MEGA_RESUME_REPORTED, .help = "schedule-free AdamW: step k enters the average of weights in proportion to k to this power"},
    {ROW("schedule-free-weight-lr-power", schedule_free_weight_lr_power, MEGA_OPTION_FLOAT), .json = "optimizer.params.weight_lr_power", .fallback = "2.0", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_REPORTED, .help = "schedule-free AdamW: and to the largest learning rate so far to this power"},
    {ROW("one-bit-adam-freeze-step", one_bit_adam_freeze_step, MEGA_OPTION_INT), .json = "optimizer.params.freeze_step", .fallback = "100000", .range = MEGA_RANGE_NOT_NEGATIVE, .most = (int64_t)1 << 40, .resume = MEGA_RESUME_REPORTED, .help = "1-bit Adam: steps of Adam before its second moment stays as it is and data-parallel ranks exchange one bit an element"},
    {ROW("parameter-group", parameter_group, MEGA_OPTION_APPEND), .value = "PATTERN:SETTINGS", .resume = MEGA_RESUME_REPORTED, .help = "give the parameters whose names match PATTERN (as a shell matches names, or re: and a regular expression) their own lr=X, lr_scale=X or weight_decay=X, or mark them frozen or trained; settings are separated by commas; may be repeated, a later group wins"},
    {ROW("lamb-max-coeff", lamb_max_coeff, MEGA_OPTION_FLOAT), .json = "optimizer.params.max_coeff", .fallback = "10.0", .range = MEGA_RANGE_POSITIVE, .resume = MEGA_RESUME_REPORTED, .help = "largest trust ratio of Lamb: the norm of a tensor over that of its step"},
    {ROW("lamb-min-coeff", lamb_min_coeff, MEGA_OPTION_FLOAT), .json = "optimizer.params.min_coeff", .fallback = "0.01", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_REPORTED, .help = "smallest trust ratio of Lamb"},
    {ROW("lamb-eps-inside-sqrt", lamb_eps_inside_sqrt, MEGA_OPTION_FLAG), .json = "optimizer.params.eps_inside_sqrt", .resume = MEGA_RESUME_REPORTED, .help = "Lamb: the root of the second moment plus epsilon, instead of the root plus epsilon"},
    {ROW("muon-momentum", muon_momentum, MEGA_OPTION_FLOAT), .fallback = "0.95", .range = MEGA_RANGE_BELOW_ONE, .resume = MEGA_RESUME_REPORTED, .help = "momentum of the matrices that Muon updates; in a DeepSpeed JSON it is momentum"},
    {ROW("muon-nesterov", muon_nesterov, MEGA_OPTION_FLAG), .resume = MEGA_RESUME_REPORTED, .help = "Nesterov's momentum for Muon; on where a DeepSpeed JSON chooses Muon"},
    {ROW("muon-no-split-qkv", muon_split_qkv, MEGA_OPTION_OFF), .resume = MEGA_RESUME_REPORTED, .help = "Muon: Q, K and V of a projection are one matrix, instead of three; so it is where a DeepSpeed JSON chooses Muon"},
    {ROW("muon-num-ns-steps", muon_num_ns_steps, MEGA_OPTION_INT), .fallback = "5", .range = MEGA_RANGE_POSITIVE, .most = 99, .resume = MEGA_RESUME_REPORTED, .help = "steps of Muon's Newton-Schulz iteration"},
    {ROW("muon-coefficient-type", muon_coefficient_type, MEGA_OPTION_CHOICE), .fallback = "quintic", .choices = "simple|quintic|polar_express|cans", .not_implemented = "aol", .resume = MEGA_RESUME_REPORTED, .help = "coefficients of this iteration; simple where a DeepSpeed JSON chooses Muon"},
    {ROW("muon-scale-mode", muon_scale_mode, MEGA_OPTION_CHOICE), .fallback = "spectral", .choices = "spectral|unit_rms_norm|shape_scaling", .resume = MEGA_RESUME_REPORTED, .help = "factor on Muon's update of a matrix [out, in]: the root of max(out, in), of out / in, or of max(1, out / in); the last where a DeepSpeed JSON chooses Muon"},
    {ROW("muon-extra-scale-factor", muon_extra_scale_factor, MEGA_OPTION_FLOAT), .fallback = "1.0", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_REPORTED, .help = "another factor on Muon's update"},
    {ROW("muon-lr", muon_lr, MEGA_OPTION_FLOAT), .json = "optimizer.params.muon_lr", .range = MEGA_RANGE_POSITIVE, .resume = MEGA_RESUME_SCHEDULE, .help = "Muon: the learning rate of matrices where the schedule is at --lr, with which it rises and falls; --lr when not given"},
    {ROW("adam-lr", adam_lr, MEGA_OPTION_FLOAT), .json = "optimizer.params.adam_lr", .range = MEGA_RANGE_POSITIVE, .resume = MEGA_RESUME_SCHEDULE, .help = "Muon: the same of everything else, which Adam updates"},
};
const mega_option_section mega_optim_regularization_section = MEGA_SECTION("regularization", regularization_rows);

static const mega_option_row training_rows[] = {
    {ROW("micro-batch-size", micro_batch_size, MEGA_OPTION_INT), .json = "train_micro_batch_size_per_gpu", .range = MEGA_RANGE_POSITIVE, .most = 1 << 24, .help = "samples computed together"},
    {ROW("global-batch-size", global_batch_size, MEGA_OPTION_INT), .json = "train_batch_size", .range = MEGA_RANGE_POSITIVE, .most = 1 << 30, .resume = MEGA_RESUME_REPORTED, .help = "samples of one optimizer step; the micro-batch size when not given"},
    {ROW("gradient-accumulation-steps", gradient_accumulation_steps, MEGA_OPTION_INT), .json = "gradient_accumulation_steps", .yaml = "deepspeed_config.gradient_accumulation_steps|megatron_lm_config.megatron_lm_num_micro_batches", .range = MEGA_RANGE_POSITIVE, .most = 1 << 24, .help = "micro-batches of an optimizer step on each data-parallel rank, instead of --global-batch-size, which is --micro-batch-size x this x data-parallel ranks"},
    {ROW("rampup-batch-size", rampup_batch_size, MEGA_OPTION_INT3), .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_REPORTED, .help = "START INCREMENT SAMPLES: the global batch grows from START by INCREMENT over SAMPLES"},
    {ROW("train-iters", train_iters, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = (int64_t)1 << 32, .help = "optimizer steps of the whole training"},
    {ROW("train-samples", train_samples, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = (int64_t)1 << 50, .help = "samples of the whole training, instead of --train-iters"},
    {ROW("optimizer", optimizer, MEGA_OPTION_CHOICE), .fallback = "adam", .choices = "adam|sgd|adagrad|lion|ademamix|schedule_free_adamw|lamb|muon|one_bit_adam", .resume = MEGA_RESUME_REPORTED, .help = "adam is AdamW, unless --no-decoupled-weight-decay is given; muon orthogonalizes the momentum of matrices, and Adam updates the rest; lion, ademamix and lamb take their betas and epsilon from Adam's options, adagrad its epsilon (1e-10 when not given); schedule_free_adamw needs no decay of the learning rate, and has none unless --lr-decay-style is given"},
};
const mega_option_section mega_optim_training_section = MEGA_SECTION("training", training_rows);
// clang-format on

/* These two are not read from the table of optimizers, whose kernels the fuzzer of options does not link. */
bool mega_optimizer_kind_has_betas(mega_optimizer_kind kind)
{
    return kind != MEGA_OPTIMIZER_SGD && kind != MEGA_OPTIMIZER_ADAGRAD;
}

bool mega_optimizer_kind_compresses(mega_optimizer_kind kind)
{
    return kind == MEGA_OPTIMIZER_ONE_BIT_ADAM;
}
