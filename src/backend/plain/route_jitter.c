/* The jitter of a router's input, which is also its gradient: plain kernel (ops_route.h). */
#include "backend_impl.h"

static void plain_route_jitter_run(const mega_queue *queue, const void *args)
{
    const mega_route_jitter_args *a = args;
    const mega_step_block *s = a->head.step;
    const mega_dtype t = a->head.dtype;
    (void)queue;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < a->cols; c++) {
            const uint64_t element = (uint64_t)a->seq_position[r] * (uint64_t)a->cols + (uint64_t)c;
            const mega_philox bits = mega_philox_dropout(s->seed, a->site, s->step, a->sample_id[r], element >> 3);
            const double u = (2.0 * mega_dropout_bits(bits, (int)(element & 7)) - 65535.0) / 65536.0;
            put(a->y, t, r * a->cols + c, get(a->x, t, r * a->cols + c) * (1.0 + a->jitter * u));
        }
}

const mega_kernel mega_plain_route_jitter = {.name = "route_jitter", .run = plain_route_jitter_run};
