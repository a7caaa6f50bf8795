/* Zeroing; a thread has eight elements (kernels.h). */
#include "kernel.h"

BODY void zero_run(const mega_zero_args *a, mega_dtype t)
{
    const eight none = {{0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}};
    for (place p = place_first(1, a->count); place_goes_on(&p); place_next(&p)) store_eight(a->x, t, p.at, p.left, none);
}
KERNELS_BY_TYPE(zero, mega_zero_args, EIGHT_THREADS)
