/* The instructions of the update program. */
#ifndef MEGALITH_UPDATE_IMPL_H
#define MEGALITH_UPDATE_IMPL_H

#include "megalith/compressed.h"
#include "megalith/device_memory.h"
#include "megalith/update.h"
#include "muon.h"
#include "optimizer_impl.h"

/* In the order in which they run, except that each bucket is updated and published before the next. */
typedef enum update_kind {
    UPDATE_SUM_TIED,    /* the gradient of a tied parameter, over its stages */
    UPDATE_REDUCE,      /* the gradients of a bucket, over dp */
    UPDATE_SUM_PARTIAL, /* gradients that are partial sums, over tp */
    UPDATE_SUM_LOSSES,  /* the numbers in mega_update_step.sum */
    UPDATE_NORM,        /* sums of a span of gradients: squares, zeros, values that are not finite */
    UPDATE_SUM_NORM,    /* the three sums of UPDATE_NORM, over the ranks of an axis */
    UPDATE_CHECK,       /* finiteness, clip factor */
    UPDATE_MOMENTUM,    /* 1-bit Adam: the momentum of a span on this rank */
    UPDATE_COMPRESS,    /* 1-bit Adam: the compressed mean of the momenta of a bucket, over dp */
    /* of optimizers that need whole tensors */
    UPDATE_PREPARE,     /* the states of a span, before tensors are looked at as wholes */
    UPDATE_SUM_TENSORS, /* the squares of all tensors, over an axis: Lamb */
    UPDATE_COLLECT,     /* the pieces of the matrices of a round, to the ranks of dp to which these were dealt: Muon */
    UPDATE_ORTHOGONALIZE, /* a matrix that was dealt to this rank */
    UPDATE_SPREAD,        /* the results of a round, back to the ranks that hold the pieces */
    UPDATE_SPAN,          /* the optimizer's update of a span */
    UPDATE_BUFFER,        /* running statistics, such as those of batch norm; a bias of the choice of experts */
    UPDATE_PUBLISH,       /* starts to gather the weights of a bucket over dp */
    UPDATE_KINDS
} update_kind;

/* 1-bit Adam exchanges gradients in some updates, and momenta in the others. */
typedef enum update_when { UPDATE_ALWAYS, UPDATE_WITH_GRADIENTS, UPDATE_WITH_MOMENTA } update_when;

typedef struct update_instruction {
    update_kind kind;
    update_when when;
    const mega_axis *axis;      /* over whose ranks it communicates; NULL: it does not */
    int bucket;                 /* -1: none */
    int number;                 /* of the tie, the optimizer's span, its tensor, or the round */
    int first_param, end_param; /* end_param 0: no parameter in particular */
    int64_t count;              /* elements */
    bool is_packed;             /* UPDATE_SUM_PARTIAL: of several parameters, copied into one buffer */
} update_instruction;

/* Launches of consecutive instructions. */
typedef struct update_recording {
    bool has_run, was_refused;
    mega_recording *work; /* NULL: not recorded */
} update_recording;

struct mega_update {
    mega_optimizer *optimizer;
    mega_params *params;
    const mega_layout *layout;
    mega_update_options options;
    update_instruction *list;
    int count, first_applied;      /* MEGA_UPDATE_APPLY begins with this instruction */
    int check;                     /* its place in the list */
    bool records;                  /* update_recording.c */
    update_recording recording[2]; /* of what is before the check, and of what is after it */
    void *scratch;
    void *requests; /* lists of the sum of a tied parameter */
    mega_update_step step;
    mega_update_block asked;     /* of mega_update_ask */
    mega_request *gather;        /* [buckets] in progress, or zero */
    mega_message *piece;         /* [2 ranks of dp] pieces of matrices of a round, ... */
    mega_request *moving;        /* ... and those in progress, or zero */
    int pending;                 /* how many of them are in progress */
    mega_profile *profile;       /* borrowed; NULL: runs are not profiled */
    mega_compressed *compressed; /* [parameters of the largest bucket] */
    char (*scope)[32];           /* [buckets] names in a profile, such as "bucket 3" */
};

/* update_make.c */
/* Writes the instructions to list, or only counts them if list is NULL. A pure function of the records of parameters,
 * their buckets, the layout, the optimizer's spans and the options. */
int update_make(const mega_update *u, update_instruction *list, int *first_applied);
int64_t update_packed_elements(const mega_update *u);
/* Returns the number of elements of parameter i's gradient that this rank owns and that are partial sums over tp; 0:
 * none. */
int64_t update_partial_elements(const mega_update *u, int i);
/* Returns the elements of a tied parameter whose gradient this rank sums over the stages. */
mega_range update_tied_range(const mega_update *u, int param);

/* update_whole.c: the instructions of optimizers that need whole tensors. */
/* Whether the ranks of the group have slices of its tensors. */
bool update_exchanges_pieces(const mega_update *u, const tensor_group *group);
size_t update_whole_scratch(const mega_update *u, const update_instruction *x);
newton_schulz_cost update_whole_cost(const mega_update *u, const update_instruction *x); /* of an orthogonalization */
/* Elements that this rank sends in the instruction. */
double update_pieces_sent(const mega_update *u, const update_instruction *x);
mega_status update_run_prepare(mega_update *u, const update_instruction *x);
mega_status update_run_sum_tensors(mega_update *u, const update_instruction *x);
mega_status update_run_collect(mega_update *u, const update_instruction *x);
mega_status update_run_orthogonalize(mega_update *u, const update_instruction *x);
mega_status update_run_spread(mega_update *u, const update_instruction *x);

/* update_compressed.c. Returns whether the instruction has its turn in this update. */
bool update_has_turn(const update_instruction *x, bool with_momenta);
/* Fills u->compressed with the tensors of a bucket, and returns their number. Without memory of states, only counts. */
int update_list_compressed(const mega_update *u, int bucket);
size_t update_compressed_scratch(const mega_update *u, int bucket);
double update_compressed_sent(const mega_update *u, int bucket);
mega_status update_run_momentum(mega_update *u, const update_instruction *x);
mega_status update_run_compressed(mega_update *u, const update_instruction *x);
/* The sums of the norm are over the gradients that ranks keep for themselves: makes them those of the root mean square
 * of the ranks' norms. */
void update_norm_of_ranks(const mega_update *u);

/* update_recording.c. Finds the check, and whether the update is recorded. */
void update_look_for_recordings(mega_update *u);
mega_status update_run_recorded(mega_update *u); /* MEGA_UPDATE_APPLY */
void update_forget_recordings(mega_update *u);
mega_status update_run_one(mega_update *u, int i); /* update_run.c: instruction i */

/* update_cost.c, update_print.c */
mega_update_cost update_cost(const mega_update *u, const update_instruction *x);
const char *update_kind_name(update_kind kind); /* in the printed program and in a profile */

/* update_check.c. Decides what becomes of the step: on all ranks alike, since they have the same numbers. */
mega_status update_check(mega_update *u);
/* Waits for the decision, and reads it. With update_defers_check that is not done by the check but at the end. */
mega_status update_read_verdict(mega_update *u);
bool update_defers_check(const mega_update *u);

#endif
