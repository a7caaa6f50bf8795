/* What a micro-batch adds to a gradient, of F32 or held in 16 bits; a thread has eight elements (kernels.h). */
#include "kernel.h"

BODY void accumulate_run(const mega_accumulate_args *a, mega_dtype held)
{
    for (place p = place_first(1, a->count); place_goes_on(&p); place_next(&p)) {
        eight sum = load_eight(a->x, MEGA_F32, p.at, p.left);
        if (!a->overwrites) {
            const eight y = load_eight(a->y, held, p.at, p.left);
            UNROLL
            for (int k = 0; k < 8; k++) sum.v[k] += y.v[k];
        }
        store_eight(a->y, held, p.at, p.left, sum);
    }
}
KERNELS_BY_TYPE(accumulate, mega_accumulate_args, EIGHT_THREADS)
