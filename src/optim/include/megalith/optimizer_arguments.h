/* What the formulas of the optimizers are given: an option of an optimizer is one row of this list. From it follow the
 * option (options.c), the members of mega_optim_options and mega_optimizer_options, the check of a member
 * (optimizer_table.c), its place in the formulas' arguments (ARGUMENT_NUMBER in optimizer_row.h), the warning of an
 * optimizer that does not read it (engine/rules_optimizer.c), and the comparison between ranks (engine/option_rows.h).
 *
 *     R(kind, type, taken, name, setting, member, range, read_by, more…)
 *
 * kind, range: of mega_option_row, whose further members follow as initializers. name: as typed. setting: the member of
 * mega_optim_options, and the option's destination. member: that of mega_optimizer_options, of this type; taken says
 * how it follows from the setting: SAME, NOT, or RATE (a learning rate, as a factor on the common one). read_by: bit
 * 1 << mega_optimizer_kind of each optimizer that reads it. */
#ifndef MEGALITH_OPTIMIZER_ARGUMENTS_H
#define MEGALITH_OPTIMIZER_ARGUMENTS_H

#include "megalith/option.h"

#define MEGA_READ_BY(kind) (1U << MEGA_OPTIMIZER_##kind)
#define MEGA_READ_BY_ALL   (MEGA_READ_BY(KINDS) - 1)
#define MEGA_READ_BY_BETAS (MEGA_READ_BY_ALL & ~(MEGA_READ_BY(SGD) | MEGA_READ_BY(ADAGRAD)))

// clang-format off
#define MEGA_OPTIMIZER_ARGUMENTS(R) \
    R(OFF, bool, NOT, "no-decoupled-weight-decay", decoupled_weight_decay, l2, ANY, MEGA_READ_BY_ALL, .json = "optimizer.params.adam_w_mode", .resume = MEGA_RESUME_REPORTED, .help = "Adam as PyTorch's Adam: weight decay times the parameter is added to the gradient (L2), before the moments") \
    R(FLOAT, double, SAME, "adam-beta1", adam_beta1, beta1, BELOW_ONE, MEGA_READ_BY_BETAS, .json = "optimizer.params.betas[0]", .fallback = "0.9", .resume = MEGA_RESUME_REPORTED, .help = "decay of the first moment of Adam, Lion and AdEMAMix") \
    R(FLOAT, double, SAME, "adam-beta2", adam_beta2, beta2, BELOW_ONE, MEGA_READ_BY_BETAS, .json = "optimizer.params.betas[1]", .fallback = "0.999", .resume = MEGA_RESUME_REPORTED, .help = "decay of the second moment of Adam and AdEMAMix, and of Lion's moment") \
    R(FLOAT, double, SAME, "adam-eps", adam_eps, eps, POSITIVE, MEGA_READ_BY(ADAM) | MEGA_READ_BY(ADAGRAD) | MEGA_READ_BY(ADEMAMIX) | MEGA_READ_BY(SCHEDULE_FREE_ADAMW) | MEGA_READ_BY(ONE_BIT_ADAM) | MEGA_READ_BY(LAMB) | MEGA_READ_BY(MUON), .json = "optimizer.params.eps", .fallback = "1e-08", .resume = MEGA_RESUME_REPORTED, .help = "epsilon of Adam, AdEMAMix and Adagrad") \
    R(FLAG, bool, SAME, "adam-amsgrad", adam_amsgrad, amsgrad, ANY, MEGA_READ_BY(ADAM), .json = "optimizer.params.amsgrad", .resume = MEGA_RESUME_REPORTED, .help = "Adam: divide by the root of the largest second moment so far, as PyTorch does with amsgrad") \
    R(OFF, bool, NOT, "no-adam-bias-correction", adam_bias_correction, no_bias_correction, ANY, MEGA_READ_BY(ADAM) | MEGA_READ_BY(LAMB) | MEGA_READ_BY(MUON), .json = "optimizer.params.bias_correction", .resume = MEGA_RESUME_REPORTED, .help = "Adam and Lamb: take both moments as they are, although they start at 0") \
    R(FLAG, bool, SAME, "maximize", maximize, maximize, ANY, MEGA_READ_BY_ALL, .json = "optimizer.params.maximize", .resume = MEGA_RESUME_REPORTED, .help = "go up the gradient instead of down; weight decay still makes weights smaller") \
    R(FLOAT, double, SAME, "sgd-momentum", sgd_momentum, momentum, BELOW_ONE, MEGA_READ_BY(SGD), .json = "optimizer.params.momentum", .fallback = "0.9", .resume = MEGA_RESUME_REPORTED, .help = "momentum of SGD") \
    R(FLOAT, double, SAME, "sgd-dampening", sgd_dampening, dampening, ANY, MEGA_READ_BY(SGD), .json = "optimizer.params.dampening", .fallback = "0.0", .resume = MEGA_RESUME_REPORTED, .help = "SGD: the gradient enters the momentum times 1 - this, from the second step on") \
    R(FLAG, bool, SAME, "sgd-nesterov", sgd_nesterov, nesterov, ANY, MEGA_READ_BY(SGD), .json = "optimizer.params.nesterov", .resume = MEGA_RESUME_REPORTED, .help = "Nesterov's momentum for SGD") \
    R(FLOAT, double, SAME, "adagrad-lr-decay", adagrad_lr_decay, lr_decay, NOT_NEGATIVE, MEGA_READ_BY(ADAGRAD), .json = "optimizer.params.lr_decay", .fallback = "0.0", .resume = MEGA_RESUME_REPORTED, .help = "Adagrad: step k divides the learning rate by 1 + (k - 1) x this") \
    R(FLOAT, double, SAME, "adagrad-initial-accumulator-value", adagrad_initial_accumulator_value, initial_accumulator, NOT_NEGATIVE, MEGA_READ_BY(ADAGRAD), .json = "optimizer.params.initial_accumulator_value", .fallback = "0.0", .resume = MEGA_RESUME_REPORTED, .help = "Adagrad: its sum of squares starts at this") \
    R(FLOAT, double, SAME, "ademamix-beta3", ademamix_beta3, beta3, BELOW_ONE, MEGA_READ_BY(ADEMAMIX), .json = "optimizer.params.beta3", .fallback = "0.9999", .resume = MEGA_RESUME_REPORTED, .help = "decay of AdEMAMix's slow moment") \
    R(FLOAT, double, SAME, "ademamix-alpha", ademamix_alpha, alpha, NOT_NEGATIVE, MEGA_READ_BY(ADEMAMIX), .json = "optimizer.params.alpha", .fallback = "5.0", .resume = MEGA_RESUME_REPORTED, .help = "weight of AdEMAMix's slow moment in the update") \
    R(INT, int64_t, SAME, "ademamix-steps", ademamix_steps, alpha_steps, NOT_NEGATIVE, MEGA_READ_BY(ADEMAMIX), .json = "optimizer.params.t_alpha_beta3", .most = (int64_t)1 << 40, .resume = MEGA_RESUME_REPORTED, .help = "steps in which AdEMAMix's alpha and beta3 grow to their values; they have them from the start when not given") \
    R(INT, int64_t, SAME, "schedule-free-warmup-steps", schedule_free_warmup_steps, warmup_steps, NOT_NEGATIVE, MEGA_READ_BY(SCHEDULE_FREE_ADAMW), .json = "optimizer.params.warmup_steps", .most = (int64_t)1 << 40, .resume = MEGA_RESUME_REPORTED, .help = "schedule-free AdamW: steps in which the learning rate grows to --lr") \
    R(FLOAT, double, SAME, "schedule-free-r", schedule_free_r, r, ANY, MEGA_READ_BY(SCHEDULE_FREE_ADAMW), .json = "optimizer.params.r", .fallback = "0.0", .resume = MEGA_RESUME_REPORTED, .help = "schedule-free AdamW: step k enters the average of weights in proportion to k to this power") \
    R(FLOAT, double, SAME, "schedule-free-weight-lr-power", schedule_free_weight_lr_power, weight_lr_power, NOT_NEGATIVE, MEGA_READ_BY(SCHEDULE_FREE_ADAMW), .json = "optimizer.params.weight_lr_power", .fallback = "2.0", .resume = MEGA_RESUME_REPORTED, .help = "schedule-free AdamW: and to the largest learning rate so far to this power") \
    R(INT, int64_t, SAME, "one-bit-adam-freeze-step", one_bit_adam_freeze_step, freeze_step, NOT_NEGATIVE, MEGA_READ_BY(ONE_BIT_ADAM), .json = "optimizer.params.freeze_step", .fallback = "100000", .most = (int64_t)1 << 40, .resume = MEGA_RESUME_REPORTED, .help = "1-bit Adam: steps of Adam before its second moment stays as it is and data-parallel ranks exchange one bit an element") \
    R(FLOAT, double, SAME, "lamb-max-coeff", lamb_max_coeff, max_coeff, POSITIVE, MEGA_READ_BY(LAMB), .json = "optimizer.params.max_coeff", .fallback = "10.0", .resume = MEGA_RESUME_REPORTED, .help = "largest trust ratio of Lamb: the norm of a tensor over that of its step") \
    R(FLOAT, double, SAME, "lamb-min-coeff", lamb_min_coeff, min_coeff, NOT_NEGATIVE, MEGA_READ_BY(LAMB), .json = "optimizer.params.min_coeff", .fallback = "0.01", .resume = MEGA_RESUME_REPORTED, .help = "smallest trust ratio of Lamb") \
    R(FLAG, bool, SAME, "lamb-eps-inside-sqrt", lamb_eps_inside_sqrt, eps_inside_sqrt, ANY, MEGA_READ_BY(LAMB), .json = "optimizer.params.eps_inside_sqrt", .resume = MEGA_RESUME_REPORTED, .help = "Lamb: the root of the second moment plus epsilon, instead of the root plus epsilon") \
    R(FLOAT, double, SAME, "muon-momentum", muon_momentum, muon_momentum, BELOW_ONE, MEGA_READ_BY(MUON), .fallback = "0.95", .resume = MEGA_RESUME_REPORTED, .help = "momentum of the matrices that Muon updates; in a DeepSpeed JSON it is momentum") \
    R(FLAG, bool, SAME, "muon-nesterov", muon_nesterov, muon_nesterov, ANY, MEGA_READ_BY(MUON), .resume = MEGA_RESUME_REPORTED, .help = "Nesterov's momentum for Muon; on where a DeepSpeed JSON chooses Muon") \
    R(OFF, bool, SAME, "muon-no-split-qkv", muon_split_qkv, muon_split, ANY, MEGA_READ_BY(MUON), .resume = MEGA_RESUME_REPORTED, .help = "Muon: Q, K and V of a projection are one matrix, instead of three; so it is where a DeepSpeed JSON chooses Muon") \
    R(INT, int64_t, SAME, "muon-num-ns-steps", muon_num_ns_steps, muon_steps, POSITIVE, MEGA_READ_BY(MUON), .fallback = "5", .most = 99, .resume = MEGA_RESUME_REPORTED, .help = "steps of Muon's Newton-Schulz iteration") \
    R(CHOICE, mega_muon_coefficients, SAME, "muon-coefficient-type", muon_coefficient_type, muon_coefficients, ANY, MEGA_READ_BY(MUON), .fallback = "quintic", .choices = "simple|quintic|polar_express|cans", .not_implemented = "aol", .resume = MEGA_RESUME_REPORTED, .help = "coefficients of this iteration; simple where a DeepSpeed JSON chooses Muon") \
    R(CHOICE, mega_muon_scale, SAME, "muon-scale-mode", muon_scale_mode, muon_scale, ANY, MEGA_READ_BY(MUON), .fallback = "spectral", .choices = "spectral|unit_rms_norm|shape_scaling", .resume = MEGA_RESUME_REPORTED, .help = "factor on Muon's update of a matrix [out, in]: the root of max(out, in), of out / in, or of max(1, out / in); the last where a DeepSpeed JSON chooses Muon") \
    R(FLOAT, double, SAME, "muon-extra-scale-factor", muon_extra_scale_factor, muon_extra_scale, NOT_NEGATIVE, MEGA_READ_BY(MUON), .fallback = "1.0", .resume = MEGA_RESUME_REPORTED, .help = "another factor on Muon's update") \
    R(FLOAT, double, RATE, "muon-lr", muon_lr, muon_lr, POSITIVE, MEGA_READ_BY(MUON), .json = "optimizer.params.muon_lr", .resume = MEGA_RESUME_SCHEDULE, .help = "Muon: the learning rate of matrices where the schedule is at --lr, with which it rises and falls; --lr when not given") \
    R(FLOAT, double, RATE, "adam-lr", adam_lr, adam_lr, POSITIVE, MEGA_READ_BY(MUON), .json = "optimizer.params.adam_lr", .resume = MEGA_RESUME_SCHEDULE, .help = "Muon: the same of everything else, which Adam updates")
// clang-format on

#endif
