/* A program: a compiled graph. It has a fixed list of instructions and a memory plan, for the forward and backward of
 * one micro-batch. */
#ifndef MEGALITH_PROGRAM_H
#define MEGALITH_PROGRAM_H

#include "megalith/graph.h"
#include "megalith/kernels.h"

typedef struct mega_program mega_program;

enum { MEGA_PROGRAM_REQUESTS = 64 };

typedef struct mega_program_options {
    mega_backend_kind backend;
    mega_team *team;    /* borrowed; NULL: run on one thread */
    bool differentiate; /* also build a backward program */
    /* Gradients are those of the sum of a loss times mega_step_block.loss_factor. If false, they are also divided by
     * the weight of the loss. */
    bool per_token_loss;
    bool no_fusion; /* do not fuse ops (tests compare both ways) */
    /* A weight that at least this many GEMMs of a micro-batch read in one orientation, not counting recomputed ones,
     * gets a buffer for its packed form. It is used while mega_step_block.keeps_packed is set. 0: no weight gets
     * one. */
    int pack_weights;
    bool may_use_library; /* a device may let a library multiply matrices: for the number of recordings in a plan */
    bool records; /* a device records the launches of a run and replays them: with the same bits, and less work of the
                     host. Host kernels run one by one in any case */
    int slots;    /* micro-batches in flight, each with its own saved arena; 0 means 1 */
    /* Number of buffers, instead of one per slot, for outputs and for given or requested gradients that only one phase
     * (forward or backward) reads or writes. Slot s uses buffer s % passes. 0: each slot has its own. */
    int passes;
    const char *name;  /* "train", "evaluate", "prefill", "decode" */
    mega_world *world; /* borrowed or NULL; polled between instructions, so that communication in progress advances */
    int requests;      /* the most bucket exchanges in progress at one time; 0: MEGA_PROGRAM_REQUESTS */
    mega_place_options place;
    /* Borrowed or NULL. A state (mega_graph_state) that this other program has under the same name and with the same
     * shape is shared with it, slot by slot, not allocated again. The other program must have as many slots, be
     * allocated before this one and destroyed after it. Prefill and decode share their caches this way. */
    mega_program *states_of;
} mega_program_options;

/* Takes ownership of the graph, also on failure. Runs the passes and plans memory, but allocates nothing large. */
mega_status mega_program_build(mega_graph *g, const mega_program_options *options, mega_program **out);
/* Allocates the arenas and binds every instruction to its kernel and addresses. Parameters must be allocated. */
mega_status mega_program_allocate(mega_program *p);
/* Like mega_program_allocate, but inside regions of the caller, which must outlive the program. `resident` must be
 * zero-filled and belongs to this program alone. `workspace` holds no data between the last backward and the next
 * forward, so that programs that alternate after whole micro-batches may share it. `shared` holds no data between two
 * runs, so that programs may share it even while each has micro-batches in flight; with one slot it is empty.
 *
 *     resident    | inputs and outputs of each slot | what passes, of each pass | states | packed weights |
 *     workspace   | saved activations of each slot |  and with one slot: | scratch |
 *     shared      | scratch |  with several slots */
typedef struct mega_program_regions {
    size_t resident, workspace, shared; /* bytes */
} mega_program_regions;
mega_program_regions mega_program_region_bytes(const mega_program *p);
mega_status mega_program_allocate_in(mega_program *p, mega_region *resident, mega_region *workspace,
                                     mega_region *shared);
void mega_program_destroy(mega_program *p);

/* Returns the memory of a named input, output or state, or NULL if the name or slot does not exist or memory is not
 * allocated yet. It is the device's: written with mega_device_write, and read with mega_device_read. Each slot has its
 * own inputs and states, except those that mega_program_options.passes covers. */
void *mega_program_tensor(mega_program *p, const char *name, int slot);
size_t mega_program_tensor_bytes(const mega_program *p, const char *name); /* 0 if the name does not exist */
/* The named tensors of a program, numbered from 0; mega_program_named_get returns false after the last. */
typedef enum mega_program_role { MEGA_PROGRAM_INPUT, MEGA_PROGRAM_OUTPUT, MEGA_PROGRAM_STATE } mega_program_role;
typedef struct mega_program_named {
    const char *name; /* borrowed */
    mega_program_role role;
    mega_dtype dtype;
    int num_dims;
    int64_t dim[4];
    int64_t below; /* for an input of indices, such as ids of a table: its values are 0 … below - 1; else 0 */
    /* For an input of labels: of how many classes (else 0), which label counts for no row, the name of the input of
     * their rows' weights, or NULL, whether these become 0 in rows of the ignored label before the program reads them,
     * and whether the program itself looks for labels that are no classes (mega_program_wrong_labels). */
    int64_t classes;
    int32_t ignored;
    const char *weights;
    bool leaves_out, is_checked_by_op;
} mega_program_named;
bool mega_program_named_get(const mega_program *p, int number, mega_program_named *out);
/* Labels outside of the classes, in rows whose weight is not 0. */
typedef struct mega_program_mistake {
    const char *labels;    /* the name of their tensor; borrowed */
    bool is_input;         /* or a part of an input */
    int64_t wrong, rows;   /* how many labels are wrong, of how many */
    int64_t row, all_rows; /* row of the first wrong label in the tensor; how many the tensor has */
    int64_t classes;
    int32_t label, ignored; /* that label; the one that is ignored */
} mega_program_mistake;
/* Returns whether the last forward of a slot found one: labels that it computes, or whose rows it weighs. Waits
 * for that forward, if the program has such labels. */
bool mega_program_wrong_labels(const mega_program *p, int slot, mega_program_mistake *out);
/* The losses and metrics of a program in the order of mega_loss_add, numbered from 0; mega_program_loss_get returns
 * false after the last. */
typedef struct mega_program_loss {
    const char *name; /* borrowed */
    double coefficient;
    bool is_of_layers;        /* mega_layer_loss_add: programs of other layers may add to it */
    const void *sum, *weight; /* [1] in the acc dtype, on the device (mega_device_read), valid from one forward of the
                                 slot until the next; NULL before allocation */
} mega_program_loss;
bool mega_program_loss_get(const mega_program *p, int number, int slot, mega_program_loss *out);
/* The outputs that a model names (mega_output). mega_program_output_get returns false if the program has none of that
 * name. */
typedef struct mega_program_output {
    mega_dtype dtype;
    int64_t count;
    bool takes_gradient;
    const void *value; /* on the device; valid from one forward of the slot until the next; NULL before allocation */
} mega_program_output;
int mega_program_num_outputs(const mega_program *p);
bool mega_program_output_get(const mega_program *p, const char *name, int slot, mega_program_output *out);
/* Adds a loss that the caller computes to the next backward of a slot: `gradient` is that of a sum over the rows of
 * this micro-batch with respect to the output. Call it after the forward. Like the gradient of a mega_loss, it is
 * multiplied by mega_step_block.loss_factor and divided by `weight`. A second gradient for the same output replaces the
 * first, and the next forward of the slot discards all of them. Returns MEGA_ERR_NOT_FOUND if there is no such output,
 * and MEGA_ERR_USAGE if count is not its number of elements or if it depends on no parameter. */
mega_status mega_program_output_gradient(mega_program *p, const char *name, int slot, const float *gradient,
                                         int64_t count, double weight);
/* Discards the gradients that were given for the next backward of a slot. Call it after mega_program_allocate. */
void mega_program_forget_given(mega_program *p, int slot);
mega_dtype mega_program_acc_dtype(const mega_program *p); /* dtype of outputs documented as "acc" */
/* The caller's step block, in host memory. A run begins with a copy of it, and of the lengths that it points to, into
 * device memory, which kernels read. */
mega_step_block *mega_program_step_block(mega_program *p);
/* Writes the tables that ops have (the frequencies of rope) into the memory of the program. mega_program_allocate has
 * done so; a caller that overwrote this memory does it again. */
void mega_program_write_tables(mega_program *p);

/* Run the forward or backward of one micro-batch; they allocate no memory. A backward belongs to the last forward of
 * its slot and may run once, because it overwrites the data that it reads. Without that forward it returns
 * MEGA_ERR_USAGE; both return it before mega_program_allocate. A program without a backward stops computing once the
 * team of any rank of this host is asked to stop (mega_team_stop_on), except with MEGA_CHECK. Its results are then
 * meaningless, and the caller asks all ranks whether one was stopped (mega_world_stops). */
mega_status mega_program_forward(mega_program *p, int slot);
mega_status mega_program_backward(mega_program *p, int slot);
/* Returns whether the first micro-batch of a step (mega_step_block.first_micro_batch) overwrites the held gradient of
 * this parameter. If not, the program adds to the gradient, and the caller must zero it before the step. */
bool mega_program_overwrites_gradient(const mega_program *p, int param);
/* Returns whether the program sums the gradients of this bucket over dp. With ZeRO 2 and 3 it does so in every
 * micro-batch, otherwise only in the last of a step (mega_step_block.last_micro_batch). */
bool mega_program_reduces(const mega_program *p, int bucket);
mega_status mega_program_wait_reductions(mega_program *p); /* returns when all these sums are complete */
/* Returns the seconds in which the last forward or backward started such sums, waited for them or added them up. */
double mega_program_reduce_seconds(const mega_program *p);
/* Makes the runs of a program check the output of every instruction for values that are not finite. *found (borrowed)
 * records the first such instruction until the caller sets it to -1 again, and the run continues. NULL ends the
 * checks. */
typedef struct mega_nonfinite {
    int instruction;        /* -1: none yet */
    mega_error_record what; /* names the op, tensor and scope */
} mega_nonfinite;
void mega_program_watch(mega_program *p, mega_nonfinite *found);
/* Makes the runs of a program pass every value that an instruction computes to `observer`. Tests use it to find the
 * first instruction that differs between two layouts of ranks. NULL ends it. */
typedef struct mega_observed {
    const mega_program *program;
    int instruction;
    bool backward;
    bool is_partial; /* a partial sum, which a later collective sums over ranks */
    const char *op, *tensor;
    const void *data; /* [rows, cols], in memory of the host, valid during the call */
    void *place;      /* of the value on the device, for tests that plant a mistake */
    mega_dtype dtype;
    int64_t rows, cols;
} mega_observed;
typedef void mega_observer(void *user, const mega_observed *made);
void mega_program_observe(mega_program *p, mega_observer *observer, void *user);

/* With awaits_weights in the step block, a forward calls `wait` for the bucket of each weight that an instruction
 * reads, just before that instruction, and at its end for all weights of the program. The call returns when they have
 * arrived; it may be called again for the same bucket. user is borrowed. */
typedef mega_status mega_weights_wait(void *user, int bucket);
void mega_program_await_weights(mega_program *p, mega_weights_wait *wait, void *user);

typedef struct mega_program_memory {
    size_t saved_bytes;   /* per slot */
    size_t scratch_bytes; /* shared by forward and backward */
    size_t input_bytes;   /* inputs and outputs of all slots together */
    size_t state_bytes;   /* of all slots, without states that belong to another program */
    size_t control_bytes; /* the step block, lengths of caches, tables of ops */
    size_t packed_bytes;  /* copies of weights in packed form */
    int slots;
    size_t total_bytes;
    size_t live_bytes;   /* peak of saved and scratch over instructions: a lower bound for every plan */
    size_t shared_bytes; /* part of scratch_bytes that other programs may use between runs (mega_program_regions) */
    size_t shared_live;  /* the part of live_bytes in that memory */
    size_t bucket_bytes; /* peak of scratch for whole gradient buckets before their reduction to slices (ZeRO 2, 3), or
                              for gradients that are held in 16 bits, while they are computed (ZeRO 0, 1) */
    size_t gathered_bytes; /* peak of scratch for gathered weights (ZeRO 3) */
    size_t head_bytes;     /* peak of scratch for the head's chunks of logits and their gradients */
    size_t record_bytes;   /* heap memory for instructions, tensors and calls; not part of total_bytes */
} mega_program_memory;
void mega_program_memory_get(const mega_program *p, mega_program_memory *out);
/* FLOPs and bytes of one micro-batch, from the cost column of the op table (a multiply-add is 2 FLOPs). Recomputation
 * is counted separately. */
typedef struct mega_program_cost {
    double forward_flops, backward_flops, recompute_flops, bytes;
} mega_program_cost;
void mega_program_cost_get(const mega_program *p, mega_program_cost *out);
/* Writes the program as a table for people to read. */
mega_status mega_program_print(const mega_program *p, mega_buffer *out);
/* Collective over comm. Checks that all its ranks will make the same collective calls over it and over groups of higher
 * levels (mega_layout_level), in one order. If not, every rank fails and reports the first call that differs, with the
 * call of each rank. */
mega_status mega_program_compare_collectives(const mega_program *p, mega_comm *comm);
/* Returns the bytes, of all ranks of comm together, of the largest collective that an instruction starts over it. */
size_t mega_program_largest_collective(const mega_program *p, const mega_comm *comm);
/* The graphs that a GPU has recorded of a program, once each pass of a step of `micro_batches` has run twice. */
typedef struct mega_program_graphs {
    int64_t graphs, instructions; /* instructions: in all of them */
} mega_program_graphs;
mega_program_graphs mega_program_graphs_get(const mega_program *p, int64_t micro_batches);
int mega_program_num_instructions(const mega_program *p, bool backward);
const char *mega_program_custom_op(const mega_program *p); /* the name of its first custom op; NULL: it has none */

#endif
