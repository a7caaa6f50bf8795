/* The options of this room: batch, length of the training, optimizer. Those of the learning rate are in
 * lr_schedule.c. */
#include "megalith/optim_options.h"

#include <math.h>

#define ROW(name, field, kind) MEGA_OPTION(mega_optim_options, name, field, kind)
#define ARGUMENT_ROW(kind, type, taken, name, setting, member, range_, read_by, ...) \
    {ROW(name, setting, MEGA_OPTION_##kind), .range = MEGA_RANGE_##range_, __VA_ARGS__},

// clang-format off
static const mega_option_row regularization_rows[] = {
    {ROW("weight-decay", weight_decay, MEGA_OPTION_FLOAT), .json = "optimizer.params.weight_decay", .fallback = "0.01", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_SCHEDULE, .help = "weight decay; biases and norms have none"},
    {ROW("start-weight-decay", start_weight_decay, MEGA_OPTION_FLOAT), .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_SCHEDULE, .help = "first value of a weight decay that changes"},
    {ROW("end-weight-decay", end_weight_decay, MEGA_OPTION_FLOAT), .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_SCHEDULE, .help = "last value of a weight decay that changes"},
    {ROW("weight-decay-incr-style", weight_decay_incr_style, MEGA_OPTION_CHOICE), .fallback = "constant", .choices = "constant|linear|cosine", .resume = MEGA_RESUME_SCHEDULE, .help = "how the weight decay changes over the training"},
    {ROW("clip-grad", clip_grad, MEGA_OPTION_FLOAT), .json = "gradient_clipping", .yaml = "deepspeed_config.gradient_clipping|megatron_lm_config.megatron_lm_gradient_clipping", .fallback = "1.0", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_REPORTED, .help = "global norm above which gradients are scaled down; 0 is off"},
    {ROW("parameter-group", parameter_group, MEGA_OPTION_APPEND), .value = "PATTERN:SETTINGS", .resume = MEGA_RESUME_REPORTED, .help = "give the parameters whose names match PATTERN (as a shell matches names, or re: and a regular expression) their own lr=X, lr_scale=X or weight_decay=X, or mark them frozen or trained; settings are separated by commas; may be repeated, a later group wins"},
    MEGA_OPTIMIZER_ARGUMENTS(ARGUMENT_ROW)
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
    return (MEGA_READ_BY_BETAS >> kind & 1) != 0;
}

bool mega_optimizer_kind_compresses(mega_optimizer_kind kind)
{
    return kind == MEGA_OPTIMIZER_ONE_BIT_ADAM;
}

/* A learning rate of its own as a factor on the common one; 0: it has none. */
static double lr_factor(double lr, double common)
{
    return isnan(lr) || !(common > 0) ? 0 : lr / common;
}

#define TAKEN_SAME(value)                                          value
#define TAKEN_NOT(value)                                           !value
#define TAKEN_RATE(value)                                          lr_factor(value, o->lr)
#define TAKE(kind, type, taken, name, setting, member, range, ...) .member = TAKEN_##taken(o->setting),
mega_optimizer_options mega_optimizer_from_options(const mega_optim_options *o)
{
    return (mega_optimizer_options){.kind = o->optimizer, MEGA_OPTIMIZER_ARGUMENTS(TAKE)};
}
