/* Running statistics, and a bias of the choice of experts; a thread has eight elements (optimizer_kernels.h). */
#include "kernel.h"

BODY void running_run(const mega_running_args *a, mega_dtype t)
{
    if (MEGA_UPDATE_IS_REFUSED(a->block)) return;
    for (place p = place_first(1, a->count); place_goes_on(&p); place_next(&p)) {
        const eight x = load_eight(a->x, MEGA_F32, p.at, p.left);
        eight y = load_eight(a->y, MEGA_F32, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) y.v[k] = (float)(a->kept * (double)y.v[k] + a->added * (double)x.v[k]);
        store_eight(a->y, MEGA_F32, p.at, p.left, y);
        if (a->weight != NULL) store_eight(a->weight, t, p.at, p.left, y);
    }
}
KERNELS_BY_TYPE(running, mega_running_args, EIGHT_THREADS)

BODY void choice_bias_run(const mega_choice_bias_args *a, mega_dtype t)
{
    if (MEGA_UPDATE_IS_REFUSED(a->block)) return;
    for (place p = place_first(1, a->count); place_goes_on(&p); place_next(&p)) {
        const eight x = load_eight(a->x, MEGA_F32, p.at, p.left);
        eight y = load_eight(a->y, MEGA_F32, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) {
            const double missing = a->mean - (double)x.v[k];
            y.v[k] = (float)((double)y.v[k] + (missing > 0.0 ? a->rate : missing < 0.0 ? -a->rate : 0.0));
        }
        store_eight(a->y, MEGA_F32, p.at, p.left, y);
        if (a->weight != NULL) store_eight(a->weight, t, p.at, p.left, y);
    }
}
KERNELS_BY_TYPE(choice_bias, mega_choice_bias_args, EIGHT_THREADS)
