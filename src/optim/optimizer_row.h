/* Optimizers as rows: those built in (optimizer_table.c) and that of a caller take the same path (optimizer_row.c). */
#ifndef MEGALITH_OPTIMIZER_ROW_H
#define MEGALITH_OPTIMIZER_ROW_H

#include "megalith/kernels.h"
#include "megalith/optim.h"

/* Of a built-in row, mega_optimizer_call.option has all arguments of the list. */
#define ARGUMENT_NUMBER(kind, type, taken, name, setting, member, ...) ARGUMENT_##member,
enum { MEGA_OPTIMIZER_ARGUMENTS(ARGUMENT_NUMBER) OPTIMIZER_ARGUMENTS, OPTIMIZER_FORMULAS = 3 };
/* The argument of a call, or of an optimizer, by its member of mega_optimizer_options. */
#define ARGUMENT(call, member) ((call)->option[ARGUMENT_##member])

/* One update of consecutive elements: of a span. */
typedef struct optimizer_work {
    mega_optimizer_call call;
    void *state[MEGA_OPTIMIZER_STATES]; /* what call.state points to */
    mega_dtype compute;
    void *weight; /* copies of call.param rounded to `compute`, which are written too; NULL: none */
    mega_backend_kind backend;
    /* What a kernel takes instead of the numbers of the step in the call, which are for the caller's row: the block,
     * whose factor times this one is that of the gradients, and the numbers of the span's group for each of the row's
     * formulas. */
    const mega_update_block *block;
    double factor;
    const mega_kernel_id *formula;
    const double *number[OPTIMIZER_FORMULAS];
} optimizer_work;

/* What the update of an element depends on, besides itself and the numbers of the step. */
typedef enum optimizer_scope {
    SCOPE_ELEMENT, /* nothing */
    SCOPE_NORM,    /* norms of the whole tensor (lamb.c) */
    SCOPE_MATRIX   /* the whole matrix (muon.c); for other tensors nothing */
} optimizer_scope;

/* A built-in optimizer. Its row says what a caller's row says, without a list of options. */
typedef struct optimizer_builtin {
    mega_optimizer_row row;
    /* The formulas whose numbers it takes (megalith/optimizer_kernels.h); MEGA_KERNEL_NONE ends the list. The kernel of
     * the first updates all elements, or a function does, which chooses a kernel. */
    mega_kernel_id formula[OPTIMIZER_FORMULAS];
    void (*run)(const mega_queue *queue, const optimizer_work *w);
    /* Names of the numbers that continue from update to update (mega_update_block.carried); a checkpoint keeps them.
     * NULL: none. */
    const char *const *number;
    /* The states from first_residual on are what a compressed exchange has lost, of one rank of dp each
     * (update_compressed.c). It begins after freeze_step updates; the formula `momentum` computes state 0 before it.
     * MEGA_KERNEL_NONE: no exchange. */
    mega_kernel_id momentum;
    int first_residual;
    bool averages;         /* training and evaluation use different weights: see average.c */
    optimizer_scope scope; /* other than SCOPE_ELEMENT: the spans of elements end where tensors end */
    /* With such a scope: what each span computes before the exchange of norms or matrices, and how a span of a whole
     * tensor is updated after it. */
    void (*prepare)(struct mega_optimizer *o, int i);
    void (*update_whole)(struct mega_optimizer *o, int i);
} optimizer_builtin;

/* Returns the row of the table; NULL: there is no such kind. */
const optimizer_builtin *optimizer_builtin_of(mega_optimizer_kind kind);
/* Returns the row that these options choose: their kind, in one of its variants. */
const optimizer_builtin *optimizer_builtin_for(const mega_optimizer_options *o);
/* Reads the arguments of a built-in row, and checks those that it reads. */
mega_status optimizer_builtin_arguments(const optimizer_builtin *b, const mega_optimizer_options *from,
                                        double out[OPTIMIZER_ARGUMENTS]);

mega_status mega_optimizer_row_check(const mega_optimizer_row *row);
int mega_optimizer_row_states(const mega_optimizer_row *row);
/* Updates all elements of the work by the function of the row. */
void mega_optimizer_row_run(const mega_optimizer_row *row, mega_team *team, const optimizer_work *w);

#endif
