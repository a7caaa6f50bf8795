/* What the two forms of cross-entropy share: the gradient of a row whose maximum and sum of exponentials are known. */
#ifndef MEGA_BACKEND_XENT_ROW_H
#define MEGA_BACKEND_XENT_ROW_H

#include "backend_impl.h"
#include <math.h>

typedef struct xent_row {
    const void *logits;
    void *dlogits;
    mega_dtype acc, type;           /* of the logits, of their gradient */
    int64_t at, cols, valid, label; /* where the row begins; the label may lie outside */
    double max, sum, factor;
} xent_row;

/* What the loss of a token counts in the gradient; a mask of zeros divides by one. */
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
