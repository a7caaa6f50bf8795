/* Measures the peak arithmetic rate of this machine; the training log's "percent of peak" is relative to it. */
#ifndef MEGALITH_PEAK_H
#define MEGALITH_PEAK_H

#include "megalith/dtype.h"
#include "megalith/threads.h"

/* Returns the FLOP/s of the whole team (a multiply-add is 2) on numbers of this type that stay in registers. Takes
 * about 50 ms for each kind of instruction. F32 measures multiply-adds. BF16 returns the fastest of multiply-adds, dot
 * products of pairs (twice as fast on Zen 4 and Zen 5, half as fast on Sapphire Rapids), and AMX tile products (sixteen
 * times as fast on Sapphire Rapids). F64 counts as half of F32. */
double mega_cpu_peak_flops(mega_team *team, mega_dtype dtype);

/* Peak FLOP/s as above, and the share of the time in which the threads had their cores during the best try. If the
 * share is below MEGA_PEAK_SHARE, other programs kept the cores busy, and the machine can do more than flops. */
typedef struct mega_peak {
    double flops, share;
} mega_peak;
#define MEGA_PEAK_SHARE 0.9
mega_peak mega_cpu_peak_measure(mega_team *team, mega_dtype dtype);

#endif
