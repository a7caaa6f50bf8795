/* A program: a compiled graph. Fixed instructions and a memory plan for one micro-batch, forward and backward. */
#ifndef MEGALITH_PROGRAM_H
#define MEGALITH_PROGRAM_H

#include "megalith/graph.h"
#include "megalith/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_program mega_program;
typedef enum mega_program_backend { MEGA_PROGRAM_CPU = 0, MEGA_PROGRAM_PLAIN } mega_program_backend;

enum { MEGA_PROGRAM_REQUESTS = 64 };

typedef struct mega_program_options {
    mega_program_backend backend;
    mega_team *team;    /* borrowed; NULL: one thread */
    bool differentiate; /* with a backward program */
    /* Gradients are those of a loss's sum times mega_step_block.loss_factor; else also divided by its weight. */
    bool per_token_loss;
    bool no_fusion; /* leave ops as described (tests compare both) */
    /* Weights that at least so many products of a micro-batch take in one orientation (recomputed ones apart) get room
     * to stay packed in, where mega_step_block.keeps_packed says so; 0: none. */
    int pack_weights;
    int slots; /* micro-batches in flight: saved arenas; 0 counts as 1 */
    /* Copies of what only passes through, in place of one a slot: outputs and gradients given or wanted that one phase
     * alone (forward or backward) touches. Slot s has copy s % passes. 0: each slot has its own. */
    int passes;
    const char *name;  /* "train", "evaluate", "prefill", "decode" */
    mega_world *world; /* borrowed, or NULL: what is under way between ranks moves on between instructions */
    int requests;      /* exchanges of buckets under way at one time, at most; 0: MEGA_PROGRAM_REQUESTS */
    mega_place_options place;
    /* Borrowed, or NULL: states (mega_graph_state) that this program has under the same name and with the same shape
     * are not made again but shared; it must be allocated before and destroyed after. Prefill and decode share their
     * caches this way. */
    mega_program *states_of;
} mega_program_options;

/* Takes the graph (also on failure). Runs the passes and the memory plan; nothing large is allocated yet. */
mega_status mega_program_build(mega_graph *g, const mega_program_options *options, mega_program **out);
/* Allocates the arenas and binds every instruction to its kernel and addresses; parameters must be allocated. */
mega_status mega_program_allocate(mega_program *p);
/* The same inside regions of the caller's, which outlive the program. `keep` is zero-filled and the program's own;
 * `work` holds nothing between the last backward and the next forward, so that programs that take turns with whole
 * micro-batches may share it; `turn` (nothing with one slot) nothing between any run and the next, so that programs
 * with micro-batches in flight at one time may share it. */
typedef struct mega_program_regions {
    size_t keep, work, turn; /* bytes */
} mega_program_regions;
mega_program_regions mega_program_region_bytes(const mega_program *p);
mega_status mega_program_allocate_in(mega_program *p, mega_region *keep, mega_region *work, mega_region *turn);
void mega_program_destroy(mega_program *p);

/* Memory of a named input, output or state; NULL when there is none of that name or slot, or no memory yet. Inputs
 * exist once per slot, but for those of mega_program_options.passes. */
void *mega_program_tensor(mega_program *p, const char *name, int slot);
size_t mega_program_tensor_bytes(const mega_program *p, const char *name); /* 0 when there is none of that name */
/* The named tensors of a program, from number 0 on; false: there are no more. */
typedef enum mega_program_role { MEGA_PROGRAM_INPUT, MEGA_PROGRAM_OUTPUT, MEGA_PROGRAM_STATE } mega_program_role;
typedef struct mega_program_named {
    const char *name; /* borrowed */
    mega_program_role role;
    mega_dtype dtype;
    int num_dims;
    int64_t dim[4];
    int64_t below; /* an input of indices, such as ids of a table: its values are 0 … below - 1; else 0 */
} mega_program_named;
bool mega_program_named_get(const mega_program *p, int number, mega_program_named *out);
/* The losses and metrics of a program (mega_loss_add) in their order, from number 0 on; false: there are no more. */
typedef struct mega_program_loss {
    const char *name; /* borrowed */
    double coefficient;
    const void *sum, *weight; /* [1] acc, valid from a forward of the slot to its next; NULL before there is memory */
} mega_program_loss;
bool mega_program_loss_get(const mega_program *p, int number, int slot, mega_program_loss *out);
/* The outputs that a model names (mega_output); false: the program has none of that name. */
typedef struct mega_program_output {
    mega_dtype dtype;
    int64_t count;
    bool takes_gradient;
    const void *value; /* valid from a forward of the slot to its next; NULL before there is memory */
} mega_program_output;
int mega_program_num_outputs(const mega_program *p);
bool mega_program_output_get(const mega_program *p, const char *name, int slot, mega_program_output *out);
/* Adds a loss of the caller's own to the coming backward of a slot, after its forward: the gradient of an output, of a
 * sum over the rows of this micro-batch whose weight is `weight`. It is multiplied by mega_step_block.loss_factor and
 * divided by the weight, as that of a mega_loss. A second gradient of one output replaces the first; the next forward
 * of the slot forgets all of them. MEGA_ERR_NOT_FOUND: no such output; MEGA_ERR_USAGE: count is not its size, or it
 * depends on no parameter. */
mega_status mega_program_output_gradient(mega_program *p, const char *name, int slot, const float *gradient,
                                         int64_t count, double weight);
/* Forgets the gradients that were given for the coming backward of a slot. After mega_program_allocate. */
void mega_program_forget_given(mega_program *p, int slot);
mega_dtype mega_program_acc_dtype(const mega_program *p); /* of outputs documented as "acc" */
mega_step_block *mega_program_step(mega_program *p);

/* Allocate nothing, decide no shape. A backward belongs to the last forward of its slot and may be run once: it reuses
 * what it has read. Without that forward it returns MEGA_ERR_USAGE, as both do before mega_program_allocate. In a
 * program without a backward nothing more is computed once the team of a rank of this host is asked to stop
 * (mega_team_stop_on; with MEGA_CHECK the run is finished): what it made means nothing then, and the caller asks all
 * ranks whether one was (mega_world_stops). */
mega_status mega_program_forward(mega_program *p, int slot);
mega_status mega_program_backward(mega_program *p, int slot);
/* Whether a step's first micro-batch (mega_step_block.first_micro_batch) overwrites the gradient of this parameter;
 * others are added to and must be zero before. */
bool mega_program_begins_gradient(const mega_program *p, int param);
/* Whether the program sums the gradients of this bucket over dp: with ZeRO 2 and 3 in every micro-batch, else in a
 * step's last one (mega_step_block.last_micro_batch). */
bool mega_program_reduces(const mega_program *p, int bucket);
mega_status mega_program_wait_reductions(mega_program *p); /* all of them are through */
/* While a program is watched, its runs look at the output of every instruction and go on after what is not finite; the
 * first such instruction is kept in *found (borrowed), until the caller sets it to -1 again. NULL: watched no more. */
typedef struct mega_nonfinite {
    int instruction;        /* -1: none yet */
    mega_error_record what; /* names op, tensor and scope */
} mega_nonfinite;
void mega_program_watch(mega_program *p, mega_nonfinite *found);
/* While a program is observed, its runs hand every value that an instruction made to this function. For tests that look
 * for the first instruction that differs between two layouts of ranks. NULL: observed no more. */
typedef struct mega_observed {
    const mega_program *program;
    int instruction;
    bool backward;
    bool is_partial; /* a partial sum: a collective adds up those of the ranks later */
    const char *op, *tensor;
    const void *data; /* [rows, cols]; valid during the call */
    mega_dtype dtype;
    int64_t rows, cols;
} mega_observed;
typedef void mega_observer(void *user, const mega_observed *made);
void mega_program_observe(mega_program *p, mega_observer *observer, void *user);

typedef struct mega_program_memory {
    size_t saved_bytes;   /* one slot */
    size_t scratch_bytes; /* shared by forward and backward */
    size_t input_bytes;   /* inputs and outputs, of all slots together */
    size_t state_bytes;   /* without states that another program shares */
    size_t packed_bytes;  /* weights that are kept packed */
    int slots;
    size_t total_bytes;
    size_t live_bytes;     /* the most that saved and scratch hold at one instruction: no plan does with less */
    size_t turn_bytes;     /* of scratch_bytes: what other programs may use between runs (mega_program_regions) */
    size_t turn_live;      /* of live_bytes: what lies in there */
    size_t bucket_bytes;   /* of scratch: the most that buckets of gradients on their way to slices hold (ZeRO 2, 3) */
    size_t gathered_bytes; /* of scratch: the most that gathered weights hold (ZeRO 3) */
    size_t head_bytes;     /* of scratch: the most that the head's chunks of logits and their gradients hold */
    size_t record_bytes;   /* of instructions, tensors and calls, on the heap; not part of total_bytes */
} mega_program_memory;
void mega_program_memory_get(const mega_program *p, mega_program_memory *out);
/* Floating-point operations of one micro-batch from the cost column (multiply-add = 2), recomputation apart. */
typedef struct mega_program_cost {
    double forward_flops, backward_flops, recompute_flops, bytes;
} mega_program_cost;
void mega_program_cost_get(const mega_program *p, mega_program_cost *out);
/* The program as a table that a person can read. */
mega_status mega_program_print(const mega_program *p, mega_buffer *out);
/* Collective over comm: whether its ranks will make the same calls. If not, every rank fails with the first that
 * differs, by rank. */
mega_status mega_program_compare_collectives(const mega_program *p, mega_comm *comm);
int mega_program_num_instructions(const mega_program *p, bool backward);

#ifdef __cplusplus
}
#endif

#endif
