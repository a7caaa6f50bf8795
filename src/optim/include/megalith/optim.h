/* The optimizer: AdamW or SGD over the flat buffers of the parameters.
 *
 * Which elements get weight decay and which count in a norm follows from the parameter records alone. The flat buffers
 * are walked in runs of consecutive parameters that share an answer, one kernel call a run. */
#ifndef MEGALITH_OPTIM_H
#define MEGALITH_OPTIM_H

#include "megalith/comm.h"
#include "megalith/custom_optimizer.h"
#include "megalith/memory.h"
#include "megalith/parameter.h"
#include "megalith/status.h"
#include "megalith/threads.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_optimizer mega_optimizer;
typedef enum mega_optimizer_kind { MEGA_OPTIMIZER_ADAM, MEGA_OPTIMIZER_SGD } mega_optimizer_kind;

typedef struct mega_optimizer_options {
    mega_optimizer_kind kind;
    const mega_optimizer_row *row; /* takes the place of kind; NULL: none */
    double beta1, beta2, eps;      /* Adam */
    bool l2;                       /* Adam: weight decay is added to the gradient, as in PyTorch's Adam; else AdamW */
    double momentum;               /* SGD */
    bool plain;                    /* run the plain kernels, the definition of the update (always so for f64) */
    mega_team *team;               /* borrowed; NULL: one thread */
} mega_optimizer_options;

/* params must be placed and must outlive the optimizer; so must layout. Nothing large is allocated. */
mega_status mega_optimizer_create(mega_optimizer **out, mega_params *params, const mega_layout *layout,
                                  const mega_optimizer_options *options);
void mega_optimizer_destroy(mega_optimizer *o);
size_t mega_optimizer_bytes(const mega_optimizer *o);   /* of the moments and scratch, allocated or not */
mega_status mega_optimizer_allocate(mega_optimizer *o); /* zero moments; the parameters must be allocated */
/* The same inside a zero-filled region of the caller's, which outlives the optimizer. */
size_t mega_optimizer_region_bytes(const mega_optimizer *o);
mega_status mega_optimizer_allocate_in(mega_optimizer *o, mega_region *region);

/* Moments are tensors that follow a parameter's record (a buffer's mean nothing): "exp_avg" and "exp_avg_sq" for Adam,
 * "momentum_buffer" for SGD (torch's names), the states of a row. Acc dtype, mega_params_owned of the parameter;
 * NULL of a frozen one, which has none. */
int mega_optimizer_num_moments(const mega_optimizer *o);
const char *mega_optimizer_moment_name(const mega_optimizer *o, int moment);
void *mega_optimizer_moment(const mega_optimizer *o, int moment, int param);
/* Updates made so far: the k of Adam's bias correction. Set when moments are loaded. */
int64_t mega_optimizer_updates(const mega_optimizer *o);
void mega_optimizer_set_updates(mega_optimizer *o, int64_t updates);

typedef struct mega_norm_result {
    double norm;   /* L2 over the whole model, every element once */
    int64_t zeros; /* elements that are exactly 0; padding rows of the vocabulary not counted */
    bool finite;   /* every element */
} mega_norm_result;
/* Collective: tp and pp, with ZeRO dp too. */
mega_status mega_optimizer_gradient_norm(mega_optimizer *o, mega_norm_result *out);
mega_status mega_optimizer_params_norm(mega_optimizer *o, mega_norm_result *out);
/* The first parameter held here whose gradient has an element that is not finite, or -1. */
int mega_optimizer_find_nonfinite(mega_optimizer *o);
/* The norm of `count` elements of one tensor of this rank: of its masters, gradients or moments. */
mega_norm_result mega_optimizer_look(mega_optimizer *o, const void *x, int64_t count);

/* Factor on all gradients for clipping at L2 norm `clip`: clip / (norm + 1e-6) where that is below 1, else 1. clip 0:
 * no clipping. */
double mega_clip_factor(double norm, double clip);

/* All gradients become 0. */
void mega_optimizer_zero_gradients(mega_optimizer *o);
/* The same without those of parameters i with skip[i]. */
void mega_optimizer_zero_gradients_but(mega_optimizer *o, const bool *skip);
/* One update with the gradients times grad_factor; writes masters and compute weights. Allocates nothing. Returns
 * MEGA_ERR_USAGE before mega_optimizer_allocate. */
mega_status mega_optimizer_update(mega_optimizer *o, double lr, double weight_decay, double grad_factor);

/* The buffers of the parameters (mega_param.is_buffer) that ops sum up, after a step of so many samples of all ranks of
 * dp, where the ops weighed theirs for a step of `expected` samples: the sums are added to what is left of the buffers.
 * Norms, updates and moments leave buffers out. */
mega_status mega_optimizer_update_buffers(mega_optimizer *o, int64_t samples, int64_t expected);

/* Parameter groups as Megatron counts them, for a line to the user. */
typedef struct mega_optimizer_groups {
    int decayed, not_decayed;                       /* parameters */
    int64_t decayed_elements, not_decayed_elements; /* of this rank */
} mega_optimizer_groups;
void mega_optimizer_groups_get(const mega_optimizer *o, mega_optimizer_groups *out);

#ifdef __cplusplus
}
#endif

#endif
