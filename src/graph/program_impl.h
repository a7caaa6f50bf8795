/* Internals of a program: its graph, the memory plan, and the calls of every slot. */
#ifndef MEGA_PROGRAM_IMPL_H
#define MEGA_PROGRAM_IMPL_H

#include "graph_impl.h"
#include "megalith/program.h"
#include "profile_impl.h"

#define PLAN_ALIGN 64

/* A block of the saved or scratch arena. It holds a value, several values that overwrite each other in place, or the
 * scratch of a kernel. It is alive from instruction `first` to instruction `last`. */
typedef struct plan_block {
    size_t bytes; /* rounded up, including the canary */
    size_t at;
    size_t best_at; /* offset in the best placement so far */
    size_t used;    /* bytes before the canary */
    int first, last;
    double key;            /* sort key while offsets are searched: the smallest is placed first */
    int rank, times_above; /* position in that order; how often it ended above the bound */
    tensor_area area;
    int32_t tensor; /* its first value; 0: scratch of instruction `first` */
} plan_block;

typedef struct program_call {
    const mega_kernel *kernel; /* NULL: a collective or an instruction on a bucket */
    void *args;
    int instruction;
    bool prepared;
} program_call;

typedef struct collective_args {
    op_kind kind;
    int rank; /* rank in the group */
    mega_comm *comm;
    const char *what;
    void *data;
    const int32_t *needed; /* all_to_all: whether there is anything to exchange; NULL: there is */
    const void *in;        /* all_reduce: the input, copied to `data` first if the plan placed it elsewhere */
    int64_t count;         /* elements of one rank */
    mega_dtype dtype;
    mega_reduce reduce;
} collective_args;

/* Communication in progress (in_flight.c): a collective, which must complete before the instruction that reads its
 * result, or the exchange of a bucket, for which a separate instruction or the end of the step waits. */
typedef struct program_wait {
    mega_request request;
    int instruction; /* that started it */
    int before;      /* that reads its result; PROGRAM_UNTIL_STEP_END for the exchange of a bucket */
} program_wait;
enum {
    PROGRAM_COLLECTIVES = 16, /* the most collectives in progress; one more first waits for the oldest */
    PROGRAM_WAITS = PROGRAM_COLLECTIVES + 2 * MEGA_PROGRAM_REQUESTS,
    PROGRAM_UNTIL_STEP_END = -1
};

/* Arguments of an instruction on a bucket (bucket.c). */
typedef struct bucket_args {
    int bucket;
    /* whole: the bucket; this rank's slice of it starts at `first`. slice: the buffer of that slice. Of held_grad_zero
     * and held_grad_add: a gradient of the micro-batch, and the held gradient. */
    void *whole, *slice;
    int64_t first;   /* elements */
    int64_t count;   /* elements of `slice` */
    mega_dtype held; /* dtype of `slice`, if it is one of gradients */
    struct bucket_gap {
        int64_t first, count;
    } * gap; /* grads_zero, held_grad_zero: the ranges that it sets to zero */
    int num_gaps;
} bucket_args;

typedef struct program_recording program_recording; /* recording.c */
typedef struct program_stretch {
    int begin, end; /* instructions of one pass */
} program_stretch;

struct mega_program {
    mega_graph *g;
    mega_world *world;                /* borrowed; NULL: communication is not polled between instructions */
    program_wait wait[PROGRAM_WAITS]; /* in the order in which they were started */
    int num_waits, most_exchanges;    /* most_exchanges: of buckets, at one time */
    mega_backend_kind backend;
    mega_team *team;
    mega_queue queue; /* of the kernels */
    int threads, slots, passes;
    const char *name;
    int check; /* mega_check_level when the program was built */
    mega_program *states_of;
    plan_block *block;
    int num_blocks;
    size_t saved_bytes, scratch_bytes, io_bytes, pass_bytes, state_bytes; /* all but scratch: of one slot or pass */
    size_t crossing_bytes; /* with one slot: bytes of the scratch arena that the backward reads from the forward; else
                              0 */
    size_t live_bytes;     /* largest sum of blocks alive at one instruction */
    size_t scratch_live;   /* the same for the scratch arena alone */
    size_t head_bytes;     /* of these bytes, those that cross-entropy ops read and write */
    size_t held_bytes[3];  /* by bucket_use: the most alive at one instruction */
    bool borrows_memory;   /* the arenas are in regions of the caller */
    bool is_begun;         /* mega_program_allocate has started to take memory */
    bool is_allocated;     /* all calls can run */
    int pack_weights;      /* as in mega_program_options */
    size_t packed_bytes;   /* of weights that are kept packed */
    size_t control_bytes;  /* control.c */
    int64_t num_lengths;   /* of caches, that kernels read: the most sequences of an op with caches */
    char *scratch, *state, *packed, *control, **saved, **io, **pass;
    bool *is_forward_done;          /* [slots] whether a backward may follow */
    mega_error_record failed;       /* first failure in this run that did not end it */
    bool *has_given_gradient;       /* [slots] whether the caller gave the gradient of an output (output.c) */
    program_call *call;             /* [slots][num_ops] */
    char *call_args;                /* [slots][num_ops][PROGRAM_ARGS_BYTES] */
    mega_arena args;                /* what some of them point to */
    mega_step_block step;           /* the caller's; kernels read a copy (control.c) */
    double reduce_s;                /* of the last run (mega_program_reduce_seconds) */
    mega_profile *profile;          /* borrowed; NULL: runs are not timed */
    mega_profile_moment call_began; /* of the instruction that a profiled run is at */
    mega_nonfinite *nonfinite;      /* borrowed; NULL: runs are not watched */
    mega_observer *observer;        /* NULL: results of instructions are not observed */
    void *observer_user;
    bool may_use_library;            /* mega_program_options */
    bool records;                    /* the caller's wish */
    program_stretch *stretch;        /* [num_stretches] in the order of the program: what is recorded as one */
    int num_stretches;               /* 0: runs are not recorded */
    program_recording *recording;    /* [slots][num_stretches], in variants */
    mega_weights_wait *weights_wait; /* NULL: the weights are always there */
    void *weights_user;
};

/* probes.c: what is done beside running instruction i of a slot. NULL: nothing. A failure is kept in p->failed. */
typedef struct program_probe {
    void (*before)(mega_program *p, int i, int slot);
    void (*started)(mega_program *p, int i);             /* it has run; what it started may be in progress */
    void (*completed)(mega_program *p, int i, int slot); /* its results are complete */
    void (*after)(mega_program *p, int i, int slot);     /* the results that the next one reads are complete */
} program_probe;
const program_probe *mega_program_probe(const mega_program *p); /* of the run that begins; never NULL */

/* finite.c: marks what the loss scale multiplies, in the finished list of instructions. */
void mega_graph_mark_scaled(mega_graph *g);
/* Fails with MEGA_ERR_NUMERIC if a result of instruction i is not finite, and need be. Without `also_scaled`, gradients
 * that the loss scale multiplies are not looked at. */
mega_status mega_program_check_finite(mega_program *p, int i, int slot, bool also_scaled);
/* ops_custom.c: called after a custom op ran. Records its failure if it is the first in this run. */
void mega_custom_take_failure(mega_program *p, int instruction_number, const void *args);
/* bucket.c */
mega_status mega_bucket_bind(mega_program *p, const op_binder *b, const instruction *op, bucket_args *a);
mega_status mega_bucket_run(mega_program *p, int i, const bucket_args *a);
/* Completes the sum of a bucket whose gradients are summed where they are, after the wait. */
void mega_bucket_finish_sum(const mega_program *p, int bucket);
/* in_flight.c: starts instruction i, a collective. */
mega_status mega_collective_run(mega_program *p, int i, const collective_args *a);
/* Waits for one collective whose result instruction `next` or an earlier one reads. *waited receives the instruction
 * that started it, or -1 if there is none. */
mega_status mega_collectives_wait(mega_program *p, int next, int *waited);
/* Removes collectives that an earlier run left because it failed; nothing waits for them any more. */
void mega_collectives_drop_failed(mega_program *p);
/* mega_exchange_note_start: instruction i has started the exchange of a bucket. mega_exchange_wait waits for the
 * exchanges that instructions of this kind started for `bucket` (-1: for all buckets). */
mega_status mega_exchange_note_start(mega_program *p, int i, const mega_request *request);
mega_status mega_exchange_wait(mega_program *p, op_kind kind, int bucket);
int mega_exchanges(const mega_program *p); /* number of bucket exchanges in progress */
/* memory_plan.c: assigns an offset to every value and to the scratch of every kernel. */
mega_status mega_program_plan(mega_program *p);
/* memory_offsets.c: sets `at` of every block in the list and returns the bytes of the arena. *alive receives the
 * largest sum of bytes alive at one of the num_ops instructions. `room` is working memory of mega_plan_offsets_bytes
 * bytes. The list is reordered. */
size_t mega_plan_offsets(plan_block **list, int count, int num_ops, void *room, size_t *alive);
size_t mega_plan_offsets_bytes(int count, int num_ops);
/* control.c: assigns places to what kernels read besides tensors. */
void mega_control_plan(mega_program *p);
const void *mega_control_table(const op_binder *b, const instruction *op); /* op_binder.table */
const mega_step_block *mega_control_step(const mega_program *p);           /* what kernels read */
void mega_control_write(mega_program *p); /* before a run: the step block as it is now */
/* recording.c: on a device, a stretch of a run may be a recording of its launches, which the host asks for as one. */
mega_status mega_recordings_allocate(mega_program *p);
void mega_recordings_free(mega_program *p);
int mega_recording_find(const mega_program *p, int begin); /* that which begins with the instruction; -1: none */
mega_status mega_recording_run(mega_program *p, int slot, int stretch);
/* packed_weights.c: assigns buffers for packed weights to GEMMs. */
mega_status mega_plan_packed(mega_program *p);
/* Returns an address that is never read, for kernels that only check whether an optional operand is present. */
void *mega_plan_address(const op_binder *b, int32_t tensor);
const void *mega_plan_table(const op_binder *b, const instruction *op);
/* program.c: returns the kernel of an instruction for the backend of the program, or NULL for a collective or an
 * instruction on a bucket. */
const mega_kernel *mega_program_kernel(const mega_program *p, const instruction *op);
void mega_program_bind_args(const mega_program *p, const op_binder *b, const instruction *op, void *args);
#define PROGRAM_ARGS_BYTES 512 /* bytes for the arguments of any kernel */
/* Returns the address of a tensor after allocation, or NULL for tensor 0. */
void *mega_program_address(const mega_program *p, int32_t tensor, int slot);
mega_status mega_program_check_slot(const mega_program *p, int slot); /* MEGA_ERR_USAGE if there is no such slot */
int32_t mega_program_find(const mega_program *p, const char *name);   /* named tensor; 0: none */
/* print_cut.c: mega_graph_find_cuts sets `cut` of every tensor; mega_graph_shape_text writes a shape with it, such as
 * "[2048/2, 768] bf16". */
void mega_graph_find_cuts(mega_graph *g);
const char *mega_graph_shape_text(char *out, int size, const mega_graph *g, int32_t t);

#endif
