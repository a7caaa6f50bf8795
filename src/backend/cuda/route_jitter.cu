/* The jitter of a router's input; a thread has eight elements of a row (ops_route.h). */
#include "dropout.h"

BODY void route_jitter_run(const mega_route_jitter_args *a, mega_dtype t)
{
    for (place p = place_first(a->rows, a->cols); place_goes_on(&p); place_next(&p)) {
        if (p.left <= 0) continue;
        const bits_eight bits = dropout_bits(a->head.step, a->site, a->sample_id[p.row],
                                             (uint64_t)(a->seq_position[p.row] * a->cols + p.col));
        const float step = (float)(a->jitter * (1.0 / 65536.0));
        eight x = load_eight(a->x, t, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) x.v[k] *= 1.0f + step * (float)(2 * (int)bits.v[k] - 65535);
        store_eight(a->y, t, p.at, p.left, x);
    }
}
KERNELS_BY_TYPE(route_jitter, mega_route_jitter_args, EIGHT_THREADS)
