/* The optimizer's record, and what the update program (update_run.c) does with it. */
#ifndef MEGALITH_OPTIMIZER_IMPL_H
#define MEGALITH_OPTIMIZER_IMPL_H

#include "megalith/kernels.h"
#include "optimizer_row.h"
#include "whole_tensors.h"

/* Consecutive elements of the flat buffers, inside one bucket, that one kernel call processes. */
typedef struct optimizer_span {
    int64_t begin, end;
    int bucket;
    int group;        /* of the optimizer's groups */
    int tensor;       /* whose number this is, if the span is (a piece of) a whole tensor; -1: it is not */
    int64_t state_at; /* Muon: where its states begin, in the states of matrices or in those of the rest */
} optimizer_span;

struct mega_optimizer {
    mega_optimizer_options options;
    mega_params *params;
    const mega_layout *layout;
    optimizer_span *update, *counted; /* what this rank updates; what it counts in norms */
    int num_update, num_counted;
    int64_t walked; /* elements of the counted spans of all ranks of dp, on the first that has slices of them */
    void *moment[MEGA_OPTIMIZER_STATES];
    bool is_allocated;
    bool is_lent; /* the memory of the device is in a region of the caller's */
    const mega_optimizer_row *row;
    const optimizer_builtin *builtin;   /* whose row this is; NULL: it is the caller's */
    double option[OPTIMIZER_ARGUMENTS]; /* of a built-in row */
    bool shows_average;                 /* average.c */
    optimizer_work *work;               /* [num_update] */
    whole_tensor *tensor;               /* of an optimizer that needs whole tensors */
    int num_tensors;
    tensor_group tensors_of[TENSOR_GROUPS]; /* ... cut by the ranks that hold them: all, and experts that ep divides */
    mega_update_group *group;               /* [groups] of spans with the same rate and decay */
    int groups;
    double carried[MEGA_UPDATE_CARRIED]; /* with `updates`, the host's copy of what the block has: see update_check.c */
    /* of the device */
    void *tensor_sum;   /* Lamb: double[num_tensors][2] squares of the parameter and of its step, then a trust ratio */
    void *chunk_sum;    /* Lamb: scratch of the first pass */
    void *state_sum;    /* of optimizer_states.c */
    void *block;        /* mega_update_block: what the check of a step decides, and the count of updates */
    void *groups_there; /* the groups, for the kernel of numbers */
    void *number;       /* double[formulas][groups][MEGA_FORMULA_NUMBERS]: what the kernel of numbers makes of a step */
    int64_t of_matrices, rest; /* Muon: elements of the states of matrices, and of the rest, on this rank */
    void *wide;   /* float[optimizer_piece], of the device: gradients held in 16 bits, widened (optimizer_pieces.c);
                     NULL: there are none */
    char *copies; /* of a piece that the caller's row updates, where the host cannot do so in place; else NULL */
    void *norm_scratch; /* of the device */
    size_t norm_scratch_bytes;
    int64_t updates;
};

/* optimizer.c. Runs a kernel in the optimizer's queue. */
void optimizer_run(const mega_optimizer *o, mega_kernel_id id, const void *args);
/* Returns MEGA_ERR_USAGE unless weights and gradients have memory. */
mega_status optimizer_check_params(const mega_optimizer *o, const char *call);
/* Returns the address of an element of the buckets in the memory of a state. */
void *optimizer_state_at(const mega_optimizer *o, int state, int bucket, int64_t element);
/* Updates span i; call has the numbers of the step: lr, weight_decay, grad_factor, update. */
void optimizer_span_update(mega_optimizer *o, int i, const mega_optimizer_call *call);
/* Makes the numbers of the update that the check has just counted, on the device. */
void optimizer_make_numbers(mega_optimizer *o, double lr, double weight_decay);
/* Before the update of an optimizer that needs whole tensors: its states of span i (lamb.c, muon.c). */
void optimizer_span_prepare(mega_optimizer *o, int i, const mega_optimizer_call *call);
optimizer_scope optimizer_scope_of(const mega_optimizer *o);
/* Computes state 0 of span i, of which the exchange takes the mean. */
void optimizer_span_momentum(mega_optimizer *o, int i, const mega_optimizer_call *call);
bool optimizer_compresses(const mega_optimizer *o);
/* Returns whether this update exchanges momenta instead of gradients. */
bool optimizer_is_compressed(const mega_optimizer *o, int64_t update);
/* Updates what this rank owns of a buffer (mega_param.is_buffer): kept * it + added * the sum of this step. */
void optimizer_update_buffer(mega_optimizer *o, int param, double kept, double added);
/* The same of a bias of the choice of experts: it + buffer_rate * sign(mean - the counts of this step). */
void optimizer_update_choice_bias(mega_optimizer *o, int param, double mean);

/* Gives the device the host's copy of the count of updates and of what is carried, after a change. */
void optimizer_write_counts(const mega_optimizer *o);

/* average.c. Returns whether state 0 has the weights of the evaluation, and the masters those of the training. */
bool optimizer_trains_apart(const mega_optimizer *o);

mega_status optimizer_load(const mega_optimizer *o); /* optimizer_load.c: the kernels of a GPU */

/* optimizer_pieces.c. A piece has whole chunks of Lamb, so that its sums do not depend on the type of gradients. On a
 * host it stays in the cache; on a GPU it is large, for each piece is a launch. */
enum { OPTIMIZER_PIECE = 1 << 17, OPTIMIZER_GPU_PIECE = 1 << 24 };
int64_t optimizer_piece(const mega_optimizer *o);     /* elements of one of gradients held in 16 bits */
size_t optimizer_wide_bytes(const mega_optimizer *o); /* of o->wide */
bool optimizer_is_held_in_half(const mega_optimizer *o, int bucket);
/* Returns `count` gradients (at most a piece) in float, valid until the next call. */
const void *optimizer_widen(mega_optimizer *o, int bucket, int64_t element, int64_t count);
/* Calls `on` with the work of span i: once with all of it, or with each piece, whose gradients are widened. */
typedef void optimizer_on_work(mega_optimizer *o, int i, const optimizer_work *w);
void optimizer_each_piece(mega_optimizer *o, int i, optimizer_on_work *on);
/* Runs the caller's row, which is the host's: in place, or on copies of a piece of the elements after another. */
void optimizer_run_on_host(mega_optimizer *o, const optimizer_work *w);
size_t optimizer_copies_bytes(const mega_optimizer *o); /* of o->copies */

/* optimizer_spans.c. Cuts the flat buffers into the spans of this rank. Pure functions of the records and the
 * layout. */
mega_status optimizer_cut_spans(mega_optimizer *o);
/* Returns whether this rank counts the parameter in norms, so that each counts once over the whole model. */
bool optimizer_is_counted(const mega_optimizer *o, const mega_param *p);
/* Returns whether this rank counts what is not of a slice of the bucket but of all of them. */
bool optimizer_has_first_slice(const mega_optimizer *o, int bucket);

size_t optimizer_states_bytes(const mega_optimizer *o); /* optimizer_states.c: of o->state_sum */

/* lamb.c */
void lamb_begin(mega_optimizer *o);
void lamb_prepare(mega_optimizer *o, int i);
void lamb_update(mega_optimizer *o, int i);

/* muon.c */
void muon_prepare(mega_optimizer *o, int i); /* the momentum; a matrix's gradient becomes what is orthogonalized */
void muon_update(mega_optimizer *o, int i);  /* the gradient is the orthogonalized matrix */

/* optimizer_norm.c. Three sums as the kernel of norms writes them: squares, zeros, values that are not finite. */
size_t optimizer_norm_scratch(const mega_optimizer *o);
typedef void *optimizer_numbers_at(const mega_params *params, int bucket, int64_t element);
/* Sets the sums of the block to what they are before the first span: the padding, which is no zero gradient, is taken
 * off. */
void optimizer_norm_begin(mega_optimizer *o);
void optimizer_norm_add_gradients(mega_optimizer *o, int span); /* to the sums of the block */
mega_norm_result optimizer_norm_result(const double sum[3]);
/* On a device, collective over the world: returns the failure of any rank's device, after all have read from it. */
mega_status optimizer_agree_read(const mega_optimizer *o);

#endif
