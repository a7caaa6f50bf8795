/* Sums of whole numbers over the threads of a block, in the order of the threads. */
#ifndef MEGA_CUDA_ORDER_H
#define MEGA_CUDA_ORDER_H

#include "kernel.h"

typedef struct order_shared {
    uint32_t sum[2][ROW_THREADS];
} order_shared;

/* The sum of the numbers of the threads before this one; *all: of all threads. */
DEVICE uint32_t order_before(order_shared *s, uint32_t own, uint32_t *all)
{
    const unsigned x = thread_x();
    int turn = 0;
    s->sum[0][x] = own; /* an odd number of turns: what an earlier sum left is in sum[1] */
    block_barrier();
    for (unsigned far = 1; far < ROW_THREADS; far *= 2, turn ^= 1) {
        s->sum[turn ^ 1][x] = s->sum[turn][x] + (x >= far ? s->sum[turn][x - far] : 0);
        block_barrier();
    }
    *all = s->sum[turn][ROW_THREADS - 1];
    return s->sum[turn][x] - own;
}

#endif
