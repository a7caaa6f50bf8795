/* Tensors as optimizers see them that need whole ones (optimizer_table.c: Lamb their norms, Muon matrices). */
#ifndef MEGALITH_WHOLE_TENSORS_H
#define MEGALITH_WHOLE_TENSORS_H

#include "megalith/parameter.h"

/* A tensor: a parameter, or some of its parts that are consecutive in memory. */
typedef struct whole_tensor {
    int param;
    int file;           /* the number of its checkpoint tensor */
    int64_t first;      /* its first element in this rank's slice of the parameter */
    int64_t rows, cols; /* in that slice */
    int64_t whole[2];   /* over all ranks of tp */
    bool is_matrix;     /* Muon orthogonalizes it */
    bool is_cut;        /* over tp, along cut_dim */
    int cut_dim;
    int stored;   /* number of the first tensor of the list that the checkpoint stores under the same name: this one,
                   unless parameters share a tensor of the file. Lamb takes their norm together. */
    double flops; /* of its orthogonalization on this rank */
    int owner, round; /* of a matrix: the rank of its group that orthogonalizes it, and when */
} whole_tensor;

/* Consecutive tensors of the list that the same ranks hold, and the rounds of their matrices. */
typedef struct tensor_group {
    const mega_axis *axis; /* these ranks: dp, or edp of experts that ep divides */
    int first, end;
    int first_round, end_round;
} tensor_group;
enum { TENSOR_GROUPS = 2 };

/* Writes the tensors of the trained parameters, in the order of parameters and of memory, to list (NULL: only counts).
 * Those of experts that ep divides come behind all others, of which every rank of dp has the same: *out_first_expert
 * (NULL: not wanted) receives the number of the first. Parts of a parameter that are separate in the checkpoint are
 * separate tensors; with `splits` all parts of a matrix are. Parts along the columns stay together. */
int whole_tensors_list(const mega_params *params, bool splits, whole_tensor *list, int *out_first_expert);
/* Returns the name under which a checkpoint stores it. */
const char *whole_tensors_name(const mega_params *params, const whole_tensor *t);
/* Whether Muon orthogonalizes the parameter: a matrix, but no table of an embedding or a head. Reads only the
 * record. */
bool whole_tensors_is_matrix(const mega_param *p);
/* Deals the matrices of a group to its ranks so that each has about the same work: the most expensive first, each to
 * the rank that has the least work. Fills end_round: in each round every rank has one matrix or none. */
mega_status whole_tensors_deal(whole_tensor *list, tensor_group *group);

/* Return the elements of the flat buffers that belong to a tensor: all that this rank holds, and of them those in the
 * slice of rank `rank` of its group. */
mega_range whole_tensors_range(const mega_params *params, const whole_tensor *t);
mega_range whole_tensors_piece(const mega_params *params, const whole_tensor *t, int rank);

#endif
