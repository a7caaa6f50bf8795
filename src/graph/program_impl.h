/* A program's inside: the graph it was made from, the memory plan, and the calls of every slot. */
#ifndef MEGA_PROGRAM_IMPL_H
#define MEGA_PROGRAM_IMPL_H

#include "graph_impl.h"
#include "megalith/program.h"
#include "profile_impl.h"

#define PLAN_ALIGN 64

/* One piece of the saved arena, the scratch arena: a value, several that follow one another in place, or a kernel's own
 * scratch. Lives from instruction `first` to instruction `last`. */
typedef struct plan_block {
    size_t bytes; /* rounded up, canary included */
    size_t at;
    size_t best_at; /* of the best placement so far */
    size_t used;    /* bytes before the canary */
    int first, last;
    double key;      /* while places are sought: the least is placed first, */
    int rank, blame; /* its place in that order, how often it ended too high */
    tensor_area area;
    int32_t tensor; /* the first value in it; 0: scratch of instruction `first` */
} plan_block;

typedef struct program_call {
    const mega_kernel *kernel; /* NULL: a collective */
    void *args;
    int instruction;
    bool prepared;
} program_call;

typedef struct collective_args {
    op_kind kind;
    int rank; /* in the group */
    mega_comm *comm;
    const char *what;
    void *data;
    const void *in; /* all_reduce: the input, copied to data first if the plan placed it elsewhere */
    int64_t count;  /* of one rank */
    mega_dtype dtype;
    mega_reduce reduce;
} collective_args;

/* What was begun and is waited for later (in_flight.c): a collective, which the instruction that uses it awaits, or the
 * exchange of a bucket, which an instruction of its own or the end of the step awaits. */
typedef struct program_wait {
    mega_request request;
    int instruction, before; /* which one; the instruction that uses it, PROGRAM_NEVER: of a bucket */
} program_wait;
enum {
    PROGRAM_COLLECTIVES = 16, /* where more collectives are begun, the first is waited for */
    PROGRAM_WAITS = PROGRAM_COLLECTIVES + 2 * MEGA_PROGRAM_REQUESTS,
    PROGRAM_NEVER = -1
};

/* Of an instruction on a bucket (bucket.c). */
typedef struct bucket_args {
    int bucket;
    void *whole;   /* the bucket; this rank's slice lies at `first` */
    void *slice;   /* where this rank's slice is kept */
    int64_t first; /* elements */
    struct bucket_gap {
        int64_t first, count;
    } * gap; /* grads_begin: what it sets to zero */
    int num_gaps;
} bucket_args;

struct mega_program {
    mega_graph *g;
    mega_world *world;                /* borrowed; NULL: nothing moves on between instructions */
    program_wait wait[PROGRAM_WAITS]; /* in the order in which they were begun */
    int num_waits, most_exchanges;    /* of buckets */
    mega_program_backend backend;
    mega_team *team;
    int threads, slots, passes;
    const char *name;
    int check; /* mega_check_level when it was built */
    mega_program *states_of;
    plan_block *block;
    int num_blocks;
    size_t saved_bytes, scratch_bytes, io_bytes, pass_bytes, state_bytes;
    size_t crossing_bytes; /* with one slot: what of the scratch arena the backward reads of the forward, else 0 */
    size_t live_bytes;     /* largest sum of blocks alive at one instruction */
    size_t scratch_live;   /* the same of the scratch arena alone */
    size_t head_bytes;     /* of those, what the cross-entropy reads and writes */
    size_t held_bytes[3];  /* by bucket_use: the most alive at one instruction */
    bool is_lent;          /* the arenas lie in regions of the caller's */
    bool is_begun;         /* mega_program_allocate has begun to take memory */
    bool is_allocated;     /* all of its calls can run */
    int pack_weights;      /* of mega_program_options */
    size_t packed_bytes;   /* of weights that are kept packed */
    char *scratch, *state, *packed, **saved, **io, **pass;
    bool *is_forward_done;    /* [slots] a backward may follow */
    mega_error_record failed; /* of a custom op in this run */
    bool *is_given;           /* [slots] the caller gave a gradient of an output (output.c) */
    program_call *call;       /* [slots][num_ops] */
    mega_arena args;
    mega_step_block step;
    mega_profile *profile;   /* borrowed; NULL: runs are not timed */
    mega_nonfinite *found;   /* borrowed; NULL: runs are not watched */
    mega_observer *observer; /* NULL: nobody is shown what instructions make */
    void *observer_user;
};

/* ops_custom.c: after a custom op ran: keeps its failure, if it failed and is the first that did in this run. */
void mega_custom_collect(mega_program *p, int instruction_number, const void *args);
/* bucket.c */
mega_status mega_bucket_bind(mega_program *p, const op_binder *b, const instruction *op, bucket_args *a);
mega_status mega_bucket_run(mega_program *p, int i, const bucket_args *a);
/* in_flight.c: begins instruction i, a collective. */
mega_status mega_collective_run(mega_program *p, int i, const collective_args *a);
/* Waits for one that instruction `next` uses; *waited is its instruction, -1: there is none. */
mega_status mega_collectives_wait(mega_program *p, int next, int *waited);
/* Some are left where an earlier run failed: nothing waits for them any more. */
void mega_collectives_forget(mega_program *p);
/* Notes that instruction i has begun the exchange of a bucket; waits for that of this kind and bucket, -1: any. */
mega_status mega_exchange_begun(mega_program *p, int i, const mega_request *request);
mega_status mega_exchange_wait(mega_program *p, op_kind kind, int bucket);
int mega_exchanges(const mega_program *p); /* under way */
/* memory_plan.c: places every value; asks kernels for their scratch. */
mega_status mega_program_plan(mega_program *p);
/* memory_offsets.c: offsets of these blocks, in `at`; returns the bytes that they take. `alive`: the largest sum of bytes
 * alive at one of num_ops instructions. `room` has mega_plan_offsets_bytes bytes; the order of the list is lost. */
size_t mega_plan_offsets(plan_block **list, int count, int num_ops, void *room, size_t *alive);
size_t mega_plan_offsets_bytes(int count, int num_ops);
/* packed_weights.c: where products keep their weights packed. */
mega_status mega_plan_packed(mega_program *p);
/* An address that is never read, for kernels that ask only whether an optional operand is there. */
void *mega_plan_address(const op_binder *b, int32_t tensor);
/* program.c: the kernel of an instruction under this program's backend; NULL for a collective. */
const mega_kernel *mega_program_kernel(const mega_program *p, const instruction *op);
void mega_program_bind_args(const mega_program *p, const op_binder *b, const instruction *op, void *args);
#define PROGRAM_ARGS_BYTES 512 /* room for the arguments of any kernel */
/* Address of a tensor once allocated; NULL for tensor 0. */
void *mega_program_address(const mega_program *p, int32_t tensor, int slot);
mega_status mega_program_check_slot(const mega_program *p, int slot); /* MEGA_ERR_USAGE: it has no such slot */
int32_t mega_program_find(const mega_program *p, const char *name);   /* named tensor, 0: none */
/* print_cut.c: fills `cut` of every tensor; "[2048/2, 768] bf16". */
void mega_graph_find_cuts(mega_graph *g);
const char *mega_graph_shape_text(char *out, int size, const mega_graph *g, int32_t t);

#endif
