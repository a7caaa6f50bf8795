/* a * b; a thread has eight elements (ops_elementwise.h). */
#include "kernel.h"

BODY void mul_run(const mega_mul_args *a, mega_dtype t)
{
    for (place p = place_first(1, a->count); place_goes_on(&p); place_next(&p)) {
        eight x = load_eight(a->a, t, p.at, p.left);
        const eight y = load_eight(a->b, t, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) x.v[k] *= y.v[k];
        store_eight(a->y, t, p.at, p.left, x);
    }
}
KERNELS_BY_TYPE(mul, mega_mul_args, EIGHT_THREADS)
