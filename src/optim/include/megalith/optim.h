/* The optimizer (AdamW, SGD, or a row of the caller) over the flat buffers of the parameters.
 *
 * Only the parameter records decide which elements get weight decay and which count in a norm. Consecutive parameters
 * with the same answer are processed together, with one kernel call. Updates are made by the update program
 * (update.h). */
#ifndef MEGALITH_OPTIM_H
#define MEGALITH_OPTIM_H

#include "megalith/backend_kind.h"
#include "megalith/comm.h"
#include "megalith/custom_optimizer.h"
#include "megalith/memory.h"
#include "megalith/op_types.h"
#include "megalith/optimizer_arguments.h"
#include "megalith/parameter.h"
#include "megalith/status.h"
#include "megalith/threads.h"

typedef struct mega_optimizer mega_optimizer;
typedef enum mega_optimizer_kind {
    MEGA_OPTIMIZER_ADAM,
    MEGA_OPTIMIZER_SGD,
    MEGA_OPTIMIZER_ADAGRAD,
    MEGA_OPTIMIZER_LION,
    MEGA_OPTIMIZER_ADEMAMIX,
    MEGA_OPTIMIZER_SCHEDULE_FREE_ADAMW,
    MEGA_OPTIMIZER_LAMB,
    MEGA_OPTIMIZER_MUON,
    MEGA_OPTIMIZER_ONE_BIT_ADAM,
    MEGA_OPTIMIZER_KINDS
} mega_optimizer_kind;

/* Coefficients of Muon's Newton-Schulz iteration, with the names of Megatron-LM. */
typedef enum mega_muon_coefficients {
    MEGA_MUON_SIMPLE,
    MEGA_MUON_QUINTIC,
    MEGA_MUON_POLAR_EXPRESS,
    MEGA_MUON_CANS
} mega_muon_coefficients;

/* The factor on Muon's update of a matrix [out, in]. */
typedef enum mega_muon_scale {
    MEGA_MUON_SPECTRAL,      /* sqrt(max(out, in)) */
    MEGA_MUON_UNIT_RMS_NORM, /* sqrt(out / in) */
    MEGA_MUON_SHAPE_SCALING  /* sqrt(max(1, out / in)) */
} mega_muon_scale;

/* Its members are those of the list in optimizer_arguments.h: the help of a row says what its member is. The members
 * of rates, muon_lr and adam_lr, are factors on the learning rate; 0 means 1. */
typedef struct mega_optimizer_options {
    mega_optimizer_kind kind;
    const mega_optimizer_row *row; /* the caller's optimizer, used instead of kind; NULL: none */
#define MEGA_ARGUMENT(kind, type, taken, name, setting, member, ...) type member;
    MEGA_OPTIMIZER_ARGUMENTS(MEGA_ARGUMENT)
#undef MEGA_ARGUMENT
    mega_backend_kind backend;
    mega_queue queue; /* in which they run; without a team on one thread */
} mega_optimizer_options;

/* Returns the name in --optimizer and in checkpoints, such as "adam"; "unknown" for a number that is no kind. */
const char *mega_optimizer_kind_name(mega_optimizer_kind kind);
/* Whether the optimizer has beta1 and beta2. */
bool mega_optimizer_kind_has_betas(mega_optimizer_kind kind);
/* Whether ranks of dp exchange compressed momenta instead of gradients: not with ZeRO, nor during the backward pass. */
bool mega_optimizer_kind_compresses(mega_optimizer_kind kind);
/* params must be placed and must outlive the optimizer; so must layout. Nothing large is allocated. */
mega_status mega_optimizer_create(mega_params *params, const mega_layout *layout, const mega_optimizer_options *options,
                                  mega_optimizer **out);
void mega_optimizer_destroy(mega_optimizer *o);
size_t mega_optimizer_bytes(const mega_optimizer *o); /* bytes of moments and scratch, also before they are allocated */
/* Allocates the moments, all 0; the parameters must be allocated. */
mega_status mega_optimizer_allocate(mega_optimizer *o);
/* The same, but what is the device's is in a zero-filled region of the caller, which must outlive the optimizer. */
size_t mega_optimizer_region_bytes(mega_optimizer *o);
mega_status mega_optimizer_allocate_in(mega_optimizer *o, mega_region *region);

/* Moments are tensors that follow a parameter's record (a buffer's mean nothing): "exp_avg" and "exp_avg_sq" for Adam,
 * "momentum_buffer" for SGD (torch's names), the states of a row. They have the acc dtype and mega_params_owned
 * elements of the parameter; NULL for a parameter that has none of this name: a frozen one, and with Muon a matrix has
 * only a "momentum_buffer", which the rest does not have. */
int mega_optimizer_num_moments(const mega_optimizer *o);
/* Whether parameters with this record have the moment; the record may be that of another rank. */
bool mega_optimizer_has_moment(const mega_optimizer *o, int moment, const mega_param *p);
const char *mega_optimizer_moment_name(const mega_optimizer *o, int moment);
/* Returns how many elements of a parameter this rank has without ZeRO, not counting padding rows of a vocabulary, which
 * come last. */
int64_t mega_optimizer_real_elements(const mega_optimizer *o, int param);
void *mega_optimizer_moment(const mega_optimizer *o, int moment, int param);
/* Get and set the number of updates made so far, the k of Adam's bias correction. Set it when moments are loaded. */
int64_t mega_optimizer_updates(const mega_optimizer *o);
void mega_optimizer_set_updates(mega_optimizer *o, int64_t updates);

typedef struct mega_norm_result {
    double norm;   /* L2 norm over the whole model, every element counted once */
    int64_t zeros; /* elements that are exactly 0; padding rows of the vocabulary not counted */
    bool finite;   /* every element */
} mega_norm_result;
/* Computes the norm of the masters. Collective over tp and pp, with ZeRO also over dp; on a device over the world, as
 * ranks agree whether it could be read. */
mega_status mega_optimizer_params_norm(mega_optimizer *o, mega_norm_result *out);
/* Norms of the states over the whole model, each element counted once: what --log-optimizer-states-to-tensorboard
 * writes. The variance is exp_avg_sq, the momentum exp_avg, of a matrix with Muon and with SGD momentum_buffer; the
 * weights are the masters. */
typedef enum mega_state_kind {
    MEGA_STATE_VARIANCE,
    MEGA_STATE_VARIANCE_SQRT,
    MEGA_STATE_MOMENTUM,
    MEGA_STATE_WEIGHT,
    MEGA_STATE_KINDS
} mega_state_kind;
typedef struct mega_state_norms {
    double l2[MEGA_STATE_KINDS], l1[MEGA_STATE_KINDS], abs_max[MEGA_STATE_KINDS];
} mega_state_norms;
bool mega_optimizer_has_state(const mega_optimizer *o, mega_state_kind kind);
/* Collective as mega_optimizer_params_norm. Weights and moments must be allocated. */
mega_status mega_optimizer_state_norms(mega_optimizer *o, mega_state_norms *out);
/* The first parameter held here whose gradient has an element that is not finite, or -1. */
int mega_optimizer_find_nonfinite(mega_optimizer *o);
/* The norm of `count` elements of one tensor of this rank: of its masters, gradients or moments. */
mega_norm_result mega_optimizer_look(mega_optimizer *o, const void *x, int64_t count);

/* Sets all gradients to 0. */
void mega_optimizer_zero_gradients(mega_optimizer *o);
/* The same, except for parameters i with skip[i]. */
void mega_optimizer_zero_gradients_but(mega_optimizer *o, const bool *skip);
/* Sets beta1 and beta2 for the next updates. MEGA_ERR_USAGE where one is not 0 or more and below 1. */
mega_status mega_optimizer_set_betas(mega_optimizer *o, double beta1, double beta2);

/* Parameter groups as Megatron counts them, for the log. */
typedef struct mega_optimizer_groups {
    int decayed, not_decayed;                       /* parameters */
    int64_t decayed_elements, not_decayed_elements; /* of this rank */
} mega_optimizer_groups;
void mega_optimizer_groups_get(const mega_optimizer *o, mega_optimizer_groups *out);

#endif
