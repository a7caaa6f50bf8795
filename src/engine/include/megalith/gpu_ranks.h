/* Which GPUs the ranks of a world have, and who shares one. */
#ifndef MEGALITH_GPU_RANKS_H
#define MEGALITH_GPU_RANKS_H

#include "megalith/comm.h"

/* All zero: not asked yet. */
typedef struct mega_gpu_ranks {
    bool may_take;     /* --device auto: this rank takes a GPU if all can */
    bool is_known;     /* the members below are */
    bool each_has_own; /* every rank of the world has a GPU, or an instance of MIG, that no other rank has */
    int sharers;       /* ranks of this host on the GPU of this rank, itself included; 0: it has none */
    int gpus;          /* those that the ranks of this host have */
    char missing[320]; /* the first rank without a GPU that can, its host and the reason; empty: each has one */
} mega_gpu_ranks;

/* Collective. Compares the GPUs of the ranks: of each rank number `ordinal` of those that its driver shows, -1: none,
 * and no driver is asked. GPUs are identified by their UUIDs, so that a launcher may show each rank one of its own. A
 * rank without a GPU is no error. Does not change may_take. `world` may be NULL. */
MEGA_CHECK_RESULT mega_status mega_gpu_ranks_compare(mega_world *world, int64_t ordinal, mega_gpu_ranks *out);

#endif
