/* What this machine's arithmetic can do at most, measured; the training log's "percent of peak" is against it. */
#ifndef MEGALITH_PEAK_H
#define MEGALITH_PEAK_H

#include "megalith/dtype.h"
#include "megalith/threads.h"

/* FLOP/s of the whole team (a multiply-add is 2) on numbers of this type: multiply-adds in registers alone, about 50
 * ms. BF16 where the processor has its dot product counts twice F32, which is that instruction's rate on Zen 4 and Zen
 * 5 (469 and 1037 GFLOP/s measured beside 235 and 521); elsewhere bf16 is computed in float. F64 counts half. */
double mega_cpu_peak_flops(mega_team *team, mega_dtype dtype);

#endif
