/* Muon (muon.c) and its Newton-Schulz iteration (newton_schulz.c). */
#ifndef MEGALITH_MUON_H
#define MEGALITH_MUON_H

#include "elementwise.h"
#include "megalith/comm.h"
#include "optimizer_row.h"
#include "whole_tensors.h"

enum { MUON_MOST_STEPS = 99 }; /* of an iteration, as the range of --muon-num-ns-steps says */

/* The factor on the orthogonalized matrix [rows, cols]. */
double muon_scale(mega_muon_scale mode, double rows, double cols);

/* One orthogonalization. Its scratch: two matrices, two Gram matrices, and what the products need. */
typedef struct newton_schulz {
    mega_queue queue;
    mega_backend_kind backend;
    mega_dtype acc;
    int64_t rows, cols;    /* of this rank's part */
    bool by_columns;       /* the Gram matrix is X'X, over columns; otherwise XX' */
    const mega_axis *sums; /* over whose ranks Gram matrices are added; NULL: the matrix is not cut */
    int64_t steps;
    mega_muon_coefficients coefficients;
    char *scratch; /* newton_schulz_scratch bytes, aligned to 64 */
} newton_schulz;

newton_schulz newton_schulz_of(const whole_tensor *t, const mega_layout *layout, mega_dtype acc);
size_t newton_schulz_scratch(const newton_schulz *n);
/* Of the products; elements that are read and written; elements that are summed over tp. */
typedef struct newton_schulz_cost {
    double flops, elements, summed;
} newton_schulz_cost;
newton_schulz_cost newton_schulz_cost_of(const newton_schulz *n);
/* The matrix in the scratch that may be `in`: a caller puts the pieces of other ranks together there. */
void *newton_schulz_matrix(const newton_schulz *n);
/* Collective over `sums`. Writes an approximation of U V' to *out, where in = U S V'; in and *out may be the same
 * memory. If *out is NULL, it receives an address in the scratch. */
mega_status newton_schulz_run(const newton_schulz *n, const void *in, void **out);

#endif
