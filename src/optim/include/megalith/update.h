/* The end of a training step as a program: one flat list of instructions, made once, that sums gradients and losses
 * over the ranks, checks them, updates the parameters and publishes their new weights. The forward and backward
 * programs (program.h) come before it.
 *
 * It has two parts. MEGA_UPDATE_SUMS makes complete gradients and losses of those that each rank computed;
 * MEGA_UPDATE_APPLY computes their norm, checks them and updates. In between a caller may read or change gradients. */
#ifndef MEGALITH_UPDATE_H
#define MEGALITH_UPDATE_H

#include "megalith/exchange_order.h"
#include "megalith/kernels.h"
#include "megalith/optim.h"
#include "megalith/profile.h"
#include "megalith/program.h"

typedef struct mega_update mega_update;
typedef enum mega_update_part { MEGA_UPDATE_SUMS, MEGA_UPDATE_APPLY } mega_update_part;

/* A parameter that several pipeline stages hold. Each computes a part of its gradient, which is the sum of all. */
typedef struct mega_update_tie {
    int param;
    mega_members stages;
} mega_update_tie;

typedef struct mega_update_options {
    const mega_update_tie *tie; /* in the same order on all stages; borrowed */
    int ties;
    /* [buckets] whether the backward programs sum the gradients of a bucket over dp; NULL: none. Read at creation. */
    const bool *is_reduced;
    /* elements of the buffer in which small partial gradients are summed over tp together; 0: 2^18 */
    int64_t packed_elements;
    bool records; /* on a GPU of one rank, what follows the check and what precedes it are graphs, where they can be */
    int num_sums; /* numbers in mega_update_step.sum */
    mega_world *world; /* borrowed; gathers in progress advance between instructions. NULL: they do not */
} mega_update_options;

enum { MEGA_UPDATE_NUMBERS = 32 };

/* The step block of the update: the numbers of one step that its instructions read and write. */
typedef struct mega_update_step {
    double sum[MEGA_UPDATE_NUMBERS]; /* of losses and their weights; MEGA_UPDATE_SUMS sums them over dp and pp */
    /* read by MEGA_UPDATE_APPLY */
    double loss;       /* of the step; only whether it is finite matters */
    double correction; /* factor from the numbers in memory to the gradients */
    /* sums not NULL (mega_update_can_defer_check): instead of `loss`. The check is then not waited for: what is written
     * below, and `sum`, is there when all has been done, of which a verdict that is bad undoes nothing. */
    mega_check_losses losses;
    /* With losses.sums: mega_update_run does not wait for these either. mega_update_ask asks for them after it, and
     * mega_update_answer, which may come when a later update was run, writes them. */
    bool is_late;
    double clip; /* global norm above which gradients are scaled down; 0: no clipping */
    double lr, weight_decay;
    int64_t samples,
        expected_samples; /* of this step, over all ranks of dp; those for which ops scaled sums of buffers */
    int64_t tokens;       /* positions of `samples`; read for biases of the choice of experts alone */
    /* written by MEGA_UPDATE_APPLY, alike on all ranks */
    mega_norm_result norm; /* of the gradients in memory */
    double grad_norm;      /* of the gradients */
    double clip_factor, grad_factor;
    int64_t update; /* number of this update, from 1 */
    mega_update_verdict verdict;
    /* The last run of MEGA_UPDATE_APPLY failed on this rank, and not in its check, on which ranks agree: others may
     * have begun exchanges that this rank has not, so the world has to end (mega_world_abort). */
    bool is_cut;
} mega_update_step;

/* Makes the program. optimizer, its parameters and its layout must outlive it. Nothing large is allocated. */
mega_status mega_update_create(mega_optimizer *optimizer, const mega_update_options *options, mega_update **out);
void mega_update_destroy(mega_update *u);
/* Memory that mega_update_run needs besides gradients and moments. mega_update_allocate borrows it. */
size_t mega_update_scratch_bytes(const mega_update *u); /* NULL: 0 */
void mega_update_allocate(mega_update *u, void *scratch);
mega_update_step *mega_update_step_block(mega_update *u);
/* Whether all that follows the check is work of kernels, which a bad verdict holds off: on one rank, with an optimizer
 * of the library. */
bool mega_update_can_defer_check(const mega_update *u);
int mega_update_num_instructions(const mega_update *u);
/* Collective over comm. As mega_program_compare_collectives, of the instructions that communicate. */
MEGA_CHECK_RESULT mega_status mega_update_compare(const mega_update *u, mega_comm *comm);
/* Adds what it does over the stages of a pipeline to the order. */
void mega_update_list(const mega_update *u, mega_order *order);
/* The graphs that a GPU records of it; none without options.records. NULL: none. */
mega_program_graphs mega_update_graphs_get(const mega_update *u);
/* Collective over the groups of its instructions. Runs one part; allocates nothing. Weights and gradients must be
 * allocated, and the optimizer. MEGA_UPDATE_APPLY stops after the check if the verdict is not MEGA_UPDATE_IS_FINITE:
 * nothing was updated or counted, and it returns MEGA_OK, but MEGA_ERR_USAGE for MEGA_UPDATE_NUMBERS_ARE_WRONG: a
 * learning rate below 0, or numbers that are not finite in the step block. */
mega_status mega_update_run(mega_update *u, mega_update_part part);
/* For an update that is_late. mega_update_answer returns what the device has failed with; a verdict is no error. */
void mega_update_ask(mega_update *u);
MEGA_CHECK_RESULT mega_status mega_update_answer(mega_update *u);
/* After a verdict that is not MEGA_UPDATE_IS_FINITE all later updates change nothing and have the same verdict, until
 * this call. So a host that learns of a failed update late finds everything as it was before that one. */
void mega_update_clear(mega_update *u);

/* The gathers of new weights may still be in progress when mega_update_run returns. These calls wait for them: a
 * forward for those of a bucket just before it reads them, everything else for all. Collective in the sense of
 * mega_comm_wait: the other ranks must get there too, at any time. */
int mega_update_pending(const mega_update *u); /* number of gathers in progress; NULL: 0 */
mega_status mega_update_wait_bucket(mega_update *u, int bucket);
mega_status mega_update_wait(mega_update *u); /* for all; NULL: nothing */

/* Records all later runs in the profile (borrowed): each instruction, with its kind as the name and its bucket as the
 * scope. The time of one that communicates is the time for which this rank waits. NULL stops recording. */
void mega_update_profile(mega_update *u, mega_profile *profile);

/* Writes a table with one line for each instruction: what it does, over the ranks of which axis, its bucket, its
 * elements on this rank, its cost, and its parameters. */
mega_status mega_update_print(const mega_update *u, mega_buffer *out);
typedef struct mega_update_cost {
    double bytes, sent; /* read and written in memory; sent to other ranks */
    double flops;       /* of matrix products: Muon's */
} mega_update_cost;
void mega_update_cost_get(const mega_update *u, mega_update_cost *out); /* of all instructions on this rank */

#endif
