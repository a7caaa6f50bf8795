/* What the check of a step decides. It is in device memory: the kernels of the optimizers read it there, so that no
 * host needs to wait between the check and the update. */
#ifndef MEGALITH_UPDATE_BLOCK_H
#define MEGALITH_UPDATE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

typedef enum mega_update_verdict {
    MEGA_UPDATE_IS_FINITE,
    MEGA_UPDATE_LOSS_IS_NOT_FINITE,
    MEGA_UPDATE_GRADIENT_IS_NOT_FINITE,
    MEGA_UPDATE_NUMBERS_ARE_WRONG /* a rate, a decay or a factor that no float holds, or a rate below 0 */
} mega_update_verdict;

/* What a schedule-free optimizer continues from update to update, all 0 before the first. */
enum { MEGA_CARRIED_LR_MAX, MEGA_CARRIED_WEIGHT_SUM, MEGA_UPDATE_CARRIED };

/* All members are double, so that it is an array too. The first three are the sums that the check looks at, as the
 * kernel of norms writes them, which sets them to 0 first; the others stay from step to step. */
typedef struct mega_update_block {
    double squares, zeros, not_finite; /* of the gradients in memory */
    double grad_norm;                  /* of the gradients of the step */
    double clip_factor;                /* min(1, clip / (grad_norm + 1e-6)) */
    double grad_factor;                /* by which an optimizer multiplies the gradients in memory */
    double updates;                    /* made so far, with this one: those that were refused do not count */
    double carried[MEGA_UPDATE_CARRIED];
    double verdict; /* mega_update_verdict */
} mega_update_block;

/* Whether an update must leave everything as it is. A verdict stays until the host sets it back. */
#define MEGA_UPDATE_IS_REFUSED(block) ((block) != NULL && (block)->verdict != 0.0)

/* The factor of a kernel that has a block and a factor of its own. */
#define MEGA_UPDATE_FACTOR(args) \
    ((args)->block != NULL ? (args)->block->grad_factor * (args)->grad_factor : (args)->grad_factor)

/* The factor for all gradients that clips their L2 norm at `clip`: clip / (norm + 1e-6) if that is below 1, otherwise
 * 1. clip 0: no clipping. */
double mega_clip_factor(double norm, double clip);

#endif
