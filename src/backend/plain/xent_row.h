/* Shared by the two forms of cross-entropy: the gradient of a row whose maximum and sum of exponentials are known. */
#ifndef MEGA_BACKEND_XENT_ROW_H
#define MEGA_BACKEND_XENT_ROW_H

#include "backend_impl.h"
#include <math.h>

typedef struct xent_row {
    const void *logits;
    void *dlogits;
    mega_dtype acc, type;           /* acc: of the logits; type: of their gradient */
    int64_t at, cols, valid, label; /* at: first element of the row; label: may be out of range */
    double max, sum, factor;
} xent_row;

/* Returns the factor of a token's loss in the gradient; a denominator of 0 counts as 1. */
static inline double xent_factor(const void *denominator, mega_dtype acc, double mask, double coefficient,
                                 const mega_step_block *step)
{
    const double d = denominator != NULL ? get(denominator, acc, 0) : 1.0;
    return mask * (coefficient * step->loss_factor) / (d != 0.0 ? d : 1.0);
}

static inline void xent_row_gradient(const xent_row *r)
{
    for (int64_t v = 0; v < r->cols; v++) {
        double d = 0.0;
        if (v < r->valid) d = exp(get(r->logits, r->acc, r->at + v) - r->max) / r->sum - (v == r->label ? 1.0 : 0.0);
        put(r->dlogits, r->type, r->at + v, d * r->factor);
    }
}

#endif
