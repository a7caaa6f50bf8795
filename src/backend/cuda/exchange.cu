/* Exchange of two buffers; a thread has eight elements (optimizer_kernels.h). */
#include "kernel.h"

BODY void exchange_run(const mega_exchange_args *x, mega_dtype t)
{
    for (place p = place_first(1, x->count); place_goes_on(&p); place_next(&p)) {
        const eight a = load_eight(x->a, t, p.at, p.left), b = load_eight(x->b, t, p.at, p.left);
        store_eight(x->a, t, p.at, p.left, b);
        store_eight(x->b, t, p.at, p.left, a);
    }
}
KERNELS_BY_TYPE(exchange, mega_exchange_args, EIGHT_THREADS)
