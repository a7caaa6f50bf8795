/* What this machine's arithmetic can do at most, measured; the training log's "percent of peak" is against it. */
#ifndef MEGALITH_PEAK_H
#define MEGALITH_PEAK_H

#include "megalith/dtype.h"
#include "megalith/threads.h"

#ifdef __cplusplus
extern "C" {
#endif

/* FLOP/s of the whole team (a multiply-add is 2) on numbers of this type, in registers alone, about 50 ms for each
 * way there is. F32: multiply-adds. BF16: the fastest of these, of dot products of pairs (twice as fast on Zen 4 and
 * Zen 5, half as fast on Sapphire Rapids), and of products of AMX tiles (sixteen times there). F64 counts half of F32.
 */
double mega_cpu_peak_flops(mega_team *team, mega_dtype dtype);

/* The same, and the share of the time for which the threads of the best try had their cores: below MEGA_PEAK_SHARE,
 * other programs kept them busy, and the machine can do more than flops. */
typedef struct mega_peak {
    double flops, share;
} mega_peak;
#define MEGA_PEAK_SHARE 0.9
mega_peak mega_cpu_peak_measure(mega_team *team, mega_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif
