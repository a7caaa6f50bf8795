/* GELU of x + bias; a thread has eight elements of a row (ops_elementwise.h). */
#include "functions.h"

BODY void gelu_run(const mega_gelu_args *a, mega_dtype t)
{
    for (place p = place_first(a->rows, a->cols); place_goes_on(&p); place_next(&p)) {
        eight x = load_eight(a->x, t, p.at, p.left), bias;
        if (a->bias != NULL) bias = load_eight(a->bias, t, p.col, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) x.v[k] = gelu_of(a->bias != NULL ? x.v[k] + bias.v[k] : x.v[k], a->tanh_form);
        store_eight(a->y, t, p.at, p.left, x);
    }
}
KERNELS_BY_TYPE(gelu, mega_gelu_args, EIGHT_THREADS)
